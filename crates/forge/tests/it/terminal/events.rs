//! `--output stream-json`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::pty::{Terminal, USUAL};
use super::{RUN, SLEEPS, world};
use crate::support::World;

const STREAM: [&str; 2] = ["--output", "stream-json"];

/// Every line fits the schema that is published, the result is the last one, and there is one.
fn checked(world: &World, stdout: &str) -> Vec<Value> {
    let schema = world.forge(&["schema", "events"]).stdout;
    let judge = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        let mistakes: Vec<String> = judge.iter_errors(line).map(|e| e.to_string()).collect();
        assert!(mistakes.is_empty(), "{line}\n{mistakes:?}");
    }
    // The judge judges.
    for wrong in [
        json!({"type": "nothing"}),
        json!({"type": "text", "worker_run": 1}),
    ] {
        assert!(!judge.is_valid(&wrong));
    }
    let results = lines.iter().filter(|line| line["type"] == "result");
    assert_eq!(results.count(), 1, "{stdout}");
    assert_eq!(lines.last().unwrap()["type"], "result");
    lines
}

/// In short: what happened, to whom, and what is said of it.
fn short(lines: &[Value]) -> String {
    let mut all = String::new();
    for line in lines {
        let kind = line["type"].as_str().unwrap();
        let of = line["worker_run"].as_u64().unwrap_or(0);
        let more = match kind {
            "worker_started" => format!("{} by {}", line["worker"], line["called_by"]),
            "turn_started" => line["turn"].to_string(),
            "turn_ended" => line["usage"]["input_tokens"].to_string(),
            "call_started" => line["tool"].to_string(),
            "call_ended" => format!("{} {} {}", line["tool"], line["ok"], line["code"]),
            "worker_ended" => line["end"]["end"].to_string(),
            "message" => format!("{} calls", line["calls"].as_array().unwrap().len()),
            "result" => format!("{} {}", line["exit_code"], line["error"]["code"]),
            _ => String::new(),
        };
        let line = format!("{of} {kind} {more}");
        // A text comes in as many pieces as its model makes of it.
        if kind != "text" || all.lines().last() != Some(line.trim_end()) {
            all.push_str(line.trim_end());
            all.push('\n');
        }
    }
    all
}

#[test]
fn a_run_for_programs() {
    let world = world();
    let ran = world.forge(&[&RUN[..], &STREAM].concat());
    ran.code(3);
    let lines = checked(&world, &ran.stdout);
    insta::assert_snapshot!(short(&lines), @r##"
    0 run_started
    1 worker_started "main" by null
    1 input
    1 turn_started 1
    1 text
    1 turn_ended 1200
    1 message 1 calls
    1 call_started "reader"
    2 worker_started "reader" by 1
    2 input
    2 turn_started 1
    2 turn_ended 0
    2 message 1 calls
    2 call_started "list_files"
    2 call_ended "list_files" true null
    2 turn_started 2
    2 turn_ended 0
    2 message 1 calls
    2 call_started "read_file"
    2 call_ended "read_file" true null
    2 turn_started 3
    2 turn_ended 0
    2 message 1 calls
    2 call_started "read_file"
    2 call_ended "read_file" false "NOT_FOUND"
    2 turn_started 4
    2 text
    2 turn_ended 0
    2 message 0 calls
    2 worker_ended "answered"
    1 call_ended "reader" true null
    1 turn_started 2
    1 text
    1 turn_ended 0
    1 message 1 calls
    1 call_started "writer"
    3 worker_started "writer" by 1
    3 input
    3 turn_started 1
    3 turn_ended 0
    3 message 1 calls
    3 call_started "write_file"
    3 call_ended "write_file" false "APPROVAL_REQUIRED"
    3 turn_started 2
    3 text
    3 turn_ended 0
    3 message 0 calls
    3 worker_ended "answered"
    1 call_ended "writer" true null
    1 turn_started 3
    1 text
    1 turn_ended 0
    1 message 0 calls
    1 worker_ended "answered"
    0 result 3 "approval.unanswered"
    "##);
    let (first, last) = (&lines[0], lines.last().unwrap());
    assert_eq!(first["worker"], "main");
    assert_eq!(
        last["answer"],
        "All is done.\n\nThe report stands in /out/report.md."
    );
    assert_eq!(last["run"], first["run"]);
    assert_eq!(last["report"]["turns"], 9);
    let error: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"], last["error"]);
}

/// The result comes however a run ends, and where there is none.
#[test]
fn the_result_is_always_the_last_line() {
    for (args, code, error) in [
        (&["--approve", "all"][..], 0, Value::Null),
        (&["-c", "limits.max_turns=1"], 5, json!("limit")),
        (
            &["-c", "limits.max_turns=zero"],
            2,
            json!("config.wrong_type"),
        ),
        (&["--nonsense"], 2, json!("usage")),
        (&["--json"], 2, json!("usage")),
    ] {
        let world = world();
        let ran = world.forge(&[&RUN[..], &STREAM, args].concat());
        ran.code(code);
        let lines = checked(&world, &ran.stdout);
        let last = lines.last().unwrap();
        assert_eq!(last["exit_code"], code, "{args:?}");
        assert_eq!(last["error"]["code"], error, "{args:?}");
        assert_eq!(last["report"].is_null(), code == 2, "{args:?}");
    }
    let other = World::new(&[]).forge(&["check", "--output", "stream-json"]);
    other.code(2).says(&["for `forge run` only"]);
}

#[test]
fn a_signal_does_not_take_the_result_away() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let world = world();
        world.write("play.yaml", SLEEPS);
        let terminal = Terminal::start(&world, USUAL, &[&RUN[..], &STREAM].concat());
        terminal.until("sleep 100");
        terminal.signal(signal);
        let ended = terminal.end();
        assert_eq!(ended.code, Some(code));
        let lines = checked(&world, &ended.stdout.unwrap());
        let last = lines.last().unwrap();
        assert_eq!(last["exit_code"], code);
        assert_eq!(last["error"]["code"], "interrupted");
        assert!(last["run"].is_string());
    }
}

/// What was said is more than a pipe holds, and nobody reads it: the run goes on, and ends when it
/// is told to.
#[test]
fn a_reader_that_stands_still_holds_up_nothing() {
    let world = world();
    let long = "x".repeat(300_000);
    let says =
        format!("workers:\n  main:\n    - say: {long}\n      calls: [{{ tool: list_files }}]\n");
    world.write("play.yaml", &SLEEPS.replace("workers:\n  main:\n", &says));
    let args = [&RUN[..], &STREAM, &["-v"]].concat();
    let mut command = world.command(crate::support::forge_program(), &args);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(shown.any(|line| line.unwrap().contains("→ shell")));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(143));
}
