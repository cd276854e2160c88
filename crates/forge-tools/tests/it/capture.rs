//! What a command prints: each stream within its own limit, both ends of it, more behind a handle,
//! and never more in memory than that.

use std::path::Path;
use std::time::Duration;

use forge_tools::{CallResult, Toolbox, Verdict};
use os_sandbox::{Access, Limits, Plan, Policy, Requirement, Support};
use serde_json::{Value, json};

use crate::place::{self, everywhere};
use crate::support::{Always, call};

fn toolbox(dir: &Path, stdout_bytes: usize, stderr_bytes: usize) -> Toolbox {
    let limits = Limits {
        stdout_bytes,
        stderr_bytes,
        ..Limits::default()
    };
    let policy = Policy::builder()
        .mount(dir, "/work-dir", Access::READ | Access::WRITE)
        .limits(limits)
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap();
    Toolbox::builder()
        .processes(place::processes(plan).default_timeout(Duration::from_secs(600)))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap()
}

fn run(toolbox: &Toolbox, command: &str) -> CallResult {
    call(toolbox, "shell", json!({"command": command}))
}

/// What a handle gives, read to its end.
fn whole(toolbox: &Toolbox, id: &str) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let args = json!({"output_id": id, "offset": offset, "max_chars": 100_000});
        let page = call(toolbox, "read_output", args);
        assert!(page.ok, "{}", page.content);
        let Some((part, note)) = page.content.rsplit_once("\n[cut here: characters ") else {
            text.push_str(&page.content);
            return text;
        };
        text.push_str(part);
        let next = note.rsplit(' ').next().unwrap().trim_end_matches(']');
        offset = next.parse().unwrap();
    }
}

#[test]
fn both_ends_are_shown_and_the_rest_is_read_by_its_handle() {
    everywhere(both_ends_are_shown_and_the_rest_is_read_by_its_handle_here);
}

fn both_ends_are_shown_and_the_rest_is_read_by_its_handle_here() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path(), 64, 48);
    let result = run(&toolbox, "sh -c 'seq 1000; seq 2000 3000 >&2; exit 3'");
    let facts = result.structured.unwrap();
    let id = facts["output_id"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(result.content.replace(&id, "ID"), @r#"
    1
    2
    3
    4
    5
    6
    7
    8
    9
    10
    11
    12
    13
    [cut here: 3834 bytes in 980 lines are not shown]
    994
    995
    996
    997
    998
    999
    1000
    [stderr]
    2000
    2001
    2002
    2003
    [cut here: 4965 bytes in 993 lines are not shown]
    2997
    2998
    2999
    3000
    [exit code 3]
    [limit: output is cut by limits.max_stdout_kb, limits.max_stderr_kb]
    [read_output with output_id "ID" reads all of it: 8920 characters]
    "#);
    assert_eq!(facts["truncated"], true);
    assert_eq!(facts["stdout_bytes"], 3893);
    assert_eq!(facts["stderr_bytes"], 5005);
    // Text and fields say the same.
    for stream in ["stdout", "stderr"] {
        assert!(result.content.contains(facts[stream].as_str().unwrap()));
    }
    let kept = whole(&toolbox, &id);
    let lines = |from: u32, to: u32| (from..=to).map(|n| format!("{n}\n")).collect::<String>();
    let expected = format!(
        "{}[stderr]\n{}[exit code 3]",
        lines(1, 1000),
        lines(2000, 3000)
    );
    assert_eq!(kept, expected);
}

#[test]
fn each_stream_has_its_own_limit() {
    everywhere(each_stream_has_its_own_limit_here);
}

fn each_stream_has_its_own_limit_here() {
    let dir = tempfile::tempdir().unwrap();
    for (stdout, stderr, cut) in [
        (3893, 5005, [false, false]),
        (3892, 5005, [true, false]),
        (3893, 5004, [false, true]),
    ] {
        let toolbox = toolbox(dir.path(), stdout, stderr);
        let result = run(&toolbox, "sh -c 'seq 1000; seq 2000 3000 >&2'");
        let facts = result.structured.unwrap();
        let note = |stream: &str| facts[stream].as_str().unwrap().contains("[cut here: ");
        assert_eq!([note("stdout"), note("stderr")], cut, "{stdout} {stderr}");
        assert_eq!(facts["truncated"], cut != [false, false]);
        assert_eq!(facts["output_id"] != Value::Null, cut != [false, false]);
    }
}

/// Both streams at their usual limits are more than one result may be: each is cut once, so that its
/// mark is true, and there is one handle.
#[test]
fn a_result_with_two_full_streams_is_cut_once() {
    everywhere(a_result_with_two_full_streams_is_cut_once_here);
}

fn a_result_with_two_full_streams_is_cut_once_here() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path(), 256 << 10, 64 << 10);
    let result = run(&toolbox, "sh -c 'seq 100000; seq 100000 >&2'");
    let facts = result.structured.unwrap();
    let id = facts["output_id"].as_str().unwrap();
    assert_eq!(result.cut, None);
    let shown = |stream: &str| facts[stream].as_str().unwrap();
    for stream in ["stdout", "stderr"] {
        let (head, rest) = shown(stream).split_once("[cut here: ").unwrap();
        let (mark, tail) = rest.split_once("]\n").unwrap();
        let missing: usize = mark.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(
            head.len() + missing + tail.len(),
            588_895,
            "{stream}: {mark}"
        );
    }
    assert!(result.content.chars().count() <= 256 << 10);
    assert!(result.content.matches("output_id \"").count() >= 1);
    assert_eq!(
        result.content.matches("output_id \"").count(),
        result.content.matches(id).count()
    );
    assert_eq!(whole(&toolbox, id).matches("99999\n").count(), 2);
}

/// Far more than is kept, on both streams at once: what is kept is bounded, and the end is the end.
#[test]
fn a_flood_is_bounded() {
    everywhere(a_flood_is_bounded_here);
}

fn a_flood_is_bounded_here() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path(), 1000, 1000);
    let command = "sh -c '(yes out | head -c 24000000; echo last) & \
                   (yes err | head -c 24000000; echo last) >&2; wait'";
    let args = json!({"command": command, "timeout_s": 300});
    let result = call(&toolbox, "shell", args);
    let facts = result.structured.unwrap();
    for stream in ["stdout", "stderr"] {
        assert_eq!(facts[format!("{stream}_bytes")], 24_000_005, "{stream}");
        let shown = facts[stream].as_str().unwrap();
        assert!(shown.len() < 1200 && shown.ends_with("last\n"), "{shown}");
    }
    assert!(result.content.len() < 3000, "{}", result.content.len());
    let kept = whole(&toolbox, facts["output_id"].as_str().unwrap());
    assert!(kept.len() < (8 << 20) + 1000, "{}", kept.len());
    assert!(kept.len() > 7 << 20, "{}", kept.len());
}

/// A program that never stops is ended by its time, and what it said until then is bounded, too.
#[test]
fn a_flood_without_an_end_is_bounded() {
    everywhere(a_flood_without_an_end_is_bounded_here);
}

fn a_flood_without_an_end_is_bounded_here() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path(), 1000, 1000);
    let args = json!({"command": "yes", "timeout_s": 1});
    let result = call(&toolbox, "shell", args);
    assert_eq!(result.error.unwrap().code, "TIME_LIMIT");
    assert!(result.content.len() < 3000, "{}", result.content.len());
}

#[test]
fn characters_and_secrets_are_whole_or_not_there() {
    everywhere(characters_and_secrets_are_whole_or_not_there_here);
}

fn characters_and_secrets_are_whole_or_not_there_here() {
    let dir = tempfile::tempdir().unwrap();
    let key = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    for limit in 40..80 {
        let toolbox = toolbox(dir.path(), limit, 1000);
        let line = format!("{}{key}{}", "ä€😀".repeat(20), "ä€😀".repeat(20));
        let result = run(
            &toolbox,
            &format!("sh -c 'printf %s {line}; printf \"\\377\"'"),
        );
        let facts = result.structured.unwrap();
        let shown = facts["stdout"].as_str().unwrap();
        assert!(shown.contains("[cut here: "), "{shown}");
        let id = facts["output_id"].as_str().unwrap();
        for text in [shown, &result.content, &whole(&toolbox, id)] {
            assert!(!text.contains("ghp_"), "{text}");
            // The one byte that is no text, and no half of a character.
            assert_eq!(text.matches('\u{fffd}').count(), 1, "{limit}: {text}");
        }
    }
}
