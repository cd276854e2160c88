//! Tests with trees that are copied in both directions, and with archives that engines never send.
//! The latter write nothing, and no test touches files outside the tree.

use super::apply::{CopyBackReport, Protected, apply};
use super::limits::CopyLimits;
use super::pack::{self, PackError, PackReport};
use super::unpack::{ArchiveError, unpack};
use os_sandbox::mechanism::Pattern;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// A tree, its surroundings, and its packed copy.
struct Place {
    base: tempfile::TempDir,
    packed: PackReport,
    archive: Vec<u8>,
}

impl Place {
    fn new(fill: impl FnOnce(&Path)) -> Place {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("top")).unwrap();
        fs::write(base.path().join("outside"), "kept").unwrap();
        fill(&base.path().join("top"));
        let (packed, archive) = packed(&base.path().join("top"), &CopyLimits::default()).unwrap();
        Place {
            base,
            packed,
            archive,
        }
    }

    fn top(&self) -> PathBuf {
        self.base.path().join("top")
    }

    fn back(&self, archive: &[u8]) -> Result<CopyBackReport, ArchiveError> {
        self.back_within(archive, &CopyLimits::default())
    }

    fn back_within(
        &self,
        archive: &[u8],
        limits: &CopyLimits,
    ) -> Result<CopyBackReport, ArchiveError> {
        let store = tempfile::tempfile().unwrap();
        let unpacked = unpack(archive, &self.packed.manifest, limits, store)?;
        let top = File::open(self.top()).unwrap();
        let protected = [".git/hooks", "*.pem"].map(|text| Pattern::parse(text).unwrap());
        let protected = Protected::new(&protected);
        Ok(apply(
            top.as_fd(),
            &self.packed.manifest,
            unpacked,
            &protected,
        ))
    }

    /// Returns everything beside the tree.
    fn outside(&self) -> Vec<String> {
        let list = fs::read_dir(self.base.path()).unwrap();
        let names = list.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.push(fs::read_to_string(self.base.path().join("outside")).unwrap());
        names
    }
}

fn packed(top: &Path, limits: &CopyLimits) -> Result<(PackReport, Vec<u8>), PackError> {
    let top = File::open(top).unwrap();
    let hidden = [".env", "*.pem"].map(|text| Pattern::parse(text).unwrap());
    pack::pack(
        top.as_fd(),
        Path::new("in/0"),
        &|at, below| pack::is_hidden(&hidden, at, below),
        (7, 8),
        limits,
        Vec::new(),
    )
}

/// A row of a manual archive: kind, name, link, bytes.
type Row<'a> = (EntryType, &'a [u8], &'a [u8], &'a [u8]);

fn archive(rows: &[Row<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, link, bytes) in rows {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1);
        header.set_size(bytes.len() as u64);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

const DIR: EntryType = EntryType::Directory;
const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;
const SAME: EntryType = EntryType::Link;
const ROOT: Row<'_> = (DIR, b"./", b"", b"");

#[test]
fn what_comes_back_unchanged_changes_nothing() {
    let place = Place::new(|top| {
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "text").unwrap();
        fs::write(top.join("a/large"), vec![7; 300_000]).unwrap();
        fs::write(top.join("a/odd \n\"name,:\\"), "").unwrap();
        fs::write(top.join(OsStr::from_bytes(b"no\xfftext")), "x").unwrap();
        let long = "l".repeat(200);
        fs::create_dir(top.join(&long)).unwrap();
        fs::write(top.join(&long).join(&long), "far").unwrap();
        symlink("/nowhere/../else//where/", top.join("link")).unwrap();
        symlink(&long, top.join("long-link")).unwrap();
        fs::write(top.join(".env"), "secret").unwrap();
        nix::unistd::mkfifo(&top.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::hard_link(top.join("a/file"), top.join("a/other")).unwrap();
    });
    assert_eq!(place.packed.left_out, [PathBuf::from("fifo")]);
    let text = String::from_utf8_lossy(&place.archive);
    assert!(!text.contains("secret") && !text.contains(".env"));
    let before = fs::metadata(place.top().join("a/file")).unwrap();
    let back = place.back(&place.archive).unwrap();
    assert_eq!(back, CopyBackReport::default());
    let after = fs::metadata(place.top().join("a/file")).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
    // The archive has the files byte for byte, with the requested owner.
    let mut archive = tar::Archive::new(place.archive.as_slice());
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            (entry.header().uid().unwrap(), entry.header().gid().unwrap()),
            (7, 8)
        );
        let path = entry.path().unwrap().into_owned();
        let path = path.strip_prefix("in/0").unwrap().to_owned();
        if let Some(to) = entry.link_name_bytes() {
            let here = fs::read_link(place.top().join(&path)).unwrap();
            assert_eq!(here.as_os_str().as_bytes(), &*to, "{path:?}");
        }
        assert!(
            place.top().join(&path).symlink_metadata().is_ok(),
            "{path:?}"
        );
    }
}

#[test]
fn what_was_changed_there_is_changed_here() {
    let place = Place::new(|top| {
        fs::create_dir_all(top.join("gone/deep")).unwrap();
        fs::write(top.join("gone/deep/file"), "").unwrap();
        fs::write(top.join("same"), "same").unwrap();
        fs::write(top.join("other"), "before").unwrap();
        fs::write(top.join("to-directory"), "").unwrap();
        fs::create_dir(top.join("to-file")).unwrap();
        fs::write(top.join("to-file/inner"), "").unwrap();
        symlink("a", top.join("link")).unwrap();
        fs::write(top.join("mode"), "mode").unwrap();
        fs::set_permissions(top.join("mode"), Permissions::from_mode(0o600)).unwrap();
    });
    let long = vec![b'x'; 200_000];
    let sent = archive(&[
        ROOT,
        (FILE, b"./same", b"", b"same"),
        (FILE, b"./other", b"", b"after"),
        (DIR, b"./to-directory", b"", b""),
        (FILE, b"./to-directory/inner", b"", b"1"),
        (FILE, b"./to-file", b"", b"2"),
        (LINK, b"./link", b"../../etc/passwd", b""),
        (FILE, b"./mode", b"", b"mode"),
        (FILE, b"./long", b"", &long),
        (SAME, b"./again", b"./long", b""),
        (SAME, b"./same-again", b"./same", b""),
    ]);
    let back = place.back(&sent).unwrap();
    assert!(back.is_whole(), "{back:?}");
    let read = |name: &str| fs::read(place.top().join(name)).unwrap();
    assert_eq!(read("other"), b"after");
    assert_eq!(read("to-directory/inner"), b"1");
    assert_eq!(read("to-file"), b"2");
    assert_eq!((read("long"), read("again")), (long.clone(), long.clone()));
    assert_eq!(read("same-again"), b"same");
    assert_eq!(
        fs::read_link(place.top().join("link")).unwrap(),
        Path::new("../../etc/passwd")
    );
    let mode = |name: &str| fs::metadata(place.top().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("mode"), mode("other")), (0o644, 0o644));
    assert!(!place.top().join("gone").exists());
    assert_eq!(back.removed.len(), 4, "{:?}", back.removed);
    let wrote: Vec<_> = back
        .written
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert!(!wrote.contains(&"same"), "{wrote:?}");
    let left = fs::read_dir(place.top()).unwrap();
    let strange = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.as_bytes().starts_with(b".os-sandbox")
    });
    assert_eq!(strange.count(), 0);
}

#[test]
fn what_was_changed_here_stays() {
    let place = Place::new(|top| {
        fs::create_dir(top.join("dir")).unwrap();
        for name in ["both", "here", "removed-here", "removed-there", "dir/file"] {
            fs::write(top.join(name), "before").unwrap();
        }
    });
    for (name, text) in [
        ("both", "mine"),
        ("here", "mine"),
        ("removed-there", "mine"),
        ("new", "mine"),
        ("dir/new", ""),
    ] {
        fs::write(place.top().join(name), text).unwrap();
    }
    fs::remove_file(place.top().join("removed-here")).unwrap();
    let sent = archive(&[
        ROOT,
        (FILE, b"./both", b"", b"theirs"),
        (FILE, b"./here", b"", b"before"),
        (FILE, b"./removed-here", b"", b"theirs"),
        (FILE, b"./new", b"", b"theirs"),
    ]);
    let back = place.back(&sent).unwrap();
    let mut conflicts: Vec<_> = back
        .conflicts
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    conflicts.sort_unstable();
    assert_eq!(
        conflicts,
        ["both", "dir", "new", "removed-here", "removed-there"]
    );
    for name in ["both", "here", "removed-there", "new"] {
        assert_eq!(fs::read(place.top().join(name)).unwrap(), b"mine", "{name}");
    }
    assert!(!place.top().join("dir/file").exists() && place.top().join("dir/new").exists());
}

#[test]
fn what_is_protected_stays() {
    let place = Place::new(|top| {
        fs::create_dir_all(top.join(".git/hooks")).unwrap();
        fs::write(top.join(".git/hooks/old"), "before").unwrap();
    });
    let sent = archive(&[
        ROOT,
        (DIR, b"./.git", b"", b""),
        (DIR, b"./.git/hooks", b"", b""),
        (FILE, b"./.git/hooks/pre-commit", b"", b"evil"),
    ]);
    let back = place.back(&sent).unwrap();
    assert_eq!(
        fs::read_dir(place.top().join(".git/hooks"))
            .unwrap()
            .count(),
        1
    );
    let refused: Vec<_> = back
        .refused
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert!(refused.contains(&".git/hooks/old") && refused.contains(&".git/hooks/pre-commit"));
}

#[test]
fn a_private_key_does_not_go_out_and_a_certificate_does() {
    let place = Place::new(|top| {
        fs::write(top.join("key.pem"), "-----BEGIN PRIVATE KEY-----").unwrap();
        fs::write(top.join("cert.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
        fs::create_dir(top.join("dir.pem")).unwrap();
    });
    let sent: Vec<_> = place.packed.manifest.keys().cloned().collect();
    assert_eq!(sent, [PathBuf::from("cert.pem")]);
    let archive = archive(&[
        ROOT,
        (FILE, b"./key.pem", b"", b"other"),
        (FILE, b"./dir.pem", b"", b"other"),
        (FILE, b"./cert.pem", b"", b"other"),
        (FILE, b"./new.pem", b"", b"-----BEGIN PRIVATE KEY-----"),
    ]);
    let back = place.back(&archive).unwrap();
    assert_eq!(back.refused, ["dir.pem", "key.pem"].map(PathBuf::from));
    let read = |name: &str| fs::read_to_string(place.top().join(name)).unwrap();
    assert!(read("key.pem").contains("PRIVATE"));
    assert_eq!(read("cert.pem"), "other");
    assert!(read("new.pem").contains("PRIVATE"));
}

#[test]
fn what_leads_to_what_is_protected_stays_a_directory() {
    let place = Place::new(|top| fs::create_dir(top.join(".git")).unwrap());
    for row in [
        (LINK, &b"./.git"[..], &b"evil"[..], &b""[..]),
        (FILE, b"./.git", b"", b"gitdir: evil"),
    ] {
        let sent = archive(&[ROOT, (DIR, b"./evil", b"", b""), row]);
        let back = place.back(&sent).unwrap();
        assert_eq!(back.refused, [PathBuf::from(".git")]);
        assert!(
            place
                .top()
                .join(".git")
                .symlink_metadata()
                .unwrap()
                .is_dir()
        );
    }
    // A protected name that did not exist before is not written either.
    fs::remove_dir(place.top().join(".git")).unwrap();
    let sent = archive(&[
        ROOT,
        (DIR, b"./sub", b"", b""),
        (LINK, b"./sub/.git", b"../evil", b""),
    ]);
    let back = place.back(&sent).unwrap();
    assert_eq!(back.refused, [PathBuf::from("sub/.git")]);
}

#[test]
fn what_no_engine_sends_changes_nothing() {
    let long = vec![b'a'; 5000];
    let rows: &[(&str, &[Row<'_>])] = &[
        ("upwards", &[ROOT, (FILE, b"./../outside", b"", b"evil")]),
        (
            "upwards, deep",
            &[
                ROOT,
                (DIR, b"./a", b"", b""),
                (FILE, b"./a/../../outside", b"", b"evil"),
            ],
        ),
        ("absolute", &[ROOT, (FILE, b"/tmp/evil", b"", b"evil")]),
        ("no root", &[(FILE, b"./file", b"", b"evil")]),
        (
            "another root",
            &[(DIR, b"a/", b"", b""), (FILE, b"b/file", b"", b"evil")],
        ),
        ("the root again", &[ROOT, (LINK, b"./", b"/tmp", b"")]),
        (
            "through a link",
            &[
                ROOT,
                (LINK, b"./l", b"..", b""),
                (FILE, b"./l/outside", b"", b"evil"),
            ],
        ),
        (
            "through a file",
            &[
                ROOT,
                (FILE, b"./f", b"", b""),
                (FILE, b"./f/x", b"", b"evil"),
            ],
        ),
        ("no parent", &[ROOT, (FILE, b"./none/x", b"", b"evil")]),
        (
            "twice",
            &[ROOT, (LINK, b"./l", b"..", b""), (DIR, b"./l", b"", b"")],
        ),
        (
            "a name of what is outside",
            &[ROOT, (SAME, b"./x", b"../outside", b"")],
        ),
        (
            "an absolute name",
            &[ROOT, (SAME, b"./x", b"/etc/passwd", b"")],
        ),
        (
            "a name of a link",
            &[
                ROOT,
                (LINK, b"./l", b"../outside", b""),
                (SAME, b"./x", b"./l", b""),
            ],
        ),
        ("a name of nothing", &[ROOT, (SAME, b"./x", b"./none", b"")]),
        ("a link to nowhere", &[ROOT, (LINK, b"./x", b"", b"")]),
        (
            "holes",
            &[ROOT, (EntryType::GNUSparse, b"./x", b"", b"evil")],
        ),
        (
            "holes in another way",
            &[
                ROOT,
                (EntryType::XHeader, b"p", b"", b"22 GNU.sparse.major=1\n"),
                (FILE, b"./x", b"", b""),
            ],
        ),
        (
            "another size",
            &[
                ROOT,
                (EntryType::XHeader, b"p", b"", b"17 size=99999999\n"),
                (FILE, b"./x", b"", b""),
            ],
        ),
        (
            "settings for all",
            &[ROOT, (EntryType::XGlobalHeader, b"p", b"", b"")],
        ),
        (
            "a long name upwards",
            &[
                ROOT,
                (EntryType::GNULongName, b"l", b"", b"../outside"),
                (FILE, b"./x", b"", b"evil"),
            ],
        ),
        (
            "an extended name upwards",
            &[
                ROOT,
                (EntryType::XHeader, b"p", b"", b"19 path=../outside\n"),
                (FILE, b"./x", b"", b"evil"),
            ],
        ),
        (
            "a name too long",
            &[
                ROOT,
                (EntryType::GNULongName, b"l", b"", &long),
                (FILE, b"./x", b"", b"evil"),
            ],
        ),
        ("bytes in a directory", &[ROOT, (DIR, b"./x", b"", b"evil")]),
        (
            "an unknown kind",
            &[ROOT, (EntryType::new(b'Z'), b"./x", b"", b"")],
        ),
        ("nothing", &[]),
    ];
    for (name, rows) in rows {
        let place = Place::new(|top| fs::write(top.join("mine"), "mine").unwrap());
        let before = place.outside();
        let refused = place.back(&archive(rows));
        assert!(refused.is_err(), "{name}: {refused:?}");
        assert_eq!(place.outside(), before, "{name}");
        let inside = fs::read_dir(place.top()).unwrap().count();
        assert_eq!(inside, 1, "{name}");
        assert_eq!(
            fs::read(place.top().join("mine")).unwrap(),
            b"mine",
            "{name}"
        );
    }
}

#[test]
fn an_archive_that_was_cut_removes_nothing() {
    let place = Place::new(|top| {
        fs::write(top.join("zeros"), vec![0; 2048]).unwrap();
        fs::write(top.join("mine"), "mine").unwrap();
    });
    let whole = archive(&[ROOT, (FILE, b"./zeros", b"", &[0; 2048])]);
    // Two blocks of zeros mark the end of an archive.
    for cut in [512, 1024, 1536, 2048] {
        let refused = place.back(&whole[..whole.len() - cut]);
        assert!(refused.is_err(), "without the last {cut} bytes");
    }
    assert!(place.top().join("mine").exists());
    assert_eq!(place.back(&whole).unwrap().removed, [PathBuf::from("mine")]);
}

#[test]
fn there_are_bounds_on_both_ways() {
    let place = Place::new(|top| fs::write(top.join("mine"), "mine").unwrap());
    let many: Vec<Vec<u8>> = (0..50).map(|at| format!("./{at}").into_bytes()).collect();
    let rows: Vec<Row<'_>> = std::iter::once(ROOT)
        .chain(
            many.iter()
                .map(|name| (FILE, name.as_slice(), &b""[..], &b"12345678"[..])),
        )
        .collect();
    let sent = archive(&rows);
    for (limits, says) in [
        (CopyLimits::default().entries(49), "more than 49 files"),
        (CopyLimits::default().bytes(399), "more than 1 MiB"),
    ] {
        match place.back_within(&sent, &limits) {
            Err(ArchiveError::TooMuch(why)) => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_dir(place.top()).unwrap().count(), 1);
    }
    let enough = CopyLimits::default().entries(50).bytes(400);
    assert_eq!(place.back_within(&sent, &enough).unwrap().written.len(), 50);
    // The header claims a size that the archive does not have.
    let mut header = Header::new_gnu();
    header.set_entry_type(FILE);
    header.as_old_mut().name[..3].copy_from_slice(b"./x");
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(1 << 60);
    header.set_cksum();
    let mut bomb = archive(&[ROOT])[..512].to_vec();
    bomb.extend_from_slice(header.as_bytes());
    assert!(matches!(place.back(&bomb), Err(ArchiveError::TooMuch(_))));
    header.set_entry_type(EntryType::GNULongName);
    header.set_cksum();
    let mut bomb = archive(&[ROOT])[..512].to_vec();
    bomb.extend_from_slice(header.as_bytes());
    assert!(matches!(place.back(&bomb), Err(ArchiveError::Hostile(_))));
    // The limits also apply to packing.
    for (limits, says) in [
        (CopyLimits::default().entries(3), "more than 3 files"),
        (CopyLimits::default().bytes(10), "more than 1 MiB"),
    ] {
        match packed(&place.top(), &limits) {
            Err(PackError::TooMuch(why)) => assert!(why.contains(says), "{why}"),
            other => panic!("{:?}", other.map(|(packed, _)| packed)),
        }
    }
    let deep: PathBuf = (0..200).map(|_| "d").collect();
    fs::create_dir_all(place.top().join(deep)).unwrap();
    assert!(matches!(
        packed(&place.top(), &CopyLimits::default()),
        Err(PackError::TooMuch(why)) if why.contains("deeper")
    ));
}

#[test]
fn somebody_who_swaps_a_directory_for_a_link_gains_nothing() {
    let place = Place::new(|top| {
        fs::create_dir(top.join("dir")).unwrap();
        fs::write(top.join("dir/outside"), "before").unwrap();
    });
    fs::remove_dir_all(place.top().join("dir")).unwrap();
    symlink("..", place.top().join("dir")).unwrap();
    let sent = archive(&[
        ROOT,
        (DIR, b"./dir", b"", b""),
        (FILE, b"./dir/outside", b"", b"evil"),
        (FILE, b"./dir/new", b"", b"evil"),
    ]);
    let before = place.outside();
    let back = place.back(&sent).unwrap();
    assert_eq!(place.outside(), before);
    assert!(
        back.written.is_empty() && !back.conflicts.is_empty(),
        "{back:?}"
    );
}

fn any_row() -> impl Strategy<Value = (u8, Vec<u8>, Vec<u8>, Vec<u8>)> {
    let kinds = prop::sample::select(vec![
        b'0', b'1', b'2', b'5', b'3', b'6', b'x', b'L', b'K', b'S', b'g',
    ]);
    let name = "(\\./)?(\\.\\./|/|[ab]/){0,3}[abc]?";
    let link = "(/|\\.\\./|\\./)?[abc]{0,2}";
    (kinds, name, link, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(kind, name, link, bytes)| (kind, name.into_bytes(), link.into_bytes(), bytes))
}

proptest! {
    #[test]
    fn whatever_is_sent_nothing_outside_changes(
        rows in prop::collection::vec(any_row(), 0..12),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let place = Place::new(|top| {
            fs::create_dir(top.join("a")).unwrap();
            fs::write(top.join("b"), "b").unwrap();
            symlink("..", top.join("c")).unwrap();
        });
        let before = place.outside();
        let rows: Vec<Row<'_>> = std::iter::once(ROOT)
            .chain(rows.iter().map(|(kind, name, link, bytes)| {
                let bytes = if matches!(kind, b'1' | b'2' | b'5' | b'3' | b'6') { &b""[..] } else { bytes };
                (EntryType::new(*kind), name.as_slice(), link.as_slice(), bytes)
            }))
            .collect();
        let mut sent = archive(&rows);
        for (at, byte) in flips {
            let at = at.index(sent.len());
            sent[at] ^= byte;
        }
        let _whatever = place.back(&sent);
        prop_assert_eq!(place.outside(), before);
    }
}
