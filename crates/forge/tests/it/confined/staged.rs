//! `mode: staged`: changes of one directory wait for a review, those of others are made at once.

use std::fs;

use serde_json::Value;

use super::reviewed::has_overlays;
use crate::support::{Ran, World};

const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    src: { path: ./src, mode: staged, approval: { write: preApproved, delete: preApproved } }
    out: { path: ./out, mode: rw, approval: { write: preApproved } }
shell: { rules: [{ pattern: '*', approval: preApproved }] }
";

/// A write by a file tool, one by a command, and one by a called worker, in both directories.
const CHANGES: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: write_file, args: { path: /src/a.txt, content: "tool\n" } }
        - { tool: write_file, args: { path: /out/tool.txt, content: "tool\n" } }
    - calls:
        - tool: shell
          args: { command: "sh -c 'cat src/a.txt; echo > src/command.txt; echo > out/command.txt'" }
          as: shell
    - calls: [{ tool: child, args: { input: go }, as: child }]
    - say: "{{ results.shell.content }}{{ results.child.content }}"
  child:
    - calls:
        - { tool: write_file, args: { path: /src/child.txt, content: "child\n" } }
        - { tool: write_file, args: { path: /out/child.txt, content: "child\n" } }
    - say: done
"#;

fn world() -> World {
    let zones = "sandbox:\n  zones: [{ name: src }, { name: out }]\nshell: {}\n";
    let worker = |more: &str| format!("---\ndescription: x\n{more}{zones}---\nGo.\n");
    let world = World::new(&[("forge.yaml", PROJECT)]);
    for (name, text) in [
        ("src/a.txt", "old\n"),
        ("out/b.txt", "old\n"),
        ("workers/main.worker", &worker("workers: [child]\n")),
        ("workers/child.worker", &worker("")),
    ] {
        world.write(name, text);
    }
    fs::write(world.outside().join("play.yaml"), CHANGES).unwrap();
    world
}

fn names(world: &World, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(world.project().join(dir)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn unchanged(world: &World) {
    assert_eq!(names(world, "src"), ["a.txt"]);
    let text = fs::read_to_string(world.project().join("src/a.txt")).unwrap();
    assert_eq!(text, "old\n");
}

#[test]
fn changes_of_a_command_wait_where_they_are_staged() {
    if !has_overlays() {
        return;
    }
    for layer in [None, Some("--review=copy")] {
        let world = world();
        let script = "echo new > src/a.txt; echo > src/made.txt; echo > out/made.txt";
        let mut args = vec!["exec"];
        args.extend(layer);
        args.extend(["--", "sh", "-c", script]);
        let ran = world.forge(&args);
        ran.code(0)
            .says(&["src", "a.txt", "made.txt", "forge review apply"]);
        unchanged(&world);
        let at_once = layer.is_none();
        assert_eq!(
            names(&world, "out").contains(&"made.txt".to_owned()),
            at_once
        );
        world.forge(&["review", "apply"]).code(0);
        assert_eq!(names(&world, "src"), ["a.txt", "made.txt"]);
        assert_eq!(names(&world, "out"), ["b.txt", "made.txt"]);
    }
}

#[test]
fn changes_of_a_run_wait_where_they_are_staged() {
    let world = world();
    let model = format!("scripted:{}", world.outside().join("play.yaml").display());
    let run = ["--trust", "run", "--yes", "--model", &model, "main", "go"];
    let ran = world.forge(&run);
    ran.code(0).says(&["review:", "src/a.txt", "child.txt"]);
    // The worker sees its own changes.
    assert!(ran.stdout.starts_with("tool\n"), "{}", ran.stdout);
    unchanged(&world);
    let made = ["b.txt", "child.txt", "command.txt", "tool.txt"];
    assert_eq!(names(&world, "out"), made);
    world.forge(&["review", "apply"]).code(0);
    assert_eq!(names(&world, "src"), ["a.txt", "child.txt", "command.txt"]);
}

/// Nothing is changed by a program that keeps no changes for a review.
#[test]
fn elsewhere_a_staged_directory_is_read_only() {
    let world = world();
    let call = |tool: &str, args: &str| -> Ran {
        world.forge(&[
            "--trust", "tools", "call", tool, args, "--worker", "main", "--yes",
        ])
    };
    call("read_file", r#"{"path":"/src/a.txt"}"#).code(0);
    let refused = [
        ("write_file", r#"{"path":"/src/x","content":"x"}"#),
        ("append_file", r#"{"path":"/src/a.txt","content":"x"}"#),
        (
            "edit_file",
            r#"{"path":"/src/a.txt","old_text":"old","new_text":"x"}"#,
        ),
        ("delete_file", r#"{"path":"/src/a.txt"}"#),
        ("move_file", r#"{"from":"/src/a.txt","to":"/out/x"}"#),
        ("copy_file", r#"{"from":"/out/b.txt","to":"/src/x"}"#),
        ("create_dir", r#"{"path":"/src/x"}"#),
    ];
    for (tool, args) in refused {
        let ran = call(tool, args);
        assert_ne!(ran.code, 0, "{tool}: {ran:?}");
        ran.says(&["/src is `mode: staged`, so it is read-only here"]);
        unchanged(&world);
    }
    call("shell", r#"{"command":"sh -c 'echo > src/x'"}"#);
    unchanged(&world);
}

#[test]
fn plans_and_answers_name_it() {
    let world = world();
    let plan = world.forge(&["--trust", "run", "--dry-run", "main", "go"]);
    plan.code(0);
    for text in ["staged", "review: changes in /src are made in a copy"] {
        assert!(plan.stdout.contains(text), "{text}: {}", plan.stdout);
    }
    let plan = world.forge(&["--trust", "--json", "run", "--dry-run", "main", "go"]);
    let plan: Value = serde_json::from_str(&plan.code(0).stdout).unwrap();
    assert_eq!(
        plan["plan"][0]["reviews_changes_in"],
        serde_json::json!(["/src"])
    );
    let question = [
        "--trust",
        "explain",
        "-v",
        "--as",
        "main",
        "/src/a.txt",
        "--write",
    ];
    let answer = world.forge(&question);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert!(
        said.contains("`mode: staged` keeps changes for a review"),
        "{said}"
    );
}

/// The changes of a part that can be written of a directory that cannot wait as well.
#[test]
fn changes_of_a_writable_part_wait() {
    if !has_overlays() {
        return;
    }
    const PARTS: [&str; 2] = [
        "sandbox:\n  mounts:\n    - { source: ., target: /, readonly: true }\n    - { source: ./out, target: /out }\n",
        "sandbox: { read_paths: [.], write_paths: [./out] }\n",
    ];
    for settings in PARTS {
        for layer in ["--review", "--review=copy"] {
            let world = World::new(&[("forge.yaml", settings)]);
            world.write("out/b.txt", "old\n");
            let script = "cat out/b.txt; echo new > out/b.txt; echo > out/x; cat out/b.txt";
            let ran = world.forge(&["--trust", "exec", layer, "--", "sh", "-c", script]);
            assert_eq!(
                names(&world, "out"),
                ["b.txt"],
                "{settings} {layer}: {}",
                ran.stderr
            );
            if layer == "--review" {
                // No overlay is mounted in another mount.
                ran.code(125).says(&["--review=copy"]);
                continue;
            }
            ran.code(0)
                .says(&["b.txt", "1 added", "forge review apply"]);
            assert_eq!(ran.stdout, "old\nnew\n");
            world.forge(&["review", "apply"]).code(0);
            assert_eq!(names(&world, "out"), ["b.txt", "x"]);
        }
    }
}

/// A directory around a reviewed one that can be written at once would pass the review by.
#[test]
fn no_directory_around_a_reviewed_one_is_written_at_once() {
    if !has_overlays() {
        return;
    }
    const ROOT: &str = "sandbox: { root: . }\n";
    let rows: [(&str, &[&str]); 5] = [
        (PROJECT, &["--review=copy"]),
        (PROJECT, &[]),
        (ROOT, &["--review"]),
        (ROOT, &["--review=copy"]),
        ("sandbox: { root: ., review: true }\n", &[]),
    ];
    for (settings, flags) in rows {
        let world = world();
        let home = world.outside().join("home");
        let project = home.join("around/project");
        for dir in [project.join("src"), home.join(".config/forge/presets")] {
            fs::create_dir_all(dir).unwrap();
        }
        let preset = "preset: mine\nabout: x\nstate: [{ path: ~/around, mode: share }]\n";
        for (path, text) in [
            (home.join(".config/forge/presets/mine.yaml"), preset),
            (project.join("forge.yaml"), settings),
        ] {
            fs::write(path, text).unwrap();
        }
        let exec = ["--trust", "exec", "--preset", "mine", "--share"];
        let script = ["--", "sh", "-c", "echo > src/x"];
        let ran = world.forge_in(&project, &[&exec[..], flags, &script].concat());
        let left = fs::read_dir(project.join("src")).unwrap().count();
        assert_eq!(left, 0, "{settings} {flags:?}: {}", ran.stderr);
        ran.code(125)
            .says(&["changes cannot be kept for a review here", "mount at"]);
    }
}
