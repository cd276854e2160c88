//! Applies: the results, the kept properties, the refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use forge_review::{ChangeSelection, OpenReview, ReviewDir, ReviewError};
use rustix::fs::{FileType, Mode};

use crate::scene::{
    RUN, Scene, all, apply, lay, lines, paths, set_xattr, snapshot, tree_path, white_out,
};

fn read(scene: &Scene, path: &str) -> Option<String> {
    fs::read_to_string(scene.lower().join(path)).ok()
}

/// An apply is refused, and the project is as it was.
fn refused(scene: &Scene, review: &mut OpenReview, selection: &ChangeSelection) -> ReviewError {
    let before = snapshot(&scene.lower(), true);
    let listed = lines(review.review());
    let error = apply(review, selection).unwrap_err();
    let after = snapshot(&scene.lower(), true);
    // The root's times change with the directory for prepared files.
    let differs = |(path, text): &(&std::path::PathBuf, &String)| {
        path.as_os_str() != "" && after.get(*path) != Some(*text)
    };
    assert!(
        !before.iter().any(|entry| differs(&entry)) && before.len() == after.len(),
        "{error}"
    );
    assert_eq!(lines(review.review()), listed);
    assert!(!scene.reviews().join(RUN).join("journal").exists());
    error
}

/// Returns the number of a prepared file.
fn number(path: &Path) -> Option<u32> {
    path.file_name()?
        .to_str()?
        .strip_prefix("new-")?
        .parse()
        .ok()
}

/// A program in the project moves a file of its own over each prepared one.
#[test]
fn an_exchanged_file_is_not_applied() {
    let mut exchanged = 0;
    for _ in 0..20 {
        let scene = Scene::new();
        let dir = scene.create();
        let files: Vec<String> = (0..40).map(|n| format!("f-{n}=new")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        lay(&scene.upper(), &files);
        let mut review = scene.record(dir);
        let is_over = AtomicBool::new(false);
        let exchange = || {
            let mut count = 0;
            let own = scene.lower().join("own");
            while !is_over.load(Ordering::Relaxed) {
                let all = fs::read_dir(scene.lower()).unwrap().flatten();
                let is_area = |one: &fs::DirEntry| {
                    one.file_name()
                        .to_string_lossy()
                        .starts_with(".forge-review-")
                };
                for area in all.filter(is_area) {
                    fs::write(&own, "evil").unwrap();
                    // The one that is being prepared, and one that waits.
                    let prepared = fs::read_dir(area.path()).into_iter().flatten().flatten();
                    let newest = prepared
                        .map(|one| one.path())
                        .max_by_key(|path| number(path));
                    for prepared in [newest, Some(area.path().join("new-7"))]
                        .into_iter()
                        .flatten()
                    {
                        let moved = prepared.exists() && fs::rename(&own, prepared).is_ok();
                        count += usize::from(moved);
                    }
                }
            }
            let _ = fs::remove_file(own);
            count
        };
        thread::scope(|threads| {
            let other = threads.spawn(exchange);
            // Its error is that the file was changed, or that the directory is not empty.
            let _ = apply(&mut review, &all());
            is_over.store(true, Ordering::Relaxed);
            exchanged += other.join().unwrap();
        });
        for n in 0..40 {
            let text = read(&scene, &format!("f-{n}"));
            assert!(
                matches!(text.as_deref(), None | Some("new")),
                "{n}: {text:?}"
            );
        }
    }
    assert!(exchanged > 0, "the other program came too late each time");
}

/// Two reviews, of which neither makes a repository alone.
#[test]
fn no_apply_completes_a_repository_that_another_one_began() {
    // The changes, those that another review applies before, and what is left out of an apply.
    let rows: [(&[&str], &[&str], &[&str]); 7] = [
        (
            &["x/objects/o=1", "x/refs/", "x/a=1"],
            &["x/HEAD=ref: x"],
            &["x/objects", "x/objects/o", "x/refs"],
        ),
        (
            &["x/HEAD=ref: x", "x/a=1"],
            &["x/objects/", "x/refs/"],
            &["x/HEAD"],
        ),
        (&["x/HEAD=ref: x"], &["x/commondir=y"], &["x/HEAD"]),
        (&["x/commondir=y"], &["x/HEAD=ref: x"], &["x/commondir"]),
        (
            &["x/config=[core]", "x/hooks/h=1", "x/a=1"],
            &["x/HEAD=1", "x/objects/", "x/refs/"],
            &["x/config", "x/hooks", "x/hooks/h"],
        ),
        (&["HEAD=1", "refs/"], &["objects/"], &["HEAD"]),
        (
            &["x/a=1", "y/HEAD=1"],
            &["x/HEAD=1", "x/objects/", "x/refs/"],
            &[],
        ),
    ];
    for (changed, by_another, skipped) in rows {
        let scene = Scene::new();
        lay(&scene.lower(), &["x/src=1", "y/src=1"]);
        let dir = scene.create();
        lay(&scene.upper(), changed);
        let mut review = scene.record(dir);
        lay(&scene.lower(), by_another);
        let report = apply(&mut review, &all()).unwrap();
        let left = report.skipped_protected.iter();
        let left: Vec<String> = left.map(|(_, path)| path.to_string()).collect();
        assert_eq!(left, skipped, "{changed:?} {by_another:?}");
        for path in skipped {
            assert!(
                !scene.lower().join(path).exists(),
                "{path} after {by_another:?}"
            );
        }
        // A person may name them.
        if !skipped.is_empty() {
            let named = ChangeSelection {
                protected: vec![(0, tree_path("."))],
                ..ChangeSelection::default()
            };
            apply(&mut review, &named).unwrap();
            assert!(skipped.iter().all(|path| scene.lower().join(path).exists()));
        }
    }
}

#[test]
fn some_paths_now_and_the_rest_later() {
    let scene = Scene::new();
    lay(&scene.lower(), &["a=1", "b=1", "d/f=1", "d/g=1"]);
    let dir = scene.create();
    lay(&scene.upper(), &["a=2", "d/f=2", "n/m/f=2", "n/other=2"]);
    white_out(&scene.upper(), &["b", "d/g"]);
    let mut review = scene.record(dir);
    let report = apply(&mut review, &paths(&["n/m", "d"])).unwrap();
    // The new directory above comes along, and nothing else in it.
    assert_eq!(
        lines(review.review()),
        ["modified a", "deleted b", "added n/other"]
    );
    assert_eq!(read(&scene, "n/m/f").as_deref(), Some("2"));
    assert_eq!((read(&scene, "n/other"), read(&scene, "d/g")), (None, None));
    assert_eq!(read(&scene, "a").as_deref(), Some("1"));
    let hash = |change: &forge_review::AppliedChange| {
        let content = |state: &Option<forge_review::ObjectState>| {
            let content = state.as_ref().and_then(|state| state.content.clone());
            content.map(|content| content[..13].to_owned())
        };
        (
            change.path.to_string(),
            content(&change.before),
            content(&change.after),
        )
    };
    // SHA-256 of `1` and of `2`.
    let (one, two) = (
        Some("sha256:6b86b2".to_owned()),
        Some("sha256:d4735e".to_owned()),
    );
    let applied: Vec<_> = report.record.changes.iter().map(hash).collect();
    assert!(
        applied.contains(&("d/f".to_owned(), one.clone(), two.clone())),
        "{applied:?}"
    );
    assert!(
        applied.contains(&("d/g".to_owned(), one, None)),
        "{applied:?}"
    );
    assert!(
        applied.contains(&("n/m/f".to_owned(), None, two)),
        "{applied:?}"
    );
    assert_eq!(report.record.by, "tester");
    apply(&mut review, &all()).unwrap();
    drop(review);
    let review = scene.open();
    assert_eq!(lines(review.review()), [""; 0]);
    assert_eq!(review.review().applied.len(), 2);
    assert_eq!(read(&scene, "b"), None);
}

#[test]
fn hunks() {
    let scene = Scene::new();
    let text = |first: &str, last: &str| format!("f={first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    lay(&scene.lower(), &[&text("1", "9"), "other=1"]);
    let dir = scene.create();
    lay(&scene.upper(), &[&text("one", "nine"), "other=2"]);
    fs::set_permissions(scene.upper().join("f"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut review = scene.record(dir);
    let hunk = |path: &str, numbers: &[usize]| ChangeSelection {
        hunks: BTreeMap::from([(
            (0, tree_path(path)),
            numbers.iter().copied().collect::<BTreeSet<_>>(),
        )]),
        ..ChangeSelection::default()
    };
    for (path, number, why) in [
        ("f", 2, "does not exist"),
        ("f", 0, "does not exist"),
        ("none", 1, "no hunks"),
    ] {
        let error = refused(&scene, &mut review, &hunk(path, &[number]));
        assert!(error.to_string().contains(why), "{error}");
    }
    let mode = |scene: &Scene| fs::metadata(scene.lower().join("f")).unwrap().mode() & 0o777;
    let before = mode(&scene);
    apply(&mut review, &hunk("f", &[9])).unwrap();
    assert_eq!(read(&scene, "f").unwrap(), text("1", "nine")[2..]);
    // The mode is a part of the rest.
    assert_eq!(mode(&scene), before);
    assert_eq!(lines(review.review()), ["modified f", "modified other"]);
    apply(&mut review, &hunk("f", &[1])).unwrap();
    assert_eq!(read(&scene, "f").unwrap(), text("one", "nine")[2..]);
    apply(&mut review, &paths(&["f"])).unwrap();
    assert_eq!(mode(&scene), 0o755);
    assert_eq!(lines(review.review()), ["modified other"]);
}

#[test]
fn modes_times_attributes_links_and_holes() {
    let scene = Scene::new();
    lay(&scene.lower(), &["old=1"]);
    let dir = scene.create();
    let upper = scene.upper();
    lay(
        &upper,
        &[
            "set-id=x",
            "d/f=x",
            "l->nowhere",
            "closed=x",
            "old=2",
            "dirs/shut/f=x",
        ],
    );
    fs::hard_link(upper.join("d/f"), upper.join("d/g")).unwrap();
    set_xattr(&upper.join("d"), "user.kept", "1");
    set_xattr(&upper.join("d/f"), "user.kept", "1");
    set_xattr(&upper.join("d/f"), "user.overlay.origin", "1");
    let set_mode = |path: &str, mode| {
        fs::set_permissions(upper.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("set-id", 0o6755);
    set_mode("closed", 0);
    set_mode("dirs/shut", 0o500);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in ["d/f", "d"] {
        fs::File::open(upper.join(path))
            .unwrap()
            .set_modified(then)
            .unwrap();
    }
    let sparse = fs::File::create(upper.join("sparse")).unwrap();
    sparse.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"data", 5 << 30).unwrap();
    drop(sparse);
    let mut review = scene.record(dir);
    let report = apply(&mut review, &all()).unwrap();
    let meta = |path: &str| fs::symlink_metadata(scene.lower().join(path)).unwrap();
    assert_eq!(meta("set-id").mode() & 0o7777, 0o755);
    assert!(
        report
            .record
            .notes
            .iter()
            .any(|note| note.starts_with("set-id:")),
        "{:?}",
        report.record.notes
    );
    assert_eq!(meta("closed").mode() & 0o7777, 0);
    assert_eq!(meta("dirs/shut").mode() & 0o7777, 0o500);
    assert_eq!(meta("d/f").ino(), meta("d/g").ino());
    assert_eq!(meta("d/f").modified().unwrap(), then);
    assert_eq!(meta("d").modified().unwrap(), then);
    assert_eq!(
        fs::read_link(scene.lower().join("l")).unwrap().to_str(),
        Some("nowhere")
    );
    let list = |path: &str| {
        let mut list = vec![0; 999];
        let length = rustix::fs::llistxattr(scene.lower().join(path), &mut list[..]).unwrap();
        String::from_utf8(list[..length].to_vec()).unwrap()
    };
    assert!(list("d").contains("user.kept") && list("d/f").contains("user.kept"));
    assert!(!list("d/f").contains("overlay"));
    let sparse = meta("sparse");
    assert_eq!(sparse.len(), 10 << 30);
    assert!(sparse.blocks() < 1000, "{} blocks", sparse.blocks());
    let mut found = [0; 4];
    let file = fs::File::open(scene.lower().join("sparse")).unwrap();
    std::os::unix::fs::FileExt::read_at(&file, &mut found, 5 << 30).unwrap();
    assert_eq!(&found, b"data");
    // So that an ordinary user can remove it.
    fs::set_permissions(
        scene.lower().join("dirs/shut"),
        fs::Permissions::from_mode(0o700),
    )
    .unwrap();
}

#[test]
fn hard_links_that_are_split_are_told() {
    let scene = Scene::new();
    lay(&scene.lower(), &["one=1"]);
    fs::hard_link(scene.lower().join("one"), scene.lower().join("two")).unwrap();
    let dir = scene.create();
    lay(&scene.upper(), &["one=2", "a=x"]);
    fs::hard_link(scene.upper().join("a"), scene.upper().join("b")).unwrap();
    let mut review = scene.record(dir);
    let report = apply(&mut review, &paths(&["one", "a"])).unwrap();
    let notes = report.record.notes.join("\n");
    assert!(
        notes.contains("one: it had 2 hard links") && notes.contains("a: it is a hard link"),
        "{notes}"
    );
    assert_eq!(read(&scene, "two").as_deref(), Some("1"));
}

/// A command could change the protected file by the other name.
#[test]
fn a_protected_name_shares_its_file_with_no_other() {
    for (named, protected, other) in [
        (".vscode", ".vscode/tasks.json", "docs/t"),
        ("z/.vscode", "z/.vscode/tasks.json", "a"),
    ] {
        let scene = Scene::new();
        let dir = scene.create();
        let upper = scene.upper();
        lay(&upper, &[&format!("{protected}=x"), "docs/u=u"]);
        fs::hard_link(upper.join(protected), upper.join(other)).unwrap();
        fs::hard_link(upper.join("docs/u"), upper.join("docs/v")).unwrap();
        let mut review = scene.record(dir);
        let selection = ChangeSelection {
            protected: vec![(0, tree_path(named))],
            ..all()
        };
        apply(&mut review, &selection).unwrap();
        let links = |path: &str| fs::metadata(scene.lower().join(path)).unwrap().nlink();
        assert_eq!([protected, other, "docs/u"].map(links), [1, 1, 2]);
        assert_eq!(read(&scene, protected).as_deref(), Some("x"));
        assert_eq!(read(&scene, other).as_deref(), Some("x"));
    }
}

#[test]
fn protected_names_only_by_name() {
    let scene = Scene::new();
    let dir = scene.create();
    lay(
        &scene.upper(),
        &["a=1", ".vscode/tasks.json=x", "sub/.git/hooks/pre-commit=x"],
    );
    let mut review = scene.record(dir);
    let report = apply(&mut review, &all()).unwrap();
    let skipped: Vec<String> = report
        .skipped_protected
        .iter()
        .map(|(_, path)| path.to_string())
        .collect();
    assert_eq!(
        skipped,
        [
            ".vscode",
            ".vscode/tasks.json",
            "sub/.git/hooks",
            "sub/.git/hooks/pre-commit"
        ]
    );
    assert!(!scene.lower().join(".vscode").exists());
    // To name a path is not enough.
    let report = apply(&mut review, &paths(&[".vscode"])).unwrap();
    assert_eq!(
        (report.record.changes.len(), report.skipped_protected.len()),
        (0, 2)
    );
    let protected = |path: &str| ChangeSelection {
        protected: vec![(0, tree_path(path))],
        ..ChangeSelection::default()
    };
    let error = refused(&scene, &mut review, &protected("a"));
    assert!(matches!(error, ReviewError::Selection { .. }), "{error}");
    apply(&mut review, &protected(".vscode")).unwrap();
    assert_eq!(read(&scene, ".vscode/tasks.json").as_deref(), Some("x"));
    assert_eq!(lines(review.review()).len(), 2);
}

#[test]
fn a_kind_that_an_apply_cannot_make() {
    let scene = Scene::new();
    lay(&scene.lower(), &["was-file=1"]);
    let dir = scene.create();
    lay(&scene.upper(), &["a=1"]);
    for name in ["pipe", "was-file"] {
        let path = scene.upper().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
    let mut review = scene.record(dir);
    let error = refused(&scene, &mut review, &paths(&["pipe"]));
    assert!(error.to_string().contains("cannot be applied"), "{error}");
    let report = apply(&mut review, &all()).unwrap();
    assert_eq!(report.skipped_special.len(), 2);
    assert_eq!(read(&scene, "was-file").as_deref(), Some("1"));
    assert_eq!(
        lines(review.review()),
        ["added pipe", "type_changed was-file"]
    );
}

#[test]
fn what_changed_below_is_refused_as_a_whole() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "outside").unwrap();
    type Change = fn(&Scene, &std::path::Path);
    let rows: [(&str, Change); 10] = [
        ("content", |scene, _| lay(&scene.lower(), &["a=9"])),
        ("mode", |scene, _| {
            let mode = fs::Permissions::from_mode(0o777);
            fs::set_permissions(scene.lower().join("a"), mode).unwrap();
        }),
        ("gone", |scene, _| {
            fs::remove_file(scene.lower().join("a")).unwrap()
        }),
        ("link in place of a file", |scene, outside| {
            fs::remove_file(scene.lower().join("a")).unwrap();
            std::os::unix::fs::symlink(outside.join("f"), scene.lower().join("a")).unwrap();
        }),
        ("link in place of a directory", |scene, outside| {
            fs::remove_dir_all(scene.lower().join("d")).unwrap();
            std::os::unix::fs::symlink(outside, scene.lower().join("d")).unwrap();
        }),
        ("new file where one is added", |scene, _| {
            lay(&scene.lower(), &["new=9"])
        }),
        ("link where a directory is added", |scene, outside| {
            std::os::unix::fs::symlink(outside, scene.lower().join("n")).unwrap();
        }),
        ("file in a deleted directory", |scene, _| {
            lay(&scene.lower(), &["gone/more=9"])
        }),
        ("file in a deleted directory changed", |scene, _| {
            lay(&scene.lower(), &["gone/f=9"])
        }),
        ("deleted already", |scene, _| {
            fs::remove_dir_all(scene.lower().join("gone")).unwrap()
        }),
    ];
    for (name, change) in rows {
        let scene = Scene::new();
        lay(&scene.lower(), &["a=1", "d/f=1", "gone/f=1", "z=1"]);
        let dir = scene.create();
        lay(&scene.upper(), &["a=2", "d/f=2", "new=2", "n/f=2", "z=2"]);
        white_out(&scene.upper(), &["gone"]);
        let mut review = scene.record(dir);
        change(&scene, outside.path());
        let error = refused(&scene, &mut review, &all());
        assert!(
            matches!(error, ReviewError::ChangedBelow(_)),
            "{name}: {error}"
        );
        assert_eq!(
            fs::read_to_string(outside.path().join("f")).unwrap(),
            "outside"
        );
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{name}");
        // Other paths are free.
        apply(&mut review, &paths(&["z"])).unwrap();
        assert_eq!(read(&scene, "z").as_deref(), Some("2"), "{name}");
    }
}

#[test]
fn a_layer_that_changed_since_it_was_listed_is_refused() {
    let scene = Scene::new();
    let dir = scene.create();
    lay(&scene.upper(), &["a=1", "b=1"]);
    let mut review = scene.record(dir);
    lay(&scene.upper(), &["b=9"]);
    let error = refused(&scene, &mut review, &all());
    assert!(
        error.to_string().contains("not as it was listed"),
        "{error}"
    );
}

/// The project's path is a file and a link in turns while it is applied.
#[test]
fn a_path_that_is_swapped_meanwhile_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "outside").unwrap();
    let (mut applied, mut refusals) = (0, 0);
    for round in 0..600 {
        // A busy machine needs more rounds until a swap is met.
        if round >= 60 && refusals > 0 {
            break;
        }
        let scene = Scene::new();
        lay(&scene.lower(), &["d/f=1", "spare/f=1"]);
        std::os::unix::fs::symlink(outside.path(), scene.lower().join("link")).unwrap();
        let dir = scene.create();
        lay(&scene.upper(), &["d/f=2"]);
        for n in 0..20 {
            lay(&scene.upper(), &[&format!("d/new-{n}=2")]);
        }
        let mut review = scene.record(dir);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (at, link) = (scene.lower().join("d"), scene.lower().join("link"));
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let swap = || {
                        let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                        rustix::fs::renameat_with(cwd, &at, cwd, &link, flags).unwrap();
                    };
                    swap();
                    swap();
                    std::thread::sleep(Duration::from_micros(50 * (round % 60)));
                }
            });
            match apply(&mut review, &all()) {
                Ok(_) => applied += 1,
                Err(_) => refusals += 1,
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(
            fs::read_to_string(outside.path().join("f")).unwrap(),
            "outside"
        );
        assert_eq!(
            fs::read_dir(outside.path()).unwrap().count(),
            1,
            "round {round}"
        );
    }
    eprintln!("applied {applied}, refused {refusals}");
    assert!(refusals > 0, "no swap was met");
}

/// The last step fails, so all others are taken back.
#[test]
fn a_failure_half_way_moves_everything_back() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: no directory is closed to root");
        return;
    }
    let scene = Scene::new();
    lay(
        &scene.lower(),
        &["a=1", "b/f=1", "gone/f=1", "kind=1", "z/f=1", "mode=1"],
    );
    let close = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(scene.lower().join("z"), mode).unwrap();
    };
    close(0o555);
    let dir = scene.create();
    lay(
        &scene.upper(),
        &["a=2", "b/f=2", "kind/f=2", "new/d/f=2", "z/f=2", "mode=1"],
    );
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(scene.upper().join("mode"), mode).unwrap();
    let mode = fs::Permissions::from_mode(0o555);
    fs::set_permissions(scene.upper().join("z"), mode).unwrap();
    white_out(&scene.upper(), &["gone"]);
    let mut review = scene.record(dir);
    let before = snapshot(&scene.lower(), false);
    let listed = lines(review.review());
    let error = apply(&mut review, &all()).unwrap_err();
    assert!(error.to_string().contains("z/f"), "{error}");
    assert_eq!(snapshot(&scene.lower(), false), before);
    assert_eq!(lines(review.review()), listed);
    close(0o755);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scene.upper().join("z"), mode).unwrap();
    apply(&mut review, &all()).unwrap();
    assert_eq!(read(&scene, "z/f").as_deref(), Some("2"));
}

#[test]
fn one_process_at_a_time() {
    let scene = Scene::new();
    let dir = scene.create();
    let again = || ReviewDir::open(scene.reviews_fd().as_fd(), RUN.as_ref());
    assert!(matches!(again().unwrap_err(), ReviewError::Busy));
    lay(&scene.upper(), &["a=1"]);
    let mut review = scene.record(dir);
    assert!(matches!(again().unwrap_err(), ReviewError::Busy));
    let other = scene.lowers().remove(0).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(matches!(
        refused(&scene, &mut review, &all()),
        ReviewError::Busy
    ));
    drop(other);
    apply(&mut review, &all()).unwrap();
}

#[test]
fn a_project_that_was_moved_away_is_not_written() {
    let scene = Scene::new();
    let dir = scene.create();
    lay(&scene.upper(), &["a=1"]);
    let review = scene.record(dir);
    drop(review);
    fs::rename(scene.lower(), scene.dir().join("moved")).unwrap();
    fs::create_dir(scene.lower()).unwrap();
    let mut review = scene.open();
    assert!(matches!(
        refused(&scene, &mut review, &all()),
        ReviewError::LowerGone(_)
    ));
    review.discard(scene.reviews_fd().as_fd()).unwrap();
}

#[test]
fn a_discarded_review_is_gone() {
    let scene = Scene::new();
    lay(&scene.lower(), &["a=1"]);
    let before = snapshot(&scene.lower(), true);
    let dir = scene.create();
    lay(&scene.upper(), &["a=2", "d/e/f=2"]);
    // As overlayfs leaves it.
    let work = scene.upper().with_file_name("work").join("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o000)).unwrap();
    let review = scene.record(dir);
    review.discard(scene.reviews_fd().as_fd()).unwrap();
    assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);
    assert_eq!(snapshot(&scene.lower(), true), before);
    // The rest of a discard that was interrupted.
    lay(&scene.reviews(), &[".discarded-run-2/mounts/x/f=1"]);
    assert_eq!(
        ReviewDir::list(scene.reviews_fd().as_fd()).unwrap(),
        [""; 0]
    );
    assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);
}
