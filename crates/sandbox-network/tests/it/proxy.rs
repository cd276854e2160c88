//! HTTP: tunnels, requests for URLs, and everything that two readers could understand in two ways.

use std::io::{Read, Write};
use std::net::Shutdown;

use sandbox_network::{ConnectionVerdict, HostPattern, Protocol, ProxyToken, Refusal};

use crate::world::{World, assert_echoes, echo_server, http_server, read_answer, read_to_end};

#[test]
fn a_tunnel_reaches_an_allowed_host_and_is_recorded() {
    let port = echo_server();
    let world = World::new(&["*.test"], &[]);
    let mut tunnel = world.tunnel("server.test", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
    assert_echoes(&mut tunnel, &[7; 300_000]);
    tunnel.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(tunnel), "");
    let record = world.only_record();
    assert_eq!((record.host.as_str(), record.port), ("server.test", port));
    assert_eq!(record.address, Some([127, 0, 0, 1].into()));
    assert_eq!(record.protocol, Protocol::Connect);
    assert_eq!((record.sent, record.received), (300_005, 300_005));
    assert_eq!(record.verdict, ConnectionVerdict::Allowed);
    assert_eq!(record.rule, HostPattern::parse("*.test").ok());
    assert_eq!(record.reason, None);
}

#[test]
fn a_refused_tunnel_says_why_and_what_to_do() {
    let world = World::new(&["a.test:443"], &["b.test"]);
    let answer = world.tunnel("a.test", 80).unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    let body = "\r\n\r\na.test:80 is refused: no rule names it\nrun `allow a.test:80`\n";
    assert!(answer.ends_with(body), "{answer}");
    let answer = world.tunnel("b.test", 443).unwrap_err();
    assert!(answer.contains("the rule `b.test` denies it"), "{answer}");
    let report = world.finish();
    let reasons: Vec<_> = report.connections.iter().map(|one| &one.reason).collect();
    let denied = HostPattern::parse("b.test").unwrap();
    assert_eq!(
        reasons,
        [&Some(Refusal::Unlisted), &Some(Refusal::Denied(denied))]
    );
}

/// An agent of npm goes on for ever while it gets answers. Each attempt is counted.
#[test]
fn a_client_that_asks_again_and_again_is_hung_up_on() {
    let world = World::new(&["closed.test:1"], &[]);
    for (host, port, status) in [("a.test", 80, "403"), ("closed.test", 1, "502")] {
        let answers = std::iter::from_fn(|| world.tunnel(host, port).err());
        let told = answers.take(10_000).take_while(|answer| !answer.is_empty());
        let told = told.inspect(|answer| assert!(answer.contains(status), "{answer}"));
        assert!((64..10_000).contains(&told.count()), "{host}");
        assert!(!world.tunnel("other.test", 80).unwrap_err().is_empty());
    }
    let report = world.finish();
    assert!(report.connections.len() > 128, "{}", report.omitted);
}

#[test]
fn an_unreachable_host_is_a_bad_gateway() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let world = World::new(&["*.test", "missing.example"], &[]);
    let answer = world.tunnel("server.test", port).unwrap_err();
    assert!(
        answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"),
        "{answer}"
    );
    assert!(!answer.contains("run `allow"), "{answer}");
    let answer = world.tunnel("missing.example", 443).unwrap_err();
    assert!(
        answer.contains("cannot resolve the name: no such name"),
        "{answer}"
    );
    let report = world.finish();
    let failed =
        |record: &sandbox_network::ConnectionRecord| record.verdict == ConnectionVerdict::Failed;
    assert!(report.connections.iter().all(failed), "{report:#?}");
}

#[test]
fn smuggled_requests_are_refused_before_anything_is_resolved() {
    let world = World::new(&["*.test"], &[]);
    let target = "CONNECT server.test:443 HTTP/1.1\r\n";
    let hosted = format!("{target}Host: server.test:443\r\n");
    let post = |header: &str| {
        format!("POST http://server.test/ HTTP/1.1\r\nHost: server.test\r\n{header}\r\n\r\n")
    };
    let requests = [
        format!("{hosted}\r\nGET / HTTP/1.1\r\n\r\n"),
        format!("{hosted}Content-Length: 5\r\n\r\nhello"),
        format!("{hosted}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{hosted}Host: server.test:443\r\n\r\n"),
        format!("{hosted}X: a\r\n b\r\n\r\n"),
        format!("{hosted}X: a\rY: b\r\n\r\n"),
        format!("{hosted}X: a\nY: b\r\n\r\n"),
        format!("{target}Host: other.test:443\r\n\r\n"),
        format!("{target}Host: server.test:444\r\n\r\n"),
        format!("{target}\r\n"),
        "CONNECT user@server.test:443 HTTP/1.1\r\nHost: server.test\r\n\r\n".to_owned(),
        "CONNECT server.test HTTP/1.1\r\nHost: server.test\r\n\r\n".to_owned(),
        "CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n".to_owned(),
        "POST http://server.test/ HTTP/1.1\r\nHost: server.test\r\nContent-Length: 4\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            .to_owned(),
        format!(
            "GET http://server.test/{} HTTP/1.1\r\n\r\n",
            "a".repeat(40_000)
        ),
        post("Transfer-Encoding: xchunked"),
        post("Content-Length: 3\r\nContent-Length: 4"),
        post("Content-Length: +3"),
        "GET http://server.test\\@other.test/ HTTP/1.1\r\nHost: server.test\r\n\r\n".to_owned(),
        "GET http://server%2etest/ HTTP/1.1\r\nHost: server%2etest\r\n\r\n".to_owned(),
    ];
    for request in &requests {
        let answer = world.exchange(request);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer} to {request}");
    }
    assert_eq!(world.names.asked(), Vec::<String>::new());
    let report = world.finish();
    assert_eq!(report.connections.len(), requests.len());
    let malformed = |record: &sandbox_network::ConnectionRecord| {
        matches!(record.reason, Some(Refusal::Malformed(_)))
    };
    assert!(report.connections.iter().all(malformed), "{report:#?}");
}

/// Advice that would be refused is none: an IPv4 address has one spelling in rules.
#[test]
fn an_address_inside_another_is_advised_about_as_itself() {
    let world = World::with(&[], &[], |options| {
        options.advice =
            std::sync::Arc::new(|host, port| format!("allow {}", host.with_port(port)));
    });
    let authority = "[::ffff:127.0.0.1]:80";
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let answer = world.exchange(&request);
    assert!(answer.ends_with("allow 127.0.0.1:80\n"), "{answer}");
    assert_eq!(world.finish().connections[0].host, "127.0.0.1");
}

#[test]
fn a_request_for_a_url_reaches_its_server_without_headers_for_the_proxy() {
    let (port, _) = http_server();
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    let authority = format!("server.test:{port}");
    write!(
        client,
        "GET http://{authority}/a?b=c HTTP/1.1\r\nHost: {authority}\r\nAccept: x\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\n\
         Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\n\r\n"
    )
    .unwrap();
    let (head, body) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("x-kept: 1"), "{head}");
    assert!(
        !head.contains("x-own") && !head.contains("keep-alive"),
        "{head}"
    );
    let mut lines: Vec<_> = body.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /a?b=c HTTP/1.1");
    lines.sort_unstable();
    assert_eq!(lines, ["accept: x", &format!("host: {authority}")]);
}

#[test]
fn every_request_of_a_connection_is_decided_on_its_own() {
    let (port, connections) = http_server();
    let world = World::new(&["a.test", "c.test"], &[]);
    let mut client = world.client();
    let statuses = ["a.test", "a.test", "b.test", "a.test", "c.test"].map(|host| {
        let authority = format!("{host}:{port}");
        write!(
            client,
            "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        )
        .unwrap();
        let (head, body) = read_answer(&mut client);
        assert_eq!(
            head.contains(" 200 "),
            body.contains(&format!("host: {authority}"))
        );
        head[9..12].to_owned()
    });
    assert_eq!(statuses, ["200", "200", "403", "200", "200"]);
    assert_eq!(*connections.lock().unwrap(), 2, "one for each host");
    drop(client);
    let report = world.finish();
    let mut hosts: Vec<_> = report
        .connections
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["a.test", "b.test", "c.test"], "{report:#?}");
    let of_a = report.connections.iter().find(|one| one.host == "a.test");
    assert_eq!(of_a.unwrap().protocol, Protocol::Http);
    assert!(of_a.unwrap().sent > 100 && of_a.unwrap().received > 100);
}

#[test]
fn another_host_or_another_form_is_a_bad_request() {
    let (port, connections) = http_server();
    let world = World::new(&["*.test", "127.0.0.1:80"], &[]);
    let url = format!("http://a.test:{port}/");
    for (request, reason) in [
        (
            format!("GET {url} HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n"),
            "Host header",
        ),
        (
            format!("GET {url} HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            "Host header",
        ),
        (format!("GET {url} HTTP/1.1\r\n\r\n"), "no Host"),
        (
            format!("GET {url} HTTP/1.1\r\nHost: a.test:{port}\r\nHost: b.test\r\n\r\n"),
            "several Host",
        ),
        (
            format!("GET http://u:p@a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"),
            "valid host",
        ),
        (
            "GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n".to_owned(),
            "valid host",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
            "whole URL",
        ),
        (
            "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
            "CONNECT",
        ),
        (
            "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
            "not an `http` URL",
        ),
    ] {
        let answer = world.exchange(&request);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer} to {request}");
        assert!(answer.contains(reason), "{answer} to {request}");
    }
    assert_eq!(*connections.lock().unwrap(), 0);
    assert_eq!(world.names.asked(), Vec::<String>::new());
}

#[test]
fn bodies_pass_in_both_directions() {
    let (port, _) = http_server();
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    let authority = format!("a.test:{port}");
    let long = "x".repeat(500_000);
    write!(
        client,
        "PUT http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 500000\r\n\r\n{long}"
    )
    .unwrap();
    let (_, body) = read_answer(&mut client);
    assert!(body.ends_with(&long));
    write!(
        client,
        "HEAD http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    )
    .unwrap();
    let head = crate::world::read_head(&mut client);
    assert!(head.contains("content-length: "), "{head}");
    write!(
        client,
        "GET http://{authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    )
    .unwrap();
    let (_, body) = read_answer(&mut client);
    assert!(body.starts_with("GET / HTTP/1.1\r\n"), "{body}");
    write!(
        client,
        "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\
         Expect: 100-continue\r\n\r\n"
    )
    .unwrap();
    let (interim, _) = read_answer(&mut client);
    assert_eq!(interim, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"5\r\nhello\r\n0\r\n\r\n").unwrap();
    let (head, body) = read_answer(&mut client);
    // Where its body ends, hyper alone knows: it is the last of its connection.
    assert!(head.contains("connection: close"), "{head}");
    assert!(body.contains("transfer-encoding: chunked"), "{body}");
    assert!(body.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{body}");
    assert!(!body.contains("expect"), "{body}");
}

#[test]
fn a_later_request_has_one_length_too() {
    let (port, connections) = http_server();
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    let authority = format!("a.test:{port}");
    let get = format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let two = format!(
        "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 4\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    client.write_all(get.as_bytes()).unwrap();
    let (head, _) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let before = *connections.lock().unwrap();
    client.write_all(two.as_bytes()).unwrap();
    let (head, body) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert!(body.contains("it has two lengths"), "{body}");
    assert_eq!(*connections.lock().unwrap(), before);
}

#[test]
fn a_server_that_closed_a_kept_connection_is_connected_again() {
    let port = crate::world::server(|mut stream| {
        let head = crate::world::read_head(&mut stream);
        if !head.is_empty() {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .unwrap();
        }
    });
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    for _ in 0..3 {
        let authority = format!("a.test:{port}");
        write!(
            client,
            "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        )
        .unwrap();
        let (head, body) = read_answer(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body, "ok");
    }
}

#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    let (port, _) = http_server();
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    let authority = format!("a.test:{port}");
    write!(
        client,
        "GET http://{authority}/x HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    )
    .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (head, body) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.starts_with("GET /x "), "{body}");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn a_tunnel_begins_a_connection() {
    let (port, _) = http_server();
    let world = World::new(&["*.test"], &[]);
    let mut client = world.client();
    let authority = format!("a.test:{port}");
    write!(
        client,
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    )
    .unwrap();
    read_answer(&mut client);
    write!(
        client,
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    )
    .unwrap();
    let (head, body) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert_eq!(body, "CONNECT needs a connection of its own\n");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "the connection is closed");
}

#[test]
fn a_proxy_with_a_token_serves_only_clients_that_show_it() {
    let (port, _) = http_server();
    let token = ProxyToken::new("0123456789abcdef").ok();
    let world = World::with_token(&["*.test"], &[], token, |_| {});
    let authority = format!("a.test:{port}");
    // `me:0123456789abcdef` and `me:0123456789abcdeg`.
    let shown = "Proxy-Authorization: Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==\r\n";
    let wrong = "Proxy-Authorization: Basic bWU6MDEyMzQ1Njc4OWFiY2RlZw==\r\n";
    for (header, connect, get) in [
        ("", "407", "407"),
        (wrong, "407", "407"),
        (shown, "200", "200"),
    ] {
        let mut client = world.client();
        write!(
            client,
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{header}\r\n"
        )
        .unwrap();
        let head = crate::world::read_head(&mut client);
        assert_eq!(head[9..12], *connect, "{head}");
        let asks = head.contains("Proxy-Authenticate: Basic");
        assert_eq!(asks, connect == "407", "{head}");
        let mut client = world.client();
        write!(
            client,
            "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n{header}\r\n"
        )
        .unwrap();
        let (head, body) = read_answer(&mut client);
        assert_eq!(head[9..12], *get, "{head}");
        assert!(!body.contains("authorization"), "{body}");
    }
    let report = world.finish();
    let refused = report.connections.iter();
    let refused = refused.filter(|one| one.reason == Some(Refusal::Unauthenticated));
    assert_eq!(refused.count(), 4);
}

#[test]
fn a_chunked_body_passes_with_every_method_and_other_codings_are_refused() {
    let (port, _) = crate::world::http_server();
    let target = format!("a.test:{port}");
    let world = World::new(&["a.test"], &[]);
    let request = |method: &str, coding: &str| {
        let mut client = world.client();
        write!(
            client,
            "{method} http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\
             Transfer-Encoding: {coding}\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
        )
        .unwrap();
        crate::world::read_answer(&mut client)
    };
    for method in [
        "GET", "DELETE", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "ODD",
    ] {
        for coding in ["chunked", "Chunked"] {
            let (head, body) = request(method, coding);
            assert!(head.starts_with("HTTP/1.1 200 "), "{method}: {head}");
            assert!(
                body.contains("\r\n\r\n4\r\nbody\r\n0\r\n"),
                "{method}: {body}"
            );
        }
    }
    for coding in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
        let (head, _) = request("POST", coding);
        assert!(head.starts_with("HTTP/1.1 400 "), "{coding}: {head}");
    }
}
