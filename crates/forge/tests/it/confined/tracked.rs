//! A hidden name is shown where git tracks the file with the content that it has, and only there:
//! an index that another program writes shows nothing.

use super::exec::mechanisms;
use crate::support::World;

/// Commands of a person in a repository with `.env`, and whether the file is shown afterwards.
const ROWS: &[(&str, bool)] = &[
    ("git add .env", true),
    ("git add .env && git commit -qm env", true),
    ("git update-index --add --index-version 4 .env", true),
    (
        "git add .env && git update-index --skip-worktree .env",
        true,
    ),
    ("chmod +x .env && git add .env", true),
    // Not tracked.
    ("git add other", false),
    ("git add .env && git rm -q --cached .env", false),
    ("git add -N .env", false),
    ("git hash-object -w .env", false),
    // Tracked with another content: what is there now is in no object.
    ("git add .env && echo TOKEN=2 >> .env", false),
    (
        "git add .env && git update-index --assume-unchanged .env && echo TOKEN=2 >> .env",
        false,
    ),
    (
        "git update-index --add --cacheinfo 100644,$(git hash-object -w other),.env",
        false,
    ),
    (
        "git update-index --add --cacheinfo 100644,$(git hash-object .env),other",
        false,
    ),
    (
        "git update-index --add --cacheinfo 120000,$(git hash-object .env),.env",
        false,
    ),
    (
        "git config filter.x.clean 'tr T U' && echo '.env filter=x' > .gitattributes && git add .env",
        false,
    ),
    // Forms that are not read.
    ("git add .env && git update-index --split-index", false),
    ("git add .env && printf x >> .git/index", false),
    (
        "git add .env && mv .git/index .git/other && ln -s other .git/index",
        false,
    ),
    // Another repository.
    (
        "git add .env && mv .git elsewhere && echo 'gitdir: elsewhere' > .git",
        false,
    ),
];

fn world(file: &str) -> World {
    let world = World::new(&[
        ("forge.yaml", file),
        (".env", "TOKEN=1\n"),
        ("other", "other\n"),
    ]);
    world.shell("git init -q .");
    world
}

/// The answers of file tools and of commands.
fn assert_shown(world: &World, mechanisms: &[&str], shown: bool, what: &str) {
    let ran = world.forge(&["tools", "call", "read_file", r#"{"path": "/.env"}"#]);
    assert_eq!(
        ran.stdout.contains("TOKEN="),
        shown,
        "{what}: {}",
        ran.stdout
    );
    let ran = world.forge(&["tools", "call", "search_files", r#"{"pattern": "TOKEN="}"#]);
    assert_eq!(ran.stdout.contains(".env"), shown, "{what}: {}", ran.stdout);
    let ran = world.forge(&["tools", "call", "list_files", r#"{"path": "/"}"#]);
    assert_eq!(ran.stdout.contains(".env"), shown, "{what}: {}", ran.stdout);
    for mechanism in mechanisms {
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "cat", ".env"]);
        // Without mounts nothing can be hidden, which the plan says.
        let shown = shown || *mechanism == "landlock";
        assert_eq!(
            ran.stdout.contains("TOKEN="),
            shown,
            "{what} {mechanism}: {}",
            ran.stderr
        );
    }
}

#[test]
fn only_a_tracked_content_is_shown() {
    let file = "sandbox: { root: . }\n";
    let mechanisms = mechanisms(&world(file));
    for (script, shown) in ROWS {
        let world = world(file);
        world.shell(script);
        assert_shown(&world, &mechanisms, *shown, script);
    }
    for file in [
        "sandbox: { root: ., hide: [.env] }\n",
        "sandbox: { root: ., hide: [objects] }\n",
    ] {
        let world = world(file);
        world.shell("git add .env");
        assert_shown(&world, &mechanisms, false, file);
    }
}

#[test]
fn an_index_that_is_not_read_is_told() {
    let world = world("sandbox: { root: . }\n");
    world.shell("git add .env && git update-index --split-index");
    for mechanism in mechanisms(&world) {
        if mechanism == "landlock" {
            continue;
        }
        let receipt = world.project().join("receipt.json");
        let to = receipt.to_str().unwrap();
        let args = [
            "exec",
            "--mechanism",
            mechanism,
            "--receipt",
            to,
            "--",
            "true",
        ];
        world.forge(&args).code(0);
        let text = std::fs::read_to_string(&receipt).unwrap();
        assert!(
            text.contains("/.git is not read (it is split"),
            "{mechanism}: {text}"
        );
    }
}

#[test]
fn a_command_cannot_plant_a_hidden_name_by_tracking_it() {
    let file = "sandbox: { root: . }\n";
    for mechanism in mechanisms(&world(file)) {
        let world = world(file);
        std::fs::remove_file(world.project().join(".env")).unwrap();
        world.shell("git add other && git commit -qm other");
        let script = "echo TOKEN=1 > .env && git add -f .env";
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script]);
        ran.code(0);
        let there = world.project().join(".env").exists();
        assert!(!there, "{mechanism}: {}", ran.stderr);
    }
}

#[test]
fn file_tools_do_not_write_what_is_tracked() {
    let world = world("sandbox: { root: . }\n");
    world.shell("git add .env");
    for (path, stays) in [(".env", true), ("other", false)] {
        let before = std::fs::read_to_string(world.project().join(path)).unwrap();
        for (tool, call) in [
            ("write_file", r#"{"path": "/PATH", "content": "x"}"#),
            ("move_file", r#"{"from": "/PATH", "to": "/x"}"#),
        ] {
            let call = call.replace("PATH", path);
            let ran = world.forge(&["tools", "call", tool, &call, "--yes"]);
            let there = std::fs::read_to_string(world.project().join(path));
            let is_as_before = there.is_ok_and(|text| text == before);
            assert_eq!(
                is_as_before, stays,
                "{tool} {path}: {} {}",
                ran.stdout, ran.stderr
            );
        }
    }
}
