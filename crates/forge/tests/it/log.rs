//! `forge log`: what a run leaves can be listed, shown, verified and handed on; and what a model
//! wrote into it moves no cursor.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::protocol::Protocol;
use crate::support::{PROJECT, World, forge_program, ran};

const RUN: &str = "main_1795286405-00000000000000aa";

/// Returns the text of a log with these lines, numbered and chained as forge writes them.
fn chained(lines: &[Value]) -> String {
    let mut prev = "0".repeat(64);
    let mut text = String::new();
    for (seq, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        line["seq"] = seq.into();
        line["prev"] = prev.into();
        let line = format!("{line}\n");
        prev = sandbox_names::hex(Sha256::digest(&line));
        text += &line;
    }
    text
}

/// A world with one run, of which these are the lines.
fn kept(lines: &[Value]) -> (World, PathBuf) {
    let world = World::new(&[]);
    let dir = world.outside().join("state/runs").join(RUN);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("audit.jsonl");
    std::fs::write(&file, chained(lines)).unwrap();
    (world, file)
}

fn decision(seq: u64, tool: &str, arguments: Value, decision: Value) -> Value {
    json!({
        "seq": seq, "prev": "", "kind": "decision", "at_ms": 1_795_286_405_000_u64 + seq,
        "workers": ["main", "reader"], "tool": tool, "arguments": arguments,
        "intents": [], "decision": decision,
    })
}

fn execution(call: u64, more: Value) -> Value {
    let mut line = json!({
        "seq": call + 1, "prev": "", "kind": "execution", "call": call, "at_ms": 0,
        "runner": "local", "ok": true, "content_bytes": 5, "content_sha256": "ab",
        "duration_us": 1234,
    });
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    line
}

fn sample() -> Vec<Value> {
    let allow = json!({ "verdict": "allow", "reasons": [{ "text": "reading goes ahead" }] });
    vec![
        json!({ "seq": 0, "prev": "", "kind": "begin", "at_ms": 0, "format": 1, "segment": 0 }),
        decision(
            1,
            "read_file",
            json!({ "path": "/data/a.md" }),
            allow.clone(),
        ),
        decision(
            2,
            "shell",
            json!({ "command": "rm -rf /\u{1b}[2J" }),
            json!({ "verdict": "ask", "reasons": [
                { "text": "rule says ask", "rule": "rm *", "origin": "golem-forge.config.yaml:9" },
                { "text": "default for risk `exec`" },
            ], "runner": "os: confined", "answer": "denied", "by": "a person\r\nroot" }),
        ),
        execution(
            1,
            json!({ "artifacts": [
            { "path": "/out/\u{202e}x", "effect": "updated", "bytes": 3, "sha256": "cd" },
        ] }),
        ),
        execution(
            2,
            json!({
                "ok": false, "code": "DENIED", "runner": "none", "duration_us": 2_500_000,
                "events": [{ "event": "denied", "detail": "A person denied this call of shell." }],
            }),
        ),
        decision(5, "hash_file", json!({ "path": "/b" }), allow),
    ]
}

#[test]
fn a_run_is_shown_with_its_reasons_and_nothing_of_it_moves_the_cursor() {
    let (world, file) = kept(&sample());
    let shown = world.forge(&["log", "show", "last"]);
    insta::assert_snapshot!(shown.code(0).stdout, @r#"
    run main_1795286405-00000000000000aa
    2026-11-21 18:40:05 +00:00  main > reader  read_file {"path":"/data/a.md"}  ok  1.2 ms  5 bytes  local
        allow     reading goes ahead
        updated   /out/\u{202e}x  3 bytes  sha256 cd
    2026-11-21 18:40:05 +00:00  main > reader  shell {"command":"rm -rf /\u001b[2J"}  DENIED  2.5 s  5 bytes  none
        ask       rule says ask  (rm *, golem-forge.config.yaml:9)
        and       default for risk `exec`
        answer    denied: a person\r\nroot
        runner    os: confined
        denied    A person denied this call of shell.
    2026-11-21 18:40:05 +00:00  main > reader  hash_file {"path":"/b"}  no result
        allow     reading goes ahead
    not finished: forge was killed, the disk was full, or the end was removed (unchanged: 6 lines)
    requested hash_file 1, read_file 1, shell 1
    ran       local 1, no result 1, none 1
    decided   allow 2, ask 1
    answered  denied by a person\r\nroot 1
    file      updated /out/\u{202e}x  3 bytes  by read_file of reader (line 1)
    "#);
    assert!(shown.stdout.chars().all(|c| c == '\n' || !c.is_control()));

    let denied = world.forge(&["log", "show", "main_", "--denied"]);
    insta::assert_snapshot!(denied.code(0).stdout, @r#"
    run main_1795286405-00000000000000aa
    2026-11-21 18:40:05 +00:00  main > reader  shell {"command":"rm -rf /\u001b[2J"}  DENIED  2.5 s  5 bytes  none
        ask       rule says ask  (rm *, golem-forge.config.yaml:9)
        and       default for risk `exec`
        answer    denied: a person\r\nroot
        runner    os: confined
        denied    A person denied this call of shell.
    not finished: forge was killed, the disk was full, or the end was removed (unchanged: 6 lines)
    "#);
    for (flags, calls) in [
        (vec!["--tool", "read_file"], 1),
        (vec!["--worker", "reader"], 3),
        (vec!["--worker", "main"], 0),
        (vec!["--since", "2026-11-21"], 3),
        (vec!["--since", "2026-11-22"], 0),
    ] {
        let mut all = vec!["log", "show", "last", "--json"];
        all.extend(&flags);
        let ran = world.forge(&all);
        let object: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
        assert_eq!(
            object["calls"].as_array().unwrap().len(),
            calls,
            "{flags:?}"
        );
    }
    world.forge(&["log", "show", "--since", "soon"]).code(2);

    // What cannot be read is shown where it stands, and the rest as well.
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"kind\":";
    let long = "x".repeat(200_000);
    lines.insert(2, &long);
    std::fs::write(&file, format!("{}\n{{\"seq\"", lines.join("\n"))).unwrap();
    let broken = world.forge(&["log", "show"]);
    broken.code(1);
    for says in [
        "broken: line 2 of audit.jsonl: no line of an audit log",
        "broken: line 3 of audit.jsonl: longer than any that we write",
        "broken: line 8 of audit.jsonl: the line is torn",
        "rm -rf",
    ] {
        assert!(broken.stdout.contains(says), "{says}:\n{}", broken.stdout);
    }
}

#[test]
fn calls_are_handed_on_as_a_table_and_as_spans() {
    let mut lines = sample();
    lines.push(decision(
        6,
        "=cmd()",
        json!({}),
        json!({ "verdict": null, "reasons": [] }),
    ));
    let (world, _) = kept(&lines);
    let csv = world.forge(&["log", "export", RUN]);
    insta::assert_snapshot!(csv.code(0).stdout, @r#"
    seq,at_ms,workers,tool,arguments,verdict,reason,rule,origin,answer,by,runner,ok,code,duration_us,content_bytes,content_sha256,exit_code
    1,1795286405001,main > reader,read_file,"{""path"":""/data/a.md""}",allow,reading goes ahead,,,,,local,true,,1234,5,ab,
    2,1795286405002,main > reader,shell,"{""command"":""rm -rf /\u001b[2J""}",ask,rule says ask,rm *,golem-forge.config.yaml:9,denied,a person\r\nroot,none,false,DENIED,2500000,5,ab,
    5,1795286405005,main > reader,hash_file,"{""path"":""/b""}",allow,reading goes ahead,,,,,,,,,,,
    6,1795286405006,main > reader,"'=cmd()",{},,,,,,,,,,,,,
    "#);
    let otel = world.forge(&["log", "export", RUN, "--format", "otel", "--denied"]);
    let span: Value = serde_json::from_str(&otel.code(0).stdout).unwrap();
    let span = &span["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["name"], "execute_tool shell");
    assert_eq!(span["traceId"], "000000006b01e58500000000000000aa");
    assert_eq!(span["spanId"], "0000000000000003");
    assert_eq!(span["startTimeUnixNano"], "1795286405002000000");
    assert_eq!(span["endTimeUnixNano"], "1795286407502000000");
    assert_eq!(span["status"]["code"], 2);
}

/// Every command that calls tools leaves a log that is whole; an edit of it shows, and so does a
/// log that was written anew.
#[test]
fn what_commands_leave_can_be_listed_and_verified() {
    let world = World::new(&[
        ("golem-forge.config.yaml", PROJECT),
        ("data/a.md", "hello"),
        ("workspace/.keep", ""),
    ]);
    let read = r#"{"path":"/data/a.md"}"#;
    world.forge(&["tools", "call", "read_file", read]).code(0);
    let write = r#"{"path":"/data/a.md","content":"x"}"#;
    world.forge(&["tools", "call", "write_file", write]).code(1);
    let ran = world.forge(&["log", "list", "--json"]);
    let list: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["worker"], "tools-call");
        assert_eq!(run["calls"], 1);
    }
    let text = world.forge(&["log", "list"]);
    assert!(
        text.code(0)
            .stdout
            .contains("READ_ONLY: 1 call, 1 failed, 0 denied")
    );

    let verified = world.forge(&["log", "verify"]);
    assert_eq!(verified.code(0).stdout, "2 logs of this project, 2 whole\n");
    let one = world.forge(&["log", "verify", "last"]);
    assert!(one.code(0).stdout.contains(": whole, 5 lines, head "));
    world
        .forge(&["log", "show", "tools-call"])
        .code(2)
        .says(&["is the beginning of 2 runs"]);
    world
        .forge(&["log", "show", "nothing"])
        .code(2)
        .says(&["unknown run `nothing`"]);

    let name = runs[0]["run"].as_str().unwrap();
    let file = world
        .outside()
        .join("state/runs")
        .join(name)
        .join("audit.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    for (what, text, code, says) in [
        (
            "edit",
            whole.replacen("decision", "Decision", 1),
            1,
            "line 2 of audit.jsonl was edited",
        ),
        (
            "cut",
            whole.lines().take(2).map(|l| format!("{l}\n")).collect(),
            8,
            "not finished: forge was killed, the disk was full, or the end was removed (unchanged: 2 lines)",
        ),
        (
            "torn",
            whole.trim_end().to_owned(),
            8,
            "the end was removed (unchanged: 4 lines; line 5 of audit.jsonl is torn)",
        ),
        (
            "foreign",
            format!("hello\n{whole}"),
            1,
            "line 1 of audit.jsonl is not of this log",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = world.forge(&["log", "verify", name]);
        let shown = &ran.code(code).stdout;
        assert!(shown.contains(says), "{what}: {shown}");
        // Several, and all of the project; the other one is whole.
        let other = runs[1]["run"].as_str().unwrap();
        let both = world.forge(&["log", "verify", name, other]);
        assert!(both.code(code).stdout.contains(says), "{}", both.stdout);
        assert!(both.stdout.contains(": whole, "), "{}", both.stdout);
        let all = world.forge(&["log", "verify"]);
        let unfinished = if code == 8 { ", 1 not finished" } else { "" };
        let count = format!("\n2 logs of this project, 1 whole{unfinished}\n");
        assert!(all.code(code).stdout.ends_with(&count), "{}", all.stdout);
    }
    // Those of other projects are verified on request.
    world.write("other/forge.yaml", "sandbox: { root: . }\n");
    let elsewhere =
        |args: &[&str]| world.forge(&[&["-C", "other", "log", "verify"], args].concat());
    let none = elsewhere(&[]);
    assert_eq!(none.code(0).stdout, "0 logs of this project, 0 whole\n");
    let all = elsewhere(&["--all"]);
    assert!(
        all.code(1)
            .stdout
            .contains("2 logs of all projects, 1 whole")
    );
    let cut = whole.lines().take(2).map(|line| format!("{line}\n"));
    std::fs::write(&file, cut.collect::<String>()).unwrap();
    let noted = file.with_file_name("run.json");
    let head = json!({ "audit": { "head": "0".repeat(64) } }).to_string();
    std::fs::write(&noted, head).unwrap();
    let ran = world.forge(&["log", "verify", name]);
    assert!(
        ran.code(1).stdout.contains("the end was cut off"),
        "{}",
        ran.stdout
    );
    std::fs::remove_file(noted).unwrap();
    std::fs::write(&file, &whole).unwrap();
    world.forge(&["log", "verify", name]).code(0);
    let note = json!({ "audit": { "head": "0".repeat(64) } });
    std::fs::write(file.with_file_name("run.json"), note.to_string()).unwrap();
    let ran = world.forge(&["log", "verify", name]);
    assert!(
        ran.code(1).stdout.contains("but not the log that run.json"),
        "{}",
        ran.stdout
    );
}

/// A server's log is read while it is written.
#[test]
fn a_run_that_goes_on_can_be_followed() {
    let world = World::new(&[("golem-forge.config.yaml", PROJECT), ("data/a.md", "hello")]);
    std::fs::create_dir_all(world.project().join("workspace")).unwrap();
    let mut server = world
        .command(forge_program(), &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = server.stdin.take().unwrap();
    let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut protocol = Protocol::default();
    let mut say = |message: Value| {
        protocol.sent(&message);
        writeln!(to, "{message}").unwrap();
        if !message["id"].is_null() {
            let answer = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
            assert_eq!(protocol.received(&answer), [""; 0], "{answer}");
        }
    };
    say(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } }),
    );
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let running = world.forge(&["log", "verify", "last"]);
    assert!(
        running
            .code(8)
            .stdout
            .contains("holds its lock, as while a run goes on (unchanged: 1 line)"),
        "{}",
        running.stdout
    );
    assert!(
        world
            .forge(&["log", "list"])
            .stdout
            .contains("running: 0 calls")
    );
    let mut follower = world
        .command(
            forge_program(),
            &["log", "show", "last", "--follow", "--json"],
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = BufReader::new(follower.stdout.take().unwrap()).lines();
    for id in 2..4 {
        say(
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "read_file", "arguments": { "path": "/data/a.md" } } }),
        );
        let call: Value = serde_json::from_str(&seen.next().unwrap().unwrap()).unwrap();
        assert_eq!(call["decision"]["tool"], "read_file");
        assert_eq!(call["execution"]["ok"], true);
    }
    drop(to);
    assert!(server.wait().unwrap().success());
    // The follower ends with what it follows.
    assert!(follower.wait().unwrap().success());
    world.forge(&["log", "verify"]).code(0);
}

const WITH_MODEL: &str = "\
sandbox:
  mode: direct
  zones: { workspace: { path: ./workspace, approval: { write: preApproved } } }
model: scripted:playbook.yaml
limits: { max_turns: 2 }
";

const TREE: &str = "
version: 1
workers:
  main:
    - calls:
        - { tool: append_file, args: { path: /workspace/log, content: a } }
        - { tool: reader, args: { input: look } }
      usage: { input_tokens: 100, output_tokens: 10 }
    - calls: [{ tool: append_file, args: { path: /workspace/log, content: b } }]
      usage: { input_tokens: 200, output_tokens: 20 }
    - say: through
      usage: { input_tokens: 300, output_tokens: 30 }
  reader:
    - say: looked
      usage: { input_tokens: 5, output_tokens: 2 }
";

/// A tree of two workers, which its limit on turns ends the first time.
fn with_model() -> World {
    World::new(&[
        ("golem-forge.config.yaml", WITH_MODEL),
        ("playbook.yaml", TREE),
        (
            "workers/main.worker",
            "---\nname: main\nworkers: [reader]\n---\nGo.\n",
        ),
        ("workers/reader.worker", "---\nname: reader\n---\nRead.\n"),
    ])
}

fn dir_of_last(world: &World) -> PathBuf {
    let name = last(world)["run"].as_str().unwrap().to_owned();
    world.outside().join("state/runs").join(name)
}

/// The newest run of the list.
#[track_caller]
fn last(world: &World) -> Value {
    let ran = world.forge(&["log", "list", "--json"]);
    let list: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    list["runs"][0].clone()
}

/// The fields of `found` that `expected` has.
#[track_caller]
fn has(found: &Value, expected: Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(found[name], *value, "{name} of {found:#}");
    }
}

#[test]
fn what_models_used_is_shown_over_all_programs_of_a_run() {
    let world = with_model();
    world.forge(&["run", "main", "do it"]).code(5);
    has(
        &last(&world),
        json!({
            "outcome": "turn_limit", "programs": 1, "calls": 3, "turns": 3, "tokens": 337,
            "transcript": "kept", "damage": null, "resumable": true,
        }),
    );
    let listed = world.forge(&["log", "list"]);
    let says = "turn_limit: 3 calls, 0 failed, 0 denied; 3 turns, 337 tokens; can be resumed\n";
    assert!(listed.code(0).stdout.ends_with(says), "{}", listed.stdout);
    let shown = world.forge(&["log", "show", "last"]);
    for says in [
        "\nworker 1  main  scripted:playbook.yaml  2 turns, 3 calls, 330 tokens  the limit of 2 turns was reached\n",
        "\nworker 2  main > reader  scripted:playbook.yaml  1 turn, 0 calls, 7 tokens  done\n",
        "\nin all: 3 turns, 337 tokens; can be resumed\n",
    ] {
        assert!(
            shown.code(0).stdout.contains(says),
            "{says}{}",
            shown.stdout
        );
    }

    // The program that goes on makes no call; those of the first one are not forgotten.
    let goes_on = ["-c", "limits.max_turns=9", "run", "--resume", "last"];
    let goes_on: Vec<&str> = goes_on.into_iter().chain(["--accept-changes"]).collect();
    world.forge(&goes_on).code(0);
    has(
        &last(&world),
        json!({
            "outcome": "answered", "programs": 2, "calls": 3, "turns": 4, "tokens": 667,
            "transcript": "kept", "resumable": false,
        }),
    );
    let listed = world.forge(&["log", "list"]);
    let says = "answered: 3 calls, 0 failed, 0 denied; 4 turns, 667 tokens\n";
    assert!(listed.code(0).stdout.ends_with(says), "{}", listed.stdout);
    let ran = world.forge(&["log", "show", "last", "--json", "--worker", "reader"]);
    let shown: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    has(
        &shown,
        json!({ "turns": 4, "tokens": 667, "resumable": false, "broken": false }),
    );
    assert_eq!(shown["workers"].as_array().unwrap().len(), 1);
    has(
        &shown["workers"][0],
        json!({
            "run": 2, "above": 1, "workers": ["main", "reader"], "turns": 1, "calls": 0,
            "tokens": 7, "cost_nano_usd": 0, "end": { "end": "answered", "answer": "looked" },
        }),
    );
}

#[test]
fn a_transcript_that_is_missing_or_damaged_is_said() {
    let world = with_model();
    world
        .forge(&["run", "--ephemeral", "main", "do it"])
        .code(5);
    let none = json!({
        "transcript": "none", "turns": 3, "tokens": 337, "resumable": false, "damage": null,
    });
    has(&last(&world), none);
    let listed = world.forge(&["log", "list"]);
    let says = "; 3 turns, 337 tokens; no transcript\n";
    assert!(listed.code(0).stdout.ends_with(says), "{}", listed.stdout);
    let shown = world.forge(&["log", "show"]);
    let says = "\nin all: 3 turns, 337 tokens; no transcript\n";
    assert!(shown.code(0).stdout.ends_with(says), "{}", shown.stdout);

    let world = with_model();
    world.forge(&["run", "main", "do it"]).code(5);
    let dir = dir_of_last(&world);
    let file = dir.join("transcript.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        whole.replacen("\"kind\":\"turn\"", "\"kind\":\"\\u001b\"", 1),
    )
    .unwrap();
    let turn = |line: &str| line.contains("\"kind\":\"turn\"");
    let place = format!("line {}: ", 1 + whole.lines().position(turn).unwrap());
    let found = last(&world);
    has(
        &found,
        json!({ "transcript": "damaged", "tokens": 337, "resumable": false }),
    );
    assert!(
        found["damage"].as_str().unwrap().starts_with(&place),
        "{found}"
    );
    for command in ["list", "show"] {
        let ran = world.forge(&["log", command]);
        let says = format!("damaged transcript: {place}not a line of a transcript");
        assert!(ran.code(0).stdout.contains(&says), "{}", ran.stdout);
        assert!(ran.stdout.chars().all(|c| c == '\n' || !c.is_control()));
    }

    // As a kill leaves it: what there is counts, and the run can go on.
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = lines
        .iter()
        .rposition(|line| line.contains("\"kind\":\"came\""))
        .unwrap();
    std::fs::write(&file, lines[..=cut].concat() + "{\"at_ms\":").unwrap();
    std::fs::remove_file(dir.join("run.json")).unwrap();
    has(
        &last(&world),
        json!({ "transcript": "kept", "turns": 3, "tokens": 337, "resumable": true }),
    );
    let shown = world.forge(&["log", "show"]);
    assert!(
        shown.code(0).stdout.contains("330 tokens  did not end\n"),
        "{}",
        shown.stdout
    );
}

/// `last` is the run that began last, whatever the workers are called and however fast it goes.
#[test]
fn last_is_the_run_that_began_last() {
    let world = World::new(&[("golem-forge.config.yaml", "sandbox: { root: . }\n")]);
    let runs = world.outside().join("state/runs");
    let mut known = std::collections::BTreeSet::new();
    for nth in 0..12 {
        // Runs of two kinds, so that names do not sort by time.
        let args: &[&str] = match nth % 2 {
            0 => &["exec", "--no-os-sandbox", "--", "true"],
            _ => &["tools", "call", "list_files", "{}"],
        };
        world.forge(args).code(0);
        let now: std::collections::BTreeSet<String> = std::fs::read_dir(&runs)
            .unwrap()
            .map(|run| run.unwrap().file_name().into_string().unwrap())
            .collect();
        let new: Vec<&String> = now.difference(&known).collect();
        let shown = world.forge(&["--json", "log", "list"]);
        let rows: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!([rows["runs"][0]["run"].as_str().unwrap()], new[..], "{nth}");
        known = now;
    }
}

/// Several projects keep their runs in one place.
#[test]
fn last_is_a_run_of_this_project() {
    let project = "sandbox: { root: . }\n";
    let world = World::new(&[("a/forge.yaml", project), ("b/forge.yaml", project)]);
    let forge = |dir: &str, args: &[&str]| {
        let mut command = world.command(forge_program(), args);
        command.current_dir(world.project().join(dir));
        ran(command.output().unwrap())
    };
    let none = forge("a", &["log", "show"]);
    none.code(2).says(&["no run of this project", "--all"]);
    let list = ["--trust", "tools", "call", "list_files", "path=/"];
    forge("a", &list).code(0);
    forge("b", &["exec", "--no-os-sandbox", "--", "true"]).code(0);
    let shown = forge("a", &["log", "show", "last"]);
    assert!(
        shown.code(0).stdout.contains("list_files"),
        "{}",
        shown.stdout
    );
}

/// A run that cannot be read keeps nobody from the others, and is named.
#[test]
fn a_run_that_cannot_be_read_does_not_hide_the_others() {
    let world = World::new(&[("golem-forge.config.yaml", "sandbox: { root: . }\n")]);
    for _ in 0..3 {
        world.forge(&["tools", "call", "list_files", "{}"]).code(0);
    }
    let runs = world.outside().join("state/runs");
    let mut all: Vec<_> = std::fs::read_dir(&runs)
        .unwrap()
        .map(|run| run.unwrap().path())
        .collect();
    all.sort();
    std::fs::remove_file(all[1].join("audit.jsonl")).unwrap();
    std::fs::create_dir(all[1].join("audit.jsonl")).unwrap();
    // What is no directory is no run's either.
    std::fs::write(runs.join("stray_1-2"), "").unwrap();
    let name = |nth: usize| all[nth].file_name().unwrap().to_str().unwrap().to_owned();
    for (args, shown) in [
        (&["log", "list"][..], &[0, 2][..]),
        (&["log", "verify"], &[]),
    ] {
        let ran = world.forge(args);
        ran.code(1);
        for nth in shown.iter().copied() {
            let line = ran
                .stdout
                .lines()
                .find(|line| line.contains(&name(nth)))
                .unwrap();
            assert!(!line.contains("read"), "{line}");
        }
        for broken in [name(1), "stray_1-2".to_owned()] {
            let line = ran
                .stdout
                .lines()
                .find(|line| line.contains(&broken))
                .unwrap();
            assert!(
                line.contains("unreadable") || line.contains("cannot be read"),
                "{line}"
            );
        }
        let json = world.forge(&[&["--json"][..], args].concat());
        let rows: serde_json::Value = serde_json::from_str(&json.code(1).stdout).unwrap();
        assert_eq!(rows["runs"].as_array().unwrap().len(), 4, "{rows}");
    }
}

/// Two projects keep their runs in one place.
#[test]
fn a_list_is_of_this_project_with_what_was_asked_for_in_local_time() {
    let project = "sandbox: { root: . }\n";
    let world = World::new(&[("a/forge.yaml", project), ("b/forge.yaml", project)]);
    std::fs::create_dir(world.project().join("c")).unwrap();
    let forge = |dir: &str, args: &[&str]| {
        let mut command = world.command(forge_program(), args);
        // Five and a half hours east of Greenwich (tzset(3)).
        command
            .current_dir(world.project().join(dir))
            .env("TZ", "IST-05:30");
        ran(command.output().unwrap())
    };
    let list = r#"{"path":"/"}"#;
    forge("a", &["--trust", "tools", "call", "list_files", list]).code(0);
    forge(
        "b",
        &[
            "--trust",
            "tools",
            "call",
            "search_files",
            r#"{"pattern":"x"}"#,
        ],
    )
    .code(0);
    let a = forge("a", &["--trust", "log", "list"]);
    assert_eq!(a.code(0).stdout.lines().count(), 1, "{}", a.stdout);
    assert!(a.stdout.contains(" +05:30  tools-call_"), "{}", a.stdout);
    assert!(
        a.stdout.contains("  list_files  done: 1 call"),
        "{}",
        a.stdout
    );
    forge("a", &["--trust", "tools", "call", "list_files", "path=/"]).code(0);
    let none = forge("a", &["log", "list", "--limit", "0"]);
    let note = "note: the newest 0 of 2 runs; pass --limit to see more\n";
    assert_eq!(none.code(0).stderr, note);
    let limited = forge("a", &["log", "list", "--limit", "1"]);
    limited
        .code(0)
        .says(&["note: the newest 1 of 2 runs; pass --limit to see more"]);
    assert_eq!(limited.stdout.lines().count(), 1, "{}", limited.stdout);
    let limited = forge("a", &["log", "list", "--limit", "1", "--json"]);
    let limited: Value = serde_json::from_str(&limited.code(0).stdout).unwrap();
    assert_eq!(limited["left_out"], 1);
    let all = forge("a", &["log", "list", "--all"]);
    for dir in ["a", "b"] {
        let dir = world.project().join(dir).canonicalize().unwrap();
        let dir = format!("  {}  ", dir.display());
        assert!(all.stdout.contains(&dir), "{dir}: {}", all.stdout);
    }
    let none = forge("c", &["log", "list"]);
    none.code(0)
        .says(&["no run of this project, 3 runs of others: --all"]);
    assert_eq!(none.stdout, "");
}

/// A call can succeed and its command fail.
#[test]
fn a_command_that_failed_is_counted_as_failed() {
    let allow = json!({ "verdict": "allow", "reasons": [{ "text": "a rule" }] });
    let lines = [
        json!({ "seq": 0, "prev": "", "kind": "begin", "at_ms": 0, "format": 1, "segment": 0 }),
        decision(1, "shell", json!({ "command": "false" }), allow.clone()),
        execution(1, json!({ "exit_code": 1 })),
        decision(3, "shell", json!({ "command": "true" }), allow),
        execution(3, json!({ "exit_code": 0 })),
    ];
    let (world, _) = kept(&lines);
    let shown = world.forge(&["log", "show", RUN]).code(0).stdout.clone();
    assert!(
        shown.contains("  exit code 1  ") && shown.contains("  ok  "),
        "{shown}"
    );
    let listed = world
        .forge(&["log", "list", "--all"])
        .code(0)
        .stdout
        .clone();
    assert!(listed.contains("2 calls, 1 failed"), "{listed}");
}

/// Returns the text without these of its lines.
fn without(text: &str, is_lost: impl Fn(usize) -> bool) -> String {
    let lines = text.lines().enumerate();
    let rest = lines.filter(|(at, _)| !is_lost(*at));
    rest.map(|(_, line)| format!("{line}\n")).collect()
}

/// Each command that prints the calls of a log says that lines are missing, with the words of `forge
/// log verify`; the list, which does not read whole logs, says so of the end.
#[test]
fn a_log_that_lost_lines_is_not_printed_as_whole() {
    let world = with_model();
    world.forge(&["run", "main", "do it"]).code(5);
    let file = dir_of_last(&world).join("audit.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let end = whole.lines().count() - 1;
    let other = {
        let run = dir_of_last(&world);
        world.forge(&["run", "main", "do it"]).code(5);
        let other = std::fs::read_to_string(dir_of_last(&world).join("audit.jsonl")).unwrap();
        std::fs::remove_dir_all(dir_of_last(&world)).unwrap();
        assert_eq!(dir_of_last(&world), run);
        other
    };
    for (damage, text, listed) in [
        ("the seal", Some(without(&whole, |at| at == end)), "cut off"),
        ("the end", Some(without(&whole, |at| at > 2)), "cut off"),
        ("all lines", Some(String::new()), "cut off"),
        ("the file", None, "cut off"),
        ("another log", Some(other), "rewritten"),
        ("a call", Some(without(&whole, |at| at == 1 || at == 2)), ""),
        ("the begin", Some(without(&whole, |at| at == 0)), ""),
        (
            "a word",
            Some(whole.replacen("append_file", "read_file", 1)),
            "",
        ),
    ] {
        match &text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let verified = world
            .forge(&["log", "verify", "last"])
            .code(1)
            .stdout
            .clone();
        let verdict = verified.split_once(": ").unwrap().1.trim();
        let broken = format!("broken: {verdict}\n");
        let shown = world.forge(&["log", "show", "last"]);
        assert!(shown.stdout.contains(&broken), "{damage}: {}", shown.stdout);
        shown.code(1);
        for args in [
            &["--json", "log", "show", "last"][..],
            &["log", "export", "last"],
        ] {
            world.forge(args).code(1).says(&[&broken]);
        }
        let listed = match listed {
            "" => "turn_limit: ".to_owned(),
            outcome => format!("  {outcome}: "),
        };
        let list = world.forge(&["log", "list"]).code(0).stdout.clone();
        assert!(list.contains(&listed), "{damage}: {list}");
    }
    std::fs::write(&file, whole).unwrap();
    let shown = world.forge(&["--json", "log", "show", "last"]);
    let shown: Value = serde_json::from_str(&shown.code(0).stdout).unwrap();
    assert_eq!(
        (&shown["broken"], &shown["integrity"]),
        (&false.into(), &"whole".into())
    );
}

/// No process can answer a call of an earlier one.
#[test]
fn an_interrupted_call_is_before_what_came_after_it() {
    let allow = json!({ "verdict": "allow", "reasons": [] });
    let note = |kind: &str| json!({ "kind": kind, "at_ms": 0, "outcome": "answered" });
    let mut begin = note("begin");
    begin["format"] = 1.into();
    begin["segment"] = 0.into();
    let call = |seq, tool| decision(seq, tool, json!({}), allow.clone());
    for (after, expected) in [
        (
            "resumed",
            ["first", "the log goes on", "second", "ended: answered"],
        ),
        (
            "end",
            ["first", "ended: answered", "second", "ended: answered"],
        ),
    ] {
        let (world, _) = kept(&[
            begin.clone(),
            call(1, "first"),
            note(after),
            call(3, "second"),
            execution(3, json!({})),
            note("end"),
        ]);
        let shown = world.forge(&["log", "show", RUN]).code(0).stdout.clone();
        let lines = shown
            .lines()
            .filter(|line| line.starts_with("2026") || line.starts_with("1970"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), expected.len(), "{shown}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{expected}: {shown}");
        }
        let csv = world.forge(&["log", "export", RUN]).code(0).stdout.clone();
        let tools: Vec<_> = csv
            .lines()
            .skip(1)
            .filter_map(|row| row.split(',').nth(3))
            .collect();
        assert_eq!(tools, ["first", "second"], "{csv}");
    }
}

/// `log show` has the answer that the error of a run refers to, with and without a transcript.
#[test]
fn an_answer_that_does_not_fit_is_shown() {
    let world = World::new(&[
        ("golem-forge.config.yaml", WITH_MODEL),
        (
            "playbook.yaml",
            "version: 1\nworkers: { main: [{ say: \"a\\e[2Jb\\nc\" }, { say: \"a\\e[2Jb\\nc\" }] }\n",
        ),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        ("number.json", r#"{ "type": "number" }"#),
    ]);
    for flags in [&[][..], &["--ephemeral"]] {
        let run = ["run", "main", "do it", "--json-schema", "number.json"];
        let ran = world.forge(&[&run, flags].concat());
        ran.code(1)
            .says(&["does not fit", "`forge log show last` prints the answer"]);
        let shown = world.forge(&["log", "show", "last"]);
        let answer = "the answer that does not fit:\na\\x1b[2Jb\nc\n";
        assert!(shown.code(0).stdout.ends_with(answer), "{}", shown.stdout);
    }
}

/// A path of any bytes is a project, and its runs are listed in no other.
#[cfg(target_os = "linux")]
#[test]
fn a_project_whose_path_is_no_text_has_its_runs() {
    use std::os::unix::ffi::OsStrExt as _;

    let world = World::new(&[]);
    let here = world
        .outside()
        .join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&here).unwrap();
    let forge = |args: &[&str]| {
        let mut command = world.command(crate::support::forge_program(), args);
        crate::support::ran(command.current_dir(&here).output().unwrap())
    };
    forge(&["exec", "--", "true"]).code(0);
    let listed = forge(&["log", "list", "--json"]);
    assert_eq!(listed.stdout.matches("exec_").count(), 1, "{listed:?}");
    forge(&["log", "verify"]).code(0);
    let other = world.forge(&["log", "list", "--json"]);
    assert_eq!(other.stdout.matches("exec_").count(), 0, "{other:?}");
    let reviewed = forge(&[
        "exec",
        "--review=copy",
        "--",
        "sh",
        "-c",
        "echo made > made",
    ]);
    reviewed.code(0).says(&["forge review"]);
    for json in [&["--json"][..], &[]] {
        let listed = forge(&[&["review", "list"], json].concat());
        assert!(listed.code(0).stdout.contains("made"), "{listed:?}");
    }
    forge(&["review", "apply", "last"]).code(0);
    assert!(here.join("made").exists());
}
