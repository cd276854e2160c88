//! A hidden name stops no program that goes through a tree: it copies, searches, archives and commits
//! what `list_files` lists. What git tracks and a person hides stays closed, so that no commit changes
//! it.

use super::exec::mount_layers;
use crate::support::World;

/// Hidden files, each with the settings of the sandbox that hide it.
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

fn project(hidden: &str, sandbox: &str) -> World {
    let file = match sandbox {
        "{}" => "sandbox: { root: . }\n".to_owned(),
        own => format!("sandbox: {{ root: .,{}\n", own.trim_start_matches('{')),
    };
    World::new(&[
        ("forge.yaml", &file),
        ("file", "text\n"),
        (hidden, "SECRET\n"),
    ])
}

fn repository(hidden: &str, sandbox: &str) -> World {
    let world = project(hidden, sandbox);
    world.shell(
        "git init -q . && git config user.name a && git config user.email a@b \
         && echo '*.log' >> .git/info/exclude && git add file forge.yaml && git commit -qm first",
    );
    world
}

#[test]
fn programs_go_on_at_a_hidden_name() {
    for (hidden, sandbox) in HIDDEN {
        let world = repository(hidden, sandbox);
        for mechanism in mount_layers(&world) {
            for command in COMMANDS {
                let args = ["exec", "--mechanism", mechanism, "--", "sh", "-ec", command];
                let ran = world.forge(&args);
                let what = format!("{hidden}: {command} under {mechanism}");
                assert_eq!(ran.code, 0, "{what}: {} {}", ran.stdout, ran.stderr);
                assert!(!ran.stdout.contains("SECRET"), "{what}: {}", ran.stdout);
                world.shell("git reset -q --hard && grep -q SECRET -r . ");
            }
        }
    }
}

#[test]
fn a_program_that_asks_for_it_is_refused() {
    for (hidden, sandbox) in HIDDEN {
        let world = repository(hidden, sandbox);
        for mechanism in mount_layers(&world) {
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
                world.shell("grep -q SECRET -r .");
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
    let all = "git add -A && git commit -qm secrets";
    // In the index, and in no commit: as an intent, as a link, in a conflict.
    let others = [
        "git add -N .env",
        "git update-index --add --cacheinfo 120000,$(git hash-object -w .env),.env",
        "id=$(git hash-object -w .env) && printf \"100644 $id 1\\t.env\\n100644 $id 2\\t.env\\n\" | git update-index --index-info",
    ];
    let others = others.map(|script| (HIDDEN[0], script));
    for ((hidden, sandbox), script) in others
        .into_iter()
        .chain([(HIDDEN[2], all), (HIDDEN[3], all)])
    {
        let world = repository(hidden, sandbox);
        world.shell(script);
        let index = |world: &World| {
            let mut git = std::process::Command::new("git");
            let listed = git
                .args(["ls-files", "-s"])
                .current_dir(world.project())
                .output();
            listed.unwrap().stdout
        };
        let before = index(&world);
        for mechanism in mount_layers(&world) {
            for command in [
                "git add -A; git commit -qm x",
                "git commit -qam x",
                "git add -u",
            ] {
                world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", command]);
                assert_eq!(
                    index(&world),
                    before,
                    "{script}: {command} under {mechanism}"
                );
            }
        }
    }
}

/// Nothing ignores a hidden file in a repository that a command makes, so git stops at it.
#[test]
fn a_new_repository_gets_no_link() {
    let new = "git init -q .; git add -A; git -c user.name=a -c user.email=a@b commit -qm x";
    for (hidden, sandbox) in HIDDEN {
        let world = project(hidden, sandbox);
        for mechanism in mount_layers(&world) {
            for git in ["git", "/usr/bin/git"] {
                let script = new.replace("git ", &format!("{git} "));
                world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", &script]);
                world.shell("test -d .git && ! git ls-files -s | grep '^120000'");
                world.shell("rm -rf .git && grep -q SECRET -r .");
            }
        }
    }
}
