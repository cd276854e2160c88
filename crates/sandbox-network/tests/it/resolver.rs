//! Questions to the resolver, over UDP and TCP.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use sandbox_network::{ConnectionVerdict, Protocol, Refusal};

use crate::world::{WATCHDOG, World, connect};

const A: u16 = 1;
const TXT: u16 = 16;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const HTTPS: u16 = 65;
const UNKNOWN: u16 = 65_000;

const NAME_ERROR: u8 = 3;
const SERVER_FAILURE: u8 = 2;

pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The code of an answer and the data of its only record.
fn read(question: &[u8], answer: &[u8]) -> (u8, Option<Vec<u8>>) {
    assert_eq!(answer[..2], question[..2], "the number");
    assert_eq!(answer[12..question.len()], question[12..], "the question");
    let data = match answer[7] {
        0 => None,
        1 => Some(answer[question.len() + 12..].to_vec()),
        count => panic!("{count} answers"),
    };
    (answer[3] & 0xf, data)
}

fn socket(world: &World) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket.connect(world.resolver).unwrap();
    socket
}

fn ask_by(socket: &UdpSocket, name: &str, kind: u16) -> (u8, Option<Vec<u8>>) {
    let question = question(name, kind);
    socket.send(&question).unwrap();
    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer).unwrap();
    read(&question, &answer[..length])
}

fn ask(world: &World, name: &str, kind: u16) -> (u8, Option<Vec<u8>>) {
    ask_by(&socket(world), name, kind)
}

fn address(world: &World, name: &str, kind: u16) -> IpAddr {
    let (code, data) = ask(world, name, kind);
    assert_eq!(code, 0);
    match data.unwrap().as_slice() {
        bytes @ [_, _, _, _] => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap()).into(),
        bytes => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into(),
    }
}

#[test]
fn an_allowed_name_has_its_own_addresses() {
    let world = World::new(&["*.example.com", "ports.org:8443"], &[]);
    let first = address(&world, "a.example.com", A);
    assert_eq!(first, IpAddr::from([198, 18, 1, 0]));
    assert_eq!(address(&world, "A.Example.COM", A), first);
    assert_ne!(address(&world, "b.example.com", A), first);
    let v6: IpAddr = "fd98:18::100".parse().unwrap();
    assert_eq!(address(&world, "a.example.com", AAAA), v6);
    assert_eq!(
        address(&world, "ports.org", A),
        IpAddr::from([198, 18, 1, 2])
    );
    for kind in [TXT, HTTPS, UNKNOWN] {
        assert_eq!(ask(&world, "a.example.com", kind), (0, None), "{kind}");
    }
    let pointer = ask(&world, "0.1.18.198.in-addr.arpa", PTR);
    assert_eq!(pointer, (0, Some(b"\x01a\x07example\x03com\x00".to_vec())));
    assert_eq!(
        world.names.asked(),
        Vec::<String>::new(),
        "nothing is asked outside"
    );
    assert_eq!(world.finish().connections, []);
}

#[test]
fn names_have_ipv6_addresses_only_if_a_forwarder_takes_them() {
    let world = World::without_ipv6(&["example.com"]);
    assert_eq!(ask(&world, "example.com", AAAA), (0, None));
    assert_eq!(ask(&world, "example.com", A).0, 0);
}

#[test]
fn a_refused_name_does_not_exist_and_is_recorded_once() {
    let world = World::new(&["example.com", "denied.org"], &["denied.org"]);
    for name in [
        "other.com",
        "sub.example.com",
        "denied.org",
        "secret.data.evil.org",
        "_http._tcp.sub.example.com",
    ] {
        for kind in [A, AAAA, A, HTTPS, TXT] {
            assert_eq!(ask(&world, name, kind), (NAME_ERROR, None), "{name}");
        }
    }
    // Nothing that a program reaches for.
    for (name, kind) in [
        ("4.3.2.1.in-addr.arpa", PTR),
        ("a b.example.com", A),
        ("127.1", A),
        ("_http._tcp.example.com", SRV),
    ] {
        assert_eq!(ask(&world, name, kind), (NAME_ERROR, None), "{name}");
    }
    let report = world.finish();
    let refused: Vec<_> = report
        .connections
        .iter()
        .map(|one| one.host.as_str())
        .collect();
    assert_eq!(
        refused,
        [
            "other.com",
            "sub.example.com",
            "denied.org",
            "secret.data.evil.org",
            "_http._tcp.sub.example.com",
            "a\\032b.example.com",
            "127.1"
        ]
    );
    for record in &report.connections {
        assert_eq!((record.protocol, record.port), (Protocol::Dns, 0));
        assert_eq!(record.verdict, ConnectionVerdict::Refused);
        let denied = matches!(record.reason, Some(Refusal::Denied(_)));
        assert_eq!(denied, record.host == "denied.org");
    }
}

#[test]
fn localhost_is_the_loopback() {
    let world = World::new(&[], &[]);
    assert_eq!(
        address(&world, "localhost", A),
        IpAddr::from([127, 0, 0, 1])
    );
    assert_eq!(
        address(&world, "x.localhost", A),
        IpAddr::from([127, 0, 0, 1])
    );
    assert_eq!(
        address(&world, "localhost", AAAA),
        "::1".parse::<IpAddr>().unwrap()
    );
    assert_eq!(ask(&world, "localhost", TXT), (0, None));
    let pointer = ask(&world, "1.0.0.127.in-addr.arpa", PTR);
    assert_eq!(pointer, (0, Some(b"\x09localhost\x00".to_vec())));
}

#[test]
fn questions_over_tcp_are_answered_one_after_another() {
    let world = World::new(&["example.com"], &[]);
    let mut client = connect(world.resolver);
    for (name, code) in [
        ("example.com", 0),
        ("other.com", NAME_ERROR),
        ("example.com", 0),
    ] {
        let question = question(name, A);
        let length = u16::try_from(question.len()).unwrap().to_be_bytes();
        // In two pieces: a message has no relation to packets.
        client.write_all(&length).unwrap();
        client.write_all(&question).unwrap();
        let mut length = [0; 2];
        client.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(read(&question, &answer).0, code);
    }
}

#[test]
fn hostile_packets_do_not_stop_the_resolver() {
    let world = World::new(&["example.com"], &[]);
    let socket = socket(&world);
    let valid = question("example.com", A);
    for at in 0..valid.len() {
        for value in [0, 0x3f, 0x40, 0xc0, 0xff] {
            let mut changed = valid.clone();
            changed[at] = value;
            socket.send(&changed).unwrap();
        }
        socket.send(&valid[..at]).unwrap();
    }
    let other = connect(world.resolver);
    (&other).write_all(&[0xff; 100]).unwrap();
    assert_eq!(ask(&world, "example.com", A).0, 0);
}

#[test]
fn ten_thousand_names_have_ten_thousand_addresses() {
    let world = World::new(&["*.example.com"], &[]);
    let socket = socket(&world);
    let mut seen = HashSet::new();
    for number in 0..10_000 {
        let (code, data) = ask_by(&socket, &format!("h{number}.example.com"), A);
        assert_eq!(code, 0);
        assert!(seen.insert(data.unwrap()));
    }
    let (_, again) = ask_by(&socket, "h77.example.com", A);
    assert!(seen.contains(&again.unwrap()));
}

#[test]
fn a_full_table_is_told() {
    let world = World::with(&["*.example.com"], &[], |options| options.limits.names = 2);
    assert_eq!(ask(&world, "a.example.com", A).0, 0);
    assert_eq!(ask(&world, "b.example.com", A).0, 0);
    assert_eq!(ask(&world, "c.example.com", A), (SERVER_FAILURE, None));
    assert_eq!(ask(&world, "c.example.com", AAAA), (SERVER_FAILURE, None));
    assert_eq!(ask(&world, "a.example.com", AAAA).0, 0);
    let report = world.finish();
    assert_eq!(report.names_full, 2);
    assert_eq!(report.connections.len(), 1);
    assert_eq!(report.connections[0].reason, Some(Refusal::NamesFull));
    assert_eq!(report.connections[0].verdict, ConnectionVerdict::Failed);
}

#[test]
fn a_program_neither_fills_nor_reads_the_table_of_another() {
    let world = World::with(&["*.example.com"], &[], |options| options.limits.names = 2);
    for name in ["a.example.com", "b.example.com"] {
        assert_eq!(ask(&world, name, A).0, 0);
    }
    assert_eq!(ask(&world, "c.example.com", A).0, SERVER_FAILURE);
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(WATCHDOG)).unwrap();
    client.connect(second.local_addr().unwrap()).unwrap();
    let listeners = sandbox_network::Listeners {
        resolver: vec![second],
        ..Default::default()
    };
    let service = world.broker.serve(listeners).unwrap();
    let pointer = "0.1.18.198.in-addr.arpa";
    assert_eq!(ask_by(&client, pointer, PTR), (NAME_ERROR, None));
    assert_eq!(ask_by(&client, "c.example.com", A).0, 0);
    let own = (0, Some(b"\x01c\x07example\x03com\x00".to_vec()));
    assert_eq!(ask_by(&client, pointer, PTR), own);
    drop(service);
}
