//! A second name of a protected file: the name is protected, and both names are one file.

use super::exec::{mechanisms, mount_layers};
use crate::support::{Ran, World};
use std::os::unix::fs::MetadataExt;

fn exec(world: &World, mechanism: &str, script: &str) -> Ran {
    let flags = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
    world.forge(&flags)
}

fn read(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.project().join(name)).unwrap()
}

fn names_of(world: &World, name: &str) -> u64 {
    let meta = world.project().join(name).symlink_metadata().unwrap();
    meta.nlink()
}

/// The files of a new repository that git obeys, and the name under which they stay.
const PARTS: [&str; 6] = [
    ".git/config",
    ".git/hooks/pre-commit.sample",
    ".git/info/exclude",
    ".git/objects/info/alternates",
    ".git/worktrees/w/commondir",
    ".gitmodules",
];

#[test]
fn a_new_repository_stays_without_other_names() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for mechanism in mechanisms(&world) {
        let script = "git init -q new && cd new && git commit -q --allow-empty -m one && \
             git worktree add -q ../w 2>/dev/null && : > .git/objects/info/alternates && : > .gitmodules && \
             mkdir c && for one in .git/config .git/hooks/pre-commit.sample .git/info/exclude \
             .git/objects/info/alternates .git/worktrees/w/commondir .gitmodules; \
             do ln $one c/x$(basename $one); done";
        let flags = ["exec", "--mechanism", mechanism];
        let author = [
            "--env",
            "GIT_AUTHOR_NAME=a",
            "--env",
            "GIT_AUTHOR_EMAIL=a@b",
        ];
        let committer = [
            "--env",
            "GIT_COMMITTER_NAME=a",
            "--env",
            "GIT_COMMITTER_EMAIL=a@b",
        ];
        let last = ["--", "sh", "-c", script];
        let ran = world.forge(&[&flags[..], &author, &committer, &last].concat());
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{mechanism}");
        for part in PARTS {
            assert_eq!(
                names_of(&world, &format!("new/{part}")),
                1,
                "{mechanism}: {part}"
            );
        }
        let evil = "printf '[core]\\n\\tfsmonitor = \"touch P; false\"\\n' >> new/c/xconfig; \
             echo evil > new/c/xpre-commit.sample; rm -r new/c";
        exec(&world, mechanism, evil).code(0);
        assert!(
            !read(&world, "new/.git/config").contains("fsmonitor"),
            "{mechanism}"
        );
        world.shell("git -C new status >/dev/null; test ! -e new/P");
        // git goes on with it, inside too.
        exec(
            &world,
            mechanism,
            "git -C new config user.name a && git -C new status",
        )
        .code(0);
        assert!(
            read(&world, "new/.git/config").contains("name = a"),
            "{mechanism}"
        );
        world.shell("rm -rf new w .os-sandbox-quarantine");
    }
}

#[test]
fn a_restored_file_has_one_name() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for mechanism in mechanisms(&world) {
        for (taken, file) in [
            (".vscode", ".vscode/tasks.json"),
            (".envrc", ".envrc"),
            (".pre-commit-config.yaml", ".pre-commit-config.yaml"),
            (".claude", ".claude/a/settings.json"),
        ] {
            let script = format!(
                "mkdir -p docs $(dirname {file}) && echo mine > {file} && ln {file} docs/t"
            );
            exec(&world, mechanism, &script).code(0);
            world.forge(&["quarantine", "restore", taken]).code(0);
            assert_eq!(read(&world, file), "mine\n", "{mechanism}: {file}");
            assert_eq!(names_of(&world, file), 1, "{mechanism}: {file}");
            exec(&world, mechanism, "echo evil > docs/t").code(0);
            assert_eq!(read(&world, file), "mine\n", "{mechanism}: {file}");
            world.shell(&format!("rm -r docs {taken}"));
        }
    }
}

/// The other names of the person's own files are closed as the protected ones are.
#[test]
fn other_names_that_are_there_are_closed() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    world.shell(
        "git init -q; mkdir -p scripts docs/deep .vscode; echo hook > scripts/pc; \
         ln scripts/pc .git/hooks/pre-commit; echo tasks > .vscode/tasks.json; \
         ln .vscode/tasks.json docs/deep/t; echo rc > .envrc; ln .envrc notes; ln .envrc ../away; \
         echo secret > .env; ln .env plain; echo free > free; ln free free2",
    );
    for mechanism in mount_layers(&world) {
        for name in ["scripts/pc", "docs/deep/t", "notes"] {
            for script in [
                format!("echo evil >> {name}"),
                format!("rm -f {name}"),
                format!("chmod 777 {name}"),
                format!("ln {name} other"),
            ] {
                let ran = exec(&world, mechanism, &script);
                assert_ne!(ran.code, 0, "{mechanism}: {script}");
            }
        }
        let ran = exec(
            &world,
            mechanism,
            "cat plain; echo x > scripts/new; echo x >> free2",
        );
        assert!(!ran.stdout.contains("secret"), "{mechanism}");
        assert_eq!(read(&world, "scripts/new"), "x\n");
        let all = ["scripts/pc", ".vscode/tasks.json", ".envrc"].map(|name| read(&world, name));
        assert_eq!(all, ["hook\n", "tasks\n", "rc\n"], "{mechanism}");
        let flags = ["exec", "--json", "--mechanism", mechanism, "--", "true"];
        let receipt = world.forge(&flags).stdout;
        for told in ["notes", "docs/deep/t", "scripts/pc", "plain"] {
            assert!(receipt.contains(told), "{mechanism}: {told}: {receipt}");
        }
    }
}

/// Hard links of ordinary files stay.
#[test]
fn ordinary_files_keep_their_names() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    world.shell("mkdir d; echo 1 > d/a");
    for mechanism in mechanisms(&world) {
        let script = "cp -rl d e && git init -q one && echo 1 > one/a && git -C one add a && \
                      git clone -q --local one copy 2>&1 && cp -rl one two";
        exec(&world, mechanism, script).code(0);
        assert_eq!(names_of(&world, "d/a"), 2, "{mechanism}");
        let object = "test $(find one/.git/objects -type f -links 3 | wc -l) = 1";
        world.shell(object);
        for name in ["one", "copy", "two"] {
            world.shell(&format!("git -C {name} status; git -C {name} fsck"));
            assert_eq!(
                names_of(&world, &format!("{name}/.git/config")),
                1,
                "{mechanism}"
            );
        }
        world.shell("rm -rf e one copy two");
    }
}
