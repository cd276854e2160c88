//! A model behind HTTP on a terminal: a loopback server of the test's own is slow, busy and wide,
//! and notes when it sends each word; the terminal notes when it comes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pty::{Setup, Terminal, USUAL};
use crate::support::World;

/// Words that are sent, with a pause before each.
const WORDS: usize = 20;
const PAUSE: Duration = Duration::from_millis(60);
/// What the design promises; the test only says how far it is kept, since the machine has others
/// to serve.
const TARGET: Duration = Duration::from_millis(5);

#[test]
fn a_word_is_on_the_screen_when_it_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, wait) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        asked(&stream);
        let words: Vec<String> = (0..WORDS).map(|n| word(n) + " ").collect();
        // The answer ends when its words have been seen: none is held back until then.
        let seen = move || wait.recv().unwrap_or_default();
        say_and(&stream, &words, PAUSE, seen, &[])
    });
    let world = talker(address);
    let terminal = Terminal::start(&world, USUAL, &TALK);
    for n in 0..WORDS {
        terminal.until(&word(n));
    }
    let _gone = seen.send(());
    let sent = server.join().unwrap();
    let mut took: Vec<Duration> = (0..WORDS)
        .map(|n| {
            let came = terminal.came(&word(n)).unwrap();
            came.saturating_duration_since(sent[n])
        })
        .collect();
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let first = took[0];
    took.sort();
    eprintln!(
        "from the wire to the screen: first word {first:?}, median {:?}, slowest {:?} (target {TARGET:?})",
        took[WORDS / 2],
        took[WORDS - 1]
    );
}

fn word(n: usize) -> String {
    format!("w{n:02}")
}

const TALK: [&str; 5] = ["run", "--model", "local:any", "main", "go"];

/// A worker, and a provider at this address.
fn talker(address: SocketAddr) -> World {
    let world = World::new(&[("workers/main.worker", "---\nname: main\n---\nTalk.\n")]);
    let user = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&user).unwrap();
    let provider = format!(
        "providers: {{ local: {{ wire: openai-chat, base_url: \"http://{address}/v1\" }} }}\n"
    );
    std::fs::write(user.join("config.yaml"), provider).unwrap();
    world
}

/// Reads a request.
fn asked(stream: &TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut from = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    from.read_exact(&mut vec![0; length]).unwrap();
}

fn send(mut to: &TcpStream, text: &str) {
    to.write_all(text.as_bytes()).unwrap();
}

/// Streams an answer in these words, with a pause before each, and after `then` the `rest`; says when
/// it sent the words.
fn say_and(
    stream: &TcpStream,
    words: &[String],
    pause: Duration,
    then: impl FnOnce(),
    rest: &[String],
) -> Vec<Instant> {
    let piece = |delta: Value, end: Value| {
        let event = json!({
            "id": "a", "object": "chat.completion.chunk", "created": 1, "model": "any",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": end }],
        });
        send(stream, &format!("data: {event}\n\n"));
    };
    let head = "content-type: text/event-stream\r\nconnection: close";
    send(stream, &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"));
    piece(json!({"role": "assistant", "content": ""}), Value::Null);
    let mut sent = Vec::new();
    for word in words {
        std::thread::sleep(pause);
        sent.push(Instant::now());
        piece(json!({ "content": word }), Value::Null);
    }
    then();
    for word in rest {
        piece(json!({ "content": word }), Value::Null);
    }
    std::thread::sleep(pause);
    piece(json!({}), json!("stop"));
    send(stream, "data: [DONE]\n\n");
    sent
}

/// What is under way is seen below what is over: a provider that is busy, with the time that is
/// left, and words that have come so far, in rows that fit.
#[test]
fn a_provider_that_is_busy_and_then_slow() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (go, wait) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let busy = listener.accept().unwrap().0;
        asked(&busy);
        let body = r#"{"error":{"message":"Overloaded\u001b[2J","type":"overloaded_error"}}"#;
        let head = "content-type: application/json\r\nretry-after: 2\r\nconnection: close";
        let length = body.len();
        let answer =
            format!("HTTP/1.1 529 Busy\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        send(&busy, &answer);
        drop(busy);
        let stream = listener.accept().unwrap().0;
        asked(&stream);
        let words: Vec<String> = (0..60)
            .map(|n| format!("{} 日本語\u{1b}[31m ", word(n)))
            .collect();
        let (head, rest) = words.split_at(40);
        let all = [head, &["\n\nHere it stops.".to_owned()]].concat();
        // Stands still until the screen was looked at.
        let pause = || {
            let _ = wait.recv();
        };
        say_and(&stream, &all, Duration::ZERO, pause, rest);
    });
    let world = talker(address);
    let setup = Setup { rows: 16, ..USUAL };
    let terminal = Terminal::start(&world, setup, &TALK);
    let waits = terminal.until("again in 1 s");
    assert!(waits.contains("(529)") && waits.contains("┄┄"), "{waits}");
    let screen = terminal.until("Here it stops.");
    let rows: Vec<&str> = screen.lines().collect();
    let last = rows.len() - 1;
    assert_eq!(rows[last - 1], "  │ Here it stops.", "{screen}");
    assert!(rows[last].contains(" s · 1 turn · 0 calls"), "{screen}");
    let text: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.strip_prefix("  │ "))
        .collect();
    assert!(text.concat().contains("w39 日本語\\x1b[31m"), "{screen}");
    go.send(()).unwrap();
    server.join().unwrap();
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let answer = ended.stdout.unwrap();
    assert!(
        answer.starts_with("w00 日本語") && answer.contains("w59"),
        "{answer}"
    );
}
