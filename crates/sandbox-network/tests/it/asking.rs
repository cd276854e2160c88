//! Questions about hosts that no rule names.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use sandbox_network::{AskHost, Host, HostAnswer, Refusal};
use tokio::sync::Semaphore;

use crate::resolver::question;
use crate::world::{World, assert_echoes, echo_server, wait_until};

/// Answers by the name of the host, once the test lets it.
struct Asker {
    asked: Mutex<Vec<String>>,
    may_answer: Semaphore,
}

impl Asker {
    fn new(answers: usize) -> Arc<Asker> {
        Arc::new(Asker {
            asked: Mutex::default(),
            may_answer: Semaphore::new(answers),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl AskHost for Asker {
    fn ask(&self, host: &Host, port: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>> {
        self.asked.lock().unwrap().push(host.with_port(port));
        let answer = match host.to_string().split('.').next() {
            Some("once") => HostAnswer::Once,
            Some("run") => HostAnswer::Run,
            _ => HostAnswer::No,
        };
        Box::pin(async move {
            self.may_answer.acquire().await.unwrap().forget();
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
fn an_answer_counts_once_or_for_the_run() {
    let asker = Asker::new(100);
    let port = echo_server();
    let world = world(&asker);
    for host in ["ok.test", "once.test", "once.test", "run.test", "run.test"] {
        let mut tunnel = world.tunnel(host, port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
    }
    for host in ["no.test", "no.test", "denied.test"] {
        world.tunnel(host, port).unwrap_err();
    }
    let at = |host: &str| format!("{host}:{port}");
    let asked = ["once.test", "once.test", "run.test", "no.test"].map(at);
    assert_eq!(asker.asked(), asked);
    let report = world.finish();
    let reasons: Vec<_> = report
        .connections
        .iter()
        .filter_map(|one| one.reason.clone())
        .collect();
    assert_eq!(reasons[..2], [Refusal::Declined, Refusal::Declined]);
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
