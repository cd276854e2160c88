//! git changes a repository's configuration. What it then would execute, obey or do elsewhere is
//! refused; with `sandbox.unprotect: [.git/config]`, and under Landlock alone, it is undone before
//! anybody gets the result.

use super::exec::{mechanisms, mount_layers};
use super::reviewed::has_overlays;
use crate::support::{Ran, World, eventually, forge_program, ran};
use rustix::fs::FlockOperation;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

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
        "git config pull.rebase true && git config --unset pull.rebase",
        None,
    ),
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
    (
        "echo '[core' > .git/config",
        Some("it has the unusual line [core"),
    ),
    (
        "rm .git/config && ln -s ../evil .git/config",
        Some("it is a link"),
    ),
    (
        "mv .git/config kept && mkdir .git/config",
        Some("what was there before is there again"),
    ),
    ("rm .git/config", Some("is as before the start again")),
];

fn repository() -> World {
    let world = World::new(&[("a", "a\n")]);
    for script in [
        "git init -q -b main && git add a && git -c user.name=a -c user.email=a@b commit -qm first",
        "git init -q --bare -b main hub.git",
    ] {
        let made = world.command("/bin/sh".as_ref(), &["-ec", script]).output();
        assert!(made.unwrap().status.success(), "{script}");
    }
    world
}

fn exec(world: &World, mechanism: &str, script: &str) -> Ran {
    exec_with(world, &["--mechanism", mechanism], script)
}

fn exec_with(world: &World, options: &[&str], script: &str) -> Ran {
    let command = ["--", "sh", "-c", script];
    world.forge(&[&["exec"], options, &command].concat())
}

const UNPROTECTED: [&str; 2] = ["-c", "sandbox.unprotect=[.git/config]"];

/// Runs every row, one after the other, in one repository. `check` looks at what came of a harmful one,
/// which never changes the file.
fn run_rows(world: &World, options: &[&str], check: impl Fn(&str, &str, &Ran)) {
    let config = world.project().join(".git/config");
    let text = || std::fs::read_to_string(&config).unwrap();
    for (script, harm) in ROWS {
        let before = text();
        let ran = exec_with(world, options, script);
        let about = format!("{options:?} {script}: {}{}", ran.stdout, ran.stderr);
        match harm {
            None => assert!(
                ran.code == 0 && !ran.stderr.contains("quarantined"),
                "{about}"
            ),
            Some(why) => {
                assert_eq!(before, text(), "{about}");
                check(script, why, &ran);
            }
        }
        assert!(!config.with_extension("lock").exists(), "{about}");
    }
    let after = text();
    for kept in ["remote \"hub\"", "branch \"main\"", "branch \"topic\""] {
        assert!(after.contains(kept), "{options:?}: {after}");
    }
    assert!(!after.contains("evil"), "{options:?}: {after}");
}

#[test]
fn what_git_writes_stays_and_what_it_would_obey_does_not() {
    let unprotected = mechanisms(&World::new(&[]))
        .into_iter()
        .map(|one| (one, &UNPROTECTED[..]));
    for (mechanism, options) in unprotected.chain([("landlock", &[][..])]) {
        let world = repository();
        if exec(&world, mechanism, "true").code != 0 {
            continue;
        }
        let options = [&["--mechanism", mechanism], options].concat();
        run_rows(&world, &options, |script, why, ran| {
            assert!(
                ran.stderr.contains(why),
                "{options:?} {script}: {}",
                ran.stderr
            );
        });
    }
}

/// Under a mount layer each change is judged when git makes it, and the file stays a mount.
#[test]
fn git_is_told_at_once_what_cannot_be_set() {
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        run_rows(&world, &["--mechanism", mechanism], |script, why, ran| {
            // git removes the keys of a remote's branches first.
            let why = match script.contains("remove") {
                true => "it no longer sets branch.main.",
                false => why,
            };
            let about = format!("{mechanism} {script}: {}", ran.stderr);
            // Only git makes a lock file, and a failure about a branch is not in its exit code.
            let is_told = script.starts_with("git") && !script.starts_with("git branch");
            assert_eq!(
                is_told,
                ran.code != 0 && ran.stderr.contains(why),
                "{about}"
            );
            assert!(!ran.stderr.contains("quarantined"), "{about}");
        });
    }
}

/// Changes of the configuration of modules and bare repositories, and of the list of modules, each
/// with the reason if it is refused.
const MODULE_ROWS: &[(&str, Option<&str>)] = &[
    ("$git submodule -q add ./hub.git one", None),
    (
        "$git submodule -q add ./hub.git libs/two && $git commit -qm modules",
        None,
    ),
    (
        "$git submodule -q update --init && git submodule -q sync",
        None,
    ),
    (
        "git submodule set-branch -b main one && $git commit -qam branch",
        None,
    ),
    (
        "git -C libs/two config user.name Me && git -C one remote add x ../x",
        None,
    ),
    ("git -C one switch -qc topic --track origin/main", None),
    (
        "git submodule -q deinit -f one && $git submodule -q update --init",
        None,
    ),
    (
        "$git clone -q --recurse-submodules . copies && git -C copies/one log -1",
        None,
    ),
    ("git rm -q libs/two && $git commit -qm less", None),
    ("git -C hub.git config user.name Me", None),
    (
        "git -C hub.git config core.pager evil",
        Some("it sets core.pager"),
    ),
    (
        "git -C one config core.fsmonitor evil",
        Some("it sets core.fsmonitor"),
    ),
    (
        "git -C one config core.worktree /",
        Some("it changes core.worktree"),
    ),
    (
        "git -C one config --unset core.worktree",
        Some("it no longer sets core.worktree"),
    ),
    (
        "git -C one remote set-url origin /evil",
        Some("it changes remote.origin.url"),
    ),
    (
        "git config submodule.one.update '!evil'",
        Some("it sets submodule.one.update"),
    ),
    (
        "git config submodule.one.url ext::evil",
        Some("it sets submodule.one.url"),
    ),
    (
        "git config -f .gitmodules submodule.one.update '!evil'",
        Some("it sets submodule.one.update"),
    ),
    (
        "git config -f .gitmodules submodule.one.path ../evil",
        Some("it sets submodule.one.path"),
    ),
    (
        "git config -f .gitmodules submodule.one.url -evil",
        Some("it sets submodule.one.url"),
    ),
    (
        "git config -f .gitmodules submodule.../evil.path x",
        Some("it sets submodule.../evil.path"),
    ),
    (
        "git config -f .gitmodules core.pager evil",
        Some("it sets core.pager"),
    ),
];

#[test]
fn modules_and_bare_repositories_are_configured_too() {
    #[rustfmt::skip]
    const FILES: [&str; 5] = [
        ".git/config", ".gitmodules", "hub.git/config", ".git/modules/one/config",
        ".git/modules/libs/two/config",
    ];
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        world.shell("git push -q hub.git main && echo hub.git > .git/info/exclude");
        let texts = || FILES.map(|file| std::fs::read_to_string(world.project().join(file)).ok());
        for (script, harm) in MODULE_ROWS {
            let git = "git='git -c protocol.file.allow=always -c user.name=a -c user.email=a@b'";
            let before = texts();
            let ran = exec(&world, mechanism, &format!("{git}; {script}"));
            let about = format!("{mechanism} {script}: {}{}", ran.stdout, ran.stderr);
            assert!(!ran.stderr.contains("quarantined"), "{about}");
            let Some(why) = harm else {
                assert_eq!(ran.code, 0, "{about}");
                continue;
            };
            assert!(ran.code != 0 && ran.stderr.contains(why), "{about}");
            assert_eq!(before, texts(), "{about}");
        }
        // A project's own rule keeps the files.
        let options = [
            "--mechanism",
            mechanism,
            "-c",
            "sandbox.protect=[.gitmodules]",
        ];
        let script = "! git config -f .gitmodules submodule.one.branch x";
        exec_with(&world, &options, script).code(0);
    }
}

/// A change in a review is judged when git makes it, and once more when it is applied.
#[test]
fn changes_of_a_review_are_judged_and_applied() {
    for option in ["--review", "--review=copy"] {
        if option == "--review" && !has_overlays() {
            continue;
        }
        let world = repository();
        let config = world.project().join(".git/config");
        let text = || std::fs::read_to_string(&config).unwrap();
        for (script, harm) in ROWS {
            let before = text();
            let ran = exec_with(&world, &[option], script);
            let about = format!("{option} {script}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(before, text(), "{about}");
            world.forge(&["review", "apply"]);
            let after = text();
            let Some(why) = harm else {
                assert_eq!(ran.code, 0, "{about}");
                let changes = !script.contains("--unset") || before.contains("name");
                assert_eq!(before != after, changes, "{about}");
                continue;
            };
            assert_eq!(before, after, "{about}");
            let is_told = script.starts_with("git") && !script.starts_with("git branch");
            let why = match script.contains("remove") {
                true => "branch.main.",
                false => why,
            };
            assert!(
                !is_told || ran.code != 0 && ran.stderr.contains(why),
                "{about}"
            );
            world.forge(&["review", "discard", "--all"]);
        }
        // A project's own rule keeps the file.
        let rule = [option, "-c", "sandbox.protect=[.git/config]"];
        exec_with(
            &world,
            &rule,
            "! git config user.name Other && ! echo >> .git/config",
        )
        .code(0);
        // Others can write it by this mode.
        exec_with(
            &world,
            &[option],
            "chmod 666 .git/config; git config user.name Other",
        );
        let before = text();
        world.forge(&["review", "apply"]);
        assert_eq!(before != text(), option == "--review=copy", "{option}");
        let mode = std::fs::metadata(&config).unwrap().permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&mode);
        assert_eq!(mode & 0o022, 0, "{option}");
    }
}

/// A command can remove its own additions, and the receipt lists each change.
#[test]
fn a_command_can_remove_its_own_additions() {
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        let config = world.project().join(".git/config");
        let before = std::fs::read_to_string(&config).unwrap();
        let ran = exec_with(
            &world,
            &["--mechanism", mechanism, "--json"],
            "git remote add x ./x && git remote remove x && ! git config core.pager evil",
        );
        ran.code(0);
        assert_eq!(before, std::fs::read_to_string(&config).unwrap());
        let changes: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let changes = changes.pointer("/enforcement/git_configs").cloned();
        let path = config.canonicalize().unwrap();
        let expected = serde_json::json!([
            { "path": path },
            { "path": path, "refused": "it sets core.pager" },
        ]);
        assert_eq!(changes, Some(expected), "{}", ran.stdout);
    }
}

/// Lock files of other programs, and settings under which git changes nothing.
#[test]
fn lock_files_of_other_programs_change_nothing() {
    const ADD: &str = "[remote \"x\"]\n\turl = ./x\n\tfetch = +refs/heads/*:refs/remotes/x/*\n";
    let lock = "lock=.git/config.lock; cp .git/config $lock; printf \"$ADD\" >> $lock";
    let rows = [
        ("the lock file of git", lock, true),
        (
            "a link",
            "printf \"$ADD\" > a; ln -s ../a .git/config.lock",
            false,
        ),
        ("a pipe", "mkfifo .git/config.lock", false),
        ("a directory", "mkdir .git/config.lock", false),
        (
            "a large file",
            "cp .git/config .git/config.lock; head -c 1100000 /dev/zero | tr '\\0' '\\n' >> .git/config.lock",
            false,
        ),
        (
            "bytes that are not UTF-8",
            "head -c 99 /dev/urandom > .git/config.lock",
            false,
        ),
        (
            "a mark at the start that git ignores",
            "(printf '\\357\\273\\277[core]\\npager = evil\\n'; cat .git/config) > .git/config.lock",
            false,
        ),
        (
            "a blank in quotes at the end of a value",
            "sed 's/bare = false/bare = \"false \"/' .git/config > .git/config.lock",
            false,
        ),
        (
            "a blank at the end that git keeps",
            "sed \"s/bare = false/bare = false$(printf '\\302\\240')/\" .git/config > .git/config.lock",
            false,
        ),
        ("an empty file", ": > .git/config.lock", false),
    ];
    for mechanism in mount_layers(&World::new(&[])) {
        for (what, make, changes) in rows {
            let world = repository();
            let config = world.project().join(".git/config");
            let before = std::fs::read_to_string(&config).unwrap();
            let script = format!("ADD='{ADD}'; {make}; mv -fT .git/config.lock .git/config");
            let ran = exec(&world, mechanism, &script);
            let after = std::fs::read_to_string(&config).unwrap();
            let about = format!("{mechanism} {what}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code == 0, changes, "{about}");
            assert_eq!(before != after, changes, "{about}");
        }
        for (what, outside, options) in [
            ("another name of the file", "ln .git/config other", &[][..]),
            (
                "a rule of the project",
                "",
                &["-c", "sandbox.protect=[.git/config]"],
            ),
            ("guards", "", &["-c", "require=guards"]),
            ("no reports", "", &["--trace=off"]),
        ] {
            let world = repository();
            world.shell(outside);
            let config = world.project().join(".git/config");
            let before = std::fs::read_to_string(&config).unwrap();
            let options = [&["--mechanism", mechanism], options].concat();
            let ran = exec_with(&world, &options, "! git remote add x ./x");
            let after = std::fs::read_to_string(&config).unwrap();
            assert_eq!(ran.code, 0, "{mechanism} {what}: {}", ran.stderr);
            assert_eq!(before, after, "{mechanism} {what}");
        }
    }
}

/// A program that exchanges the lock file while it is judged gets nothing past the judge.
#[test]
fn a_lock_file_that_changes_while_it_is_judged() {
    const SCRIPT: &str = "cp .git/config good; cp .git/config bad; printf '[user]\n\tname = x\n' >> good; \
        printf '[core]\n\tpager = evil\n' >> bad; lock=.git/config.lock; \
        (while :; do cp good $lock; cp bad $lock; done 2>/dev/null) & \
        i=0; while [ $i -lt 300 ]; do mv -fT $lock .git/config; i=$((i+1)); done 2>/dev/null; kill $!; \
        rm -f $lock";
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        let config = world.project().join(".git/config");
        exec(&world, mechanism, SCRIPT).code(0);
        let after = std::fs::read_to_string(&config).unwrap();
        assert!(
            after.contains("name = x"),
            "{mechanism}: never written\n{after}"
        );
        assert!(!after.contains("evil"), "{mechanism}: {after}");
    }
}

/// git gets an error from a forge that does not answer.
#[test]
fn a_forge_that_falls_silent_holds_nothing_up() {
    const SCRIPT: &str = ": > started; read _ < stopped; git config user.name Me; echo $? > result";
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        world.shell("mkfifo stopped");
        let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", SCRIPT];
        let mut command = world.command(forge_program(), &args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let project = world.project();
        eventually("started", || project.join("started").exists());
        signal(&child, "STOP");
        // One thread takes the signal and stops the others (signal(7)), which answer until then.
        eventually("stopped", || is_stopped(child.id()));
        std::fs::write(project.join("stopped"), "\n").unwrap();
        let result = || std::fs::read_to_string(project.join("result")).unwrap_or_default();
        eventually("answered", || result().ends_with('\n'));
        signal(&child, "CONT");
        ran(child.wait_with_output().unwrap()).code(0);
        assert_eq!(result(), "4\n", "{mechanism}");
        // forge drops a request that has waited for long.
        let config = std::fs::read_to_string(project.join(".git/config")).unwrap();
        assert!(!config.contains("Me"), "{mechanism}: {config}");
    }
}

fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        state.contains(") T ")
    })
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// The configurations beyond the bound stay as they are, and the receipt says so.
#[test]
fn the_bound_on_repositories_is_told() {
    let world = World::new(&[]);
    world.shell("git init -q first && for i in $(seq 256); do cp -a first r$i; done");
    for mechanism in mount_layers(&world) {
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--json", "--", "true"]);
        ran.code(0);
        let told = "git can change the configuration of 256 of 257 repositories";
        assert!(ran.stdout.contains(told), "{mechanism}: {}", ran.stdout);
    }
}

/// Two forges do not write one file at the same time: the second gets EBUSY.
#[test]
fn a_file_that_another_forge_writes_is_busy() {
    for mechanism in mount_layers(&World::new(&[])) {
        let world = repository();
        let path = world.project().join(".git/config");
        let file = std::fs::File::open(&path).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        // As the other forge locks it.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let ran = exec(&world, mechanism, "git config user.name Me");
        ran.code(4).says(&["Device or resource busy"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
        rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
        exec(&world, mechanism, "git config user.name Me").code(0);
    }
}

/// A full disk: the text grows by a page that the disk does not have, and the old one is put back.
#[test]
fn a_full_disk_leaves_the_old_text() {
    const DISK: &str = "mkdir disk; mount -t tmpfs -o size=1m tmpfs disk; cd disk; git init -q; \
        size=$(stat -c %s .git/config); \
        head -c $((4040 - size)) /dev/zero | tr '\\0' '#' >> .git/config; \
        echo >> .git/config; cp .git/config ../before; code=0; \
        \"$0\" exec --mechanism \"$1\" -- sh -c \"$2\" || code=$?; cmp ../before .git/config; \
        test ! -e .git/config.lock; \"$0\" exec --mechanism \"$1\" -- sh -c \"$3\"; exit $code";
    const SET: &str = "git config branch.$(head -c 120 /dev/zero | tr '\\0' b).remote origin";
    // The lock file has room.
    let full = format!(
        "cat /dev/zero > fill; truncate -s -8192 fill; {SET}; code=$?; rm fill; exit $code"
    );
    if !rustix::process::geteuid().is_root() {
        let _told = writeln!(std::io::stderr(), "skipped: only root mounts a small disk");
        return;
    }
    for mechanism in mount_layers(&World::new(&[])) {
        let world = World::new(&[]);
        let forge = forge_program();
        let own = ["-m", "--propagation", "private", "/bin/sh", "-ec", DISK];
        let words = [&own[..], &[forge.to_str().unwrap(), mechanism, &full, SET]].concat();
        let ran = ran(world.command("unshare".as_ref(), &words).output().unwrap());
        ran.code(4).says(&["No space left on device"]);
    }
}

/// Nothing else below `.git` can be changed by it, and a project's word for it needs a yes.
#[test]
fn it_is_about_this_one_name_and_needs_a_yes() {
    for mechanism in mechanisms(&World::new(&[])) {
        let world = repository();
        let ran = exec_with(
            &world,
            &[&["--mechanism", mechanism], &UNPROTECTED[..]].concat(),
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
        let append = "echo '# x' >> .git/config";
        let ran = exec(&world, mechanism, append);
        // Landlock alone does not keep it.
        assert_eq!(ran.code == 0, mechanism == "landlock", "{}", ran.stderr);
        ran.says(&["sandbox.unprotect"]);
        world.forge(&["trust", "--yes"]).code(0);
        exec(&world, mechanism, append).code(0);
    }
}

/// The state of a rebase lists commands, so it does not stay; its way back is told.
#[test]
fn a_rebase_that_stops_can_go_on_outside() {
    let world = repository();
    let outside = |script: &str| {
        let made = world.command("/bin/sh".as_ref(), &["-ec", script]).output();
        assert!(made.unwrap().status.success(), "{script}");
    };
    outside(
        "git config user.name a && git config user.email a@b && git checkout -qb topic && \
         echo b > a && git commit -qam b && git checkout -q main && echo c > a && \
         git commit -qam c && git checkout -q topic",
    );
    let ran = exec_with(&world, &[], "git rebase main");
    ran.code(1).says(&[
        ".git/rebase-merge",
        "/.git/rebase-merge && git rebase --continue",
        "-c git.mode=commit",
    ]);
    world
        .forge(&["quarantine", "restore", ".git/rebase-merge"])
        .code(0);
    outside("git rebase --abort && test \"$(git symbolic-ref --short HEAD)\" = topic");
}
