//! What every backend must do alike: one suite, run on the host and in memory.

use std::io::Read as _;
use std::path::Path;

use file_sandbox::{
    EditOptions, EntryKind, Error, ErrorKind, FileSandbox, Limits, ListOptions, Mode, Mount,
    MoveOptions, ReadOptions, Replacement, Restriction, SandboxPath, TotalChars, WriteOptions,
};

use crate::scene::{names, path};

/// `/data` rw with rules, `/docs` rw with limits, `/ref` ro; links in `/data` as planted.
fn host(top: &Path) -> FileSandbox {
    let mount = |target: &str, mode| {
        let host = top.join(&target[1..]);
        std::fs::create_dir_all(&host).unwrap();
        crate::scene::mount(target, &host, mode)
    };
    let files = build(mount);
    for (at, text) in LINKS {
        let at = top.join("data").join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(text, at).unwrap();
    }
    files
}

fn memory() -> FileSandbox {
    build(|target, mode| {
        let mount = Mount::memory(path(target), mode);
        if target != "/data" {
            return mount;
        }
        let planted = LINKS
            .iter()
            .try_fold(mount, |m, (at, text)| m.with_link(&path(at), text));
        planted.unwrap()
    })
}

const LINKS: &[(&str, &str)] = &[
    ("in", "sub/b.md"),
    ("dir", "sub"),
    ("out", "../outside"),
    ("abs", "/etc/passwd"),
    ("loop", "loop"),
    ("gone", "sub/gone.md"),
    ("to_env", ".env"),
    ("sub/up", "../a.md"),
];

fn build(mount: impl Fn(&str, Mode) -> Mount) -> FileSandbox {
    let limits = Limits::new()
        .suffixes([".md"])
        .max_file_bytes(10)
        .max_total_bytes(25, "quota.max_bytes")
        .max_files(4, "quota.max_files");
    FileSandbox::new(vec![
        mount("/data", Mode::ReadWrite)
            .protect([".git/hooks", "*.key"])
            .unwrap()
            .hide([".env*"])
            .unwrap(),
        mount("/docs", Mode::ReadWrite).with_limits(limits),
        mount("/ref", Mode::ReadOnly),
    ])
    .unwrap()
}

/// Runs a case on both; which one it was stands in the output of a failure.
fn both(case: impl Fn(&FileSandbox)) {
    let dir = tempfile::tempdir().unwrap();
    for (name, files) in [("host", host(dir.path())), ("memory", memory())] {
        println!("backend: {name}");
        put(&files, "/data/a.md", "text a");
        put(&files, "/data/sub/b.md", "text b");
        case(&files);
    }
}

fn put(files: &FileSandbox, at: &str, text: &str) {
    files.write(&path(at), text, WriteOptions::new()).expect(at);
}

fn text(files: &FileSandbox, at: &str) -> String {
    files.read(&path(at), ReadOptions::new()).expect(at).content
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn replace() -> MoveOptions {
    MoveOptions::new().overwrite(true)
}

#[test]
fn links_are_followed_inside_and_refused_outside() {
    both(|files| {
        assert_eq!(text(files, "/data/in"), "text b");
        assert_eq!(text(files, "/data/dir/up"), "text a");
        put(files, "/data/in", "through");
        assert_eq!(text(files, "/data/sub/b.md"), "through");
        assert!(files.stat(&path("/data/in")).unwrap().is_link);
        let read = |at: &str| kind(files.read(&path(at), ReadOptions::new()));
        assert_eq!(read("/data/out"), ErrorKind::Escape);
        assert_eq!(read("/data/out/x"), ErrorKind::Escape);
        assert_eq!(read("/data/abs"), ErrorKind::Escape);
        assert_eq!(read("/data/loop"), ErrorKind::Loop);
        assert_eq!(read("/data/gone"), ErrorKind::NotFound);
        assert_eq!(read("/data/to_env"), ErrorKind::NotFound);
        let write = kind(files.write(&path("/data/out/x"), "x", WriteOptions::new()));
        assert_eq!(write, ErrorKind::Escape);
        files.delete(&path("/data/in")).unwrap();
        assert_eq!(text(files, "/data/sub/b.md"), "through");
    });
}

#[test]
fn modes_limits_and_rules() {
    both(|files| {
        let write = |at: &str, text: &str| files.write(&path(at), text, WriteOptions::new());
        assert_eq!(kind(write("/ref/x.md", "")), ErrorKind::ReadOnly);
        assert_eq!(kind(write("/data/k.key", "")), ErrorKind::ReadOnly);
        assert_eq!(kind(write("/data/.ENV", "")), ErrorKind::ReadOnly);
        assert_eq!(kind(write("/docs/a.txt", "")), ErrorKind::SuffixNotAllowed);
        assert_eq!(
            kind(write("/docs/a.md", "0123456789+")),
            ErrorKind::TooLarge
        );
        assert_eq!(kind(write("/data/sub", "")), ErrorKind::NotAFile);
        assert_eq!(kind(write("/data/a.md/x", "")), ErrorKind::NotAFile);
        assert_eq!(kind(write("/etc/x", "")), ErrorKind::OutsideSandbox);
        let append = kind(files.append(&path("/docs/a.txt"), b"x"));
        assert_eq!(append, ErrorKind::SuffixNotAllowed);
    });
}

#[test]
fn quotas_count_what_is_there() {
    both(|files| {
        let write = |at: &str, bytes: usize| {
            files.write_bytes(&path(at), &vec![b'x'; bytes], WriteOptions::new())
        };
        write("/docs/1.md", 10).unwrap();
        write("/docs/deep/er/2.md", 10).unwrap();
        assert_eq!(kind(write("/docs/3.md", 6)), ErrorKind::Quota);
        write("/docs/3.md", 5).unwrap();
        assert_eq!(
            kind(files.append(&path("/docs/3.md"), b"x")),
            ErrorKind::Quota
        );
        // Less in place of more always fits.
        write("/docs/1.md", 4).unwrap();
        write("/docs/4.md", 0).unwrap();
        assert_eq!(kind(write("/docs/5.md", 0)), ErrorKind::Quota);
        let copied = files.copy(&path("/data/a.md"), &path("/docs/5.md"), replace());
        assert_eq!(kind(copied), ErrorKind::Quota);
        // A narrower sandbox has no quota of its own.
        let deep = Restriction::new().keep(path("/docs/deep"));
        let child = files.restrict(&deep).unwrap();
        let more = child.write(&path("/docs/deep/6.md"), "", WriteOptions::new());
        assert_eq!(kind(more), ErrorKind::Quota);
    });
}

#[test]
fn append_extends_or_creates() {
    both(|files| {
        let new = files.append(&path("/data/n/log.txt"), b"one\n").unwrap();
        assert!(new.created);
        let more = files.append(&path("/data/n/log.txt"), b"two\n").unwrap();
        assert_eq!((more.created, more.bytes), (false, 8));
        assert_eq!(text(files, "/data/n/log.txt"), "one\ntwo\n");
        assert_eq!(
            kind(files.append(&path("/data/sub"), b"")),
            ErrorKind::NotAFile
        );
    });
}

#[test]
fn a_write_only_if_nothing_changed() {
    both(|files| {
        let at = path("/data/a.md");
        let seen = files
            .read(&at, ReadOptions::new().hash(true))
            .unwrap()
            .hash
            .unwrap();
        assert_eq!(seen, files.hash(&at).unwrap());
        let options = || WriteOptions::new().if_match(seen);
        files.write(&at, "mine", options()).unwrap();
        let stale = files.write(&at, "mine again", options()).unwrap_err();
        assert_eq!(stale.kind(), ErrorKind::Stale);
        assert!(
            stale
                .to_string()
                .contains(&files.hash(&at).unwrap().to_string())
        );
        files.delete(&at).unwrap();
        assert_eq!(kind(files.write(&at, "", options())), ErrorKind::Stale);
        let edit = EditOptions::new().if_match(seen);
        let edited = files.edit(&path("/data/sub/b.md"), &[Replacement::new("b", "c")], edit);
        assert_eq!(kind(edited), ErrorKind::Stale);
        assert_eq!(text(files, "/data/sub/b.md"), "text b");
    });
}

#[test]
fn in_place_keeps_the_object() {
    both(|files| {
        let at = path("/data/a.md");
        let options = WriteOptions::new().in_place(true).durable(true);
        files.write(&at, "shorter", options.clone()).unwrap();
        files.write(&at, "s", options).unwrap();
        assert_eq!(text(files, "/data/a.md"), "s");
    });
}

#[test]
fn a_move_never_replaces_unasked() {
    both(|files| {
        let rename = |a: &str, b: &str, options| files.rename(&path(a), &path(b), options);
        let (keep, over) = (MoveOptions::new, replace);
        assert_eq!(
            kind(rename("/data/a.md", "/data/sub/b.md", keep())),
            ErrorKind::Exists
        );
        let moved = rename("/data/a.md", "/data/new/a.md", keep()).unwrap();
        assert_eq!(
            (moved.path.as_str(), moved.replaced),
            ("/data/new/a.md", false)
        );
        assert!(!files.exists(&path("/data/a.md")).unwrap());
        assert!(
            rename("/data/new/a.md", "/data/sub/b.md", over())
                .unwrap()
                .replaced
        );
        assert_eq!(text(files, "/data/sub/b.md"), "text a");
        // Directories.
        rename("/data/sub", "/data/moved", keep()).unwrap();
        assert_eq!(text(files, "/data/moved/b.md"), "text a");
        assert_eq!(
            kind(rename("/data/moved", "/data/new", over())),
            ErrorKind::Exists
        );
        assert_eq!(
            kind(rename("/data/moved", "/data/moved/in/it", keep())),
            ErrorKind::InvalidPath
        );
        // A link moves as a link.
        rename("/data/loop", "/data/loop2", keep()).unwrap();
        assert_eq!(
            files.stat(&path("/data/new")).unwrap().kind,
            EntryKind::Directory
        );
        for (from, to, error) in [
            ("/data", "/data/x", ErrorKind::ReadOnly),
            ("/data/.", "/docs/x", ErrorKind::ReadOnly),
            ("/data/none", "/data/x", ErrorKind::NotFound),
            ("/data/moved/b.md", "/ref/b.md", ErrorKind::ReadOnly),
            ("/data/moved/b.md", "/data/k.key", ErrorKind::ReadOnly),
            ("/data/moved/b.md", "/data/.env", ErrorKind::ReadOnly),
            (
                "/data/moved/b.md",
                "/docs/b.txt",
                ErrorKind::SuffixNotAllowed,
            ),
            ("/data/moved/b.md", "/out/b.md", ErrorKind::OutsideSandbox),
            ("/data/moved/b.md", "/data/out/b.md", ErrorKind::Escape),
            ("/data/moved/b.md/", "/data/c.md", ErrorKind::NotAFile),
            ("/data/moved/b.md", "/data", ErrorKind::Exists),
            ("/data/moved", "/docs/moved", ErrorKind::Io),
            ("/data/.env", "/data/x", ErrorKind::NotFound),
        ] {
            assert_eq!(kind(rename(from, to, over())), error, "{from} {to}");
        }
        // To another mount: by its rules, and only then gone here.
        put(files, "/data/long.md", "0123456789+");
        assert_eq!(
            kind(rename("/data/long.md", "/docs/l.md", keep())),
            ErrorKind::TooLarge
        );
        assert!(files.exists(&path("/data/long.md")).unwrap());
        rename("/data/moved/b.md", "/docs/b.md", keep()).unwrap();
        assert_eq!(text(files, "/docs/b.md"), "text a");
        assert!(!files.exists(&path("/data/moved/b.md")).unwrap());
    });
}

#[test]
fn what_is_protected_does_not_move_with_its_directory() {
    both(|files| {
        files.create_dir(&path("/data/x/hooks")).unwrap();
        // Into a protected place, as part of a directory.
        let denied = files.rename(&path("/data/x"), &path("/data/.git"), MoveOptions::new());
        assert_eq!(kind(denied), ErrorKind::ReadOnly);
        assert!(files.exists(&path("/data/x/hooks")).unwrap());
        // `.git` itself is free, what is in it is not.
        files.create_dir(&path("/data/.git")).unwrap();
        files
            .rename(&path("/data/.git"), &path("/data/git"), MoveOptions::new())
            .unwrap();
    });
}

/// A file `.git` says that the repository lies elsewhere, where no name is protected.
#[test]
fn a_file_does_not_point_to_another_repository() {
    both(|files| {
        put(files, "/data/x/pointer", "gitdir: ../evil");
        for at in [
            "/data/.git",
            "/data/sub/.git",
            "/data/new/.GIT",
            "/data/x/.g\u{200c}it",
        ] {
            let at = path(at);
            let refused = |denied: Result<(), Error>| {
                assert_eq!(denied.unwrap_err().kind(), ErrorKind::ReadOnly, "{at:?}");
                assert!(!files.exists(&at).unwrap(), "{at:?}");
            };
            let from = path("/data/x/pointer");
            refused(
                files
                    .write(&at, "gitdir: ../evil", Default::default())
                    .map(drop),
            );
            refused(files.append(&at, b"gitdir: ../evil").map(drop));
            refused(files.copy(&from, &at, MoveOptions::new()).map(drop));
            refused(files.rename(&from, &at, MoveOptions::new()).map(drop));
            refused(files.check_write(&at));
            assert!(!files.can_write(&at), "{at:?}");
        }
        // Where it is a directory, git works on, and so do names that only look alike.
        put(files, "/data/sub/.git/refs/heads/main", "0123");
        put(files, "/data/.gitignore", "target");
        put(files, "/data/a.git", "text");
        files
            .rename(
                &path("/data/sub/.git"),
                &path("/data/x/.git"),
                MoveOptions::new(),
            )
            .unwrap();
    });
}

#[test]
fn a_copy_is_a_file_of_its_own() {
    both(|files| {
        let copy = |a: &str, b: &str, options| files.copy(&path(a), &path(b), options);
        copy("/data/dir/b.md", "/data/new/c.md", MoveOptions::new()).unwrap();
        put(files, "/data/sub/b.md", "changed");
        assert_eq!(text(files, "/data/new/c.md"), "text b");
        assert_eq!(
            kind(copy("/data/a.md", "/data/new/c.md", MoveOptions::new())),
            ErrorKind::Exists
        );
        assert!(
            copy("/data/a.md", "/data/new/c.md", replace())
                .unwrap()
                .replaced
        );
        // Onto itself: nothing is lost.
        copy("/data/a.md", "/data/dir/../a.md", replace()).unwrap();
        assert_eq!(text(files, "/data/a.md"), "text a");
        assert_eq!(
            kind(copy("/data/sub", "/data/x", replace())),
            ErrorKind::NotAFile
        );
        assert_eq!(
            kind(copy("/data/a.md", "/ref/a.md", replace())),
            ErrorKind::ReadOnly
        );
        assert_eq!(
            kind(copy("/data/abs", "/data/x", replace())),
            ErrorKind::Escape
        );
    });
}

#[test]
fn delete_all_takes_everything_or_nothing() {
    both(|files| {
        put(files, "/data/t/1/2/3.md", "x");
        put(files, "/data/t/4.md", "x");
        files.delete_all(&path("/data/t")).unwrap();
        assert!(!files.exists(&path("/data/t")).unwrap());
        // The target of a link stays.
        files.delete_all(&path("/data/dir")).unwrap();
        assert_eq!(text(files, "/data/sub/b.md"), "text b");
        for root in ["/data", "/data/", "/data/x/..", "/", ".", "/data/sub/./.."] {
            assert_eq!(
                kind(files.delete_all(&path(root))),
                ErrorKind::ReadOnly,
                "{root}"
            );
        }
        assert!(files.exists(&path("/data/a.md")).unwrap());
        assert_eq!(
            kind(files.delete_all(&path("/data/none"))),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(files.delete_all(&path("/data/out/x"))),
            ErrorKind::Escape
        );
    });
}

#[test]
fn delete_all_of_a_deep_tree() {
    both(|files| {
        let mut at = String::from("/data/deep");
        for _ in 0..120 {
            at.push_str("/d");
        }
        put(files, &format!("{at}/end.md"), "x");
        files.delete_all(&path("/data/deep")).unwrap();
        assert!(!files.exists(&path("/data/deep")).unwrap());
    });
}

#[test]
fn listing_and_searching_names() {
    both(|files| {
        put(files, "/data/.git/index", "x");
        let top = names(files, "/data", ListOptions::new());
        assert_eq!(
            top,
            [
                ".git", "a.md", "abs", "dir", "gone", "in", "loop", "out", "sub", "to_env"
            ]
        );
        let all = names(files, "/data", ListOptions::new().pattern("**/*.md"));
        assert_eq!(all, ["a.md", "sub/b.md"]);
        assert_eq!(
            names(files, "/", ListOptions::new()),
            ["data", "docs", "ref"]
        );
    });
}

#[test]
fn lines_and_tails() {
    both(|files| {
        put(files, "/data/l.txt", "one\ntwo\nthree\nfour");
        let read = |options: ReadOptions| files.read(&path("/data/l.txt"), options).unwrap();
        // What is asked for, what comes, in which line it begins, and whether there is more.
        let rows = [
            (
                ReadOptions::new().lines(2, 2),
                "two\nthree\n",
                Some(2),
                true,
            ),
            (ReadOptions::new().lines(1, 1), "one\n", Some(1), true),
            (ReadOptions::new().lines(4, 9), "four", Some(4), false),
            (ReadOptions::new().lines(9, 1), "", Some(4), false),
            (
                ReadOptions::new().lines(2, 9).max_chars(5),
                "two\nt",
                Some(2),
                true,
            ),
            (
                ReadOptions::new().offset(4).max_chars(3),
                "two",
                Some(2),
                true,
            ),
            (
                ReadOptions::new().offset(5),
                "wo\nthree\nfour",
                Some(2),
                false,
            ),
            (ReadOptions::new().tail(1), "four", None, true),
            (ReadOptions::new().tail(2), "three\nfour", None, true),
            (
                ReadOptions::new().tail(4),
                "one\ntwo\nthree\nfour",
                Some(1),
                false,
            ),
            (
                ReadOptions::new().tail(9),
                "one\ntwo\nthree\nfour",
                Some(1),
                false,
            ),
            (ReadOptions::new().tail(0), "", None, true),
            (
                ReadOptions::new().tail(2).max_chars(5),
                "\nfour",
                None,
                true,
            ),
        ];
        for (options, content, first_line, more) in rows {
            let text = read(options.clone());
            assert_eq!(text.content, content, "{options:?}");
            assert_eq!(
                (text.first_line, text.truncated),
                (first_line, more),
                "{options:?}"
            );
            assert_eq!(text.total_chars, TotalChars::Exact(18), "{options:?}");
            if let Some(next) = text.next_offset() {
                let rest = read(ReadOptions::new().offset(next)).content;
                assert!(format!("{content}{rest}").ends_with("four"), "{options:?}");
                assert_eq!(next + rest.chars().count() as u64, 18);
            }
        }
    });
}

#[test]
fn a_long_file_gives_its_lines_across_chunks() {
    both(|files| {
        let all: String = (1..=60_000).map(|n| format!("line {n} é\n")).collect();
        put(files, "/data/l.txt", &all);
        for first in [1, 777, 30_001, 59_999] {
            let options = ReadOptions::new().lines(first, 2);
            let text = files.read(&path("/data/l.txt"), options).unwrap();
            assert_eq!(
                text.content,
                format!("line {first} é\nline {} é\n", first + 1)
            );
            assert_eq!(text.first_line, Some(first));
        }
        let tail = files
            .read(&path("/data/l.txt"), ReadOptions::new().tail(3))
            .unwrap();
        assert_eq!(tail.content, "line 59998 é\nline 59999 é\nline 60000 é\n");
        assert!(!tail.total_chars.is_exact());
    });
}

#[test]
fn an_open_file_keeps_its_object_and_its_end() {
    both(|files| {
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let at = path("/data/big.bin");
        files.write_bytes(&at, &all, WriteOptions::new()).unwrap();
        let mut open = files.open(&at).unwrap();
        assert_eq!((open.len(), open.is_empty()), (200_000, false));
        let mut first = [0; 7];
        open.read_exact(&mut first).unwrap();
        assert_eq!(first, all[..7]);
        // What comes after the end of that time is not seen, and the name may go.
        files.append(&at, b"more").unwrap();
        files.delete(&at).unwrap();
        let mut rest = Vec::new();
        open.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, all[7..]);
        assert_eq!(open.read(&mut first).unwrap(), 0);
        assert_eq!(
            format!("{open:?}"),
            r#"OpenFile { path: "/data/big.bin", len: 200000, at: 200000, .. }"#
        );

        // One that gets shorter ends there.
        let at = path("/data/a.md");
        let mut open = files.open(&at).unwrap();
        let options = WriteOptions::new().in_place(true);
        files.write(&at, "te", options).unwrap();
        assert_eq!(std::io::read_to_string(&mut open).unwrap(), "te");
        assert_eq!(open.len(), 6);
    });
}

#[test]
fn an_open_file_gives_no_more_than_the_limit() {
    both(|files| {
        let at = path("/docs/a.md");
        put(files, "/docs/a.md", "0123456789");
        let mut open = files.open(&at).unwrap();
        assert_eq!(std::io::read_to_string(&mut open).unwrap(), "0123456789");

        // It said that it was empty: up to the limit.
        put(files, "/docs/b.md", "");
        let mut open = files.open(&path("/docs/b.md")).unwrap();
        assert!(open.is_empty());
        assert_eq!(open.read(&mut [0; 4]).unwrap(), 0);
        files.append(&path("/docs/b.md"), b"0123456789").unwrap();
        let mut bytes = Vec::new();
        open.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"0123456789");

        // Without a limit up to 1 MiB, and then an error, every time.
        let at = path("/data/c.md");
        put(files, "/data/c.md", "");
        let mut open = files.open(&at).unwrap();
        files.append(&at, &vec![b'x'; (1 << 20) + 1]).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..2 {
            let error = open.read_to_end(&mut bytes).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
            let error: Error = error.downcast().unwrap();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert_eq!(error.path(), "/data/c.md");
            assert_eq!(bytes.len(), 1 << 20);
        }
    });
}

#[test]
fn opening_is_refused_as_reading_is() {
    both(|files| {
        put(files, "/docs/a.md", "x");
        let open = |at: &str| files.open(&path(at));
        for at in ["/data/in", "/data/dir/b.md", "/data/sub/up", "/docs/a.md"] {
            let content = std::io::read_to_string(open(at).unwrap()).unwrap();
            assert_eq!(content, text(files, at), "{at}");
        }
        for (at, error) in [
            ("/data", ErrorKind::NotAFile),
            ("/", ErrorKind::NotAFile),
            ("/data/sub", ErrorKind::NotAFile),
            ("/data/a.md/x", ErrorKind::NotAFile),
            ("/data/none", ErrorKind::NotFound),
            ("/data/.env", ErrorKind::NotFound),
            ("/data/to_env", ErrorKind::NotFound),
            ("/data/gone", ErrorKind::NotFound),
            ("/data/out", ErrorKind::Escape),
            ("/data/abs", ErrorKind::Escape),
            ("/data/loop", ErrorKind::Loop),
            ("/docs/a.txt", ErrorKind::SuffixNotAllowed),
            ("/etc/passwd", ErrorKind::OutsideSandbox),
        ] {
            let denied = open(at).unwrap_err();
            let read = files.read(&path(at), ReadOptions::new()).unwrap_err();
            assert_eq!(denied.kind(), error, "{at}");
            assert_eq!(denied.to_string(), read.to_string(), "{at}");
        }
    });
}

/// Bytes, name, a text in it and its replacement, the bytes after.
type Encoded = (
    &'static [u8],
    &'static str,
    &'static str,
    &'static str,
    &'static [u8],
);

#[test]
fn other_encodings_are_read_and_edited_as_they_are() {
    let rows: [Encoded; 4] = [
        (
            b"\xff\xfea\0\r\0\n\0b\0\r\0\n\0",
            "UTF-16LE with BOM",
            "b\n",
            "c\n",
            b"\xff\xfea\0\r\0\n\0c\0\r\0\n\0",
        ),
        (
            b"d\xe9j\xe0 vu \xe0 la fen\xeatre\r\nvoil\xe0\n",
            "windows-1252",
            "déjà",
            "jà",
            b"j\xe0 vu \xe0 la fen\xeatre\r\nvoil\xe0\n",
        ),
        (
            b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd\x90\xa2\x8a\x45",
            "Shift_JIS",
            "世界",
            "世",
            b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd\x90\xa2",
        ),
        (
            b"\xef\xbb\xbfbom\r\nx",
            "UTF-8",
            "x",
            "y",
            b"\xef\xbb\xbfbom\r\ny",
        ),
    ];
    both(|files| {
        for (bytes, encoding, old, new, after) in &rows {
            let at = path("/data/e.txt");
            files.write_bytes(&at, bytes, WriteOptions::new()).unwrap();
            let text = files.read(&at, ReadOptions::new()).expect(encoding);
            assert_eq!(text.encoding.to_string(), *encoding);
            let edited = files.edit(&at, &[Replacement::new(*old, *new)], EditOptions::new());
            assert_eq!(edited.expect(encoding).encoding.to_string(), *encoding);
            assert_eq!(files.read_bytes(&at, 1000).unwrap(), *after, "{encoding}");
        }
        // UTF-8 but for its last byte: that stays, and so does everything else.
        let stray = "名前は日本語、これはテストです\u{fe}".as_bytes();
        let (stray, old, new) = (&stray[..stray.len() - 1], "日本語", "英語");
        let at = path("/data/s.txt");
        files.write_bytes(&at, stray, WriteOptions::new()).unwrap();
        files
            .edit(&at, &[Replacement::new(old, new)], EditOptions::new())
            .unwrap();
        let after = files.read_bytes(&at, 1000).unwrap();
        let (stray_end, after_end) = (&stray[stray.len() - 20..], &after[after.len() - 20..]);
        assert_eq!(stray_end, after_end);
        assert_eq!(after.len(), stray.len() - 3);
        // A character that the encoding does not have.
        files
            .write_bytes(&at, b"caf\xe9 cr\xe8me", WriteOptions::new())
            .unwrap();
        let denied = files.edit(&at, &[Replacement::new("caf", "日")], EditOptions::new());
        assert_eq!(kind(denied), ErrorKind::NotText);
        assert_eq!(files.read_bytes(&at, 1000).unwrap(), b"caf\xe9 cr\xe8me");
    });
}

#[test]
fn an_edit_is_all_or_nothing() {
    both(|files| {
        let at = path("/data/c.rs");
        put(files, "/data/c.rs", "fn a() {}\r\nfn b() {}\nfn a2() {}\n");
        let edit = |list: &[Replacement], options| files.edit(&at, list, options);
        let one = |old: &str, new: &str| Replacement::new(old, new);
        let now = || text(files, "/data/c.rs");
        let before = now();

        let half = [one("fn b", "fn c"), one("fn zzz", "")];
        assert_eq!(kind(edit(&half, EditOptions::new())), ErrorKind::NoMatch);
        let crossing = [one("a() {}\nfn", "x"), one("fn b", "y")];
        assert_eq!(
            kind(edit(&crossing, EditOptions::new())),
            ErrorKind::InvalidPath
        );
        assert_eq!(kind(edit(&[], EditOptions::new())), ErrorKind::InvalidPath);
        assert_eq!(
            kind(edit(&[one("", "x")], EditOptions::new())),
            ErrorKind::InvalidPath
        );
        assert_eq!(
            kind(edit(&[one("fn a", "x")], EditOptions::new())),
            ErrorKind::NotUnique
        );
        let shown = edit(&[one("fn b", "fn c")], EditOptions::new().preview(true)).unwrap();
        assert_eq!(
            shown.diff,
            "@@ -1,3 +1,3 @@\n fn a() {}\n-fn b() {}\n+fn c() {}\n fn a2() {}\n"
        );
        assert_eq!(now(), before);

        let both_ends = [one("fn a() {}\nfn b", "fn A() {}\nfn B"), one("a2", "A2")];
        let edited = edit(&both_ends, EditOptions::new()).unwrap();
        assert_eq!(edited.replaced, 2);
        assert_eq!(now(), "fn A() {}\r\nfn B() {}\nfn A2() {}\n");
        assert_eq!(edited.hash, files.hash(&at).unwrap());

        edit(&[one("fn", "FN").all(true)], EditOptions::new()).unwrap();
        edit(&[one("FN", "fn").near_line(3)], EditOptions::new()).unwrap();
        assert_eq!(now(), "FN A() {}\r\nFN B() {}\nfn A2() {}\n");
        // By likeness: said so, and only if there is one place.
        let tabs = one("\tFN  B() {}\n", "FN C() {}\n");
        assert_eq!(
            kind(edit(std::slice::from_ref(&tabs), EditOptions::new())),
            ErrorKind::NoMatch
        );
        let fuzzy = edit(&[tabs], EditOptions::new().fuzzy(true)).unwrap();
        assert_eq!(fuzzy.fuzzy_lines, [2]);
        assert_eq!(now(), "FN A() {}\r\nFN C() {}\nfn A2() {}\n");

        assert_eq!(
            kind(files.edit(&path("/data/no"), &[one("a", "b")], EditOptions::new())),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(files.edit(&path("/data/.env"), &[one("a", "b")], EditOptions::new())),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(files.edit(&path("/data/sub"), &[one("a", "b")], EditOptions::new())),
            ErrorKind::NotAFile
        );
    });
}

#[test]
fn an_edit_has_a_limit() {
    both(|files| {
        let at = path("/data/big.txt");
        let big = "x".repeat((8 << 20) + 1);
        put(files, "/data/big.txt", &big);
        let one = [Replacement::new("x", "y")];
        assert_eq!(
            kind(files.edit(&at, &one, EditOptions::new())),
            ErrorKind::TooLarge
        );
    });
}

/// A long text that overlaps itself, and more places than are replaced in one go: an answer in
/// good time, and never a part of the work.
#[test]
fn an_edit_of_very_many_places() {
    both(|files| {
        let at = path("/data/big.txt");
        let text = "a".repeat(1 << 20);
        put(files, "/data/big.txt", &text);
        let edit = |old: &str, all| {
            let one = [Replacement::new(old, "b").all(all).near_line(1)];
            files.edit(&at, &one, EditOptions::new())
        };
        let half = "a".repeat(1 << 19);
        assert_eq!(kind(edit(&half, false)), ErrorKind::NotUnique);
        assert_eq!(kind(edit("a", true)), ErrorKind::NotUnique);
        assert_eq!(files.stat(&at).unwrap().size, 1 << 20);
        assert_eq!(edit(&half, true).unwrap().replaced, 2);
        assert_eq!(self::text(files, "/data/big.txt"), "bb");
    });
}

#[test]
fn names_that_only_look_the_same_are_suggested() {
    both(|files| {
        // What is there, what is asked for.
        for (there, asked) in [
            (
                "Screenshot 5.00.00\u{202f}PM.png",
                "Screenshot 5.00.00 PM.png",
            ),
            ("cafe\u{301}.txt", "café.txt"),
            ("README.MD", "readme.md"),
            ("report.markdown", "report.txt"),
            ("It\u{2019}s.txt", "It's.txt"),
        ] {
            put(files, &format!("/data/names/{there}"), "x");
            let error = files.read(&path(&format!("/data/names/{asked}")), ReadOptions::new());
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let hint = error.hint().unwrap();
            assert!(
                hint.starts_with(&format!("Nearest existing names: /data/names/{there}")),
                "{hint}"
            );
        }
    });
}

#[test]
fn a_child_with_a_new_top() {
    both(|files| {
        let rebased = |r: Restriction| files.restrict(&r).map_err(|e| e.kind());
        let child = rebased(Restriction::new().rebase(path("/data/sub"))).unwrap();
        assert_eq!(text(&child, "/b.md"), "text b");
        assert_eq!(child.readable_roots(), ["/"]);
        assert_eq!(
            kind(child.read(&path("/up"), ReadOptions::new())),
            ErrorKind::Escape
        );
        assert_eq!(kind(child.delete_all(&path("/"))), ErrorKind::ReadOnly);
        // The same path without it keeps its name.
        let kept = rebased(Restriction::new().keep(path("/data/sub"))).unwrap();
        assert_eq!(text(&kept, "/data/sub/b.md"), "text b");
        let ro = rebased(Restriction::new().rebase(path("/data")).read_only(true)).unwrap();
        assert_eq!(
            kind(ro.write(&path("/x"), "", WriteOptions::new())),
            ErrorKind::ReadOnly
        );
        let none = rebased(Restriction::new().keep(path("/ref")).rebase(path("/data")));
        assert_eq!(none.unwrap_err(), ErrorKind::PermissionEscalation);
        let up = child
            .restrict(&Restriction::new().rebase(SandboxPath::root()))
            .unwrap();
        assert_eq!(text(&up, "/b.md"), "text b");
    });
}

#[test]
fn create_dir_says_whether_it_was_there() {
    both(|files| {
        assert!(files.create_dir(&path("/data/n/e/w")).unwrap());
        assert!(!files.create_dir(&path("/data/n/e/w/")).unwrap());
        assert!(!files.create_dir(&path("/data")).unwrap());
        assert_eq!(
            kind(files.create_dir(&path("/data/a.md"))),
            ErrorKind::Exists
        );
        assert_eq!(kind(files.create_dir(&path("/ref/x"))), ErrorKind::ReadOnly);
        assert_eq!(
            kind(files.create_dir(&path("/data/.git/hooks"))),
            ErrorKind::ReadOnly
        );
        assert_eq!(
            kind(files.create_dir(&path("/data/out/x"))),
            ErrorKind::Escape
        );
    });
}
