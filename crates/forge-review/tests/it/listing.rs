//! Lists of layers that an overlay or this test made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use forge_review::{ChangeClass, FileDiff, ReviewError, ReviewLimits};
use rustix::fs::{FileType, Mode};

use crate::scene::{Scene, all, apply, lay, lines, set_xattr, white_out};

#[test]
fn kinds_of_changes() {
    let scene = Scene::new();
    let files = [
        "same=1",
        "changed=1",
        "gone=1",
        "dir/f=1",
        "dir/g=1",
        "again/old=1",
        "again/same=1",
        "file-to-dir=1",
        "dir-to-file/f=1",
        "dir-to-link/f=1",
        "mode=1",
        "xattr=1",
        "l->a",
    ];
    lay(&scene.lower(), &files);
    set_xattr(&scene.lower().join("xattr"), "user.a", "1");
    let dir = scene.create();
    let upper = scene.upper();
    let files = [
        "same=1",
        "changed=2",
        "again/same=1",
        "again/new=1",
        "file-to-dir/f=1",
        "dir-to-file=1",
        "dir-to-link->x",
        "mode=1",
        "xattr=1",
        "l->b",
        "new/f=1",
    ];
    lay(&upper, &files);
    white_out(&upper, &["gone", "dir", "never-was"]);
    fs::set_permissions(upper.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    // Overlayfs marks both: a directory that was made again, and one that is simply new.
    for opaque in ["again", "new"] {
        set_xattr(&upper.join(opaque), "user.overlay.opaque", "y");
    }
    set_xattr(&upper.join("same"), "user.overlay.origin", "x");
    let review = scene.record(dir);
    let want = [
        "replaced again",
        "added again/new",
        "deleted again/old",
        "modified changed",
        "deleted dir",
        "type_changed dir-to-file",
        "type_changed dir-to-link",
        "type_changed file-to-dir",
        "added file-to-dir/f",
        "deleted gone",
        "modified l",
        "metadata mode",
        "added new",
        "added new/f",
        "metadata xattr",
    ];
    assert_eq!(lines(review.review()), want);
    let changes = review.review().changes();
    let sums = changes.filter_map(|(_, change)| change.before.as_ref()?.tree.as_ref());
    assert_eq!(
        sums.map(|sum| (sum.entries, sum.bytes)).collect::<Vec<_>>(),
        [(2, 2), (1, 1), (1, 1)]
    );
}

#[test]
fn whiteouts_in_attributes() {
    let scene = Scene::new();
    lay(
        &scene.lower(),
        &["d/gone=1", "d/kept=1", "d/empty=1", "e/gone=1"],
    );
    let dir = scene.create();
    lay(&scene.upper(), &["d/gone=", "d/empty=", "e/gone="]);
    set_xattr(&scene.upper().join("d"), "user.overlay.opaque", "x");
    for name in ["d/gone", "e/gone"] {
        set_xattr(&scene.upper().join(name), "user.overlay.whiteout", "");
    }
    let review = scene.record(dir);
    // Only in a directory with the mark is an empty file with the attribute a deletion.
    let want = ["modified d/empty", "deleted d/gone", "modified e/gone"];
    assert_eq!(lines(review.review()), want);
}

#[test]
fn marks_that_this_version_cannot_interpret() {
    for mark in ["user.overlay.redirect", "user.overlay.metacopy"] {
        let scene = Scene::new();
        let mut dir = scene.create();
        lay(&scene.upper(), &["d/f=1"]);
        set_xattr(&scene.upper().join("d"), mark, "x");
        let refused = scene.try_record(&mut dir).unwrap_err();
        assert!(
            matches!(refused, ReviewError::Unsupported { .. }),
            "{refused}"
        );
    }
}

#[test]
fn limits_are_errors() {
    let rows = [
        (
            ReviewLimits {
                entries: 10,
                ..ReviewLimits::default()
            },
            "more than 10 files",
        ),
        (
            ReviewLimits {
                depth: 3,
                ..ReviewLimits::default()
            },
            "more than 3 nested directories (at `d/d/d/d`)",
        ),
        (
            ReviewLimits {
                hashed_bytes: 50,
                ..ReviewLimits::default()
            },
            "more than 50 bytes to compare",
        ),
    ];
    for (limits, want) in rows {
        let scene = Scene::new();
        let mut dir = scene.create();
        lay(&scene.upper(), &["d/d/d/d/d/f=1"]);
        for n in 0..10 {
            lay(&scene.upper(), &[&format!("f{n}=0123456789")]);
        }
        let refused = dir
            .record(&scene.lowers(), &|_, _| None, &limits)
            .unwrap_err();
        assert!(refused.to_string().contains(want), "{refused}");
        assert_eq!(lines(dir.review()), [""; 0]);
    }
}

#[test]
fn changes_below_the_run() {
    let scene = Scene::new();
    lay(
        &scene.lower(),
        &[
            "a=1", "b=1", "d/f=1", "e/f=1", "quiet=1", "lost=1", "q/f=1", "r/f=1",
        ],
    );
    let dir = scene.create();
    lay(
        &scene.upper(),
        &["a=2", "quiet=2", "lost=2", "new=2", "q/renamed=2", "r/f=2"],
    );
    white_out(&scene.upper(), &["b", "d", "e"]);
    for copied in ["lost", "q/renamed", "r"] {
        set_xattr(&scene.upper().join(copied), "user.overlay.origin", "x");
    }
    // A file of a coarse clock's tick counts as older: wait for the next one.
    std::thread::sleep(std::time::Duration::from_millis(20));
    lay(&scene.lower(), &["a=3", "b=3", "d/f=3"]);
    fs::remove_file(scene.lower().join("lost")).unwrap();
    fs::remove_dir_all(scene.lower().join("r")).unwrap();
    let review = scene.record(dir);
    let changed = review
        .review()
        .changes()
        .filter(|(_, change)| change.changed_below);
    let changed: Vec<String> = changed.map(|(_, change)| change.path.to_string()).collect();
    // Two are copies of objects that the project has no more.
    assert_eq!(changed, ["a", "b", "d", "lost", "r"]);
}

#[test]
fn classes() {
    let scene = Scene::new();
    lay(&scene.lower(), &["sub/.env=secret", "pkg/package.json={}"]);
    let dir = scene.create();
    let files = [
        ".git/hooks/pre-commit=x",
        ".git=",
        "Makefile=x",
        ".vscode/tasks.json=x",
        "node_modules/a/b=x",
        "src/a=x",
        "pkg/package.json={\"scripts\":{\"test\":\"x\"}}",
        "sub2/.git=gitdir: /elsewhere",
    ];
    lay(
        &scene.upper(),
        &files
            .iter()
            .copied()
            .filter(|file| *file != ".git=")
            .collect::<Vec<_>>(),
    );
    white_out(&scene.upper(), &["sub"]);
    let review = scene.record(dir);
    let class = |class: &ChangeClass| match class {
        ChangeClass::Protected { pattern } => format!("protected {pattern}"),
        ChangeClass::Trigger { .. } => "trigger".to_owned(),
        ChangeClass::Generated { below } => format!("generated {below}"),
        ChangeClass::Ordinary => "ordinary".to_owned(),
    };
    let changes = review.review().changes();
    let found: Vec<String> = changes
        .map(|(_, change)| format!("{}: {}", change.path, class(&change.class)))
        .collect();
    let want = [
        ".git: ordinary",
        ".git/hooks: protected .git",
        ".git/hooks/pre-commit: protected .git",
        ".vscode: protected .vscode",
        ".vscode/tasks.json: protected .vscode",
        "Makefile: trigger",
        "node_modules: generated node_modules",
        "node_modules/a: generated node_modules",
        "node_modules/a/b: generated node_modules",
        "pkg/package.json: trigger",
        "src: ordinary",
        "src/a: ordinary",
        // Something in it is protected.
        "sub: protected .env",
        "sub2: ordinary",
        "sub2/.git: protected .git",
    ];
    assert_eq!(found, want);
}

/// Names that a scan after a command without a review moves away, in an overlay and in a copy.
#[test]
fn a_list_is_judged_as_the_scan_after_a_command() {
    // The project, the changes, and the protected ones among them.
    let rows: [(&[&str], &[&str], &[&str]); 22] = [
        (
            &[],
            &[
                "x/objects/",
                "x/refs/",
                "x/HEAD=ref: x",
                "x/config=y",
                "x/src=1",
            ],
            &["x/HEAD", "x/config"],
        ),
        (
            &[],
            &[
                "target/x/objects/",
                "target/x/refs/",
                "target/x/HEAD=ref: x",
            ],
            &["target/x/HEAD"],
        ),
        (
            &[],
            &["x/commondir=y", "x/HEAD->z"],
            &["x/HEAD", "x/commondir"],
        ),
        (
            &["HEAD=mine", "refs/r=1"],
            &["objects/o=1", "refs/s=1"],
            &["objects", "objects/o", "refs/s"],
        ),
        (&["x/HEAD=mine", "x/src=1"], &["x/src=2", "x/objects/"], &[]),
        (
            &["r/HEAD=1", "r/objects/", "r/refs/heads/", "r/logs/l=1"],
            &[
                "r/HEAD=2",
                "r/config.worktree=1",
                "r/hooks/h=1",
                "r/objects/o=1",
                "r/logs/m->/x",
            ],
            &["r/config.worktree", "r/hooks", "r/hooks/h", "r/logs/m"],
        ),
        (
            &["r/HEAD=1", "r/objects/", "r/refs/heads/"],
            &["r/refs/heads/l->/x", "r/any->/x", "r/src/l->/x"],
            &["r/any", "r/refs/heads/l"],
        ),
        (
            &["r/HEAD=1", "r/objects/", "r/refs/"],
            &["r/modules/a/config=1", "r/rebase-merge/todo=1"],
            &[
                "r/modules/a/config",
                "r/rebase-merge",
                "r/rebase-merge/todo",
            ],
        ),
        (
            &[".git/HEAD=1", ".git/logs/HEAD=1", ".git/refs/heads/"],
            &[
                ".git/COMMIT_EDITMSG->/x",
                ".git/refs/heads/l->/x",
                ".git/objects/ab/cd->/x",
            ],
            &[
                ".git/COMMIT_EDITMSG",
                ".git/objects/ab/cd",
                ".git/refs/heads/l",
            ],
        ),
        (
            &["s/.git/HEAD=1"],
            &["s/.git/MERGE_HEAD=1", "s/link->/x"],
            &[],
        ),
        (
            &["conf/real/f=1", "conf/mid->real", ".vscode->conf/mid"],
            &["conf/mid->other", "conf/other/f=1", "conf/real/g=1"],
            &["conf/mid", "conf/real/g"],
        ),
        (
            &["a/b/", "a/b/.env->../../c/missing"],
            &["c/missing/f=1", "c/f=1"],
            &["c/missing", "c/missing/f"],
        ),
        (&["d/e/f=1", "z/", "z/.env->../d/e/f"], &["d=1"], &["d"]),
        (&["d/f=1", "z/", "z/.env->/elsewhere"], &["d/g=1"], &[]),
        // What the configuration of a repository leads to.
        (
            &[
                ".git/HEAD=1",
                ".git/config=[core]\n\thooksPath = tools/hooks\n",
            ],
            &["tools/hooks/pre-commit=1", "tools/other=1"],
            &["tools/hooks", "tools/hooks/pre-commit"],
        ),
        (
            &[
                "s/.git/HEAD=1",
                "s/.git/config=[include]\n\tpath = ../shared.conf\n",
                "s/shared.conf=[core]\n\tfsmonitor = tools/watch\n",
                "s/tools/watch=1",
            ],
            &[
                "s/shared.conf=2",
                "s/tools/watch=2",
                "shared.conf=1",
                "s/f=1",
            ],
            &["s/shared.conf", "s/tools/watch"],
        ),
        (
            &[
                ".git/HEAD=1",
                ".git/config=[include]\n\tpath = ../conf\n",
                "conf->real",
            ],
            &["real=1"],
            &["real"],
        ),
        (
            &[
                "r/HEAD=1",
                "r/objects/",
                "r/refs/",
                "r/config=[include]\n\tpath = more\n",
            ],
            &["r/more=1", "more=1"],
            &["r/more"],
        ),
        (
            &[".git/HEAD=1", ".git/config=[filter \"x\"]\n\tclean = sed\n"],
            &[
                ".gitattributes=* filter=x\n",
                "a/b/.gitattributes=* filter=x\n",
                "a/c=1",
            ],
            &[".gitattributes", "a/b/.gitattributes"],
        ),
        (
            &[
                "s/.git/HEAD=1",
                "s/.git/config=[merge \"x\"]\n\tdriver = sed %A\n",
            ],
            &["s/.gitattributes=* merge=x\n", ".gitattributes=* merge=x\n"],
            &["s/.gitattributes"],
        ),
        (
            &[
                ".git/HEAD=1",
                ".git/config=[include]\n\tpath = more\n",
                ".git/more=[diff \"x\"]\n\ttextconv = sed\n",
            ],
            &[".gitattributes=* diff=x\n"],
            &[".gitattributes"],
        ),
        (
            &[".git/HEAD=1", ".git/config=[core]\n\tbare = false\n"],
            &[".gitattributes=* text=auto\n", "tools/hooks/x=1"],
            &[],
        ),
    ];
    for (lower, changed, protected) in rows {
        for in_copy in [false, true] {
            let scene = Scene::new();
            lay(&scene.lower(), lower);
            let (dir, layer) = match in_copy {
                true => (scene.create_copy(), scene.copy()),
                false => (scene.create(), scene.upper()),
            };
            for file in changed {
                let end = file.find("->").or(file.find('=')).unwrap_or(file.len());
                let path = layer.join(&file[..end]);
                if path.is_symlink() {
                    fs::remove_file(&path).unwrap();
                } else if file.contains('=') && path.is_dir() {
                    fs::remove_dir_all(&path).unwrap();
                }
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                lay(&layer, &[file]);
            }
            let review = scene.record(dir);
            let changes = review.review().changes();
            let found: Vec<String> = changes
                .filter(|(_, change)| matches!(change.class, ChangeClass::Protected { .. }))
                .map(|(_, change)| change.path.to_string())
                .collect();
            assert_eq!(found, protected, "{lower:?} {changed:?} copy: {in_copy}");
        }
    }
}

/// A list that could not judge a change is none: with more configuration than is read there is an error.
#[test]
fn configuration_is_read_to_its_end_or_refused() {
    let include = |next: &str| format!("[include]\n\tpath = {next}\n");
    for (files, large, is_listed) in [
        (10, 0, true),
        (31, 0, true),
        (32, 0, false),
        (1, 9 << 20, false),
    ] {
        let scene = Scene::new();
        lay(&scene.lower(), &[".git/HEAD=1"]);
        for number in 0..files {
            let name = match number {
                0 => ".git/config".to_owned(),
                number => format!(".git/c{number}"),
            };
            // The last one includes the first again.
            let next = match number + 1 == files {
                true => "config".to_owned(),
                false => format!("c{}", number + 1),
            };
            let text = format!("{}{}", "#".repeat(large) + "\n", include(&next));
            fs::write(scene.lower().join(name), text).unwrap();
        }
        let mut dir = scene.create();
        lay(&scene.upper(), &["f=1"]);
        let listed = scene.try_record(&mut dir);
        assert_eq!(listed.is_ok(), is_listed, "{files} {large}");
        if let Err(error) = listed {
            assert!(error.to_string().contains("configuration"), "{error}");
        }
    }
}

#[test]
fn a_quarantine_is_never_applied() {
    let scene = Scene::new();
    let dir = scene.create();
    let files = [
        ".os-sandbox-quarantine/1/f=1",
        ".os-sandbox-quarantine.2/f=1",
        ".os-sandbox-quarantined=1",
    ];
    lay(&scene.upper(), &files);
    let review = scene.record(dir);
    let ordinary = review
        .review()
        .changes()
        .filter(|(_, change)| change.class == ChangeClass::Ordinary);
    let ordinary: Vec<String> = ordinary.map(|(_, one)| one.path.to_string()).collect();
    assert_eq!(ordinary, [".os-sandbox-quarantined"]);
}

#[test]
fn differences_of_contents() {
    let scene = Scene::new();
    lay(
        &scene.lower(),
        &["text=a\nb\n", "binary=a\0b", "gone=a\n", "l->a", "large=x"],
    );
    let dir = scene.create();
    lay(
        &scene.upper(),
        &["text=a\nc\n", "binary=a\0c", "new=a\n", "l->b"],
    );
    fs::write(scene.upper().join("large"), vec![b'x'; (8 << 20) + 1]).unwrap();
    white_out(&scene.upper(), &["gone"]);
    let review = scene.record(dir);
    let diff = |path: &str| {
        let mut changes = review.review().changes();
        let (mount, change) = changes
            .find(|(_, change)| change.path.to_string() == path)
            .unwrap();
        match review.diff(mount, change).unwrap() {
            FileDiff::Text(hunks) => hunks.into_iter().map(|hunk| hunk.text).collect(),
            FileDiff::Binary => "binary".to_owned(),
            FileDiff::ChangedBelow => "changed below".to_owned(),
            FileDiff::None => "none".to_owned(),
        }
    };
    let rows = [
        ("text", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        ("binary", "binary"),
        ("gone", "@@ -1 +0,0 @@\n-a\n"),
        ("new", "@@ -0,0 +1 @@\n+a\n"),
        ("l", "none"),
        ("large", "binary"),
    ];
    for (path, want) in rows {
        assert_eq!(diff(path), want, "{path}");
    }
    fs::remove_file(scene.lower().join("text")).unwrap();
    assert_eq!(diff("text"), "changed below");
    std::os::unix::fs::symlink("/etc/passwd", scene.lower().join("text")).unwrap();
    assert_eq!(diff("text"), "changed below");
}

#[test]
fn names_of_any_bytes_and_special_files() {
    let scene = Scene::new();
    let mut dir = scene.create();
    use std::os::unix::ffi::OsStrExt as _;
    let strange = std::ffi::OsStr::from_bytes(b"a\n\x1b[2K\xff\\");
    fs::write(scene.upper().join(strange), "x").unwrap();
    let node = |name: &str, kind: FileType| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            scene.upper().join(name),
            kind,
            Mode::RWXU,
            0,
        )
        .unwrap();
    };
    node("pipe", FileType::Fifo);
    let socket = scene.upper().join("socket");
    let bound = std::os::unix::net::UnixListener::bind(Path::new(&socket));
    let has_socket = bound.is_ok();
    if !has_socket {
        eprintln!("skipped: sockets, because the temporary directory's path is too long");
    }
    let review = scene.try_record(&mut dir).unwrap();
    drop(dir);
    // Read back from the disk.
    let review_again = scene.open();
    assert_eq!(lines(&review), lines(review_again.review()));
    let mut changes = review_again.review().changes().map(|(_, change)| change);
    assert_eq!(changes.next().unwrap().path.to_os_string(), strange);
    assert!(changes.all(|change| !change.is_applicable()));
}

/// A directory with a name of generated files counts as one unless git tracks something in it.
#[test]
fn generated_directories() {
    fn git(dir: &Path, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        let git = git.args(args).current_dir(dir);
        assert!(git.status().unwrap().success(), "{args:?}");
    }
    let files = ["target/a=1", "vendor/b=1", "sub/target/c/f=1", "venv=1"];
    let changed = [
        "target/a=2",
        "target/n=2",
        "vendor/b=2",
        "sub/target/c/f=2",
        "sub/node_modules/x/target/f=2",
        "d/target->/etc",
        "d/vendor=2",
        "d/.venv/f=2",
        "venv=2",
    ];
    let always = ["d/.venv/f", "sub/node_modules/x/target/f"];
    // The setup around the project, and the paths that are counted in other lines.
    let rows: [(&str, &[&str]); 8] = [
        (
            "nothing",
            &["sub/target/c/f", "target/a", "target/n", "vendor/b"],
        ),
        (
            "untracked",
            &["sub/target/c/f", "target/a", "target/n", "vendor/b"],
        ),
        ("vendor", &["sub/target/c/f", "target/a", "target/n"]),
        ("sub/target/c/f", &["target/a", "target/n", "vendor/b"]),
        ("above", &["sub/target/c/f", "vendor/b"]),
        ("elsewhere", &["sub/target/c/f", "vendor/b"]),
        ("inside", &["target/a", "target/n", "vendor/b"]),
        // A form that is not known: everything may be tracked.
        ("unknown", &[]),
    ];
    for (setup, counted) in rows {
        let scene = Scene::new();
        let lower = scene.lower();
        lay(&lower, &files);
        match setup {
            "nothing" => {}
            "untracked" => git(&lower, &["init", "--quiet"]),
            "above" => {
                let above = lower.parent().unwrap();
                git(above, &["init", "--quiet"]);
                git(above, &["add", lower.join("target").to_str().unwrap()]);
            }
            "elsewhere" => {
                git(&lower, &["init", "--quiet", "--separate-git-dir", "../git"]);
                git(&lower, &["add", "target"]);
            }
            "inside" => {
                git(&lower.join("sub/target/c"), &["init", "--quiet"]);
                git(&lower.join("sub/target/c"), &["add", "."]);
            }
            "unknown" => lay(&lower, &[".git/HEAD=1", ".git/index=DIRC and more"]),
            tracked => {
                git(&lower, &["init", "--quiet"]);
                git(&lower, &["add", tracked]);
            }
        }
        let dir = scene.create();
        lay(&scene.upper(), &["d/"]);
        lay(&scene.upper(), &changed);
        let mut review = scene.record(dir);
        let changes = review.review().changes();
        let changes = changes.filter(|(_, change)| {
            let after = change.after.as_ref();
            after.is_some_and(|after| after.kind != forge_review::PathKind::Directory)
        });
        let is_counted = |class: &ChangeClass| matches!(class, ChangeClass::Generated { .. });
        let mut found: Vec<String> = changes
            .filter(|(_, change)| is_counted(&change.class))
            .map(|(_, change)| change.path.to_string())
            .collect();
        let is_known = setup != "unknown";
        found.retain(|path| !is_known || !always.contains(&path.as_str()));
        assert_eq!(found, counted, "{setup}");
        // It is compared again as it was listed.
        let report = apply(&mut review, &all()).unwrap();
        assert!(!report.record.changes.is_empty());
        assert_eq!(lines(review.review()), [""; 0], "{setup}");
    }
}
