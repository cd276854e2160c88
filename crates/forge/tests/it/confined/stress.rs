//! `forge mcp` under clients that ask too much, read too little, or are gone: everybody else is
//! answered meanwhile, each call once, and the process stays small.
//!
//! Figures are printed (`--nocapture`), not asserted: a machine at work is slow. What is asserted is
//! far beyond them and only tells slow from stuck.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PROJECT, World, eventually, forge_program};

const FILE: &str = "golem-forge.config.yaml";

/// No test waits for this; it only keeps a defect from hanging the suite.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Whatever takes longer while others hang is held up by them.
const PROMPT: Duration = Duration::from_secs(120);

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
}

impl Server {
    fn start(world: &World) -> Self {
        let mut child = world
            .command(
                forge_program(),
                &["--trust", "-q", "mcp", "--approver", "host"],
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server {
            input: child.stdin.take(),
            output: child.stdout.take(),
            child,
        };
        server.say(
            &json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }}),
        );
        server
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// From here on somebody reads whatever comes.
    fn listen(&mut self) -> Ear {
        let output = BufReader::new(self.output.take().unwrap());
        let (heard, messages) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
                if heard.send(message).is_err() {
                    return;
                }
            }
        });
        Ear { messages }
    }

    /// The most memory that it ever had, in KiB.
    fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = peak.unwrap().split_whitespace().next();
        words.unwrap().parse().unwrap()
    }

    /// The same once it grows no more: everything that can be done is done.
    fn settled_kib(&self) -> u64 {
        let mut seen = [0; 10];
        while seen.iter().any(|peak| *peak != seen[0]) || seen[0] == 0 {
            seen.rotate_right(1);
            seen[0] = self.peak_kib();
            std::thread::sleep(Duration::from_millis(50));
        }
        seen[0]
    }

    /// Waits for the end, which comes by itself.
    fn ended(&mut self) -> i32 {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(since.elapsed() < WATCHDOG, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

struct Ear {
    messages: Receiver<Value>,
}

impl Ear {
    fn next(&self) -> Value {
        self.messages
            .recv_timeout(WATCHDOG)
            .expect("a message in time")
    }

    /// The answer with this id; others must not come meanwhile.
    fn answer(&self, id: u64) -> Value {
        let message = self.next();
        assert_eq!(message["id"], id, "{message}");
        message
    }

    fn opened(&self) {
        assert_eq!(self.next()["id"], "open");
    }
}

fn world() -> World {
    let long = "0123456789abcde\n".repeat(12_500);
    let world = World::new(&[
        (FILE, PROJECT),
        ("data/a.md", "text"),
        ("data/long.md", &long),
    ]);
    std::fs::create_dir_all(world.project().join("workspace")).unwrap();
    let pipe = world.project().join("data/pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, pipe, mode).unwrap();
    world
}

fn print(about: &str, figures: std::fmt::Arguments<'_>) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "{about}: {figures}").unwrap();
}

/// The longest that any of these takes, one after the other.
fn slowest(server: &mut Server, ear: &Ear, from: u64, calls: &[(&str, Value)]) -> Duration {
    let mut slowest = Duration::ZERO;
    for (id, (tool, arguments)) in (from..).zip(calls) {
        let asked = Instant::now();
        server.call(id, tool, arguments);
        let answer = ear.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

fn cheap() -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for n in 0..10 {
        calls.push(("read_file", json!({"path": "/data/a.md"})));
        calls.push(("list_files", json!({"path": "/data"})));
        calls.push((
            "write_file",
            json!({"path": format!("/workspace/{n}.md"), "content": "x"}),
        ));
        calls.push(("hash_file", json!({"path": "/data/a.md"})));
    }
    calls
}

#[test]
fn a_thousand_calls_at_once_are_each_answered_once() {
    const CALLS: u64 = 1000;
    let world = world();
    let mut server = Server::start(&world);
    let ear = server.listen();
    ear.opened();
    let asked = Instant::now();
    for id in 0..CALLS {
        let (tool, arguments) = match id % 5 {
            0 => ("read_file", json!({"path": "/data/a.md"})),
            1 => ("list_files", json!({"path": "/"})),
            2 => (
                "write_file",
                json!({"path": format!("/workspace/{id}.md"), "content": "x"}),
            ),
            // Reading a pipe would wait for whoever writes to it.
            3 => ("read_file", json!({"path": "/data/pipe"})),
            _ => ("read_file", json!({"path": "/etc/passwd"})),
        };
        server.call(id, tool, &arguments);
    }
    let mut answers = HashMap::new();
    for _ in 0..CALLS {
        let answer = ear.next();
        let id = answer["id"].as_u64().unwrap();
        let code = answer["result"]["structuredContent"]["code"]
            .as_str()
            .map(str::to_owned);
        assert!(answer["result"].is_object(), "{answer}");
        assert!(answers.insert(id, code).is_none(), "twice: {id}");
    }
    let took = asked.elapsed();
    for (id, code) in &answers {
        let expected = match id % 5 {
            0..=2 => None,
            3 => Some("NOT_A_FILE"),
            _ => Some("OUTSIDE_SANDBOX"),
        };
        assert_eq!(code.as_deref(), expected, "{id}");
    }
    assert_eq!(answers.len() as u64, CALLS);
    // Nothing comes after the last answer.
    server.call(CALLS, "read_file", &json!({"path": "/data/a.md"}));
    ear.answer(CALLS);
    let peak = server.peak_kib();
    print(
        "1000 calls at once",
        format_args!("{took:?}, at most {peak} KiB"),
    );
    assert!(peak < 256 * 1024, "{peak} KiB");
    drop(server.input.take());
    assert_eq!(server.ended(), 0);
}

/// Commands that wait for ever, one of them at a pipe that nobody writes to.
#[test]
fn calls_that_hang_hold_up_nobody() {
    const HANGING: u64 = 24;
    let world = world();
    let mut server = Server::start(&world);
    let ear = server.listen();
    ear.opened();
    let alone = slowest(&mut server, &ear, 1000, &cheap());
    for id in 0..HANGING {
        let command = match id % 3 {
            0 => "cat data/pipe",
            1 => "sleep 1000",
            _ => "sh -c 'trap : TERM INT; while :; do sleep 1; done'",
        };
        server.call(id, "shell", &json!({"command": command, "timeout_s": 300}));
    }
    let beside = slowest(&mut server, &ear, 2000, &cheap());
    // By now they are all under way.
    let later = slowest(&mut server, &ear, 3000, &cheap());
    print(
        "the slowest of 40 calls",
        format_args!(
            "alone {alone:?}, while {HANGING} commands start {beside:?}, while they hang {later:?}"
        ),
    );
    assert!(beside.max(later) < PROMPT, "{beside:?} {later:?}");
    for id in 0..HANGING {
        server.say(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": id}}),
        );
    }
    // A cancelled call has no answer, and the next one has.
    slowest(&mut server, &ear, 4000, &cheap());
    drop(server.input.take());
    assert_eq!(server.ended(), 0);
}

#[test]
fn a_client_that_does_not_read_costs_no_memory_without_end() {
    const CALLS: u64 = 1000;
    let world = world();
    let mut server = Server::start(&world);
    let before = server.peak_kib();
    // 200 KB each, and nobody takes them.
    for id in 0..CALLS {
        server.call(id, "read_file", &json!({"path": "/data/long.md"}));
    }
    let stuck = server.settled_kib();
    // In the end somebody does, and nothing is lost.
    let ear = server.listen();
    ear.opened();
    let mut answered = HashMap::new();
    for _ in 0..CALLS {
        let answer = ear.next();
        let text = answer["result"]["content"][0]["text"]
            .as_str()
            .map(str::len);
        assert_eq!(text, Some(200_000), "{}", answer["error"]);
        let id = answer["id"].as_u64().unwrap();
        assert!(answered.insert(id, ()).is_none(), "twice: {id}");
    }
    let peak = server.peak_kib();
    print(
        "1000 answers of 200 KB that nobody reads",
        format_args!("{before} KiB before, {stuck} KiB meanwhile, {peak} KiB at most"),
    );
    assert!(peak < 256 * 1024, "{peak} KiB");
    drop(server.input.take());
    assert_eq!(server.ended(), 0);
}

#[test]
fn a_message_of_100_megabytes_is_refused_and_costs_no_memory() {
    let world = world();
    let mut server = Server::start(&world);
    let ear = server.listen();
    ear.opened();
    let before = server.peak_kib();
    let input = server.input.as_mut().unwrap();
    write!(
        input,
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":""#
    )
    .unwrap();
    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..100 {
        input.write_all(&chunk).unwrap();
    }
    writeln!(input, r#"","arguments":{{}}}}}}"#).unwrap();
    let refusal = ear.next();
    assert_eq!(refusal["error"]["code"], -32600, "{refusal}");
    assert!(slowest(&mut server, &ear, 2000, &cheap()) < PROMPT);
    let peak = server.peak_kib();
    print(
        "a message of 100 MB",
        format_args!("{before} KiB before, {peak} KiB at most"),
    );
    assert!(peak < before + 64 * 1024, "{before} {peak}");
    drop(server.input.take());
    assert_eq!(server.ended(), 0);
}

#[test]
fn half_a_message_is_waited_for_and_its_end_is_the_end() {
    let world = world();
    let mut server = Server::start(&world);
    let ear = server.listen();
    ear.opened();
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}).to_string();
    let (first, second) = ping.split_at(ping.len() / 2);
    let input = server.input.as_mut().unwrap();
    input.write_all(first.as_bytes()).unwrap();
    input.flush().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    writeln!(input, "{second}").unwrap();
    ear.answer(7);
    write!(input, "{first}").unwrap();
    drop(server.input.take());
    assert_eq!(server.ended(), 0);
}

/// Whether any process was started in this world and still is.
fn at_work(marker: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(marker))
}

/// The client dies in the middle of a call: so do the server, and what it had started.
#[test]
fn a_dead_client_is_the_end_of_everything_it_had_started() {
    for stdin_stays in [false, true] {
        let world = world();
        let mut server = Server::start(&world);
        let mut open = [0; 1];
        server
            .output
            .as_mut()
            .unwrap()
            .read_exact(&mut open)
            .unwrap();
        let marker = format!("86{}", server.child.id());
        let command = format!("sleep {marker}");
        server.call(1, "shell", &json!({"command": command, "timeout_s": 300}));
        eventually("the command starts", || at_work(&marker));
        let since = Instant::now();
        drop(server.output.take());
        if stdin_stays {
            // It is noticed with the next answer.
            server.call(2, "read_file", &json!({"path": "/data/a.md"}));
        } else {
            drop(server.input.take());
        }
        let code = server.ended();
        eventually("the command ends", || !at_work(&marker));
        print(
            "a client that died",
            format_args!(
                "everything ended after {:?}, exit code {code}",
                since.elapsed()
            ),
        );
        assert_eq!(code, 0);
    }
}
