//! A directory as an archive, and what was put into it: the manifest, by which what comes back is
//! held against what went out.

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

/// Bound on how deep a tree may be: a descriptor is held for each level.
pub(super) const MAX_DEPTH: usize = 128;
/// What fits into the field of a header.
const MAX_FIELD: usize = 100;

/// What was at a path when it was copied.
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
    /// Of the file here.
    pub(super) stamp: FileVersion,
}

/// Everything that went out, by its path below the mount. Whoever is above stands before.
pub(super) type Manifest = BTreeMap<PathBuf, CopiedEntry>;

/// What was packed.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) manifest: Manifest,
    /// What has no place in an archive, or may not be read.
    pub(super) left_out: Vec<PathBuf>,
    pub(super) bytes: u64,
}

/// Why a tree cannot be packed.
#[derive(Debug)]
pub(super) enum Unpackable {
    /// The sentence.
    TooMuch(String),
    Io(PathBuf, io::Error),
}

/// Returns `true` if one of the patterns hides a path whose last name lies in the directory `at`.
pub(super) fn is_hidden(patterns: &[Pattern], at: BorrowedFd<'_>, below: &Path) -> bool {
    let mut covers = patterns.iter().filter(|one| one.covers(below));
    covers.any(|one| !one.is_by_content() || tree::is_key(at, below.file_name()))
}

/// Packs everything below `top` as files of `owner` below `inside`, but what `hidden` says of a
/// directory and a path whose last name lies in it.
pub(super) fn pack<W: Write>(
    top: BorrowedFd<'_>,
    inside: &Path,
    hidden: &dyn Fn(BorrowedFd<'_>, &Path) -> bool,
    owner: (u32, u32),
    limits: &CopyLimits,
    to: W,
) -> Result<(Packed, W), Unpackable> {
    let root = |error: io::Error| Unpackable::Io(PathBuf::new(), error);
    let mut packing = Packing {
        builder: tar::Builder::new(to),
        packed: Packed::default(),
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
    let Packing {
        builder, packed, ..
    } = packing;
    Ok((packed, builder.into_inner().map_err(root)?))
}

struct Packing<'a, W: Write> {
    builder: tar::Builder<W>,
    packed: Packed,
    inside: &'a Path,
    hidden: &'a dyn Fn(BorrowedFd<'_>, &Path) -> bool,
    owner: (u32, u32),
    limits: &'a CopyLimits,
}

impl<W: Write> Packing<'_, W> {
    fn directory(&mut self, at: &OwnedFd, below: &Path, depth: usize) -> Result<(), Unpackable> {
        if depth > MAX_DEPTH {
            let why = format!("{} is deeper than {MAX_DEPTH} directories", below.display());
            return Err(Unpackable::TooMuch(why));
        }
        let names = match tree::names(at.as_fd(), self.limits.entries) {
            // Removed since it was entered.
            Err(Errno::ENOENT) => Vec::new(),
            names => names.map_err(|errno| Unpackable::Io(below.to_owned(), errno.into()))?,
        };
        for name in names {
            let below = below.join(&name);
            if (self.hidden)(at.as_fd(), &below) {
                continue;
            }
            match self.one(at.as_fd(), &name, &below) {
                Ok(Some(inner)) => self.directory(&inner, &below, depth + 1)?,
                Ok(None) => {}
                Err(Unpackable::Io(path, error)) => match error.kind() {
                    // Gone since it was listed.
                    io::ErrorKind::NotFound => {}
                    // Not for us to read, and so not for whoever is inside.
                    io::ErrorKind::PermissionDenied => self.packed.left_out.push(path),
                    _ => return Err(Unpackable::Io(path, error)),
                },
                Err(too_much @ Unpackable::TooMuch(_)) => return Err(too_much),
            }
            if self.packed.manifest.len() > self.limits.entries {
                return Err(Unpackable::TooMuch(self.limits.entries_said()));
            }
        }
        Ok(())
    }

    /// Puts one name in; a directory is given back, to be gone through.
    fn one(
        &mut self,
        at: BorrowedFd<'_>,
        name: &OsStr,
        below: &Path,
    ) -> Result<Option<OwnedFd>, Unpackable> {
        let failed = |error: io::Error| Unpackable::Io(below.to_owned(), error);
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

    fn file(&mut self, at: BorrowedFd<'_>, name: &OsStr, below: &Path) -> Result<(), Unpackable> {
        let failed = |error: io::Error| Unpackable::Io(below.to_owned(), error);
        let (file, stat) = tree::file(at, name).map_err(failed)?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.packed.bytes = self.packed.bytes.saturating_add(size);
        if self.packed.bytes > self.limits.bytes {
            return Err(Unpackable::TooMuch(self.limits.bytes_said()));
        }
        let mode = tree::permissions(&stat);
        let header = self.header(EntryType::Regular, mode, &stat, size);
        let mut hashed = Hashed {
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

    /// The names as they are, byte for byte; what does not fit into a header stands before it.
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

/// What is read, with its hash and its length.
struct Hashed<R> {
    from: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.hash.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
