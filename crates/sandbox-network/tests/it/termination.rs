//! TLS that ends at the broker, on every road to a server, in a network namespace of the test's own.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use sandbox_network::{
    Broker, BrokerOptions, BrokerService, CredentialServer, HeaderCredential, Host, Listeners,
    Protocol, Refusal, TlsTermination,
};

use crate::resolver::question;
use crate::transparent::in_a_namespace;
use crate::world::{Names, class_of, connect, read_answer, read_head, rules, server, tunnel_by};

const ROADS: [Road; 3] = [Road::Connect, Road::Socks, Road::Direct];
const KEY: &str = "the-real-key";
const PLACEHOLDER: &str = "placeholder";

#[derive(Clone, Copy, Debug)]
enum Road {
    Connect,
    Socks,
    /// As programs that know no proxy: the name is resolved, and its address connected.
    Direct,
}

/// A server with TLS that answers each request with the key that it got, and a broker before it.
struct World {
    service: BrokerService,
    proxy: SocketAddr,
    resolver: SocketAddr,
    port: u16,
    /// Trusts the authority of the run.
    inside: Arc<ClientConfig>,
    /// Trusts the authority of the server.
    outside: Arc<ClientConfig>,
    heads: Arc<Mutex<Vec<String>>>,
}

fn client_config(authority: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Returns the port of a server for these names, the heads that it sees, and its certificate, which is
/// its own authority.
fn tls_server(names: &[&str]) -> (u16, Arc<Mutex<Vec<String>>>, CertificateDer<'static>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let (config, heads) = (Arc::new(config), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&heads);
    let port = server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        loop {
            let head = read_head(&mut stream);
            if !head.ends_with("\r\n\r\n") {
                return;
            }
            let mut lines = head.lines();
            let key = lines.find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("authorization").then_some(value)
            });
            let answer = format!(
                "HTTP/1.1 200 OK\r\nX-Echo: {}\r\nContent-Length: 2\r\n\r\nok",
                key.unwrap_or_default()
            );
            noted.lock().unwrap().push(head);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (port, heads, certificate)
}

impl World {
    /// `trusts`: whether the broker trusts the server's certificate.
    fn new(trusts: bool) -> World {
        let (port, heads, certificate) = tls_server(&["api.test", "other.test"]);
        let outside = client_config(certificate);
        let upstream = match trusts {
            true => Arc::clone(&outside),
            false => client_config(tls_server(&["api.test"]).2),
        };
        let server = CredentialServer::https(Host::parse("api.test").unwrap(), port)
            .trusting_for_tests(upstream)
            .with(HeaderCredential::new("authorization", PLACEHOLDER, KEY).unwrap());
        let termination = TlsTermination::new([server]).unwrap();
        let pem = termination.authority_pem().as_bytes();
        let inside = client_config(CertificateDer::from_pem_slice(pem).unwrap());
        let mut options = BrokerOptions::default().with_classes_for_tests(class_of);
        options.resolve = Arc::new(Names::default());
        let allowed = format!("*.test:{port}");
        let broker = Broker::new(rules(&[&allowed], &[]), options).unwrap();
        let (proxy, resolver) = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.53:0").unwrap(),
        );
        let (proxy_at, resolver_at) = (proxy.local_addr().unwrap(), resolver.local_addr().unwrap());
        let synthetic = [[198, 18, 1, 0], [198, 18, 1, 1]].map(IpAddr::from);
        let service = broker.serve(Listeners {
            resolver: vec![resolver],
            proxy: vec![proxy],
            forwarders: synthetic
                .map(|at| TcpListener::bind((at, port)).unwrap())
                .into(),
            termination: Some(Arc::new(termination)),
            ..Listeners::default()
        });
        World {
            service: service.unwrap(),
            proxy: proxy_at,
            resolver: resolver_at,
            port,
            inside,
            outside,
            heads,
        }
    }

    /// Returns a connection that the program takes for one to a host.
    fn reach(&self, road: Road, host: &str) -> TcpStream {
        match road {
            Road::Connect => tunnel_by(self.proxy, host, self.port).unwrap(),
            Road::Socks => {
                let mut client = connect(self.proxy);
                let length = u8::try_from(host.len()).unwrap();
                let port = self.port.to_be_bytes();
                let request = [&[5, 1, 0, 3, length], host.as_bytes(), &port].concat();
                client.write_all(&[5, 1, 0]).unwrap();
                client.read_exact(&mut [0; 2]).unwrap();
                client.write_all(&request).unwrap();
                let mut reply = [0; 10];
                client.read_exact(&mut reply).unwrap();
                assert_eq!(reply[1], 0);
                client
            }
            Road::Direct => {
                let asking = UdpSocket::bind("127.0.0.1:0").unwrap();
                asking.send_to(&question(host, 1), self.resolver).unwrap();
                let mut answer = [0; 512];
                let length = asking.recv(&mut answer).unwrap();
                let address: [u8; 4] = answer[length - 4..length].try_into().unwrap();
                connect((address, self.port).into())
            }
        }
    }

    /// Sends a request for `/` with a header, and returns the head of the answer, or the error of TLS.
    fn ask(
        &self,
        road: Road,
        (host, named): (&str, &str),
        trust: &Arc<ClientConfig>,
        header: &str,
    ) -> Result<String, String> {
        let name = ServerName::try_from(named.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::clone(trust), name).unwrap();
        let mut stream = rustls::StreamOwned::new(client, self.reach(road, host));
        let request = format!("GET / HTTP/1.1\r\nHost: {named}\r\n{header}\r\n");
        let sent = stream.write_all(request.as_bytes());
        sent.map_err(|error| error.to_string())?;
        let (head, body) = read_answer(&mut stream);
        Ok(head + &body)
    }

    fn heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }

    /// Ends the service and returns what it refused.
    fn refusals(self) -> Vec<Refusal> {
        let records = self.service.finish().connections;
        let credential = records
            .iter()
            .filter(|one| one.protocol == Protocol::Credential);
        credential.filter_map(|one| one.reason.clone()).collect()
    }
}

#[test]
fn a_key_is_added_on_every_road_to_its_server() {
    in_a_namespace(
        "termination::a_key_is_added_on_every_road_to_its_server",
        || {
            for road in ROADS {
                let world = World::new(true);
                let inside = Arc::clone(&world.inside);
                let own = ("api.test", "api.test");
                // The header of a client, and what the server sees.
                for (header, seen) in [
                    (
                        "Authorization: Bearer placeholder\r\n",
                        "authorization: Bearer the-real-key\r\n",
                    ),
                    (
                        "Authorization: token placeholder\r\n",
                        "authorization: token the-real-key\r\n",
                    ),
                    // me:placeholder, me:the-real-key
                    (
                        "Authorization: Basic bWU6cGxhY2Vob2xkZXI=\r\n",
                        "authorization: Basic bWU6dGhlLXJlYWwta2V5\r\n",
                    ),
                    ("Accept: placeholder\r\n", "accept: placeholder\r\n"),
                    // Another host than that of the connection is not asked for.
                    ("X-Forwarded-Host: other.test\r\n", "host: api.test:"),
                ] {
                    let answer = world.ask(road, own, &inside, header).unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{road:?} {answer}");
                    assert!(!answer.contains("the-real-key"), "{road:?} {answer}");
                    assert!(!answer.contains("dGhlLXJlYWwta2V5"), "{road:?} {answer}");
                    let heads = world.heads();
                    assert!(
                        heads.len() == 1 && heads[0].contains(seen),
                        "{road:?} {heads:?}"
                    );
                }
                for header in [
                    "Authorization: Bearer my-own\r\n",
                    "Authorization: Basic bWU6bXktb3du\r\n",
                    "X-Api-Key: my-own\r\n",
                    "Cookie: my-own\r\n",
                ] {
                    let answer = world.ask(road, own, &inside, header).unwrap();
                    assert!(answer.starts_with("HTTP/1.1 403"), "{road:?} {answer}");
                }
                assert_eq!(world.heads(), Vec::<String>::new());
                assert_eq!(world.refusals(), vec![Refusal::NoPlaceholder; 4]);
            }
        },
    );
}

#[test]
fn other_hosts_keep_their_tls() {
    in_a_namespace("termination::other_hosts_keep_their_tls", || {
        for road in ROADS {
            let world = World::new(true);
            let other = ("other.test", "other.test");
            let header = "Authorization: Bearer placeholder\r\n";
            let answer = world.ask(road, other, &world.outside, header).unwrap();
            // It has got what the client sent.
            assert!(
                answer.contains("X-Echo: Bearer placeholder"),
                "{road:?} {answer}"
            );
            let of_run = world.ask(road, other, &world.inside, header);
            assert!(of_run.unwrap_err().contains("certificate"), "{road:?}");
        }
    });
}

#[test]
fn a_program_that_is_not_served_is_told_and_recorded() {
    in_a_namespace(
        "termination::a_program_that_is_not_served_is_told_and_recorded",
        || {
            for road in ROADS {
                let world = World::new(true);
                let own = ("api.test", "api.test");
                // It trusts the server alone.
                let distrusting = world.ask(road, own, &world.outside, "");
                assert!(distrusting.unwrap_err().contains("certificate"), "{road:?}");
                let other_name = world.ask(road, ("api.test", "other.test"), &world.inside, "");
                assert!(
                    other_name.unwrap_err().contains("UnrecognisedName"),
                    "{road:?}"
                );
                let mut plain = world.reach(road, "api.test");
                plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut told = Vec::new();
                plain.read_to_end(&mut told).unwrap();
                assert_eq!(world.heads(), Vec::<String>::new());
                let mut refused = world.refusals();
                // Connections end side by side, and each is recorded at its end.
                refused.sort_by_key(|one| match one {
                    Refusal::TlsIncomplete(_) => 0,
                    Refusal::OtherTlsName(_) => 1,
                    _ => 2,
                });
                let [
                    Refusal::TlsIncomplete(_),
                    Refusal::OtherTlsName(name),
                    plain,
                ] = &refused[..]
                else {
                    panic!("{road:?} {refused:?}");
                };
                assert_eq!(
                    (name.as_str(), plain),
                    (
                        "other.test",
                        &Refusal::InvalidHello("the server speaks TLS")
                    )
                );
            }
        },
    );
}

/// The broker judges the server's certificate: the client cannot.
#[test]
fn a_server_that_is_not_trusted_gets_no_key() {
    in_a_namespace(
        "termination::a_server_that_is_not_trusted_gets_no_key",
        || {
            for road in ROADS {
                let world = World::new(false);
                let header = "Authorization: Bearer placeholder\r\n";
                let answer = world.ask(road, ("api.test", "api.test"), &world.inside, header);
                let answer = answer.unwrap();
                assert!(answer.starts_with("HTTP/1.1 502"), "{road:?} {answer}");
                assert!(answer.contains("TLS: "), "{road:?} {answer}");
                assert_eq!(world.heads(), Vec::<String>::new());
            }
        },
    );
}

#[test]
fn only_servers_with_a_name_and_tls_are_taken() {
    let https = |host: &str| CredentialServer::https(Host::parse(host).unwrap(), 443);
    let loopback = CredentialServer::loopback_http(Host::parse("localhost").unwrap(), 80).unwrap();
    for (server, ok) in [
        (https("api.example.com"), true),
        (https("127.0.0.1"), false),
        (https("::1"), false),
        (loopback, false),
    ] {
        assert_eq!(TlsTermination::new([server]).is_ok(), ok);
    }
}
