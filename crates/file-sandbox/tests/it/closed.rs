//! A mount in which nothing may be read: whatever the operation and the way in, nothing of it is
//! told, and what may be changed can be.

use std::fmt::Debug;

use file_sandbox::{
    EditOptions, Error, ErrorKind, FileSandbox, Mode, Mount, Replacement, SandboxPath, WriteOptions,
};

use crate::scene::path;

/// In names and in contents of the closed mount only.
const CANARY: &str = "canary";

/// `/shut` is closed and holds `/shut/open`, which is not; both lie below `/`, which is open.
/// Links of the host lead from each to the others.
fn files(dir: &std::path::Path) -> FileSandbox {
    let authority = cap_std::ambient_authority();
    let open = |at: &str, host: &str| {
        std::fs::create_dir_all(dir.join(host)).unwrap();
        Mount::open_ambient(path(at), dir.join(host), Mode::ReadWrite, authority).unwrap()
    };
    let mounts = vec![
        open("/", "all"),
        open("/shut", "shut"),
        open("/shut/open", "inner"),
    ];
    let write = |at: &str, text: &str| std::fs::write(dir.join(at), text).unwrap();
    write("all/plain", "word");
    write("shut/canary-name", "canary content word");
    write("inner/inside", "word");
    for (at, to) in [
        ("all/link", "shut/canary-name"),
        ("all/dir", "shut"),
        ("shut/back", "all/plain"),
        ("inner/out", "shut/canary-name"),
    ] {
        std::os::unix::fs::symlink(dir.join(to), dir.join(at)).unwrap();
    }
    FileSandbox::new(mounts).unwrap()
}

fn told<T: Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(found) => format!("{found:?}"),
        Err(error) => format!("{error}\n{error:?}"),
    }
}

/// Every operation that tells something, by every way to the closed mount.
#[test]
fn nothing_of_a_closed_mount_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let whole = files(dir.path());
    let shut = whole.without_reading(|mount| mount.target().as_str() == "/shut");
    let ways = [
        "/",
        "/shut",
        "/shut/",
        "/shut/x/../canary-name",
        "/shut/canary-name",
        "/link",
        "/dir",
        "/dir/canary-name",
        "/dir/canary-nam",
        "/shut/canary-nam",
        "/shut/back",
        "/shut/open/out",
        "/shut/open",
        "/canary",
    ];
    type Operation = fn(&FileSandbox, &SandboxPath) -> String;
    let stale = || WriteOptions::new().if_match(file_sandbox::ContentHash::of(b"other"));
    let refused = told(shut.write(&path("/shut/canary-name"), "", stale()));
    assert!(!refused.contains("hash"), "{refused}");
    let operations: [(&str, Operation); 14] = [
        ("read", |f, at| told(f.read(at, Default::default()))),
        ("read_bytes", |f, at| told(f.read_bytes(at, 1_000))),
        ("open", |f, at| told(f.open(at))),
        ("hash", |f, at| told(f.hash(at))),
        ("stat", |f, at| told(f.stat(at))),
        ("list", |f, at| told(f.list(at, Default::default()))),
        ("glob", |f, at| told(f.glob(at, "**/*", Default::default()))),
        ("walk", |f, at| told(f.walk(at, Default::default()))),
        ("search", |f, at| {
            told(f.search(at, "word", Default::default()))
        }),
        ("edit", |f, at| {
            let change = Replacement::new("nowhere", "x");
            told(f.edit(at, &[change], EditOptions::new().preview(true)))
        }),
        ("copy", |f, at| {
            told(f.copy(at, &path("/shut/open/copied"), Default::default()))
        }),
        ("move", |f, at| match f.mounts_on_path(at, false).last() {
            Some(place) if place.as_str().starts_with("/shut/canary") => {
                told(f.rename(at, &path("/shut/open/moved"), Default::default()))
            }
            _ => String::new(),
        }),
        ("resolve", |f, at| {
            f.resolve(at)
                .map_or_else(|e| e.to_string(), |r| format!("{:?}", r.path()))
        }),
        ("delete missing", |f, at| {
            match at.as_str().ends_with("-nam") {
                true => told(f.delete(at)),
                false => String::new(),
            }
        }),
    ];
    for (operation, act) in operations {
        let mut tells = false;
        for way in ways {
            // What the one before has moved or copied is where it was.
            let dir = tempfile::tempdir().unwrap();
            let whole = files(dir.path());
            let shut = whole.without_reading(|mount| mount.target().as_str() == "/shut");
            let at = SandboxPath::parse(way).unwrap();
            let shown = act(&shut, &at).replace(way, "").replace(at.as_str(), "");
            assert!(!shown.contains(CANARY), "{operation} {way}: {shown}");
            tells |= act(&whole, &at).replace(way, "").contains(CANARY) || operation == "hash";
        }
        // The same operation tells it where the mount is open: the test can fail.
        assert!(
            tells
                || matches!(
                    operation,
                    "open" | "read_bytes" | "stat" | "copy" | "move" | "edit"
                ),
            "{operation}"
        );
    }
}

#[test]
fn what_may_be_changed_in_a_closed_mount_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let whole = files(dir.path());
    let shut = whole.without_reading(|mount| mount.target().as_str() == "/shut");
    let new = path("/shut/new");
    shut.write(&new, "first", Default::default()).unwrap();
    shut.append(&new, b" second").unwrap();
    assert_eq!(
        shut.exists(&new).unwrap_err().kind(),
        ErrorKind::ReadBlocked
    );
    assert_eq!(
        whole.read(&new, Default::default()).unwrap().content,
        "first second"
    );
    shut.copy(&path("/plain"), &path("/shut/copy"), Default::default())
        .unwrap();
    shut.rename(&path("/plain"), &path("/shut/moved"), Default::default())
        .unwrap();
    shut.delete(&new).unwrap();
    let listed = shut.walk(&path("/"), Default::default()).unwrap();
    assert!(
        listed
            .entries
            .iter()
            .any(|entry| entry.name == "shut/open/inside")
    );
    // What lies in it and is a mount of its own is as it was.
    let inside = shut.read(&path("/shut/open/inside"), Default::default());
    assert_eq!(inside.unwrap().content, "word");
    // A walk leaves it out, and says so.
    let walked = shut.walk(&path("/"), Default::default()).unwrap();
    assert_eq!(walked.skipped.len(), 1, "{:?}", walked.skipped);
    assert_eq!(walked.skipped[0].name, "shut");
    // The way names every mount that a link leads through.
    let way: Vec<_> = whole.mounts_on_path(&path("/link"), true);
    assert_eq!(way.last().unwrap().as_str(), "/shut/canary-name");
}
