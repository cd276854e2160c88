//! Runs in a copy of the project: what is copied, what counts as a change, and what a kill leaves.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use forge_review::{LayerLimits, LeftOutReason, ReviewDir, ReviewError, ReviewStage};

use crate::scene::{
    DIR, RUN, Scene, all, apply, lay, lines, paths, set_xattr, snapshot, tree_path,
};

const PROJECT: [&str; 7] = [
    "a=one\n",
    "b=two\n",
    "d/a=three\n",
    "d/e/a=four\n",
    "d/e/b=five\n",
    "e/a=six\n",
    "l->/etc/passwd",
];

fn scene() -> Scene {
    let scene = Scene::new();
    lay(&scene.lower(), &PROJECT);
    let closed = fs::Permissions::from_mode(0o555);
    set_xattr(&scene.lower().join("d/a"), "user.test", "value");
    set_xattr(&scene.lower().join("e"), "user.test", "of a directory");
    fs::hard_link(scene.lower().join("b"), scene.lower().join("d/b")).unwrap();
    fs::set_permissions(scene.lower().join("d/e"), closed).unwrap();
    scene
}

/// The facts that a tree and its copy share: all but inodes and times of status.
fn shape(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = snapshot(dir, false)
        .into_iter()
        .map(|(path, text)| {
            let meta = fs::symlink_metadata(dir.join(&path)).unwrap();
            let times = (meta.mtime(), meta.mtime_nsec());
            let links = if meta.is_dir() { 0 } else { meta.nlink() };
            format!(
                "{path:?} {text} {times:?} {links} {}:{}",
                meta.uid(),
                meta.gid()
            )
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_copy_has_everything_and_the_project_stays_as_it_is() {
    let scene = scene();
    let before = snapshot(&scene.lower(), true);
    let dir = scene.create_copy();
    assert_eq!(snapshot(&scene.lower(), true), before);
    let copied = dir.review().mounts[0].copied.clone().unwrap();
    assert_eq!((copied.objects, copied.left_out), (11, 0));
    assert_eq!(shape(&scene.copy()), shape(&scene.lower()));
}

#[test]
fn a_large_file_keeps_its_holes() {
    let scene = Scene::new();
    let file = fs::File::create(scene.lower().join("sparse")).unwrap();
    file.set_len(10 << 30).unwrap();
    file.write_all_at(b"data", 5 << 30).unwrap();
    drop(file);
    let limits = LayerLimits {
        bytes: 1 << 20,
        ..LayerLimits::default()
    };
    drop(scene.try_create(true, limits).unwrap());
    let copy = fs::File::open(scene.copy().join("sparse")).unwrap();
    let meta = copy.metadata().unwrap();
    assert_eq!(meta.len(), 10 << 30);
    assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    let mut data = [0; 4];
    copy.read_exact_at(&mut data, 5 << 30).unwrap();
    assert_eq!(&data, b"data");
}

/// The changes that a run makes in its copy, and the lines of its review.
type Case = (&'static str, fn(&Path), &'static [&'static str]);

const CASES: [Case; 10] = [
    ("nothing", |_| (), &[]),
    (
        "the same bytes with the same times",
        |copy| {
            let times = fs::metadata(copy.join("a")).unwrap().modified().unwrap();
            fs::write(copy.join("a"), "two\n").unwrap();
            let file = fs::File::open(copy.join("a")).unwrap();
            file.set_modified(times).unwrap();
        },
        &["modified a"],
    ),
    (
        "written and not changed",
        |copy| fs::write(copy.join("a"), "one\n").unwrap(),
        &[],
    ),
    (
        "a mode alone",
        |copy| fs::set_permissions(copy.join("a"), fs::Permissions::from_mode(0o600)).unwrap(),
        &["metadata a"],
    ),
    (
        "a directory removed and made again",
        |copy| {
            fs::remove_dir_all(copy.join("e")).unwrap();
            fs::create_dir(copy.join("e")).unwrap();
            set_xattr(&copy.join("e"), "user.test", "of a directory");
            fs::write(copy.join("e/b"), "new").unwrap();
        },
        &["deleted e/a", "added e/b"],
    ),
    (
        "a directory renamed",
        |copy| fs::rename(copy.join("e"), copy.join("f")).unwrap(),
        &["deleted e", "added f", "added f/a"],
    ),
    (
        "two files exchanged",
        |copy| {
            fs::rename(copy.join("a"), copy.join("x")).unwrap();
            fs::rename(copy.join("e/a"), copy.join("a")).unwrap();
            fs::rename(copy.join("x"), copy.join("e/a")).unwrap();
        },
        &["modified a", "modified e/a"],
    ),
    (
        "one of two names of a file written",
        |copy| fs::write(copy.join("b"), "both\n").unwrap(),
        &["modified b", "modified d/b"],
    ),
    (
        "a directory in place of a file, and the reverse",
        |copy| {
            fs::remove_file(copy.join("a")).unwrap();
            lay(copy, &["a/x=new"]);
            fs::remove_dir_all(copy.join("e")).unwrap();
            fs::write(copy.join("e"), "file").unwrap();
        },
        &["type_changed a", "added a/x", "type_changed e"],
    ),
    (
        "marks of overlayfs mean nothing",
        |copy| {
            set_xattr(&copy.join("e"), "user.overlay.opaque", "y");
            set_xattr(&copy.join("d"), "user.overlay.opaque", "x");
            fs::write(copy.join("d/n"), "").unwrap();
            set_xattr(&copy.join("d/n"), "user.overlay.whiteout", "y");
        },
        &["added d/n"],
    ),
];

#[test]
fn changes_are_what_the_run_did() {
    for (what, run, wanted) in CASES {
        let scene = scene();
        let dir = scene.create_copy();
        let before = snapshot(&scene.lower(), true);
        run(&scene.copy());
        let mut review = scene.record(dir);
        assert_eq!(lines(review.review()), wanted, "{what}");
        assert_eq!(snapshot(&scene.lower(), true), before, "{what}");
        let meant = shape_without_times(&scene.copy());
        apply(&mut review, &all()).unwrap();
        assert_eq!(shape_without_times(&scene.lower()), meant, "{what}");
        assert!(!scene.copy().exists(), "{what}: the copy is left");
    }
}

/// A tree without its times and without the marks of overlayfs, which a project does not have.
fn shape_without_times(dir: &Path) -> Vec<String> {
    let is_own = |word: &&str| !word.starts_with("\"user.overlay.");
    let found = snapshot(dir, false).into_iter();
    found
        .map(|(path, text)| {
            let words: Vec<&str> = text.split(' ').filter(is_own).collect();
            format!("{path:?} {}", words.join(" "))
        })
        .collect()
}

#[test]
fn what_the_person_does_meanwhile_is_no_change_and_is_not_overwritten() {
    let scene = scene();
    let dir = scene.create_copy();
    let copy = scene.copy();
    // Of the person alone.
    lay(&scene.lower(), &["e/mine=new", "d/a=edited"]);
    // Of both.
    for root in [&scene.lower(), &copy] {
        lay(root, &["a=edited there", "new=both"]);
    }
    fs::remove_file(scene.lower().join("b")).unwrap();
    fs::write(copy.join("b"), "written").unwrap();
    // Of the run alone.
    fs::remove_dir_all(copy.join("e")).unwrap();
    fs::create_dir(copy.join("e")).unwrap();
    lay(&copy, &["e/x=run"]);
    fs::write(scene.lower().join("a"), "edited here").unwrap();
    let mut review = scene.record(dir);
    let changed: Vec<(String, bool)> = review
        .review()
        .changes()
        .map(|(_, change)| (change.path.to_string(), change.changed_below))
        .collect();
    let wanted = [
        ("a", true),
        ("b", true),
        ("d/b", true),
        ("e", false),
        ("e/a", false),
        ("e/x", false),
    ];
    assert_eq!(
        changed,
        wanted.map(|(path, below)| (path.to_owned(), below))
    );
    let refused = apply(&mut review, &all()).unwrap_err();
    assert!(matches!(refused, ReviewError::ChangedBelow(_)), "{refused}");
    // A refusal changes nothing: the run can go on.
    assert!(copy.exists());
    apply(&mut review, &paths(&["e"])).unwrap();
    let left = fs::read_dir(scene.lower().join("e")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["mine", "x"]);
}

#[test]
fn what_cannot_be_copied_is_left_out_and_told() {
    let scene = scene();
    let pipe = scene.lower().join("d/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let socket = scene.lower().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    lay(&scene.lower(), &["x/closed=text", "x/dir/a=text"]);
    for name in ["x/closed", "x/dir"] {
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(scene.lower().join(name), closed).unwrap();
    }
    let inner = scene.lower().join("state");
    fs::rename(scene.reviews(), &inner).unwrap();
    std::os::unix::fs::symlink(&inner, scene.reviews()).unwrap();
    let reviews = forge_review::open_host_dir(&inner).unwrap();
    let dir = scene
        .create_in(&reviews, true, LayerLimits::default())
        .unwrap();
    let copied = dir.review().mounts[0].copied.clone().unwrap();
    let told = copied.left_out_paths.into_iter();
    let told: Vec<_> = told.map(|one| (one.path, one.reason)).collect();
    let mut wanted = vec![
        (tree_path("d/pipe"), LeftOutReason::Special),
        (tree_path("socket"), LeftOutReason::Special),
        (tree_path("state"), LeftOutReason::Reviews),
    ];
    if !rustix::process::geteuid().is_root() {
        let closed = ["x/closed", "x/dir"].map(tree_path);
        wanted.extend(closed.map(|path| (path, LeftOutReason::Unreadable)));
    }
    assert_eq!(told, wanted);
    drop(dir);
    // An object that was left out does not count as deleted.
    let mut dir = ReviewDir::open(reviews.as_fd(), OsStr::new(RUN)).unwrap();
    assert_eq!(lines(&scene.try_record(&mut dir).unwrap()), [""; 0]);
}

#[test]
fn a_limit_leaves_nothing() {
    let limits = |entries, bytes| LayerLimits { entries, bytes };
    let cases = [
        (limits(5, 100), "the review has more than 5 files"),
        (limits(100, 8), "the review has more than 8 bytes"),
    ];
    for (limits, wanted) in cases {
        let scene = scene();
        let before = snapshot(&scene.lower(), true);
        let error = scene.try_create(true, limits).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
        assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);
        assert_eq!(snapshot(&scene.lower(), true), before);
    }
}

/// The content of a layer while a run is at work, and whether it is over 1 MiB in 3 files.
type Usage = (&'static str, fn(&Path), bool);

const USAGES: [Usage; 6] = [
    ("nothing", |_| (), false),
    (
        "a hole",
        |layer| file(layer, "a").set_len(10 << 30).unwrap(),
        false,
    ),
    (
        "two names of one file",
        |layer| {
            file(layer, "a").write_all_at(&[1; 600 << 10], 0).unwrap();
            fs::hard_link(layer.join("a"), layer.join("b")).unwrap();
        },
        false,
    ),
    (
        "two files",
        |layer| {
            file(layer, "a").write_all_at(&[1; 600 << 10], 0).unwrap();
            file(layer, "b").write_all_at(&[1; 600 << 10], 0).unwrap();
        },
        true,
    ),
    (
        "room beyond the end",
        |layer| {
            let room = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file(layer, "a"), room, 0, 4 << 20).unwrap();
        },
        true,
    ),
    (
        "many names",
        |layer| {
            fs::create_dir_all(layer.join("a/b")).unwrap();
            std::os::unix::fs::symlink("x", layer.join("a/c")).unwrap();
            file(layer, "a/d");
        },
        true,
    ),
];

fn file(dir: &Path, name: &str) -> fs::File {
    fs::File::create_new(dir.join(name)).unwrap()
}

#[test]
fn content_is_counted_while_a_run_is_at_work() {
    for (name, write, is_over) in USAGES {
        let scene = Scene::new();
        let limits = LayerLimits {
            entries: 3,
            bytes: 1 << 20,
        };
        let dir = scene.try_create(false, limits).unwrap();
        let usage = dir.usage(scene.reviews_fd().as_fd(), &limits).unwrap();
        write(&scene.upper());
        for is_running in [true, false] {
            let found = usage.check(is_running);
            assert_eq!(found.is_err(), is_over, "{name}: {found:?}");
        }
    }
}

#[test]
fn a_run_goes_on_until_something_is_applied() {
    let scene = scene();
    let mut dir = scene.create_copy();
    fs::write(scene.copy().join("a"), "first").unwrap();
    scene.try_record(&mut dir).unwrap();
    dir.resume().unwrap();
    assert_eq!(dir.review().stage, ReviewStage::Running);
    fs::write(scene.copy().join("n"), "second").unwrap();
    let mut review = scene.record(dir);
    assert_eq!(lines(review.review()), ["modified a", "added n"]);
    apply(&mut review, &paths(&["n"])).unwrap();
    drop(review);
    let mut dir = ReviewDir::open(scene.reviews_fd().as_fd(), OsStr::new(RUN)).unwrap();
    let error = dir.resume().unwrap_err().to_string();
    assert_eq!(error, "project: the copy in which the run worked is gone");
    drop(dir);
    let mut review = scene.open();
    apply(&mut review, &all()).unwrap();
    let text = fs::read_to_string(scene.lower().join("a")).unwrap();
    assert_eq!(text, "first");
}

#[test]
fn a_quarantine_stays_in_its_copy_until_the_review_is_discarded() {
    let scene = scene();
    let old = [".os-sandbox-quarantine/1/old=1"];
    lay(&scene.lower(), &old);
    let mut dir = scene.create_copy();
    let new = [
        ".os-sandbox-quarantine/.gitignore=*",
        ".os-sandbox-quarantine/2/.vscode/x=1",
    ];
    lay(&scene.copy(), &new);
    fs::write(scene.copy().join("a"), "changed").unwrap();
    let list = scene.try_record(&mut dir).unwrap();
    assert_eq!(lines(&list), ["modified a"]);
    let quarantined = list.mounts[0].quarantined.iter();
    let quarantined: Vec<String> = quarantined.map(ToString::to_string).collect();
    assert_eq!(quarantined, [".os-sandbox-quarantine/2"]);
    dir.drop_copies().unwrap();
    drop(dir);
    let mut review = scene.open();
    apply(&mut review, &all()).unwrap();
    drop(review);
    let kept = scene.copy().join(".os-sandbox-quarantine/2/.vscode/x");
    assert_eq!(fs::read_to_string(kept).unwrap(), "1");
    assert!(!scene.copy().join("a").exists());
    assert!(!scene.lower().join(".os-sandbox-quarantine/2").exists());
    let mut dir = ReviewDir::open(scene.reviews_fd().as_fd(), OsStr::new(RUN)).unwrap();
    let error = dir.resume().unwrap_err().to_string();
    assert_eq!(error, "project: the copy in which the run worked is gone");
    dir.discard(scene.reviews_fd().as_fd()).unwrap();
    assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);
}

/// Files of the project that is copied and settled until it is killed.
const FILES: usize = 200;

#[test]
#[ignore = "run by another test, which kills it"]
fn copies_and_settles_until_killed() {
    let scene = Scene::given();
    let mut dir = match fs::exists(scene.reviews().join(RUN)).unwrap() {
        true => ReviewDir::open(scene.reviews_fd().as_fd(), OsStr::new(RUN)).unwrap(),
        false => scene.create_copy(),
    };
    if !scene.copy().join("run").exists() {
        for n in (0..FILES).filter(|n| n % 20 != 3) {
            fs::write(scene.copy().join(format!("dir-{}/f-{n}", n % 20)), "new").unwrap();
        }
        let _ = fs::remove_dir_all(scene.copy().join("dir-3"));
        fs::write(scene.copy().join("run"), "").unwrap();
    }
    scene.try_record(&mut dir).unwrap();
}

/// Kills after each of these times: a copy, a run and a settling that were begun are complete in the
/// end, or leave nothing.
#[test]
fn a_kill_leaves_all_or_nothing() {
    let scene = Scene::new();
    for n in 0..FILES {
        lay(&scene.lower(), &[&format!("dir-{}/f-{n}=old", n % 20)]);
    }
    let before = snapshot(&scene.lower(), true);
    let mut ended = false;
    let mut wait_us = 500;
    for _ in 0..200 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "copies::copies_and_settles_until_killed",
                "--ignored",
            ])
            .env(DIR, scene.dir())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(wait_us));
        wait_us = wait_us * 11 / 10 + 500;
        ended = child
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(snapshot(&scene.lower(), true), before);
        let listed = ReviewDir::list(scene.reviews_fd().as_fd()).unwrap();
        let stored: Vec<_> = fs::read_dir(scene.reviews()).unwrap().collect();
        assert_eq!(stored.len(), listed.len(), "an incomplete review is left");
        if ended {
            break;
        }
    }
    assert!(ended, "no child came to its end");
    let review = scene.open();
    let changed = lines(review.review());
    let (written, others) = (FILES - FILES / 20, ["deleted dir-3", "added run"].len());
    assert_eq!(changed.len(), written + others);
    assert!(changed.contains(&"deleted dir-3".to_owned()), "{changed:?}");
}

/// The list removes reviews that a killed process has left, and none that another one makes or
/// discards.
#[test]
fn reviews_are_made_and_discarded_while_others_list_them() {
    let scene = Scene::new();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lists = || {
            while !is_done.load(Ordering::Relaxed) {
                ReviewDir::list(scene.reviews_fd().as_fd())?;
            }
            Ok::<(), ReviewError>(())
        };
        let listing = [scope.spawn(lists), scope.spawn(lists)];
        let makes = || {
            scene
                .try_create(false, LayerLimits::default())?
                .discard(scene.reviews_fd().as_fd())
        };
        let failed: Vec<_> = (0..300).filter_map(|_| makes().err()).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(failed.is_empty(), "{} of 300: {failed:?}", failed.len());
        for listed in listing {
            listed.join().unwrap().unwrap();
        }
    });
}

/// Attributes of overlays mean nothing outside of a layer: a command can set them in a copy, and a
/// project may have them.
#[test]
fn marks_of_overlays_are_ordinary_in_a_copy() {
    for mark in ["redirect", "metacopy", "opaque", "whiteout", "origin"] {
        let scene = scene();
        let mark = format!("user.overlay.{mark}");
        set_xattr(&scene.lower().join("b"), &mark, "y");
        let dir = scene.create_copy();
        fs::write(scene.copy().join("a"), "changed\n").unwrap();
        fs::write(scene.copy().join("e/new"), "").unwrap();
        for path in ["a", "b", "d", "e", "e/new", "."] {
            set_xattr(&scene.copy().join(path), &mark, "x");
        }
        let mut review = scene.record(dir);
        assert_eq!(
            lines(review.review()),
            ["modified a", "added e/new"],
            "{mark}"
        );
        apply(&mut review, &all()).unwrap();
        assert_eq!(fs::read(scene.lower().join("a")).unwrap(), b"changed\n");
        assert!(scene.lower().join("e/new").exists() && scene.lower().join("e/a").exists());
    }
}
