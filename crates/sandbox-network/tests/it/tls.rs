//! The name in a TLS hello against the host of the connection.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use sandbox_network::{ConnectionVerdict, Refusal, TlsName};

use crate::world::{World, assert_echoes, echo_server, read_to_end, server};

fn u16_prefixed(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[..], bytes].concat()
}

fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &u16_prefixed(value)].concat()
}

fn server_name(name: &str) -> Vec<u8> {
    let entry = [&[0][..], &u16_prefixed(name.as_bytes())].concat();
    extension(0, &u16_prefixed(&entry))
}

const ENCRYPTED: u16 = 0xfe0d;

/// A hello with these extensions, in records of a size.
fn hello(extensions: &[Vec<u8>], size: usize) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(u16_prefixed(&extensions.concat()));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    let record = |fragment: &[u8]| [&[22, 3, 1][..], &u16_prefixed(fragment)].concat();
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn the_same_name_passes_and_another_is_refused_with_an_alert() {
    let port = echo_server();
    let encrypted = extension(ENCRYPTED, &[0; 8]);
    for (host, extensions, outcome) in [
        ("a.test", vec![server_name("a.test")], Ok(TlsName::Matching)),
        (
            "A.test.",
            vec![server_name("A.TEST")],
            Ok(TlsName::Matching),
        ),
        ("a.test", vec![], Ok(TlsName::NotSeen)),
        ("a.test", vec![encrypted.clone()], Ok(TlsName::NotSeen)),
        (
            "a.test",
            vec![server_name("a.test"), encrypted.clone()],
            Ok(TlsName::NotSeen),
        ),
        ("a.test", vec![server_name("b.test")], Err("b.test")),
        ("a.test", vec![server_name("x.a.test")], Err("x.a.test")),
        ("a.test", vec![server_name("127.0.0.1")], Err("127.0.0.1")),
        ("a.test", vec![server_name("a.test\0")], Err("a.test\\0")),
        (
            "a.test",
            vec![server_name("b.test"), encrypted],
            Err("b.test"),
        ),
    ] {
        for size in [1, 7, 16_000] {
            let world = World::new(&["*.test"], &[]);
            let bytes = hello(&extensions, size);
            let mut tunnel = world.tunnel(host, port).unwrap();
            match outcome {
                Ok(name) => {
                    assert_echoes(&mut tunnel, &bytes);
                    drop(tunnel);
                    let record = world.only_record();
                    assert_eq!(record.tls_name, name, "{host} {size}");
                    assert_eq!(record.verdict, ConnectionVerdict::Allowed);
                }
                Err(other) => {
                    tunnel.write_all(&bytes).unwrap();
                    let mut alert = Vec::new();
                    tunnel.read_to_end(&mut alert).unwrap();
                    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 112], "{other} {size}");
                    drop(tunnel);
                    let record = world.only_record();
                    assert_eq!(record.verdict, ConnectionVerdict::Refused);
                    assert_eq!(record.sent, 0, "the server has seen nothing");
                    assert_eq!(record.reason, Some(Refusal::OtherTlsName(other.to_owned())));
                }
            }
        }
    }
}

#[test]
fn an_address_that_a_client_wrote_itself_is_not_compared() {
    let port = echo_server();
    let world = World::new(&[&format!("127.0.0.1:{port}")], &[]);
    let mut tunnel = world.tunnel("127.0.0.1", port).unwrap();
    assert_echoes(&mut tunnel, &hello(&[server_name("b.test")], 16_000));
    drop(tunnel);
    assert_eq!(world.only_record().tls_name, TlsName::NotCompared);
}

#[test]
fn nothing_of_a_hello_passes_before_it_is_complete() {
    let (seen, first) = mpsc::channel();
    let port = server(move |mut stream| {
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        seen.send(bytes[..read].to_vec()).unwrap();
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    let bytes = hello(&[server_name("a.test")], 16_000);
    let (start, rest) = bytes.split_at(bytes.len() - 3);
    tunnel.write_all(start).unwrap();
    let early = first.recv_timeout(Duration::from_millis(300));
    assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
    tunnel.write_all(rest).unwrap();
    assert_eq!(first.recv_timeout(crate::world::WATCHDOG), Ok(bytes));
}

#[test]
fn a_hello_that_is_not_completed_or_not_valid_ends_the_connection() {
    let port = echo_server();
    for (bytes, reason) in [
        (
            hello(&[server_name("a.test")], 50)[..60].to_vec(),
            "it is not completed",
        ),
        (vec![22, 3, 1, 0, 0], "a record has an invalid length"),
        (
            hello(&[server_name("a.test"), server_name("b.test")], 1000),
            "it has several server names",
        ),
        (vec![22, 3, 1, 0, 4, 1, 1, 0, 0], "it is too long"),
        (
            [
                vec![21, 3, 1, 0, 2, 1, 90],
                hello(&[server_name("b.test")], 1000),
            ]
            .concat(),
            "the client does not begin with it",
        ),
    ] {
        let world = World::with(&["a.test"], &[], |options| {
            options.limits.handshake_timeout = Duration::from_secs(2);
        });
        let mut tunnel = world.tunnel("a.test", port).unwrap();
        tunnel.write_all(&bytes).unwrap();
        read_to_end(tunnel);
        let record = world.only_record();
        assert_eq!(record.reason, Some(Refusal::InvalidHello(reason)));
        assert_eq!(record.sent, 0);
    }
}

#[test]
fn a_server_may_speak_first_and_other_protocols_pass_at_once() {
    let port = server(|mut stream| {
        stream.write_all(b"SSH-2.0-server\r\n").unwrap();
        crate::world::echo(stream);
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    let mut banner = [0; 16];
    tunnel.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"SSH-2.0-server\r\n");
    assert_echoes(&mut tunnel, b"S");
    assert_echoes(&mut tunnel, b"SH-2.0-client\r\n");
    drop(tunnel);
    assert_eq!(world.only_record().tls_name, TlsName::NotTls);
}
