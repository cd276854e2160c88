//! How commands end: by themselves, by their time, by a signal, by being given up; and what the
//! model is told of the place they ran in.

use std::path::Path;
use std::time::Duration;

use forge_tools::{CallRequest, Toolbox, Verdict};
use os_sandbox::{Access, Backend, Plan, Policy, Requirement, Support};
use serde_json::json;

use crate::place::{self, everywhere};
use crate::support::{Always, World, block_on, call};

/// A toolbox under every mechanism of this machine.
#[expect(clippy::print_stderr, reason = "what is skipped is said")]
fn toolboxes(dir: &Path) -> Vec<(Backend, Toolbox)> {
    let policy = Policy::builder()
        .mount(dir, "/work-dir", Access::ALL)
        .build()
        .unwrap();
    let support = Support::detect();
    let found: Vec<_> = [Backend::Namespaces, Backend::Landlock]
        .into_iter()
        .filter_map(|backend| {
            let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend)
                .inspect_err(|error| eprintln!("skipped: {backend}: {error}"))
                .ok()?;
            let toolbox = Toolbox::builder()
                .processes(place::processes(plan).default_timeout(Duration::from_secs(600)))
                .gate(Always(Verdict::Allow))
                .build()
                .unwrap();
            Some((backend, toolbox))
        })
        .collect();
    assert!(!found.is_empty());
    found
}

/// Processes that hold on: in a session of their own, by a double fork, deaf to signals, and
/// with the pipes closed.
const CLINGING: &str = "
beat() { while :; do echo $1 >> work-dir/$1; sleep 0.02; done; }
setsid sh -c 'while :; do echo x >> work-dir/session; sleep 0.02; done' &
( ( beat double & ) & )
( trap '' HUP INT TERM; beat deaf ) &
( exec <&- >&- 2>&-; beat closed ) &
";

const BEATS: [&str; 4] = ["session", "double", "deaf", "closed"];

fn size(dir: &Path, name: &str) -> u64 {
    std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len())
}

#[track_caller]
fn all_have_ended(dir: &Path, what: &str) {
    let before = BEATS.map(|name| size(dir, name));
    std::thread::sleep(Duration::from_millis(500));
    let after = BEATS.map(|name| size(dir, name));
    assert!(before.iter().all(|size| *size > 0), "{what}: {before:?}");
    assert_eq!(before, after, "{what}: something goes on");
    for name in BEATS {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn a_time_limit_ends_everything_that_was_started() {
    everywhere(a_time_limit_ends_everything_that_was_started_here);
}

fn a_time_limit_ends_everything_that_was_started_here() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, toolbox) in toolboxes(dir.path()) {
        let command = format!("{CLINGING}\nsleep 600");
        // Until all of them have begun before it was over.
        for seconds in [2, 20, 200] {
            for name in BEATS {
                let _there = std::fs::remove_file(dir.path().join(name));
            }
            let result = call(
                &toolbox,
                "shell",
                json!({"command": command, "timeout_s": seconds}),
            );
            assert_eq!(result.error.unwrap().code, "TIME_LIMIT", "{backend}");
            assert_eq!(result.structured.unwrap()["exit_code"], 124);
            if BEATS.iter().all(|name| size(dir.path(), name) > 0) {
                break;
            }
        }
        all_have_ended(dir.path(), &backend.to_string());
    }
}

/// The call is over when the command is, whatever holds its pipes; nothing outlives it.
#[test]
fn what_is_left_behind_ends_with_the_command() {
    everywhere(what_is_left_behind_ends_with_the_command_here);
}

fn what_is_left_behind_ends_with_the_command_here() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, toolbox) in toolboxes(dir.path()) {
        let ready = BEATS
            .map(|name| format!("test -s work-dir/{name}"))
            .join(" && ");
        let command = format!("{CLINGING}\nuntil {ready}; do sleep 0.05; done; echo done");
        let result = call(&toolbox, "shell", json!({"command": command}));
        assert_eq!(result.content, "done\n", "{backend}");
        all_have_ended(dir.path(), &backend.to_string());
    }
}

#[test]
fn a_call_that_is_given_up_ends_everything_that_was_started() {
    everywhere(a_call_that_is_given_up_ends_everything_that_was_started_here);
}

fn a_call_that_is_given_up_ends_everything_that_was_started_here() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, toolbox) in toolboxes(dir.path()) {
        let command = format!("{CLINGING}\nsleep 600");
        block_on(async {
            let running = toolbox.call(CallRequest::new(
                "shell",
                json!({"command": command, "timeout_s": 600}),
            ));
            let started = async {
                while BEATS.iter().any(|name| size(dir.path(), name) == 0) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                _ = running => panic!("it ended by itself"),
                () = started => {}
            }
        });
        // It is told to end when the call is dropped; that it has ended is soon so.
        for _ in 0..100 {
            let before = BEATS.map(|name| size(dir.path(), name));
            std::thread::sleep(Duration::from_millis(200));
            if before == BEATS.map(|name| size(dir.path(), name)) {
                break;
            }
        }
        all_have_ended(dir.path(), &backend.to_string());
    }
}

#[test]
fn codes_and_signals_are_told_as_a_shell_tells_them() {
    everywhere(codes_and_signals_are_told_as_a_shell_tells_them_here);
}

fn codes_and_signals_are_told_as_a_shell_tells_them_here() {
    let dir = tempfile::tempdir().unwrap();
    for (backend, toolbox) in toolboxes(dir.path()) {
        for (command, code, end) in [
            ("true", 0, "[exit code 0]"),
            ("false", 1, "[exit code 1]"),
            ("sh -c 'exit 255'", 255, "[exit code 255]"),
            ("sh -c 'kill -TERM $$'", 143, "[signal 15]"),
            ("sh -c 'kill -KILL $$'", 137, "[signal 9]"),
            ("sh -c 'exit 124'", 124, "[exit code 124]"),
            ("false | true", 0, "[exit code 0]"),
            ("true && false", 1, "[exit code 1]"),
        ] {
            let result = call(&toolbox, "shell", json!({"command": command}));
            // A command that ran is a result, whatever it came to.
            assert!(result.ok, "{backend} {command}");
            assert_eq!(
                result.structured.unwrap()["exit_code"],
                code,
                "{backend} {command}"
            );
            assert_eq!(result.content, end, "{backend} {command}");
        }
    }
}

/// Word for word.
#[test]
fn notes_follow_what_failed() {
    everywhere(notes_follow_what_failed_here);
}

fn notes_follow_what_failed_here() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::builder()
        .mount(dir.path(), "/portfolio", Access::ALL)
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap();
    let permission = "Note: This worker's writable paths are: portfolio";
    let nothing = "Note: This worker's writable paths are: none";
    let network = "Note: Network access is disabled for this worker.";
    let nobody = "Note: Network access is disabled for this worker. On 127.0.0.1 and ::1 a command \
                  reaches only what it has started itself.";
    for (said, code, open, writable, notes) in [
        ("x: Permission denied", 1, false, true, &[permission][..]),
        ("x: Permission denied", 1, false, false, &[nothing]),
        ("x: Read-only file system", 2, false, true, &[permission]),
        ("x: Operation not permitted", 1, false, true, &[permission]),
        ("x: Network is unreachable", 1, false, true, &[network]),
        ("Could not resolve host: x", 6, false, true, &[network]),
        (
            "Temporary failure in name resolution",
            1,
            false,
            true,
            &[network],
        ),
        ("Network is unreachable", 1, true, true, &[]),
        ("connect: Connection refused", 1, false, true, &[nobody]),
        ("connect ECONNREFUSED ::1:9", 1, false, true, &[nobody]),
        ("connect: Connection refused", 1, true, true, &[]),
        (
            "Permission denied, Network is unreachable",
            1,
            false,
            true,
            &[permission, network],
        ),
        ("x: Permission denied", 0, false, true, &[]),
        ("all is well", 1, false, true, &[]),
    ] {
        let paths = if writable {
            vec!["portfolio".to_owned()]
        } else {
            Vec::new()
        };
        let toolbox = Toolbox::builder()
            .processes(place::processes(plan.clone()).notes(paths, open))
            .gate(Always(Verdict::Allow))
            .build()
            .unwrap();
        let command = format!("sh -c 'echo \"{said}\" >&2; exit {code}'");
        let facts = call(&toolbox, "shell", json!({"command": command}))
            .structured
            .unwrap();
        let expected = notes
            .iter()
            .fold(said.to_owned(), |text, note| format!("{text}\n\n{note}"));
        let stderr = facts["stderr"].as_str().unwrap();
        // Where nothing is added, nothing is changed.
        let stderr = if notes.is_empty() {
            stderr.trim_end_matches('\n')
        } else {
            stderr
        };
        assert_eq!(stderr, expected);
    }
    // Real refusals say what the notes look for.
    let real = Toolbox::builder()
        .processes(place::processes(plan).notes(vec!["portfolio".to_owned()], false))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap();
    for (command, note) in [
        ("touch /etc/forge-made-this", permission),
        ("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9'", network),
    ] {
        let result = call(&real, "shell", json!({"command": command}));
        assert!(
            result.content.contains(note),
            "{command}: {}",
            result.content
        );
    }
}

#[test]
fn refused_attempts_are_named_after_the_notes() {
    everywhere(refused_attempts_are_named_after_the_notes_here);
}

fn refused_attempts_are_named_after_the_notes_here() {
    let note = "Note: This worker's writable paths are: /portfolio";
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::builder()
        .mount(dir.path(), "/portfolio", Access::ALL)
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap();
    let toolbox = Toolbox::builder()
        .processes(place::processes(plan).notes(vec!["/portfolio".to_owned()], false))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap();
    let outside = "refused: create /etc/made (outside; writable: /portfolio)";
    for (command, refused) in [
        ("touch /etc/made", Some(outside)),
        // The one that the output names, and not the other.
        (
            "sh -c 'mkdir /usr/other 2>&-; touch /etc/made'",
            Some(outside),
        ),
        // Without any output it could be any of them.
        ("sh -c 'touch /etc/made 2>&-'", Some(outside)),
        // About something else.
        (
            "sh -c 'touch /etc/made 2>&-; echo 1 test failed >&2; exit 1'",
            None,
        ),
        // Got over.
        ("sh -c 'touch /etc/made; true'", None),
    ] {
        let result = call(&toolbox, "shell", json!({"command": command}));
        let text = result.content;
        let found = text.lines().filter(|line| line.starts_with("refused: "));
        let found: Vec<&str> = found.collect();
        assert_eq!(found, Vec::from_iter(refused), "{command}: {text}");
        let noted = text.find(note).zip(text.find("refused: "));
        assert!(noted.is_none_or(|(note, line)| note < line), "{text}");
    }
}

/// What a command finds in its working directory is what list_files("/") shows.
#[test]
fn the_working_directory_shows_what_the_file_tools_list() {
    everywhere(the_working_directory_shows_what_the_file_tools_list_here);
}

#[expect(clippy::print_stderr, reason = "what is skipped is said")]
fn the_working_directory_shows_what_the_file_tools_list_here() {
    let world = World::new();
    let policy = Policy::builder()
        .mount(
            world.host.path().join("data"),
            "/data",
            Access::READ | Access::EXECUTE,
        )
        .mount(world.host.path().join("out"), "/out", Access::ALL)
        .build()
        .unwrap();
    let support = Support::detect();
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let Ok(plan) = Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend)
        else {
            eprintln!("skipped: {backend}");
            continue;
        };
        let toolbox = world
            .builder()
            .processes(place::processes(plan))
            .gate(Always(Verdict::Allow))
            .build()
            .unwrap();
        let listed = call(&toolbox, "list_files", json!({"path": "/"}));
        let shown = call(&toolbox, "shell", json!({"command": "ls"}));
        let names = |text: &str| -> Vec<String> {
            text.lines()
                .map(|line| line.trim_end_matches('/').to_owned())
                .collect()
        };
        assert_eq!(names(&listed.content), names(&shown.content), "{backend}");
        if backend == Backend::Namespaces {
            let place = call(&toolbox, "shell", json!({"command": "pwd"}));
            assert_eq!(place.content, "/work\n");
        }
    }
}
