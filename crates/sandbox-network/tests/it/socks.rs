//! SOCKS 5.

use std::io::{Read, Write};
use std::net::TcpStream;

use sandbox_network::{Protocol, ProxyToken, Refusal};

use crate::world::{World, assert_echoes, echo_server, read_to_end};

const NAME: u8 = 3;

fn name(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    [&[NAME, length][..], text.as_bytes()].concat()
}

fn v4(address: [u8; 4]) -> Vec<u8> {
    [&[1][..], &address].concat()
}

fn v6(address: &str) -> Vec<u8> {
    let address: std::net::Ipv6Addr = address.parse().unwrap();
    [&[4][..], &address.octets()].concat()
}

/// Asks for a command with an address and returns the reply's code, with the connection.
fn ask(world: &World, command: u8, address: &[u8], port: u16) -> (u8, TcpStream) {
    let mut client = world.client();
    client.write_all(&[5, 2, 2, 0]).unwrap();
    let mut method = [0; 2];
    client.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    let request = [&[5, command, 0], address, &port.to_be_bytes()].concat();
    client.write_all(&request).unwrap();
    let mut reply = [0; 10];
    client.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[2], reply[3]), (5, 0, 1));
    (reply[1], client)
}

#[test]
fn names_and_named_addresses_are_connected() {
    let port = echo_server();
    let literal = format!("127.0.0.1:{port}");
    let world = World::new(&["a.test", &literal], &["127.0.0.9:1"]);
    for address in [name("A.Test."), v4([127, 0, 0, 1]), name("127.0.0.1")] {
        let (code, mut client) = ask(&world, 1, &address, port);
        assert_eq!(code, 0, "{address:?}");
        assert_echoes(&mut client, b"hello");
    }
    let report = world.finish();
    let hosts: Vec<_> = report
        .connections
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    assert_eq!(hosts.len(), 3);
    assert!(
        report
            .connections
            .iter()
            .all(|one| one.protocol == Protocol::Socks)
    );
}

#[test]
fn everything_else_is_refused_with_its_code() {
    let port = echo_server();
    let world = World::new(&["a.test", "missing.example"], &[]);
    let requests = [
        (1, name("b.test"), 2),
        (1, v4([127, 0, 0, 1]), 2),
        (1, name("127.0.0.1"), 2),
        (1, v6("::1"), 2),
        (1, v6("::ffff:127.0.0.1"), 2),
        (1, v6("64:ff9b::7f00:1"), 2),
        (1, name("127.1"), 2),
        (1, name("2130706433"), 2),
        (1, name("a.test\0.b"), 2),
        (1, name(""), 2),
        (1, name("missing.example"), 4),
        (2, name("a.test"), 7),
        (3, name("a.test"), 7),
        (1, vec![9], 8),
    ];
    let count = requests.len();
    for (command, address, code) in requests {
        let (replied, client) = ask(&world, command, &address, port);
        assert_eq!(replied, code, "{command} {address:?}");
        assert_eq!(read_to_end(client), "");
    }
    assert_eq!(world.names.asked(), ["missing.example"]);
    let report = world.finish();
    assert_eq!(report.connections.len(), count, "each has a record");
    let bind = report.connections.iter().find(|one| one.host == "a.test");
    let only_connect = Refusal::Malformed("only CONNECT is served".to_owned());
    assert_eq!(bind.unwrap().reason, Some(only_connect));
    let odd = report
        .connections
        .iter()
        .find(|one| one.host.contains('\0'));
    assert_eq!(odd, None, "control characters are escaped");
}

#[test]
fn other_versions_and_authentication_are_refused() {
    let world = World::new(&["a.test"], &[]);
    let mut older = world.client();
    older
        .write_all(b"\x04\x01\x00\x50\x0a\x00\x00\x01me\x00")
        .unwrap();
    let mut reply = [0; 8];
    older.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [0, 91, 0, 0, 0, 0, 0, 0]);
    let mut old = world.client();
    old.write_all(b"\x04\x01\x00\x50\x00\x00\x00\x01\x00a.test\x00")
        .unwrap();
    let mut reply = [0; 8];
    old.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [0, 91, 0, 0, 0, 0, 0, 0]);
    let mut with_password = world.client();
    with_password.write_all(&[5, 1, 2]).unwrap();
    let mut reply = [0; 2];
    with_password.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [5, 0xff]);
    assert_eq!(read_to_end(with_password), "");
    let report = world.finish();
    let targets = report.connections.iter();
    let targets: Vec<_> = targets.map(|one| (one.host.as_str(), one.port)).collect();
    assert_eq!(targets, [("10.0.0.1", 80), ("a.test", 80), ("", 0)]);
}

#[test]
fn a_proxy_with_a_token_takes_it_as_the_password() {
    let port = echo_server();
    let token = ProxyToken::new("0123456789abcdef").ok();
    let world = World::with_token(&["a.test"], &[], token, |_| {});
    let greet = |methods: &[u8], method: u8| {
        let mut client = world.client();
        let count = u8::try_from(methods.len()).unwrap();
        client.write_all(&[&[5, count], methods].concat()).unwrap();
        let mut chosen = [0; 2];
        client.read_exact(&mut chosen).unwrap();
        assert_eq!(chosen, [5, method]);
        client
    };
    greet(&[0], 0xff);
    for (password, outcome) in [
        (&b"0123456789abcdeg"[..], 1),
        (b"", 1),
        (b"0123456789abcdef", 0),
    ] {
        let mut client = greet(&[0, 2], 2);
        let length = u8::try_from(password.len()).unwrap();
        let message = [&[1, 2, b'm', b'e', length], password].concat();
        client.write_all(&message).unwrap();
        let mut answer = [0; 2];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [1, outcome], "{password:?}");
        if outcome == 0 {
            let request = [&[5, 1, 0][..], &name("a.test"), &port.to_be_bytes()].concat();
            client.write_all(&request).unwrap();
            let mut reply = [0; 10];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(reply[1], 0);
            assert_echoes(&mut client, b"hello");
        } else {
            assert_eq!(read_to_end(client), "");
        }
    }
}
