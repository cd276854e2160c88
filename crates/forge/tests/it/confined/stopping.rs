//! Told to stop, or with nobody listening: forge ends as it promises, and what was
//! done is recorded.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{World, eventually, forge_program, ran};

const SLOW: &str = "\
sandbox: { mode: direct, zones: { workspace: { path: ./workspace } } }
model: scripted:playbook.yaml
shell: { rules: [{ pattern: 'sh *', approval: preApproved }, { pattern: 'echo *', approval: preApproved }, { pattern: 'sleep *', approval: preApproved }] }
";

const COMMAND: &str = "sh -c 'echo x > workspace/started; sleep 600'";

fn slow_project() -> World {
    let playbook = format!(
        "version: 1\nworkers:\n  main:\n    - calls: [{{ tool: shell, args: {{ command: \"{COMMAND}\" }} }}]\n"
    );
    World::new(&[
        ("golem-forge.config.yaml", SLOW),
        ("playbook.yaml", &playbook),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: inherit\nshell: {}\n---\nGo.\n",
        ),
    ])
}

#[test]
fn a_signal_ends_it_with_its_code_and_a_record() {
    let call = format!(r#"{{"command":"{COMMAND}","timeout_s":300}}"#);
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        for args in [
            &["--trust", "run"][..],
            &["--trust", "tools", "call", "shell", &call],
        ] {
            let world = slow_project();
            let child = world
                .command(forge_program(), args)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let started = world.project().join("workspace/started");
            for _ in 0..600 {
                if started.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(started.exists(), "{args:?}: the command never started");
            let pid = child.id().to_string();
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args([signal, &pid]).status().unwrap().success());
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{signal} {args:?}");
            let audit = world.audit();
            assert!(
                audit.contains(r#""code":"CANCELLED""#),
                "{signal} {args:?}: {audit}"
            );
            assert!(audit.ends_with('\n'), "{audit}");
        }
    }
}

const PLANTS: &str = "\
mkdir .vscode n n/.git n/.git/objects n/.git/refs many
echo x > .vscode/tasks.json
echo 'ref: refs/heads/main' > n/.git/HEAD
printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch pwned\\n' > n/.git/config
cd many
seq DIRS | xargs mkdir
: > ../ready
";

const WIRE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"sh a.sh"}}}
"#;
const CANCEL: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;

/// The event that stops forge, and its exit code.
type Stop = (&'static str, i32);

/// The sweep after a command takes a while. Whatever stops forge then, the names are moved away, and
/// the record and the person are told.
#[test]
fn nothing_that_stops_forge_stops_the_sweep() {
    let call = [
        "--trust",
        "tools",
        "call",
        "--yes",
        "shell",
        r#"{"command":"sh a.sh"}"#,
    ];
    let cases: [(&[&str], &[Stop]); 4] = [
        (&["exec", "--", "sh", "a.sh"], &[("-TERM", 143)]),
        (&call, &[("-INT", 130), ("-TERM", 143)]),
        // Its standard input is not for the worker.
        (&["--trust", "run", "-f", "a.sh"], &[("-INT", 130)]),
        (
            &["--trust", "mcp"],
            &[("-TERM", 143), ("cancel", 0), ("hang up", 0)],
        ),
    ];
    for (args, stops) in cases {
        for stop in stops {
            // On a fast machine the sweep can be over before the stop.
            let mut dirs = [4000, 16_000, 64_000].into_iter();
            assert!(
                dirs.any(|dirs| stop_in_sweep(args, *stop, dirs)),
                "{args:?}"
            );
        }
    }
}

/// Returns `false` if the command had ended before the stop.
fn stop_in_sweep(args: &[&str], (stop, code): Stop, dirs: u32) -> bool {
    let project = "sandbox: { root: . }\nmodel: scripted:play.yaml\napproval: { mode: auto }\n\
                   shell: { rules: [{ pattern: 'sh *', approval: preApproved }] }\n";
    let playbook = "version: 1\nworkers:\n  main:\n    \
                    - calls: [{ tool: shell, args: { command: sh a.sh } }]\n    - say: over\n";
    let worker = "---\nname: main\nsandbox: inherit\nshell: {}\n---\nGo.\n";
    let world = World::new(&[
        ("forge.yaml", project),
        ("play.yaml", playbook),
        ("workers/main.worker", worker),
        ("a.sh", &PLANTS.replace("DIRS", &dirs.to_string())),
    ]);
    let mut child = world
        .command(forge_program(), args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    if args.contains(&"mcp") {
        input.write_all(WIRE.as_bytes()).unwrap();
    }
    eventually("swept", || world.project().join("ready").exists());
    std::thread::sleep(Duration::from_millis(50));
    match stop {
        "cancel" => {
            writeln!(input, "{CANCEL}").unwrap();
            // Read before the end of the input.
            std::thread::sleep(Duration::from_millis(50));
            drop(input);
        }
        "hang up" => drop(input),
        signal => {
            let id = child.id().to_string();
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args([signal, &id]).status().unwrap().success());
        }
    }
    let ran = ran(child.wait_with_output().unwrap());
    let at = format!("{args:?} {stop}: {ran:?}");
    if code != 0 && ran.code == 0 {
        return false;
    }
    assert_eq!(ran.code, code, "{at}");
    for name in [".vscode", "n/.git/config"] {
        assert!(!world.project().join(name).exists(), "{at}: {name}");
    }
    // A client that hangs up is answered nevertheless.
    let told = [&ran.stderr, &ran.stdout];
    assert!(told.iter().any(|text| text.contains(".vscode")), "{at}");
    let audit = world.audit();
    let lines = audit
        .lines()
        .filter(|line| line.contains(r#""kind":"execution""#));
    let ends: Vec<&str> = lines.collect();
    assert_eq!(ends.len(), 1, "{at}: {audit}");
    for fact in [r#""quarantined""#, ".vscode", r#""enforcement""#] {
        assert!(ends[0].contains(fact), "{at}: no {fact}: {audit}");
    }
    true
}

/// Traps a signal, and says each delivery. `sleep` and `wait` let the trap run at once.
const TRAPS: &str = "for s in TERM INT HUP QUIT; do trap \"echo $s >> got; sleep 0.3; exit 4\" $s; done; \
                     : > ready; sleep 30 & wait";

/// A forge in a session of its own, without a terminal, whose command is ready.
fn started(world: &World, args: &[&str], script: &str) -> Child {
    let forge = forge_program().to_str().unwrap();
    // Signals that the shell of a developer ignores would stay ignored.
    let words = ["--default-signal", "setsid", forge];
    let words = [&words[..], &["exec"], args, &["--", "sh", "-c", script]].concat();
    let child = world
        .command(Path::new("env"), &words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("ready", || world.project().join("ready").exists());
    child
}

fn send(signal: &str, target: &str) {
    let mut kill = std::process::Command::new("kill");
    let status = kill.args([signal, "--", target]).status();
    assert!(status.unwrap().success());
}

/// The command handles the signal that stops forge, once, under every mechanism, and its exit code
/// is that of forge.
#[test]
fn a_command_gets_the_signal_that_stops_forge() {
    let mechanisms = ["namespaces", "bubblewrap", "landlock"].map(|name| ["--mechanism", name]);
    let left = ["-c", "sandbox.survivors=left", "--mechanism", "landlock"];
    let all = mechanisms.iter().map(|args| &args[..]);
    for args in all.chain([&left[..], &["--no-os-sandbox"]]) {
        for signal in ["TERM", "INT", "HUP", "QUIT"] {
            for to_group in [false, true] {
                let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
                let mut child = started(&world, args, TRAPS);
                let id = child.id().to_string();
                let target = if to_group { format!("-{id}") } else { id };
                send(&format!("-{signal}"), &target);
                let code = child.wait().unwrap().code();
                let at = format!("{args:?} {signal} {to_group}");
                assert_eq!(code, Some(4), "{at}");
                let got = std::fs::read_to_string(world.project().join("got"));
                assert_eq!(got.unwrap_or_default(), format!("{signal}\n"), "{at}");
            }
        }
    }
}

/// SIGTERM comes first at the time limit, whose exit code stays.
#[test]
fn a_command_whose_time_is_over_gets_a_signal_first() {
    let left = ["-c", "sandbox.survivors=left", "--mechanism", "landlock"];
    for args in [&[][..], &left, &["--no-os-sandbox"]] {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        let args = [args, &["--timeout", "1"]].concat();
        let code = started(&world, &args, TRAPS).wait().unwrap().code();
        assert_eq!(code, Some(124), "{args:?}");
        let got = std::fs::read_to_string(world.project().join("got"));
        assert_eq!(got.unwrap_or_default(), "TERM\n", "{args:?}");
    }
}

/// A command that ignores the signal is ended after a while, and at once by a second signal.
#[test]
fn a_command_that_ignores_the_signal_is_ended() {
    for second in [None, Some("-TERM"), Some("-INT")] {
        let world = World::new(&[]);
        let script = "trap '' TERM INT; : > ready; sleep 30";
        let mut child = started(&world, &[], script);
        let id = child.id().to_string();
        let start = std::time::Instant::now();
        send("-TERM", &id);
        if let Some(second) = second {
            std::thread::sleep(Duration::from_millis(300));
            assert!(child.try_wait().unwrap().is_none(), "{second}");
            send(second, &id);
        }
        assert_eq!(child.wait().unwrap().code(), Some(143), "{second:?}");
        let is_late = start.elapsed() >= Duration::from_secs(5);
        assert_eq!(is_late, second.is_none(), "{second:?}");
    }
}

/// Batch systems announce the end of a job by several signals.
#[test]
fn no_signal_ends_forge_before_the_check() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    for signal in [1, 6, 10, 12, 14, 15, 16, 24, 26, 27, 29, 30, 35, 50, 64] {
        // As under nohup: forge leaves such a signal ignored.
        if ignored >> (signal - 1) & 1 == 1 {
            eprintln!("skipped: signal {signal} is ignored here");
            continue;
        }
        let world = World::new(&[]);
        let script = "touch .mcp.json ready; sleep 600";
        let child = world
            .command(forge_program(), &["exec", "--", "sh", "-c", script])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        eventually("started", || world.project().join("ready").exists());
        let id = child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        let status = kill.args([&format!("-{signal}"), &id]).status();
        assert!(status.unwrap().success());
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 128 + signal, "{}", ran.stderr);
        ran.says(&["quarantined: "]);
        assert!(!world.project().join(".mcp.json").exists(), "{signal}");
    }
}

#[test]
fn a_playbook_that_never_ends_is_not_read() {
    for place in ["/dev/zero", "."] {
        let world = World::new(&[("workers/main.worker", "---\nname: main\n---\nGo.\n")]);
        world
            .forge(&["run", "--model", &format!("scripted:{place}")])
            .code(2)
            .says(&["cannot read the playbook", "not a regular file"]);
    }
}

#[test]
fn a_receipt_that_cannot_be_written_starts_nothing() {
    let world = World::new(&[("taken/x", "")]);
    let args = ["exec", "--receipt", "taken", "--", "touch", "ran"];
    world
        .forge(&args)
        .code(125)
        .says(&["cannot write the receipt to taken"]);
    assert!(!world.project().join("ran").exists());
}

#[test]
fn usage_mistakes_are_json_for_whoever_asked_for_it() {
    let world = World::new(&[]);
    for args in [&["--json", "nope"][..], &["tools", "call", "--json"]] {
        let ran = world.forge(args);
        ran.code(2);
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "usage");
    }
    world
        .forge(&["nope"])
        .code(2)
        .says(&["unrecognized subcommand"]);
    world.forge(&["--json", "--help"]).code(0);
}

#[test]
fn a_standard_error_that_is_full_changes_nothing() {
    let world = World::new(&[]);
    for (args, code) in [
        (&["tools", "call", "nope"][..], 2),
        (&["--json", "tools", "call", "list_files", "{"], 2),
        (&["-c", "zonse=1", "check"], 2),
        (&["exec", "--json", "--", "true"], 0),
        (&["exec", "--no-os-sandbox", "--", "sh", "-c", "exit 7"], 7),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = world
            .command(forge_program(), args)
            .stdout(Stdio::null())
            .stderr(full)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

/// Processes that still run when the command has ended are ended with it, and named; those that end
/// by themselves in that moment are not.
#[test]
fn what_still_runs_at_the_end_is_named() {
    let world = World::new(&[]);
    let one = "sleep 20 & sleep 0.2";
    let many = "for i in 1 2 3; do sleep 20 & done; tail -f /dev/null & \
                cp \"$(command -v sleep)\" \"$(printf 'a\\033b')\"; ./a?b 20 & sleep 0.3; rm a?b";
    for args in [
        &["--mechanism", "namespaces"][..],
        &["--mechanism", "bubblewrap"],
        &["--mechanism", "landlock"],
        &["--no-os-sandbox"],
    ] {
        let exec = |more: &[&str], script: &str| {
            world.forge(&[&["exec"], args, more, &["--", "bash", "-c", script]].concat())
        };
        let ran = exec(&[], one);
        ran.code(0)
            .says(&["note: 1 process that was still running was ended with the command: sleep\n"]);
        let ran = exec(&["--json"], many);
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let ended = &object["enforcement"]["ended_processes"];
        assert_eq!(ended["count"], 5, "{args:?} {ended}");
        let programs = ended["programs"].as_array().unwrap();
        for name in ["sleep", "tail", "a\\u{1b}b"] {
            assert!(programs.iter().any(|one| one == name), "{args:?} {ended}");
        }
        for quiet in ["true", "sleep 0.1 & wait", "echo a | cat"] {
            let ran = exec(&[], quiet);
            assert!(!ran.stderr.contains("running"), "{args:?} {quiet}: {ran:?}");
        }
    }
}
