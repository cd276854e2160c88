//! The shell tool over a real, confined process.

use std::path::Path;
use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{CallRequest, Processes, Toolbox, Verdict};
use os_sandbox::{Access, Plan, Policy, Requirement, Support};
use serde_json::json;

use crate::agreed::Reader;
use crate::place::{self, everywhere};
use crate::support::{Always, block_on, call, recorder};

pub(crate) fn processes(dir: &Path) -> Processes {
    let policy = Policy::builder()
        .mount(dir, "/work-dir", Access::READ | Access::WRITE)
        .build()
        .unwrap();
    place::processes(Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap())
        .notes(vec!["/work-dir".into()], false)
        .default_timeout(Duration::from_secs(600))
}

/// Commands and file tools at `/work-dir`, each call asked about.
pub(crate) fn asking_toolbox(dir: &Path, reader: &Reader) -> Toolbox {
    let target = SandboxPath::parse("/work-dir").unwrap();
    let authority = file_sandbox::cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, dir, Mode::ReadWrite, authority).unwrap();
    Toolbox::builder()
        .files(FileSandbox::new(vec![mount]).unwrap())
        .processes(processes(dir))
        .gate(Always(Verdict::Ask))
        .approver(reader.clone())
        .build()
        .unwrap()
}

pub(crate) fn toolbox(dir: &Path) -> Toolbox {
    Toolbox::builder()
        .processes(processes(dir))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap()
}

#[test]
fn results_and_notes() {
    everywhere(results_and_notes_here);
}

fn results_and_notes_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a b"), "text\n").unwrap();
    let toolbox = toolbox(dir.path());
    let mut shown = String::new();
    for command in [
        "cat 'work-dir/a b'",
        "true",
        "sh -c 'echo out; echo err >&2; exit 3'",
        "echo $HOME *",
        "cat 'work-dir/a b' | wc -l",
        "sh -c 'echo \"Permission denied\" >&2; exit 1'",
        "sh -c 'echo \"Permission denied\" >&2'",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9'",
        "no-such-program",
        "sh -c 'kill -9 $$'",
    ] {
        let result = call(&toolbox, "shell", json!({"command": command}));
        let code = result.error.map_or("ok".to_owned(), |error| error.code);
        shown.push_str(&format!("--- {command} -> {code}\n{}\n", result.content));
    }
    insta::assert_snapshot!("results_and_notes", shown);
}

/// The files that a command runs are shown with the question. With more of them than are shown it is
/// not asked.
#[test]
fn every_file_that_is_run_is_shown() {
    everywhere(every_file_that_is_run_is_shown_here);
}

fn every_file_that_is_run_is_shown_here() {
    for (count, is_asked) in [(1, true), (64, true), (65, false), (200, false)] {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..count).map(|n| format!("work-dir/s{n}.sh")).collect();
        for number in 0..count {
            std::fs::write(dir.path().join(format!("s{number}.sh")), "true\n").unwrap();
        }
        let reader = Reader::new(false, |_| {});
        let toolbox = asking_toolbox(dir.path(), &reader);
        let command = format!("sh {}", names.join(" "));
        let result = call(&toolbox, "shell", json!({ "command": command }));
        let shown = reader.shown();
        assert_eq!(result.ok, is_asked, "{count}: {}", result.content);
        assert_eq!(shown.len(), usize::from(is_asked), "{count}: {shown:?}");
        let all = shown
            .iter()
            .all(|text| names.iter().all(|name| text.contains(name.as_str())));
        assert!(all, "{count}: {shown:?}");
    }
}

/// Only a mount layer looks for protected names; without one the plan lists them as not kept.
#[test]
fn a_protected_name_that_was_made_is_taken_away() {
    everywhere(a_protected_name_that_was_made_is_taken_away_here);
}

#[expect(clippy::print_stderr, reason = "what is skipped is said")]
fn a_protected_name_that_was_made_is_taken_away_here() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::builder()
        .mount(dir.path(), "/work-dir", Access::READ | Access::WRITE)
        .protect(".vscode")
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap();
    if plan.backend() != os_sandbox::Backend::Namespaces {
        eprintln!("skipped: no mount layer here");
        return;
    }
    let records = recorder();
    let toolbox = Toolbox::builder()
        .processes(place::processes(plan))
        .gate(Always(Verdict::Allow))
        .shared_recorder(records.clone())
        .build()
        .unwrap();
    let command = "mkdir -p work-dir/new/.vscode";
    let result = call(&toolbox, "shell", json!({"command": command}));
    insta::assert_snapshot!(result.content, @r"
    [exit code 0]
    [not kept: /work-dir/new/.vscode has a protected name, which no command may make]
    ");
    assert_eq!(
        result.structured.unwrap()["quarantined"][0],
        "/work-dir/new/.vscode"
    );
    assert!(!dir.path().join("new/.vscode").exists());
    let recorded = serde_json::to_string(&records.records()).unwrap();
    assert!(recorded.contains(".os-sandbox-quarantine"), "{recorded}");
}

/// The result of a command that its time ends, of which something is to be seen first: a machine that
/// is too slow for a short time is given a longer one.
fn ended_late(
    toolbox: &Toolbox,
    command: &str,
    seen: impl Fn(&forge_tools::CallResult) -> bool,
) -> forge_tools::CallResult {
    let mut results = [1, 10, 100].into_iter().map(|seconds| {
        let arguments = json!({"command": command, "timeout_s": seconds});
        call(toolbox, "shell", arguments)
    });
    let found = results.find(|result| seen(result));
    found.expect("what is to be seen within 100 seconds")
}

#[test]
fn a_time_limit_says_what_was_printed_until_then() {
    everywhere(a_time_limit_says_what_was_printed_until_then_here);
}

fn a_time_limit_says_what_was_printed_until_then_here() {
    let dir = tempfile::tempdir().unwrap();
    let result = ended_late(
        &toolbox(dir.path()),
        "sh -c 'echo first; sleep 600'",
        |result| result.content.contains("first"),
    );
    assert_eq!(result.error.as_ref().unwrap().code, "TIME_LIMIT");
    assert_eq!(result.structured.unwrap()["exit_code"], 124);
}

#[test]
fn a_call_that_nobody_waits_for_ends_its_command_and_is_recorded() {
    everywhere(a_call_that_nobody_waits_for_ends_its_command_and_is_recorded_here);
}

fn a_call_that_nobody_waits_for_ends_its_command_and_is_recorded_here() {
    let dir = tempfile::tempdir().unwrap();
    let beat = dir.path().join("beat");
    let records = recorder();
    let toolbox = Toolbox::builder()
        .processes(processes(dir.path()))
        .gate(Always(Verdict::Allow))
        .shared_recorder(records.clone())
        .build()
        .unwrap();
    let command = "sh -c 'while :; do echo x >> work-dir/beat; sleep 0.05; done'";
    let size = || std::fs::metadata(&beat).map_or(0, |meta| meta.len());
    block_on(async {
        let running = toolbox.call(CallRequest::new("shell", json!({"command": command})));
        let started = async {
            while size() < 4 {
                tokio::task::yield_now().await;
            }
        };
        // Dropping `running` is what a cancelled request does.
        tokio::select! {
            _ = running => panic!("it ended by itself"),
            () = started => {}
        }
    });
    let record = &records.records()[0];
    assert_eq!(record.code.as_deref(), Some("CANCELLED"));
    // Ended once the size stays the same over ten beats.
    let stopped = (0..60).any(|_| {
        let before = size();
        std::thread::sleep(Duration::from_millis(500));
        size() == before
    });
    assert!(stopped);
}

/// The record of a command lists its changes of files, and says which could not be known.
#[test]
fn a_command_leaves_files_that_its_record_names() {
    use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
    let dir = tempfile::tempdir().unwrap();
    for name in ["kept", "edited", "same-size", "gone"] {
        std::fs::write(dir.path().join(name), "text").unwrap();
    }
    let files = || {
        let target = SandboxPath::parse("/work-dir").unwrap();
        let authority = file_sandbox::cap_std::ambient_authority();
        let mount = Mount::open_ambient(target, dir.path(), Mode::ReadWrite, authority).unwrap();
        FileSandbox::new(vec![mount]).unwrap()
    };
    let records = recorder();
    let toolbox = Toolbox::builder()
        .files(files())
        .processes(processes(dir.path()))
        .gate(Always(Verdict::Allow))
        .shared_recorder(records.clone())
        .build()
        .unwrap();
    let script = "cd work-dir; cat kept >/dev/null; echo more >> edited; mkdir -p a/b; \
                  echo new > a/b/c; printf TEXT > same-size; touch -d @0 same-size; rm gone; \
                  echo x > brief; rm brief";
    let command = format!("sh -c '{script}'");
    let result = call(&toolbox, "shell", json!({ "command": command }));
    assert!(result.ok, "{}", result.content);
    let facts: Vec<String> = result
        .artifacts
        .iter()
        .map(|one| {
            let effect = serde_json::to_value(one.effect).unwrap();
            let hash = one.sha256.as_ref().map(String::len);
            format!("{} {effect} {:?} {hash:?}", one.path, one.bytes)
        })
        .collect();
    assert_eq!(
        facts,
        [
            "/work-dir/a/b/c \"created\" Some(4) Some(64)",
            "/work-dir/edited \"updated\" Some(9) Some(64)",
            "/work-dir/gone \"deleted\" None None",
            "/work-dir/same-size \"updated\" Some(4) Some(64)",
        ]
    );
    assert_eq!(records.records()[0].artifacts, result.artifacts);
    // One that its time ended has left what it left.
    let late = "sh -c 'echo x > work-dir/late; sleep 600'";
    let result = ended_late(&toolbox, late, |result| !result.artifacts.is_empty());
    assert_eq!(result.code.unwrap().as_str(), "TIME_LIMIT");
    assert_eq!(result.artifacts[0].path, "/work-dir/late");
    // Too many to be compared.
    for n in 0..5_001 {
        std::fs::write(dir.path().join(format!("a/{n}")), "").unwrap();
    }
    let result = call(
        &toolbox,
        "shell",
        json!({ "command": "touch work-dir/one-more" }),
    );
    assert_eq!(result.artifacts, []);
    let event = serde_json::to_value(&result.events[0]).unwrap();
    assert_eq!(event["event"], "untracked");
}
