//! Random operations, run once on a plain tree and once in an overlay or a copy: what is applied is what the
//! plain tree has, and what is discarded leaves nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use forge_review::OpenReview;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::scene::{Scene, all, apply, lay, lines, snapshot};

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Operation {
    Write(String, String),
    Append(String, String),
    Remove(String),
    MakeDir(String),
    Rename(String, String),
    HardLink(String, String),
    SymbolicLink(String, String),
    FileMode(String, u32),
    DirMode(String, u32),
    Attribute(String, String),
    NoAttribute(String),
}

use Operation::{
    Append, Attribute, DirMode, FileMode, HardLink, MakeDir, NoAttribute, Remove, Rename,
    SymbolicLink, Write,
};

const BASE: [&str; 10] = [
    "a=one\n",
    "b=two\n",
    "d/a=three\n",
    "d/e/a=four\n",
    "d/e/b=five\n",
    "d/e/f/a=six\n",
    "e/a=seven\n",
    "node_modules/p/a=eight\n",
    "l->a",
    "empty/",
];

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("d"), Just("e"), Just("l")];
    let below = proptest::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let generated = Just("node_modules/p/a".to_owned());
    prop_oneof![9 => below, 1 => generated, 1 => Just("node_modules".to_owned())]
}

fn operation() -> impl Strategy<Value = Operation> {
    let text = "[xy\n]{0,6}";
    let file_mode = prop_oneof![Just(0o644), Just(0o755), Just(0o600), Just(0o400), Just(0)];
    let dir_mode = prop_oneof![Just(0o755), Just(0o700), Just(0o777)];
    prop_oneof![
        4 => (path(), text).prop_map(|(path, text)| Write(path, text)),
        2 => (path(), text).prop_map(|(path, text)| Append(path, text)),
        4 => path().prop_map(Remove),
        4 => path().prop_map(MakeDir),
        3 => (path(), path()).prop_map(|(from, to)| Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| HardLink(from, to)),
        2 => (path(), path()).prop_map(|(target, at)| SymbolicLink(target, at)),
        2 => (path(), file_mode).prop_map(|(path, mode)| FileMode(path, mode)),
        1 => (path(), dir_mode).prop_map(|(path, mode)| DirMode(path, mode)),
        2 => (path(), text).prop_map(|(path, text)| Attribute(path, text)),
        1 => path().prop_map(NoAttribute),
    ]
}

/// An operation that is not possible changes nothing. Links are never followed, because an absolute
/// or climbing target would leave the tree.
fn perform(root: &Path, operation: &Operation) -> std::io::Result<()> {
    let at = |path: &String| root.join(path);
    let kind = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| meta.file_type());
    let way_is_plain = |path: &Path| {
        let above = path.ancestors().skip(1).take_while(|above| *above != root);
        above
            .into_iter()
            .all(|above| kind(above).is_some_and(|kind| kind.is_dir()))
    };
    let is_file = |path: &Path| way_is_plain(path) && kind(path).is_some_and(|kind| kind.is_file());
    let is_dir = |path: &Path| way_is_plain(path) && kind(path).is_some_and(|kind| kind.is_dir());
    let is_free = |path: &Path| way_is_plain(path) && kind(path).is_none();
    match operation {
        Write(path, text) => {
            if is_file(&at(path)) || is_free(&at(path)) {
                fs::write(at(path), text)?;
            }
        }
        Append(path, text) => {
            if is_file(&at(path)) {
                let mut file = fs::OpenOptions::new().append(true).open(at(path))?;
                file.write_all(text.as_bytes())?;
            }
        }
        Remove(path) => {
            if is_dir(&at(path)) {
                fs::remove_dir_all(at(path))?;
            } else if way_is_plain(&at(path)) {
                let _ = fs::remove_file(at(path));
            }
        }
        MakeDir(path) => {
            if is_free(&at(path)) {
                fs::create_dir(at(path))?;
            }
        }
        Rename(from, to) => {
            if !way_is_plain(&at(from)) || !way_is_plain(&at(to)) || kind(&at(from)).is_none() {
                return Ok(());
            }
            if is_dir(&at(from)) {
                // As `mv` does where the kernel does not move a directory (EXDEV).
                if is_free(&at(to)) && !at(to).starts_with(at(from)) {
                    copy_tree(&at(from), &at(to))?;
                    fs::remove_dir_all(at(from))?;
                }
            } else if !is_dir(&at(to)) {
                fs::rename(at(from), at(to))?;
            }
        }
        HardLink(from, to) => {
            if is_file(&at(from)) && is_free(&at(to)) {
                fs::hard_link(at(from), at(to))?;
            }
        }
        SymbolicLink(target, path) => {
            if is_free(&at(path)) {
                std::os::unix::fs::symlink(target, at(path))?;
            }
        }
        FileMode(path, mode) => {
            if is_file(&at(path)) {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))?;
            }
        }
        DirMode(path, mode) => {
            if is_dir(&at(path)) {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))?;
            }
        }
        Attribute(path, text) => {
            if is_file(&at(path)) || is_dir(&at(path)) {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::lsetxattr(at(path), "user.test", text.as_bytes(), flags)?;
            }
        }
        NoAttribute(path) => {
            if is_file(&at(path)) || is_dir(&at(path)) {
                let _ = rustix::fs::lremovexattr(at(path), "user.test");
            }
        }
    }
    Ok(())
}

/// Stops at the first file that it may not read, which is the same one in each tree.
fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else if meta.is_dir() {
        fs::create_dir(to)?;
        let names = fs::read_dir(from)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            copy_tree(&from.join(&name), &to.join(&name))?;
        }
        fs::set_permissions(to, meta.permissions())?;
    } else {
        fs::copy(from, to)?;
    }
    Ok(())
}

/// Does the same in two trees: it is possible in both, or in none.
fn perform_in(trees: [&Path; 2], operation: &Operation) {
    let done = trees.map(|tree| perform(tree, operation));
    let kinds = done.map(|done| done.map_err(|error| error.kind()).err());
    assert_eq!(kinds[0], kinds[1], "{operation:?}");
}

#[test]
#[ignore = "run by another test, in an overlay"]
fn performs() {
    let scene = Scene::given();
    let operations = fs::read(scene.dir().join("operations")).unwrap();
    let operations: Vec<Operation> = serde_json::from_slice(&operations).unwrap();
    for operation in &operations {
        let trees = ["plain", "merged"].map(|name| scene.dir().join(name));
        perform_in([&trees[0], &trees[1]], operation);
    }
}

/// How the project is kept apart from the operations.
#[derive(Clone, Copy)]
enum Way {
    Overlay,
    Copy,
}

/// A project after the operations in its overlay or copy, and its state before them; `None` if this
/// user cannot mount overlayfs.
fn run(
    way: Way,
    operations: &[Operation],
) -> Option<(Scene, OpenReview, BTreeMap<PathBuf, String>)> {
    let scene = Scene::new();
    let plain = scene.dir().join("plain");
    fs::create_dir(&plain).unwrap();
    lay(&scene.lower(), &BASE);
    lay(&plain, &BASE);
    let before = snapshot(&scene.lower(), true);
    let dir = match way {
        Way::Overlay => {
            let operations = serde_json::to_vec(operations).unwrap();
            fs::write(scene.dir().join("operations"), operations).unwrap();
            let dir = scene.create();
            if !scene.in_overlay("model::performs") {
                return None;
            }
            dir
        }
        Way::Copy => {
            let dir = scene.create_copy();
            for operation in operations {
                perform_in([&plain, &scene.copy()], operation);
            }
            dir
        }
    };
    let review = scene.record(dir);
    Some((scene, review, before))
}

fn check(way: Way, operations: &[Operation]) -> Result<(), TestCaseError> {
    let Some((scene, review, before)) = run(way, operations) else {
        return Ok(());
    };
    prop_assert_eq!(
        &before,
        &snapshot(&scene.lower(), true),
        "the run changed the project"
    );
    review.discard(scene.reviews_fd().as_fd()).unwrap();
    prop_assert_eq!(
        &before,
        &snapshot(&scene.lower(), true),
        "a discard changed the project"
    );
    prop_assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);

    let Some((scene, mut review, _)) = run(way, operations) else {
        return Ok(());
    };
    let wanted = snapshot(&scene.dir().join("plain"), false);
    let listed = lines(review.review());
    let applied = apply(&mut review, &all());
    applied.map_err(|error| TestCaseError::fail(format!("{error}: {listed:?}")))?;
    prop_assert_eq!(snapshot(&scene.lower(), false), wanted, "{:?}", listed);
    prop_assert_eq!(lines(review.review()), [""; 0]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FORGE_REVIEW_CASES").map_or(60, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_applied_is_what_the_run_did(
        operations in proptest::collection::vec(operation(), 1..25)
    ) {
        check(Way::Overlay, &operations)?;
    }

    #[test]
    fn what_is_applied_is_what_the_run_did_in_its_copy(
        operations in proptest::collection::vec(operation(), 1..25)
    ) {
        check(Way::Copy, &operations)?;
    }
}
