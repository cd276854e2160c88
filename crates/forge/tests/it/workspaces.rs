//! The directory that each run has of its own, what is noted of the files that calls leave, and
//! what a run comes to.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::World;

const CONFIG: &str = "\
sandbox:
  mode: direct
  zones:
    workspace: { path: run:workspace, approval: { write: preApproved } }
    data: { path: ./data, approval: { write: ask } }
model: scripted:playbook.yaml
knowledge_base: ./docs
limits: { max_turns: 3 }
";

const PLAYBOOK: &str = "
version: 1
workers:
  main:
    - calls:
        - { tool: append_file, args: { path: /workspace/log, content: one }, as: first }
    - calls:
        - { tool: append_file, args: { path: /workspace/log, content: two }, as: second }
        - { tool: write_file, args: { path: /data/x, content: x }, as: asked }
    - calls: [{ tool: copy_file, args: { from: /workspace/log, to: /workspace/kept }, as: copied }]
    - calls: [{ tool: read_file, args: { path: /workspace/kept }, as: read }]
    - say: \"{{ results.read.content }}\"
";

fn world() -> World {
    World::new(&[
        ("golem-forge.config.yaml", CONFIG),
        ("playbook.yaml", PLAYBOOK),
        ("docs/a.md", "known"),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
    ])
}

impl World {
    fn runs(&self) -> Vec<PathBuf> {
        let runs = std::fs::read_dir(self.outside().join("state/runs")).unwrap();
        let mut runs: Vec<PathBuf> = runs.map(|run| run.unwrap().path()).collect();
        runs.sort();
        runs
    }
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_run_has_a_workspace_of_its_own_and_goes_on_in_it() {
    let world = world();
    for _ in 0..2 {
        world.forge(&["run", "main", "do it"]).code(5);
    }
    let runs = world.runs();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        // What one wrote the other one did not see.
        let kept = std::fs::read_to_string(run.join("workspace/kept")).unwrap();
        assert_eq!(kept, "onetwo", "{}", run.display());
    }
    let first = runs[0].file_name().unwrap().to_str().unwrap();
    std::fs::write(runs[0].join("workspace/kept"), "still there").unwrap();
    let more = [
        "-c",
        "limits.max_turns=9",
        "run",
        "--resume",
        first,
        "--accept-changes",
    ];
    assert_eq!(world.forge(&more).code(0).stdout, "still there\n");
    // Nothing of it is in the project, and nothing is emptied with the project's own zones.
    assert!(!world.project().join("workspace").exists());
    // A link in its place is not followed.
    let elsewhere = world.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let second = runs[1].file_name().unwrap().to_str().unwrap();
    std::fs::remove_dir_all(runs[1].join("workspace")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, runs[1].join("workspace")).unwrap();
    let more = [
        "-c",
        "limits.max_turns=9",
        "run",
        "--resume",
        second,
        "--accept-changes",
    ];
    world.forge(&more).code(1).says(&["not a directory"]);
}

#[test]
fn who_is_no_run_is_shown_that_there_will_be_one() {
    let world = world();
    world.forge(&["check"]).code(0);
    let shown = world.forge(&["run", "main", "--dry-run"]);
    assert!(
        shown.code(0).stdout.contains("(made for each run)"),
        "{}",
        shown.stdout
    );
    let config = object(&world.forge(&["config", "show", "--json"]).code(0).stdout);
    assert_eq!(config["mounts"][0]["host"], Value::Null);
    let tools = world.forge(&["tools", "list"]);
    assert!(tools.code(0).stdout.contains("write_file"));
    assert!(!world.outside().join("state/runs").exists());
    let write = r#"{"path": "/workspace/a", "content": "x"}"#;
    world.forge(&["tools", "call", "write_file", write]).code(0);
    let run = world.runs().remove(0);
    assert_eq!(std::fs::read(run.join("workspace/a")).unwrap(), b"x");
    // A directory of that name is spelled as one.
    world.write("run:workspace/here", "x");
    world.write(
        "golem-forge.config.yaml",
        "sandbox: { mode: direct, zones: { z: { path: ./run:workspace } } }\n",
    );
    let list = ["tools", "call", "list_files", r#"{"path": "/z"}"#];
    assert_eq!(world.forge(&list).code(0).stdout.trim(), "here");
    // Two names for it would be two sets of rights.
    world.write(
        "golem-forge.config.yaml",
        "sandbox: { zones: { a: { path: run:workspace }, b: { path: run:workspace, mode: ro } } }\n",
    );
    world
        .forge(&["check"])
        .code(2)
        .says(&["are the same directory"]);
}

/// The requested action, the runner chosen, permission decisions, policy events.
#[test]
fn a_run_says_what_it_came_to() {
    let world = world();
    world.forge(&["run", "main", "do it"]).code(5);
    let run = world.runs().remove(0);
    let end = object(&std::fs::read_to_string(run.join("run.json")).unwrap());
    let summary = &end["summary"];
    assert_eq!(
        summary["requested"],
        json!({ "calls": 4, "tools": { "append_file": 2, "copy_file": 1, "write_file": 1 } })
    );
    assert_eq!(
        summary["runners"]["chosen"],
        json!({ "local": 3, "none": 1 })
    );
    let why = summary["runners"]["why"].as_object().unwrap();
    assert_eq!(
        why["local: risk `writes_workspace` under `execution.mode: prefer_local`"],
        json!(4)
    );
    assert_eq!(
        summary["decisions"]["verdicts"],
        json!({ "allow": 3, "ask": 1 })
    );
    assert_eq!(summary["events"][0]["event"], "denied");
    assert_eq!(summary["events"][0]["tool"], "write_file");
    let effects: Vec<(&str, &str, &str)> = summary["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let word = |name: &str| one[name].as_str().unwrap();
            assert_eq!(one["worker"], "main");
            assert!(one["call"].is_u64());
            (word("tool"), word("effect"), word("path"))
        })
        .collect();
    assert_eq!(
        effects,
        [
            ("append_file", "created", "/workspace/log"),
            ("append_file", "updated", "/workspace/log"),
            ("copy_file", "created", "/workspace/kept"),
        ]
    );
    assert_eq!(summary["metrics"]["failed"], 1);
    let shown = object(
        &world
            .forge(&["log", "show", "last", "--json"])
            .code(0)
            .stdout,
    );
    assert_eq!(shown["summary"], *summary);
    let shown = world.forge(&["log", "show", "last"]);
    let text = &shown.code(0).stdout;
    assert!(
        text.contains("file      created /workspace/kept  6 bytes  by copy_file of main"),
        "{text}"
    );
    // A run that was killed has no run.json, and is counted all the same.
    std::fs::remove_file(run.join("run.json")).unwrap();
    let shown = object(
        &world
            .forge(&["log", "show", "last", "--json"])
            .code(0)
            .stdout,
    );
    assert_eq!(shown["summary"], *summary);
}

/// Whatever is tried, and by whomever.
#[test]
fn no_tool_writes_to_the_knowledge_base() {
    let world = world();
    world.write("data/b", "mine");
    for (tool, args) in [
        ("write_file", json!({ "path": "/kb/a.md", "content": "x" })),
        ("append_file", json!({ "path": "/kb/a.md", "content": "x" })),
        (
            "edit_file",
            json!({ "path": "/kb/a.md", "old_text": "known", "new_text": "x" }),
        ),
        ("delete_file", json!({ "path": "/kb/a.md" })),
        ("move_file", json!({ "from": "/kb/a.md", "to": "/data/a" })),
        ("move_file", json!({ "from": "/data/b", "to": "/kb/b" })),
        ("copy_file", json!({ "from": "/data/b", "to": "/kb/b" })),
        ("create_dir", json!({ "path": "/kb/dir" })),
    ] {
        let args = args.to_string();
        let ran = world.forge(&["tools", "call", tool, &args, "--yes"]);
        assert!(ran.stderr.contains("read-only"), "{tool}: {}", ran.stderr);
        assert_eq!(ran.code, 1, "{tool}");
    }
    let left: Vec<_> = std::fs::read_dir(world.project().join("docs"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1);
    assert_eq!(
        std::fs::read(world.project().join("docs/a.md")).unwrap(),
        b"known"
    );
    let read = ["tools", "call", "read_file", r#"{"path": "/kb/a.md"}"#];
    assert_eq!(world.forge(&read).code(0).stdout.trim(), "known");
}
