//! A hidden name stops no program that goes through a tree: it copies, searches, archives and commits
//! what `list_files` lists. What git tracks and a person hides stays closed, so that no commit changes
//! it.

use crate::support::World;

/// What a person hides, and where it is.
const HIDDEN: [(&str, &str); 4] = [
    (".env", "{}"),
    ("deep/.env.local", "{}"),
    ("with [a] *star .env", "{ hide: ['*.env'] }"),
    ("own/secret", "{ hide: [secret] }"),
];

/// Everyday commands in the project: each ends with success, and none shows a secret.
const COMMANDS: [&str; 12] = [
    "cp -a . \"$TMPDIR/copy\"",
    "cp -r . \"$TMPDIR/copy\"",
    "tar -cf \"$TMPDIR/all.tar\" . && ! grep -a SECRET \"$TMPDIR/all.tar\"",
    "grep -r text . > \"$TMPDIR/found\"",
    "test -z \"$(find . -type f -not -path './.git/*' -exec grep -l SECRET {} + 2>/dev/null)\"",
    "du -s . && ls -laR .",
    "test -z \"$(git status --porcelain)\"",
    "git add -A && test -z \"$(git diff --cached --name-only)\"",
    "echo more >> file && git commit -qam more && git show --stat --format= | grep -q file",
    "echo more >> file && git stash -u && git stash pop",
    "git clean -n -d",
    "git check-ignore -q other.log && ! git check-ignore -q file",
];

fn outside(world: &World, script: &str) {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(world.project())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

fn repository(hidden: &str, sandbox: &str) -> World {
    let file = match sandbox {
        "{}" => "sandbox: { root: . }\n".to_owned(),
        own => format!("sandbox: {{ root: .,{}\n", own.trim_start_matches('{')),
    };
    let world = World::new(&[
        ("forge.yaml", &file),
        ("file", "text\n"),
        (hidden, "SECRET\n"),
    ]);
    let script = "git init -q . && git config user.name a && git config user.email a@b \
                  && echo '*.log' >> .git/info/exclude && git add file forge.yaml \
                  && git commit -qm first";
    outside(&world, script);
    world
}

/// Mechanisms that can hide a name.
fn hiding(world: &World) -> Vec<&'static str> {
    let starts = |name: &&str| {
        let ran = world.forge(&["exec", "--mechanism", name, "--", "true"]);
        ran.code == 0
    };
    let all: Vec<_> = ["namespaces", "bubblewrap"]
        .into_iter()
        .filter(starts)
        .collect();
    assert!(!all.is_empty(), "this host hides nothing");
    all
}

#[test]
fn programs_go_on_at_a_hidden_name() {
    for (hidden, sandbox) in HIDDEN {
        let world = repository(hidden, sandbox);
        for mechanism in hiding(&world) {
            for command in COMMANDS {
                let args = ["exec", "--mechanism", mechanism, "--", "sh", "-ec", command];
                let ran = world.forge(&args);
                let what = format!("{hidden}: {command} under {mechanism}");
                assert_eq!(ran.code, 0, "{what}: {} {}", ran.stdout, ran.stderr);
                assert!(!ran.stdout.contains("SECRET"), "{what}: {}", ran.stdout);
                outside(&world, "git reset -q --hard && grep -q SECRET -r . ");
            }
        }
    }
}

#[test]
fn a_program_that_asks_for_it_is_refused() {
    for (hidden, sandbox) in HIDDEN {
        let world = repository(hidden, sandbox);
        for mechanism in hiding(&world) {
            for command in [
                "cat \"$1\"",
                "echo x > \"$1\"",
                "mv \"$1\" away",
                "rm \"$1\"",
            ] {
                let mut args = vec!["exec", "--trace=full", "--mechanism", mechanism, "--"];
                args.extend(["sh", "-c", command, "sh", hidden]);
                let ran = world.forge(&args);
                let what = format!("{hidden}: {command} under {mechanism}");
                assert_ne!(ran.code, 0, "{what}");
                assert!(!ran.stdout.contains("SECRET"), "{what}");
                outside(&world, "grep -q SECRET -r .");
                let is_named = ran.stderr.contains("hidden name");
                assert!(
                    is_named || command.starts_with("rm"),
                    "{what}: {}",
                    ran.stderr
                );
            }
        }
    }
}

#[test]
fn what_is_tracked_is_never_committed_as_something_else() {
    for (hidden, sandbox) in [HIDDEN[2], HIDDEN[3]] {
        let world = repository(hidden, sandbox);
        outside(&world, "git add -A && git commit -qm secrets");
        for mechanism in hiding(&world) {
            for command in [
                "git add -A; git commit -qm x",
                "git commit -qam x",
                "git add -u",
            ] {
                world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", command]);
                let script = "test -z \"$(git status --porcelain)\" && git ls-files -s | grep -v '^100644' | wc -l | grep -qx 0";
                outside(&world, script);
            }
        }
    }
}
