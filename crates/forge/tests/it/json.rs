//! `--json`: exactly one object on standard output, and of a failure one line that is an
//! object, the last on standard error.

use serde_json::Value;

use crate::support::{PROJECT, Ran, World};

const FILE: &str = "golem-forge.config.yaml";
const WORKER: (&str, &str) = ("workers/main.worker", "---\nname: main\n---\nGo.\n");

/// What a command has on each of the two, and its exit code.
enum Said {
    Result(i32),
    Failure(i32),
    Both(i32),
}

fn check(args: &[&str], ran: &Ran, said: &Said) {
    let (code, result, failure) = match said {
        Said::Result(code) => (*code, true, false),
        Said::Failure(code) => (*code, false, true),
        Said::Both(code) => (*code, true, true),
    };
    ran.code(code);
    match serde_json::from_str::<Value>(&ran.stdout) {
        Ok(object) => assert!(result && object.is_object(), "{args:?}\n{}", ran.stdout),
        Err(error) => assert!(
            !result && ran.stdout.is_empty(),
            "{args:?} {error}\n{}",
            ran.stdout
        ),
    }
    let last = ran.stderr.lines().last().unwrap_or_default();
    let error = serde_json::from_str::<Value>(last).map(|object| object["error"].clone());
    match (failure, error) {
        (true, Ok(error)) => {
            assert!(error["code"].is_string(), "{args:?}\n{last}");
            assert!(error["message"].is_string(), "{args:?}\n{last}");
        }
        (false, Err(_)) => {}
        (_, error) => panic!("{args:?} {error:?}\n{}", ran.stderr),
    }
}

/// What a person is advised to do, programs are told too.
#[test]
fn every_hint_of_a_failure_is_in_its_object() {
    let world = World::new(&[(FILE, PROJECT), WORKER]);
    for args in [
        &["run", "mian", "hi"][..],
        &["worker", "show", "mian"],
        &["explain", "--worker", "mian", "/a"],
        &["config", "get", "limits.max_turn"],
        &["log", "show", "nope"],
        &["review", "show"],
        &["-c", "limits.max_turn=1", "check"],
        &["allow", "--remove", "nope", "--yes"],
        &["init", "../home"],
    ] {
        let text = world.forge(&[&["--trust"], args].concat());
        let hints = text.stderr.lines().filter_map(|line| {
            let help = line.trim_start().strip_prefix("= help: ");
            help.or_else(|| line.strip_prefix("hint: "))
        });
        let ran = world.forge(&[&["--trust", "--json"], args].concat());
        assert_eq!(text.code, ran.code, "{args:?}");
        let last = ran.stderr.lines().last().unwrap_or_default();
        let object: Value = serde_json::from_str(last).unwrap();
        let help = object["error"]["help"].as_str().unwrap_or_default();
        let hints: Vec<&str> = hints.collect();
        assert!(!hints.is_empty(), "{args:?}: {}", text.stderr);
        for hint in hints {
            assert!(help.contains(hint), "{args:?}: no {hint:?} in {last}");
        }
    }
}

#[test]
fn one_object_and_one_line() {
    let rows: &[(&[&str], Said)] = &[
        (&["check"], Said::Result(0)),
        (&["config", "path"], Said::Result(0)),
        (&["config", "show"], Said::Result(0)),
        (&["config", "show", "--origin"], Said::Result(0)),
        (&["config", "get", "no.such"], Said::Failure(2)),
        (&["explain", "/workspace/a"], Said::Result(0)),
        (&["explain", "--worker", "nobody", "/a"], Said::Failure(2)),
        (&["worker", "list"], Said::Result(0)),
        (&["worker", "show", "main"], Said::Result(0)),
        (&["worker", "show", "nobody"], Said::Failure(2)),
        (&["stage"], Said::Result(0)),
        (&["stage", "status"], Said::Result(0)),
        (&["tools", "list"], Said::Result(0)),
        (
            &["tools", "call", "list_files", r#"{"path":"/"}"#],
            Said::Result(0),
        ),
        (
            &["tools", "call", "read_file", r#"{"path":"/none"}"#],
            Said::Both(1),
        ),
        (&["tools", "call", "read_file", "{}"], Said::Both(2)),
        (&["tools", "call", "read_file", "{"], Said::Failure(2)),
        (
            &["tools", "call", "shell", r#"{"command":"ls"}"#],
            Said::Both(3),
        ),
        (&["config", "set", "model", "x"], Said::Failure(2)),
        (&["trust", "--show"], Said::Result(0)),
        (&["trust"], Said::Failure(3)),
        (&["trust", "--yes"], Said::Result(0)),
        (&["trust"], Said::Result(0)),
        (&["trust", "--revoke"], Said::Result(0)),
        (&["log", "list"], Said::Result(0)),
        (&["log", "show", "no-such-run"], Said::Failure(2)),
        (&["help", "exit-codes"], Said::Result(0)),
        (&["help", "no-such-topic"], Said::Failure(2)),
        (&["approve"], Said::Result(0)),
        (&["approve", "ffff", "--allow"], Said::Failure(2)),
        (&["schema", "config"], Said::Result(0)),
        (&["frobnicate"], Said::Failure(2)),
        (&["run", "nobody"], Said::Failure(2)),
    ];
    let world = World::new(&[(FILE, PROJECT), WORKER]);
    for (args, said) in rows {
        let args = [&["--json"][..], args].concat();
        check(&args, &world.forge(&args), said);
    }
}
