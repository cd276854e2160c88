//! Names and texts of other people on their way to a terminal, a log of CI, and JSON.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{World, forge_program, ran};

const FILE: &str = "golem-forge.config.yaml";

/// Ends the line, repaints the screen, and is a command to GitHub Actions.
const HOSTILE: &str = "a\u{1b}[2J\r\n::error::b\n ##[error]c";

/// A worker and a project that put it wherever a text may come from.
fn world() -> (World, std::path::PathBuf) {
    let text = serde_json::to_string(HOSTILE).unwrap();
    let world = World::new(&[]);
    let project = world
        .outside()
        .join(format!("p{}", HOSTILE.replace('/', "")));
    for dir in ["workers", HOSTILE] {
        std::fs::create_dir_all(project.join(dir)).unwrap();
    }
    let files = [
        (
            FILE.to_owned(),
            format!("sandbox: {{ mode: direct, zones: {{ ws: {{ path: {text} }} }} }}\n"),
        ),
        (
            format!("workers/{HOSTILE}.worker"),
            format!(
                "---\nname: main\ndescription: {text}\nmodel: {text}\nworkers: [gone]\n---\nGo.\n"
            ),
        ),
    ];
    for (name, text) in files {
        std::fs::write(project.join(name), text).unwrap();
    }
    (world, project)
}

/// JSON means the same with and without these written out, and a terminal obeys them.
#[test]
fn no_json_has_what_a_terminal_obeys() {
    const NAME: &str = "a\u{9b}2J\u{202e}b\u{200b}";
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let touch = format!("mkdir -p '{NAME}/.vscode'; echo '{NAME}'");
    let exec = ["--json", "exec", "--", "sh", "-c", &touch];
    let path = format!("/{NAME}");
    for (args, is_shown) in [
        (&exec[..], true),
        (&["--json", "log", "list"], true),
        (&["--json", "log", "show", "last"], true),
        (&["log", "export", "last", "--format", "otel"], true),
        (&["--json", "log", "verify", "last"], false),
        (&["--json", "quarantine", "list"], true),
        (&["--json", "explain", &path], true),
        (&["--json", "explain", "--", "echo", NAME], true),
        (&["--json", "tools", "call", "list_files", "{}"], true),
        (&["--json", "explain", "--from-run", "last"], false),
        (&["--json", "allow", "--last"], false),
        (&["--json", "preset", "home"], false),
        (&["--timeout", NAME, "check"], false),
        (&[NAME], false),
        (&["log", NAME], false),
    ] {
        let ran = world.forge(args);
        for text in [&ran.stdout, &ran.stderr] {
            let is_raw = |c: char| c.is_control() && c != '\n' || NAME.contains(c) && !c.is_ascii();
            assert!(!text.contains(is_raw), "{args:?}: {text:?}");
        }
        assert_eq!(
            ran.stdout.contains("202e"),
            is_shown,
            "{args:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn no_text_of_a_project_repaints_or_commands() {
    let (world, project) = world();
    for (args, holds) in [
        (&["worker", "list"][..], "\\x1b[2J"),
        (&["worker", "show", "main", "--tree"], "\\x1b[2J"),
        (&["check"], "\\x1b[2J"),
        (&["check", "--format", "github"], ""),
        (&["config", "path"], "\\x1b[2J"),
        (&["config", "show"], "sandbox"),
        (&["explain", "/ws/a"], ""),
        (&["clean"], ""),
        (&["trust", "--show"], ""),
        (&["worker", "new", "other"], ""),
        (&["worker", "new", "other"], ""),
    ] {
        let mut command = world.command(forge_program(), args);
        let ran = ran(command.current_dir(&project).output().unwrap());
        assert!(ran.stdout.contains(holds), "{args:?}: {}", ran.stdout);
        for text in [&ran.stdout, &ran.stderr] {
            let hidden = |c: char| c.is_control() && c != '\n';
            assert!(!text.contains(hidden), "{args:?}: {text:?}");
            let is_command = |line: &str| {
                let line = line.trim_start();
                let own = line.starts_with("::error file=") || line.starts_with("::warning file=");
                // What `config show` prints is a project file, in which a text means itself.
                let is_yaml = args == ["config", "show"];
                (line.starts_with("::") && !own) || (line.contains("##[") && !is_yaml)
            };
            assert!(!text.lines().any(is_command), "{args:?}: {text}");
        }
    }
}

/// Linux takes any bytes as a name; others refuse it, and there is nothing to see.
#[test]
fn a_directory_need_not_be_text() {
    let world = World::new(&[]);
    let project = world.outside().join(OsStr::from_bytes(b"p\xff\xfe"));
    if let Err(error) = std::fs::create_dir_all(project.join("workers")) {
        eprintln!("skipped: no such name here: {error}");
        return;
    }
    std::fs::create_dir_all(project.join(".sandbox/ws")).unwrap();
    std::fs::write(
        project.join(FILE),
        "sandbox: { zones: { ws: { path: ws } } }\n",
    )
    .unwrap();
    std::fs::write(
        project.join("workers/main.worker"),
        "---\nname: main\ndescription: d\n---\nGo.\n",
    )
    .unwrap();
    for args in [
        &["check"][..],
        &["worker", "list"],
        &["worker", "show", "main", "--tree"],
        &["worker", "new", "other"],
        &["clean", "--dry-run"],
        &["clean"],
        &["config", "show"],
        &["config", "path"],
        &["explain", "/ws/a"],
        &["doctor"],
        &["trust", "--show"],
    ] {
        for json in [true, false] {
            let mut command = world.command(forge_program(), args);
            if json {
                command.arg("--json");
            }
            command.current_dir(&project).stdin(Stdio::null());
            let ran = ran(command.output().unwrap());
            let taken = args.contains(&"new") && !json;
            assert_eq!(ran.code, i32::from(taken), "{args:?}: {}", ran.stderr);
            if json && !args.contains(&"trust") {
                let object: Value = serde_json::from_str(&ran.stdout).unwrap();
                assert!(object.is_object(), "{args:?}");
            }
        }
    }
}
