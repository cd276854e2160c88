//! A limit that a command met is told with the key that sets it: by `forge exec` and by the tool,
//! under each mechanism.

use serde_json::{Value, json};

use super::exec::mechanisms;
use crate::support::{Ran, World};

struct Row {
    limits: &'static str,
    command: &'static str,
    /// The text for the person and the model.
    says: &'static str,
    /// The promise whose row in the plan names what holds the limit.
    promise: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        limits: "limits: { memory_mb: 64 }",
        command: "x=$(head -c 300000000 /dev/zero | tr '\\0' x); sleep 60",
        says: "more than 64 MiB of memory (limits.memory_mb)",
        promise: "memory limit",
    },
    Row {
        limits: "limits: { processes: 20 }",
        command: "for i in $(seq 60); do sleep 60 & done; wait",
        says: "more than 20 processes and threads at once (limits.processes)",
        promise: "process limit",
    },
];

fn limited(limits: &str) -> World {
    let shell = "shell: { default: ask }\n";
    let file = format!("sandbox: {{ root: . }}\n{shell}{limits}\n");
    World::new(&[("forge.yaml", &file)])
}

/// Runs the tool under a mechanism: without user namespaces there is no bubblewrap.
fn call(world: &World, mechanism: &str, arguments: &Value) -> Ran {
    let arguments = arguments.to_string();
    let words = ["--trust", "tools", "call", "--yes", "shell", &arguments];
    match mechanism {
        "landlock" => world.forge_without(&["userns"], &words),
        _ => world.forge(&words),
    }
}

/// A limit of the kernel's on each user's processes makes `fork` fail, and tells nobody else.
fn is_told(world: &World, mechanism: &str, promise: &str) -> bool {
    let words = [
        "--trust",
        "exec",
        "--json",
        "--mechanism",
        mechanism,
        "true",
    ];
    let object: Value = serde_json::from_str(&world.forge(&words).stdout).unwrap();
    let promises = object["enforcement"]["promises"].as_array().unwrap();
    let row = promises.iter().find(|row| row["promise"] == promise);
    row.unwrap()["by"] != json!(["rlimits"])
}

#[test]
fn those_of_a_tree_are_told_with_their_keys() {
    for row in ROWS {
        let world = limited(row.limits);
        for mechanism in mechanisms(&World::new(&[])) {
            if !is_told(&world, mechanism, row.promise) {
                eprintln!("skipped: nothing counts {} under {mechanism}", row.promise);
                continue;
            }
            // A watchdog: where a fork fails and the rest waits, nothing else ends it.
            let exec = ["--trust", "exec", "--mechanism", mechanism];
            let script = ["--timeout", "5", "--", "sh", "-c", row.command];
            let by_hand = world.forge(&[&exec[..], &script].concat());
            let by_tool = call(
                &world,
                mechanism,
                &json!({"command": row.command, "timeout_s": 5}),
            );
            assert!(
                by_hand.stderr.contains(row.says),
                "{mechanism}: {}",
                by_hand.stderr
            );
            let said = format!("{}{}", by_tool.stdout, by_tool.stderr);
            assert!(said.contains(row.says), "{mechanism}: {said}");
        }
    }
}

/// Time of a command, output, and what file tools may write: the same under every mechanism, so
/// the tool's rows run under the best one.
#[test]
fn those_of_a_call_are_told_with_their_keys() {
    for mechanism in mechanisms(&World::new(&[])) {
        let words = [
            "--trust",
            "exec",
            "--mechanism",
            mechanism,
            "--timeout",
            "1",
        ];
        let ran = limited("").forge(&[&words[..], &["sleep", "60"]].concat());
        let says = "limit: the command used more than 1s (--timeout)";
        assert!(ran.stderr.contains(says), "{mechanism}: {}", ran.stderr);
    }
    let loud = json!({"command": "head -c 5000 /dev/zero | tr '\\0' x"});
    let complains = json!({"command": "head -c 5000 /dev/zero | tr '\\0' x >&2"});
    let slow = json!({"command": "sleep 60"});
    let large = json!({"from": "/large", "to": "/copy"});
    let small = json!({"path": "/small", "content": "text"});
    for (file, tool, arguments, says) in [
        (
            "limits: { max_stdout_kb: 1 }",
            "shell",
            &loud,
            "limits.max_stdout_kb",
        ),
        (
            "limits: { max_stderr_kb: 1 }",
            "shell",
            &complains,
            "limits.max_stderr_kb",
        ),
        (
            "limits: { timeout_s_max: 1 }",
            "shell",
            &slow,
            "limits.timeout_s_max",
        ),
        (
            "limits: { max_file_write_mb: 1 }",
            "copy_file",
            &large,
            "limits.max_file_write_mb",
        ),
        (
            "quota: { max_bytes: 2 }",
            "write_file",
            &small,
            "quota.max_bytes",
        ),
        (
            "quota: { max_files: 1 }",
            "write_file",
            &small,
            "quota.max_files",
        ),
    ] {
        let world = match file.starts_with("quota") {
            true => World::new(&[(
                "forge.yaml",
                &format!("sandbox: {{ root: ., {file} }}\nshell: {{ default: ask }}\n"),
            )]),
            false => limited(file),
        };
        std::fs::write(world.project().join("large"), vec![0; 2 << 20]).unwrap();
        let arguments = arguments.to_string();
        let ran = world.forge(&["--trust", "tools", "call", "--yes", tool, &arguments]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(says), "{tool}, {file}: {said}");
    }
}

/// Tries another host without a word about it, and fails.
const SILENT: &str = "import socket
try: socket.create_connection(('192.0.2.1', 80), 1)
except OSError: pass
";

/// forge names the attempt if the kernel counts packets without a route, and guesses nothing else.
#[test]
fn a_refused_connection_is_named_after_a_failure() {
    let world = World::new(&[("silent.py", SILENT)]);
    let note = "note: the command tried to reach another host, and the network is off; \
                let it reach one by name: forge exec --host HOST\n";
    for mechanism in mechanisms(&world) {
        let run = |flags: &[&str], script: &str| {
            let exec = ["exec", "--mechanism", mechanism];
            world.forge(&[flags, &exec[..], &["--", "sh", "-c", script]].concat())
        };
        let counted = mechanism == "namespaces";
        let failed = run(&[], "python3 silent.py; exit 3");
        assert_eq!(failed.code, 3, "{mechanism}: {}", failed.stderr);
        assert_eq!(failed.stderr.matches(note).count(), usize::from(counted));
        for (flags, script) in [
            (&["-q"][..], "python3 silent.py; exit 3"),
            (&[], "python3 silent.py"),
            // On its own loopback nobody listens, and nothing was refused.
            (
                &[],
                "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9))\"",
            ),
            (&[], "exit 3"),
        ] {
            let ran = run(flags, script);
            assert!(
                !ran.stderr.contains("another host"),
                "{script}: {}",
                ran.stderr
            );
        }
        let words = [
            "exec",
            "--json",
            "--mechanism",
            mechanism,
            "python3",
            "silent.py",
        ];
        let object: Value = serde_json::from_str(&world.forge(&words).stdout).unwrap();
        let seen = object["enforcement"]["unreachable"].as_u64();
        assert_eq!(seen.is_some_and(|count| count > 0), counted, "{object}");
    }
    let calls = limited("");
    std::fs::write(calls.project().join("silent.py"), SILENT).unwrap();
    let arguments = json!({"command": "python3 silent.py; exit 3"});
    if mechanisms(&world).contains(&"namespaces") {
        let ran = call(&calls, "namespaces", &arguments);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("Network access is disabled"), "{said}");
    }
}
