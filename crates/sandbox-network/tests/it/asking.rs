//! Questions about hosts that no rule names.

use std::future::Future;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use sandbox_network::{AskHost, AskableHosts, Host, HostAnswer, HostPattern, ParentProxy, Refusal};
use tokio::sync::Semaphore;

use crate::resolver::question;
use crate::world::{World, ask_for_tunnel, assert_echoes, echo_server, tunnel_by, wait_until};

/// Answers by the name of the host, once the test lets it.
#[derive(Debug)]
struct Asker {
    asked: Mutex<Vec<String>>,
    may_answer: Semaphore,
    withdrawn: Mutex<usize>,
    askable: AskableHosts,
}

fn pattern(text: &str) -> Option<HostPattern> {
    Some(HostPattern::parse(text).unwrap())
}

/// Counts a question that is dropped before it is answered.
struct OpenQuestion<'a>(&'a Mutex<usize>, bool);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.lock().unwrap() += 1;
        }
    }
}

impl Asker {
    fn new(answers: usize) -> Arc<Asker> {
        Arc::new(Asker {
            asked: Mutex::default(),
            may_answer: Semaphore::new(answers),
            withdrawn: Mutex::default(),
            askable: AskableHosts::default().without(pattern("never.test")),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl AskHost for Asker {
    fn askable(&self) -> &AskableHosts {
        &self.askable
    }

    fn ask(&self, host: &Host, port: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>> {
        self.asked.lock().unwrap().push(host.with_port(port));
        let answer = match host.to_string().split('.').next() {
            Some("once") => HostAnswer::Once,
            Some("run") => HostAnswer::Run,
            Some("silent") => HostAnswer::Unanswered,
            _ => HostAnswer::No,
        };
        Box::pin(async move {
            let mut open = OpenQuestion(&self.withdrawn, false);
            self.may_answer.acquire().await.unwrap().forget();
            open.1 = true;
            answer
        })
    }
}

fn world(asker: &Arc<Asker>) -> World {
    let asker = Arc::clone(asker);
    World::with(&["ok.test"], &["denied.test"], |options| {
        options.ask = Some(asker)
    })
}

#[test]
fn an_answer_counts_for_the_command_or_for_the_run() {
    let asker = Asker::new(100);
    let port = echo_server();
    let world = world(&asker);
    for host in ["ok.test", "once.test", "once.test", "run.test", "run.test"] {
        let mut tunnel = world.tunnel(host, port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
    }
    let refused = [
        "no.test",
        "no.test",
        "denied.test",
        "silent.test",
        "silent.test",
    ];
    for host in refused {
        world.tunnel(host, port).unwrap_err();
    }
    let at = |host: &str| format!("{host}:{port}");
    let of_first = ["once.test", "run.test", "no.test", "silent.test"].map(at);
    assert_eq!(asker.asked(), of_first);
    let (service, proxy) = world.another_service();
    for host in ["once.test", "run.test"] {
        assert_echoes(&mut tunnel_by(proxy, host, port).unwrap(), b"hello");
    }
    for host in ["no.test", "silent.test"] {
        tunnel_by(proxy, host, port).unwrap_err();
    }
    let of_second = ["once.test", "silent.test"].map(at);
    assert_eq!(asker.asked()[of_first.len()..], of_second);
    drop(service);
    let report = world.finish();
    let reasons: Vec<_> = report
        .connections
        .iter()
        .filter_map(|one| one.reason.clone())
        .collect();
    assert_eq!(reasons[..2], [Refusal::Declined, Refusal::Declined]);
    assert!(matches!(reasons[2], Refusal::Denied(_)));
    assert_eq!(reasons[3..], [Refusal::Unanswered, Refusal::Unanswered]);
    let allowed = report.connections.iter().filter(|one| one.reason.is_none());
    let by: Vec<_> = allowed
        .map(|one| (one.rule.as_ref().unwrap().to_string(), one.answer))
        .collect();
    let expected = [
        ("ok.test".to_owned(), None),
        (at("once.test"), Some(HostAnswer::Once)),
        (at("once.test"), Some(HostAnswer::Once)),
        (at("run.test"), Some(HostAnswer::Run)),
        (at("run.test"), Some(HostAnswer::Run)),
    ];
    assert_eq!(by, expected);
}

#[test]
fn nobody_is_asked_about_addresses_and_hosts_that_may_not_be_asked() {
    let asker = Asker::new(100);
    let port = echo_server();
    let world = world(&asker);
    for host in [
        "127.0.0.1",
        "93.184.215.14",
        "[2a00:1450::5]",
        "10.0.0.5",
        "localhost",
        "never.test",
    ] {
        let answer = world.tunnel(host, port).unwrap_err();
        assert!(answer.contains("no rule names it"), "{host}: {answer}");
    }
    assert_eq!(asker.asked(), Vec::<String>::new());
}

#[test]
fn nobody_is_asked_about_a_private_name_that_a_parent_would_resolve() {
    let asker = Asker::new(100);
    let own = Arc::clone(&asker);
    let world = World::with(&[], &[], |options| {
        options.ask = Some(own);
        // Nothing listens there.
        options.parent = Some(ParentProxy::parse("http://127.0.0.1:1").unwrap());
    });
    for host in ["intranet", "metadata.google.internal"] {
        let answer = world.tunnel(host, 80).unwrap_err();
        assert!(answer.contains("no rule names it"), "{host}: {answer}");
    }
    assert_eq!(asker.asked(), Vec::<String>::new());
    let answer = world.tunnel("once.test", 80).unwrap_err();
    assert!(
        answer.contains("the parent proxy cannot be connected"),
        "{answer}"
    );
    assert_eq!(asker.asked(), ["once.test:80"]);
}

#[test]
fn a_command_asks_a_bounded_number_of_questions() {
    let asker = Asker::new(100);
    let world = world(&asker);
    let refusals: Vec<_> = (0..21)
        .map(|number| {
            world
                .tunnel(&format!("no.h{number}.test"), 443)
                .unwrap_err()
        })
        .collect();
    assert_eq!(asker.asked().len(), 20);
    for (number, refusal) in refusals.iter().enumerate() {
        let is_last = number == 20;
        assert_eq!(
            refusal.contains("asks about too many hosts"),
            is_last,
            "{refusal}"
        );
    }
    // Another command may ask.
    let (_service, proxy) = world.another_service();
    tunnel_by(proxy, "no.more.test", 443).unwrap_err();
    assert_eq!(asker.asked().len(), 21);
}

#[test]
fn waiting_connections_leave_the_broker_to_others() {
    let asker = Asker::new(0);
    let port = echo_server();
    let world = world(&asker);
    let _waiting: Vec<_> = (0..64)
        .map(|_| ask_for_tunnel(world.proxy, "once.test", port))
        .collect();
    wait_until("the question", || asker.asked().len() == 1);
    // Sooner or later all of them wait, and no more do.
    wait_until("a refusal", || {
        let mut tunnel = ask_for_tunnel(world.proxy, "other.test", port);
        let short = std::time::Duration::from_millis(50);
        tunnel.set_read_timeout(Some(short)).unwrap();
        let mut answer = [0; 12];
        tunnel.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 403"
    });
    assert_echoes(&mut world.tunnel("ok.test", port).unwrap(), b"hello");
}

#[test]
fn the_end_of_a_command_withdraws_its_question() {
    let asker = Asker::new(0);
    let world = world(&asker);
    let client = std::thread::spawn({
        let proxy = world.proxy;
        move || tunnel_by(proxy, "once.test", 443)
    });
    wait_until("the question", || !asker.asked().is_empty());
    let report = world.finish();
    client.join().unwrap().unwrap_err();
    assert_eq!(*asker.withdrawn.lock().unwrap(), 1);
    assert_eq!(report.connections[0].reason, Some(Refusal::Interrupted));
}

#[test]
fn connections_to_one_host_wait_for_one_answer() {
    let asker = Asker::new(0);
    let port = echo_server();
    let world = world(&asker);
    std::thread::scope(|scope| {
        let open = || scope.spawn(|| world.tunnel("once.test", port).unwrap());
        let tunnels: Vec<_> = (0..5).map(|_| open()).collect();
        wait_until("the question", || !asker.asked().is_empty());
        // A question about another host does not wait for it.
        let other = scope.spawn(|| world.tunnel("no.test", port).unwrap_err());
        wait_until("the other question", || asker.asked().len() == 2);
        std::thread::sleep(std::time::Duration::from_millis(200));
        asker.may_answer.add_permits(2);
        for tunnel in tunnels {
            assert_echoes(&mut tunnel.join().unwrap(), b"hello");
        }
        other.join().unwrap();
    });
    let asked = asker.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[test]
fn an_answer_does_not_open_private_addresses() {
    let asker = Asker::new(100);
    let world = world(&asker);
    world.names.set("run.example", &[&["10.0.0.1"]]);
    let answer = world.tunnel("run.example", 443).unwrap_err();
    assert!(answer.contains("a private address"), "{answer}");
}

#[test]
fn a_name_that_may_be_asked_about_is_resolved() {
    let asker = Asker::new(100);
    let world = world(&asker);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(crate::world::WATCHDOG))
        .unwrap();
    let mut answer = [0; 512];
    for (name, code) in [("new.example", 0), ("denied.test", 3)] {
        socket.send_to(&question(name, 1), world.resolver).unwrap();
        socket.recv(&mut answer).unwrap();
        assert_eq!(answer[3] & 0xf, code, "{name}");
    }
    assert_eq!(asker.asked(), Vec::<String>::new());
}
