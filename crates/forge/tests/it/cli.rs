//! Exit codes, standard output, and what is said about mistakes.

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

#[test]
fn a_missing_file_names_its_neighbours_and_exits_1() {
    let world = World::new(&[]);
    // No project file: the default directories are made.
    world
        .forge(&[
            "tools",
            "call",
            "write_file",
            r#"{"path":"/workspace/notes.md","content":"x"}"#,
            "--yes",
        ])
        .code(0);
    let ran = world.forge(&[
        "tools",
        "call",
        "read_file",
        r#"{"path":"/workspace/note.md"}"#,
    ]);
    ran.code(1);
    assert_eq!(ran.stdout, "");
    insta::assert_snapshot!(ran.stderr, @r"
    File not found: /workspace/note.md
    Nearest existing names: /workspace/notes.md
    ");
}

#[test]
fn what_widens_and_was_not_agreed_to_asks() {
    let world = World::new(&[(FILE, PROJECT)]);
    let call = ["tools", "call", "shell", r#"{"command":"echo hello"}"#];
    world.forge(&call).code(3).says(&[
        "warning[config.untrusted]",
        "golem-forge.config.yaml:10:",
        "nobody has agreed",
    ]);
}

#[test]
fn a_refusal_as_json_is_one_object() {
    let world = World::new(&[(FILE, PROJECT)]);
    let ran = world.forge(&["tools", "call", "shell", r#"{"command":"rm x"}"#, "--json"]);
    ran.code(1);
    let mut object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        object["decision"]["reasons"][0]["origin"],
        "golem-forge.config.yaml:12:18"
    );
    object["decision"] = "checked above".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&object).unwrap(), @r#"
    {
      "ok": false,
      "tool": "shell",
      "content": "shell is blocked here: `rm` matches the rule `rm *`.\nUse delete_file. Asking again does not change it.",
      "structured": null,
      "runner": "none",
      "decision": "checked above",
      "error": {
        "code": "BLOCKED",
        "message": "shell is blocked here: `rm` matches the rule `rm *`.",
        "hint": "Use delete_file. Asking again does not change it."
      }
    }
    "#);
}

#[test]
fn a_mistake_in_the_project_file_stops_everything() {
    let world = World::new(&[(FILE, &PROJECT.replace("zones:", "zonse:"))]);
    let enforceable = world.forge(&["doctor"]).code == 0;
    let code = if enforceable { 0 } else { 6 };
    world.forge(&["doctor", "--prove"]).code(code);
    let left = std::fs::read_dir(world.project()).unwrap();
    assert_eq!(left.count(), 1, "something was left in the directory");
}
