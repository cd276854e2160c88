//! Every kind of error can happen, and each has a code of its own.

use std::collections::BTreeSet;

use file_sandbox::{
    EditOptions, Error, ErrorKind, FileSandbox, Limits, Mode, Mount, MoveOptions, Replacement,
    Restriction, SandboxPath, WriteOptions,
};

use crate::scene::path;

/// As many as `ErrorKind` has.
const KINDS: usize = 19;

/// `unwrap()` and a `main` that returns the error print a text for people.
#[test]
fn debug_is_the_sentence_and_its_causes() {
    let authority = cap_std::ambient_authority();
    let gone = Mount::open_ambient(path("/a"), "/no/such/dir", Mode::ReadOnly, authority);
    let rows = [
        (
            gone.map(drop).unwrap_err(),
            "\ncaused by: No such file or directory (os error 2)",
        ),
        (SandboxPath::parse("").unwrap_err(), ""),
    ];
    for (error, causes) in rows {
        assert_eq!(format!("{error:?}"), format!("{error}{causes}"));
    }
    let mode = "x".parse::<Mode>().unwrap_err();
    assert_eq!(format!("{mode:?}"), mode.to_string());
    let hash = "x".parse::<file_sandbox::ContentHash>().unwrap_err();
    assert_eq!(format!("{hash:?}"), hash.to_string());
}

#[test]
fn every_kind_can_happen() {
    let data = Mount::memory(path("/data"), Mode::ReadWrite)
        .with_link(&path("out"), "../x")
        .and_then(|mount| mount.with_link(&path("loop"), "loop"))
        .unwrap();
    let limits = Limits::new()
        .suffixes(["md"])
        .max_files(1, "quota.max_files")
        .max_file_bytes(4);
    let small = Mount::memory(path("/small"), Mode::ReadWrite).with_limits(limits);
    let ro = Mount::memory(path("/ro"), Mode::ReadOnly);
    let files = FileSandbox::new(vec![data, small, ro]).unwrap();
    let write = |at: &str, text: &str| files.write(&path(at), text, WriteOptions::new());
    write("/data/aa", "aa").unwrap();
    write("/small/a.md", "").unwrap();
    files.create_dir(&path("/data/dir")).unwrap();
    files
        .write_bytes(&path("/data/bin"), b"\0", WriteOptions::new())
        .unwrap();
    let read = |at: &str| files.read(&path(at), Default::default()).map(drop);
    let edit = |old: &str| {
        let one = [Replacement::new(old, "b")];
        files
            .edit(&path("/data/aa"), &one, EditOptions::new())
            .map(drop)
    };
    let stale = WriteOptions::new().if_match(file_sandbox::ContentHash::of(b"other"));
    let new = WriteOptions::new().create_new(true);
    let escalation = Restriction::new().keep_as(path("/ro"), Mode::ReadWrite);
    let across = files.rename(&path("/data/dir"), &path("/small/dir"), MoveOptions::new());
    let rows: [(ErrorKind, Result<(), Error>); KINDS] = [
        (ErrorKind::NotFound, read("/data/none")),
        (ErrorKind::InvalidPath, SandboxPath::parse("").map(drop)),
        (ErrorKind::OutsideSandbox, read("/etc/passwd")),
        (ErrorKind::ReadOnly, write("/ro/x", "").map(drop)),
        (
            ErrorKind::ReadBlocked,
            files
                .without_reading(|mount| mount.target().as_str() == "/data")
                .read(&path("/data/aa"), Default::default())
                .map(drop),
        ),
        (ErrorKind::SuffixNotAllowed, write("/small/x", "").map(drop)),
        (ErrorKind::TooLarge, write("/small/a.md", "12345").map(drop)),
        (ErrorKind::NotAFile, read("/data")),
        (ErrorKind::NotText, read("/data/bin")),
        (ErrorKind::Escape, read("/data/out")),
        (
            ErrorKind::Exists,
            files.write(&path("/data/aa"), "", new).map(drop),
        ),
        (ErrorKind::Loop, read("/data/loop")),
        (
            ErrorKind::NameTooLong,
            SandboxPath::parse(&"n".repeat(256)).map(drop),
        ),
        (
            ErrorKind::Stale,
            files.write(&path("/data/aa"), "", stale).map(drop),
        ),
        (ErrorKind::NoMatch, edit("zz")),
        (ErrorKind::NotUnique, edit("a")),
        (ErrorKind::Quota, write("/small/b.md", "").map(drop)),
        (
            ErrorKind::PermissionEscalation,
            files.restrict(&escalation).map(drop),
        ),
        (ErrorKind::Io, across.map(drop)),
    ];
    let mut codes = BTreeSet::new();
    for (kind, result) in rows {
        assert_eq!(result.unwrap_err().kind(), kind);
        codes.insert(kind.code());
    }
    assert_eq!(codes.len(), KINDS);
}

#[cfg(feature = "tokio")]
#[test]
fn async_calls_wait_their_turn() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let data = Mount::memory(path("/data"), Mode::ReadWrite);
    let files = file_sandbox::AsyncFiles::new(FileSandbox::new(vec![data]).unwrap(), 3);
    let busy = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let call = |n: usize| {
            let (files, busy, most) = (files.clone(), busy.clone(), most.clone());
            tokio::spawn(async move {
                let work = move |files: &FileSandbox| {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    let at = path(&format!("/data/{n}"));
                    let written = files.write(&at, "x", WriteOptions::new());
                    busy.fetch_sub(1, Ordering::SeqCst);
                    written
                };
                files.run(work).await.unwrap()
            })
        };
        let calls: Vec<_> = (0..40).map(call).collect();
        for call in calls {
            assert!(call.await.unwrap().created);
        }
    });
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
}
