//! `sandbox.unprotect: [.git/config]`: git changes a repository's configuration, and what it then
//! would execute, obey or do elsewhere is undone before anybody gets the result.

use super::exec::mechanisms;
use crate::support::{Ran, World};

/// What a command does, and why it cannot stay; the next one finds what is left of it.
const ROWS: &[(&str, Option<&str>)] = &[
    (
        "git config user.name Me && test \"$(git config user.name)\" = Me",
        None,
    ),
    ("git remote add hub ./hub.git", None),
    ("git push -qu hub main && git rev-parse '@{u}'", None),
    ("git config --unset user.name", None),
    (
        "git branch -q topic && git push -q hub topic && git branch -q --set-upstream-to hub/topic topic",
        None,
    ),
    (
        "git config core.fsmonitor evil",
        Some("it sets core.fsmonitor"),
    ),
    (
        "git config core.hooksPath hooks",
        Some("it sets core.hookspath"),
    ),
    ("git config alias.st '!evil'", Some("it sets alias.st")),
    (
        "git config include.path ../evil",
        Some("it sets include.path"),
    ),
    (
        "git config filter.x.clean evil",
        Some("it sets filter.x.clean"),
    ),
    (
        "git config core.sshCommand evil",
        Some("it sets core.sshcommand"),
    ),
    (
        "git config url.ext::evil.insteadOf https://",
        Some("it sets url.ext::evil.insteadof"),
    ),
    (
        "git remote set-url hub https://evil.example/",
        Some("remote.hub.url"),
    ),
    (
        "git remote set-url --push hub https://evil.example/",
        Some("remote.hub.pushurl"),
    ),
    (
        "git branch -q --set-upstream-to hub/topic main",
        Some("branch.main.merge"),
    ),
    (
        "git remote remove hub",
        Some("it no longer sets remote.hub.url"),
    ),
    (
        "git remote add other ext::evil",
        Some("it sets remote.other.url"),
    ),
    ("echo '[core' > .git/config", Some("it no longer sets")),
    (
        "rm .git/config && ln -s ../evil .git/config",
        Some("it was removed, or no file"),
    ),
    (
        "mv .git/config kept && mkdir .git/config",
        Some("it was removed, or no file"),
    ),
    ("rm .git/config", Some("is as before the start again")),
];

fn repository() -> World {
    let world = World::new(&[("a", "a\n")]);
    for script in [
        "git init -q -b main && git add a && git -c user.name=a -c user.email=a@b commit -qm first",
        "git init -q --bare hub.git",
    ] {
        let made = world.command("/bin/sh".as_ref(), &["-ec", script]).output();
        assert!(made.unwrap().status.success(), "{script}");
    }
    world
}

fn exec(world: &World, mechanism: &str, script: &str) -> Ran {
    let set = "sandbox.unprotect=[.git/config]";
    let args = ["exec", "--mechanism", mechanism, "-c", set, "--"];
    world.forge(&[&args[..], &["sh", "-c", script]].concat())
}

#[test]
fn what_git_writes_stays_and_what_it_would_obey_does_not() {
    for mechanism in mechanisms(&World::new(&[])) {
        let world = repository();
        let config = world.project().join(".git/config");
        for (script, harm) in ROWS {
            let before = std::fs::read_to_string(&config).unwrap();
            let ran = exec(&world, mechanism, script);
            let about = format!("{mechanism}: {script}\n{}{}", ran.stdout, ran.stderr);
            let after = std::fs::read_to_string(&config).unwrap();
            match harm {
                None => assert!(
                    ran.code == 0 && !ran.stderr.contains("quarantined"),
                    "{about}"
                ),
                Some(why) => {
                    assert_eq!(before, after, "{about}");
                    assert!(ran.stderr.contains(why), "{about}");
                }
            }
        }
        let after = std::fs::read_to_string(&config).unwrap();
        for kept in [
            "[remote \"hub\"]",
            "[branch \"main\"]",
            "[branch \"topic\"]",
        ] {
            assert!(after.contains(kept), "{mechanism}: {after}");
        }
        assert!(!after.contains("evil"), "{mechanism}: {after}");
    }
}

/// Nothing else below `.git` can be changed by it, and a project's word for it needs a yes.
#[test]
fn it_is_about_this_one_name_and_needs_a_yes() {
    for mechanism in mechanisms(&World::new(&[])) {
        let world = repository();
        let ran = exec(
            &world,
            mechanism,
            "echo x > .git/hooks/post-commit; echo x > .git/info/attributes; git config --worktree core.x y",
        );
        for (name, dir) in [
            ("hooks/post-commit", ".git/hooks"),
            ("info/attributes", ".git/info"),
        ] {
            let there = world.project().join(".git").join(name).exists();
            let told = ran.stderr.contains(dir);
            assert!(!there || told, "{mechanism} {name}: {}", ran.stderr);
        }
        world.write(
            "forge.yaml",
            "sandbox: { root: ., unprotect: [.git/config] }\n",
        );
        let ran = world.forge(&[
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "git",
            "config",
            "user.name",
            "Me",
        ]);
        if mechanism == "namespaces" {
            assert_ne!(ran.code, 0, "{}", ran.stderr);
        }
        ran.says(&["sandbox.unprotect"]);
        world.forge(&["trust", "--yes"]).code(0);
        let ran = world.forge(&[
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "git",
            "config",
            "user.name",
            "Me",
        ]);
        ran.code(0);
    }
}
