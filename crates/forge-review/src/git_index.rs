//! git's index without the times and sizes in it. git rewrites the index whenever it looks at a
//! project (`git status`, a prompt), with the same entries.
//!
//! <https://git-scm.com/docs/index-format>

use sha2::{Digest as _, Sha256};

use crate::path::TreePath;

/// The bytes of an entry before its object: times, device, inode, mode, user, group, size.
const STAT_BYTES: usize = 40;
/// The position of the mode in them.
const MODE: std::ops::Range<usize> = 24..28;
/// Lengths of an object's name and of the checksum at the end: SHA-1, SHA-256.
const HASH_BYTES: [usize; 2] = [20, 32];
/// A flag: two more bytes of flags follow (version 3).
const EXTENDED: u16 = 0x4000;

/// Extensions that git makes from the entries and the directory.
const DERIVED: [&[u8; 4]; 5] = [b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT"];

/// Returns `true` for a path at which git may keep an index: below a git directory, its modules and
/// worktrees included.
pub(crate) fn is_possible_at(path: &TreePath) -> bool {
    let names = path.folded_names();
    let is_index = names.last().is_some_and(|name| name == "index");
    is_index && names.iter().any(|name| name == ".git")
}

/// The entries of an index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexEntries {
    pub(crate) count: u32,
    pub(crate) digest: [u8; 32],
}

/// Returns the entries of an index; `None` for anything else, and for an index of which a part is
/// in another file.
pub(crate) fn entries(content: &[u8]) -> Option<IndexEntries> {
    HASH_BYTES.iter().find_map(|bytes| parse(content, *bytes))
}

fn parse(content: &[u8], hash_bytes: usize) -> Option<IndexEntries> {
    let end = content.len().checked_sub(hash_bytes)?;
    let (head, mut rest) = content.get(..end)?.split_at_checked(12)?;
    let (magic, head) = head.split_at(4);
    let (version, count) = (u32_of(&head[..4])?, u32_of(&head[4..])?);
    if magic != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(head);
    for _ in 0..count {
        let entry = rest;
        let (stat, after) = rest.split_at_checked(STAT_BYTES)?;
        let (object, after) = after.split_at_checked(hash_bytes)?;
        let (flags, mut after) = after.split_at_checked(2)?;
        hash.update(stat.get(MODE)?);
        hash.update(object);
        hash.update(flags);
        if u16::from_be_bytes([flags[0], flags[1]]) & EXTENDED != 0 {
            let (more, rest) = after.split_at_checked(2)?;
            hash.update(more);
            after = rest;
        }
        if version == 4 {
            // How many bytes of the last name are cut off, in groups of seven bits.
            let last = after.iter().position(|byte| byte & 0x80 == 0)?;
            let (cut, rest) = after.split_at_checked(last + 1)?;
            hash.update(cut);
            after = rest;
        }
        let length = after.iter().position(|byte| *byte == 0)?;
        hash.update(after.get(..=length)?);
        let used = entry.len() - after.len() + length;
        // Up to version 3 an entry ends with one to eight NULs, at a multiple of eight bytes.
        let used = match version {
            4 => used + 1,
            _ => used / 8 * 8 + 8,
        };
        rest = entry.get(used..)?;
    }
    while !rest.is_empty() {
        let (name, after) = rest.split_at_checked(4)?;
        let (length, after) = after.split_at_checked(4)?;
        let (data, after) = after.split_at_checked(usize::try_from(u32_of(length)?).ok()?)?;
        // One that a reader has to know: entries are elsewhere, or stand for directories.
        if !name[0].is_ascii_uppercase() {
            return None;
        }
        if !DERIVED.iter().any(|derived| derived[..] == *name) {
            hash.update(name);
            hash.update(length);
            hash.update(data);
        }
        rest = after;
    }
    Some(IndexEntries {
        count,
        digest: hash.finalize().into(),
    })
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// A repository with two files, and git in it.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new(format: &str) -> Repository {
            let made = Repository(tempfile::tempdir().unwrap());
            made.git(&["init", "--quiet", &format!("--object-format={format}")]);
            std::fs::write(made.0.path().join("a-file"), "a\n").unwrap();
            std::fs::create_dir(made.0.path().join("dir")).unwrap();
            std::fs::write(made.0.path().join("dir/b"), "b\n").unwrap();
            made.git(&["add", "."]);
            made
        }

        fn git(&self, arguments: &[&str]) {
            let done = Command::new("git")
                .args(arguments)
                .current_dir(self.0.path())
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .output()
                .unwrap();
            assert!(done.status.success(), "{arguments:?}: {done:?}");
        }

        fn index(&self) -> Vec<u8> {
            std::fs::read(self.0.path().join(".git/index")).unwrap()
        }

        /// Gives a file other times, and has git look at it.
        fn refresh(&self) {
            let file = self.0.path().join("a-file");
            let file = std::fs::File::options().write(true).open(file).unwrap();
            let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
            file.set_modified(past).unwrap();
            self.git(&["update-index", "-q", "--refresh"]);
        }
    }

    #[test]
    fn entries_count_and_times_do_not() {
        for format in ["sha1", "sha256"] {
            for version in ["2", "3", "4"] {
                let repository = Repository::new(format);
                repository.git(&["update-index", "--index-version", version]);
                if version == "3" {
                    repository.git(&["add", "--intent-to-add", "."]);
                }
                let first = repository.index();
                let before = entries(&first).unwrap_or_else(|| panic!("{format} {version}"));
                assert_eq!(before.count, 2);
                repository.refresh();
                let second = repository.index();
                assert_ne!(first, second);
                assert_eq!(entries(&second), Some(before), "{format} {version}");
                std::fs::write(repository.0.path().join("dir/b"), "changed\n").unwrap();
                repository.git(&["add", "dir/b"]);
                let third = entries(&repository.index());
                assert_ne!(third, entries(&second), "{format} {version}");
                repository.git(&["update-index", "--chmod=+x", "a-file"]);
                assert_ne!(entries(&repository.index()), third, "{format} {version}");
            }
        }
    }

    #[test]
    fn anything_else_is_no_index() {
        let repository = Repository::new("sha1");
        let whole = repository.index();
        assert!(entries(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(entries(&whole[..length]), None, "cut at {length}");
        }
        assert_eq!(entries(b"ref: refs/heads/main\n"), None);
        repository.git(&["update-index", "--split-index"]);
        assert_eq!(entries(&repository.index()), None);
    }

    #[test]
    fn places() {
        let rows = [
            (".git/index", true),
            ("sub/.git/modules/m/index", true),
            (".git/index.lock", false),
            ("index", false),
        ];
        for (path, want) in rows {
            let path = TreePath::parse(Path::new(path)).unwrap();
            assert_eq!(is_possible_at(&path), want, "{path}");
        }
    }
}
