//! `forge clean` and the two workflows: zones that are ephemeral, and directories
//! that are the person's own.

use serde_json::Value;

use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

fn write(world: &World, path: &str) {
    let arguments = format!(r#"{{"path":"{path}","content":"x"}}"#);
    world
        .forge(&["tools", "call", "write_file", &arguments, "--yes"])
        .code(0);
}

/// What is in the zones goes, what is in the project stays.
#[test]
fn zones_are_ephemeral_and_the_project_stays() {
    let world = World::new(&[
        (
            FILE,
            "sandbox:\n  zones:\n    ws: { path: ws }\n    deep: { path: a/b, mode: ro }\n",
        ),
        ("src/main.rs", "fn main() {}"),
        (".sandbox/notes", "of no zone"),
        (".sandbox/a/b/c/file", "12345"),
        (".sandbox/a/beside", "of no zone"),
    ]);
    write(&world, "/ws/sub/topic.md");
    std::os::unix::fs::symlink("../../src", world.project().join(".sandbox/ws/link")).unwrap();
    let dry = world.forge(&["clean", "--dry-run"]);
    dry.code(0);
    assert!(world.project().join(".sandbox/ws/sub/topic.md").exists());
    insta::assert_snapshot!(dry.stdout, @r#"
    /ws: would remove 2 files and 1 directory (1 byte)
    /deep: would remove 1 file and 1 directory (5 bytes)
    "#);
    let ran = world.forge(&["clean", "--json"]);
    ran.code(0);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["zones"][0]["files"], 2);
    assert_eq!(object["zones"][1]["bytes"], 5);
    let project = world.project();
    for (path, stays) in [
        (".sandbox/ws", true),
        (".sandbox/ws/sub", false),
        (".sandbox/ws/link", false),
        (".sandbox/a/b", true),
        (".sandbox/a/b/c", false),
        (".sandbox/a/beside", true),
        (".sandbox/notes", true),
        ("src/main.rs", true),
        (FILE, true),
    ] {
        assert_eq!(
            project.join(path).symlink_metadata().is_ok(),
            stays,
            "{path}"
        );
    }
    // Again, and nothing is left to do.
    world.forge(&["clean"]).code(0);
    write(&world, "/ws/again.md");
}

/// In direct mode a file lands in the person's own directory, and is theirs to commit.
#[test]
fn in_direct_mode_files_land_where_they_are_kept() {
    let world = World::new(&[(
        FILE,
        "sandbox:\n  mode: direct\n  zones:\n    workspace: { path: ./reports }\n",
    )]);
    write(&world, "/workspace/topic.md");
    let file = world.project().join("reports/topic.md");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    assert!(!world.project().join(".sandbox").exists());
    let ran = world.forge(&["clean"]);
    ran.code(0);
    assert!(
        ran.stdout.contains("Nothing is ephemeral here"),
        "{}",
        ran.stdout
    );
    assert!(file.exists());
}

#[test]
fn only_a_sandbox_is_emptied() {
    let outside = |world: &World| {
        std::fs::create_dir_all(world.outside().join("kept/ws")).unwrap();
        std::fs::write(world.outside().join("kept/ws/precious"), "x").unwrap();
        world.outside().join("kept/ws/precious")
    };
    // The root is a link.
    let world = World::new(&[(FILE, "sandbox: { zones: { ws: { path: ws } } }\n")]);
    let precious = outside(&world);
    std::os::unix::fs::symlink("../kept", world.project().join(".sandbox")).unwrap();
    assert_ne!(world.forge(&["clean"]).code, 0);
    assert!(precious.exists());
    // The zone is a link, or something above it.
    for zone in ["ws", "a/ws"] {
        let config = format!("sandbox: {{ zones: {{ ws: {{ path: {zone} }} }} }}\n");
        let world = World::new(&[(FILE, &config), (".sandbox/x", "")]);
        let precious = outside(&world);
        let target = world
            .outside()
            .join(if zone == "ws" { "kept/ws" } else { "kept" });
        let first = zone.split('/').next().unwrap();
        std::os::unix::fs::symlink(target, world.project().join(".sandbox").join(first)).unwrap();
        assert_ne!(world.forge(&["clean"]).code, 0, "{zone}");
        assert!(precious.exists(), "{zone}");
    }
    // The root is where the project's own files are.
    for (root, file) in [(".", "ws/file"), ("src", "src/ws/file")] {
        let config = format!("sandbox: {{ root: {root}, zones: {{ ws: {{ path: ws }} }} }}\n");
        let world = World::new(&[(FILE, &config), (file, "mine"), ("src/.git/HEAD", "")]);
        let ran = world.forge(&["clean"]);
        ran.code(1).says(&["is not emptied"]);
        assert!(world.project().join(file).exists(), "{root}");
    }
    // There is none yet.
    World::new(&[]).forge(&["clean"]).code(0);
}

/// A project file that came with a repository must not choose what is emptied.
#[test]
fn a_root_that_only_the_project_names_is_not_emptied() {
    let config = |root: &str, zone: &str| {
        format!("sandbox: {{ root: {root}, zones: {{ r: {{ path: {zone} }} }} }}\n")
    };
    for (root, zone, file) in [
        ("proj", "repo", "proj/repo/main.rs"),
        ("proj", "repo", "proj/repo/.git/HEAD"),
        ("src", "lib", "src/lib/a.rs"),
        ("sub/.sandbox", "r", "sub/.sandbox/r/a"),
    ] {
        let world = World::new(&[(FILE, &config(root, zone)), (file, "mine")]);
        let kept = world.project().join(file);
        for args in [
            &["clean"][..],
            &["clean", "--dry-run"],
            &["clean", "--json"],
        ] {
            let ran = world.forge(args);
            ran.code(1).says(&[root, &format!("--root {root}")]);
            assert!(kept.exists(), "{root}");
        }
        // Another directory, one that is not there, and one beside the project.
        for other in [".", "nowhere", "..", zone] {
            let ran = world.forge(&["clean", "--root", other]);
            ran.code(1).says(&["--root", "is another directory"]);
            assert!(kept.exists(), "{root}");
        }
        let ran = world.forge(&["clean", "--root", root]);
        ran.code(0);
        assert!(!kept.exists(), "{root}");
    }
    // What is typed is relative to `-C`, and binds the default root, too.
    let world = World::new(&[
        (FILE, "sandbox: { zones: { r: { path: r } } }\n"),
        (".sandbox/r/file", ""),
        ("src/file", ""),
    ]);
    let dir = world.project();
    let dir = dir.to_str().unwrap();
    world.forge(&["clean", "--root", "src"]).code(1);
    assert!(world.project().join(".sandbox/r/file").exists());
    let mut command = world.command(
        crate::support::forge_program(),
        &["-C", dir, "clean", "--root", ".sandbox"],
    );
    let ran = crate::support::ran(command.current_dir("/").output().unwrap());
    ran.code(0);
    assert!(!world.project().join(".sandbox/r/file").exists());
}

/// No word of anybody empties these.
#[test]
fn a_repository_and_the_project_file_are_never_emptied() {
    for (root, zone, file) in [
        (".git", "objects", ".git/objects/ab"),
        (".GIT", "objects", ".GIT/objects/ab"),
        ("sub/.git", "refs", "sub/.git/refs/main"),
        ("sub/.git/refs", "heads", "sub/.git/refs/heads/main"),
        ("sub", ".git/refs", "sub/.git/refs/main"),
    ] {
        let config = format!("sandbox: {{ root: {root}, zones: {{ r: {{ path: {zone} }} }} }}\n");
        let world = World::new(&[(FILE, &config), (file, "mine")]);
        for typed in [&[][..], &["--root", root]] {
            let mut args = vec!["clean"];
            args.extend(typed);
            let ran = world.forge(&args);
            assert_ne!(ran.code, 0, "{root} {typed:?}");
            assert!(world.project().join(file).exists(), "{root} {typed:?}");
        }
    }
    // The project file by a link, and what it leads to below the root.
    let config = "sandbox: { root: conf, zones: { r: { path: mine } } }\n";
    let world = World::new(&[("conf/mine/forge.yaml", config)]);
    std::os::unix::fs::symlink("conf/mine/forge.yaml", world.project().join(FILE)).unwrap();
    let ran = world.forge(&["clean", "--root", "conf"]);
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert!(world.project().join("conf/mine/forge.yaml").exists());
}

#[test]
fn what_cannot_go_is_named() {
    // Root may remove anything, so there is nothing to see for it.
    if rustix_is_root() {
        return;
    }
    let world = World::new(&[
        (FILE, "sandbox: { zones: { ws: { path: ws } } }\n"),
        (".sandbox/ws/d/file", "x"),
    ]);
    let closed = world.project().join(".sandbox/ws/d");
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // Not writable: the bit is given back. Not even readable: it is said.
    mode(0o000);
    world.forge(&["clean"]).code(1).says(&["ws/d"]);
    mode(0o555);
    world.forge(&["clean"]).code(0);
    assert!(!closed.exists());
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
