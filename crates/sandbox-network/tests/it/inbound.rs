//! Clients outside that reach a port of the program. The program's network is this one, in which its
//! server has a port and the listener outside another one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use sandbox_network::{
    Broker, BrokerOptions, BrokerService, ConfinedSockets, ConnectionVerdict, HostRules,
    InboundListener, Listeners, Protocol,
};
use socket2::{Domain, Socket, Type};

use crate::world::{connect, read_to_end, server};

#[derive(Debug)]
struct OwnSockets;

impl ConfinedSockets for OwnSockets {
    fn make_socket(&self, is_v6: bool) -> io::Result<OwnedFd> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        Ok(Socket::new(domain, Type::STREAM, None)?.into())
    }
}

#[derive(Debug)]
struct NoSockets;

impl ConfinedSockets for NoSockets {
    fn make_socket(&self, _: bool) -> io::Result<OwnedFd> {
        Err(io::Error::other("the network is gone"))
    }
}

/// Returns a service that connects clients of the address to the port.
fn publish(port: u16, sockets: Arc<dyn ConfinedSockets>) -> (BrokerService, SocketAddr) {
    let broker = Broker::new(HostRules::default(), BrokerOptions::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let inbound = vec![InboundListener {
        listener,
        port,
        sockets,
    }];
    let service = broker.serve(Listeners {
        inbound,
        ..Listeners::default()
    });
    (service.unwrap(), address)
}

#[test]
fn each_direction_ends_on_its_own() {
    let port = server(|mut stream| {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        stream.write_all(&vec![b'y'; all.len() * 2]).unwrap();
    });
    let (service, address) = publish(port, Arc::new(OwnSockets));
    let mut client = connect(address);
    client.write_all(&[b'x'; 1_000_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(client).len(), 2_000_000);
    let report = service.finish();
    let [record] = report.connections.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((record.protocol, record.port), (Protocol::Inbound, port));
    assert_eq!((record.sent, record.received), (1_000_000, 2_000_000));
    assert_eq!(record.verdict, ConnectionVerdict::Allowed);
    assert_eq!(record.host, "127.0.0.1");
}

/// A server may speak first, and no rule judges the client's bytes.
#[test]
fn bytes_are_passed_on_as_they_are() {
    let port = server(|mut stream| {
        stream.write_all(b"220 hello\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    let (service, address) = publish(port, Arc::new(OwnSockets));
    // The beginning of a TLS hello that is never completed.
    for text in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        let mut client = connect(address);
        let mut greeting = [0; 11];
        client.read_exact(&mut greeting).unwrap();
        client.write_all(text).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert_eq!(all, text);
    }
    assert_eq!(service.finish().connections.len(), 2);
}

#[test]
fn without_a_server_a_client_is_closed_at_once() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = unused.local_addr().unwrap().port();
    drop(unused);
    let sockets: [Arc<dyn ConfinedSockets>; 2] = [Arc::new(OwnSockets), Arc::new(NoSockets)];
    for sockets in sockets {
        let (service, address) = publish(port, sockets);
        let mut client = TcpStream::connect(address).unwrap();
        let got = client.read(&mut [0; 1]);
        assert!(!matches!(got, Ok(1..)), "{got:?}");
        let report = service.finish();
        assert_eq!(report.connections[0].verdict, ConnectionVerdict::Failed);
        assert!(report.connections[0].reason.is_some());
    }
}

/// A program ends right after its last answer, and the service with it.
#[test]
fn the_end_of_the_service_waits_for_an_answer() {
    let (asked, is_asked) = std::sync::mpsc::channel();
    let (published, is_published) = std::sync::mpsc::channel();
    let is_published = std::sync::Mutex::new(is_published);
    let port = server(move |mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        if question.is_empty() {
            // One of its own connections below.
            return;
        }
        asked.send(()).unwrap();
        let address: SocketAddr = is_published.lock().unwrap().recv().unwrap();
        // The service that ends has closed its listener.
        while TcpStream::connect(address).is_ok() {
            std::thread::yield_now();
        }
        stream.write_all(b"answer").unwrap();
    });
    let (service, address) = publish(port, Arc::new(OwnSockets));
    published.send(address).unwrap();
    let mut client = connect(address);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    is_asked.recv().unwrap();
    let report = service.finish();
    assert_eq!(read_to_end(client), "answer");
    assert!(report.connections.iter().any(|one| one.received == 6));
}

#[test]
fn the_end_of_the_service_ends_connections() {
    let waiting = server(|mut stream| {
        stream.write_all(b"y").unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let endless = server(|mut stream| {
        stream.write_all(b"y").unwrap();
        std::mem::forget(stream);
    });
    for port in [waiting, endless] {
        let (service, address) = publish(port, Arc::new(OwnSockets));
        let mut client = connect(address);
        client.read_exact(&mut [0; 1]).unwrap();
        let report = service.finish();
        assert_eq!(report.connections.len(), 1);
        let mut rest = Vec::new();
        // An end or a reset, and no time limit.
        let ended = client.read_to_end(&mut rest);
        let is_ended = match ended {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        };
        assert!(is_ended);
        assert!(TcpStream::connect(address).is_err());
    }
}
