//! No operation makes a repository of a directory that is not called `.git`, and none changes what
//! git obeys in one that is there.

use file_sandbox::{DEFAULT_PROTECTED, ErrorKind, FileSandbox, Mode, Mount, MoveOptions};

use crate::scene::path;

/// What is there before, as files (`a/b`) and directories (`a/`); then what is tried.
struct Row {
    there: &'static [&'static str],
    attempt: Attempt,
    allowed: bool,
}

enum Attempt {
    Write(&'static str),
    MakeDir(&'static str),
    Copy(&'static str, &'static str),
    Move(&'static str, &'static str),
    Delete(&'static str),
}

use Attempt::{Copy, Delete, MakeDir, Move, Write};

const fn row(there: &'static [&'static str], attempt: Attempt, allowed: bool) -> Row {
    Row {
        there,
        attempt,
        allowed,
    }
}

const NO_HEAD: &[&str] = &["r/objects/", "r/refs/", "other", "o/objects/", "o/"];
const NO_REFS: &[&str] = &["r/HEAD", "r/objects/", "other", "o/refs/heads/"];
const WHOLE: &[&str] = &[
    "r/HEAD",
    "r/objects/",
    "r/refs/",
    "r/config",
    "r/hooks/x",
    "other",
    "o/x",
];

const ROWS: &[Row] = &[
    // The last part, in any way.
    row(NO_HEAD, Write("r/HEAD"), false),
    row(NO_HEAD, Write("r/head"), false),
    row(NO_HEAD, MakeDir("r/HEAD"), false),
    row(NO_HEAD, Copy("other", "r/HEAD"), false),
    row(NO_HEAD, Move("other", "r/HEAD"), false),
    row(NO_REFS, MakeDir("r/refs"), false),
    row(NO_REFS, Write("r/refs/heads/main"), false),
    row(NO_REFS, Move("o/refs", "r/refs"), false),
    row(NO_REFS, Write("r/commondir"), false),
    row(&["HEAD", "refs/"], Write("objects/x"), false),
    // Not the last part, or no part at all.
    row(NO_HEAD, Write("HEAD"), true),
    row(NO_HEAD, Write("r/config"), true),
    row(NO_HEAD, Write("r/HEADER"), true),
    row(NO_HEAD, Write("r/objects/HEAD"), true),
    row(NO_HEAD, Write("o/HEAD"), true),
    row(NO_REFS, Write("r/HEAD"), true),
    row(NO_REFS, Write("r/deep/refs/x"), true),
    row(NO_REFS, Delete("r/HEAD"), true),
    row(&["x"], Write("new/HEAD"), true),
    // In one that is there.
    row(WHOLE, Write("r/config"), false),
    row(WHOLE, Write("r/CONFIG"), false),
    row(WHOLE, Delete("r/config"), false),
    row(WHOLE, Move("r/config", "r/old"), false),
    row(WHOLE, Move("other", "r/config"), false),
    row(WHOLE, Write("r/config.worktree"), false),
    row(WHOLE, Write("r/commondir"), false),
    row(WHOLE, Write("r/hooks/x"), false),
    row(WHOLE, Write("r/hooks/deep/new"), false),
    row(WHOLE, Move("r/hooks", "r/aside"), false),
    row(WHOLE, Write("r/info/attributes"), false),
    row(WHOLE, Write("r/refs/heads/main"), true),
    row(WHOLE, Write("r/HEAD"), false),
    row(WHOLE, Write("r/rebase-merge/git-rebase-todo"), false),
    row(WHOLE, Write("r/remotes/origin"), false),
    row(WHOLE, Write("r/objects/info/alternates"), false),
    row(WHOLE, Write("r/objects/ab/cd"), true),
    row(WHOLE, Write("r/worktrees/a/config.worktree"), false),
    row(WHOLE, Write("r/readme"), true),
    row(WHOLE, Write("r/sub/config"), true),
    row(WHOLE, Write("config"), true),
];

fn attempt(files: &FileSandbox, attempt: &Attempt) -> Result<(), file_sandbox::Error> {
    attempt_with(files, attempt, "x")
}

fn attempt_with(
    files: &FileSandbox,
    attempt: &Attempt,
    content: &str,
) -> Result<(), file_sandbox::Error> {
    let at = |place: &str| path(&format!("/data/{place}"));
    let over = || MoveOptions::new().overwrite(true);
    match attempt {
        Write(place) => files
            .write(&at(place), content, Default::default())
            .map(drop),
        MakeDir(place) => files.create_dir(&at(place)).map(drop),
        Copy(from, to) => files.copy(&at(from), &at(to), over()).map(drop),
        Move(from, to) => files.rename(&at(from), &at(to), over()).map(drop),
        Delete(place) => files.delete(&at(place)).map(drop),
    }
}

fn shown(attempt: &Attempt) -> String {
    match attempt {
        Write(place) => format!("write {place}"),
        MakeDir(place) => format!("make {place}"),
        Copy(from, to) => format!("copy {from} {to}"),
        Move(from, to) => format!("move {from} {to}"),
        Delete(place) => format!("delete {place}"),
    }
}

#[test]
fn nothing_becomes_a_repository_by_another_name() {
    for row in ROWS {
        let what = format!("{} with {:?}", shown(&row.attempt), row.there);
        let dir = tempfile::tempdir().unwrap();
        for place in row.there {
            let at = dir.path().join(place);
            if place.ends_with('/') {
                std::fs::create_dir_all(&at).unwrap();
            } else {
                std::fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::fs::write(&at, "text").unwrap();
            }
        }
        let mount = |protect: &[&str]| {
            let mount = crate::scene::mount("/data", dir.path(), Mode::ReadWrite);
            FileSandbox::new(vec![mount.protect(protect).unwrap()]).unwrap()
        };
        let outcome = attempt(&mount(DEFAULT_PROTECTED), &row.attempt);
        match (&outcome, row.allowed) {
            (Ok(()), true) => {}
            (Err(error), false) => {
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{what}: {error}");
                // Where nobody protects a repository's names, these are names like others.
                let free = attempt(&mount(&["*.key"]), &row.attempt);
                assert!(free.is_ok(), "{what}: {free:?}");
            }
            (outcome, _) => panic!("{what}: {outcome:?}"),
        }
    }
}

/// The other half, which comes while the tool works.
enum Other {
    /// A command, once it sees the temporary file of the tool. What is whole at its end is taken away
    /// again, as by the scan after a command.
    Command,
    /// The tool of another process.
    Tool(Attempt),
}

/// Half is there before, one half comes by the tool, one by another process: git obeys the result of
/// no order.
#[test]
fn two_halves_at_once_make_no_repository() {
    let command = || Other::Command;
    let tool = |attempt| Other::Tool(attempt);
    // Long enough to be met in the middle.
    let large = "x".repeat(8 << 20);
    let rows: &[(&[&str], Attempt, Other)] = &[
        (&["r/objects/"], Write("r/HEAD"), command()),
        (&["r/objects/", "other"], Copy("other", "r/HEAD"), command()),
        (&["r/objects/", "r/HEAD"], Write("r/config"), command()),
        (
            &["r/objects/", "r/HEAD", "r/config"],
            Write("r/config"),
            command(),
        ),
        (
            &["r/objects/", "r/HEAD", "other"],
            Copy("other", "r/hooks/x"),
            command(),
        ),
        (&["r/objects/"], Write("r/HEAD"), tool(MakeDir("r/refs"))),
        (&["r/objects/"], MakeDir("r/refs"), tool(Write("r/HEAD"))),
        (
            &["r/objects/", "other"],
            Move("other", "r/HEAD"),
            tool(MakeDir("r/refs")),
        ),
        (
            &["r/HEAD", "o/refs/"],
            Move("o/refs", "r/refs"),
            tool(MakeDir("r/objects")),
        ),
        (&["r/"], Write("r/commondir"), tool(Write("r/HEAD"))),
    ];
    for (there, late, other) in rows {
        let is_command = matches!(other, Other::Command);
        let content = if is_command { &*large } else { "x" };
        let rounds = test_sample::count("halves of a repository: rounds", 100, 400);
        for round in 0..if is_command { 4 } else { rounds } {
            let dir = tempfile::tempdir().unwrap();
            for place in *there {
                let at = dir.path().join(place);
                std::fs::create_dir_all(if place.ends_with('/') {
                    &at
                } else {
                    at.parent().unwrap()
                })
                .unwrap();
                if !place.ends_with('/') {
                    std::fs::write(&at, if *place == "other" { content } else { "x" }).unwrap();
                }
            }
            let files = || {
                let mount = crate::scene::mount("/data", dir.path(), Mode::ReadWrite);
                FileSandbox::new(vec![mount.protect(DEFAULT_PROTECTED).unwrap()]).unwrap()
            };
            let has = |name: &str| dir.path().join("r").join(name).exists();
            let is_whole = || has("HEAD") && (has("objects") && has("refs") || has("commondir"));
            let (own, others) = (files(), files());
            let barrier = std::sync::Barrier::new(2);
            let is_done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| match other {
                    Other::Tool(half) => {
                        barrier.wait();
                        let _ = attempt_with(&others, half, "x");
                    }
                    Other::Command => {
                        barrier.wait();
                        let is_writing = || {
                            let mut places = ["r", "r/hooks"].iter().map(|at| dir.path().join(at));
                            places.any(|at| has_temporary(&at))
                        };
                        while !is_writing() && !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                        std::fs::create_dir(dir.path().join("r/refs")).unwrap();
                        if is_whole() && has(changed(late)) {
                            std::fs::remove_dir(dir.path().join("r/refs")).unwrap();
                        }
                    }
                });
                barrier.wait();
                let _ = attempt_with(&own, late, content);
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            assert!(
                !(is_whole() && has(changed(late))),
                "{}, {there:?}, round {round}",
                shown(late)
            );
        }
    }
}

/// A person moves the directory while the tool works: their file has the old content or the new one.
#[test]
fn a_directory_that_moves_away_loses_nothing() {
    let large = "x".repeat(8 << 20);
    let from_other: fn(&FileSandbox, &str) -> Result<(), file_sandbox::Error> = |files, _| {
        let over = MoveOptions::new().overwrite(true);
        files
            .copy(&path("/data/other"), &path("/data/r/index.ts"), over)
            .map(drop)
    };
    let write: fn(&FileSandbox, &str) -> Result<(), file_sandbox::Error> = |files, text| {
        files
            .write(&path("/data/r/index.ts"), text, Default::default())
            .map(drop)
    };
    for work in [write, from_other] {
        for _ in 0..8 {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            std::fs::create_dir(at("r")).unwrap();
            std::fs::write(at("r/index.ts"), "old").unwrap();
            std::fs::write(at("other"), &large).unwrap();
            let mount = crate::scene::mount("/data", dir.path(), Mode::ReadWrite);
            let files = FileSandbox::new(vec![mount.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
            let is_done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !has_temporary(&at("r")) {
                        if is_done.load(std::sync::atomic::Ordering::Relaxed) {
                            break;
                        }
                        std::hint::spin_loop();
                    }
                    std::fs::rename(at("r"), at("s")).unwrap();
                });
                let _ = work(&files, &large);
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let left = std::fs::read_to_string(at("s/index.ts")).unwrap();
            assert!(left == "old" || left == large, "{} bytes", left.len());
            assert!(!has_temporary(&at("s")));
        }
    }
}

/// The name in `r` that an attempt adds or changes.
fn changed(attempt: &Attempt) -> &'static str {
    match attempt {
        Write(place) | MakeDir(place) | Copy(_, place) | Move(_, place) | Delete(place) => {
            place.trim_start_matches("r/")
        }
    }
}

fn has_temporary(dir: &std::path::Path) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(".forge-tmp-"))
}

/// The same in memory, for one row: backends do alike.
#[test]
fn in_memory_as_well() {
    let mount = Mount::memory(path("/data"), Mode::ReadWrite);
    let files = FileSandbox::new(vec![mount.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
    attempt(&files, &MakeDir("r/objects")).unwrap();
    attempt(&files, &Write("r/HEAD")).unwrap();
    let error = attempt(&files, &MakeDir("r/refs")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Cannot create '/data/r/refs': path is read-only, because 'refs' is a protected name."
    );
}
