//! System calls on a directory handle and one name. Nothing here follows a link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::backend::{FileId, FileKind, FileMeta};

#[cfg(target_os = "linux")]
#[path = "sys_linux.rs"]
mod os;
#[cfg(not(target_os = "linux"))]
#[path = "sys_other.rs"]
mod os;

pub(crate) use os::{STEP, created, open_beneath, open_dir_beneath, open_object_beneath};

#[inline]
fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Unknown,
    }
}

/// `true` if `name` is a mount point: of another volume or, if the system knows, of this one.
pub(crate) fn is_mount_point(at: impl AsFd, name: &OsStr) -> bool {
    let Ok(name) = plain(name) else { return false };
    if let Some(known) = os::is_mount_point(at.as_fd(), name) {
        return known;
    }
    let device = |stat: Result<Stat, Errno>| stat.ok().map(|stat| stat.st_dev);
    let here = device(fs::fstat(&at));
    let there = device(fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW));
    here.is_some() && there.is_some() && here != there
}

/// Flags that open a file for reading and can neither block nor take a terminal.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The names in a directory and, if the system knows, their types.
pub(crate) struct Entries(fs::Dir);

pub(crate) fn entries(at: impl AsFd) -> Result<Entries, Errno> {
    fs::Dir::new(open_itself(at)?).map(Entries)
}

/// Opens a directory once more, to read or synchronize it.
pub(crate) fn open_itself(at: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(at, c".", flags, Mode::empty())
}

impl Iterator for Entries {
    type Item = Result<(OsString, Option<FileKind>), Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.0.next()? {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(errno)),
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match kind_of(entry.file_type()) {
                FileKind::Unknown => None,
                kind => Some(kind),
            };
            return Some(Ok((OsString::from_vec(name.to_vec()), kind)));
        }
    }
}

pub(crate) fn meta(at: impl AsFd, name: &OsStr) -> Result<FileMeta, Errno> {
    fs::statat(at, plain(name)?, AtFlags::SYMLINK_NOFOLLOW).map(|stat| from_stat(&stat))
}

pub(crate) fn meta_of(open: impl AsFd) -> Result<FileMeta, Errno> {
    fs::fstat(open).map(|stat| from_stat(&stat))
}

/// Takes the whole-file lock without waiting for it.
pub(crate) fn lock(file: impl AsFd) -> Result<(), Errno> {
    fs::flock(file, fs::FlockOperation::NonBlockingLockExclusive)
}

/// Moves `from` to `name` in `to`, which must not exist. `link(2)` has this effect for a file if
/// the file system has no `RENAME_NOREPLACE`.
pub(crate) fn rename_new(
    at: impl AsFd,
    from: &OsStr,
    to: impl AsFd,
    name: &OsStr,
) -> Result<(), Errno> {
    let (at, to) = (at.as_fd(), to.as_fd());
    match os::rename_new(at, plain(from)?, to, plain(name)?) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
            fs::linkat(at, plain(from)?, to, plain(name)?, AtFlags::empty())?;
            fs::unlinkat(at, plain(from)?, AtFlags::empty())
        }
        answer => answer,
    }
}

/// Exchanges two objects (`RENAME_EXCHANGE`).
pub(crate) fn exchange(
    at: impl AsFd,
    from: &OsStr,
    to: impl AsFd,
    name: &OsStr,
) -> Result<(), Errno> {
    os::exchange(at, from, to, name)
}

/// The last line of defence: only one plain name reaches the system.
pub(super) fn plain(name: &OsStr) -> Result<&OsStr, Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(Errno::INVAL);
    }
    Ok(name)
}

pub(super) fn raw_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode as rustix::fs::RawMode)
}

#[inline]
#[expect(
    clippy::unnecessary_cast,
    reason = "the widths of these fields differ between systems"
)]
fn from_stat(stat: &Stat) -> FileMeta {
    FileMeta {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: (stat.st_mode as u32) & 0o7777,
        links: stat.st_nlink as u64,
        owner: (stat.st_uid, stat.st_gid),
        modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        id: FileId(stat.st_dev as u64, stat.st_ino as u64),
    }
}

#[inline]
pub(super) fn time(seconds: i64, nanos: i64) -> Option<SystemTime> {
    let part = u32::try_from(nanos).ok().filter(|n| *n < 1_000_000_000)?;
    let whole = seconds.unsigned_abs();
    if seconds >= 0 {
        return UNIX_EPOCH.checked_add(Duration::new(whole, part));
    }
    UNIX_EPOCH
        .checked_sub(Duration::from_secs(whole))?
        .checked_add(Duration::from_nanos(part.into()))
}
