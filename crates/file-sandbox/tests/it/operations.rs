//! What the operations do when they are allowed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use file_sandbox::{
    EntryKind, ErrorKind, FileSandbox, HardLinks, Limits, ListOptions, Mode, ReadOptions,
    TotalChars, WriteOptions,
};

use crate::scene::{Scene, mount, names, path};

#[test]
fn text_reads_back_as_written() {
    let scene = Scene::new();
    for text in ["", "Hello 世界 🎉", "\u{feff}bom\r\nlines\n\n"] {
        let written = scene
            .files
            .write(&path("/data/t.txt"), text, Default::default())
            .unwrap();
        assert_eq!(written.chars, text.chars().count() as u64);
        let read = scene
            .files
            .read(&path("/data/t.txt"), Default::default())
            .unwrap();
        assert_eq!(read.content, text);
        assert!(!read.truncated);
        assert_eq!(read.total_chars, TotalChars::Exact(written.chars));
    }
}

#[test]
fn bytes_read_back_as_written() {
    let scene = Scene::new();
    for bytes in [&b""[..], &[0x00, 0xff, 0x80]] {
        scene
            .files
            .write_bytes(&path("/data/b"), bytes, Default::default())
            .unwrap();
        assert_eq!(scene.files.read_bytes(&path("/data/b"), 3).unwrap(), bytes);
    }
    let denied = scene.files.read_bytes(&path("/data/b"), 2).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::TooLarge);
}

#[test]
fn a_read_counts_characters() {
    let scene = Scene::new();
    let at = path("/data/long.txt");
    let text: String = "aé世🎉".chars().cycle().take(250_000).collect();
    scene.files.write(&at, &text, Default::default()).unwrap();

    let read = scene.files.read(&at, Default::default()).unwrap();
    assert_eq!(read.content.chars().count(), 200_000);
    assert_eq!(
        (read.truncated, read.chars, read.offset),
        (true, 200_000, 0)
    );
    // What comes after the part is not read just to be counted.
    let at_least = matches!(read.total_chars, TotalChars::AtLeast(200_000..250_000));
    assert!(at_least, "{:?}", read.total_chars);

    // Parts of any size put the text together again.
    for size in [1_000, 65_537, 199_999] {
        let mut whole = String::new();
        loop {
            let options = ReadOptions::new()
                .offset(whole.chars().count() as u64)
                .max_chars(size);
            let part = scene.files.read(&at, options).unwrap();
            whole.push_str(&part.content);
            if !part.truncated {
                break;
            }
        }
        assert_eq!(whole, text);
    }
    let past = scene
        .files
        .read(&at, ReadOptions::new().offset(250_001))
        .unwrap();
    assert_eq!((past.content.as_str(), past.truncated), ("", false));
    let none = scene
        .files
        .read(&at, ReadOptions::new().max_chars(0))
        .unwrap();
    assert_eq!((none.chars, none.truncated), (0, true));
}

#[test]
fn a_large_file_is_counted_so_far() {
    let scene = Scene::new();
    fs::write(scene.at("data/large.txt"), "x".repeat(20 << 20)).unwrap();
    let read = scene
        .files
        .read(&path("/data/large.txt"), Default::default())
        .unwrap();
    assert_eq!(read.chars, 200_000);
    assert!(read.truncated && !read.total_chars.is_exact());
    assert!(read.total_chars.get() < 20 << 20);
}

#[test]
fn what_is_no_text() {
    let scene = Scene::new();
    for bytes in [
        &b"\x89PNG\r\n\x1a\n\0"[..],
        b"a\0b",
        b"\xff\xfea\0b",
        b"\xfe\xff\xd8\0",
        b"\x01\xff",
    ] {
        fs::write(scene.at("data/x"), bytes).unwrap();
        let error = scene
            .files
            .read(&path("/data/x"), Default::default())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotText);
        assert!(error.to_string().contains("attachments"));
    }
}

#[test]
fn limits_are_exact() {
    let scene = Scene::new();
    assert!(
        scene
            .files
            .read(&path("/docs/a.md"), Default::default())
            .is_ok()
    );
    let write = |text| {
        scene
            .files
            .write(&path("/docs/w.MD"), text, Default::default())
    };
    assert!(write("0123456789").is_ok());
    assert_eq!(
        write("0123456789+").unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    assert_eq!(scene.host_text("docs/w.MD"), "0123456789");
}

#[test]
fn a_write_creates_parents_and_says_so() {
    let scene = Scene::new();
    let written = scene
        .files
        .write(&path("data/n/e/w.md"), "x", Default::default())
        .unwrap();
    assert!(written.created);
    assert_eq!(written.path.as_str(), "/data/n/e/w.md");
    let written = scene
        .files
        .write(&path("data/n/e/w.md"), "y", Default::default())
        .unwrap();
    assert!(!written.created);
    assert_eq!(scene.host_text("data/n/e/w.md"), "y");
}

#[test]
fn a_write_keeps_mode_and_link() {
    let scene = Scene::new();
    let target = scene.at("data/sub/b.md");
    for mode in [0o755, 0o600, 0o644] {
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        for link in ["in_rel", "in_abs", "in_dir/b.md", "here/here/in_rel"] {
            let at = path(&format!("/data/{link}"));
            let written = scene
                .files
                .write(&at, link, Default::default())
                .expect(link);
            assert_eq!(written.path.as_str(), "/data/sub/b.md");
            assert_eq!(scene.host_text("data/sub/b.md"), link);
            assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, mode);
        }
    }
    assert!(
        scene
            .at("data/in_rel")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    // A set-id bit does not survive a write, as with write(2).
    fs::set_permissions(&target, fs::Permissions::from_mode(0o4755)).unwrap();
    scene
        .files
        .write(&path("/data/sub/b.md"), "x", Default::default())
        .unwrap();
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_write_through_a_dangling_link_makes_its_target() {
    let scene = Scene::new();
    let written = scene
        .files
        .write(&path("/data/dangling"), "new", Default::default())
        .unwrap();
    assert_eq!(written.path.as_str(), "/data/sub/missing.md");
    assert_eq!(scene.host_text("data/sub/missing.md"), "new");
    assert!(
        scene
            .at("data/dangling")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn create_new_never_replaces() {
    let scene = Scene::new();
    let new = || WriteOptions::new().create_new(true);
    let denied = scene
        .files
        .write(&path("/data/a.md"), "x", new())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Exists);
    assert_eq!(scene.host_text("data/a.md"), "text a");
    scene
        .files
        .write(&path("/data/new.md"), "x", new().durable(true))
        .unwrap();
    assert_eq!(scene.host_text("data/new.md"), "x");
}

#[test]
fn no_temporary_file_stays_or_shows() {
    let scene = Scene::new();
    fs::write(scene.at("data/.forge-tmp-left"), "half").unwrap();
    scene
        .files
        .write(&path("/data/a.md"), "x", Default::default())
        .unwrap();
    assert!(
        !names(&scene.files, "/data", ListOptions::new())
            .iter()
            .any(|n| n.contains("tmp"))
    );
    let left = fs::read_dir(scene.at("data")).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".forge-tmp-")
    });
    assert_eq!(left.count(), 1, "only the one that was planted");
}

#[test]
fn hard_links_by_policy() {
    let scene = Scene::new();
    let with = |policy| {
        let limits = Limits::new().hard_links(policy);
        let mount = mount("/data", &scene.at("data"), Mode::ReadWrite).with_limits(limits);
        FileSandbox::new(vec![mount]).unwrap()
    };
    let at = path("/data/hard.txt");
    let denied = with(HardLinks::Deny)
        .read(&at, Default::default())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Escape);
    let kept = with(HardLinks::ReadOnly);
    assert_eq!(
        kept.read(&at, Default::default()).unwrap().content,
        "two names"
    );
    assert_eq!(
        kept.write(&at, "x", Default::default()).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    with(HardLinks::Allow)
        .write(&at, "x", Default::default())
        .unwrap();
    assert_eq!(scene.host_text("data/hard.txt"), "x");
    assert_eq!(scene.host_text("outside/hard.txt"), "two names");
}

#[test]
fn delete_takes_a_file_or_an_empty_directory() {
    let scene = Scene::new();
    scene.files.delete(&path("/data/a.md")).unwrap();
    scene.files.delete(&path("/data/empty/")).unwrap();
    scene.files.delete(&path("/data/in_dir/b.md")).unwrap();
    for gone in ["data/a.md", "data/empty", "data/sub/b.md"] {
        assert!(!scene.at(gone).exists(), "{gone}");
    }
}

#[test]
fn stat_and_exists() {
    let scene = Scene::new();
    let stat = |at: &str| scene.files.stat(&path(at)).expect(at);
    let rows = [
        ("/", EntryKind::Directory, false),
        ("/data", EntryKind::Directory, false),
        ("/data/a.md", EntryKind::File, false),
        ("/data/in_dir", EntryKind::Directory, true),
        ("/data/in_rel", EntryKind::File, true),
        ("/data/dangling", EntryKind::Link, true),
        ("/data/fifo", EntryKind::Other, false),
        ("/data/socket", EntryKind::Other, false),
    ];
    for (at, kind, is_link) in rows {
        assert_eq!((stat(at).kind, stat(at).is_link), (kind, is_link), "{at}");
    }
    assert_eq!(stat("/data/a.md").size, 6);
    assert!(stat("/data/a.md").modified.is_some());
    assert_eq!(stat("/data/hard.txt").hard_links, 2);

    let exists = |at: &str| scene.files.exists(&path(at)).expect(at);
    for at in ["/", "/data", "/data/a.md", "/data/in_abs", "/data/fifo"] {
        assert!(exists(at), "{at}");
    }
    for at in [
        "/data/none",
        "/data/none/x",
        "/data/a.md/x",
        "/data/dangling",
        "/data/.env",
    ] {
        assert!(!exists(at), "{at}");
    }
}

/// What holds a protected name while a command runs is not shown; other sockets are, and so are
/// protected names that are real.
#[test]
fn list_leaves_out_what_holds_a_protected_name() {
    let scene = Scene::new();
    let names = |scene: &Scene| -> Vec<String> {
        let list = scene
            .files
            .list(&path("/data"), ListOptions::new())
            .unwrap();
        list.entries.into_iter().map(|entry| entry.name).collect()
    };
    let before = names(&scene);
    drop(UnixListener::bind(scene.at("data/.mcp.json")).unwrap());
    assert_eq!(names(&scene), before);
    assert!(before.iter().any(|name| name == "socket"));
    fs::remove_file(scene.at("data/.mcp.json")).unwrap();
    fs::write(scene.at("data/.mcp.json"), "{}").unwrap();
    assert!(names(&scene).iter().any(|name| name == ".mcp.json"));
}

/// A pointer that a person made: not changed, and not carried to where it means something else.
#[test]
fn a_pointer_to_a_repository_stays_what_and_where_it_is() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("data/deep/module")).unwrap();
    fs::write(scene.at("data/deep/module/.git"), "gitdir: ../x").unwrap();
    let at = path("/data/deep/module/.git");
    let change = |denied: Result<(), file_sandbox::Error>| {
        assert_eq!(denied.unwrap_err().kind(), ErrorKind::ReadOnly);
    };
    let options = WriteOptions::default();
    change(scene.files.write(&at, "gitdir: ../y", options).map(drop));
    let to = path("/data/module");
    let moved = scene.files.rename(
        &path("/data/deep/module"),
        &to,
        file_sandbox::MoveOptions::new(),
    );
    change(moved.map(drop));
    let text = fs::read_to_string(scene.at("data/deep/module/.git")).unwrap();
    assert_eq!(text, "gitdir: ../x");
}

#[test]
fn list_shows_one_directory() {
    let scene = Scene::new();
    assert_eq!(
        names(&scene.files, "/", ListOptions::new()),
        ["data", "docs", "ref"]
    );
    let sub = scene
        .files
        .list(&path("/data/in_dir"), ListOptions::new())
        .unwrap();
    let kinds: Vec<_> = sub
        .entries
        .iter()
        .map(|e| (e.name.as_str(), e.kind))
        .collect();
    assert_eq!(
        kinds,
        [("b.md", EntryKind::File), ("chain2", EntryKind::Link)]
    );

    let all = names(&scene.files, "/data", ListOptions::new());
    assert!(all.is_sorted());
    assert!(all.contains(&".git".to_owned()) && !all.contains(&".env".to_owned()));

    let two = scene
        .files
        .list(&path("/data"), ListOptions::new().max_entries(2))
        .unwrap();
    assert_eq!((two.entries.len(), two.more), (2, true));
    let exact = ListOptions::new().max_entries(all.len());
    assert!(!scene.files.list(&path("/data"), exact).unwrap().more);
}

#[test]
fn list_with_a_pattern_goes_down() {
    let scene = Scene::new();
    let list =
        |at: &str, pattern: &str| names(&scene.files, at, ListOptions::new().pattern(pattern));
    assert_eq!(list("/data", "**/*.md"), ["a.md", "sub/b.md"]);
    assert_eq!(list("/data", "*.md"), ["a.md"]);
    assert_eq!(
        list("/", "*/*.md"),
        [
            "data/a.md",
            "docs/a.md",
            "docs/big.md",
            "docs/tool.md",
            "ref/r.md"
        ]
    );
    assert_eq!(
        list("/data", ".git/**"),
        [".git/config", ".git/hooks/pre-commit"]
    );
    let everything = list("/", "**/*");
    assert!(everything.is_sorted() && everything.len() > 20);
    assert!(
        !everything
            .iter()
            .any(|name| name.contains("secret") || name.contains(".env"))
    );
    let one = ListOptions::new().pattern("**/*").max_entries(1);
    let listing = scene.files.list(&path("/"), one).unwrap();
    assert_eq!((listing.entries.len(), listing.more), (1, true));
    let bad = scene
        .files
        .list(&path("/data"), ListOptions::new().pattern("../*"))
        .unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidPath);
}

#[test]
fn a_deep_tree_is_cut_and_said_so() {
    let scene = Scene::new();
    let deep = (0..70).fold(scene.at("data/deep"), |dir, _| dir.join("d"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("end.txt"), "x").unwrap();
    let options = ListOptions::new().pattern("deep/**/end.txt");
    let cut = scene.files.list(&path("/data"), options.clone()).unwrap();
    assert_eq!((cut.entries.len(), cut.skipped.len()), (0, 1));
    assert_eq!(cut.skipped[0].reason, "too deep");
    let whole = scene
        .files
        .list(&path("/data"), options.max_depth(100))
        .unwrap();
    assert_eq!(whole.entries.len(), 1);
}

#[test]
fn names_that_lie_are_escaped_and_read_back() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let scene = Scene::new();
    let odd: [&[u8]; 4] = [b"new\nline", b"esc\x1b[2J", b"byte\xff", b"back\\slash"];
    for name in odd {
        fs::write(scene.at("data/empty").join(OsStr::from_bytes(name)), "odd").unwrap();
    }
    let listed = names(&scene.files, "/data/empty", ListOptions::new());
    assert_eq!(
        listed,
        [
            "back\\u{5c}slash",
            "byte\\x{ff}",
            "esc\\u{1b}[2J",
            "new\\u{a}line"
        ]
    );
    for name in listed {
        let at = path("/data/empty").join(&name).expect(&name);
        assert_eq!(
            scene
                .files
                .read(&at, Default::default())
                .expect(&name)
                .content,
            "odd"
        );
        scene.files.delete(&at).expect(&name);
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_reported() {
    let scene = Scene::new();
    fs::set_permissions(scene.at("data/empty"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(scene.at("data/empty")).is_ok() {
        eprintln!("skipped: no directory is closed to root");
        return;
    }
    let listing = scene
        .files
        .list(&path("/data"), ListOptions::new().pattern("**/*"))
        .unwrap();
    assert_eq!(listing.skipped.len(), 1);
    assert_eq!(listing.skipped[0].name, "empty");
}

#[test]
fn a_file_closed_to_writing_is_not_replaced() {
    let scene = Scene::new();
    let file = scene.at("data/a.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().append(true).open(&file).is_ok() {
        eprintln!("skipped: no file is closed to root");
        return;
    }
    let denied = scene
        .files
        .write(&path("/data/a.md"), "x", Default::default())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Io);
    assert_eq!(
        denied.to_string(),
        "Cannot write to '/data/a.md': permission denied."
    );
    assert_eq!(scene.host_text("data/a.md"), "text a");
}

/// Root may, so the owner is kept.
#[test]
fn a_write_keeps_the_owner() {
    let scene = Scene::new();
    let file = scene.at("data/a.md");
    if let Err(error) = std::os::unix::fs::chown(&file, Some(12_345), Some(12_345)) {
        eprintln!("skipped: giving a file away needs root ({error})");
        return;
    }
    scene
        .files
        .write(&path("/data/a.md"), "new", Default::default())
        .unwrap();
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (12_345, 12_345));
    assert_eq!(scene.host_text("data/a.md"), "new");
}
