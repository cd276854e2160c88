//! `forge review`: what a run left in its layer is listed, shown, applied and discarded. The layers
//! are laid out as overlayfs does it; real overlays are in the tests of forge-review.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use forge_review::{LayerLimits, NewMount, ReviewDir, RunInfo, open_host_dir};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::Value;

use crate::support::World;

const RUN: &str = "exec_1795000000-00000001";

/// A project, and a run that has ended without a list of its changes.
struct Scene {
    world: World,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        files
            .iter()
            .for_each(|(name, text)| world.write(name, text));
        let scene = Scene { world };
        drop(scene.create(RUN));
        scene
    }

    fn reviews(&self) -> PathBuf {
        self.world.outside().join("state/reviews")
    }

    /// What `forge exec --review` does before it starts the command.
    fn create(&self, run: &str) -> ReviewDir {
        let _ = fs::create_dir(self.reviews());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(self.reviews(), mode).unwrap();
        let project = self.world.project().canonicalize().unwrap();
        let lower = open_host_dir(&project).unwrap();
        let about = RunInfo {
            run: run.to_owned(),
            project: project.clone(),
            command: vec!["make".to_owned(), "a b".to_owned()],
            at_ms: 1_795_000_000_000,
        };
        let protected = [
            ".vscode".to_owned(),
            "*.pem".to_owned(),
            ".git/hooks".to_owned(),
        ];
        let mounts = [NewMount {
            copy: false,
            name: "project",
            lower: lower.as_fd(),
            host: &project,
            protected: &protected,
        }];
        let reviews = open_host_dir(&self.reviews()).unwrap();
        ReviewDir::create(reviews.as_fd(), &about, &mounts, &LayerLimits::default()).unwrap()
    }

    fn upper(&self) -> PathBuf {
        self.reviews().join(RUN).join("mounts/project/upper")
    }

    fn writes(&self, files: &[(&str, &str)]) -> &Self {
        for (name, text) in files {
            let path = self.upper().join(OsStr::from_bytes(name.as_bytes()));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self
    }

    fn deletes(&self, names: &[&str]) -> &Self {
        for name in names {
            let kind = FileType::CharacterDevice;
            rustix::fs::mknodat(CWD, self.upper().join(name), kind, Mode::empty(), 0).unwrap();
        }
        self
    }

    fn has(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.project().join(name)).ok()
    }

    /// The paths of all changes that are left.
    fn left(&self) -> Vec<String> {
        let ran = self.world.forge(&["review", "show", "--json"]);
        ran.code(0);
        let all: Value = serde_json::from_str(&ran.stdout).unwrap();
        let changes = all["changes"].as_array().unwrap().iter();
        changes
            .map(|change| change["path"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn nothing_waits() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let ran = world.forge(&["review"]);
    ran.code(0);
    assert_eq!(ran.stdout, "No changes wait for a review.\n");
    for action in ["show", "apply", "discard"] {
        world
            .forge(&["review", action])
            .code(2)
            .says(&["no changes of this project", "forge exec --review"]);
    }
}

#[test]
fn a_run_is_shown_with_deletions_first() {
    let scene = Scene::new(&[
        ("a.txt", "1\n2\n"),
        ("old/f", "x"),
        ("node_modules/m/gone", "x"),
        ("z", "z"),
    ]);
    scene
        .writes(&[
            ("a.txt", "1\n3\n"),
            ("new/deep/f", "new\n"),
            (".vscode/tasks.json", "{}"),
            ("Makefile", "all:\n"),
            ("cert.pem", "-----BEGIN CERTIFICATE-----\n"),
            ("node_modules/m/f", "x"),
            ("bell\u{7}\n\u{202e}name", "x\u{1b}[2J\n"),
        ])
        .deletes(&["old", "node_modules/m/gone", "z"]);
    let ran = scene.world.forge(&["review", "show"]);
    ran.code(0);
    let summary: Vec<&str> = ran
        .stdout
        .lines()
        .take_while(|line| !line.starts_with("---"))
        .collect();
    let want = "\
exec_1795000000-00000001  make 'a b'
deletions and replacements:
  deleted   old/  (directory with 1 object, 1 byte)
  deleted   z  (1 byte)
protected, applied only with --include-protected PATH:
  added     .vscode/tasks.json  (2 bytes; protected: .vscode)
files that other programs execute or obey:
  added     Makefile  (5 bytes; make executes it)
changes:
  modified  a.txt  (4 bytes)
  added     bell\\x07\\n\\u{202e}name  (6 bytes)
  added     cert.pem  (28 bytes)
  added     new/deep/f  (4 bytes)
generated directories:
  node_modules/  1 deleted, 1 added
3 deleted, 1 modified, 6 added";
    assert_eq!(summary.join("\n"), want);
    assert!(
        ran.stdout
            .contains("--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@ hunk 2\n 1\n-2\n+3\n"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("--- /dev/null\n+++ new/deep/f\n@@ -0,0 +1 @@\n+new\n"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains(['\u{7}', '\u{1b}', '\u{202e}']),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("node_modules/m/f"));
    // A generated file is shown if it is named, as listed or from the caller's directory.
    let ran = scene
        .world
        .forge(&["review", "show", RUN, "node_modules/m/f"]);
    assert!(
        ran.stdout.contains("+++ node_modules/m/f"),
        "{}",
        ran.stdout
    );
    fs::create_dir(scene.world.project().join("sub")).unwrap();
    for path in ["../a.txt", "a.txt"] {
        let ran = scene.world.forge(&["-C", "sub", "review", "show", path]);
        assert!(
            ran.code(0).stdout.starts_with("--- a.txt\n"),
            "{}",
            ran.stdout
        );
    }
    let ran = scene.world.forge(&["review", "list", "--json"]);
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    let review = &all["reviews"][0];
    assert_eq!(
        (review["run"].as_str(), review["recorded"].as_bool()),
        (Some(RUN), Some(true))
    );
    assert_eq!(
        (review["changes"].as_u64(), review["deletions"].as_u64()),
        (Some(13), Some(3))
    );
    assert_eq!(review["started_at"], "2026-11-18T11:06:40Z");
}

/// A new directory is part of what is in it, wherever changes are counted.
#[test]
fn a_list_and_an_apply_count_alike() {
    let scene = Scene::new(&[("package.json", "{}\n"), (".gitignore", "/node_modules\n")]);
    scene.writes(&[("n/o/f", "1"), ("n/g", "1"), ("z", "1")]);
    scene.writes(&[("node_modules/m/a", "1"), ("node_modules/m/b", "1")]);
    let forge = |args: &[&str]| scene.world.forge(&[&["review"], args].concat());
    for args in [&["list"][..], &["show"]] {
        let ran = forge(args);
        assert!(ran.code(0).stdout.contains("5 added\n"), "{}", ran.stdout);
    }
    let ran = forge(&["apply", "last", "n/g"]);
    assert_eq!(ran.stdout, "  added     n/g\napplied 1 change\n");
    ran.code(0).says(&["left: 4 added\n"]);
    let ran = forge(&["apply"]);
    let text = "  added     n/o/f\n  added     z\n  generated node_modules/  2 changes\napplied 4 changes\n";
    assert_eq!(ran.code(0).stdout, text);
    let acts = scene.world.forge(&["log", "list"]).stdout;
    for intent in ["apply 1 change of", "apply 4 changes of"] {
        assert!(acts.contains(intent), "{acts}");
    }
}

#[test]
fn some_paths_are_applied_and_the_rest_is_discarded() {
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    let scene = Scene::new(&[
        ("text", &lines("1", "9")),
        ("a", "1"),
        ("d/gone", "1"),
        ("kept", "1"),
    ]);
    scene.writes(&[
        ("text", &lines("one", "nine")),
        ("a", "2"),
        ("n/f", "2"),
        ("kept", "2"),
    ]);
    scene
        .writes(&[("d/f", "2"), (".vscode/x", "2")])
        .deletes(&["d/gone"]);
    let forge = |args: &[&str]| scene.world.forge(&[&["review"], args].concat());
    let ran = forge(&["apply", "--hunk", "text:9"]);
    ran.code(0);
    assert_eq!(ran.stdout, "  modified  text\napplied 1 change\n");
    assert_eq!(scene.has("text").unwrap(), lines("1", "nine"));
    let ran = scene
        .world
        .forge(&["-C", "d", "review", "apply", ".", "../n", "--json"]);
    ran.code(0);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let paths = |changes: &Value| -> Vec<String> {
        let changes = changes.as_array().unwrap().iter();
        changes
            .map(|change| change["path"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        paths(&report["applied"]["changes"]),
        ["d/f", "d/gone", "n", "n/f"]
    );
    assert_eq!(
        report["applied"]["changes"][1]["before"]["content"],
        "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    );
    assert_eq!(
        (scene.has("d/gone"), scene.has("n/f")),
        (None, Some("2".to_owned()))
    );
    // Protected names are told, and applied by name only.
    let ran = forge(&["apply", "a", ".vscode"]);
    ran.code(0).says(&[
        "not applied: .vscode/x: a protected name",
        "--include-protected PATH",
    ]);
    assert_eq!(
        (scene.has("a").as_deref(), scene.has(".vscode/x")),
        (Some("2"), None)
    );
    forge(&["apply", "text", "--include-protected", ".vscode"]).code(0);
    assert_eq!(scene.has(".vscode/x").as_deref(), Some("2"));
    assert_eq!(scene.left(), ["kept"]);
    forge(&["discard"]).code(0);
    assert_eq!(scene.has("kept").as_deref(), Some("1"));
    assert_eq!(fs::read_dir(scene.reviews()).unwrap().count(), 0);
    // Every act is in a log, with the content before and after.
    scene.world.forge(&["log", "verify"]).code(0);
    let runs = fs::read_dir(scene.world.outside().join("state/runs")).unwrap();
    let logs = runs.map(|run| fs::read_to_string(run.unwrap().path().join("audit.jsonl")).unwrap());
    let log = logs.collect::<String>();
    for text in [
        "\"review_apply\"",
        "\"review_discard\"",
        "\"before\":\"sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\"",
        "\"after\":\"sha256:d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35\"",
        "{\"path\":\"d/gone\",\"effect\":\"deleted\"}",
        "\"sha256\":\"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35\"",
    ] {
        assert!(log.contains(text), "no {text} in {log}");
    }
}

/// The words for a review, with two reviews left.
#[test]
fn the_last_review_and_all_are_named_by_words() {
    const NEWER: &str = "exec_1795000009-2222222222222222";
    for (args, code, left) in [
        (&["show", "last"][..], 0, &[RUN, NEWER][..]),
        (&["apply", "last"], 0, &[RUN, NEWER]),
        (&["discard"], 2, &[RUN, NEWER]),
        (&["discard", "last"], 0, &[RUN]),
        (&["discard", "--all"], 0, &[]),
        (&["discard", "--all", "last"], 2, &[RUN, NEWER]),
    ] {
        let scene = Scene::new(&[("a", "1")]);
        scene.writes(&[("a", "2")]);
        let newer = scene.create(NEWER);
        let upper = scene.reviews().join(NEWER).join("mounts/project/upper");
        fs::write(upper.join("newer"), "2").unwrap();
        drop(newer);
        let ran = scene.world.forge(&[&["review"], args].concat());
        ran.code(code);
        if args.contains(&"show") {
            assert!(ran.stdout.contains("newer"), "{}", ran.stdout);
        }
        assert_eq!(
            scene.has("newer").is_some(),
            args.contains(&"apply"),
            "{args:?}"
        );
        assert_eq!(scene.has("a").as_deref(), Some("1"), "{args:?}");
        let mut names: Vec<_> = fs::read_dir(scene.reviews()).unwrap().collect();
        names.retain(|name| name.as_ref().is_ok_and(|name| name.path().is_dir()));
        let mut names: Vec<String> = names
            .into_iter()
            .map(|name| name.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, left, "{args:?}: {}", ran.stderr);
    }
    let empty = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for args in [
        &["discard", "--all"][..],
        &["show", "last"],
        &["apply", "last"],
    ] {
        let ran = empty.forge(&[&["review"], args].concat());
        ran.code(2).says(&["no changes of this project"]);
    }
}

#[test]
fn mistakes_change_nothing() {
    let scene = Scene::new(&[("a", "1"), ("b", "1"), ("link-me", "1")]);
    scene.writes(&[("a", "2"), ("b", "2"), ("link-me", "2")]);
    let forge = |args: &[&str]| scene.world.forge(&[&["review"], args].concat());
    // Lists the changes.
    forge(&["show"]).code(0);
    let secret = scene.world.outside().join("secret");
    fs::write(&secret, "outside").unwrap();
    fs::remove_file(scene.world.project().join("link-me")).unwrap();
    std::os::unix::fs::symlink(&secret, scene.world.project().join("link-me")).unwrap();
    for (args, code, text) in [
        (&["apply"][..], 1, "these paths changed in the project"),
        (
            &["apply", "nothing"],
            2,
            "nothing: the run did not change it",
        ),
        (&["apply", "../outside"], 2, "the run did not change it"),
        (&["apply", "/etc/passwd"], 2, "the run did not change it"),
        (&["apply", "--hunk", "a"], 2, "invalid hunk `a`"),
        (&["apply", "--hunk", "a:x"], 2, "invalid hunk"),
        (&["apply", "--hunk", "a:7"], 2, "does not exist"),
        (
            &["apply", "--include-protected", "a"],
            2,
            "no protected name",
        ),
        (&["show", "nothing"], 2, "the run did not change it"),
        (
            &["discard", "exec_other"],
            2,
            "no review of this project is called",
        ),
    ] {
        forge(args).code(code).says(&[text]);
        assert_eq!(
            (scene.has("a").as_deref(), scene.has("b").as_deref()),
            (Some("1"), Some("1"))
        );
        assert_eq!(fs::read_to_string(&secret).unwrap(), "outside");
    }
    assert_eq!(
        forge(&["apply", "--json"])
            .stderr
            .matches("\"review.changed\"")
            .count(),
        1
    );
    forge(&["apply", "a", "b"]).code(0);
    assert_eq!(scene.left(), ["link-me"]);
}

#[test]
fn a_run_that_goes_on_is_left_alone() {
    let scene = Scene::new(&[("a", "1")]);
    scene.writes(&[("a", "2")]);
    // Newer, and held by its run.
    let running = scene.create("exec_1795000001-00000002");
    let ran = scene.world.forge(&["review", "list"]);
    ran.code(0);
    assert!(
        ran.stdout
            .contains("another forge process uses this review"),
        "{}",
        ran.stdout
    );
    scene
        .world
        .forge(&["review", "apply"])
        .code(1)
        .says(&["another forge process"]);
    scene
        .world
        .forge(&["review", "discard"])
        .code(2)
        .says(&["2 reviews are left"]);
    // The beginning of a name is enough if only one run begins so.
    scene
        .world
        .forge(&["review", "apply", "exec_1795000000"])
        .code(0);
    scene
        .world
        .forge(&["review", "show", "exec_179"])
        .code(2)
        .says(&["the beginning of several runs"]);
    assert_eq!(scene.has("a").as_deref(), Some("2"));
    drop(running);
    scene
        .world
        .forge(&["review", "discard", "exec_1795000001"])
        .code(0);
    // Another project's reviews are not its own.
    let other = scene.world.outside().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("forge.yaml"), "sandbox: { root: . }\n").unwrap();
    let ran = scene
        .world
        .forge(&["-C", other.to_str().unwrap(), "review"]);
    assert_eq!(ran.stdout, "No changes wait for a review.\n");
    assert!(Path::new(&scene.upper()).exists());
}

/// Everything that an apply makes is shown before: what git tracks, links, and modes that a plain new
/// object would not have. `true` for objects that a directory of generated files may count only.
#[test]
fn nothing_is_applied_that_was_not_shown() {
    let scene = Scene::new(&[
        (".gitignore", "/node_modules\n"),
        ("src/target/mod.rs", "a\n"),
        ("vendor/x/x.go", "a\n"),
        ("node_modules/m/old", "a\n"),
        ("out/target/old", "a\n"),
        ("set", "a\n"),
    ]);
    for args in [
        &["init", "--quiet"][..],
        &["add", "src", "vendor", "set", ".gitignore"],
    ] {
        let mut git = std::process::Command::new("git");
        let git = git.args(args).current_dir(scene.world.project());
        assert!(git.status().unwrap().success(), "{args:?}");
    }
    // The path, its content or the target of a link, its mode, and the note of its line.
    let rows: [(&str, &str, u32, &str); 23] = [
        ("src/target/mod.rs", "b\n", 0o644, "2 bytes"),
        ("vendor/x/x.go", "b\n", 0o644, "2 bytes"),
        ("vendor/run.sh", "x", 0o777, "1 byte; mode 0777"),
        ("vendor/x/lnk", "->/etc/passwd", 0, "link to /etc/passwd"),
        ("vendor/new/f", "x", 0o644, "1 byte"),
        ("sub/target", "->/etc", 0, "link to /etc"),
        ("bin/target", "x", 0o755, "1 byte; mode 0755"),
        ("bin/vendor", "x", 0o644, "1 byte"),
        ("open.txt", "x", 0o666, "1 byte; mode 0666"),
        ("closed.txt", "x", 0o600, "1 byte; mode 0600"),
        ("empty/", "", 0o777, "directory; mode 0777"),
        ("pub/", "", 0o777, "directory; mode 0777"),
        ("pub/f", "x", 0o644, "1 byte"),
        ("pub/plain/f", "x", 0o644, "1 byte"),
        ("set", "a\n", 0o664, "mode 0644 → 0664"),
        ("node_modules/m/f", "x", 0o644, ""),
        ("node_modules/m/exec", "x", 0o755, ""),
        ("node_modules/m/in", "->../m/f", 0, ""),
        ("node_modules/m/open", "x", 0o646, "1 byte; mode 0646"),
        ("node_modules/m/out", "->../../src", 0, "link to ../../src"),
        ("node_modules/d/", "", 0o777, "directory; mode 0777"),
        ("out/target/debug/exec", "x", 0o755, ""),
        (
            "out/target/old",
            "->/etc/passwd",
            0,
            "2 bytes → link to /etc/passwd",
        ),
    ];
    for (path, content, mode, _) in rows {
        let path = scene.upper().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            None if content.is_empty() => fs::create_dir_all(&path).unwrap(),
            None => fs::write(&path, content).unwrap(),
        }
        if mode > 0 {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(&path, mode).unwrap();
        }
    }
    let all = scene.world.forge(&["review", "show"]);
    all.code(0);
    let json = scene.world.forge(&["review", "show", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    for (path, content, _, note) in rows {
        let line = format!(" {path}  ({note})");
        let lines = all.stdout.lines().filter(|l| l.ends_with(&line)).count();
        let is_counted = path.starts_with("node_modules") || path.starts_with("out");
        let has_heading = note.contains("mode ") || note.contains("link to");
        let want = usize::from(!note.is_empty()) + usize::from(has_heading && !is_counted);
        assert_eq!(lines, want, "{line}\n{}", all.stdout);
        let has_diff = all.stdout.contains(&format!("+++ {path}\n"));
        let is_text = content.ends_with(['\n', 'x']) && path != "set";
        let is_text = is_text && !content.starts_with("->");
        assert_eq!(has_diff, is_text && !is_counted, "{path}\n{}", all.stdout);
        // All of it is shown if it is named.
        let named = scene.world.forge(&["review", "show", path]);
        let shown = named.code(0).stdout.as_str();
        assert!(shown.contains(path), "{path}: {shown}");
        let mut found = json["changes"].as_array().unwrap().iter();
        let found = found.find(|row| row["path"] == path.trim_end_matches('/'));
        let notes = found.unwrap()["notes"].to_string();
        let mode = note.find("mode ").map_or("", |at| &note[at..]);
        assert!(notes.contains(mode), "{path}: {notes}");
    }
    let counted = "generated directories:\n  node_modules/  3 added\n  out/target/  1 added\n";
    assert!(all.stdout.contains(counted), "{}", all.stdout);
    scene.world.forge(&["review", "apply"]).code(0);
    for (path, content, mode, _) in rows {
        let meta = fs::symlink_metadata(scene.world.project().join(path)).unwrap();
        let found = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777;
        assert!(content.starts_with("->") || found == mode, "{path}");
    }
}
