//! `forge node serve --stdio`: what a broker elsewhere starts, with nothing around it.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{World, forge_program};

/// Long enough for anything that ends at all.
const WATCHDOG: Duration = Duration::from_secs(600);

fn frame(kind: u8, id: u32, body: &Value) -> Vec<u8> {
    let body = body.to_string().into_bytes();
    let length = u32::try_from(body.len()).unwrap();
    [&[kind][..], &id.to_be_bytes(), &length.to_be_bytes(), &body].concat()
}

fn hello(protocol: u32) -> Vec<u8> {
    frame(1, 0, &json!({"forge-node": protocol, "version": "1"}))
}

/// One directory for commands, at its own place.
fn setup(dir: &Path) -> Vec<u8> {
    let mount = json!({
        "place": dir, "shown_at": "/data", "read": true, "write": true, "execute": true,
        "protected": [], "hidden": []
    });
    let limits = json!({
        "wall_ms": null, "stdout_bytes": 100, "stderr_bytes": 100, "cpu_ms": null,
        "open_files": null, "file_bytes": null, "processes": null, "memory_bytes": null
    });
    let commands = json!({
        "mounts": [mount], "system": "minimal", "network": "denied", "sockets": "closed",
        "survivors_left": false, "variables": [], "limits": limits, "git": "unaware",
        "protected": [], "hidden": [], "requirement": "enforce", "programs": [], "own_container": false
    });
    frame(
        2,
        0,
        &json!({"files": null, "commands": commands, "max_write_bytes": null}),
    )
}

fn run(id: u32, script: &str) -> Vec<u8> {
    let args = json!(["-c", script]);
    frame(
        17,
        id,
        &json!({"program": "sh", "args": args, "input": "nothing", "timeout_ms": null, "line": null}),
    )
}

fn started(world: &World) -> Child {
    world
        .command(forge_program(), &["node", "serve", "--stdio"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_command_runs_and_the_end_of_input_is_the_end() {
    let world = World::new(&[]);
    let mut node = started(&world);
    let mut input = node.stdin.take().unwrap();
    let says = [
        hello(1),
        setup(&world.project()),
        run(1, "echo made > data/made; echo said"),
    ];
    input.write_all(&says.concat()).unwrap();
    // Until the command has ended; its last word names its exit code.
    let mut output = node.stdout.take().unwrap();
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains(r#""exit":{"code":0}"#) {
        let mut more = [0; 4096];
        let count = output.read(&mut more).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&more[..count]);
    }
    drop(input);
    let ended = node.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{:?}", ended.stderr);
    assert!(String::from_utf8_lossy(&said).contains("said\n"));
    let made = std::fs::read_to_string(world.project().join("made")).unwrap();
    assert_eq!(made, "made\n");
}

#[test]
fn whoever_is_no_broker_is_told_so() {
    let world = World::new(&[]);
    for (says, told) in [
        (hello(9), "protocol 9"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "a frame of kind 71"),
        (
            [hello(1), setup(Path::new("no/path"))].concat(),
            "refused its setup",
        ),
    ] {
        let mut node = started(&world);
        let mut input = node.stdin.take().unwrap();
        // It may have had enough already.
        let _enough = input.write_all(&says);
        drop(input);
        let ended = node.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{text}");
        assert!(text.contains(told), "{text}");
    }
    // Not for people, and known all the same.
    world.forge(&["node", "serve"]).code(2).says(&["--stdio"]);
    assert!(!world.forge(&["--help"]).stdout.contains("node"));
}

/// A broker that is killed says nothing more, and closes nothing by itself.
#[test]
fn a_broker_that_is_killed_leaves_nothing_behind() {
    let world = World::new(&[]);
    let beat = world.project().join("beat");
    let words = world.outside().join("words");
    let script = "setsid sh -c 'while :; do echo x >> data/beat; sleep 0.02; done' & wait";
    let says = [hello(1), setup(&world.project()), run(1, script)].concat();
    std::fs::write(&words, says).unwrap();
    // The broker: it writes into the node's pipe, keeps that open, and never ends.
    let broker =
        "{ cat \"$1\"; exec sleep 600; } | { \"$2\" node serve --stdio >/dev/null; touch \"$3\"; }";
    let gone = world.outside().join("gone");
    let mut broker = Command::new("setsid")
        .args(["sh", "-c", broker, "sh"])
        .args([&words, forge_program(), &gone])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !done() {
            assert!(since.elapsed() < WATCHDOG, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let size = || std::fs::metadata(&beat).map_or(0, |meta| meta.len());
    until("nothing began", &|| size() > 0);
    // Who holds the other end of the pipe, and nobody else.
    let sleep = Command::new("pkill")
        .args(["-9", "-g", &broker.id().to_string(), "-x", "sleep"])
        .status();
    assert!(sleep.unwrap().success());
    until("the node goes on", &|| gone.exists());
    let before = size();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(size(), before, "something goes on");
    broker.wait().unwrap();
}
