//! The host that an HTTP request names against the host of the connection.

use std::io::{Read, Write};
use std::sync::mpsc;

use sandbox_network::{ConnectionVerdict, Refusal};

use crate::world::{WATCHDOG, World, assert_echoes, echo_server, read_to_end, server};

#[test]
fn requests_for_the_host_pass_as_they_are() {
    let port = echo_server();
    for head in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: A.TEST.:8080\r\nContent-Length: 1\r\n\r\nx",
        "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\nHost: a.test\n\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET key\r\nHost: b.test\r\n",
    ] {
        let world = World::new(&["a.test"], &[]);
        let mut tunnel = world.tunnel("a.test", port).unwrap();
        assert_echoes(&mut tunnel, head.as_bytes());
        drop(tunnel);
        assert_eq!(world.only_record().verdict, ConnectionVerdict::Allowed);
    }
}

#[test]
fn a_request_for_another_host_is_refused_before_the_server_sees_it() {
    let port = echo_server();
    let other = |host: &str| Refusal::OtherHttpHost(host.to_owned());
    for (head, reason) in [
        ("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", other("b.test")),
        (
            "GET / HTTP/1.1\r\nHost: b.test:80\r\n\r\n",
            other("b.test:80"),
        ),
        (
            "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            other("b.test"),
        ),
        (
            "CONNECT b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
            other("b.test:443"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
            Refusal::InvalidHttp("it has several Host headers"),
        ),
    ] {
        let world = World::new(&["*.test"], &[]);
        let mut tunnel = world.tunnel("a.test", port).unwrap();
        tunnel.write_all(head.as_bytes()).unwrap();
        let answer = read_to_end(tunnel);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        let text = format!("a.test:{port} is refused: {reason}\n");
        assert!(answer.ends_with(&text), "{answer}");
        let record = world.only_record();
        assert_eq!(record.verdict, ConnectionVerdict::Refused);
        assert_eq!(record.reason, Some(reason));
        assert_eq!(record.sent, 0, "the server has seen nothing");
    }
}

#[test]
fn of_slow_bytes_the_server_sees_no_line_that_names_another_host() {
    let (seen, all) = mpsc::channel();
    let port = server(move |mut stream| {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = seen.send(String::from_utf8(bytes).unwrap());
    });
    let world = World::new(&["*.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    // Until the broker resets the connection.
    for byte in b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n" {
        if tunnel.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    read_to_end(tunnel);
    let seen = all.recv_timeout(WATCHDOG).unwrap();
    assert!(!seen.contains("b.test\r\n"), "{seen:?}");
    let reason = Refusal::OtherHttpHost("b.test".to_owned());
    assert_eq!(world.only_record().reason, Some(reason));
}

#[test]
fn every_byte_of_a_slow_request_or_of_another_protocol_passes_at_once() {
    let port = echo_server();
    for text in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET",
        "AUTH x",
        "\r\n\r\n",
    ] {
        let world = World::new(&["a.test"], &[]);
        let mut tunnel = world.tunnel("a.test", port).unwrap();
        for byte in text.bytes() {
            assert_echoes(&mut tunnel, &[byte]);
        }
        drop(tunnel);
        assert_eq!(world.only_record().verdict, ConnectionVerdict::Allowed);
    }
}

#[test]
fn a_server_that_speaks_first_is_not_waited_for() {
    let port = server(|mut stream| {
        stream.write_all(b"220 a.test\r\n").unwrap();
        crate::world::echo(stream);
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    let mut banner = [0; 12];
    tunnel.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"220 a.test\r\n");
    assert_echoes(&mut tunnel, b"EHLO b.test\r\nHost: b.test\r\n");
}

#[test]
fn an_address_that_a_client_wrote_itself_is_not_compared() {
    let port = echo_server();
    let world = World::new(&[&format!("127.0.0.1:{port}")], &[]);
    let mut tunnel = world.tunnel("127.0.0.1", port).unwrap();
    assert_echoes(&mut tunnel, b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
}
