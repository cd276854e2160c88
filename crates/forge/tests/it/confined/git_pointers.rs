//! Working trees that a file or link called `.git` makes: the person's git in them obeys nothing that
//! a command left, wherever the repository is, and wherever the files are that it is led to.

use std::path::Path;
use std::process::Command;

use super::exec::mechanisms;
use crate::support::{Ran, World, ran};

/// `$1`: a file that git creates when it obeys.
const TOOLS: &str = r#"
plant() { mkdir -p "$(dirname "$2")"; printf '#!/bin/sh\ntouch %s\nexit 1\n' "$1" > "$2"; chmod +x "$2"; }
hooks() { for hook in pre-commit post-index-change; do plant "$1" "$2/$hook"; done; }
repository() {
    mkdir -p "$2/objects" "$2/refs"; echo 'ref: refs/heads/main' > "$2/HEAD"
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = touch %s;false\n' "$1" > "$2/config"
}
linked() { mkdir -p sub; echo a > sub/a.txt; echo 'gitdir: ../.git' > sub/.git; }
"#;

/// A setting of the person, and the commands, each in a run of its own.
const LEADS: [(&str, &[&str]); 13] = [
    ("git config core.hooksPath .githooks", &["linked; hooks $1 sub/.githooks"]),
    ("git config core.hooksPath .githooks", &["linked", "hooks $1 sub/.githooks"]),
    (
        "git config core.hooksPath .githooks",
        &["mkdir sub; ln -s ../.git sub/.git; hooks $1 sub/.githooks"],
    ),
    (
        "git config core.hooksPath ./.githooks/",
        &["git worktree add -q wt -b wt; hooks $1 wt/.githooks"],
    ),
    (
        "git config core.hooksPath .githooks; git worktree add -q wt -b wt",
        &["hooks $1 wt/.githooks"],
    ),
    (
        "git config core.hooksPath .githooks; git worktree add -q wt -b wt; mkdir wt/.githooks",
        &["hooks $1 wt/.githooks"],
    ),
    ("git config core.hooksPath .husky/_", &["linked; hooks $1 sub/.husky/_"]),
    ("git config core.fsmonitor tools/fs", &["linked; plant $1 sub/tools/fs"]),
    (
        "git config filter.x.clean tools/x; echo '*.txt filter=x' > .gitattributes",
        &["git worktree add -q wt -b wt; plant $1 wt/tools/x; echo '*.txt filter=x' > wt/.gitattributes; echo b > wt/a.txt"],
    ),
    (
        "git config include.path more; printf '[core]\\n\\thooksPath = .githooks\\n' > .git/more",
        &["linked; hooks $1 sub/.githooks"],
    ),
    (
        "git config extensions.worktreeConfig true; git worktree add -q wt -b wt
         git -C wt config --worktree core.hooksPath .githooks",
        &["hooks $1 wt/.githooks"],
    ),
    (
        "git clone -q . ../module; git -c protocol.file.allow=always submodule --quiet add ../module sub
         git -C sub config core.hooksPath .githooks",
        &["hooks $1 sub/.githooks"],
    ),
    (
        "mkdir tree; git config core.worktree ../tree; git config core.hooksPath .githooks",
        &["echo a > tree/a.txt; hooks $1 tree/.githooks"],
    ),
];

/// Repositories in the kept home directory of a preset, in which nothing is judged.
const KEPT: [&[&str]; 8] = [
    &["repository $1 $HOME/repo; mkdir sub; echo \"gitdir: $HOME/repo\" > sub/.git"],
    &["repository $1 $HOME/repo; mkdir sub; ln -s $HOME/repo sub/.git"],
    &["repository $1 $HOME/repo; rm -rf .git; echo \"gitdir: $HOME/repo\" > .git"],
    &[
        "repository $1 $HOME/repo; mkdir sub; ln -s $HOME/repo there; echo 'gitdir: ../there' > sub/.git",
    ],
    &[
        "repository $1 $HOME/repo; mkdir sub; echo \"gitdir: $HOME/repo\" > at; ln -s ../at sub/.git",
    ],
    &[
        "mkdir sub; echo \"gitdir: $HOME/repo\" > sub/.git",
        "repository $1 $HOME/repo",
    ],
    &[
        "mkdir sub; ln -s $HOME/new there; echo 'gitdir: ../there/repo' > sub/.git",
        "repository $1 $HOME/new/repo",
    ],
    &[
        "repository $1 here; mv here $HOME/repo; mkdir sub; ln -s $HOME sub/x; cd sub; ln -s x/repo .git",
    ],
];

/// Runs `git status` and a commit in each working tree, as the person does.
fn person(world: &World) {
    for tree in ["sub", "wt", "pkg", "far/b/repo", "."] {
        for args in [&["status"][..], &["add", "-A"], &["commit", "-qm", "z"]] {
            let mut git = world.command(Path::new("git"), args);
            let tree = world.project().join(tree);
            let _ = git
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .current_dir(tree)
                .output();
        }
    }
}

fn shell(world: &World, script: &str) {
    let script = format!("{TOOLS}\n{script}");
    let mut command = world.command(Path::new("sh"), &["-ec", &script, "sh", &obeyed(world)]);
    let kept = world.outside().join("kept");
    std::fs::create_dir_all(&kept).unwrap();
    let told = ran(command.env("HOME", kept).output().unwrap());
    assert_eq!(told.code, 0, "{script}: {}", told.stderr);
}

fn obeyed(world: &World) -> String {
    let path = world.outside().join("obeyed");
    path.to_str().unwrap().to_owned()
}

fn scene(setup: &str) -> World {
    let world = World::new(&[("a.txt", "text\n")]);
    let first = "git init -q -b main; git config user.name n; git config user.email n@example.com
        git add .; git commit -qm first";
    shell(&world, &format!("{first}\n{setup}"));
    world
}

fn confined(world: &World, mechanism: &str, flags: &[&str], script: &str) -> Ran {
    let script = format!("{TOOLS}\n{script}");
    let obeyed = obeyed(world);
    let first = ["exec", "--mechanism", mechanism];
    let last = ["--", "sh", "-ec", &script, "sh", &obeyed];
    let mut command: Command = world.command(
        crate::support::forge_program(),
        &[&first, flags, &last].concat(),
    );
    ran(command
        .env("HOME", world.outside().join("home"))
        .output()
        .unwrap())
}

/// Runs the scripts under each mechanism, and by the person, which shows that the test can fail.
fn check(setup: &str, scripts: &[&str], flags: &[&str]) -> Vec<String> {
    let mut escaped = Vec::new();
    let by_person = scene(setup);
    for script in scripts {
        shell(&by_person, script);
    }
    person(&by_person);
    if !Path::new(&obeyed(&by_person)).exists() {
        escaped.push(format!("by the person: {setup} {scripts:?}"));
    }
    for mechanism in mechanisms(&by_person) {
        let world = scene(setup);
        std::fs::create_dir_all(world.outside().join("home")).unwrap();
        let mut told = String::new();
        for script in scripts {
            told = confined(&world, mechanism, flags, script).stderr;
        }
        person(&world);
        // Without mounts a directory that is there can be written in, which is told at once.
        let is_told = mechanism == "landlock" && told.contains("was changed while");
        if Path::new(&obeyed(&world)).exists() && !is_told {
            escaped.push(format!("{mechanism} {flags:?} {setup} {scripts:?}: {told}"));
        }
    }
    escaped
}

#[test]
fn a_relative_path_is_meant_in_every_working_tree() {
    let each = LEADS.iter();
    let escaped: Vec<String> = each
        .flat_map(|(setup, scripts)| check(setup, scripts, &[]))
        .collect();
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

#[test]
fn nothing_leads_into_a_kept_home() {
    let each = KEPT.iter();
    let escaped: Vec<String> = each
        .flat_map(|scripts| check("", scripts, &["--preset", "python"]))
        .collect();
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// What a command does with a file or link called `.git` that was there: afterwards it leads to the same
/// repository as before. `other`: a repository in which git obeys nothing.
#[test]
fn pointers_of_a_person_are_as_before() {
    const CHANGES: [&str; 6] = [
        "echo \"gitdir: $PWD/other/.git\" > $1/.git",
        "echo 'gitdir: ../other/.git' > x; mv -f x $1/.git",
        "rm $1/.git; ln -s ../other/.git $1/.git",
        "rm $1/.git; ln -s ../x $1/.git; echo 'gitdir: other/.git' > x",
        "mv $1/.git x; echo 'gitdir: ../other/.git' > $1/.git",
        ": > $1/.git",
    ];
    let mut changed = Vec::new();
    for mechanism in mechanisms(&scene("")) {
        for change in CHANGES {
            for tree in ["wt", "sub", "linked"] {
                let world = scene(
                    "git init -q other; git worktree add -q wt -b wt; git clone -q . ../module
                     git -c protocol.file.allow=always submodule --quiet add ../module sub
                     mkdir linked; ln -s ../other2/.git linked/.git; git init -q other2",
                );
                let led = || {
                    let args = ["rev-parse", "--absolute-git-dir"];
                    let mut git = world.command(Path::new("git"), &args);
                    let shown = git.current_dir(world.project().join(tree)).output();
                    String::from_utf8(shown.unwrap().stdout).unwrap()
                };
                let before = led();
                let script = format!("set +e; set -- {tree}; {change}; true");
                let told = confined(&world, mechanism, &[], &script).stderr;
                // Without mounts a file that is there can be written in, which is told at once.
                let is_told = mechanism == "landlock" && told.contains("was changed while");
                if led() != before && !is_told {
                    changed.push(format!("{mechanism} {tree} {change}: {}{told}", led()));
                }
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

/// Links to directories in a kept home in which git finds a repository, and the name of the link.
const LINKED: [(&[&str], &str); 9] = [
    (
        &[
            "repository $1 $HOME/repo; printf '\\tworktree = .\\n' >> $HOME/repo/config; ln -s $HOME/repo pkg",
        ],
        "pkg",
    ),
    (&["repository $1 $HOME/x/.git; ln -s $HOME/x pkg"], "pkg"),
    (
        &["repository $1 $HOME/x/.git; mkdir -p $HOME/x/in; ln -s $HOME/x/in pkg"],
        "pkg",
    ),
    (
        &["repository $1 $HOME/x/.git; ln -s $HOME/x $HOME/y; ln -s $HOME/y wt"],
        "wt",
    ),
    (
        &[
            "mkdir $HOME/x; ln -s $HOME/x pkg",
            "repository $1 $HOME/x/.git",
        ],
        "pkg",
    ),
    (
        &["repository $1 $HOME/x/.git; mkdir d; ln -s $HOME/x d/l; ln -s d/l sub"],
        "sub",
    ),
    // Deeper in the directory.
    (
        &["repository $1 $HOME/x/b/repo/.git; ln -s $HOME/x far"],
        "far",
    ),
    (
        &[
            "mkdir -p $HOME/x; ln -s $HOME/x far",
            "repository $1 $HOME/x/b/repo/.git",
        ],
        "far",
    ),
    (
        &[
            "repository $1 $HOME/y/repo/.git; mkdir $HOME/x; ln -s ../y $HOME/x/b; ln -s $HOME/x far",
        ],
        "far",
    ),
];

#[test]
fn no_link_leads_a_person_to_a_repository_in_a_kept_home() {
    let each = LINKED.iter();
    let escaped: Vec<String> = each
        .flat_map(|(scripts, _)| check("", scripts, &["--preset", "python"]))
        .collect();
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
    // Other links stay, as those of build tools do.
    let script = "mkdir -p $HOME/.cache/out; echo x > $HOME/.cache/out/f
        ln -s $HOME/.cache/out out; ln -s $HOME/.cache/out/f f; ln -s a.txt a; ln -s gone gone2";
    for mechanism in mechanisms(&scene("")) {
        let world = scene("");
        let told = confined(&world, mechanism, &["--preset", "python"], script);
        assert!(!told.stderr.contains("quarantined"), "{}", told.stderr);
        for name in ["out", "f", "a", "gone2"] {
            assert!(
                world.project().join(name).is_symlink(),
                "{mechanism}: {name}"
            );
        }
    }
}

/// The same commands, without a program that git would start: every file stays.
#[test]
fn working_trees_of_a_command_stay() {
    for setup in ["", "git config core.hooksPath .githooks"] {
        let scripts = [
            "git worktree add -q wt -b wt; git worktree add -q --detach wt2; git worktree remove wt2",
            "git -c protocol.file.allow=always submodule --quiet add ../module sub",
            "mkdir copy other; cp -r sub copy/sub; cp .git/HEAD x; echo 'gitdir: ../.git' > other/.git",
            "cp wt/.git wt/a.txt copy; git -C wt status",
        ];
        for mechanism in mechanisms(&scene("")) {
            let world = scene(&format!("git clone -q . module; {setup}"));
            for script in &scripts {
                let script = script.replace("../module", "$PWD/module");
                let ran = confined(&world, mechanism, &[], &script);
                let told = format!("{mechanism} {setup} {script}: {}", ran.stderr);
                assert_eq!(ran.code, 0, "{told}");
                assert!(!ran.stderr.contains("quarantined"), "{told}");
            }
        }
    }
}

/// Files that a command leaves under names that are taken, and the next command: `Q` is their directory
/// in the quarantine.
const TAKEN: [(&str, &str); 7] = [
    (
        "repository $1 .vscode/repo",
        "mkdir sub; echo 'gitdir: ../Q/.vscode/repo' > sub/.git",
    ),
    (
        "repository $1 .vscode/repo",
        "mkdir sub; ln -s ../Q/.vscode/repo sub/.git",
    ),
    (
        "repository $1 .vscode/repo; printf '\\tworktree = .\\n' >> .vscode/repo/config",
        "ln -s Q/.vscode/repo pkg",
    ),
    ("repository $1 .vscode/.git", "ln -s Q/.vscode pkg"),
    (
        "repository $1 .vscode/.git; chmod 555 .vscode/.git",
        "ln -s Q/.vscode pkg",
    ),
    (
        "mkdir .vscode; hooks $1 .vscode/.githooks
         echo \"gitdir: $PWD/.git\" > .vscode/.git",
        "ln -s Q/.vscode pkg",
    ),
    // Put together from names that are taken one by one.
    (
        "repository $1 evil; for name in HEAD config objects refs; do
             rm -rf bare.git/$name || continue; ln -s ../evil/$name bare.git/$name; done",
        "ln -s Q/bare.git pkg",
    ),
];

#[test]
fn the_quarantine_has_no_repository() {
    let mut escaped = Vec::new();
    for (first, second) in TAKEN {
        for mechanism in mechanisms(&World::new(&[])) {
            let world = scene("git init -q --bare bare.git; git config core.hooksPath .githooks");
            let told = confined(&world, mechanism, &[], first).stderr;
            let all = world.project().join(".os-sandbox-quarantine");
            let runs = std::fs::read_dir(&all).unwrap().flatten();
            let mut runs = runs.filter(|run| run.path().is_dir());
            let run = runs.next().unwrap().path();
            assert!(runs.next().is_none(), "{told}");
            let below = run.strip_prefix(world.project()).unwrap();
            let second = second.replace('Q', below.to_str().unwrap());
            let told = confined(&world, mechanism, &[], &second).stderr;
            person(&world);
            for inner in ["", ".vscode", ".vscode/repo", ".vscode/.git", "bare.git"] {
                let mut git = world.command(Path::new("git"), &["status"]);
                let _ = git.current_dir(run.join(inner)).output();
            }
            if Path::new(&obeyed(&world)).exists() {
                escaped.push(format!("{mechanism} {first} {second}: {told}"));
            }
        }
    }
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// And has it again when a person moves it back.
#[test]
fn a_repository_comes_back_from_the_quarantine() {
    let world = scene("");
    let script =
        "repository $1 .vscode/.git; mkdir .vscode/sub; echo 'gitdir: ../.git' > .vscode/sub/.git
        repository $1 evil";
    confined(&world, mechanisms(&world)[0], &[], script);
    assert!(!world.project().join("evil/HEAD").exists());
    world.forge(&["quarantine", "restore", "--all"]).code(0);
    for name in [".vscode/.git/HEAD", ".vscode/sub/.git", "evil/HEAD"] {
        assert!(world.project().join(name).is_file(), "{name}");
    }
    assert!(!world.project().join(".os-sandbox-quarantine").exists());
}
