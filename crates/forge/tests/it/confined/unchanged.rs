//! A command that changes nothing: nothing is quarantined, whatever git obeys in the project, and
//! however the guarded names lie in each other.

use std::path::Path;

use super::exec::mechanisms;
use crate::support::World;

/// Names that git is led to. Every other one is protected or hidden by itself, is in such a
/// directory, or has one in it.
const HOOKS: [&str; 14] = [
    ".husky/_",
    "tools/git/_",
    "a/_/_/_",
    ".githooks",
    ".vscode/hooks/_",
    "x/.vscode/_",
    ".ssh/hooks",
    "x/.ssh/_",
    ".env.d/hooks",
    "x.pem/_",
    ".git/hooks",
    ".git/modules/sub/hooks",
    "sub/_",
    "wt/.husky/_",
];

/// What leads there: `P` is the path.
const LEADS: [(&str, &str); 4] = [
    ("core.hooksPath", "P"),
    ("core.hooksPath", "./P/"),
    ("core.fsmonitor", "P/pre-commit"),
    ("include.path", "../P/none"),
];

fn run(world: &World, script: &str) {
    let command = world.command(Path::new("sh"), &["-ec", script]).output();
    let told = command.unwrap();
    let error = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{script}: {error}");
}

/// A project with names in each other; if it `is_rich`, with a module, worktrees, and a repository
/// under another name.
fn scene(is_rich: bool) -> World {
    let world = World::new(&[
        ("file", "text\n"),
        (".vscode/.idea/x", ""),
        (".idea/.env", ""),
        ("keys/.ssh/.vscode/x", ""),
        (".env.d/.ssh/x", ""),
    ]);
    run(
        &world,
        "git init -q -b main; git config user.name n; git config user.email n@example.com
         git add file; git commit -qm first; git clone -q . ../other
         mkdir -p sub/_ wt/.husky/_",
    );
    if is_rich {
        run(
            &world,
            "rm -rf sub wt; git -c protocol.file.allow=always submodule --quiet add ../other sub 2>&1
             git commit -qm module; git worktree add -q wt; git worktree add -q ../apart
             git clone -q --bare . bare.git; git init -q nested; ln -s ../nested/.git keys/.git",
        );
    }
    world
}

#[test]
fn a_command_that_changes_nothing_loses_nothing() {
    let mut lost = Vec::new();
    // Which there are is tried by a command, in a project of its own.
    let mechanisms = mechanisms(&World::new(&[]));
    for is_rich in [false, true] {
        lost.extend(lost_in(&scene(is_rich), &mechanisms));
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

fn lost_in(world: &World, mechanisms: &[&str]) -> Vec<String> {
    let mut lost = Vec::new();
    for (at, path) in HOOKS.iter().enumerate() {
        let make = format!(
            "mkdir -p {path} wt/.husky/_; echo exit 0 > {path}/pre-commit; touch $(dirname {path})/pre-commit"
        );
        run(world, &make);
        // The first lead for each, and one of the others.
        for (key, value) in [LEADS[0], LEADS[1 + at % 3]] {
            let value = value.replace('P', path);
            run(world, &format!("git config {key} {value}"));
            for mechanism in mechanisms {
                let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "true"]);
                if ran.code != 0 || ran.stderr.contains("quarantine") {
                    lost.push(format!("{mechanism} {key}={value}: {}", ran.stderr));
                    run(world, &make);
                }
            }
            run(world, &format!("git config --unset {key}"));
        }
    }
    lost
}
