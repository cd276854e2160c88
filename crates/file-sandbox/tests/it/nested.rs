//! Mounts of other directories below a mount: the deepest mount has a path, what it covers is not
//! there, and a mount point stays where it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use file_sandbox::{
    ErrorKind, FileSandbox, ListOptions, Mode, Mount, MoveOptions, Restriction, SearchOptions,
    WalkOptions,
};

use crate::scene::{mount, names, path};

/// A project at `/`, caches from elsewhere at `/cache`, `/cache/npm`, `/deep/er/tmp`, `/file/below`
/// and `/link/below`. What the project has at the place of a mount point is called "covered".
struct Tree {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

const MOUNTS: [(&str, &str, Mode); 6] = [
    ("/", "project", Mode::ReadWrite),
    ("/cache", "cache", Mode::ReadOnly),
    ("/cache/npm", "npm", Mode::ReadWrite),
    ("/deep/er/tmp", "tmp", Mode::ReadWrite),
    ("/file/below", "below_file", Mode::ReadWrite),
    ("/link/below", "below_link", Mode::ReadWrite),
];

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for below in [
            "project/src",
            "project/cache/npm",
            "project/deep",
            "project/elsewhere/below",
            "cache/npm",
            "npm",
            "tmp",
            "below_file",
            "below_link",
        ] {
            fs::create_dir_all(top.join(below)).unwrap();
        }
        for file in [
            "project/src/a.rs",
            "project/file",
            "cache/c.txt",
            "npm/n.txt",
            "tmp/t.txt",
            "below_file/f.txt",
            "below_link/l.txt",
        ] {
            fs::write(top.join(file), format!("needle {file}\n")).unwrap();
        }
        for file in [
            "project/cache/c.txt",
            "project/cache/old.txt",
            "cache/npm/n.txt",
            "project/elsewhere/below/l.txt",
        ] {
            fs::write(top.join(file), "needle covered\n").unwrap();
        }
        symlink("elsewhere", top.join("project/link")).unwrap();
        symlink("cache/c.txt", top.join("project/to_cache")).unwrap();
        symlink(
            top.join("project/cache/old.txt"),
            top.join("project/to_covered"),
        )
        .unwrap();
        symlink(top.join("cache/c.txt"), top.join("project/to_cache_abs")).unwrap();
        symlink("../src/a.rs", top.join("npm/up")).unwrap();
        Self { _dir: dir, top }
    }

    /// In this order or the other one: the order of mounts says nothing.
    fn files(&self, reversed: bool) -> FileSandbox {
        let mut mounts: Vec<Mount> = MOUNTS
            .iter()
            .map(|(target, host, mode)| mount(target, &self.top.join(host), *mode))
            .collect();
        if reversed {
            mounts.reverse();
        }
        FileSandbox::new(mounts).unwrap()
    }

    /// Everything below the top, with contents: what a refused call must not change.
    fn snapshot(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut pending = vec![self.top.clone()];
        let mut all = Vec::new();
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    pending.push(entry.path());
                }
                let text = kind.is_file().then(|| fs::read(entry.path()).unwrap());
                all.push((entry.path(), text));
            }
        }
        all.sort();
        all
    }
}

#[test]
fn the_deepest_mount_has_a_path() {
    let tree = Tree::new();
    for files in [tree.files(false), tree.files(true)] {
        for (at, expected) in [
            ("/src/a.rs", "project/src/a.rs"),
            ("/cache/c.txt", "cache/c.txt"),
            ("/cache/npm/n.txt", "npm/n.txt"),
            ("/cache/npm/../c.txt", "cache/c.txt"),
            ("/deep/er/tmp/t.txt", "tmp/t.txt"),
            ("/file/below/f.txt", "below_file/f.txt"),
            ("/link/below/l.txt", "below_link/l.txt"),
            ("/to_cache", "cache/c.txt"),
            ("/to_cache_abs", "cache/c.txt"),
        ] {
            let read = files.read(&path(at), Default::default()).expect(at);
            assert_eq!(read.content, format!("needle {expected}\n"), "{at}");
        }
        for (at, kind) in [
            ("/cache/old.txt", ErrorKind::NotFound),
            ("/to_covered", ErrorKind::Escape),
            // A link that climbs out of its mount is refused, as between any two mounts.
            ("/cache/npm/up", ErrorKind::Escape),
            ("/file", ErrorKind::NotAFile),
            ("/link", ErrorKind::NotAFile),
            ("/deep/er", ErrorKind::NotAFile),
        ] {
            let denied = files.read(&path(at), Default::default()).expect_err(at);
            assert_eq!(denied.kind(), kind, "{at}: {denied}");
        }
        for (host, expected) in [
            ("cache/c.txt", Some("/cache/c.txt")),
            ("project/src/a.rs", Some("/src/a.rs")),
            ("project/cache/old.txt", None),
        ] {
            let found = files.path_of_host(tree.top.join(host));
            assert_eq!(
                found.as_ref().map(|found| found.as_str()),
                expected,
                "{host}"
            );
        }
    }
}

#[test]
fn walks_descend_into_each_mount_by_its_own_rules() {
    let tree = Tree::new();
    let files = tree.files(false);
    assert_eq!(
        names(&files, "/", ListOptions::new()),
        [
            "cache",
            "deep",
            "elsewhere",
            "file",
            "link",
            "src",
            "to_cache",
            "to_cache_abs",
            "to_covered"
        ]
    );
    for (at, expected) in [
        ("/cache", &["c.txt", "npm"][..]),
        ("/cache/npm", &["n.txt", "up"]),
        ("/deep", &["er"]),
        ("/deep/er", &["tmp"]),
        ("/file", &["below"]),
        ("/link", &["below"]),
    ] {
        assert_eq!(names(&files, at, ListOptions::new()), expected, "{at}");
    }
    let texts = [
        "cache/c.txt",
        "cache/npm/n.txt",
        "deep/er/tmp/t.txt",
        "elsewhere/below/l.txt",
        "file/below/f.txt",
        "link/below/l.txt",
    ];
    assert_eq!(
        names(&files, "/", ListOptions::new().pattern("**/*.txt")),
        texts
    );
    let walked = files.walk(&path("/"), WalkOptions::new()).unwrap();
    assert!(
        walked
            .entries
            .iter()
            .any(|entry| entry.name == "deep/er/tmp/t.txt")
    );
    let found = files
        .search(&path("/"), "needle", SearchOptions::new())
        .unwrap();
    let told: Vec<String> = found
        .hits
        .iter()
        .map(|hit| format!("{}: {}", hit.path.as_str(), hit.text))
        .collect();
    assert!(
        told.contains(&"/cache/npm/n.txt: needle npm/n.txt".to_owned()),
        "{told:?}"
    );
    assert!(
        told.contains(&"/deep/er/tmp/t.txt: needle tmp/t.txt".to_owned()),
        "{told:?}"
    );
    // The covered text of /elsewhere is shown at its own place only.
    let covered = told.iter().filter(|line| line.contains("covered")).count();
    assert_eq!(covered, 1, "{told:?}");

    // The suffixes of the outer mount do not bind the inner one, nor its hidden names.
    let suffixes = file_sandbox::Limits::new().suffixes([".rs"]);
    let outer = mount("/", &tree.top.join("project"), Mode::ReadWrite).with_limits(suffixes);
    let outer = outer.hide([".cache"]).unwrap();
    let files = FileSandbox::new(vec![
        outer,
        mount("/.cache/npm", &tree.top.join("npm"), Mode::ReadOnly),
    ])
    .unwrap();
    assert!(
        files
            .read(&path("/.cache/npm/n.txt"), Default::default())
            .is_ok()
    );
    assert_eq!(names(&files, "/.cache", ListOptions::new()), ["npm"]);
    assert_eq!(
        files.stat(&path("/.cache")).unwrap().kind,
        file_sandbox::EntryKind::Directory
    );
    let hits = files
        .search(&path("/"), "needle", SearchOptions::new())
        .unwrap()
        .hits;
    let hits: Vec<&str> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(hits, ["/.cache/npm/n.txt", "/src/a.rs"]);
}

/// Every way to take a mount point away, or to put something in its place or above it.
#[test]
fn a_mount_point_stays() {
    let tree = Tree::new();
    let files = tree.files(false);
    let before = tree.snapshot();
    for at in [
        "/cache",
        "/cache/npm",
        "/deep",
        "/deep/er",
        "/deep/er/tmp",
        "/file",
        "/link",
        "/file/below",
    ] {
        type Change<'a> = &'a dyn Fn(&FileSandbox) -> Result<(), file_sandbox::Error>;
        let over = || MoveOptions::new().overwrite(true);
        let a = || path("/src/a.rs");
        let changes: [(&str, Change<'_>); 11] = [
            ("delete", &|files| files.delete(&path(at))),
            ("delete all", &|files| files.delete_all(&path(at))),
            ("move away", &|files| {
                files.rename(&path(at), &path("/moved"), over()).map(drop)
            }),
            ("move a file there", &|files| {
                files.rename(&a(), &path(at), over()).map(drop)
            }),
            ("move a directory there", &|files| {
                files.rename(&path("/src"), &path(at), over()).map(drop)
            }),
            ("copy", &|files| {
                files.copy(&path(at), &path("/copy"), over()).map(drop)
            }),
            ("copy a file there", &|files| {
                files.copy(&a(), &path(at), over()).map(drop)
            }),
            ("write", &|files| {
                files.write(&path(at), "x", Default::default()).map(drop)
            }),
            ("append", &|files| files.append(&path(at), b"x").map(drop)),
            ("delete by a way around", &|files| {
                files.delete_all(&path(&format!("/src/..{at}/.")))
            }),
            ("check", &|files| {
                files
                    .check_write(&path(at))
                    .and(files.check_delete(&path(at)))
            }),
        ];
        for (what, change) in changes {
            // Questions that look at no file answer for the place only.
            if what == "check" && files.check_write(&path(at)).is_ok() {
                continue;
            }
            let denied = change(&files).expect_err(&format!("{what} {at}"));
            assert!(
                !denied.to_string().contains(tree.top.to_str().unwrap()),
                "{denied}"
            );
            assert_eq!(tree.snapshot(), before, "{what} {at}");
        }
    }
    // Through a link of the outer mount, too.
    symlink("cache", tree.top.join("project/to_dir")).unwrap();
    let before = tree.snapshot();
    assert!(files.delete_all(&path("/to_dir/npm")).is_err());
    assert_eq!(tree.snapshot(), before);
    // What is not a mount point below a shown directory can be changed.
    files
        .write(&path("/deep/er/new.txt"), "x", Default::default())
        .unwrap();
    assert_eq!(
        names(&files, "/deep/er", ListOptions::new()),
        ["new.txt", "tmp"]
    );
    let denied = files.delete_all(&path("/deep")).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "Cannot delete '/deep': it holds a root of the sandbox."
    );
}

/// Each mode counts where it says: ro below rw, and rw below ro.
#[test]
fn each_mount_has_its_own_mode() {
    let tree = Tree::new();
    let files = tree.files(false);
    for (at, writes) in [
        ("/src/new.rs", true),
        ("/cache/new.txt", false),
        ("/cache/npm/new.txt", true),
        ("/to_cache", false),
    ] {
        let written = files.write(&path(at), "x", Default::default());
        assert_eq!(written.is_ok(), writes, "{at}: {written:?}");
        assert_eq!(files.can_write(&path(at)), writes, "{at}");
    }
    assert!(tree.top.join("npm/new.txt").is_file());
    assert!(!tree.top.join("project/cache/npm/new.txt").exists());
}

/// A narrower sandbox has no mount that was not kept, and never what a mount had covered.
#[test]
fn a_narrower_sandbox_uncovers_nothing() {
    let tree = Tree::new();
    let files = tree.files(false);
    let keep = |place: &str| {
        files
            .restrict(&Restriction::new().keep(path(place)))
            .unwrap()
    };
    for (place, roots) in [
        ("/src", &["/src"][..]),
        ("/cache", &["/cache", "/cache/npm"]),
        ("/cache/npm", &["/cache/npm"]),
        ("/deep", &["/deep", "/deep/er/tmp"]),
        ("/deep/er", &["/deep/er/tmp"]),
        ("/file", &["/file/below"]),
        (
            "/",
            &[
                "/",
                "/cache",
                "/cache/npm",
                "/deep/er/tmp",
                "/file/below",
                "/link/below",
            ],
        ),
    ] {
        let mut kept = keep(place).readable_roots();
        kept.sort();
        assert_eq!(kept, roots, "{place}");
        let old = keep(place).read(&path("/cache/old.txt"), Default::default());
        assert!(old.is_err(), "{place}");
    }
    assert!(
        keep("/src")
            .read(&path("/cache/c.txt"), Default::default())
            .is_err()
    );
    let rebased = files
        .restrict(&Restriction::new().rebase(path("/cache")))
        .unwrap();
    assert_eq!(rebased.readable_roots(), ["/", "/npm"]);
    assert_eq!(
        rebased
            .read(&path("/npm/n.txt"), Default::default())
            .unwrap()
            .content,
        "needle npm/n.txt\n"
    );
    let denied = files
        .restrict(&Restriction::new().keep_as(path("/cache"), Mode::ReadWrite))
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionEscalation);
}
