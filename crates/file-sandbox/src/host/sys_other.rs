//! The twin for systems without `openat2(2)`: the walk does everything.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Without `O_PATH` a directory on the way has to be readable.
pub(super) const STEP: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

pub(crate) fn open_beneath(_root: impl AsFd, _path: &Path) -> Option<File> {
    None
}

pub(crate) fn open_dir_beneath(_root: impl AsFd, _path: &Path) -> Option<OwnedFd> {
    None
}

pub(crate) fn open_object_beneath(_root: impl AsFd, _path: &Path) -> Option<OwnedFd> {
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
