//! Ctrl-C and SIGTERM in the middle of a run: everything it started is gone, and everything it
//! called has a result.

use std::process::Stdio;

use crate::support::{PROJECT, World, eventually, forge_program, ran};

const PLAYBOOK: &str = "version: 1
workers:
  main:
    - calls:
        - { tool: child, args: { input: x } }
        - { tool: write_file, args: { path: /workspace/late, content: x } }
    - say: never
  child:
    - calls:
        - { tool: shell, args: { command: 'sleep 4711.MARK' } }
        - { tool: write_file, args: { path: /workspace/later, content: x } }
    - say: never
";

/// Whether a process with this command line is there.
fn is_there(command: &str) -> bool {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).replace('\0', " ").trim() == command)
}

#[test]
fn a_run_that_is_told_to_stop_leaves_nothing_behind() {
    for (signal, code) in signals() {
        let mark = format!("{}{code}", std::process::id());
        let command = format!("sleep 4711.{mark}");
        let front = "sandbox: inherit\nshell: {}\n";
        let project = PROJECT.replace("'echo *'", "'sleep *'");
        let world = World::new(&[
            ("golem-forge.config.yaml", &project),
            ("play.yaml", &PLAYBOOK.replace("MARK", &mark)),
            (
                "workers/main.worker",
                &format!("---\nname: main\ndescription: d\n{front}workers: [child]\n---\nGo.\n"),
            ),
            (
                "workers/child.worker",
                &format!("---\nname: child\ndescription: d\n{front}---\nGo.\n"),
            ),
        ]);
        let args = ["--trust", "run", "main", "--model", "scripted:play.yaml"];
        let mut forge = world.command(forge_program(), &args);
        let forge = forge.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = forge.spawn().unwrap();
        let id = running.id().to_string();
        eventually("started", || is_there(&command));
        let told = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(told.unwrap().success());
        let ran = ran(running.wait_with_output().unwrap());
        ran.code(code);
        eventually("gone", || !is_there(&command));
        for late in ["late", "later"] {
            assert!(!world.project().join("workspace").join(late).exists());
        }

        let shown = world.forge(&["log", "show", "last"]);
        let runs = world.outside().join("state");
        let transcript = found(&runs, "transcript.jsonl");
        let cancelled = transcript
            .lines()
            .filter(|line| line.contains("Cancelled by user."))
            .count();
        assert_eq!(cancelled, 4, "{transcript}\n{}", shown.stdout);
        let kept = found(&runs, "run.json");
        assert!(
            kept.contains(r#""end":"cancelled""#) || kept.contains(r#""end": "cancelled""#),
            "{kept}"
        );
        world.forge(&["log", "verify", "last"]).code(0);
    }
}

/// Returns the signals that end forge, with their exit codes. Under `nohup` SIGHUP is missing:
/// forge leaves an ignored SIGHUP ignored.
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn signals() -> Vec<(&'static str, i32)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    let mut signals = vec![("-INT", 130), ("-TERM", 143), ("-QUIT", 131)];
    match ignored & 1 {
        0 => signals.push(("-HUP", 129)),
        _ => eprintln!("skipped: SIGHUP is ignored here"),
    }
    signals
}

/// The run is over, and its result is more than a pipe holds, which nobody reads: a signal ends
/// forge all the same, and what the run came to is kept.
#[test]
fn a_result_that_nobody_reads_does_not_hold_it() {
    let long = "x".repeat(300_000);
    let playbook = format!("version: 1\nworkers: {{ main: [{{ say: {long} }}] }}\n");
    for (signal, code) in signals() {
        for more in [&[][..], &["--json"], &["--output", "stream-json"]] {
            let world = World::new(&[
                ("golem-forge.config.yaml", PROJECT),
                ("play.yaml", &playbook),
                ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
            ]);
            let args = ["--trust", "run", "main", "--model", "scripted:play.yaml"];
            let mut forge = world.command(forge_program(), &[&args[..], more].concat());
            let forge = forge.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut running = forge.spawn().unwrap();
            let runs = world.outside().join("state");
            eventually("over", || found(&runs, "run.json").ends_with("}\n"));
            let id = running.id().to_string();
            let mut ended = None;
            eventually("ended", || {
                // It may still be about to listen.
                let told = std::process::Command::new("kill")
                    .args([signal, &id])
                    .status();
                assert!(told.unwrap().success());
                ended = running.try_wait().unwrap();
                ended.is_some()
            });
            assert_eq!(ended.unwrap().code(), Some(code), "{signal} {more:?}");
        }
    }
}

/// The text of the only file of this name below a directory.
fn found(below: &std::path::Path, name: &str) -> String {
    for entry in std::fs::read_dir(below).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            let text = found(&path, name);
            if !text.is_empty() {
                return text;
            }
        } else if entry.file_name() == name {
            return std::fs::read_to_string(path).unwrap();
        }
    }
    String::new()
}

/// Whatever tells `forge exec` to stop: the command is gone, the record has an end, and nothing of
/// ours lies in the project.
#[test]
fn a_command_of_exec_is_ended_and_recorded() {
    for (signal, code) in signals() {
        let command = format!("sleep 4712.{}{code}", std::process::id());
        let world = World::new(&[("golem-forge.config.yaml", PROJECT)]);
        let words: Vec<&str> = ["exec", "--no-os-sandbox", "--"]
            .into_iter()
            .chain(command.split(' '))
            .collect();
        let mut forge = world.command(forge_program(), &words);
        let running = forge.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = running.spawn().unwrap();
        eventually("started", || is_there(&command));
        let id = running.id().to_string();
        let told = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(told.unwrap().success());
        let ran = ran(running.wait_with_output().unwrap());
        ran.code(code);
        eventually("gone", || !is_there(&command));
        world.forge(&["log", "verify", "last"]).code(0);
    }
}

/// Who starts forge with `nohup` wants it to go on.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let world = World::new(&[("golem-forge.config.yaml", PROJECT)]);
    let command = format!("sleep 4713.{}", std::process::id());
    let mut nohup = world.command(std::path::Path::new("nohup"), &[]);
    let nohup = nohup
        .arg(forge_program())
        .args(["exec", "--no-os-sandbox", "--"]);
    let nohup = nohup.args(command.split(' '));
    let mut running = nohup
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("started", || is_there(&command));
    let id = running.id().to_string();
    let tell = |signal: &str| {
        let told = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(told.unwrap().success());
    };
    tell("-HUP");
    assert!(running.try_wait().unwrap().is_none());
    tell("-TERM");
    // Not by the first of the two signals.
    assert_eq!(running.wait().unwrap().code(), Some(143));
}
