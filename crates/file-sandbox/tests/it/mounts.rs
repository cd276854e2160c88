//! Which mount a path belongs to, what may be one, and what can be asked of the table.

use std::fs;
use std::os::unix::fs::symlink;

use file_sandbox::{
    ErrorKind, FileSandbox, ListOptions, Mode, Mount, Restriction, RootStyle, SandboxPath,
};

use crate::scene::{Scene, mount, names, path};

#[test]
fn the_longest_target_wins_also_through_links() {
    let scene = Scene::new();
    let files = FileSandbox::builder()
        .mount(mount("/", &scene.at("data"), Mode::ReadWrite))
        .mount(mount("/sub", &scene.at("ref"), Mode::ReadOnly))
        .mount(mount("/x/y", &scene.at("docs"), Mode::ReadWrite))
        .root_style(RootStyle::Relative)
        .build()
        .unwrap();
    assert_eq!(files.readable_roots(), [".", "./sub", "./x/y"]);
    // `in_dir -> sub` means the place `/sub`, which the read-only mount covers.
    for at in ["/sub/r.md", "/in_dir/r.md", "/here/in_dir/r.md"] {
        assert_eq!(
            files.read(&path(at), Default::default()).expect(at).content,
            "reference"
        );
        let denied = files.write(&path(at), "x", Default::default()).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::ReadOnly, "{at}");
    }
    assert_eq!(
        files.delete(&path("/sub")).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        files.delete(&path("/here/sub")).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    // `/x` is not on the disk, but on the way to a root.
    assert_eq!(names(&files, "/x", ListOptions::new()), ["y"]);
    assert!(names(&files, "/", ListOptions::new()).contains(&"x".to_owned()));
    assert!(
        names(&files, "/", ListOptions::new().pattern("x/**")).contains(&"x/y/a.md".to_owned())
    );
    assert_eq!(
        files.delete(&path("/x")).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
}

#[test]
fn one_directory_under_two_rules_is_no_sandbox() {
    let scene = Scene::new();
    let build = |mounts: Vec<Mount>| FileSandbox::new(mounts).map(drop).map_err(|e| e.kind());
    let data = |target: &str, mode| mount(target, &scene.at("data"), mode);
    let sub = |target: &str, mode| mount(target, &scene.at("data/sub"), mode);
    let (ro, rw) = (Mode::ReadOnly, Mode::ReadWrite);
    assert_eq!(
        build(vec![data("/a", ro), data("/a", ro)]),
        Err(ErrorKind::InvalidPath)
    );
    assert_eq!(
        build(vec![data("/a", ro), data("/b", rw)]),
        Err(ErrorKind::InvalidPath)
    );
    assert_eq!(
        build(vec![data("/a", ro), sub("/b", rw)]),
        Err(ErrorKind::InvalidPath)
    );
    assert_eq!(
        build(vec![sub("/b", ro), data("/a", rw)]),
        Err(ErrorKind::InvalidPath)
    );
    assert_eq!(build(vec![data("/a", rw), sub("/b", rw)]), Ok(()));
    assert_eq!(build(vec![data("/a", rw), sub("/a/sub", ro)]), Ok(()));
}

#[test]
fn a_root_reached_through_another_mount_stays() {
    let scene = Scene::new();
    let files = FileSandbox::new(vec![
        mount("/workspace", &scene.at("data"), Mode::ReadWrite),
        mount("/cache", &scene.at("data/empty"), Mode::ReadWrite),
    ])
    .unwrap();
    let denied = files.delete(&path("/workspace/empty")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    assert!(scene.at("data/empty").is_dir());
}

#[test]
fn doors_of_the_system_are_no_mounts() {
    for host in ["/", "/proc", "/proc/self", "/sys", "/dev"] {
        let at = SandboxPath::root();
        let authority = cap_std::ambient_authority();
        let mount = Mount::open_ambient(at, host, Mode::ReadOnly, authority);
        assert_eq!(mount.unwrap_err().kind(), ErrorKind::InvalidPath, "{host}");
    }
    let missing = Mount::open_ambient(
        SandboxPath::root(),
        "/no/such/directory",
        Mode::ReadOnly,
        cap_std::ambient_authority(),
    );
    assert!(!missing.unwrap_err().to_string().contains("such"));
}

#[test]
fn a_mount_is_made_below_its_base_only() {
    let scene = Scene::new();
    let create = |below: &str| {
        let authority = cap_std::ambient_authority();
        let host = scene.at("data");
        Mount::create_ambient(path("/m"), &host, below, Mode::ReadWrite, authority)
    };
    let before = scene.picture();
    for below in [
        "../outside/new",
        "out_dir/new",
        "out_dir",
        "in_dir/new",
        "/tmp",
        "a.md/new",
    ] {
        assert_eq!(
            create(below).unwrap_err().kind(),
            ErrorKind::InvalidPath,
            "{below}"
        );
        assert_eq!(scene.picture(), before, "{below}");
    }
    for below in ["./new/deep", "new/deep", "sub"] {
        let mount = create(below).expect(below);
        assert_eq!(
            mount.host().unwrap(),
            scene.at("data").canonicalize().unwrap().join(below)
        );
        let files = FileSandbox::new(vec![mount]).unwrap();
        files
            .write(&path("/m/x.txt"), below, Default::default())
            .expect(below);
        assert_eq!(scene.host_text(&format!("data/{below}/x.txt")), below);
    }
}

#[test]
fn questions() {
    let scene = Scene::new();
    let files = &scene.files;
    assert_eq!(files.readable_roots(), ["/data", "/docs", "/ref"]);
    assert_eq!(files.writable_roots(), ["/data", "/docs"]);
    assert_eq!(files.mode_at(&path("/ref/x")), Some(Mode::ReadOnly));
    assert_eq!(files.mode_at(&path("/data")), Some(Mode::ReadWrite));
    assert_eq!(files.mode_at(&path("/etc")), None);
    for (text, valid) in [
        ("/data", true),
        ("/data/x/../y", true),
        ("/data/none", true),
        ("", false),
        ("relative", false),
        ("/nope/x", false),
        ("/../x", false),
        ("/data/\0", false),
    ] {
        assert_eq!(files.is_valid_path(text), valid, "{text:?}");
    }
    // path, read, write
    for (text, read, write) in [
        ("/data/a.md", true, true),
        ("/data/new/x.md", true, true),
        ("/data", true, true),
        ("/", true, false),
        ("/ref/r.md", true, false),
        ("/docs/x.exe", false, false),
        ("/data/tls.key", true, false),
        ("/data/.env", false, false),
        ("/data/out_rel", false, false),
        ("/data/in_abs", true, true),
        ("/data/to_ref", true, false),
        ("/data/hard.txt", true, false),
        ("/data/fifo", false, false),
        ("/etc/passwd", false, false),
    ] {
        assert_eq!(files.can_read(&path(text)), read, "can_read {text}");
        assert_eq!(files.can_write(&path(text)), write, "can_write {text}");
    }
    let resolved = files.resolve(&path("/data/in_abs")).unwrap();
    assert_eq!(resolved.path().as_str(), "/data/sub/b.md");
    assert_eq!(
        files.path_of_host(scene.at("data/sub/b.md")),
        Some(path("/data/sub/b.md"))
    );
    assert_eq!(files.path_of_host(scene.at("data/../outside")), None);
    assert_eq!(files.path_of_host("/etc/passwd"), None);
}

#[test]
fn a_directory_exchanged_for_a_link_is_not_followed() {
    let scene = Scene::new();
    let child = scene
        .files
        .restrict(&Restriction::new().keep(path("/data/sub")))
        .unwrap();
    fs::rename(scene.at("data/sub"), scene.at("data/moved")).unwrap();
    symlink(scene.at("outside"), scene.at("data/sub")).unwrap();
    // The handle still means the directory that was granted.
    assert_eq!(
        child
            .read(&path("/data/sub/b.md"), Default::default())
            .unwrap()
            .content,
        "text b"
    );
    assert!(!child.exists(&path("/data/sub/secret.txt")).unwrap());
    let parent = scene
        .files
        .read(&path("/data/sub/secret.txt"), Default::default());
    assert_eq!(parent.unwrap_err().kind(), ErrorKind::Escape);
}

#[test]
fn a_sandbox_goes_to_any_thread() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<FileSandbox>();
    check::<SandboxPath>();
}

/// Whoever mounts a repository's `.git` by itself must not thereby open its hooks.
#[test]
fn names_count_from_the_mount_around() {
    let dir = tempfile::tempdir().unwrap();
    for below in ["data/.git/hooks", "other"] {
        std::fs::create_dir_all(dir.path().join(below)).unwrap();
    }
    let rule = |target: &str, host: &str| {
        let mount = crate::scene::mount(target, &dir.path().join(host), Mode::ReadWrite);
        let mount = mount.protect([".git/hooks", "/top"]).unwrap();
        mount.hide([".git/secret"]).unwrap()
    };
    let part = rule("/data/.git", "data/.git");
    let files = FileSandbox::new(vec![part, rule("/data", "data")]).unwrap();
    // The same part alone, from a narrower sandbox, and mounted again.
    let narrow = Restriction::new().keep(path("/data/.git"));
    let alone = files.restrict(&narrow).unwrap();
    let again = FileSandbox::new(alone.mounts().to_vec()).unwrap();
    std::fs::write(dir.path().join("data/.git/secret"), "x").unwrap();
    for files in [&files, &alone, &again] {
        let write = |at: &str| files.write(&path(at), "x", Default::default());
        let kind = |at: &str| write(at).unwrap_err().kind();
        assert_eq!(kind("/data/.git/hooks/pre-commit"), ErrorKind::ReadOnly);
        assert_eq!(kind("/data/.git/HOOKS/x"), ErrorKind::ReadOnly);
        assert_eq!(kind("/data/.git/top"), ErrorKind::ReadOnly);
        write("/data/.git/index").unwrap();
        assert_eq!(
            names(files, "/data/.git", ListOptions::new()),
            ["hooks", "index"]
        );
        let read = files.read(&path("/data/.git/secret"), Default::default());
        assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound);
    }
    // A directory from elsewhere is no part of the mount around it.
    let files = FileSandbox::new(vec![rule("/data", "data"), rule("/data/.git", "other")]).unwrap();
    std::fs::create_dir(dir.path().join("other/hooks")).unwrap();
    let hook = path("/data/.git/hooks/x");
    assert!(files.write(&hook, "x", Default::default()).is_ok());
}
