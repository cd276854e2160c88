//! `durable`, on a disk that takes nothing: a change or a decision that is not on the disk is not
//! answered as done. Without the key small things are left to the kernel.

use crate::support::{Ran, World};

/// A tool, its arguments, and what lies there afterwards if it was not kept from it.
const CHANGES: [(&str, &str); 7] = [
    ("write_file", r#"{"path":"/d/one","content":"new"}"#),
    ("write_file", r#"{"path":"/d/a/b/new","content":"new"}"#),
    ("append_file", r#"{"path":"/d/one","content":"more"}"#),
    (
        "edit_file",
        r#"{"path":"/d/one","old_text":"one","new_text":"two"}"#,
    ),
    ("move_file", r#"{"from":"/d/one","to":"/d/c/two"}"#),
    ("delete_file", r#"{"path":"/d/one"}"#),
    ("create_directory", r#"{"path":"/d/x/y"}"#),
];

fn world(durable: &str) -> World {
    let file = format!(
        "sandbox: {{ mode: direct{durable}, zones: {{ d: {{ path: ./d, approval: {{ write: preApproved }} }} }} }}\n"
    );
    World::new(&[("forge.yaml", &file), ("d/one", "one\n")])
}

#[test]
fn a_change_that_is_not_on_the_disk_is_not_done() {
    for (tool, arguments) in CHANGES {
        let call = ["tools", "call", "--yes", tool, arguments];
        let plain = world("").forge_without(&["fsync"], &call);
        plain.code(0);
        let durable = world(", durable: true").forge_without(&["fsync"], &call);
        durable.code(1).says(&["Input/output error"]);
        world(", durable: true").forge(&call).code(0);
    }
}

#[test]
fn a_call_whose_decision_is_not_on_the_disk_is_not_made() {
    let call = [
        "tools",
        "call",
        "--yes",
        "write_file",
        r#"{"path":"/d/new","content":"new"}"#,
    ];
    for (durable, made) in [("", true), (", durable: true", false)] {
        let world = world(durable);
        let ran = without_fdatasync(&world, &call);
        assert_eq!(ran.code == 0, made, "{durable}: {}", ran.stderr);
        assert_eq!(world.project().join("d/new").exists(), made, "{durable}");
    }
}

/// Runs forge on a disk that takes no log. On a busy machine a short command takes a second now and
/// then, and its log waits for the disk: it is tried again.
fn without_fdatasync(world: &World, words: &[&str]) -> Ran {
    let mut ran = world.forge_without(&["fdatasync"], words);
    for _ in 0..4 {
        if ran.code == 0 {
            break;
        }
        ran = world.forge_without(&["fdatasync"], words);
    }
    ran
}

/// A log that is older than a second when it ends waits for the disk.
#[test]
fn the_log_of_a_short_command_is_left_to_the_kernel() {
    // Before the command: 125; after it: 1.
    for (durable, seconds, code) in [("", "0", 0), ("", "1.1", 1), (", durable: true", "0", 125)] {
        let world = world(durable);
        let command = ["exec", "--", "sleep", seconds];
        let ran = without_fdatasync(&world, &command);
        ran.code(code);
        if code == 0 {
            world.forge(&["log", "verify", "last"]).code(0);
        } else {
            ran.says(&["Input/output error"]);
        }
    }
}

#[test]
fn a_review_waits_for_the_disk_if_it_has_changes() {
    for (command, is_kept) in [("true", true), ("touch made", false)] {
        let world = World::new(&[("a.txt", "a")]);
        let words = ["exec", "--review", "--", "sh", "-c", command];
        let ran = world.forge_without(&["fsync"], &words);
        assert_eq!(ran.code == 0, is_kept, "{command}: {}", ran.stderr);
    }
}
