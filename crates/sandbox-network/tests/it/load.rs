//! Many connections, and clients and servers that do not go along.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::world::{World, assert_echoes, echo_server, server, wait_until};

#[test]
fn a_thousand_connections_at_once() {
    allow_many_descriptors();
    let port = echo_server();
    let world = World::new(&["*.test"], &[]);
    let mut tunnels: Vec<_> = (0..1000)
        .map(|number| world.tunnel(&format!("h{number}.test"), port).unwrap())
        .collect();
    for tunnel in &mut tunnels {
        tunnel.write_all(&[1; 1000]).unwrap();
    }
    for tunnel in &mut tunnels {
        tunnel.read_exact(&mut [0; 1000]).unwrap();
    }
    drop(tunnels);
    let report = world.finish();
    assert_eq!((report.connections.len(), report.waited), (1000, 0));
    assert!(
        report
            .connections
            .iter()
            .all(|one| one.sent == 1000 && one.received == 1000)
    );
}

/// Four sockets a connection, all in this process.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = 8192;
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}

#[test]
fn connections_beyond_the_limit_wait_and_are_counted() {
    let port = echo_server();
    let world = World::with(&["a.test"], &[], |options| options.limits.connections = 2);
    let first = world.tunnel("a.test", port).unwrap();
    let second = world.tunnel("a.test", port).unwrap();
    let mut third = world.client();
    let target = format!("a.test:{port}");
    write!(third, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    third
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let waiting = third.read(&mut [0; 1]).unwrap_err().kind();
    assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&waiting));
    drop(first);
    third
        .set_read_timeout(Some(crate::world::WATCHDOG))
        .unwrap();
    assert!(crate::world::read_head(&mut third).starts_with("HTTP/1.1 200 "));
    drop((second, third));
    let report = world.finish();
    assert_eq!((report.connections.len(), report.waited), (3, 1));
}

#[test]
fn a_client_that_never_reads_holds_back_its_server_and_nobody_else() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let flood = server(move |mut stream| {
        while stream.write_all(&[0; 64 * 1024]).is_ok() {
            count.fetch_add(64 * 1024, Ordering::Relaxed);
        }
    });
    let port = echo_server();
    let world = World::new(&["a.test"], &[]);
    let stuck = world.tunnel("a.test", flood).unwrap();
    // The buffers of four sockets fill, and then nothing moves.
    let earlier = AtomicUsize::new(0);
    wait_until("the server is held back", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = written.load(Ordering::Relaxed);
        now > 0 && earlier.swap(now, Ordering::Relaxed) == now
    });
    let buffered = written.load(Ordering::Relaxed);
    assert!(buffered < 64 << 20, "{buffered} bytes are buffered");
    let mut other = world.tunnel("a.test", port).unwrap();
    assert_echoes(&mut other, &[7; 100_000]);
    drop((stuck, other));
    assert_eq!(world.finish().connections.len(), 2);
}

#[test]
fn a_slow_server_is_waited_for_and_a_silent_client_is_not() {
    let port = server(|mut stream| {
        std::thread::sleep(Duration::from_millis(2500));
        let _ = stream.write_all(b"late");
        crate::world::echo(stream);
    });
    let world = World::with(&["a.test"], &[], |options| {
        options.limits.handshake_timeout = Duration::from_secs(2);
    });
    // Longer than the time for a handshake: an open tunnel has no limit.
    let mut tunnel = world.tunnel("a.test", port).unwrap();
    let mut late = [0; 4];
    tunnel.read_exact(&mut late).unwrap();
    assert_eq!(&late, b"late");
    let starts = [
        &b""[..],
        b"CONNECT a.test:1 HTT",
        b"\x05",
        b"\x05\x01\x00\x05",
    ];
    let silent = starts.map(|start| {
        let mut client = world.client();
        client.write_all(start).unwrap();
        client
    });
    for mut client in silent {
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(rest.len() <= 2, "{rest:?}");
    }
}

#[test]
fn a_resolver_that_hangs_does_not_hang_the_client() {
    struct Hanging;
    impl sandbox_network::Resolve for Hanging {
        fn resolve(&self, _: &sandbox_network::HostName) -> std::io::Result<Vec<std::net::IpAddr>> {
            std::thread::sleep(Duration::from_secs(20));
            Ok(Vec::new())
        }
    }
    let world = World::with(&["*.test"], &[], |options| {
        options.resolve = Arc::new(Hanging);
        options.limits.resolve_timeout = Duration::from_millis(100);
        options.limits.resolutions = 2;
    });
    let answers = ["a.test", "b.test", "c.test"].map(|host| world.tunnel(host, 443).unwrap_err());
    assert!(answers[0].contains("no answer within"), "{answers:?}");
    // The calls that hang still occupy their threads.
    assert!(
        answers[2].contains("too many names are being resolved"),
        "{answers:?}"
    );
}

/// A resolver that takes its time and counts its calls.
struct Slow(AtomicUsize);

impl sandbox_network::Resolve for Slow {
    fn resolve(&self, _: &sandbox_network::HostName) -> std::io::Result<Vec<std::net::IpAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[test]
fn names_beyond_the_limit_of_resolutions_wait() {
    allow_many_descriptors();
    let port = echo_server();
    let slow = Arc::new(Slow(AtomicUsize::new(0)));
    let world = World::with(&["*.test"], &[], |options| {
        options.resolve = slow.clone();
        options.limits.resolutions = 4;
        options.limits.resolve_timeout = crate::world::WATCHDOG;
    });
    let mut clients: Vec<_> = (0..300)
        .map(|number| {
            // Two hundred to one name, and each of the others to its own.
            let host = if number % 3 == 0 {
                format!("h{number}.test")
            } else {
                "one.test".to_owned()
            };
            let target = format!("{host}:{port}");
            let mut client = world.client();
            write!(
                client,
                "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
            )
            .unwrap();
            client
        })
        .collect();
    for client in &mut clients {
        let answer = crate::world::read_head(client);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(clients);
    assert_eq!(world.finish().connections.len(), 300);
    let calls = slow.0.load(Ordering::Relaxed);
    assert!((101..300).contains(&calls), "{calls} calls");
}

/// A resolver whose first call does not return before the test says so.
struct Blocked(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, AtomicUsize);

impl sandbox_network::Resolve for Blocked {
    fn resolve(&self, _: &sandbox_network::HostName) -> std::io::Result<Vec<std::net::IpAddr>> {
        if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = self.0.lock().unwrap().recv();
        }
        Ok(Vec::new())
    }
}

#[test]
fn a_name_that_waits_is_not_resolved_after_its_service() {
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let resolver = Arc::new(Blocked(std::sync::Mutex::new(wait), AtomicUsize::new(0)));
    let own = resolver.clone();
    let world = World::with(&["*.test"], &[], |options| {
        options.resolve = own;
        options.limits.resolutions = 1;
        options.limits.resolve_timeout = crate::world::WATCHDOG;
    });
    let broker = world.broker.clone();
    let clients = ["first.test", "second.test"].map(|host| {
        let mut client = world.client();
        let target = format!("{host}:443");
        write!(
            client,
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        )
        .unwrap();
        wait_until("the first call", || resolver.1.load(Ordering::Relaxed) == 1);
        client
    });
    let _ = world.finish();
    drop(end);
    drop((clients, broker));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(resolver.1.load(Ordering::Relaxed), 1);
}
