//! Nothing is lost on the way: long lists and long files part by part, additions in the form of
//! the file, locks of others.

use std::collections::BTreeSet;
use std::fs;

use file_sandbox::{
    AppendOptions, CancellationToken, ContentHash, DeleteOptions, ErrorKind, FileSandbox,
    ListKinds, ListOptions, Mode, Mount, MoveOptions, ReadOptions, Replacement, SandboxPath,
    WriteOptions,
};
use proptest::prelude::*;

fn on_host() -> (tempfile::TempDir, FileSandbox) {
    let host = tempfile::tempdir().unwrap();
    let target = SandboxPath::parse("/data").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority).unwrap();
    (host, FileSandbox::new(vec![mount]).unwrap())
}

fn in_memory() -> FileSandbox {
    let mount = Mount::memory(SandboxPath::parse("/data").unwrap(), Mode::ReadWrite);
    FileSandbox::new(vec![mount]).unwrap()
}

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).unwrap()
}

/// All pages of a list, one behind the other.
fn pages(files: &FileSandbox, options: &ListOptions) -> Vec<String> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let options = match after {
            Some(after) => options.clone().after(after),
            None => options.clone(),
        };
        let page = files.list(&path("/data"), options).unwrap();
        assert_eq!(page.next.is_some(), page.more, "{:?}", page.cut);
        all.extend(page.entries.into_iter().map(|entry| entry.name));
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

#[test]
fn a_directory_of_100_000_names_is_listed_whole() {
    let (host, files) = on_host();
    let names: BTreeSet<String> = (0..100_000).map(|n| format!("{n}.txt")).collect();
    for name in &names {
        fs::File::create(host.path().join(name)).unwrap();
    }
    let every = names.iter().cloned().collect::<Vec<_>>();
    let options = ListOptions::new().max_entries(30_000);
    assert_eq!(pages(&files, &options), every);
    assert_eq!(pages(&files, &options.pattern("**/*.txt")), every);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Pages of any size come to the same list, in the same order.
    #[test]
    fn pages_make_up_the_list(
        names in prop::collection::btree_set("[ab]{1,2}(/[ab-]{1,2}){0,3}", 1..40),
        size in 1_usize..8,
        pattern in prop::option::of(prop::sample::select(vec!["**", "*", "a*/**", "**/b"])),
        kinds in prop::sample::select(vec![ListKinds::Files, ListKinds::Directories, ListKinds::Any]),
    ) {
        let files = in_memory();
        for name in &names {
            // A name may be a directory of another one.
            let _ = files.write(&path(&format!("/data/{name}")), "", WriteOptions::new());
        }
        let mut options = ListOptions::new().kinds(kinds);
        if let Some(pattern) = pattern {
            options = options.pattern(pattern);
        }
        let whole = files.list(&path("/data"), options.clone().max_entries(10_000)).unwrap();
        prop_assert!(!whole.more);
        let whole: Vec<String> = whole.entries.into_iter().map(|entry| entry.name).collect();
        prop_assert!(whole.is_sorted());
        prop_assert_eq!(pages(&files, &options.max_entries(size)), whole);
    }

    /// Parts of any size come to the same text, with the byte and without it.
    #[test]
    fn parts_make_up_the_text(
        line in "[aé漢🎉\n]{1,40}",
        times in 1_usize..6_000,
        part in 1_000_u64..60_000,
        tells in any::<bool>(),
    ) {
        let files = in_memory();
        let text = line.repeat(times);
        files.write(&path("/data/a"), &text, WriteOptions::new()).unwrap();
        let (mut all, mut options) = (String::new(), ReadOptions::new().max_chars(part));
        loop {
            let read = files.read(&path("/data/a"), options.clone()).unwrap();
            prop_assert_eq!(read.offset, all.chars().count() as u64);
            all.push_str(&read.content);
            let Some(next) = read.next_offset() else { break };
            options = options.offset(next);
            if tells {
                prop_assert_eq!(read.next_byte, Some(all.len() as u64));
                options = options.at_byte(all.len() as u64);
            }
        }
        prop_assert_eq!(all, text);
    }
}

#[test]
fn a_byte_that_can_be_no_place_is_not_believed() {
    let files = in_memory();
    files
        .write(&path("/data/a"), "ééé", WriteOptions::new())
        .unwrap();
    let wide = b"\xff\xfea\0b\0c\0";
    files
        .write_bytes(&path("/data/wide"), wide, WriteOptions::new())
        .unwrap();
    for (name, byte, expected) in [
        ("a", 2, "éé"),
        ("a", 3, "éé"),
        ("a", 900, "éé"),
        ("wide", 4, "bc"),
    ] {
        let options = ReadOptions::new().offset(1).at_byte(byte);
        let read = files
            .read(&path(&format!("/data/{name}")), options)
            .unwrap();
        assert_eq!(read.content, expected, "{name} {byte}");
    }
}

/// Encodings, as bytes of a text with a letter that is not ASCII.
fn encoded(name: &str, text: &str) -> Vec<u8> {
    match name {
        "UTF-8" => text.as_bytes().to_vec(),
        "UTF-8 with BOM" => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        "UTF-16LE" => [0xfeff]
            .into_iter()
            .chain(text.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect(),
        "UTF-16BE" => [0xfeff]
            .into_iter()
            .chain(text.encode_utf16())
            .flat_map(u16::to_be_bytes)
            .collect(),
        "windows-1252" => text
            .chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn an_addition_has_the_form_of_the_file() {
    let files = in_memory();
    let at = path("/data/a.txt");
    for name in [
        "UTF-8",
        "UTF-8 with BOM",
        "UTF-16LE",
        "UTF-16BE",
        "windows-1252",
    ] {
        for ending in ["\n", "\r\n"] {
            for last in ["", ending] {
                let before = format!("déjà vu à la fenêtre{ending}été{last}");
                for added in ["plain\n", "é\nû\n", "é\r\nû", "no line"] {
                    let bytes = encoded(name, &before);
                    files.write_bytes(&at, &bytes, WriteOptions::new()).unwrap();
                    let fitted = added.replace("\r\n", "\n").replace('\n', ending);
                    let about = format!("{name} {before:?} {added:?}");

                    let preview = AppendOptions::new().preview(true);
                    let shown = files.append_text(&at, added, preview).unwrap();
                    assert_eq!(files.read_bytes(&at, 1_000).unwrap(), bytes, "{about}");
                    let done = files.append_text(&at, added, AppendOptions::new()).unwrap();
                    assert_eq!((&shown, done.added.as_str()), (&done, &*fitted), "{about}");
                    let expected = encoded(name, &format!("{before}{fitted}"));
                    assert_eq!(files.read_bytes(&at, 1_000).unwrap(), expected, "{about}");
                    assert_eq!(done.bytes, expected.len() as u64, "{about}");
                }
            }
        }
    }
}

#[test]
fn an_addition_that_does_not_fit_is_refused() {
    let files = in_memory();
    let at = path("/data/a.txt");
    let mostly = "ééééé and one \u{fffd} more".replace('\u{fffd}', "");
    let stray = [mostly.as_bytes(), b"\xff"].concat();
    let large = |text: &str| [text.as_bytes(), b"line\r\n"].concat().repeat(1_000_000);
    type Outcome<'a> = Result<&'a [u8], ErrorKind>;
    let rows: [(&str, Vec<u8>, &str, Outcome<'_>); 10] = [
        ("no file", Vec::new(), "é\n", Ok("é\n".as_bytes())),
        ("one line", b"x".to_vec(), "a\r\nb", Ok(b"a\r\nb")),
        (
            "no letter for it",
            encoded("windows-1252", "déjà vu à la fenêtre"),
            "漢",
            Err(ErrorKind::NotText),
        ),
        (
            "no text",
            b"\0\x01\x02".to_vec(),
            "x",
            Err(ErrorKind::NotText),
        ),
        (
            "half a unit",
            b"\xff\xfea".to_vec(),
            "x",
            Err(ErrorKind::NotText),
        ),
        ("UTF-8 but for a byte", stray, "é", Ok("é".as_bytes())),
        ("large, ASCII", large(""), "a\nb", Ok(b"a\r\nb")),
        ("large, UTF-8", large("é"), "é\n", Ok("é\r\n".as_bytes())),
        (
            "large, something else",
            [large(""), b"\xe9".to_vec(), large("")].concat(),
            "é",
            Err(ErrorKind::TooLarge),
        ),
        (
            "large, no text",
            [vec![0], large("")].concat(),
            "x",
            Err(ErrorKind::NotText),
        ),
    ];
    for (name, before, added, expected) in rows {
        files
            .write_bytes(&at, &before, WriteOptions::new())
            .unwrap();
        let done = files.append_text(&at, added, AppendOptions::new());
        let now = files.read_bytes(&at, u64::MAX).unwrap();
        match expected {
            Ok(added) => {
                assert!(done.is_ok(), "{name}: {done:?}");
                assert!(now == [before, added.to_vec()].concat(), "{name}");
            }
            Err(kind) => {
                assert_eq!(done.map(drop).unwrap_err().kind(), kind, "{name}");
                assert!(now == before, "{name}");
            }
        }
    }
}

#[test]
fn a_slash_at_the_end_means_a_directory() {
    let (_host, files) = on_host();
    files
        .write(&path("/data/a.md"), "x", WriteOptions::new())
        .unwrap();
    let slash = path("/data/a.md/");
    let kinds = [
        files.read(&slash, ReadOptions::new()).map(drop),
        files.read_bytes(&slash, 10).map(drop),
        files.open(&slash).map(drop),
        files.hash(&slash).map(drop),
        files.stat(&slash).map(drop),
        files.created(&slash).map(drop),
        files.list(&slash, ListOptions::new()).map(drop),
        files.write(&slash, "y", WriteOptions::new()).map(drop),
        files.append(&slash, b"y").map(drop),
        files
            .edit(&slash, &[Replacement::new("x", "y")], Default::default())
            .map(drop),
        files
            .copy(&slash, &path("/data/b.md"), MoveOptions::new())
            .map(drop),
        files
            .copy(
                &path("/data/a.md"),
                &path("/data/b.md/"),
                MoveOptions::new(),
            )
            .map(drop),
        files
            .rename(&slash, &path("/data/b.md"), MoveOptions::new())
            .map(drop),
        files.delete(&slash),
    ];
    for (row, done) in kinds.into_iter().enumerate() {
        let kind = done.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::NotAFile), "row {row}");
    }
    assert!(!files.exists(&slash).unwrap());
    assert_eq!(
        files
            .read(&path("/data/a.md"), ReadOptions::new())
            .unwrap()
            .content,
        "x"
    );
    assert!(files.list(&path("/data/"), ListOptions::new()).is_ok());
}

/// Whoever has locked a file is waited for, as long as somebody waits for us.
#[test]
fn a_lock_of_another_program_is_waited_for() {
    let (host, files) = on_host();
    let at = path("/data/a.md");
    files.write(&at, "one", WriteOptions::new()).unwrap();
    let other = fs::File::open(host.path().join("a.md")).unwrap();
    other.lock().unwrap();
    let cancel = CancellationToken::new();
    let call = files.with_cancel(&cancel);
    std::thread::scope(|scope| {
        let edit = || call.edit(&at, &[Replacement::new("one", "two")], Default::default());
        let waiting = scope.spawn(edit);
        // Another file is nobody's business.
        let second = path("/data/b.md");
        files.write(&second, "x", WriteOptions::new()).unwrap();
        files.append(&second, b"y").unwrap();
        cancel.cancel();
        let stopped = waiting.join().unwrap().unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| files.delete(&at));
        other.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(!host.path().join("a.md").exists());
}

#[test]
fn what_is_done_is_done_to_what_was_seen() {
    let (_host, files) = on_host();
    let (at, to) = (path("/data/a.md"), path("/data/b.md"));
    files.write(&at, "one", WriteOptions::new()).unwrap();
    files.write(&to, "other", WriteOptions::new()).unwrap();
    let (right, wrong) = (ContentHash::of(b"one"), ContentHash::of(b"two"));
    let over = MoveOptions::new().overwrite(true);
    let refused = [
        files
            .append_text(&at, "x", AppendOptions::new().if_match(wrong))
            .map(drop),
        files
            .append_text(&path("/data/c"), "x", AppendOptions::new().if_match(wrong))
            .map(drop),
        files.delete_with(&at, DeleteOptions::new().if_match(wrong)),
        files.copy(&at, &to, over.clone().if_match(wrong)).map(drop),
        files
            .copy(&at, &to, over.clone().if_target_match(wrong))
            .map(drop),
        files
            .rename(&at, &to, over.clone().if_match(wrong))
            .map(drop),
        files
            .rename(&at, &to, over.clone().if_target_match(wrong))
            .map(drop),
    ];
    for (row, done) in refused.into_iter().enumerate() {
        let kind = done.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Stale), "row {row}");
    }
    let target = ContentHash::of(b"other");
    let both = over.if_match(right).if_target_match(target);
    files.copy(&at, &to, both).unwrap();
    files
        .append_text(&at, "!", AppendOptions::new().if_match(right))
        .unwrap();
    let now = ContentHash::of(b"one!");
    files
        .rename(&at, &path("/data/c.md"), MoveOptions::new().if_match(now))
        .unwrap();
    files
        .delete_with(&path("/data/c.md"), DeleteOptions::new().if_match(now))
        .unwrap();
    assert_eq!(
        files
            .list(&path("/data"), ListOptions::new())
            .unwrap()
            .entries
            .len(),
        1
    );
}
