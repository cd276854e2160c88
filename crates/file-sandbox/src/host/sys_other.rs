//! The twin for systems without `openat2(2)`: the walk does everything.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Without `O_PATH` a directory on the way has to be readable.
pub(crate) const STEP: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

pub(crate) fn open_beneath(_root: impl AsFd, _path: &Path) -> Option<File> {
    None
}

pub(crate) fn open_dir_beneath(_root: impl AsFd, _path: &Path) -> Option<OwnedFd> {
    None
}

pub(crate) fn open_object_beneath(_root: impl AsFd, _path: &Path) -> Option<OwnedFd> {
    None
}

/// Not available; the caller compares volumes instead.
pub(super) fn is_mount_point(_at: impl AsFd, _name: &OsStr) -> Option<bool> {
    None
}

#[cfg(target_vendor = "apple")]
pub(crate) fn created(at: impl AsFd, name: &OsStr) -> Option<SystemTime> {
    use rustix::fs::{AtFlags, statat};
    let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    super::time(stat.st_birthtime, stat.st_birthtime_nsec)
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn created(_at: impl AsFd, _name: &OsStr) -> Option<SystemTime> {
    None
}

/// Not offered in one form by all of them; the caller links and unlinks instead.
pub(super) fn rename_new(
    _at: impl AsFd,
    _from: &OsStr,
    _to: impl AsFd,
    _name: &OsStr,
) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Not offered in one form by all of them; the caller replaces instead.
pub(super) fn exchange(
    _at: impl AsFd,
    _from: &OsStr,
    _to: impl AsFd,
    _name: &OsStr,
) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
