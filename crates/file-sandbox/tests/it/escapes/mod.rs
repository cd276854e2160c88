//! Every way out and every way to hang that we know of, as rows of `fixtures/escapes`, in every
//! cell of {openat2, hidden by ENOSYS, hidden by EPERM} × {root, ordinary user}. After each attempt
//! nothing has changed, inside or outside, nothing is left over, and no descriptor is open.

mod rows;
mod tree;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use file_sandbox::{
    Error, ErrorKind, FileSandbox, ListOptions, MoveOptions, Replacement, SandboxPath,
    SearchOptions, WalkOptions,
};

use crate::again::{self, Cell, Openat2, User};
use rows::{Do, Row};
use tree::{Memory, NO_HOST, Tree};

/// For what must not block at all; nothing is measured with it.
const WATCHDOG: Duration = Duration::from_secs(600);

#[test]
fn every_row_in_every_cell() {
    if let Some(cell) = again::entered() {
        return here(cell);
    }
    let (cells, missing) = again::cells();
    let is_root = cells.iter().any(|cell| cell.user == User::Root);
    // Every row in a sample too: each user with the call, and each way without it with one user.
    let cells = test_sample::cases("escapes: resolver × user", cells, |_, cell| {
        match (cell.openat2, cell.user) {
            (Openat2::Shown, _) => true,
            (Openat2::NoSys, user) => user == User::Ordinary || cfg!(not(target_os = "linux")),
            (Openat2::NotPermitted, user) => user == User::Root || !is_root,
        }
    });
    let run = |cell: &Cell| {
        let output = again::run("escapes::every_row_in_every_cell", *cell);
        let lines: Vec<&str> = output.lines().filter(|l| l.contains("attempts")).collect();
        assert_eq!(lines.len(), 2, "{output}");
        println!("{}", lines.join("\n"));
    };
    thread::scope(|scope| {
        for half in cells.chunks(cells.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(run));
        }
    });
    for why in missing {
        println!("not here: {why}");
    }
    for row in rows::all() {
        if let Some(why) = row.host_only {
            println!("host only: {:?}: {why}", row.paths);
        }
    }
}

fn here(cell: Cell) {
    let rows = rows::all();
    // The test program has begun a line of its own.
    println!();
    for nested in [false, true] {
        let mut tried = Tried::default();
        every_row(&rows, nested, cell.user, &mut tried);
        let resolver = if nested {
            "the walk alone"
        } else {
            "the fast way"
        };
        println!(
            "{cell}, host, {resolver}: {} rows, {} attempts; not possible here: {}",
            tried.rows, tried.attempts, tried.impossible
        );
        assert!(
            tried.rows > 40 && tried.attempts > 700,
            "too few to be true"
        );
    }
}

#[test]
fn every_row_in_memory() {
    println!();
    for nested in [false, true] {
        let mut memory = Memory::new(nested);
        let mut before = memory.picture();
        let mut tried = Tried::default();
        let mut wrong = Vec::new();
        for row in rows::all() {
            if row.host_only.is_some() {
                tried.impossible += 1;
                continue;
            }
            tried.rows += 1;
            for text in &row.paths {
                for what in row.what() {
                    tried.attempts += 1;
                    let label = format!("{what:?} {text:.80?}");
                    let checked = check(&memory.files, NO_HOST.as_ref(), what, text, &row.expect);
                    if let Err(why) = checked {
                        wrong.push(format!("{label}: {why}"));
                    }
                    if memory.picture() == before {
                        continue;
                    }
                    if row.expect != "OK" {
                        wrong.push(format!("{label}: changed something"));
                    }
                    memory = Memory::new(nested);
                    before = memory.picture();
                }
            }
        }
        let roots = if nested {
            "one root below another"
        } else {
            "roots beside each other"
        };
        println!(
            "memory, {roots}: {} rows, {} attempts; not possible here: {}",
            tried.rows, tried.attempts, tried.impossible
        );
        assert!(
            wrong.is_empty(),
            "{} wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert!(tried.attempts > 700, "too few to be true");
    }
}

#[derive(Default)]
struct Tried {
    rows: usize,
    attempts: usize,
    impossible: usize,
}

fn every_row(rows: &[Row], nested: bool, user: User, tried: &mut Tried) {
    let mut tree = Tree::new(nested, user == User::Root);
    let mut before = tree.picture("");
    let mut glance = tree.glance();
    let mut wrong = Vec::new();
    for row in rows {
        if row.root_only.is_some() && user != User::Root {
            tried.impossible += 1;
            continue;
        }
        tried.rows += 1;
        for text in &row.paths {
            for what in row.what() {
                tried.attempts += 1;
                let label = format!("{what:?} {text:.80?}");
                let open = descriptors();
                if let Err(why) = check(&tree.files, tree.host(), what, text, &row.expect) {
                    wrong.push(format!("{label}: {why}"));
                }
                assert_eq!(descriptors(), open, "descriptors after {label}");
                if row.expect != "OK" {
                    if tree.glance() == glance {
                        continue;
                    }
                    wrong.push(format!("{label}: changed something"));
                }
                for outside in ["outside", "data_evil"] {
                    let outside_now = tree.picture(outside);
                    let same = outside_now
                        .iter()
                        .all(|(path, seen)| before.get(path) == Some(seen));
                    let count = before
                        .keys()
                        .filter(|path| path.starts_with(tree.host().join(outside)));
                    assert!(
                        same && count.count() == outside_now.len(),
                        "{label} reached out"
                    );
                }
                assert_eq!(
                    tree.leftovers(),
                    [""; 0].map(std::path::PathBuf::from),
                    "{label}"
                );
                tree = Tree::new(nested, user == User::Root);
                before = tree.picture("");
                glance = tree.glance();
            }
        }
        if tree.picture("") != before {
            wrong.push(format!("{:?}: changed something", row.paths));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Runs one attempt under a watchdog: what must not block, might.
fn check(
    files: &FileSandbox,
    host: &Path,
    what: Do,
    text: &str,
    expect: &str,
) -> Result<(), String> {
    let (done, answer) = mpsc::channel();
    let their_files = files.clone();
    let owned = text.to_owned();
    let worker = thread::spawn(move || done.send(attempt(&their_files, what, &owned)));
    let result = answer
        .recv_timeout(WATCHDOG)
        .unwrap_or_else(|_| panic!("{what:?} {text:.80?} blocks"));
    worker.join().unwrap().unwrap();
    let Err(error) = result else {
        return if expect == "OK" {
            Ok(())
        } else {
            Err("allowed".to_owned())
        };
    };
    if error.kind().code() != expect {
        return Err(format!("{} and not {expect}: {error}", error.kind()));
    }
    let host = host.to_str().unwrap();
    let (shown, debug) = (error.to_string(), format!("{error:?}"));
    for text in [&shown, &debug] {
        if text.contains(host) || text.contains("zone") {
            return Err(format!("says too much: {text}"));
        }
    }
    queries_agree(files, what, text, error.kind());
    Ok(())
}

fn attempt(files: &FileSandbox, what: Do, text: &str) -> Result<(), Error> {
    let path = SandboxPath::parse(text)?;
    let good = SandboxPath::parse("/data/a.md")?;
    let new = SandboxPath::parse("/data/fresh/b.md")?;
    let moving = MoveOptions::new;
    match what {
        Do::Read => files.read(&path, Default::default()).map(drop),
        Do::ReadBytes => files.read_bytes(&path, 1 << 20).map(drop),
        Do::Open => files.open(&path).map(drop),
        Do::Hash => files.hash(&path).map(drop),
        Do::CopyFrom => files.copy(&path, &new, moving()).map(drop),
        Do::Write => files.write(&path, "evil", Default::default()).map(drop),
        Do::Append => files.append(&path, b"evil").map(drop),
        Do::Edit => files
            .edit(&path, &[Replacement::new("e", "evil")], Default::default())
            .map(drop),
        Do::CopyTo => files.copy(&good, &path, moving().overwrite(true)).map(drop),
        Do::CreateDir => files.create_dir(&path).map(drop),
        Do::RenameTo => files.rename(&good, &path, moving()).map(drop),
        Do::RenameFrom => files.rename(&path, &new, moving()).map(drop),
        Do::Delete => files.delete(&path),
        Do::DeleteAll => files.delete_all(&path),
        Do::List => files.list(&path, ListOptions::new()).map(drop),
        Do::Glob => files.glob(&path, "**/*", WalkOptions::new()).map(drop),
        Do::Walk => files.walk(&path, WalkOptions::new()).map(drop),
        Do::Search => files.search(&path, ".", SearchOptions::new()).map(drop),
        Do::Stat => files.stat(&path).map(drop),
        Do::Exists => files.exists(&path).map(drop),
        Do::Resolve => files.resolve(&path).map(drop),
    }
}

/// A query never panics, and never promises what the operation refuses.
fn queries_agree(files: &FileSandbox, what: Do, text: &str, kind: ErrorKind) {
    use ErrorKind::{NotAFile, NotFound, TooLarge};
    let Ok(path) = SandboxPath::parse(text) else {
        return;
    };
    match what {
        Do::Read => {
            let by_content = [NotFound, NotAFile, TooLarge].contains(&kind);
            assert!(!files.can_read(&path) || by_content, "can_read {text}");
        }
        Do::Write => {
            let a_directory = kind == NotAFile;
            assert!(!files.can_write(&path) || a_directory, "can_write {text}");
        }
        _ => {}
    }
}

/// Of this process, or a constant where the system does not tell.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn a_mount_without_a_host_path_refuses_every_absolute_link() {
    use file_sandbox::{Mode, Mount};
    let tree = Tree::new(false, false);
    let authority = cap_std::ambient_authority();
    let dir = cap_std::fs::Dir::open_ambient_dir(tree.host().join("data"), authority).unwrap();
    let target = SandboxPath::parse("/data").unwrap();
    let files = FileSandbox::new(vec![Mount::new(target, dir, Mode::ReadWrite)]).unwrap();
    let read = |name: &str| files.read(&SandboxPath::parse(name).unwrap(), Default::default());
    assert_eq!(read("/data/in_abs").unwrap_err().kind(), ErrorKind::Escape);
    assert_eq!(read("/data/in_rel").unwrap().content, "text b");
}
