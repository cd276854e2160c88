//! One row for each way out or way to hang that we know of. After each row the host is as before:
//! inside and outside, names, bytes, modes and times.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use file_sandbox::{Error, ErrorKind, FileSandbox, ListOptions, SandboxPath};

use crate::scene::{Scene, path};

#[derive(Clone, Copy, Debug)]
enum Do {
    Read,
    ReadBytes,
    Write,
    Delete,
    List,
    Stat,
    Exists,
    Resolve,
}

const EVERY: &[Do] = &[
    Do::Read,
    Do::ReadBytes,
    Do::Write,
    Do::Delete,
    Do::List,
    Do::Stat,
    Do::Exists,
    Do::Resolve,
];
/// A link out may itself be deleted: only its own name goes.
const THROUGH: &[Do] = &[
    Do::Read,
    Do::ReadBytes,
    Do::Write,
    Do::List,
    Do::Stat,
    Do::Exists,
    Do::Resolve,
];
const READS: &[Do] = &[Do::Read, Do::ReadBytes];
const CHANGES: &[Do] = &[Do::Write, Do::Delete];
const WRITE: &[Do] = &[Do::Write];
const DELETE: &[Do] = &[Do::Delete];

use ErrorKind::{
    Escape, InvalidPath, Loop, NameTooLong, NotAFile, NotFound, OutsideSandbox, ReadOnly,
    SuffixNotAllowed, TooLarge,
};

/// Path, what is tried, what comes of it.
const ROWS: &[(&str, &[Do], ErrorKind)] = &[
    // Climbing by text.
    ("../outside/secret.txt", EVERY, OutsideSandbox),
    ("/data/../../outside/secret.txt", EVERY, OutsideSandbox),
    ("/data/sub/../../../x", EVERY, OutsideSandbox),
    ("/data/../outside/secret.txt", EVERY, OutsideSandbox),
    // Not ours: absolute, or with a prefix that only looks right (CVE-2025-53110).
    ("/etc/passwd", EVERY, OutsideSandbox),
    ("/proc/self/environ", EVERY, OutsideSandbox),
    ("/data_evil/secret.txt", EVERY, OutsideSandbox),
    ("/dat/a.md", EVERY, OutsideSandbox),
    ("/DATA/a.md", EVERY, OutsideSandbox),
    ("/new.txt", CHANGES, OutsideSandbox),
    // Links out (CVE-2025-53109, CVE-2024-38358, CVE-2026-39861).
    ("/data/out_abs", THROUGH, Escape),
    ("/data/out_rel", THROUGH, Escape),
    ("/data/out_dir", THROUGH, Escape),
    ("/data/out_dir/secret.txt", EVERY, Escape),
    ("/data/out_dir/new/deep.txt", EVERY, Escape),
    ("/data/out_chain", THROUGH, Escape),
    ("/data/out_new", THROUGH, Escape),
    ("/data/out_evil", THROUGH, Escape),
    ("/data/out_climb", THROUGH, Escape),
    ("/data/out_abs_climb", THROUGH, Escape),
    ("/data/here/in_dir/../out_rel", THROUGH, Escape),
    ("/data/root", THROUGH, Escape),
    ("/data/root/etc/passwd", EVERY, Escape),
    ("/data/proc_root/etc/passwd", EVERY, Escape),
    // Slashes and dots at the end, in the path and in the link (GHSA-hp8f-xmx4-4qrg, CVE-2026-39822).
    ("/data/out_rel/", THROUGH, Escape),
    ("/data/out_dir/", THROUGH, Escape),
    ("/data/out_dir/.", THROUGH, Escape),
    ("/data/out_dir_slash", THROUGH, Escape),
    ("/data/out_dir_slash/", THROUGH, Escape),
    ("/data/new.txt/", WRITE, NotAFile),
    ("/data/in_dir/", DELETE, NotAFile),
    // Special files: neither a wait nor a byte.
    ("/data/fifo", READS, NotAFile),
    ("/data/fifo", CHANGES, NotAFile),
    ("/data/to_fifo", READS, NotAFile),
    ("/data/to_fifo", WRITE, NotAFile),
    ("/data/socket", READS, NotAFile),
    ("/data/socket", CHANGES, NotAFile),
    ("/data/fifo", &[Do::List, Do::Resolve], NotAFile),
    // Links that lead nowhere or round.
    ("/data/dangling", READS, NotFound),
    ("/data/dangling_climb", READS, NotFound),
    ("/data/dangling_climb", WRITE, NotFound),
    ("/data/loop_a", THROUGH, Loop),
    ("/data/self", THROUGH, Loop),
    ("/data/loop_a/x", EVERY, Loop),
    // Modes, also through a link into another mount (CVE-2026-25724).
    ("/ref/r.md", CHANGES, ReadOnly),
    ("/ref/new/x.md", WRITE, ReadOnly),
    ("/ref/to_data", CHANGES, ReadOnly),
    ("/data/to_ref", WRITE, ReadOnly),
    ("/data/../ref/new.md", WRITE, ReadOnly),
    // Protected names, by case, by link, absent (CVE-2025-59944, CVE-2026-25725).
    ("/data/.git/hooks/pre-commit", CHANGES, ReadOnly),
    ("/data/.git/hooks/new", WRITE, ReadOnly),
    ("/data/.GIT/HOOKS/new", WRITE, ReadOnly),
    ("/data/sub/.git/hooks/new", WRITE, ReadOnly),
    ("/data/.git/config", CHANGES, ReadOnly),
    ("/data/to_hooks/pre-commit", CHANGES, ReadOnly),
    ("/data/to_hook", WRITE, ReadOnly),
    ("/data/.git/x/../hooks/new", WRITE, ReadOnly),
    ("/data/key.pem", CHANGES, ReadOnly),
    ("/data/KEY.PEM", WRITE, ReadOnly),
    ("/data/new.pem/x", WRITE, ReadOnly),
    ("/data/.mcp.json", WRITE, ReadOnly),
    // Hidden names are absent, and cannot be made.
    ("/data/.env", READS, NotFound),
    ("/data/.env", &[Do::Stat, Do::List, Do::Delete], NotFound),
    ("/data/.ENV", READS, NotFound),
    ("/data/to_env", READS, NotFound),
    ("/data/here/.env", READS, NotFound),
    ("/data/.env", WRITE, ReadOnly),
    ("/data/to_env", WRITE, ReadOnly),
    ("/data/.env.local/x", WRITE, ReadOnly),
    ("/data/.forge-tmp-1", READS, NotFound),
    ("/data/.forge-tmp-1", WRITE, InvalidPath),
    // Hard links: another name lies outside (nullclaw#71).
    ("/data/hard.txt", WRITE, ReadOnly),
    // The root of a mount, by many spellings.
    ("/data", DELETE, ReadOnly),
    ("/data/", DELETE, ReadOnly),
    ("data", DELETE, ReadOnly),
    ("./data/.", DELETE, ReadOnly),
    ("/data/sub/..", DELETE, ReadOnly),
    ("/data/missing/..", DELETE, ReadOnly),
    ("//data//", DELETE, ReadOnly),
    ("/ref/../data", DELETE, ReadOnly),
    ("/", DELETE, ReadOnly),
    ("/", WRITE, ReadOnly),
    ("/data", WRITE, NotAFile),
    ("/data/here/", DELETE, NotAFile),
    // The wrong type.
    ("/data/sub", READS, NotAFile),
    ("/data/sub", WRITE, NotAFile),
    ("/data/sub", DELETE, NotAFile),
    ("/data", READS, NotAFile),
    ("/", READS, NotAFile),
    ("/data/a.md", &[Do::List], NotAFile),
    (
        "/data/a.md/x",
        &[Do::Read, Do::Write, Do::Delete, Do::List, Do::Stat],
        NotAFile,
    ),
    ("/data/in_rel/x", &[Do::Read, Do::Write], NotAFile),
    // Limits, by the name asked for and by that of the file.
    ("/docs/tool.exe", READS, SuffixNotAllowed),
    ("/docs/tool.exe", CHANGES, SuffixNotAllowed),
    ("/docs/tool.md", READS, SuffixNotAllowed),
    ("/docs/tool.md", WRITE, SuffixNotAllowed),
    ("/docs/a.md.exe", WRITE, SuffixNotAllowed),
    ("/docs/none.exe", READS, SuffixNotAllowed),
    ("/docs/big.md", READS, TooLarge),
    // Texts that are no paths.
    ("", EVERY, InvalidPath),
    ("/data/a\0b", EVERY, InvalidPath),
    ("~/x", EVERY, InvalidPath),
    ("C:\\x", EVERY, InvalidPath),
    ("\\\\server\\share\\x", EVERY, InvalidPath),
    ("/data/..\\..\\x", EVERY, InvalidPath),
    // Plain absence.
    (
        "/data/none",
        &[Do::Read, Do::ReadBytes, Do::Delete, Do::List, Do::Stat],
        NotFound,
    ),
    (
        "/data/none/deep",
        &[Do::Read, Do::Delete, Do::List, Do::Stat],
        NotFound,
    ),
];

fn attempt(files: &FileSandbox, what: Do, text: &str) -> Result<(), Error> {
    let path = SandboxPath::parse(text)?;
    match what {
        Do::Read => files.read(&path, Default::default()).map(drop),
        Do::ReadBytes => files.read_bytes(&path, 1 << 20).map(drop),
        Do::Write => files.write(&path, "evil", Default::default()).map(drop),
        Do::Delete => files.delete(&path),
        Do::List => files.list(&path, ListOptions::new()).map(drop),
        Do::Stat => files.stat(&path).map(drop),
        Do::Exists => files.exists(&path).map(drop),
        Do::Resolve => files.resolve(&path).map(drop),
    }
}

#[test]
fn every_row_is_refused_and_changes_nothing() {
    every_row(&Scene::new());
}

/// A root below `/data` takes the fast way through the kernel away, so this is the walk alone.
#[test]
fn every_row_by_the_walk_alone() {
    every_row(&Scene::with_nested_root());
}

fn every_row(scene: &Scene) {
    let before = scene.picture();
    for (text, what, kind) in ROWS {
        for what in *what {
            check(scene, *what, text, *kind);
            assert_eq!(scene.picture(), before, "{what:?} {text}");
        }
    }
}

/// Runs one attempt under a watchdog: what must not block, might.
fn check(scene: &Scene, what: Do, text: &str, kind: ErrorKind) {
    let (done, answer) = mpsc::channel();
    let files = scene.files.clone();
    let owned = text.to_owned();
    thread::spawn(move || done.send(attempt(&files, what, &owned)));
    let result = answer
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{what:?} {text:?} blocks"));
    match result {
        Ok(()) => panic!("{what:?} {text:?} was allowed"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{what:?} {text:?}: {error}");
            let host = scene.host.path().to_str().unwrap();
            assert!(!error.to_string().contains(host), "{error}");
            assert!(!format!("{error:?}").contains(host), "{error:?}");
            assert!(!error.to_string().contains("zone"), "{error}");
        }
    }
    let queries = scene.files.clone();
    if let Ok(path) = SandboxPath::parse(text) {
        // A query never panics, and never promises what the operation refuses.
        match what {
            Do::Read => {
                let by_content = [NotFound, NotAFile, TooLarge].contains(&kind);
                assert!(!queries.can_read(&path) || by_content, "can_read {text}");
            }
            Do::Write => {
                let a_directory = kind == NotAFile;
                assert!(!queries.can_write(&path) || a_directory, "can_write {text}");
            }
            _ => {}
        }
    }
}

#[test]
fn names_and_paths_that_are_too_long() {
    let scene = Scene::new();
    let before = scene.picture();
    let name = format!("/data/{}", "n".repeat(256));
    let long = format!("/data/{}", "d/".repeat(2500));
    let unicode = format!("/data/{}", "é".repeat(128));
    for text in [name, long, unicode] {
        for what in EVERY {
            check(&scene, *what, &text, NameTooLong);
        }
    }
    assert_eq!(scene.picture(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_refused() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let scene = Scene::new();
    let device = scene.at("data/zero");
    let made = mknodat(
        CWD,
        &device,
        FileType::CharacterDevice,
        Mode::RUSR,
        makedev(1, 5),
    );
    if let Err(error) = made {
        eprintln!("skipped: making a device needs root ({error})");
        return;
    }
    for what in [Do::Read, Do::ReadBytes, Do::Write, Do::Delete, Do::List] {
        check(&scene, what, "/data/zero", NotAFile);
    }
}

#[test]
fn deleting_a_link_out_removes_its_name_only() {
    let scene = Scene::new();
    for name in [
        "out_abs",
        "out_rel",
        "out_dir",
        "out_chain",
        "loop_a",
        "dangling",
        "to_fifo",
    ] {
        scene
            .files
            .delete(&path(&format!("/data/{name}")))
            .expect(name);
        assert!(
            scene.at("data").join(name).symlink_metadata().is_err(),
            "{name}"
        );
    }
    assert_eq!(scene.host_text("outside/secret.txt"), "secret");
    assert_eq!(scene.host_text("outside/dir/x.txt"), "secret x");
}

#[test]
fn a_mount_without_a_host_path_refuses_every_absolute_link() {
    let scene = Scene::new();
    let authority = cap_std::ambient_authority();
    let dir = cap_std::fs::Dir::open_ambient_dir(scene.at("data"), authority).unwrap();
    let mount = file_sandbox::Mount::new(path("/data"), dir, file_sandbox::Mode::ReadWrite);
    let files = FileSandbox::new(vec![mount]).unwrap();
    let read = |name: &str| files.read(&path(name), Default::default());
    assert_eq!(read("/data/in_abs").unwrap_err().kind(), Escape);
    assert_eq!(read("/data/in_rel").unwrap().content, "text b");
}
