//! Where `forge exec` puts things: the project is at its own path, and the command starts where the
//! person stands, so that what programs write down about paths is true on both sides.

use std::path::Path;
use std::process::{Command, Output};

use super::exec::mechanisms;
use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";
const ROOT: &str = "sandbox: { root: . }\n";

/// What is asked of a shell.
const ASKED: &str = "pwd -P; echo \"$PWD\"; ls \"$PWD\" >/dev/null && echo listed";

#[test]
fn a_command_starts_where_the_person_stands() {
    let world = World::new(&[
        (FILE, ROOT),
        ("src/deep/a", "A"),
        ("name with space/b", "B"),
        ("\u{fc}ml/c", "C"),
    ]);
    for mechanism in mechanisms(&world) {
        for below in ["", "src", "src/deep", "name with space", "\u{fc}ml"] {
            let here = world.project().join(below);
            let here = here.components().as_path();
            let asked = ["exec", "--mechanism", mechanism, "--", "sh", "-c", ASKED];
            let ran = world.forge_in(here, &asked);
            ran.code(0);
            let shown = here.display();
            assert_eq!(
                ran.stdout,
                format!("{shown}\n{shown}\nlisted\n"),
                "{mechanism}"
            );
        }
        // `-C` is another place to stand.
        let asked = ["-C", "src", "exec", "--mechanism", mechanism, "--", "pwd"];
        let ran = world.forge(&asked);
        ran.code(0);
        let expected = format!("{}\n", world.project().join("src").display());
        assert_eq!(ran.stdout, expected, "{mechanism}");
    }
}

/// With several mounts it starts in the one that holds the person, or above them; anywhere else it
/// is refused, with the places that there are.
#[test]
fn with_several_mounts_the_one_around_the_person_counts() {
    let world = World::new(&[
        (FILE, PROJECT),
        ("data/a.md", "A"),
        ("workspace/b.md", "B"),
        ("other/c.md", "C"),
    ]);
    for mechanism in mechanisms(&world) {
        for (below, reads) in [("workspace", "b.md"), ("data", "a.md"), ("", "data/a.md")] {
            let here = world.project().join(below);
            let here = here.components().as_path();
            let script = format!("pwd; cat {reads}");
            let asked = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
            let ran = world.forge_in(here, &asked);
            ran.code(0);
            let expected = format!("{}\n", here.display());
            assert!(
                ran.stdout.starts_with(&expected),
                "{mechanism}: {}",
                ran.stdout
            );
        }
        let asked = ["exec", "--mechanism", mechanism, "--", "pwd"];
        let ran = world.forge_in(&world.project().join("other"), &asked);
        ran.code(125);
        for words in [
            "is in no directory that the project shows",
            "workspace",
            "-C",
        ] {
            assert!(ran.stderr.contains(words), "{mechanism}: {}", ran.stderr);
        }
    }
}

/// `/work` and the names of mounts lead to the same files, where there is a mount layer.
#[test]
fn the_names_of_the_sandbox_are_links() {
    let world = World::new(&[(FILE, ROOT), ("src/a", "A")]);
    if !mechanisms(&world).contains(&"namespaces") {
        eprintln!("skipped: no mount layer here");
        return;
    }
    let ran = world.forge(&["exec", "--", "sh", "-c", "cat /work/src/a; readlink /work"]);
    ran.code(0);
    assert_eq!(ran.stdout, format!("A{}\n", world.project().display()));
    let world = World::new(&[(FILE, PROJECT), ("data/a", "A"), ("workspace/b", "B")]);
    let ran = world.forge(&["exec", "--", "sh", "-c", "cat /data/a /work/workspace/b"]);
    ran.code(0);
    assert_eq!(ran.stdout, "AB");
}

/// What is made outside is used inside, and the reverse: for each program what makes something that
/// knows its own path, and what uses it. The words are the same on both sides.
const MADE_AND_USED: &[(&str, &str, &str)] = &[
    (
        "python3",
        "python3 -m venv --without-pip env",
        "env/bin/python -c 'import sys; assert sys.prefix.endswith(\"/env\"), sys.prefix' && \
         . env/bin/activate && test \"$(command -v python)\" = \"$PWD/env/bin/python\"",
    ),
    (
        "git",
        "git init -q one && git -C one -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
        "git -C one log --oneline | grep -q x && git -C one rev-parse --show-toplevel | grep -q $PWD",
    ),
    (
        "git",
        "git init -q one && git -C one -c user.name=a -c user.email=a@b commit -q --allow-empty -m x \
         && git -C one worktree add -q ../two",
        "git -C two status --short --branch | grep -q two && git -C one worktree list | grep -q $PWD/two",
    ),
    (
        "cmake",
        "mkdir -p c && echo 'project(x NONE)' > c/CMakeLists.txt && cmake -S c -B c/build >/dev/null",
        "cmake --build c/build >/dev/null && cmake -S c -B c/build >/dev/null",
    ),
    (
        "make",
        "printf 'out: in\\n\\tcp $(CURDIR)/in out\\n' > Makefile && echo 1 > in && make -s",
        "make -q",
    ),
    (
        "tsc",
        "mkdir -p t && echo 'export const a = 1' > t/a.ts && cd t && tsc --init >/dev/null && tsc -i",
        "cd t && tsc -i && test -f a.js",
    ),
];

#[test]
fn what_knows_its_path_works_on_both_sides() {
    let probe = World::new(&[]);
    for mechanism in mechanisms(&probe) {
        for (program, make, using) in MADE_AND_USED {
            let there = plain(Path::new("/"), &format!("command -v {program}"));
            if !there.status.success() {
                eprintln!("skipped: {program} is not in {PATH}");
                continue;
            }
            for made_outside in [true, false] {
                let world = World::new(&[(FILE, ROOT)]);
                let inside = |script: &str| {
                    let asked = ["exec", "--mechanism", mechanism, "--", "sh", "-ec", script];
                    let ran = world.forge(&asked);
                    (ran.code == 0, format!("{}{}", ran.stdout, ran.stderr))
                };
                let outside = |script: &str| said(&plain(&world.project(), script));
                let (first, second) = match made_outside {
                    true => (outside(make), inside(using)),
                    false => (inside(make), outside(using)),
                };
                let about = format!("{mechanism}, {program}, made outside: {made_outside}");
                assert!(first.0, "{about}: {make}\n{}", first.1);
                assert!(second.0, "{about}: {using}\n{}", second.1);
            }
        }
    }
}

/// What commands inside have, too: programs of one's home are not shown.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn plain(directory: &Path, script: &str) -> Output {
    Command::new("sh")
        .args(["-ec", script])
        .env("PATH", PATH)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn said(output: &Output) -> (bool, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// git knows who commits, although commands have a HOME of their own.
#[test]
fn commits_are_by_the_person() {
    let world = World::new(&[("a.txt", "a\n")]);
    let home = world.outside().join("home");
    let settings = "[user]\n\tname = A. Person\n\temail = a@example.com\n";
    std::fs::write(home.join(".gitconfig"), settings).unwrap();
    let forge = |args: &[&str]| {
        let mut command = world.command(crate::support::forge_program(), args);
        let ran = crate::support::ran(command.env("HOME", &home).output().unwrap());
        ran.code(0);
        ran.stdout
    };
    forge(&["exec", "--", "git", "init", "-q"]);
    for mechanism in mechanisms(&world) {
        let exec =
            |script: &str| forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script]);
        let log = "git add a.txt && git commit -q --allow-empty -m x && git log -1 --format='%an %ae %cn %ce'";
        let person = "A. Person a@example.com";
        assert_eq!(exec(log), format!("{person} {person}\n"), "{mechanism}");
        // A repository's own word counts before.
        let own = world.project().join(".git/config");
        let was = std::fs::read_to_string(&own).unwrap();
        std::fs::write(&own, format!("{was}[user]\n\temail = own@example.com\n")).unwrap();
        let person = "A. Person own@example.com";
        assert_eq!(exec(log), format!("{person} {person}\n"), "{mechanism}");
        std::fs::write(&own, was).unwrap();
    }
}

/// The root of a project of zones is empty for a command.
#[test]
fn a_start_beside_the_directories_is_explained() {
    let zones = "sandbox: { mode: direct, zones: { data: { path: ./data, mode: ro } } }\n";
    let world = World::new(&[("forge.yaml", zones), ("README.md", ""), ("data/a", "")]);
    for (start, is_said) in [(".", true), ("data", false)] {
        let ran = world.forge(&["--trust", "-C", start, "exec", "cat", "README.md"]);
        let said = ran.code(1).stderr.contains("and not its own files");
        assert_eq!(said, is_said, "{start}: {}", ran.stderr);
    }
}
