//! Begin and end: of connections, services and brokers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::{Arc, Mutex};

use sandbox_network::{
    Broker, BrokerOptions, ConnectionEvent, ConnectionEventKind, ConnectionVerdict, Listeners,
};

use crate::world::{World, assert_echoes, echo_server, read_to_end, rules, server, wait_until};

#[test]
fn each_direction_ends_on_its_own() {
    let port = server(|mut stream| {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        stream
            .write_all(format!("{} bytes", all.len()).as_bytes())
            .unwrap();
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    tunnel.write_all(&[b'x'; 100_000]).unwrap();
    tunnel.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(tunnel), "100000 bytes");

    let port = server(|mut stream| {
        stream.write_all(b"bye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all, "more");
    });
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    let mut all = String::new();
    tunnel.read_to_string(&mut all).unwrap();
    assert_eq!(all, "bye");
    tunnel.write_all(b"more").unwrap();
    drop(tunnel);
    let report = world.finish();
    assert_eq!(report.connections.len(), 2);
    assert_eq!(
        (report.connections[1].sent, report.connections[1].received),
        (4, 3)
    );
}

#[test]
fn a_dropped_service_ends_its_connections_and_no_other() {
    let port = echo_server();
    let world = World::new(&["a.test"], &[]);
    let second = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = second.local_addr().unwrap();
    let service = world.broker.serve(Listeners {
        proxy: vec![second],
        ..Listeners::default()
    });
    let service = service.unwrap();
    assert_ne!(service.id(), 0);
    let mut first = world.tunnel("a.test", port).unwrap();
    let mut other = crate::world::connect(at);
    let target = format!("a.test:{port}");
    write!(other, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    assert!(crate::world::read_head(&mut other).contains(" 200 "));
    drop(service);
    read_to_end(other);
    assert_echoes(&mut first, b"still there");
    drop(first);
    let record = world.only_record();
    assert_eq!((record.service, record.sent), (0, 11));
}

#[test]
fn an_endless_server_and_an_endless_client_end_with_the_service() {
    let endless = server(|mut stream| while stream.write_all(&[0; 4096]).is_ok() {});
    let sink = server(|mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(1..) = stream.read(&mut bytes) {}
    });
    let world = World::new(&["a.test"], &[]);
    let mut reader = world.tunnel("a.test", endless).unwrap();
    reader.read_exact(&mut [0; 100_000]).unwrap();
    let mut writer = world.tunnel("a.test", sink).unwrap();
    let writing = std::thread::spawn(move || while writer.write_all(&[0; 4096]).is_ok() {});
    let report = world.finish();
    writing.join().unwrap();
    let mut all = Vec::new();
    let _ = reader.read_to_end(&mut all);
    assert_eq!(report.connections.len(), 2);
    let allowed = |verdict| verdict == ConnectionVerdict::Allowed;
    assert!(report.connections.iter().all(|one| allowed(one.verdict)));
    assert!(report.connections.iter().any(|one| one.received >= 100_000));
}

#[test]
fn the_last_bytes_of_a_client_that_is_gone_reach_the_server() {
    let (sender, received) = std::sync::mpsc::channel();
    let port = server(move |mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        sender.send(all.len()).unwrap();
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    tunnel.write_all(&[1; 50_000]).unwrap();
    drop(tunnel);
    let record = world.only_record();
    assert_eq!(record.sent, 50_000);
    assert_eq!(received.recv_timeout(crate::world::WATCHDOG), Ok(50_000));
}

#[test]
fn an_upload_that_is_cut_off_is_a_reset_for_the_server() {
    for is_finished in [true, false] {
        let (sender, result) = std::sync::mpsc::channel();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let port = server(move |mut stream| {
            let _ = wait.lock().unwrap().recv();
            let ended = stream.read_to_end(&mut Vec::new());
            let _ = sender.send(ended.map_err(|error| error.kind()));
        });
        let world = World::new(&["a.test"], &[]);
        let mut tunnel = world.tunnel("a.test", port).unwrap();
        tunnel
            .set_write_timeout(Some(std::time::Duration::from_millis(300)))
            .unwrap();
        // Until nothing moves, because the server does not read.
        while tunnel.write_all(&[1; 64 * 1024]).is_ok() {}
        if is_finished {
            assert!(world.finish().connections[0].sent > 0);
        } else {
            let broker = world.broker.clone();
            drop(world);
            read_to_end(tunnel);
            drop(broker);
        }
        drop(go_on);
        let reset = Err(std::io::ErrorKind::ConnectionReset);
        assert_eq!(result.recv_timeout(crate::world::WATCHDOG), Ok(reset));
    }
}

#[test]
fn an_upload_to_a_slow_server_is_passed_on_after_the_end_of_the_client() {
    const LENGTH: usize = 12 << 20;
    let (sender, received) = std::sync::mpsc::channel();
    let port = server(move |mut stream| {
        let mut bytes = vec![0; 256 * 1024];
        let mut all = 0;
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            all += read;
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        sender.send(all).unwrap();
    });
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    tunnel.write_all(&vec![1; LENGTH]).unwrap();
    drop(tunnel);
    assert_eq!(world.only_record().sent, LENGTH as u64);
    assert_eq!(received.recv_timeout(crate::world::WATCHDOG), Ok(LENGTH));
}

#[test]
fn events_tell_what_happens_when_it_happens() {
    let events: Arc<Mutex<Vec<ConnectionEvent>>> = Arc::default();
    let seen = Arc::clone(&events);
    let port = echo_server();
    let world = World::with(&["a.test"], &[], |options| {
        options.on_event = Some(Arc::new(move |event| {
            seen.lock().unwrap().push(event.clone())
        }));
    });
    let kinds = || -> Vec<ConnectionEventKind> {
        let events = events.lock().unwrap();
        events.iter().map(|event| event.kind).collect()
    };
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    assert_eq!(kinds(), [ConnectionEventKind::Opened]);
    assert_echoes(&mut tunnel, b"hello");
    drop(tunnel);
    wait_until("the end of the connection", || kinds().len() == 2);
    world.tunnel("b.test", port).unwrap_err();
    assert_eq!(
        kinds(),
        [
            ConnectionEventKind::Opened,
            ConnectionEventKind::Closed,
            ConnectionEventKind::Refused
        ]
    );
    let numbers: Vec<_> = events
        .lock()
        .unwrap()
        .iter()
        .map(|event| event.record.number)
        .collect();
    assert_eq!(numbers, [0, 0, 1]);
    let closed = events.lock().unwrap()[1].record.clone();
    assert_eq!((closed.sent, closed.received), (5, 5));
    assert_eq!(world.finish().connections[0], closed);
}

#[test]
fn records_are_in_the_order_in_which_connections_began() {
    let port = echo_server();
    let world = World::new(&["a.test", "b.test"], &[]);
    let first = world.tunnel("a.test", port).unwrap();
    let second = world.tunnel("b.test", port).unwrap();
    world.tunnel("c.test", port).unwrap_err();
    drop(second);
    drop(first);
    let report = world.finish();
    let hosts: Vec<_> = report
        .connections
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    assert_eq!(hosts, ["a.test", "b.test", "c.test"]);
}

#[test]
fn records_are_bounded_and_the_rest_is_counted() {
    let world = World::with(&[], &[], |options| options.limits.records = 3);
    for number in 0..10 {
        world.tunnel(&format!("h{number}.test"), 443).unwrap_err();
    }
    let report = world.finish();
    assert_eq!((report.connections.len(), report.omitted), (3, 7));
}

#[test]
fn a_connection_is_listed_whatever_follows_it() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], |options| options.limits.records = 3);
    let first = world.tunnel("first.test", port).unwrap();
    for number in 0..10 {
        world.tunnel(&format!("h{number}.org"), 443).unwrap_err();
    }
    let others = ["b.test", "c.test", "d.test"].map(|host| world.tunnel(host, port).unwrap());
    drop(others);
    drop(first);
    let report = world.finish();
    let hosts: Vec<_> = report
        .connections
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    let listed = [
        "first.test",
        "h0.org",
        "h1.org",
        "h2.org",
        "b.test",
        "c.test",
    ];
    assert_eq!(hosts, listed);
    assert_eq!(report.omitted, 7 + 1);
}

#[test]
fn a_wider_rule_counts_at_once() {
    let port = echo_server();
    let world = World::new(&[], &["c.test"]);
    world.tunnel("a.test", port).unwrap_err();
    let pattern = |text: &str| sandbox_network::HostPattern::parse(text).unwrap();
    world.broker.allow(pattern("*.test"));
    world.tunnel("a.test", port).unwrap();
    world.tunnel("c.test", port).unwrap_err();
    assert_eq!(world.broker.rules(), rules(&["*.test"], &["c.test"]));
}

#[tokio::test]
async fn a_broker_lives_and_ends_inside_another_runtime() {
    let port = echo_server();
    let world = World::new(&["a.test"], &[]);
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
    drop(tunnel);
    let broker = world.broker.clone();
    assert_eq!(world.finish().connections.len(), 1);
    drop(broker);
    let broker = Broker::new(rules(&[], &[]), BrokerOptions::default()).unwrap();
    let service = broker.serve(Listeners::default()).unwrap();
    drop(broker);
    drop(service);
}
