//! Clients that know no proxy, in a network namespace in which the synthetic addresses are local.
//! The namespace is the test's own: this program runs once more inside it.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use sandbox_network::{Broker, BrokerOptions, Listeners, Protocol, Refusal, ServiceReport};

use socket2::{Domain, Socket, Type};

use crate::resolver::question;
use crate::world::{Names, WATCHDOG, assert_echoes, class_of, echo, read_to_end, rules, serve_on};

const INSIDE: &str = "SANDBOX_NETWORK_TEST_INSIDE";
const SET_UP: &str = "ip link set lo up && ip route add local 198.18.0.0/15 dev lo && \
                      ip -6 route add local fd98:18::/64 dev lo && exec \"$@\"";
/// Code of a namespace that the host does not give.
const UNSUPPORTED: i32 = 77;

/// Runs a test in a network namespace, as a program of its own.
pub(crate) fn in_a_namespace(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let script = format!("{SET_UP} || exit {UNSUPPORTED}");
    let program = std::env::current_exe().unwrap();
    let ran = Command::new("unshare")
        .args(["-Urn", "sh", "-c", &script, "sh"])
        .arg(program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    let output = match ran {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: cannot run unshare ({error})"),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(UNSUPPORTED) || text.contains("unshare failed") {
        return eprintln!("skipped: no network namespace here ({text})");
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

struct Inside {
    service: sandbox_network::BrokerService,
    names: Arc<Names>,
    resolver: SocketAddr,
}

/// A broker with forwarders on these ports, in both families.
fn start(allow: &[&str], ports: &[u16]) -> Inside {
    let names = Arc::new(Names::default());
    let mut options = BrokerOptions::default().with_classes_for_tests(class_of);
    options.resolve = names.clone();
    let broker = Broker::new(rules(allow, &[]), options).unwrap();
    let resolver = UdpSocket::bind("127.0.0.53:53").unwrap();
    let at = resolver.local_addr().unwrap();
    let on = |address: IpAddr| {
        ports
            .iter()
            .map(move |port| TcpListener::bind((address, *port)).unwrap())
    };
    // The servers of the tests have the same ports at 127.0.0.1, so IPv4 has no wildcard here. A
    // local network of IPv6 has no addresses to listen on: only a wildcard takes its connections.
    let v4 = on([198, 18, 1, 0].into()).chain(on([198, 18, 1, 1].into()));
    let v6 = ports.iter().map(|port| any_ipv6(*port));
    let other = on([198, 18, 9, 9].into());
    let own = on([127, 0, 0, 9].into());
    let service = broker.serve(Listeners {
        resolver: vec![resolver],
        forwarders: v4.chain(v6).chain(other).chain(own).collect(),
        ..Listeners::default()
    });
    Inside {
        service: service.unwrap(),
        names,
        resolver: at,
    }
}

fn any_ipv6(port: u16) -> TcpListener {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    socket.set_only_v6(true).unwrap();
    let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
    socket.bind(&any.into()).unwrap();
    socket.listen(16).unwrap();
    socket.into()
}

impl Inside {
    fn resolve(&self, name: &str, kind: u16) -> IpAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        let question = question(name, kind);
        socket.send_to(&question, self.resolver).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        match &answer[question.len() + 12..length] {
            bytes @ [_, _, _, _] => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
            bytes => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
        }
    }

    fn finish(self) -> ServiceReport {
        self.service.finish()
    }
}

fn connect(address: impl Into<IpAddr>, port: u16) -> TcpStream {
    crate::world::connect((address.into(), port).into())
}

fn assert_reset(mut stream: TcpStream) {
    let error = stream.read(&mut [0]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

const A: u16 = 1;
const AAAA: u16 = 28;

#[test]
fn the_address_of_a_name_leads_to_its_host() {
    in_a_namespace(
        "transparent::the_address_of_a_name_leads_to_its_host",
        || {
            let port = serve_on("127.0.0.1:0", echo);
            let inside = start(&["*.test"], &[port]);
            for kind in [A, AAAA] {
                let address = inside.resolve("a.test", kind);
                assert_echoes(&mut connect(address, port), b"hello");
            }
            inside.names.set("b.test", &[&["127.0.0.1"], &["10.0.0.1"]]);
            let address = inside.resolve("b.test", A);
            assert_echoes(&mut connect(address, port), b"hello");
            // Rebinding, seen by a client that keeps its address.
            assert_reset(connect(address, port));
            let report = inside.finish();
            let hosts: Vec<_> = report
                .connections
                .iter()
                .map(|one| one.host.as_str())
                .collect();
            assert_eq!(hosts, ["a.test", "a.test", "b.test", "b.test"]);
            let transparent = |protocol| protocol == Protocol::Transparent;
            assert!(
                report
                    .connections
                    .iter()
                    .all(|one| transparent(one.protocol))
            );
            assert_eq!(report.connections[0].port, port);
        },
    );
}

#[test]
fn a_request_for_another_host_is_refused_where_no_proxy_is_used() {
    in_a_namespace(
        "transparent::a_request_for_another_host_is_refused_where_no_proxy_is_used",
        || {
            let port = serve_on("127.0.0.1:0", echo);
            let inside = start(&["*.test"], &[port]);
            let address = inside.resolve("a.test", A);
            let same = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
            assert_echoes(&mut connect(address, port), same);
            let mut client = connect(address, port);
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n")
                .unwrap();
            let answer = read_to_end(client);
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            let report = inside.finish();
            let other = Refusal::OtherHttpHost("b.test".to_owned());
            assert_eq!(report.connections[1].reason, Some(other));
        },
    );
}

#[test]
fn other_addresses_are_reset() {
    in_a_namespace("transparent::other_addresses_are_reset", || {
        let port = serve_on("127.0.0.1:0", echo);
        let inside = start(&["a.test:1"], &[port]);
        let named = inside.resolve("a.test", A);
        // The name is resolved for its other port.
        assert_reset(connect(named, port));
        // An address that no name has, and one that is not synthetic.
        assert_reset(connect([198, 18, 9, 9], port));
        assert_reset(connect([127, 0, 0, 9], port));
        let report = inside.finish();
        let reasons: Vec<_> = report
            .connections
            .iter()
            .map(|one| (one.host.as_str(), one.reason.clone()))
            .collect();
        assert_eq!(
            reasons,
            [
                ("a.test", Some(Refusal::Unlisted)),
                ("198.18.9.9", Some(Refusal::UnassignedAddress)),
                ("127.0.0.9", Some(Refusal::Unlisted)),
            ]
        );
    });
}
