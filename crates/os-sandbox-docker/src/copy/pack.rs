//! Packs a directory into an archive, and records its entries in the manifest. The manifest shows
//! later which of the returned entries have changed.

use super::limits::CopyLimits;
use super::tree::{self, FileVersion};
use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag};
use os_sandbox::mechanism::Pattern;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// Bound on the depth of a tree: each level needs an open descriptor.
pub(super) const MAX_DEPTH: usize = 128;
/// Bound on a name in the field of a header.
const MAX_FIELD: usize = 100;

/// Content of a path when it was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopiedContent {
    Directory,
    File([u8; 32]),
    Link(OsString),
}

#[derive(Clone, Debug)]
pub(super) struct CopiedEntry {
    pub(super) what: CopiedContent,
    pub(super) mode: u32,
    /// Version of the host's file.
    pub(super) stamp: FileVersion,
}

/// All copied entries, by their path below the mount. A directory precedes its entries.
pub(super) type Manifest = BTreeMap<PathBuf, CopiedEntry>;

/// Result of packing.
#[derive(Debug, Default)]
pub(super) struct PackReport {
    pub(super) manifest: Manifest,
    /// Paths that an archive cannot contain, or that the broker may not read.
    pub(super) left_out: Vec<PathBuf>,
    pub(super) bytes: u64,
}

/// The reason for a failure to pack a tree.
#[derive(Debug)]
pub(super) enum PackError {
    /// The tree exceeds a limit; the text says which.
    TooMuch(String),
    Io(PathBuf, io::Error),
}

/// Returns `true` if one of the patterns hides a path whose last name is in the directory `at`.
pub(super) fn is_hidden(patterns: &[Pattern], at: BorrowedFd<'_>, below: &Path) -> bool {
    let mut covers = patterns.iter().filter(|one| one.covers(below));
    covers.any(|one| !one.is_by_content() || tree::is_key(at, below.file_name()))
}

/// Packs everything below `top` as files of `owner` below `inside`, except hidden entries. `hidden`
/// takes a directory and a path whose last name is in it.
pub(super) fn pack<W: Write>(
    top: BorrowedFd<'_>,
    inside: &Path,
    hidden: &dyn Fn(BorrowedFd<'_>, &Path) -> bool,
    owner: (u32, u32),
    limits: &CopyLimits,
    to: W,
) -> Result<(PackReport, W), PackError> {
    let root = |error: io::Error| PackError::Io(PathBuf::new(), error);
    let mut packing = Packer {
        builder: tar::Builder::new(to),
        packed: PackReport::default(),
        inside,
        hidden,
        owner,
        limits,
    };
    let stat = nix::sys::stat::fstat(top).map_err(|errno| root(errno.into()))?;
    let header = packing.header(EntryType::Directory, tree::permissions(&stat), &stat, 0);
    packing
        .entry(&header, Path::new(""), None, &mut io::empty())
        .map_err(root)?;
    let top = tree::around(top, Path::new("x"))
        .map_err(|errno| root(errno.into()))?
        .0;
    packing.directory(&top, Path::new(""), 0)?;
    let Packer {
        builder, packed, ..
    } = packing;
    Ok((packed, builder.into_inner().map_err(root)?))
}

struct Packer<'a, W: Write> {
    builder: tar::Builder<W>,
    packed: PackReport,
    inside: &'a Path,
    hidden: &'a dyn Fn(BorrowedFd<'_>, &Path) -> bool,
    owner: (u32, u32),
    limits: &'a CopyLimits,
}

impl<W: Write> Packer<'_, W> {
    fn directory(&mut self, at: &OwnedFd, below: &Path, depth: usize) -> Result<(), PackError> {
        if depth > MAX_DEPTH {
            let why = format!("{} is deeper than {MAX_DEPTH} directories", below.display());
            return Err(PackError::TooMuch(why));
        }
        let names = match tree::names(at.as_fd(), self.limits.entries) {
            // The directory was removed after it was entered.
            Err(Errno::ENOENT) => Vec::new(),
            names => names.map_err(|errno| PackError::Io(below.to_owned(), errno.into()))?,
        };
        for name in names {
            let below = below.join(&name);
            if (self.hidden)(at.as_fd(), &below) {
                continue;
            }
            match self.one(at.as_fd(), &name, &below) {
                Ok(Some(inner)) => self.directory(&inner, &below, depth + 1)?,
                Ok(None) => {}
                Err(PackError::Io(path, error)) => match error.kind() {
                    // The entry was removed after it was listed.
                    io::ErrorKind::NotFound => {}
                    // The broker may not read the entry, so the container may not read it either.
                    io::ErrorKind::PermissionDenied => self.packed.left_out.push(path),
                    _ => return Err(PackError::Io(path, error)),
                },
                Err(too_much @ PackError::TooMuch(_)) => return Err(too_much),
            }
            if self.packed.manifest.len() > self.limits.entries {
                return Err(PackError::TooMuch(self.limits.entries_said()));
            }
        }
        Ok(())
    }

    /// Packs one name; returns its descriptor if it is a directory that the caller has to walk.
    fn one(
        &mut self,
        at: BorrowedFd<'_>,
        name: &OsStr,
        below: &Path,
    ) -> Result<Option<OwnedFd>, PackError> {
        let failed = |error: io::Error| PackError::Io(below.to_owned(), error);
        let errno = |errno: Errno| failed(errno.into());
        let stat = tree::look(at, name).map_err(errno)?;
        let mode = tree::permissions(&stat);
        let mut inner = None;
        let what = match tree::kind(&stat) {
            SFlag::S_IFDIR => {
                inner = Some(tree::enter(at, name).map_err(errno)?);
                let header = self.header(EntryType::Directory, mode, &stat, 0);
                self.entry(&header, below, None, &mut io::empty())
                    .map_err(failed)?;
                CopiedContent::Directory
            }
            SFlag::S_IFLNK => {
                let to = tree::link(at, name).map_err(errno)?;
                let header = self.header(EntryType::Symlink, 0o777, &stat, 0);
                self.entry(&header, below, Some(&to), &mut io::empty())
                    .map_err(failed)?;
                CopiedContent::Link(to)
            }
            SFlag::S_IFREG => return self.file(at, name, below).map(|()| None),
            _ => {
                self.packed.left_out.push(below.to_owned());
                return Ok(None);
            }
        };
        let stamp = FileVersion::of(&stat);
        self.packed
            .manifest
            .insert(below.to_owned(), CopiedEntry { what, mode, stamp });
        Ok(inner)
    }

    fn file(&mut self, at: BorrowedFd<'_>, name: &OsStr, below: &Path) -> Result<(), PackError> {
        let failed = |error: io::Error| PackError::Io(below.to_owned(), error);
        let (file, stat) = tree::file(at, name).map_err(failed)?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.packed.bytes = self.packed.bytes.saturating_add(size);
        if self.packed.bytes > self.limits.bytes {
            return Err(PackError::TooMuch(self.limits.bytes_said()));
        }
        let mode = tree::permissions(&stat);
        let header = self.header(EntryType::Regular, mode, &stat, size);
        let mut hashed = HashingReader {
            from: file.take(size),
            hash: Sha256::new(),
            bytes: 0,
        };
        self.entry(&header, below, None, &mut hashed)
            .map_err(failed)?;
        if hashed.bytes != size {
            let error = io::Error::other("it became smaller while it was copied");
            return Err(failed(error));
        }
        let what = CopiedContent::File(hashed.hash.finalize().into());
        let stamp = FileVersion::of(&stat);
        self.packed
            .manifest
            .insert(below.to_owned(), CopiedEntry { what, mode, stamp });
        Ok(())
    }

    fn header(&self, kind: EntryType, mode: u32, stat: &FileStat, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(u64::from(self.owner.0));
        header.set_gid(u64::from(self.owner.1));
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
        header.set_size(size);
        header
    }

    /// Writes an entry with its names byte for byte. A name that is too long for the header gets an
    /// entry of its own before it.
    fn entry(
        &mut self,
        header: &Header,
        below: &Path,
        link: Option<&OsStr>,
        data: &mut dyn Read,
    ) -> io::Result<()> {
        let mut header = header.clone();
        let name = self.inside.join(below);
        let name = name.as_os_str();
        for (kind, bytes) in [
            (EntryType::GNULongLink, link.map(OsStr::as_bytes)),
            (EntryType::GNULongName, Some(name.as_bytes())),
        ] {
            let Some(bytes) = bytes else { continue };
            if bytes.len() > MAX_FIELD {
                let mut long = Header::new_gnu();
                long.set_entry_type(kind);
                long.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
                long.set_mode(0o644);
                long.set_uid(0);
                long.set_gid(0);
                long.set_mtime(0);
                long.set_size(bytes.len() as u64 + 1);
                long.set_cksum();
                self.builder.append(&long, bytes.chain(&[0u8][..]))?;
            }
            let short = &bytes[..bytes.len().min(MAX_FIELD)];
            let old = header.as_old_mut();
            let field = match kind {
                EntryType::GNULongLink => &mut old.linkname,
                _ => &mut old.name,
            };
            field[..short.len()].copy_from_slice(short);
        }
        header.set_cksum();
        self.builder.append(&header, data)
    }
}

/// Reader that computes the hash and the length of its data.
struct HashingReader<R> {
    from: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.hash.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
