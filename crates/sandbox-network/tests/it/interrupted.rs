//! Attempts that are cut off at every stage: their records tell that the client tried.

use std::future::{Future, pending};
use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use sandbox_network::{
    AskHost, AskableHosts, BrokerOptions, ConnectionEventKind, ConnectionRecord, ConnectionVerdict,
    Host, HostAnswer, HostName, ParentProxy, Protocol, Refusal, Resolve,
};

use crate::world::{World, wait_until};

const PROTOCOLS: [Protocol; 3] = [Protocol::Connect, Protocol::Http, Protocol::Socks];
const HOSTS: [&str; 3] = ["a.test", "b.test", "c.test"];

fn position(protocol: Protocol) -> usize {
    PROTOCOLS.iter().position(|one| *one == protocol).unwrap()
}

/// A person who does not answer.
#[derive(Debug)]
struct Undecided(Arc<AtomicUsize>, AskableHosts);

impl AskHost for Undecided {
    fn askable(&self) -> &AskableHosts {
        &self.1
    }

    fn ask(&self, _: &Host, _: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(pending())
    }
}

/// A resolver that does not answer before the test ends.
struct Unanswered(Arc<AtomicUsize>, Mutex<mpsc::Receiver<()>>);

impl Resolve for Unanswered {
    fn resolve(&self, _: &HostName) -> std::io::Result<Vec<IpAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let _ = self.1.lock().unwrap().recv();
        Ok(Vec::new())
    }
}

/// A resolver of a name at whose address nothing answers.
#[cfg(target_os = "linux")]
struct Silent(Arc<AtomicUsize>);

#[cfg(target_os = "linux")]
impl Resolve for Silent {
    fn resolve(&self, _: &HostName) -> std::io::Result<Vec<IpAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

/// Sends a request for a host of its own, so that each is resolved and asked about apart.
fn send(world: &World, protocol: Protocol, port: u16) -> TcpStream {
    let mut client = world.client();
    let host = HOSTS[position(protocol)];
    let target = format!("{host}:{port}");
    let socks = [
        &b"\x05\x01\x00\x05\x01\x00\x03\x06"[..],
        host.as_bytes(),
        &port.to_be_bytes(),
    ]
    .concat();
    let request = match protocol {
        Protocol::Connect => format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into(),
        Protocol::Http => format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n").into(),
        _ => socks,
    };
    client.write_all(&request).unwrap();
    client
}

/// Lets one client of each protocol reach a stage, and ends the service in two ways.
fn cut_off(
    allow: &[&str],
    port: u16,
    reached: &dyn Fn() -> usize,
    options: &dyn Fn(&mut BrokerOptions),
) {
    for is_finished in [true, false] {
        let events: Arc<Mutex<Vec<ConnectionRecord>>> = Arc::default();
        let seen = Arc::clone(&events);
        let world = World::with(allow, &[], |all| {
            options(all);
            all.on_event = Some(Arc::new(move |event| {
                assert_eq!(event.kind, ConnectionEventKind::Refused);
                seen.lock().unwrap().push(event.record.clone());
            }));
        });
        let mut clients = Vec::new();
        for protocol in PROTOCOLS {
            let before = reached();
            clients.push(send(&world, protocol, port));
            wait_until("the stage is reached", || reached() > before);
        }
        let records = if is_finished {
            world.finish().connections
        } else {
            let broker = world.broker.clone();
            drop(world);
            wait_until("all are told", || events.lock().unwrap().len() == 3);
            drop(broker);
            events.lock().unwrap().clone()
        };
        let mut found: Vec<_> = records.iter().map(|one| one.protocol).collect();
        found.sort_by_key(|one| position(*one));
        assert_eq!(found, PROTOCOLS);
        for record in records {
            let host = HOSTS[position(record.protocol)];
            assert_eq!((record.host.as_str(), record.sent), (host, 0));
            assert_eq!(record.verdict, ConnectionVerdict::Failed);
            assert_eq!(record.reason, Some(Refusal::Interrupted));
        }
    }
}

#[test]
fn while_a_person_is_asked() {
    let count = Arc::new(AtomicUsize::new(0));
    cut_off(&[], 4000, &|| count.load(Ordering::Relaxed), &|options| {
        options.ask = Some(Arc::new(Undecided(
            Arc::clone(&count),
            AskableHosts::default(),
        )));
    });
}

#[test]
fn while_the_name_is_resolved() {
    let count = Arc::new(AtomicUsize::new(0));
    let (_end, wait) = mpsc::channel();
    let resolver = Arc::new(Unanswered(Arc::clone(&count), Mutex::new(wait)));
    cut_off(
        &["*.test"],
        443,
        &|| count.load(Ordering::Relaxed),
        &|options| {
            options.resolve = resolver.clone();
        },
    );
}

#[cfg(target_os = "linux")]
#[test]
fn while_the_address_is_connected() {
    let count = Arc::new(AtomicUsize::new(0));
    let silent = crate::world::silent_listener(([127, 0, 0, 1], 0).into());
    let at = silent.last().unwrap().local_addr().unwrap();
    let port = at.as_socket().unwrap().port();
    cut_off(
        &["*.test"],
        port,
        &|| count.load(Ordering::Relaxed),
        &|options| {
            options.resolve = Arc::new(Silent(Arc::clone(&count)));
            options.limits.connect_timeout = crate::world::WATCHDOG;
            options.limits.connect_total_timeout = crate::world::WATCHDOG;
        },
    );
}

#[test]
fn while_the_parent_proxy_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            open.push(stream);
            accepted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let parent = ParentProxy::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    cut_off(
        &["*.test"],
        443,
        &|| count.load(Ordering::Relaxed),
        &|options| {
            options.parent = Some(parent.clone());
        },
    );
}
