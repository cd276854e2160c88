//! Reads an archive from an engine to its end before any of it counts. A program in a container
//! chose its names and content, so the reader bounds every value, stores new content in one private
//! file, and accepts only names below the archive's root.

use super::limits::CopyLimits;
use super::pack::{CopiedContent, MAX_DEPTH, Manifest};
use super::tree::plain;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// Bound on the data before an entry: a long name, and the attributes of a file.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;
/// Bound on the length of a path.
const MAX_PATH_BYTES: usize = 4096;
/// Size of an archive's blocks; the archive ends with two blocks of zeros.
const BLOCK_BYTES: u64 = 512;
/// Bound on the padding after the end; writers pad to a size of their own.
const MAX_AFTER_BYTES: u64 = 1 << 20;
/// Bytes that are compared before they are stored.
const PIECE_BYTES: usize = 64 << 10;

/// A returned entry.
#[derive(Debug)]
pub(super) struct ReceivedEntry {
    pub(super) what: CopiedContent,
    pub(super) mode: u32,
    pub(super) modified: SystemTime,
    /// Range of its bytes in the store; `None` if they are the bytes that were copied to the
    /// engine.
    pub(super) kept: Option<StoredRange>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StoredRange {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// All returned entries.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) entries: BTreeMap<PathBuf, ReceivedEntry>,
    /// Paths that are neither a file nor a directory nor a link.
    pub(super) left_out: Vec<PathBuf>,
    pub(super) store: File,
}

/// The reason for refusing an archive.
#[derive(Debug)]
pub(super) enum ArchiveError {
    /// The archive exceeds a limit; the text says which.
    TooMuch(String),
    /// The archive has content that engines never send.
    Hostile(String),
    Io(io::Error),
}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        ArchiveError::Io(error)
    }
}

/// Reads the whole archive; `store` is an empty private file.
pub(super) fn unpack(
    from: impl Read,
    known: &Manifest,
    limits: &CopyLimits,
    store: File,
) -> Result<Unpacked, ArchiveError> {
    let mut archive = Archive::new(CountingReader::new(from));
    let mut reading = ArchiveReader {
        known,
        limits,
        unpacked: Unpacked {
            entries: BTreeMap::new(),
            left_out: Vec::new(),
            store,
        },
        root: None,
        seen: 0,
        bytes: 0,
        end: 0,
        archive_end: 0,
        before: EntryHeader::default(),
    };
    for entry in archive.entries()?.raw(true) {
        reading.entry(entry?)?;
    }
    // An entry that is missing at the end would count as removed.
    let mut whole = archive.into_inner();
    io::copy(&mut (&mut whole).take(MAX_AFTER_BYTES), &mut io::sink())?;
    if !whole.ends(reading.archive_end) {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    match reading.root {
        Some(_) => Ok(reading.unpacked),
        None => Err(ArchiveError::Hostile("it is empty".to_owned())),
    }
}

/// Extension headers before an entry, which apply to that entry.
#[derive(Default)]
struct EntryHeader {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

struct ArchiveReader<'a> {
    known: &'a Manifest,
    limits: &'a CopyLimits,
    unpacked: Unpacked,
    /// Name of the first entry; all other entries are below it.
    root: Option<PathBuf>,
    seen: usize,
    bytes: u64,
    /// End of the stored data.
    end: u64,
    /// End of the last entry in the archive.
    archive_end: u64,
    before: EntryHeader,
}

impl ArchiveReader<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), ArchiveError> {
        let kind = entry.header().entry_type();
        let size = entry.header().entry_size()?;
        let blocks = size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        self.archive_end = entry.raw_file_position().saturating_add(blocks);
        match kind {
            EntryType::XHeader => return self.extended(&extension(&mut entry, size)?),
            EntryType::GNULongName => {
                self.before.name = Some(terminated(extension(&mut entry, size)?));
                return Ok(());
            }
            EntryType::GNULongLink => {
                self.before.link = Some(terminated(extension(&mut entry, size)?));
                return Ok(());
            }
            _ => {}
        }
        let before = std::mem::take(&mut self.before);
        let name = before
            .name
            .unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let link = before
            .link
            .or_else(|| entry.header().link_name_bytes().map(Into::into));
        self.seen += 1;
        // The root itself does not count.
        if self.seen > self.limits.entries.saturating_add(1) {
            return Err(ArchiveError::TooMuch(self.limits.entries_said()));
        }
        let Some(below) = self.below(&name, kind)? else {
            return Ok(());
        };
        let has_data = matches!(kind, EntryType::Regular | EntryType::Continuous);
        if size > 0 && !has_data {
            return Err(hostile("bytes of what has none", &below));
        }
        let mode = entry.header().mode()? & 0o777;
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.header().mtime()?);
        let Some((what, kept)) = self.content(&mut entry, kind, size, link, &below)? else {
            self.unpacked.left_out.push(below);
            return Ok(());
        };
        let got = ReceivedEntry {
            what,
            mode,
            modified,
            kept,
        };
        match self.unpacked.entries.insert(below.clone(), got) {
            None => Ok(()),
            Some(_) => Err(hostile("twice the same name", &below)),
        }
    }

    /// Reads the content of an entry; `None` for a kind that is not copied.
    fn content(
        &mut self,
        entry: &mut impl Read,
        kind: EntryType,
        size: u64,
        link: Option<Vec<u8>>,
        below: &Path,
    ) -> Result<Option<(CopiedContent, Option<StoredRange>)>, ArchiveError> {
        Ok(Some(match kind {
            EntryType::Directory => (CopiedContent::Directory, None),
            EntryType::Symlink => {
                let to = link.filter(|to| !to.is_empty() && to.len() <= MAX_PATH_BYTES);
                let to = to.ok_or_else(|| hostile("a link leads nowhere", below))?;
                (CopiedContent::Link(OsStr::from_bytes(&to).to_owned()), None)
            }
            EntryType::Regular | EntryType::Continuous => {
                let (hash, kept) = self.file(entry, size, below)?;
                (CopiedContent::File(hash), kept)
            }
            EntryType::Link => self.same(link.as_deref(), below)?,
            EntryType::Fifo | EntryType::Char | EntryType::Block => return Ok(None),
            other => {
                let kind = format!("of the kind {:?}", other.as_byte() as char);
                return Err(hostile(&kind, below));
            }
        }))
    }

    /// Returns the path below the archive's root; `None` for the root itself.
    fn below(&mut self, name: &[u8], kind: EntryType) -> Result<Option<PathBuf>, ArchiveError> {
        let shown = || Path::new(OsStr::from_bytes(&name[..name.len().min(MAX_PATH_BYTES)]));
        if name.len() > MAX_PATH_BYTES || name.contains(&0) {
            return Err(hostile("no name of a file", shown()));
        }
        let Some(path) = plain(Path::new(OsStr::from_bytes(name))) else {
            return Err(hostile("a name that leads elsewhere", shown()));
        };
        let Some(root) = &self.root else {
            if kind != EntryType::Directory {
                return Err(hostile("no directory at its beginning", shown()));
            }
            self.root = Some(path);
            return Ok(None);
        };
        let below = match path.strip_prefix(root) {
            Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
            _ => return Err(hostile("a name that leads elsewhere", shown())),
        };
        let depth = below.components().count();
        if depth > MAX_DEPTH {
            let why = format!("it is deeper than {MAX_DEPTH} directories");
            return Err(ArchiveError::TooMuch(why));
        }
        // A later write at this path then passes through directories only.
        let parent = below
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let around = parent.map(|parent| self.unpacked.entries.get(parent));
        match around {
            None => Ok(Some(below)),
            Some(Some(got)) if got.what == CopiedContent::Directory => Ok(Some(below)),
            Some(_) => Err(hostile("something that is in no directory", &below)),
        }
    }

    /// Reads a file, and stores it if it differs from the copied one.
    fn file(
        &mut self,
        from: &mut impl Read,
        size: u64,
        below: &Path,
    ) -> Result<([u8; 32], Option<StoredRange>), ArchiveError> {
        self.count(size)?;
        let before = match self.known.get(below).map(|known| &known.what) {
            Some(CopiedContent::File(hash)) => Some(*hash),
            _ => None,
        };
        let start = self.end;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = size;
        self.unpacked.store.seek(SeekFrom::Start(start))?;
        // A file that fits into one piece is not stored if it has not changed.
        let small = size <= PIECE_BYTES as u64;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            from.read_exact(&mut piece[..most])?;
            hash.update(&piece[..most]);
            if !small {
                self.unpacked.store.write_all(&piece[..most])?;
            }
            left -= most as u64;
        }
        let hash: [u8; 32] = hash.finalize().into();
        if before == Some(hash) {
            return Ok((hash, None));
        }
        if small {
            let most = usize::try_from(size)
                .unwrap_or(PIECE_BYTES)
                .min(PIECE_BYTES);
            self.unpacked.store.write_all(&piece[..most])?;
        }
        self.end = start + size;
        let kept = StoredRange {
            at: start,
            bytes: size,
        };
        Ok((hash, Some(kept)))
    }

    /// Reads another name of an earlier file; on the host it becomes a separate file.
    fn same(
        &self,
        link: Option<&[u8]>,
        below: &Path,
    ) -> Result<(CopiedContent, Option<StoredRange>), ArchiveError> {
        let wrong = || hostile("one more name of what is not there", below);
        let to = plain(Path::new(OsStr::from_bytes(link.ok_or_else(wrong)?))).ok_or_else(wrong)?;
        let root = self.root.as_deref().unwrap_or(Path::new(""));
        let to = to.strip_prefix(root).map_err(|_| wrong())?;
        let first = self.unpacked.entries.get(to).ok_or_else(wrong)?;
        let CopiedContent::File(hash) = &first.what else {
            return Err(wrong());
        };
        let known = self.known.get(below);
        let same = known.is_some_and(|known| known.what == first.what);
        // If the earlier file has not changed, the host has its bytes.
        let kept = first.kept.filter(|_| !same);
        Ok((CopiedContent::File(*hash), kept))
    }

    fn count(&mut self, size: u64) -> Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(size);
        match self.bytes > self.limits.bytes {
            true => Err(ArchiveError::TooMuch(self.limits.bytes_said())),
            false => Ok(()),
        }
    }

    /// Reads a POSIX extended header; it takes only a name and a link from it.
    fn extended(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        for one in PaxExtensions::new(bytes) {
            let one = one?;
            let value = one.value_bytes().to_vec();
            match one.key_bytes() {
                b"path" => self.before.name = Some(value),
                b"linkpath" => self.before.link = Some(value),
                b"size" => {
                    let bound = self.limits.bytes_said();
                    return Err(ArchiveError::TooMuch(bound));
                }
                key if key.starts_with(b"GNU.sparse") => {
                    let why = "a file with holes".to_owned();
                    return Err(ArchiveError::Hostile(why));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reader that counts its data, to distinguish a complete archive from a truncated one.
struct CountingReader<R> {
    from: R,
    bytes: u64,
    zeros: u64,
}

impl<R> CountingReader<R> {
    fn new(from: R) -> CountingReader<R> {
        CountingReader {
            from,
            bytes: 0,
            zeros: 0,
        }
    }

    fn ends(&self, last: u64) -> bool {
        let end = 2 * BLOCK_BYTES;
        self.zeros >= end && self.bytes >= last.saturating_add(end)
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        let zeros = into[..count]
            .iter()
            .rev()
            .take_while(|byte| **byte == 0)
            .count();
        self.bytes += count as u64;
        self.zeros = match zeros == count {
            true => self.zeros + zeros as u64,
            false => zeros as u64,
        };
        Ok(count)
    }
}

/// Returns the complete extension header before an entry.
fn extension(entry: &mut impl Read, size: u64) -> Result<Vec<u8>, ArchiveError> {
    if size > MAX_EXTENSION_BYTES {
        return Err(ArchiveError::Hostile("a name without an end".to_owned()));
    }
    let mut bytes = Vec::new();
    entry.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns a long name without the zero at its end.
fn terminated(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

fn hostile(what: &str, path: &Path) -> ArchiveError {
    let path: OsString = path.into();
    let shown: String = os_sandbox::mechanism::Visible(&path)
        .to_string()
        .chars()
        .take(200)
        .collect();
    ArchiveError::Hostile(format!("{what}: {shown:?}"))
}
