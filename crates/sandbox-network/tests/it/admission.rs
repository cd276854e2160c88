//! Clients for which the broker has no place: they wait for a bounded time and in a bounded number,
//! and learn of the refusal in the words of their protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use sandbox_network::{BrokerOptions, ConnectionVerdict, Listeners, Protocol, Refusal};

use crate::world::{
    WATCHDOG, World, ask_for_tunnel, assert_echoes, connect, echo_server, read_head, wait_until,
};

/// One connection at a time, and a short wait for it.
fn one_place(options: &mut BrokerOptions) {
    options.limits.connections = 1;
    options.limits.place_timeout = Duration::from_millis(100);
}

fn assert_ends(mut client: TcpStream) {
    match client.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_without_a_place_is_refused_in_its_protocol() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], one_place);
    let mut held = world.tunnel("held.test", port).unwrap();

    let answer = world.tunnel("a.test", 443).unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let text = "a.test:443: too many connections are open\n";
    assert!(answer.ends_with(text), "{answer}");

    let get = "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let answer = world.exchange(&get.repeat(2));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    let text = "b.test:80: too many connections are open\n";
    assert!(answer.ends_with(text), "{answer}");

    let mut socks = world.client();
    socks
        .write_all(b"\x05\x01\x00\x05\x01\x00\x03\x06c.test\x00\x50")
        .unwrap();
    let mut reply = [0; 12];
    socks.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 1], "a general failure");

    // The place is free again.
    assert_echoes(&mut held, b"hello");
    drop((held, socks));
    let mut later = world.tunnel("later.test", port).unwrap();
    assert_echoes(&mut later, b"hello");
    drop(later);

    let report = world.finish();
    let refused: Vec<_> = report
        .connections
        .iter()
        .filter(|one| one.reason == Some(Refusal::TooManyConnections))
        .map(|one| (one.host.as_str(), one.port, one.protocol, one.verdict))
        .collect();
    let failed = ConnectionVerdict::Failed;
    assert_eq!(
        refused,
        [
            ("a.test", 443, Protocol::Connect, failed),
            ("b.test", 80, Protocol::Http, failed),
            ("c.test", 80, Protocol::Socks, failed),
        ]
    );
    assert!(report.waited >= 3, "{}", report.waited);
}

/// A service with a forwarder, and its address.
fn forwarder(world: &World) -> (sandbox_network::BrokerService, SocketAddr) {
    let forwarder = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = forwarder.local_addr().unwrap();
    let service = world.broker.serve(Listeners {
        forwarders: vec![forwarder],
        ..Listeners::default()
    });
    (service.unwrap(), at)
}

#[test]
fn a_direct_connection_without_a_place_is_reset() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], one_place);
    let held = world.tunnel("held.test", port).unwrap();
    let (service, at) = forwarder(&world);
    let error = connect(at).read(&mut [0]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    drop(held);
    let record = service.finish().connections.remove(0);
    assert_eq!(record.reason, Some(Refusal::TooManyConnections));
    assert_eq!(
        (record.host.as_str(), record.port),
        ("127.0.0.1", at.port())
    );
}

#[test]
fn a_client_beyond_the_number_that_may_wait_is_refused_at_once() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], |options| {
        options.limits.connections = 1;
        options.limits.service_waiting = 1;
        // Not within this test.
        options.limits.place_timeout = WATCHDOG;
    });
    let held = world.tunnel("held.test", port).unwrap();
    let mut waiting = ask_for_tunnel(world.proxy, "waiting.test", port);
    // The listener's clients arrive in order.
    let answer = world.tunnel("third.test", port).unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    // While one that says nothing is being refused, the next one is cut off.
    let silent = world.client();
    assert_ends(world.client());
    assert_ends(silent);
    drop(held);
    assert!(read_head(&mut waiting).starts_with("HTTP/1.1 200 "));
    assert_echoes(&mut waiting, b"hello");
    drop(waiting);
    let report = world.finish();
    assert_eq!(report.waited, 1);
    let refused: Vec<_> = report
        .connections
        .iter()
        .filter(|one| one.reason.is_some())
        .map(|one| (one.host.as_str(), one.reason.clone()))
        .collect();
    let reason = || Some(Refusal::TooManyConnections);
    assert_eq!(refused[0], ("third.test", reason()));
    // The silent one as well if it came before the third had gone.
    assert!((2..=3).contains(&refused.len()), "{refused:?}");
    assert!(refused[1..].iter().all(|one| *one == ("", reason())));
}

#[test]
fn silent_clients_without_a_place_are_cut_off() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], one_place);
    let held = world.tunnel("held.test", port).unwrap();
    let silent: Vec<_> = (0..100).map(|_| world.client()).collect();
    for client in silent {
        assert_ends(client);
    }
    drop(held);
    wait_until("the place is free", || {
        world.tunnel("later.test", port).is_ok()
    });
}
