//! Random sequences of operations: the host and memory answer alike, and so each is the other's
//! oracle.

use file_sandbox::{
    EditOptions, Error, FileSandbox, ListOptions, Mode, Mount, MoveOptions, Replacement,
    Restriction, WriteOptions,
};
use proptest::prelude::*;

use crate::scene::path;

#[derive(Clone, Debug)]
enum Do {
    Write(String, String, bool),
    InPlace(String, String),
    Append(String, String),
    Edit(String, String, String),
    Delete(String),
    DeleteAll(String),
    CreateDir(String),
    Rename(String, String, bool),
    Copy(String, String, bool),
    Read(String),
    List(String),
    Stat(String),
}

fn some_path() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(&["a", "b", "c", ".env", "k.key", "l", "..", "d.md"][..]);
    let mount = proptest::sample::select(&["/data", "/data", "/data", "/small", "/ref", ""][..]);
    (mount, proptest::collection::vec(name, 0..4))
        .prop_map(|(mount, names)| format!("{mount}/{}", names.join("/")))
}

fn some_text() -> impl Strategy<Value = String> {
    "[xyz\\n]{0,12}"
}

fn some_operation() -> impl Strategy<Value = Do> {
    prop_oneof![
        3 => (some_path(), some_text(), any::<bool>()).prop_map(|(p, t, n)| Do::Write(p, t, n)),
        1 => (some_path(), some_text()).prop_map(|(p, t)| Do::InPlace(p, t)),
        1 => (some_path(), some_text()).prop_map(|(p, t)| Do::Append(p, t)),
        1 => (some_path(), "[xyz]{1,2}", some_text()).prop_map(|(p, o, n)| Do::Edit(p, o, n)),
        1 => some_path().prop_map(Do::Delete),
        1 => some_path().prop_map(Do::DeleteAll),
        2 => some_path().prop_map(Do::CreateDir),
        2 => (some_path(), some_path(), any::<bool>()).prop_map(|(a, b, o)| Do::Rename(a, b, o)),
        1 => (some_path(), some_path(), any::<bool>()).prop_map(|(a, b, o)| Do::Copy(a, b, o)),
        1 => some_path().prop_map(Do::Read),
        1 => some_path().prop_map(Do::List),
        1 => some_path().prop_map(Do::Stat),
    ]
}

/// The answer in words, or the error's text: that is alike too.
fn run(files: &FileSandbox, what: &Do) -> String {
    let told = |result: Result<String, Error>| match result {
        Ok(answer) => answer,
        Err(error) => format!("{}: {error}", error.kind()),
    };
    let parse = |text: &str| files.path(text);
    let moved = |overwrite: &bool| MoveOptions::new().overwrite(*overwrite);
    told((|| {
        Ok(match what {
            Do::Write(at, text, new) => {
                let options = WriteOptions::new().create_new(*new);
                format!("{:?}", files.write(&parse(at)?, text, options)?)
            }
            Do::InPlace(at, text) => {
                let options = WriteOptions::new().in_place(true);
                format!("{:?}", files.write(&parse(at)?, text, options)?)
            }
            Do::Append(at, text) => format!("{:?}", files.append(&parse(at)?, text.as_bytes())?),
            Do::Edit(at, old, new) => {
                let one = [Replacement::new(old, new)];
                format!("{:?}", files.edit(&parse(at)?, &one, EditOptions::new())?)
            }
            Do::Delete(at) => format!("{:?}", files.delete(&parse(at)?)?),
            Do::DeleteAll(at) => format!("{:?}", files.delete_all(&parse(at)?)?),
            Do::CreateDir(at) => format!("{:?}", files.create_dir(&parse(at)?)?),
            Do::Rename(a, b, over) => {
                format!("{:?}", files.rename(&parse(a)?, &parse(b)?, moved(over))?)
            }
            Do::Copy(a, b, over) => {
                format!("{:?}", files.copy(&parse(a)?, &parse(b)?, moved(over))?)
            }
            Do::Read(at) => format!("{:?}", files.read(&parse(at)?, Default::default())?),
            Do::List(at) => {
                let listing = files.list(&parse(at)?, ListOptions::new().pattern("**"))?;
                format!("{:?} {}", listing.entries, listing.more)
            }
            Do::Stat(at) => {
                let stat = files.stat(&parse(at)?)?;
                let size = match stat.kind {
                    file_sandbox::EntryKind::File => stat.size,
                    _ => 0,
                };
                format!("{:?} {size} {}", stat.kind, stat.is_link)
            }
        })
    })())
}

fn sandbox(mount: impl Fn(&str) -> Mount) -> FileSandbox {
    let limits = file_sandbox::Limits::new()
        .suffixes(["md"])
        .max_total_bytes(20, "quota.max_bytes")
        .max_files(2, "quota.max_files");
    let data = mount("/data").protect(["*.key"]).unwrap();
    FileSandbox::new(vec![
        data.hide([".env"]).unwrap(),
        mount("/small").with_limits(limits),
        mount("/ref"),
    ])
    .unwrap()
    .restrict(
        &Restriction::new()
            .keep(path("/data"))
            .keep(path("/small"))
            .keep_as(path("/ref"), Mode::ReadOnly),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn host_and_memory_agree(operations in proptest::collection::vec(some_operation(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        let host = sandbox(|target| {
            let host = dir.path().join(&target[1..]);
            std::fs::create_dir_all(&host).unwrap();
            if target == "/data" {
                std::os::unix::fs::symlink("a/b", host.join("l")).unwrap();
            }
            crate::scene::mount(target, &host, Mode::ReadWrite)
        });
        let memory = sandbox(|target| {
            let mount = Mount::memory(path(target), Mode::ReadWrite);
            match target {
                "/data" => mount.with_link(&path("l"), "a/b").unwrap(),
                _ => mount,
            }
        });
        for operation in &operations {
            prop_assert_eq!(run(&host, operation), run(&memory, operation), "{:?}", operation);
        }
    }
}
