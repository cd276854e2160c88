//! Accesses a tree in which a target can write, by descriptor and never through a link: a file that
//! is created or moved there must not end up elsewhere because a program replaced a directory by a
//! link (the class of CVE-2026-87766).
//!
//! <https://man7.org/linux/man-pages/man2/openat2.2.html>

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// The bytes of a path that the kernel resolves at once, with the one that ends it (`linux/limits.h`).
const PATH_MAX: usize = 4096;

/// Opens a directory below another, without following a link. An empty path is the directory
/// itself.
pub(crate) fn directory(top: BorrowedFd<'_>, below: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    if below.as_os_str().is_empty() {
        return openat(top, ".", flags, Mode::empty());
    }
    if below.as_os_str().len() >= PATH_MAX {
        return walk(top, below, flags);
    }
    let how = OpenHow::new()
        .flags(flags.difference(OFlag::O_NOFOLLOW))
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
    match openat2(top, below, how) {
        // Before Linux 5.6, or behind a filter that does not know it.
        Err(Errno::ENOSYS | Errno::EPERM) => walk(top, below, flags),
        other => other,
    }
}

/// Opens a directory below another, one name at a time.
fn walk(top: BorrowedFd<'_>, below: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let mut at = openat(top, ".", flags, Mode::empty())?;
    for part in below.components() {
        let Component::Normal(name) = part else {
            return Err(Errno::EXDEV);
        };
        let next = openat(&at, name, flags, Mode::empty());
        at = match next {
            // The kernel also answers so for a link that must be a directory and must not be
            // followed.
            Err(Errno::ENOTDIR) if is_link(at.as_fd(), name) => return Err(Errno::ELOOP),
            next => next?,
        };
    }
    Ok(at)
}

fn is_link(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    look(parent, name).is_ok_and(|stat| kind(&stat) == SFlag::S_IFLNK)
}

/// Opens a directory by its absolute path, without following a link.
pub(crate) fn absolute(path: &Path) -> Result<OwnedFd, Errno> {
    let top = File::open("/").map_err(|error| errno(&error))?;
    let below = path.strip_prefix("/").map_err(|_| Errno::EINVAL)?;
    directory(top.as_fd(), below)
}

/// Opens a file or directory by its absolute path, without following a link on the way or at its
/// end.
pub(crate) fn place(path: &Path) -> Result<OwnedFd, Errno> {
    let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL);
    };
    let around = absolute(around)?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    // With these flags `openat` opens a link itself.
    let place = openat(&around, name, flags, Mode::empty())?;
    if kind(&fstat(&place)?) == SFlag::S_IFLNK {
        return Err(Errno::ELOOP);
    }
    Ok(place)
}

/// Returns the metadata of a name; of a link its own.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> Result<FileStat, Errno> {
    fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

/// Returns the type bits of a mode.
pub(crate) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// Opens a regular file for reading, without blocking and without following a link.
pub(crate) fn file(parent: BorrowedFd<'_>, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    if kind(&look(parent, name)?) != SFlag::S_IFREG {
        return Err(Errno::EINVAL);
    }
    let file = File::from(openat(parent, name, flags, Mode::empty())?);
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(file),
        _ => Err(Errno::EINVAL),
    }
}

/// Opens a regular file below a directory, as [`file`] does, without following a link on the way.
pub(crate) fn file_below(top: BorrowedFd<'_>, below: &Path) -> Result<File, Errno> {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(Errno::EINVAL);
    };
    file(directory(top, parent)?.as_fd(), name)
}

/// Sets the mode of the file behind an `O_PATH` descriptor, which `fchmod` refuses.
pub(crate) fn set_mode(place: BorrowedFd<'_>, mode: u32) -> std::io::Result<()> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Returns the kernel's errno, or EIO without one.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_reach_the_same_and_follow_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("../..", dir.path().join("a/up")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let top = File::open(dir.path()).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for (path, want) in [
            ("a", None),
            ("a/b", None),
            ("", None),
            ("link", Some(Errno::ELOOP)),
            ("link/b", Some(Errno::ELOOP)),
            ("a/up", Some(Errno::ELOOP)),
            ("a/up/a", Some(Errno::ELOOP)),
            ("..", Some(Errno::EXDEV)),
            ("file", Some(Errno::ENOTDIR)),
            ("file/x", Some(Errno::ENOTDIR)),
            ("a/none", Some(Errno::ENOENT)),
        ] {
            let path = Path::new(path);
            assert_eq!(directory(top.as_fd(), path).err(), want, "{path:?}");
            assert_eq!(walk(top.as_fd(), path, flags).err(), want, "{path:?}");
        }
        let canonical = dir.path().canonicalize().unwrap();
        assert!(absolute(&canonical.join("a")).is_ok());
        assert!(absolute(&canonical.join("link")).is_err());
        assert!(absolute(Path::new("relative")).is_err());
        for (path, want) in [
            ("a/b", None),
            ("file", None),
            ("link", Some(Errno::ELOOP)),
            ("link/b", Some(Errno::ELOOP)),
            ("none", Some(Errno::ENOENT)),
        ] {
            assert_eq!(place(&canonical.join(path)).err(), want, "{path:?}");
        }
    }
}
