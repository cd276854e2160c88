//! Another program, outside, replaces a protected file while a command runs: the mount over the file
//! is gone, and the command can change the new one. It is judged after the end, and what cannot stay
//! makes way for what was there before.

use super::exec::mount_layers;
use super::users::UserWorld;
use crate::support::{World, eventually};
use std::process::Stdio;

struct Row {
    /// The protected name.
    name: &'static str,
    /// What replaces it outside, and what the command does then.
    outside: &'static str,
    command: &'static str,
    after: After,
}

enum After {
    /// The file of the other program stays.
    Stays(&'static str),
    /// The file that was there before the start is there again, with the reason.
    Back(&'static str),
    /// The name is gone, and the reason is told.
    Gone(&'static str),
}
use After::{Back, Gone, Stays};

const PREPARE: &str = "git init -q; printf 'mine\n' > .envrc; chmod 750 .envrc; mkdir sub; echo {} > sub/.mcp.json; \
    echo {} > .mcp.json; \
    echo secret > .env; mkdir .vscode; echo {} > .vscode/tasks.json; mkdir conf; echo mine > conf/idea; \
    ln -s conf/idea .idea; printf '[submodule \"a\"]\n\tpath = a\n\turl = ./a\n' > .gitmodules; \
    head -c 1500000 /dev/zero > .codex; echo '[a]' > .git/config.worktree";

const ROWS: &[Row] = &[
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "git config core.fsmonitor evil",
        after: Back("it sets core.fsmonitor, after another program replaced it"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "git config user.email a@b",
        after: Stays("Person"),
    },
    Row {
        name: ".git/config",
        outside: "git config core.editor vim",
        command: "true",
        after: Back("it sets core.editor"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "rm .git/config",
        after: Back("is as before the start again"),
    },
    Row {
        name: ".git/config",
        outside: "rm .git/config",
        command: "printf '[core]\n\tpager = evil\n' > .git/config",
        after: Back("core.pager"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "ln -sf ../evil .git/config",
        after: Back("it is a link"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "rm .git/config; mkdir .git/config",
        after: Back("it was removed, or no file"),
    },
    Row {
        name: ".git/config",
        outside: "rm -rf .git",
        command: "true",
        after: Gone("was removed with its directory"),
    },
    Row {
        name: ".git/config.worktree",
        outside: "echo '[b]' > new; mv new .git/config.worktree",
        command: "printf '[core]\n\tpager = evil\n' > .git/config.worktree",
        after: Back("it sets core.pager"),
    },
    Row {
        name: ".git/hooks",
        outside: "rm -r .git/hooks; mkdir .git/hooks",
        command: "echo evil > .git/hooks/pre-commit",
        after: Gone("it has the hook pre-commit"),
    },
    Row {
        name: ".gitmodules",
        outside: "sed 's/= a/= b/' .gitmodules > new; mv new .gitmodules",
        command: "true",
        after: Stays("path = b"),
    },
    Row {
        name: ".gitmodules",
        outside: "cp .gitmodules new; mv new .gitmodules",
        command: "printf '\tupdate = !evil\n' >> .gitmodules",
        after: Back("it sets submodule.a.update"),
    },
    Row {
        name: ".envrc",
        outside: "echo new > new; mv new .envrc",
        command: "echo evil >> .envrc; chmod 666 .envrc",
        after: Back("a new name, after another program replaced it"),
    },
    Row {
        name: ".envrc",
        outside: "cp -p .envrc new; mv new .envrc",
        command: "true",
        after: Stays("mine"),
    },
    Row {
        name: ".envrc",
        outside: "echo new > .envrc",
        command: "! echo evil >> .envrc",
        after: Stays("new"),
    },
    Row {
        name: ".envrc",
        outside: "mv .envrc old; cp old .envrc",
        command: "ln -sf evil .envrc",
        after: Back("a new link"),
    },
    Row {
        name: ".envrc",
        outside: "rm .envrc",
        command: "true",
        after: Back("is as before the start again: it was removed"),
    },
    Row {
        name: ".envrc",
        outside: "cp -p .envrc new; mv new .envrc",
        command: "ln .envrc other",
        after: Back("after another program replaced it"),
    },
    Row {
        name: ".envrc",
        outside: "cp -p .envrc new; mv new .envrc",
        command: "chmod 777 .envrc",
        after: Back("after another program replaced it"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "ln .git/config .git/objects/other",
        after: Back("it has another name"),
    },
    Row {
        name: ".git/config",
        outside: "git config user.name Person",
        command: "chmod 666 .git/config",
        after: Back("it has more permissions"),
    },
    Row {
        name: "sub/.mcp.json",
        outside: "mv sub aside; mkdir sub",
        command: "echo evil > sub/.mcp.json",
        after: Back("after another program replaced it"),
    },
    Row {
        name: ".mcp.json",
        outside: "echo '[]' > new; mv new .mcp.json",
        command: "echo evil > mine; mv mine .mcp.json",
        after: Back("a new name, after another program replaced it"),
    },
    Row {
        name: ".vscode",
        outside: "mv .vscode old; mkdir .vscode",
        command: "echo evil > .vscode/tasks.json",
        after: Gone("a new name, after another program replaced it"),
    },
    Row {
        name: ".codex",
        outside: "echo small > new; mv new .codex",
        command: "echo evil > .codex",
        after: Gone("a new name, after another program replaced it"),
    },
    Row {
        name: "conf/idea",
        outside: "echo new > new; mv new conf/idea",
        command: "echo evil > conf/idea",
        after: Back("the link"),
    },
    Row {
        name: ".env",
        outside: "echo new > new; mv new .env",
        command: "echo evil >> .env",
        after: Back("a new name, after another program replaced it"),
    },
];

#[test]
fn what_another_program_replaces_is_judged_after_the_end() {
    for mechanism in mount_layers(&World::new(&[])) {
        let prepare = |_: &World| ();
        UserWorld::each(prepare, |user| {
            for row in ROWS {
                check(user, mechanism, row);
            }
        });
    }
}

fn sh(user: &UserWorld, script: &str) {
    let mut command = user.program("/bin/sh".as_ref(), &["-ec", script]);
    assert!(command.status().unwrap().success(), "{script}");
}

fn check(user: &UserWorld, mechanism: &str, row: &Row) {
    sh(user, &format!("rm -rf ..?* .[!.]* *; {PREPARE}; mkfifo go"));
    let project = user.world.project();
    let path = project.join(row.name);
    let before = std::fs::read(&path).unwrap_or_default();
    let script = format!(": > started; read _ < go; {}", row.command);
    let args = ["exec", "--mechanism", mechanism, "--json", "--"];
    let mut command = user.command(&[&args[..], &["sh", "-c", &script]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    eventually("started", || project.join("started").exists());
    sh(user, row.outside);
    sh(user, "echo > go");
    let ran = crate::support::ran(child.wait_with_output().unwrap());
    let about = format!(
        "{mechanism}, user {}, {}: {}; {}: {}{}",
        user.id(),
        row.name,
        row.outside,
        row.command,
        ran.stdout,
        ran.stderr
    );
    assert_eq!(ran.code, 0, "{about}");
    let now = std::fs::read_to_string(&path).unwrap_or_default();
    let quarantine = project.join(".os-sandbox-quarantine");
    let why = match row.after {
        Stays(text) => {
            assert!(now.contains(text) && !quarantine.exists(), "{now}\n{about}");
            return;
        }
        Back(why) => {
            assert_eq!(now.as_bytes(), before, "{about}");
            why
        }
        Gone(why) => {
            assert!(!path.exists(), "{about}");
            why
        }
    };
    assert!(ran.stdout.contains(why), "{why}\n{about}");
    // Nothing is lost: what is no longer there is in the quarantine, unless it was removed.
    let is_kept = ran.stdout.contains("quarantine/");
    let was_removed = why.contains("remove") || why.contains("as before");
    assert!(is_kept || was_removed, "{about}");
    if row.name == ".envrc" && path.exists() {
        let meta = std::fs::metadata(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions());
        let owner = std::os::unix::fs::MetadataExt::uid(&meta);
        let expected: u32 = user.id().parse().unwrap();
        assert_eq!((mode & 0o777, owner), (0o750, expected), "{about}");
    }
}
