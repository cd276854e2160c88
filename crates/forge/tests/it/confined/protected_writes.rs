//! `forge review apply` and `forge quarantine restore` write no protected name while a command runs that
//! could have the file open, or would lose its mount over the name.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::exec::mechanisms;
use super::reviewed::has_overlays;
use super::users::UserWorld;
use crate::support::{Ran, World, eventually, ran};

/// Opens each file that forge prepares or has taken, until standard input ends; then writes to all of
/// them.
const WRITER: &str = "
import glob, os, select
files = {}
print('started', flush=True)
while not select.select([0], [], [], 0.005)[0]:
    for top in glob.glob('.forge-review-*') + glob.glob('.os-sandbox-quarantine*'):
        for at, _, names in os.walk(top):
            for path in [os.path.join(at, name) for name in names]:
                try:
                    if path not in files:
                        files[path] = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
                except OSError:
                    pass
for file in files.values():
    os.pwrite(file, b'evil', 0)
";

/// A file of the person's for each kind of change.
const PREPARE: &str = "git init -q; mkdir -p .vscode sub/.idea; echo mine > .vscode/tasks.json; \
                       echo mine > .mcp.json; echo mine > sub/.idea/x; echo mine > notes; \
                       echo fine > .git/hooks/pre-push; sleep 0.1";

/// One way to put something under a protected name.
struct Road {
    /// The script of the reviewed command, which also changes `ordinary`.
    changes: &'static str,
    /// Options of the reviewed command.
    options: &'static [&'static str],
    /// Arguments of `forge review apply`.
    apply: &'static [&'static str],
    /// The name that is refused.
    name: &'static str,
}

const UNPROTECTED: &[&str] = &["-c", "sandbox.unprotect=[.vscode,.mcp.json]"];

const fn road(
    changes: &'static str,
    options: &'static [&'static str],
    apply: &'static [&'static str],
    name: &'static str,
) -> Road {
    Road {
        changes,
        options,
        apply,
        name,
    }
}

const ROADS: [Road; 12] = [
    road(
        "git remote add origin https://example.com/x.git",
        &[],
        &[],
        ".git/config",
    ),
    road(
        "echo shown > .bashrc",
        &[],
        &["--include-protected", ".bashrc"],
        ".bashrc",
    ),
    road(
        "ln -s notes .bashrc",
        &[],
        &["--include-protected", ".bashrc"],
        ".bashrc",
    ),
    road(
        "mv notes .bashrc",
        &[],
        &["--include-protected", ".bashrc"],
        ".bashrc",
    ),
    road(
        "mkdir -p .claude/deep; echo shown > .claude/deep/settings.json",
        &[],
        &["--include-protected", ".claude"],
        ".claude",
    ),
    road(
        "git init -q sub/new; echo shown > sub/new/.git/hooks/pre-push",
        &[],
        &["--include-protected", "sub/new/.git"],
        "sub/new/.git/",
    ),
    // The reviewed command may change these names, and the one that runs may not.
    road("echo shown > .mcp.json", UNPROTECTED, &[], ".mcp.json"),
    road(
        "echo shown >> .mcp.json",
        UNPROTECTED,
        &["--hunk", ".mcp.json:2"],
        ".mcp.json",
    ),
    road("rm -f .mcp.json", UNPROTECTED, &[".mcp.json"], ".mcp.json"),
    road(
        "echo shown > .vscode/tasks.json",
        UNPROTECTED,
        &[],
        ".vscode/tasks.json",
    ),
    road(
        "echo shown > .vscode/new.json",
        UNPROTECTED,
        &[".vscode"],
        ".vscode/new.json",
    ),
    road(
        "chmod 755 .vscode/tasks.json",
        UNPROTECTED,
        &[".vscode/tasks.json"],
        ".vscode/tasks.json",
    ),
];

fn prepare(world: &World) {
    world.shell(PREPARE);
}

fn world() -> World {
    let world = World::new(&[]);
    prepare(&world);
    world
}

/// Puts the files of the person back.
fn renew(user: &UserWorld) {
    let script = format!("rm -rf .[!.]* *; {PREPARE}");
    let mut command = user.program("/bin/sh".as_ref(), &["-ec", &script]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(command.status().unwrap().success());
}

fn review(user: &UserWorld, road: &Road) {
    let script = format!("echo made > ordinary; {}", road.changes);
    let command = ["--", "sh", "-ec", &script];
    let args = [&["exec", "--review"], road.options, &command].concat();
    user.forge(&args).code(0);
}

/// A command that runs until its standard input ends.
struct Running(Child);

impl Running {
    fn start(user: &UserWorld, options: &[&str]) -> Running {
        let args = [&["exec"], options, &["--", "python3", "-c", WRITER]].concat();
        let running = Running::spawn(user.command(&args));
        running.unwrap_or_else(|line| panic!("{options:?}: {line}"))
    }

    /// Starts a command, and returns its first line if it is not that of the writer.
    fn spawn(mut command: Command) -> Result<Running, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        match line == "started\n" {
            true => Ok(Running(child)),
            false => Err(line),
        }
    }

    fn end(mut self) -> Ran {
        drop(self.0.stdin.take());
        ran(self.0.wait_with_output().unwrap())
    }
}

fn text(user: &UserWorld, name: &str) -> Option<String> {
    let path = user.world.project().join(name);
    let link = fs::read_link(&path).ok();
    let link = link.map(|to| format!("-> {}", to.display()));
    let mode = |path: &Path| Some(fs::symlink_metadata(path).ok()?.permissions().mode());
    let file = fs::read_to_string(&path).ok();
    let state = link.or(file).or_else(|| path.is_dir().then(String::new))?;
    Some(format!("{:o} {state}", mode(&path)?))
}

#[test]
fn an_apply_waits_for_the_commands_that_a_name_is_protected_from() {
    if !has_overlays() {
        return;
    }
    for mechanism in mechanisms(&world()) {
        UserWorld::each(prepare, |user| {
            let mut failures = Vec::new();
            let running = Running::start(user, &["--mechanism", mechanism]);
            for road in &ROADS {
                let at = format!("{mechanism}, user {}: {}", user.id(), road.changes);
                review(user, road);
                let before = text(user, road.name);
                let refused = user.forge(&[&["review", "apply"], road.apply].concat());
                let process = format!("process {}", running.0.id());
                let told = [
                    road.name,
                    "python3",
                    &process,
                    "nothing was applied",
                    "forge review apply",
                ];
                let is_told = told.iter().all(|text| refused.stderr.contains(text));
                if refused.code != 1 || !is_told || text(user, road.name) != before {
                    failures.push(format!("{at}: {} {}", refused.code, refused.stderr));
                    // For the next row.
                    let path = user.world.project().join(road.name);
                    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                }
                let other = user.forge(&["review", "apply", "ordinary"]);
                if other.code != 0 {
                    failures.push(format!("{at}: {}", other.stderr));
                }
                fs::remove_file(user.world.project().join("ordinary")).unwrap();
                user.forge(&["review", "discard", "--all"]).code(0);
            }
            let ended = running.end();
            if ended.stderr.contains("quarantine") {
                failures.push(format!("{mechanism}, user {}: {}", user.id(), ended.stderr));
            }
            assert!(failures.is_empty(), "{}", failures.join("\n"));
            for road in &ROADS {
                review(user, road);
                let before = text(user, road.name);
                let applied = user.forge(&[&["review", "apply"], road.apply].concat());
                applied.code(0);
                assert_ne!(text(user, road.name), before, "{}", road.changes);
                user.forge(&["review", "discard", "--all"]).code(0);
                renew(user);
            }
        });
    }
}

/// Commands that cannot write the project's files, or may write the name.
#[test]
fn an_apply_does_not_wait_for_other_commands() {
    if !has_overlays() {
        return;
    }
    let elsewhere = |user: &UserWorld| user.world.outside().join("elsewhere");
    UserWorld::each(
        |world| {
            prepare(world);
            fs::create_dir_all(world.outside().join("elsewhere/.git")).unwrap();
        },
        |user| {
            let other = elsewhere(user);
            let other = ["-C", other.to_str().unwrap()];
            let all: [&[&str]; 4] = [&["--review"], &["--review=copy"], &["--read-only"], &other];
            for options in all {
                let running = Running::start(user, options);
                for road in &ROADS {
                    review(user, road);
                    let before = text(user, road.name);
                    let applied = user.forge(&[&["review", "apply", "last"], road.apply].concat());
                    applied.code(0);
                    assert_ne!(text(user, road.name), before, "{}", road.changes);
                    user.forge(&["review", "discard", "last"]).code(0);
                    renew(user);
                }
                running.end();
                user.forge(&["review", "discard", "--all"]);
            }
        },
    );
}

/// The files that a sweep takes: by their names in the project, below the quarantine, or all.
#[test]
fn a_restore_waits_for_the_commands_that_could_have_the_file_open() {
    const HOOK: &str = ".git/hooks/pre-commit";
    for mechanism in mechanisms(&world()) {
        UserWorld::each(prepare, |user| {
            let mut failures = Vec::new();
            let running = Running::start(user, &["--mechanism", mechanism]);
            let makes = format!("echo fine > {HOOK}; mkdir new; echo fine > new/.mcp.json");
            let taken = ["exec", "--mechanism", "landlock", "--", "sh", "-c", &makes];
            user.forge(&taken).code(0);
            let process = format!("process {}", running.0.id());
            for which in [HOOK, "new", "--all", ".os-sandbox-quarantine"] {
                let refused = user.forge(&["quarantine", "restore", which]);
                let told = ["python3", &process, "nothing was moved"];
                let is_told = told.iter().all(|text| refused.stderr.contains(text));
                if refused.code != 1 || !is_told || text(user, HOOK).is_some() {
                    let (code, told) = (refused.code, refused.stderr);
                    failures.push(format!("{mechanism}, user {}: {code} {told}", user.id()));
                }
            }
            running.end();
            assert!(failures.is_empty(), "{}", failures.join("\n"));
            assert_eq!(text(user, HOOK), None);
        });
    }
}

/// The lock of starts, in the state directory of commands.
fn starts(user: &UserWorld) -> PathBuf {
    let state = user.world.outside().join("home/.local/state/os-sandbox");
    state.join("starts")
}

fn open_starts(user: &UserWorld) -> File {
    user.forge(&["exec", "--", "true"]).code(0);
    let lock = File::options().read(true).write(true).open(starts(user));
    lock.unwrap()
}

/// Waits until a process has opened the lock, or has ended.
fn until_opened(user: &UserWorld, child: &mut Child) -> bool {
    let files = format!("/proc/{}/fd", child.id());
    let starts = starts(user);
    let is_open = || {
        let files = fs::read_dir(&files).into_iter().flatten().flatten();
        let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
        files.any(|path| path == starts)
    };
    let mut is_opened = false;
    eventually("opened", || {
        is_opened = is_open();
        is_opened || child.try_wait().unwrap().is_some()
    });
    is_opened
}

/// A command that starts between the check and the write waits.
#[test]
fn starts_and_writes_wait_for_each_other() {
    UserWorld::each(prepare, |user| {
        let lock = open_starts(user);
        lock.lock().unwrap();
        let mut child = user
            .command(&["exec", "--", "touch", "made"])
            .spawn()
            .unwrap();
        assert!(until_opened(user, &mut child), "the start takes no lock");
        assert_eq!(text(user, "made"), None);
        lock.unlock().unwrap();
        assert!(child.wait().unwrap().success());
        assert!(text(user, "made").is_some());

        let taken = ["exec", "--", "sh", "-c", "mkdir new; echo > new/.mcp.json"];
        user.forge(&taken).code(0);
        let mut writes = vec![vec!["quarantine", "restore", "new/.mcp.json"]];
        if has_overlays() {
            review(user, &ROADS[1]);
            writes.push([&["review", "apply"], ROADS[1].apply].concat());
        }
        for (args, name) in writes.iter().zip(["new/.mcp.json", ROADS[1].name]) {
            lock.lock_shared().unwrap();
            let mut child = user.command(args).spawn().unwrap();
            assert!(until_opened(user, &mut child), "{args:?} takes no lock");
            assert_eq!(text(user, name), None, "{args:?}");
            lock.unlock().unwrap();
            assert!(child.wait().unwrap().success(), "{args:?}");
            assert!(text(user, name).is_some(), "{args:?}");
        }
    });
}

/// A command that cannot be recorded, because its state directory takes no file.
#[test]
fn a_command_without_a_record_counts_too() {
    let user = UserWorld::ordinary(prepare);
    drop(open_starts(&user));
    let taken = ["exec", "--", "sh", "-c", "mkdir new; echo > new/.mcp.json"];
    user.forge(&taken).code(0);
    // Its record is larger than a file may be.
    for number in 0..1000 {
        user.world.write(&format!("many/{number}/.envrc"), "mine");
    }
    user.own_everything();
    let forge = user.world.outside().join("forge");
    let forge = forge.to_str().unwrap();
    let limited = [
        "--fsize=250000",
        forge,
        "exec",
        "--",
        "python3",
        "-c",
        WRITER,
    ];
    let running = Running::spawn(user.program("/usr/bin/prlimit".as_ref(), &limited)).unwrap();
    let refused = user.forge(&["quarantine", "restore", "new"]);
    let ended = running.end();
    refused
        .code(1)
        .says(&["without a record", "nothing was moved"]);
    assert_eq!(text(&user, "new/.mcp.json"), None);
    ended.says(&["without a record"]);
    user.forge(&["quarantine", "restore", "new"]).code(0);
}
