//! A parent proxy.

use std::io::Write;
use std::sync::{Arc, Mutex};

use sandbox_network::{
    ConnectionRecord, ConnectionVerdict, HostPattern, ParentProxy, Refusal, TlsName,
};

use crate::world::{World, assert_echoes, echo, echo_server, http_server, read_answer, read_head};

/// A proxy that answers as it is told and then sends back what it reads. Keeps the heads.
fn parent(answer: &'static str) -> (ParentProxy, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    let port = crate::world::server(move |mut stream| {
        let head = read_head(&mut stream);
        kept.lock().unwrap().push(head);
        stream.write_all(answer.as_bytes()).unwrap();
        echo(stream);
    });
    let parent = ParentProxy::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    (parent.with_credentials("me", "secret"), heads)
}

#[test]
fn names_go_to_the_parent_unresolved() {
    let (parent, heads) = parent("HTTP/1.1 200 OK\r\nX: y\r\n\r\nearly ");
    let port = echo_server();
    let direct = HostPattern::parse("direct.test").unwrap();
    let world = World::with(
        &["*.test", "inside.example", &format!("127.0.0.1:{port}")],
        &[],
        |options| options.parent = Some(parent.with_direct([direct])),
    );
    let mut tunnel = world.tunnel("inside.example", 443).unwrap();
    let mut early = [0; 6];
    std::io::Read::read_exact(&mut tunnel, &mut early).unwrap();
    assert_eq!(&early, b"early ");
    assert_echoes(&mut tunnel, b"hello");
    drop(tunnel);
    for host in ["direct.test", "127.0.0.1"] {
        let mut tunnel = world.tunnel(host, port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
    }
    world.tunnel("other.example", 443).unwrap_err();
    assert_eq!(
        *heads.lock().unwrap(),
        [
            "CONNECT inside.example:443 HTTP/1.1\r\nHost: inside.example:443\r\n\
          Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
        ]
    );
    assert_eq!(world.names.asked(), ["direct.test"]);
    let report = world.finish();
    let mut through: Vec<_> = report
        .connections
        .iter()
        .map(|one| (one.host.as_str(), one.through_parent))
        .collect();
    through.sort_unstable();
    assert_eq!(
        through,
        [
            ("127.0.0.1", false),
            ("direct.test", false),
            ("inside.example", true),
            ("other.example", false)
        ]
    );
    let inside = report.connections.iter().find(|one| one.through_parent);
    let inside = inside.unwrap();
    assert_eq!((inside.sent, inside.received), (5, 11));
    assert_eq!(inside.tls_name, TlsName::NotTls);
}

#[test]
fn a_parent_that_refuses_is_a_failure_with_its_reason() {
    for (answer, reason) in [
        (
            "HTTP/1.1 407 Auth\r\n\r\n",
            "the parent proxy asks for credentials",
        ),
        (
            "HTTP/1.1 503 No\r\n\r\n",
            "the parent proxy answered with status 503",
        ),
        (
            "nonsense\r\n\r\n",
            "the parent proxy gave an invalid answer",
        ),
    ] {
        let (parent, _) = parent(answer);
        let world = World::with(&["a.test"], &[], |options| options.parent = Some(parent));
        let answer = world.tunnel("a.test", 443).unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(reason), "{answer}");
        assert!(!answer.contains("secret"), "{answer}");
        assert_eq!(world.only_record().verdict, ConnectionVerdict::Failed);
    }
}

#[test]
fn requests_for_urls_go_through_a_tunnel_of_the_parent() {
    let (port, _) = http_server();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    // A parent that connects everything to one server.
    let parent_port = crate::world::server(move |mut client| {
        kept.lock().unwrap().push(read_head(&mut client));
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let mut upstream = crate::world::connect(([127, 0, 0, 1], port).into());
        let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut upstream, &mut client);
    });
    let parent = ParentProxy::parse(&format!("http://127.0.0.1:{parent_port}/")).unwrap();
    let world = World::with(&["a.example"], &[], |options| options.parent = Some(parent));
    let mut client = world.client();
    client
        .write_all(b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    let (_, body) = read_answer(&mut client);
    assert_eq!(body, "GET /x HTTP/1.1\r\nhost: a.example\r\n\r\n");
    assert_eq!(
        *heads.lock().unwrap(),
        ["CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n"]
    );
}

#[test]
fn names_of_private_networks_do_not_go_to_the_parent() {
    let (parent, heads) = parent("HTTP/1.1 200 OK\r\n\r\n");
    let named = [
        "intranet",
        "*.internal",
        "printer.local",
        "169.254.169.254:80",
    ];
    let world = World::with(&named, &[], |options| options.parent = Some(parent));
    for host in ["intranet", "metadata.google.internal", "PRINTER.local."] {
        let answer = world.tunnel(host, 443).unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("a name of a private network"), "{answer}");
    }
    // An address that no rule names is not reached either.
    world.tunnel("10.0.0.1", 80).unwrap_err();
    assert!(heads.lock().unwrap().is_empty(), "the parent saw nothing");
    assert!(world.names.asked().is_empty());
    let report = world.finish();
    let refused = |one: &ConnectionRecord| one.verdict == ConnectionVerdict::Refused;
    assert!(report.connections.iter().all(refused));
    assert_eq!(report.connections[0].reason, Some(Refusal::PrivateName));
}
