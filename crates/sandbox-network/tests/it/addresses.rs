//! The addresses that names lead to: what an attacker with a name of his own could make of them.

use sandbox_network::{AddressClass, ConnectionVerdict, Refusal};

use crate::world::{World, assert_echoes, echo_server};

#[test]
fn a_name_never_leads_to_an_address_that_is_not_public() {
    let world = World::new(&["evil.example"], &[]);
    for (address, class) in [
        ("127.0.0.2", AddressClass::Loopback),
        ("0.0.0.0", AddressClass::Unspecified),
        ("10.0.0.1", AddressClass::Private),
        ("172.16.0.1", AddressClass::Private),
        ("192.168.1.1", AddressClass::Private),
        ("100.64.0.1", AddressClass::Shared),
        ("169.254.1.1", AddressClass::LinkLocal),
        ("169.254.169.254", AddressClass::Metadata),
        ("198.18.1.0", AddressClass::Benchmarking),
        ("224.0.0.1", AddressClass::Multicast),
        ("255.255.255.255", AddressClass::Broadcast),
        ("::", AddressClass::Unspecified),
        ("::1", AddressClass::Loopback),
        ("fe80::1", AddressClass::LinkLocal),
        ("fd00::1", AddressClass::Private),
        ("fd00:ec2::254", AddressClass::Metadata),
        ("::ffff:10.0.0.1", AddressClass::Private),
        ("64:ff9b::10.0.0.1", AddressClass::Private),
        ("64:ff9b::1.1.1.1", AddressClass::Transition),
        ("64:ff9b:1::1", AddressClass::Transition),
        ("2002:101:101::1", AddressClass::Transition),
        ("2002:7f00:1::", AddressClass::Loopback),
        ("2001:0:1::1", AddressClass::Transition),
    ] {
        world.names.set("evil.example", &[&[address]]);
        let answer = world.tunnel("evil.example", 443).unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{address}: {answer}");
        assert!(answer.contains(&class.to_string()), "{address}: {answer}");
    }
}

#[test]
fn each_connection_resolves_once_and_connects_to_what_it_checked() {
    let port = echo_server();
    let world = World::new(&["moving.example"], &[]);
    // A name that changes between the check and the connection would lead to the second answer.
    world
        .names
        .set("moving.example", &[&["127.0.0.1"], &["10.0.0.1"]]);
    let mut tunnel = world.tunnel("moving.example", port).unwrap();
    assert_echoes(&mut tunnel, b"first");
    assert_eq!(world.names.asked().len(), 1);
    // Rebinding: the next connection sees the second answer, and refuses it.
    let answer = world.tunnel("moving.example", port).unwrap_err();
    assert!(
        answer.contains("it resolves to 10.0.0.1, a private address"),
        "{answer}"
    );
    // The name has a rule; the advice is about its address.
    assert!(
        answer.contains(&format!("run `allow 10.0.0.1:{port}`")),
        "{answer}"
    );
    assert_echoes(&mut tunnel, b"the first goes on");
}

#[test]
fn of_mixed_answers_the_public_ones_are_used() {
    let port = echo_server();
    let world = World::new(&["mixed.example"], &[]);
    world
        .names
        .set("mixed.example", &[&["10.0.0.1", "::1", "127.0.0.1"]]);
    let mut tunnel = world.tunnel("mixed.example", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
    drop(tunnel);
    let record = world.only_record();
    assert_eq!(record.address, Some([127, 0, 0, 1].into()));
}

// Other systems have 127.0.0.1 alone.
#[cfg(target_os = "linux")]
#[test]
fn a_later_address_is_tried_when_the_first_does_not_answer() {
    let port = crate::world::serve_on("127.0.0.3:0", crate::world::echo);
    let literal = format!("127.0.0.3:{port}");
    let world = World::new(&["two.example", &literal], &[]);
    world
        .names
        .set("two.example", &[&["127.0.0.1", "127.0.0.3"]]);
    let mut tunnel = world.tunnel("two.example", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_that_does_not_answer_does_not_hold_up_the_next() {
    let port = crate::world::serve_on("127.0.0.1:0", crate::world::echo);
    let address = std::net::SocketAddr::from(([127, 0, 0, 4], port));
    let _silent = crate::world::silent_listener(address);
    let world = World::with(&["two.example", &address.to_string()], &[], |options| {
        options.limits.connect_timeout = crate::world::WATCHDOG * 2;
        options.limits.connect_total_timeout = crate::world::WATCHDOG * 2;
    });
    world
        .names
        .set("two.example", &[&["127.0.0.4", "127.0.0.1"]]);
    let mut tunnel = world.tunnel("two.example", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
    drop(tunnel);
    let record = world.only_record();
    assert_eq!(record.address, Some([127, 0, 0, 1].into()));
}

/// Connects to a port that are not answered, as local and remote address, by the table of the system.
#[cfg(target_os = "linux")]
fn unanswered_connects(port: u16) -> std::collections::BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let to_the_port = format!(":{port:04X} 02 ");
    let ends_of = |line: &str| {
        let (ends, _) = line.split_once(&to_the_port)?;
        Some(ends.split_once(": ")?.1.to_owned())
    };
    table.lines().filter_map(ends_of).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn attempts_beside_others_are_bounded() {
    let addresses = [11, 12, 13, 14, 15, 16].map(|last| format!("127.0.0.{last}"));
    let mut silent = crate::world::silent_listener(([127, 0, 0, 11], 0).into());
    let last = silent.last().unwrap().local_addr().unwrap();
    let port = last.as_socket().unwrap().port();
    for address in &addresses[1..] {
        let address: std::net::IpAddr = address.parse().unwrap();
        silent.extend(crate::world::silent_listener((address, port).into()));
    }
    let named = addresses
        .each_ref()
        .map(|address| format!("{address}:{port}"));
    let mut allow: Vec<&str> = named.iter().map(String::as_str).collect();
    allow.push("six.example");
    let world = World::with(&allow, &[], |options| {
        options.limits.attempts = 2;
        options.limits.connect_timeout = std::time::Duration::from_secs(2);
        options.limits.connect_total_timeout = std::time::Duration::from_secs(3);
    });
    let list = addresses.each_ref().map(String::as_str);
    world.names.set("six.example", &[&list]);
    let of_the_listeners = &unanswered_connects(port) | &unanswered_connects(port);
    let proxy = world.proxy;
    let client = std::thread::spawn(move || crate::world::tunnel_by(proxy, "six.example", port));
    let mut most = 0;
    while !client.is_finished() {
        // The kernel lists the table in pieces, so one look can have an attempt that has ended and the
        // one that followed it. What is in two looks lived between them, all at once.
        let both = &unanswered_connects(port) & &unanswered_connects(port);
        most = most.max(both.difference(&of_the_listeners).count());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let answer = client.join().unwrap().unwrap_err();
    assert!(answer.contains("none of its addresses answers"), "{answer}");
    // The connection's own, and two beside it.
    assert_eq!(most, 3);
}

// Other systems have 127.0.0.1 alone.
#[cfg(target_os = "linux")]
#[test]
fn an_address_that_is_named_with_its_port_may_be_private() {
    let port = crate::world::serve_on("127.0.0.2:0", crate::world::echo);
    let literal = format!("127.0.0.2:{port}");
    let world = World::new(&["db.example", &literal], &[]);
    world.names.set("db.example", &[&["127.0.0.2"]]);
    let mut by_name = world.tunnel("db.example", port).unwrap();
    assert_echoes(&mut by_name, b"by name");
    let mut by_address = world.tunnel("127.0.0.2", port).unwrap();
    assert_echoes(&mut by_address, b"by address");
    let other_port = world.tunnel("db.example", port ^ 1).unwrap_err();
    assert!(other_port.contains("a loopback address"), "{other_port}");
    let other_port = world.tunnel("127.0.0.2", port ^ 1).unwrap_err();
    assert!(other_port.contains("no rule names it"), "{other_port}");
}

#[test]
fn the_loopback_of_the_host_is_reached_by_its_name_and_port() {
    let port = echo_server();
    let world = World::new(&[&format!("localhost:{port}")], &["[::1]:1"]);
    for host in ["localhost", "127.0.0.1"] {
        let mut tunnel = world.tunnel(host, port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
    }
    assert!(world.tunnel("localhost", port ^ 1).is_err());
    assert!(world.tunnel("x.localhost", port).is_err());
    assert_eq!(
        world.names.asked(),
        Vec::<String>::new(),
        "it is not resolved"
    );
}

#[test]
fn a_denied_address_is_not_reached_by_any_name() {
    let port = echo_server();
    let denied = format!("127.0.0.1:{port}");
    let world = World::new(&["*.example"], &[&denied]);
    world.names.set("a.example", &[&["127.0.0.1"]]);
    let answer = world.tunnel("a.example", port).unwrap_err();
    assert!(
        answer.contains(&format!("the rule `{denied}` denies")),
        "{answer}"
    );
    let record = world.only_record();
    assert_eq!(record.verdict, ConnectionVerdict::Refused);
    assert!(matches!(record.reason, Some(Refusal::AddressDenied { .. })));
}

#[test]
fn names_that_look_alike_are_other_names() {
    let port = echo_server();
    let world = World::new(&["apple.test", "bücher.test"], &[]);
    for same in ["APPLE.test", "apple.test.", "xn--bcher-kva.test"] {
        let mut tunnel = world.tunnel(same, port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
    }
    // A Cyrillic а, a Greek ο, a digit 1, another suffix.
    for other in [
        "xn--pple-43d.test",
        "xn--aple-rbd.test",
        "app1e.test",
        "apple.test.example",
    ] {
        let answer = world.tunnel(other, port).unwrap_err();
        assert!(
            answer.contains(" 403 ") || answer.contains(" 400 "),
            "{other}: {answer}"
        );
    }
}
