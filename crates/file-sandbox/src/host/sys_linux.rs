//! System calls of Linux: `O_PATH`, `openat2(2)` and `renameat2(2)`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{
    self, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

/// A directory on the way is only passed through: `O_PATH` asks for no read permission.
pub(crate) const STEP: OFlags = OFlags::PATH;

/// No link of any kind on the way, so the object is exactly at its path.
const STRICT: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens a file below `root` by a path of plain names. Any error means: take the walk, which also
/// knows why.
pub(crate) fn open_beneath(root: impl AsFd, path: &Path) -> Option<File> {
    fs::openat2(root, path, super::READ, Mode::empty(), STRICT)
        .ok()
        .map(File::from)
}

/// Opens a directory below `root` by a path of plain names, to pass through it.
pub(crate) fn open_dir_beneath(root: impl AsFd, path: &Path) -> Option<OwnedFd> {
    let flags = STEP | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat2(root, path, flags, Mode::empty(), STRICT).ok()
}

/// Opens a handle for metadata of any object: of a link, of the link itself.
pub(crate) fn open_object_beneath(root: impl AsFd, path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat2(root, path, flags, Mode::empty(), STRICT).ok()
}

/// `STATX_ATTR_MOUNT_ROOT`, which also knows a bind mount of the same volume (Linux 5.8).
pub(super) fn is_mount_point(at: impl AsFd, name: &OsStr) -> Option<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = fs::statx(at, name, flags, StatxFlags::TYPE).ok()?;
    let root = StatxAttributes::MOUNT_ROOT;
    let known = stat.stx_attributes_mask.contains(root);
    known.then(|| stat.stx_attributes.contains(root))
}

pub(crate) fn created(at: impl AsFd, name: &OsStr) -> Option<SystemTime> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = fs::statx(at, name, flags, StatxFlags::BTIME).ok()?;
    let known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let time = stat.stx_btime;
    known
        .then(|| super::time(time.tv_sec, time.tv_nsec.into()))
        .flatten()
}

pub(super) fn rename_new(
    at: impl AsFd,
    from: &OsStr,
    to: impl AsFd,
    name: &OsStr,
) -> Result<(), Errno> {
    fs::renameat_with(at, from, to, name, RenameFlags::NOREPLACE)
}

pub(super) fn exchange(
    at: impl AsFd,
    from: &OsStr,
    to: impl AsFd,
    name: &OsStr,
) -> Result<(), Errno> {
    fs::renameat_with(at, from, to, name, RenameFlags::EXCHANGE)
}
