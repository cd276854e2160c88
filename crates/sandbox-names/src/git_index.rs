//! Tells whether git tracks a file with exactly its present content, by the index of the repository.
//! Every reader of the repository can read such a content from the object store.
//!
//! The index can be hostile, because commands can write it. A program that writes a matching entry
//! already knows the hash of the content. An index has one entry per path, and entries out of order
//! are refused, so each index tests one guess. A modified file, or one that a filter decrypts, does
//! not match.
//!
//! <https://git-scm.com/docs/index-format>

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The largest index that is read. With a larger one, nothing counts as tracked.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;

/// A split index has entries without a path, and extensions that git must understand.
const OTHER_FORM: &str = "it is split, sparse, or has another extension that is not known";

/// Bytes of an entry before its id.
const STAT_BYTES: usize = 40;
/// Offset of the mode in these bytes.
const MODE_AT: usize = 24;

/// The wanted paths of an index. Regular files have the object ids of their contents.
///
/// ```
/// use sandbox_names::git_index::TrackedFiles;
/// let empty = [b"DIRC".as_slice(), &[0, 0, 0, 2, 0, 0, 0, 0], &[0; 20]].concat();
/// let tracked = TrackedFiles::read(&empty, &|_| true).unwrap();
/// assert!(!tracked.has(b".env", b"A=1\n") && !tracked.lists(b".env"));
/// assert!(TrackedFiles::read(b"DIRC", &|_| true).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackedFiles {
    /// By path; of a file in a conflict several. `None`: not a regular file with one content.
    entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl TrackedFiles {
    /// Reads an index, in both of git's hashes.
    ///
    /// # Errors
    /// The reason why it is not read: a form that this does not know (a split or a sparse index),
    /// or bytes that git does not write.
    pub fn read(
        index: &[u8],
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<TrackedFiles, &'static str> {
        let read = |id_bytes| IndexReader { rest: index }.index(id_bytes, is_wanted);
        read(20).or_else(|why| read(32).map_err(|_| why))
    }

    /// Returns `true` if the file at the path, from the top of the repository, is tracked with
    /// this content.
    #[must_use]
    pub fn has(&self, path: &[u8], content: &[u8]) -> bool {
        let found = self
            .entries
            .binary_search_by(|(name, _)| (**name).cmp(path));
        let id = found.ok().and_then(|at| self.entries[at].1.as_ref());
        id.is_some_and(|id| is_id_of(id, content))
    }

    /// Returns the wanted paths of the index, in order.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|(name, _)| name.as_slice())
    }

    /// Returns `true` if the index has the path at all: as a file with whatever content, as a link, as
    /// an intent to add, or in a conflict.
    #[must_use]
    pub fn lists(&self, path: &[u8]) -> bool {
        let found = (self.entries).binary_search_by(|(name, _)| (**name).cmp(path));
        found.is_ok()
    }
}

fn is_id_of(id: &[u8], content: &[u8]) -> bool {
    let header = format!("blob {}\0", content.len());
    match id.len() {
        20 => {
            Sha1::new_with_prefix(header)
                .chain_update(content)
                .finalize()[..]
                == *id
        }
        _ => {
            Sha256::new_with_prefix(header)
                .chain_update(content)
                .finalize()[..]
                == *id
        }
    }
}

/// One entry of an index.
struct IndexEntry<'b> {
    name: Vec<u8>,
    stage: u16,
    id: &'b [u8],
    /// A regular file at stage 0, without `intent-to-add`.
    is_tracked_file: bool,
}

/// The unread rest of an index.
struct IndexReader<'b> {
    rest: &'b [u8],
}

impl<'b> IndexReader<'b> {
    fn index(
        mut self,
        id_bytes: usize,
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<TrackedFiles, &'static str> {
        if self.bytes(4)? != b"DIRC" {
            return Err("it is not an index");
        }
        let version = self.number()?;
        if !(2..=4).contains(&version) {
            return Err("its version is not known");
        }
        let mut tracked = TrackedFiles::default();
        let mut last: Option<(Vec<u8>, u16)> = None;
        for _ in 0..self.number()? {
            let before = last.as_ref().map_or(&[][..], |(name, _)| name);
            let entry = self.entry(version, id_bytes, before)?;
            let key = (entry.name, entry.stage);
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err("its entries are out of order");
            }
            if is_wanted(&key.0) {
                let id = entry.is_tracked_file.then(|| entry.id.to_owned());
                tracked.entries.push((key.0.clone(), id));
            }
            last = Some(key);
        }
        self.skip_extensions(id_bytes)?;
        match self.rest.len() == id_bytes {
            true => Ok(tracked),
            false => Err("it ends too early"),
        }
    }

    /// Reads an entry. `before` is the name of the entry before it.
    fn entry(
        &mut self,
        version: u32,
        id_bytes: usize,
        before: &[u8],
    ) -> Result<IndexEntry<'b>, &'static str> {
        let unread = self.rest.len();
        let stat = self.bytes(STAT_BYTES)?;
        let id = self.bytes(id_bytes)?;
        let flags = self.short()?;
        let more = match flags & 0x4000 {
            0 => 0,
            _ if version == 2 => return Err("an entry has flags that are not known"),
            _ => self.short()?,
        };
        // All but `skip-worktree` and `intent-to-add`.
        if more & 0x9fff != 0 {
            return Err("an entry has flags that are not known");
        }
        let name = self.name(version, before)?;
        if name.is_empty() {
            return Err(OTHER_FORM);
        }
        if usize::from(flags & 0xfff) != name.len().min(0xfff) {
            return Err("the length of a path is wrong");
        }
        if version < 4 {
            // One NUL is read already.
            let padding = (unread - self.rest.len()).wrapping_neg() % 8;
            if self.bytes(padding)?.iter().any(|byte| *byte != 0) {
                return Err("an entry is padded with something else");
            }
        }
        let stage = flags >> 12 & 3;
        let is_file = match stat[MODE_AT + 2] >> 4 {
            0o10 => true,
            0o12 | 0o16 => false,
            _ => return Err("an entry is neither a file nor a link"),
        };
        Ok(IndexEntry {
            name,
            stage,
            id,
            is_tracked_file: stage == 0 && is_file && more & 0x2000 == 0,
        })
    }

    /// Skips the extensions that git may ignore.
    fn skip_extensions(&mut self, id_bytes: usize) -> Result<(), &'static str> {
        while self.rest.len() > id_bytes {
            let name = self.bytes(4)?;
            if !name[0].is_ascii_uppercase() {
                return Err(OTHER_FORM);
            }
            let size = usize::try_from(self.number()?).map_err(|_| "it ends too early")?;
            self.bytes(size)?;
        }
        Ok(())
    }

    fn bytes(&mut self, count: usize) -> Result<&'b [u8], &'static str> {
        let (first, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or("it ends too early")?;
        self.rest = rest;
        Ok(first)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Result<u16, &'static str> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A path and the NUL behind it. In version 4 it begins as the last one, without some bytes.
    fn name(&mut self, version: u32, last: &[u8]) -> Result<Vec<u8>, &'static str> {
        const WRONG: &str = "a path begins as no other";
        let mut name = Vec::new();
        if version == 4 {
            let mut byte = self.byte()?;
            let mut less = usize::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = self.byte()?;
                let high = less.checked_add(1).and_then(|more| more.checked_mul(0x80));
                less = high.ok_or(WRONG)? | usize::from(byte & 0x7f);
            }
            let keeps = last.len().checked_sub(less).ok_or(WRONG)?;
            name.extend_from_slice(&last[..keeps]);
        }
        let end = self.rest.iter().position(|byte| *byte == 0);
        name.extend_from_slice(self.bytes(end.ok_or("it ends too early")?)?);
        self.byte()?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Path, flags without the length, further flags, mode, content.
    type Entry<'e> = (&'e str, u16, Option<u16>, u32, &'e str);
    const FILE: u32 = 0o100_644;

    fn index(version: u32, id_bytes: usize, entries: &[Entry<'_>], extensions: &[u8]) -> Vec<u8> {
        let mut out = [b"DIRC".as_slice(), &version.to_be_bytes()].concat();
        out.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        let mut last = "";
        for (name, flags, more, mode, content) in entries {
            let start = out.len();
            out.extend([7; MODE_AT]);
            out.extend(mode.to_be_bytes());
            out.extend([7; 12]);
            let blob = format!("blob {}\0{content}", content.len());
            match id_bytes {
                20 => out.extend(Sha1::digest(&blob)),
                _ => out.extend(Sha256::digest(&blob)),
            }
            let length = u16::try_from(name.len().min(0xfff)).unwrap();
            out.extend((flags | length).to_be_bytes());
            out.extend(more.iter().flat_map(|more| more.to_be_bytes()));
            if version == 4 {
                let pairs = name.bytes().zip(last.bytes());
                let common = pairs.take_while(|(one, other)| one == other).count();
                let less = last.len() - common;
                if less >= 0x80 {
                    out.push(u8::try_from((less >> 7) - 1).unwrap() | 0x80);
                }
                out.push(u8::try_from(less & 0x7f).unwrap());
                out.extend(name[common..].bytes());
                out.push(0);
            } else {
                out.extend(name.bytes());
                out.push(0);
                while (out.len() - start) % 8 != 0 {
                    out.push(0);
                }
            }
            last = name;
        }
        out.extend(extensions);
        out.extend(vec![0; id_bytes]);
        out
    }

    fn reads(index: &[u8]) -> Result<TrackedFiles, &'static str> {
        TrackedFiles::read(index, &|_| true)
    }

    #[test]
    fn each_version_and_hash() {
        let long = "d/".repeat(200) + ".env";
        let longer = "d/".repeat(2500) + ".env";
        for version in 2..=4 {
            for id_bytes in [20, 32] {
                let index = index(
                    version,
                    id_bytes,
                    &[
                        (".env", 0, None, FILE, "A=1\n"),
                        ("app/.env", 0, None, 0o100_755, ""),
                        (&long, 0, None, FILE, "deep"),
                        (&longer, 0, None, FILE, "deeper"),
                        ("e/.env", 0, None, 0o120_000, "link"),
                        ("e/sub", 0, None, 0o160_000, "module"),
                    ],
                    b"TREE\0\0\0\x03abc",
                );
                let tracked = reads(&index).unwrap();
                for (path, content, has) in [
                    (".env", "A=1\n", true),
                    (".env", "A=2\n", false),
                    ("app/.env", "", true),
                    ("app/.env", "A=1\n", false),
                    (&long, "deep", true),
                    (&longer, "deeper", true),
                    ("e/.env", "link", false),
                    ("e/sub", "module", false),
                    ("env", "A=1\n", false),
                ] {
                    let found = tracked.has(path.as_bytes(), content.as_bytes());
                    assert_eq!(found, has, "{version} {id_bytes} {path} {content}");
                }
                let wanted = TrackedFiles::read(&index, &|path| path == b".env").unwrap();
                assert_eq!(wanted.entries.len(), 1);
                // Every beginning of it is refused, and so is what has one byte more.
                for end in 0..index.len().min(400) {
                    assert!(reads(&index[..end]).is_err(), "{version} {id_bytes} {end}");
                }
                assert!(reads(&[&index[..], b"x"].concat()).is_err());
            }
        }
    }

    #[test]
    fn flags() {
        for (flags, more, has) in [
            (0, None, true),
            (0x8000, None, true),
            (0x1000, None, false),
            (0x4000, Some(0x4000), true),
            (0x4000, Some(0x2000), false),
        ] {
            let index = index(3, 20, &[(".env", flags, more, FILE, "x")], b"");
            assert_eq!(
                reads(&index).unwrap().has(b".env", b"x"),
                has,
                "{flags:x} {more:?}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let one: Entry<'_> = (".env", 0, None, FILE, "x");
        for (why, index) in [
            ("version", index(5, 20, &[one], b"")),
            ("order", index(2, 20, &[("b", 0, None, FILE, ""), one], b"")),
            // Many guesses for one path.
            (
                "guesses",
                index(2, 20, &[one, (".env", 0, None, FILE, "y")], b""),
            ),
            ("split", index(2, 20, &[one], b"link\0\0\0\x02ab")),
            ("sparse", index(2, 20, &[one], b"sdir\0\0\0\0")),
            (
                "directory",
                index(2, 20, &[(".env", 0, None, 0o40_000, "x")], b""),
            ),
            (
                "flags in version 2",
                index(2, 20, &[(".env", 0x4000, Some(0), FILE, "x")], b""),
            ),
            (
                "reserved flag",
                index(3, 20, &[(".env", 0x4000, Some(0x8000), FILE, "x")], b""),
            ),
            ("extension", index(2, 20, &[one], b"TREE\0\0\0\x09ab")),
        ] {
            assert!(reads(&index).is_err(), "{why}");
        }
    }
}
