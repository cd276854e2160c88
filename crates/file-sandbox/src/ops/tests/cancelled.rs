//! Cancels every operation on bytes or entries while it runs.
//!
//! The test does not measure time: it cancels at a check of a given number, and compares the number
//! of checks with the amount of work.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use super::super::*;
use crate::cancellation::CancellationToken;
use crate::error::{Error, ErrorKind};
use crate::hash::ContentHash;
use crate::mount::Mount;
use crate::mount::limits::Limits;
use crate::mount::mode::Mode;
use crate::ops::walk::listing::TruncationReason;
use crate::ops::walk::options::WalkOptions;
use crate::sandbox::FileSandbox;

/// The size of the files of a case, created anew for each attempt.
const BYTES: usize = 1_536 * 1024;
const ENTRIES: usize = 520;

/// The expected result of a cancelled operation.
#[derive(Clone, Copy, PartialEq)]
enum Reaction {
    /// An error, and nothing is changed.
    Refused,
    /// An error, and earlier deletions remain.
    Partly,
    /// The results so far.
    Truncated,
}

/// A name, the least number of checks, the expected result, and the operation, which returns `true`
/// if its answer was truncated.
type CancelCase = (
    &'static str,
    u64,
    Reaction,
    fn(&FileSandbox) -> Result<bool, Error>,
);

fn at(files: &FileSandbox, path: &str) -> crate::path::SandboxPath {
    files.path(path).expect("path")
}

fn is_cut(cut: Option<TruncationReason>) -> bool {
    cut == Some(TruncationReason::Cancelled)
}

/// The least number of checks for the work of a case.
const STEPS: u64 = (BYTES / (256 * 1024)) as u64;
const PAGES: u64 = (ENTRIES / 256) as u64;

const ROWS: &[CancelCase] = &[
    ("read", STEPS, Reaction::Refused, |files| {
        let options = ReadOptions::new().max_chars(u64::MAX);
        files.read(&at(files, "/a/big.txt"), options).map(|_| false)
    }),
    (
        "read, another encoding",
        STEPS,
        Reaction::Refused,
        |files| {
            let options = ReadOptions::new().max_chars(u64::MAX);
            files
                .read(&at(files, "/a/wide.txt"), options)
                .map(|_| false)
        },
    ),
    ("read, from a line on", STEPS, Reaction::Refused, |files| {
        let options = ReadOptions::new().lines(200_000, 1);
        files.read(&at(files, "/a/big.txt"), options).map(|_| false)
    }),
    ("read bytes", STEPS, Reaction::Refused, |files| {
        let read = files.read_bytes(&at(files, "/a/big.txt"), u64::MAX);
        read.map(|_| false)
    }),
    (
        "tail, with the hash of all",
        STEPS,
        Reaction::Refused,
        |files| {
            let options = ReadOptions::new().tail(5).hash(true);
            files.read(&at(files, "/a/big.txt"), options).map(|_| false)
        },
    ),
    ("tail of long lines", 8, Reaction::Refused, |files| {
        let options = ReadOptions::new().tail(500_000);
        files.read(&at(files, "/a/big.txt"), options).map(|_| false)
    }),
    ("hash", STEPS, Reaction::Refused, |files| {
        files.hash(&at(files, "/a/big.txt")).map(|_| false)
    }),
    ("write", STEPS, Reaction::Refused, |files| {
        let bytes = vec![b'x'; BYTES];
        let path = at(files, "/a/new.txt");
        files
            .write_bytes(&path, &bytes, WriteOptions::new())
            .map(|_| false)
    }),
    ("write, guarded", 2 * STEPS, Reaction::Refused, |files| {
        let bytes = vec![b'y'; BYTES];
        let options = WriteOptions::new().if_match(ContentHash::of(big().as_bytes()));
        let path = at(files, "/a/big.txt");
        files.write_bytes(&path, &bytes, options).map(|_| false)
    }),
    ("append", STEPS, Reaction::Refused, |files| {
        let bytes = vec![b'y'; BYTES];
        files
            .append(&at(files, "/a/big.txt"), &bytes)
            .map(|_| false)
    }),
    ("append text", STEPS, Reaction::Refused, |files| {
        let path = at(files, "/a/big.txt");
        files
            .append_text(&path, "y", AppendOptions::new())
            .map(|_| false)
    }),
    (
        "append to a very large file",
        2 * STEPS,
        Reaction::Refused,
        |files| {
            let path = at(files, "/a/huge.txt");
            files
                .append_text(&path, "é", AppendOptions::new())
                .map(|_| false)
        },
    ),
    ("edit", STEPS, Reaction::Refused, |files| {
        let edits = [
            Replacement::new("first", "1st"),
            Replacement::new("last", "end"),
        ];
        files
            .edit(&at(files, "/a/big.txt"), &edits, EditOptions::new())
            .map(|_| false)
    }),
    ("copy", STEPS, Reaction::Refused, |files| {
        let (from, to) = (at(files, "/a/big.txt"), at(files, "/a/copy.txt"));
        files.copy(&from, &to, MoveOptions::new()).map(|_| false)
    }),
    ("copy over a file", STEPS, Reaction::Refused, |files| {
        let (from, to) = (at(files, "/a/big.txt"), at(files, "/a/huge.txt"));
        files
            .copy(&from, &to, MoveOptions::new().overwrite(true))
            .map(|_| false)
    }),
    ("move to another mount", STEPS, Reaction::Refused, |files| {
        let (from, to) = (at(files, "/a/big.txt"), at(files, "/b/moved.txt"));
        files.rename(&from, &to, MoveOptions::new()).map(|_| false)
    }),
    (
        "move a directory",
        ENTRIES as u64,
        Reaction::Refused,
        |files| {
            let (from, to) = (at(files, "/a/many"), at(files, "/a/other"));
            files.rename(&from, &to, MoveOptions::new()).map(|_| false)
        },
    ),
    ("delete, guarded", STEPS, Reaction::Refused, |files| {
        let options = DeleteOptions::new().if_match(ContentHash::of(big().as_bytes()));
        files
            .delete_with(&at(files, "/a/big.txt"), options)
            .map(|_| false)
    }),
    (
        "delete a tree",
        2 * ENTRIES as u64,
        Reaction::Partly,
        |files| files.delete_all(&at(files, "/a/many")).map(|()| false),
    ),
    (
        "count for a quota",
        ENTRIES as u64,
        Reaction::Refused,
        |files| {
            files
                .write(&at(files, "/q/new.txt"), "x", WriteOptions::new())
                .map(|_| false)
        },
    ),
    ("list", PAGES, Reaction::Truncated, |files| {
        let listed = files.list(&at(files, "/a/many"), ListOptions::new())?;
        Ok(is_cut(listed.cut))
    }),
    ("list with a pattern", PAGES, Reaction::Truncated, |files| {
        let options = ListOptions::new().pattern("**/*.txt");
        Ok(is_cut(files.list(&at(files, "/a"), options)?.cut))
    }),
    ("glob", PAGES, Reaction::Truncated, |files| {
        Ok(is_cut(
            files.glob(&at(files, "/a"), "**", WalkOptions::new())?.cut,
        ))
    }),
    (
        "walk, by ignore rules",
        2 * PAGES,
        Reaction::Truncated,
        |files| {
            let options = WalkOptions::new().gitignore(true);
            Ok(is_cut(files.walk(&at(files, "/a"), options)?.cut))
        },
    ),
    ("search in a tree", PAGES, Reaction::Truncated, |files| {
        let found = files.search(&at(files, "/a"), "nowhere", SearchOptions::new())?;
        Ok(is_cut(found.cut))
    }),
    ("search in a file", 8, Reaction::Truncated, |files| {
        let found = files.search(&at(files, "/a/huge.txt"), "nowhere", SearchOptions::new())?;
        Ok(is_cut(found.cut))
    }),
];

fn big() -> String {
    let mut text = "first\n".to_owned();
    while text.len() < BYTES - 5 {
        text.push_str("a line\n");
    }
    text.push_str("last\n");
    text
}

struct Scene {
    _host: tempfile::TempDir,
    root: std::path::PathBuf,
    files: FileSandbox,
}

fn scene() -> Scene {
    let host = tempfile::tempdir().expect("directory");
    let root = host.path().to_owned();
    for name in ["a/many", "b", "q"] {
        fs::create_dir_all(root.join(name)).expect("directory");
    }
    let big = big();
    fs::write(root.join("a/big.txt"), &big).expect("file");
    fs::write(root.join("a/huge.txt"), [big.as_bytes(); 6].concat()).expect("file");
    let wide: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(big.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(root.join("a/wide.txt"), wide).expect("file");
    fs::write(root.join("a/many/.gitignore"), "*.log\n").expect("file");
    for name in 0..ENTRIES {
        fs::write(root.join(format!("a/many/{name:05}.txt")), "").expect("file");
        fs::write(root.join(format!("q/{name:05}.txt")), "").expect("file");
    }
    let mount = |name: &str| {
        let target = crate::path::SandboxPath::parse(name).expect("path");
        let authority = cap_std::ambient_authority();
        Mount::open_ambient(target, root.join(&name[1..]), Mode::ReadWrite, authority)
            .expect("mount")
    };
    let quota = mount("/q").with_limits(Limits::new().max_files(1_000_000, "quota.max_files"));
    let files = FileSandbox::new(vec![mount("/a"), mount("/b"), quota]).expect("sandbox");
    Scene {
        _host: host,
        root,
        files,
    }
}

/// All names with their sizes and the stamps that change whenever a file is written, even in vain.
#[derive(PartialEq)]
struct TreeState {
    sizes: Vec<(std::path::PathBuf, u64)>,
    stamps: BTreeSet<(u64, SystemTime)>,
}

fn state(root: &std::path::Path) -> TreeState {
    let (mut sizes, mut stamps) = (Vec::new(), BTreeSet::new());
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).expect("directory") {
            let entry = entry.expect("entry");
            let meta = entry.metadata().expect("meta");
            if meta.is_dir() {
                pending.push(entry.path());
            } else {
                sizes.push((entry.path(), meta.len()));
                stamps.insert((meta.ino(), meta.modified().expect("time")));
            }
        }
    }
    sizes.sort();
    TreeState { sizes, stamps }
}

#[test]
fn what_takes_long_can_be_stopped() {
    let mut shared = scene();
    let mut before = state(&shared.root);
    for (name, least, answer, operation) in ROWS {
        // The number of checks without a cancellation.
        let never = CancellationToken::new();
        let whole = operation(&shared.files.with_cancel(&never));
        let after = state(&shared.root);
        if after != before {
            shared = scene();
            before = state(&shared.root);
        }
        assert!(matches!(whole, Ok(false)), "{name}: {whole:?}");
        let looks = never.looks();
        assert!(looks >= *least, "{name}: {looks} looks, expected {least}");
        // At the first and at one in the middle.
        for number in [1, looks / 2] {
            let cancel = CancellationToken::at_look(number);
            let own = (*answer == Reaction::Partly).then(scene);
            let scene = own.as_ref().unwrap_or(&shared);
            let stopped = operation(&scene.files.with_cancel(&cancel));
            let after = cancel.looks() - number;
            assert!(
                after <= 8,
                "{name}: {after} more looks after look {number} of {looks}"
            );
            match (answer, stopped) {
                (Reaction::Truncated, Ok(cut)) => assert!(cut, "{name} at {number} of {looks}"),
                (Reaction::Refused | Reaction::Partly, Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{name}: {error}");
                }
                (_, other) => panic!("{name} at {number} of {looks}: {other:?}"),
            }
            let kept = state(&shared.root).sizes == before.sizes;
            assert!(kept, "{name} at {number} of {looks}: something is changed");
        }
    }
}
