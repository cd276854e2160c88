//! Walking, globbing and searching: what is found, what is left out and what an answer says of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use file_sandbox::{
    CancellationToken, ErrorKind, FileSandbox, HardLinks, Limits, Listing, Mode, Mount,
    SearchOptions, SearchResults, TruncationReason, WalkOptions,
};

use crate::again::{self, User};
use crate::scene::{Scene, mount, path};

/// The same files on the host and in memory.
fn each_backend(files: &[(&str, &str)], check: impl Fn(&FileSandbox)) {
    let host = tempfile::tempdir().unwrap();
    let host_mount = mount("/data", host.path(), Mode::ReadWrite);
    let memory = Mount::memory(path("/data"), Mode::ReadWrite);
    for mount in [host_mount, memory] {
        let sandbox = FileSandbox::new(vec![mount]).unwrap();
        for (name, text) in files {
            let name = path(&format!("/data/{name}"));
            sandbox.write(&name, text, Default::default()).unwrap();
        }
        check(&sandbox);
    }
}

fn search(files: &FileSandbox, at: &str, pattern: &str, options: SearchOptions) -> SearchResults {
    files.search(&path(at), pattern, options).expect(pattern)
}

fn shown(found: &SearchResults) -> Vec<String> {
    let line = |hit: &file_sandbox::SearchHit| format!("{}:{}:{}", hit.path, hit.line, hit.text);
    found.hits.iter().map(line).collect()
}

fn names(listing: &Listing) -> Vec<&str> {
    listing
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect()
}

#[test]
fn lines_are_found_by_path_and_number() {
    let files = [
        ("b.txt", "one\ntwo\nthree two\n"),
        ("a/x.md", "two\r\nnone\r\n"),
        ("a-b", "no\nend of two"),
        ("empty", ""),
    ];
    each_backend(&files, |files| {
        let found = search(files, "/data", "two$", SearchOptions::new());
        assert_eq!(
            shown(&found),
            [
                "/data/a-b:2:end of two",
                "/data/a/x.md:1:two",
                "/data/b.txt:2:two",
                "/data/b.txt:3:three two",
            ]
        );
        assert_eq!((found.more, found.files, found.binary), (false, 4, 0));
        assert_eq!(found.hits[3].column, 7);
        let only = SearchOptions::new().files("**/*.md");
        assert_eq!(search(files, "/data", "two", only).hits.len(), 1);
        let one = search(
            files,
            "/data/b.txt",
            "TWO",
            SearchOptions::new().ignore_case(true),
        );
        assert_eq!(one.hits.len(), 2);
        let literal = search(files, "/data", "t.o", SearchOptions::new().literal(true));
        assert!(literal.hits.is_empty() && !literal.more);
    });
}

#[test]
fn a_pattern_that_cannot_be_read_is_told_apart() {
    each_backend(&[], |files| {
        let long = "a".repeat(5_000);
        let huge = "(a{1000}){1000}";
        for pattern in ["(", "[a", "a{2,1}", "\\8", "a\nb", long.as_str(), huge] {
            let error = files.search(&path("/data"), pattern, SearchOptions::new());
            assert_eq!(
                error.unwrap_err().kind(),
                ErrorKind::InvalidPath,
                "{pattern:.20}"
            );
        }
        let error = files
            .search(&path("/data"), "x(", SearchOptions::new())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid regular expression 'x(': unclosed group."
        );
        let error = files
            .glob(&path("/data"), "a[", WalkOptions::new())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid pattern 'a[': '[' is not closed."
        );
    });
}

/// Backtracking would take longer than the universe has.
#[test]
fn no_expression_takes_long() {
    let text = "a".repeat(20_000);
    each_backend(&[("a", text.as_str())], |files| {
        for pattern in ["(a+)+b", "(a|a)*b", "(.*)*x", "^(a?){50}b"] {
            let found = search(files, "/data", pattern, SearchOptions::new());
            assert!(found.hits.is_empty() && found.cut.is_none(), "{pattern}");
        }
    });
}

#[test]
fn ignore_rules_steer_a_search_and_nothing_else() {
    let files = [
        (".gitignore", "*.log\n/target/\n"),
        ("a.rs", "word"),
        ("a.log", "word"),
        ("target/x.rs", "word"),
        ("sub/target/y.rs", "word"),
        ("sub/.gitignore", "!keep.log\n"),
        ("sub/keep.log", "word"),
        ("sub/other.log", "word"),
        (".git/config", "word"),
        (".hidden", "word"),
    ];
    each_backend(&files, |files| {
        let found = search(files, "/data", "word", SearchOptions::new());
        assert_eq!(
            shown(&found),
            [
                "/data/.hidden:1:word",
                "/data/a.rs:1:word",
                "/data/sub/keep.log:1:word",
                "/data/sub/target/y.rs:1:word",
            ]
        );
        assert_eq!(found.ignored.count, 4);
        assert_eq!(
            found.ignored.first,
            [".git/", "a.log", "target/", "sub/other.log"]
        );
        let all = search(
            files,
            "/data",
            "word",
            SearchOptions::new().gitignore(false),
        );
        assert_eq!((all.hits.len(), all.ignored.count), (8, 0));
        // What is asked for by name is searched, whatever the rules say of it.
        for (at, hits) in [("/data/target", 1), ("/data/a.log", 1), ("/data/sub", 2)] {
            let found = search(files, at, "word", SearchOptions::new());
            assert_eq!(found.hits.len(), hits, "{at}");
        }
        // The others do not follow the rules, unless asked.
        let glob = files
            .glob(&path("/data"), "**/*.log", WalkOptions::new())
            .unwrap();
        assert_eq!(names(&glob), ["a.log", "sub/keep.log", "sub/other.log"]);
        let options = WalkOptions::new().gitignore(true);
        let glob = files.glob(&path("/data"), "**/*.log", options).unwrap();
        assert_eq!(names(&glob), ["sub/keep.log"]);
        assert_eq!(glob.ignored.count, 4);
        assert!(files.read(&path("/data/a.log"), Default::default()).is_ok());
    });
}

#[test]
fn a_long_line_is_shown_around_its_match() {
    let long = format!("{}needle{}", "x".repeat(3 << 20), "y".repeat(2 << 20));
    let far = format!("{}\n{long}\nneedle", "short\n".repeat(100_000));
    each_backend(
        &[("min.js", long.as_str()), ("far.txt", far.as_str())],
        |files| {
            let options = SearchOptions::new().max_line_chars(40);
            let found = search(files, "/data", "needle", options);
            let lines: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
            assert_eq!(lines, [100_002, 100_003, 1]);
            for hit in [&found.hits[0], &found.hits[2]] {
                assert!(hit.clipped && hit.text.contains("needle"), "{}", hit.text);
                assert_eq!(hit.text.chars().count(), 40);
                assert_eq!(hit.column, (3 << 20) + 1);
            }
            assert!(found.skipped.is_empty() && !found.more);
        },
    );
}

#[test]
fn a_line_that_is_too_long_is_no_reason_to_be_silent() {
    let long = format!("needle\n{}needle\n", "x".repeat(10 << 20));
    each_backend(&[("a", long.as_str()), ("sub/b", long.as_str())], |files| {
        // The place that is searched, and the names of what is left out.
        let rows: [(&str, &[&str]); 4] = [
            ("/data", &["a", "sub/b"]),
            ("/data/sub", &["b"]),
            ("/data/sub/b", &["b"]),
            ("/data/a", &["a"]),
        ];
        for (path, names) in rows {
            let found = search(files, path, "needle", SearchOptions::new());
            assert_eq!(found.hits.len(), names.len(), "{path}");
            let mut skipped: Vec<&str> = found.skipped.iter().map(|one| &*one.name).collect();
            skipped.sort_unstable();
            assert_eq!(skipped, names, "{path}");
            assert_eq!(found.skipped[0].reason, "a line is too long to be searched");
        }
    });
}

#[test]
fn what_is_no_text_is_counted() {
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name);
    fs::write(at("binary"), b"needle\n\0").unwrap();
    let mut late = b"needle\n".repeat(400_000);
    late.push(0);
    fs::write(at("late"), late).unwrap();
    let wide: Vec<u8> = "\u{feff}one\nneedle ü\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(at("wide"), wide).unwrap();
    fs::write(at("latin"), b"needle \xfc\n").unwrap();
    let files = FileSandbox::new(vec![mount("/data", host.path(), Mode::ReadOnly)]).unwrap();
    let options = SearchOptions::new()
        .max_hits(1_000_000)
        .max_answer_bytes(1 << 30);
    let found = search(&files, "/data", "needle", options);
    assert_eq!(
        shown(&found),
        ["/data/latin:1:needle \u{fffd}", "/data/wide:2:needle ü"]
    );
    assert_eq!((found.binary, found.files), (2, 2));
}

#[test]
fn every_cap_says_so() {
    let files: Vec<(String, String)> = (0..40)
        .map(|i| (format!("d{}/f{i}", i % 4), "word\nword\n".to_owned()))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    each_backend(&files, |files| {
        let at = path("/data");
        let searches = [
            (
                SearchOptions::new().max_hits(5),
                Some(TruncationReason::Entries),
                5,
            ),
            (SearchOptions::new().max_hits(80), None, 80),
            (
                SearchOptions::new().max_answer_bytes(41),
                Some(TruncationReason::Bytes),
                10,
            ),
            (
                SearchOptions::new().max_read_bytes(25),
                Some(TruncationReason::Bytes),
                5,
            ),
            (
                SearchOptions::new().time_limit(Some(Duration::ZERO)),
                Some(TruncationReason::Time),
                0,
            ),
            (SearchOptions::new().max_depth(0), None, 0),
        ];
        for (options, cut, hits) in searches {
            let found = search(files, "/data", "word", options.clone());
            assert_eq!((found.cut, found.hits.len()), (cut, hits), "{options:?}");
            assert_eq!(found.more, cut.is_some());
        }
        let walks = [
            (WalkOptions::new().max_entries(44), None, 44),
            (
                WalkOptions::new().max_entries(43),
                Some(TruncationReason::Entries),
                43,
            ),
            (
                WalkOptions::new().max_names(10),
                Some(TruncationReason::Names),
                10,
            ),
            (
                WalkOptions::new().time_limit(Some(Duration::ZERO)),
                Some(TruncationReason::Time),
                0,
            ),
        ];
        for (options, cut, entries) in walks {
            let found = files.walk(&at, options.clone()).unwrap();
            assert_eq!(
                (found.cut, found.entries.len()),
                (cut, entries),
                "{options:?}"
            );
            assert_eq!(found.more, cut.is_some());
        }
        let shallow = files.walk(&at, WalkOptions::new().max_depth(0)).unwrap();
        assert_eq!((shallow.entries.len(), shallow.skipped.len()), (4, 4));
        assert_eq!(shallow.skipped[0].reason, "too deep");
        let cancel = CancellationToken::new();
        let options = SearchOptions::new().cancel(&cancel);
        assert_eq!(search(files, "/data", "word", options.clone()).cut, None);
        cancel.cancel();
        let found = search(files, "/data", "word", options);
        assert_eq!(
            (found.cut, found.hits.len()),
            (Some(TruncationReason::Cancelled), 0)
        );
    });
}

#[test]
fn nothing_hidden_and_nothing_outside_is_found() {
    for scene in [Scene::new(), Scene::with_nested_root()] {
        let options = || SearchOptions::new().gitignore(false);
        let found = search(&scene.files, "/", "secret|KEY", options());
        assert_eq!(shown(&found), ["/data/tls.key:1:secret key"]);
        let hook = search(&scene.files, "/", "^hook$", options());
        assert_eq!(hook.hits.len(), 1);
        let all = scene.files.walk(&path("/"), WalkOptions::new()).unwrap();
        let bad = ["secret", ".env", "/etc", "x.txt", ".forge-tmp"];
        assert!(
            !names(&all)
                .iter()
                .any(|name| bad.iter().any(|bad| name.contains(bad)))
        );
        // A link that was asked for itself is followed.
        let link = search(&scene.files, "/data/in_rel", "text", options());
        assert_eq!(shown(&link), ["/data/in_rel:1:text b"]);
    }
}

#[test]
fn what_may_not_be_read_is_not_searched() {
    let host = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.exe", "big.md", "linked.md"] {
        let text = if name == "big.md" {
            "word word word"
        } else {
            "word"
        };
        fs::write(host.path().join(name), text).unwrap();
    }
    let outside = tempfile::tempdir_in(host.path().parent().unwrap()).unwrap();
    fs::hard_link(host.path().join("linked.md"), outside.path().join("other")).unwrap();
    let limits = Limits::new()
        .suffixes([".md"])
        .max_file_bytes(10)
        .hard_links(HardLinks::Deny);
    let mount = mount("/data", host.path(), Mode::ReadOnly).with_limits(limits);
    let files = FileSandbox::new(vec![mount]).unwrap();
    let found = search(&files, "/data", "word", SearchOptions::new());
    assert_eq!(shown(&found), ["/data/a.md:1:word"]);
    assert_eq!(found.not_allowed, 2);
    assert_eq!(
        (found.skipped[0].name.as_str(), found.skipped.len()),
        ("big.md", 1)
    );
}

#[test]
fn a_closed_directory_is_told_and_the_rest_is_searched() {
    const TEST: &str = "search::a_closed_directory_is_told_and_the_rest_is_searched";
    let Some(_) = again::entered() else {
        let (cells, _) = again::cells();
        for cell in cells.into_iter().filter(|cell| cell.user == User::Ordinary) {
            again::run(TEST, cell);
        }
        return;
    };
    let host = tempfile::tempdir().unwrap();
    for name in ["closed", "open"] {
        fs::create_dir(host.path().join(name)).unwrap();
        fs::write(host.path().join(name).join("f"), "word").unwrap();
    }
    fs::write(host.path().join("unreadable"), "word").unwrap();
    let shut = |name: &str, mode| {
        fs::set_permissions(host.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    shut("closed", 0o000);
    shut("unreadable", 0o000);
    let files = FileSandbox::new(vec![mount("/data", host.path(), Mode::ReadOnly)]).unwrap();
    let found = search(&files, "/data", "word", SearchOptions::new());
    let all = files.walk(&path("/data"), WalkOptions::new()).unwrap();
    shut("closed", 0o700);
    assert_eq!(shown(&found), ["/data/open/f:1:word"]);
    let skipped = |skipped: &[file_sandbox::SkippedEntry]| -> Vec<String> {
        skipped
            .iter()
            .map(|s| format!("{}: {}", s.name, s.reason))
            .collect()
    };
    assert_eq!(
        skipped(&found.skipped),
        ["unreadable: permission denied", "closed: permission denied"]
    );
    assert_eq!(skipped(&all.skipped), ["closed: permission denied"]);
    assert_eq!(names(&all), ["closed", "open", "open/f", "unreadable"]);
}
