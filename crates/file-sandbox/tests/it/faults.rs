//! What a system that fails leaves behind: the old file or the new one, never half of one.
//!
//! The faults happen in processes of their own: this test program again, told by its environment
//! what to do.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use file_sandbox::{ErrorKind, FileSandbox, Mode, MoveOptions, ReadOptions, WriteOptions};

use crate::scene::{mount, path};

const DIR: &str = "FILE_SANDBOX_TEST_DIR";
const SIZE: usize = 256 * 1024;

fn sandbox(dir: &Path) -> FileSandbox {
    FileSandbox::new(vec![mount("/data", dir, Mode::ReadWrite)]).unwrap()
}

/// The directory that the parent chose.
fn given_dir() -> PathBuf {
    std::env::var_os(DIR).expect("run by another test").into()
}

/// This program, to run one of the tests that wait for it.
fn this(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.env(DIR, dir).stdin(Stdio::null());
    command
}

fn temporary(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with(".forge-tmp-"))
        .collect()
}

#[test]
fn killed_in_the_middle_of_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let files = sandbox(dir.path());
    files
        .write_bytes(&path("/data/f"), &vec![b'a'; SIZE], WriteOptions::new())
        .unwrap();
    let mut left = 0;
    for round in 0..500_u64 {
        let mut child = started(&mut this("faults::writes_until_killed", dir.path()));
        // Any moment of the loop: the steps do not divide its time evenly.
        thread::sleep(Duration::from_micros(round * 37 % 1_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes.len(), SIZE, "round {round}");
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "round {round}");
        assert!(temporary(dir.path()).len() <= 1, "round {round}");
        left += temporary(dir.path()).len();
    }
    // Otherwise no kill came in the middle.
    assert!(left > 0);
    files
        .write_bytes(&path("/data/other"), b"x", WriteOptions::new())
        .unwrap();
    assert_eq!(temporary(dir.path()), [""; 0]);
}

/// Waits until the child says that it has begun.
fn started(command: &mut Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let go = lines.map_while(Result::ok).any(|line| line.ends_with("go"));
    assert!(go, "the child did not begin");
    child
}

#[test]
#[ignore = "run and killed by another test"]
fn writes_until_killed() {
    let files = sandbox(&given_dir());
    println!("\ngo");
    for letter in (b'a'..=b'z').cycle() {
        files
            .write_bytes(&path("/data/f"), &vec![letter; SIZE], WriteOptions::new())
            .unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_space() {
    let dir = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=256k tmpfs \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(dir.path())
        .arg(exe)
        .args([
            "--exact",
            "faults::in_a_full_directory",
            "--ignored",
            "--nocapture",
        ])
        .env(DIR, dir.path())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: no unshare ({error})"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !said.contains("in_a_full_directory") {
        let why = String::from_utf8_lossy(&output.stderr);
        return eprintln!("skipped: no mount namespace for this user ({})", why.trim());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{why}"
    );
}

#[test]
#[ignore = "run by another test, on a file system of 256 KiB"]
fn in_a_full_directory() {
    let dir = given_dir();
    let files = sandbox(&dir);
    let at = path("/data/f");
    let part = vec![b'a'; 100 * 1024];
    files.write_bytes(&at, &part, WriteOptions::new()).unwrap();
    let more = vec![b'b'; 200 * 1024];
    let told = |error: file_sandbox::Error| {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let text = error.to_string();
        assert!(text.contains("no storage space"), "{text}");
    };
    let same = |why: &str| {
        assert_eq!(fs::read(dir.join("f")).unwrap(), part, "{why}");
        assert_eq!(temporary(&dir), [""; 0], "{why}");
    };
    told(
        files
            .write_bytes(&at, &more, WriteOptions::new())
            .unwrap_err(),
    );
    same("write");
    told(files.append(&at, &more).unwrap_err());
    same("append");
    let new = path("/data/new/dir/f");
    told(
        files
            .write_bytes(&new, &more, WriteOptions::new())
            .unwrap_err(),
    );
    assert!(
        !dir.join("new").exists(),
        "directories made on the way go again"
    );
    let copy = files.copy(&at, &path("/data/copy"), MoveOptions::new());
    copy.unwrap();
    told(
        files
            .copy(&at, &path("/data/copy2"), MoveOptions::new())
            .unwrap_err(),
    );
    assert!(!dir.join("copy2").exists());
    same("copy");
    files.delete(&path("/data/copy")).unwrap();
    files
        .write_bytes(&at, b"short", WriteOptions::new())
        .unwrap();
}

#[test]
fn no_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 32 && exec \"$@\"", "sh"])
        .arg(exe)
        .args([
            "--exact",
            "faults::with_few_descriptors",
            "--ignored",
            "--nocapture",
        ])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{why}"
    );
}

#[test]
#[ignore = "run by another test, with 32 descriptors at most"]
fn with_few_descriptors() {
    let dir = given_dir();
    let files = sandbox(&dir);
    let write = |at: &str, text: &str| files.write(&path(at), text, WriteOptions::new());
    write("/data/f", "old").unwrap();
    write("/data/t/1/2/3/f", "x").unwrap();
    let mut refused = 0;
    // One more descriptor is free in each round.
    for free in 0..8 {
        let mut held = Vec::new();
        while let Ok(file) = fs::File::open(dir.join("f")) {
            held.push(file);
        }
        held.truncate(held.len() - free);
        let new = format!("new {free}");
        let results = [
            write("/data/f", &new).map(drop),
            files.read(&path("/data/f"), ReadOptions::new()).map(drop),
            files.append(&path("/data/g"), b"x").map(drop),
            files
                .copy(
                    &path("/data/f"),
                    &path("/data/h"),
                    MoveOptions::new().overwrite(true),
                )
                .map(drop),
            write("/data/n/e/w", "x").map(drop),
        ];
        drop(held);
        for result in results {
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                refused += 1;
            }
        }
        let now = fs::read_to_string(dir.join("f")).unwrap();
        assert!(now == "old" || now.starts_with("new "), "{now}");
        assert_eq!(temporary(&dir), [""; 0], "free: {free}");
    }
    assert!(refused > 0);
    assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), "new 7");
    // Deeper than descriptors reach, and gone all the same.
    let deep = (0..200).fold(dir.join("deep"), |dir, _| dir.join("d"));
    fs::create_dir_all(&deep).unwrap();
    files.delete_all(&path("/data/deep")).unwrap();
    assert!(!dir.join("deep").exists());
}

/// Nobody but root can give a file back to its owner, so it is not taken in the first place.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_somebody_else() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    fs::write(&file, "theirs").unwrap();
    if fs::metadata(&file).unwrap().uid() != 0 {
        println!("skipped: only root can become somebody else");
        return;
    }
    for (path, mode) in [(dir.path(), 0o777), (&file, 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = this("faults::as_an_ordinary_user", dir.path());
    let output = command.uid(65_534).gid(65_534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 passed"), "{said}\n{why}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "in place");
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
}

#[test]
#[ignore = "run by another test, as an ordinary user"]
fn as_an_ordinary_user() {
    let dir = given_dir();
    let files = sandbox(&dir);
    let at = path("/data/f");
    let denied = files.write(&at, "mine", WriteOptions::new()).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "Cannot write to '/data/f': it belongs to another user, and a new file could not be given back.\nIt can be written in place."
    );
    assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), "theirs");
    assert_eq!(temporary(&dir), [""; 0]);
    let options = WriteOptions::new().in_place(true);
    files.write(&at, "in place", options).unwrap();
}

/// What the system counted, of this thread alone.
#[cfg(target_os = "linux")]
#[test]
fn the_end_of_a_large_file_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let line = "0123456789".repeat(10);
    let all: String = (0..100_000).map(|n| format!("{n} {line}\n")).collect();
    fs::write(dir.path().join("f"), &all).unwrap();
    let files = sandbox(dir.path());
    let read_so_far = || -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.unwrap().parse().unwrap()
    };
    for (lines, most) in [(20, 70 * 1024), (1_000, 1 << 20), (90_000, 1 << 20)] {
        let before = read_so_far();
        let text = files
            .read(&path("/data/f"), ReadOptions::new().tail(lines))
            .unwrap();
        let cost = read_so_far() - before;
        // The count itself is read too.
        assert!(cost <= most + 1024, "{lines} lines: {cost} bytes");
        assert!(all.ends_with(&text.content) && text.truncated);
        if lines <= 1_000 {
            assert_eq!(text.content.lines().count(), lines);
        }
    }
}
