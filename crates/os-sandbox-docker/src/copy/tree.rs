//! Access to a directory by descriptor, one name at a time and never through a link. If another
//! process swaps a directory for a link, the broker must not write to the link's target.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, symlinkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Identity of a file's version, which tells whether another process has changed the file
/// meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    device: nix::libc::dev_t,
    inode: nix::libc::ino_t,
    size: i64,
    modified: (i64, i64),
}

impl FileVersion {
    pub(super) fn of(stat: &FileStat) -> FileVersion {
        FileVersion {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// Opens the directory at a path of the caller's own.
pub(super) fn top(path: &Path) -> io::Result<OwnedFd> {
    let path = std::fs::canonicalize(path)?;
    Ok(nix::fcntl::open(&path, DIRECTORY, Mode::empty())?)
}

pub(super) fn enter(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(at, name, DIRECTORY, Mode::empty())
}

/// Opens the directory that contains the last name of `below`; returns it with that name.
pub(super) fn around<'a>(
    top: BorrowedFd<'_>,
    below: &'a Path,
) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let name = below.file_name().ok_or(Errno::EINVAL)?;
    let mut at = openat(top, ".", DIRECTORY, Mode::empty())?;
    for part in below.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else {
            return Err(Errno::EXDEV);
        };
        at = enter(at.as_fd(), part)?;
    }
    Ok((at, name))
}

/// Returns the status of a name, without following a link.
pub(super) fn look(at: BorrowedFd<'_>, name: &OsStr) -> Result<FileStat, Errno> {
    fstatat(at, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

pub(super) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// Returns the permissions that are copied: none of the bits that change a program's user or group.
pub(super) fn permissions(stat: &FileStat) -> u32 {
    // The type of the field differs between systems.
    u32::try_from(i64::from(stat.st_mode) & 0o777).unwrap_or_default()
}

/// Opens a regular file for reading; returns it with its present status.
pub(super) fn file(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<(File, FileStat)> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(at, name, flags, Mode::empty())?);
    let stat = nix::sys::stat::fstat(&file)?;
    match kind(&stat) {
        SFlag::S_IFREG => Ok((file, stat)),
        _ => Err(io::Error::from(Errno::EINVAL)),
    }
}

/// Returns `true` unless the name does not exist or is a regular file without a private key.
pub(super) fn is_key(at: BorrowedFd<'_>, name: Option<&OsStr>) -> bool {
    let Some(name) = name else { return true };
    match file(at, name) {
        Ok((file, _)) => os_sandbox::mechanism::is_key(file),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

pub(super) fn link(at: BorrowedFd<'_>, name: &OsStr) -> Result<OsString, Errno> {
    readlinkat(at, name)
}

/// Returns the names in a directory in a stable order, at most `most` and one more.
pub(super) fn names(directory: BorrowedFd<'_>, most: usize) -> Result<Vec<OsString>, Errno> {
    let again = openat(directory, ".", DIRECTORY, Mode::empty())?;
    let mut out = Vec::new();
    for entry in Dir::from_fd(again)?.iter() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            out.push(name.to_owned());
        }
        if out.len() > most {
            break;
        }
    }
    out.sort();
    Ok(out)
}

/// Owner and permissions of new entries of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileAttributes {
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

pub(super) fn make_directory(
    at: BorrowedFd<'_>,
    name: &OsStr,
    shape: FileAttributes,
) -> io::Result<()> {
    mkdirat(at, name, Mode::S_IRWXU)?;
    // Another process may have replaced the directory. The attributes belong to the new directory
    // only, so it is opened without following a link.
    let made = File::from(enter(at, name)?);
    own(&made, shape)
}

pub(super) fn set_mode(at: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    let stat = look(at, name)?;
    let file = match kind(&stat) {
        SFlag::S_IFDIR => File::from(enter(at, name)?),
        SFlag::S_IFREG => file(at, name)?.0,
        _ => return Ok(()),
    };
    file.set_permissions(PermissionsExt::from_mode(mode & 0o777))
}

/// Writes a new file under an unused name, and renames it to `name` when it is complete.
pub(super) fn replace(
    at: BorrowedFd<'_>,
    name: &OsStr,
    shape: FileAttributes,
    modified: SystemTime,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    aside(at, name, |aside| {
        let mut file = File::from(openat(at, aside, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        write(&mut file)?;
        own(&file, shape)?;
        file.set_times(FileTimes::new().set_modified(modified))
    })
}

/// Makes a new link under an unused name, and renames it to `name`. The link is never followed
/// here.
pub(super) fn replace_link(
    at: BorrowedFd<'_>,
    name: &OsStr,
    to: &OsStr,
    owner: (u32, u32),
) -> io::Result<()> {
    aside(at, name, |aside| {
        symlinkat(to, at, aside)?;
        let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        match nix::unistd::geteuid().is_root() {
            true => Ok(fchownat(
                at,
                aside,
                Some(uid),
                Some(gid),
                AtFlags::AT_SYMLINK_NOFOLLOW,
            )?),
            false => Ok(()),
        }
    })
}

/// Makes an entry under another name and renames it; removes it again if that fails.
fn aside(
    at: BorrowedFd<'_>,
    name: &OsStr,
    make: impl FnOnce(&OsStr) -> io::Result<()>,
) -> io::Result<()> {
    let aside = OsString::from(format!(
        ".os-sandbox-new.{:016x}",
        os_sandbox::mechanism::random()
    ));
    let done = make(&aside).and_then(|()| Ok(renameat(at, aside.as_os_str(), at, name)?));
    if done.is_err() {
        let _gone = unlinkat(at, aside.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    done
}

pub(super) fn remove(at: BorrowedFd<'_>, name: &OsStr, directory: bool) -> Result<(), Errno> {
    let flag = match directory {
        true => UnlinkatFlags::RemoveDir,
        false => UnlinkatFlags::NoRemoveDir,
    };
    unlinkat(at, name, flag)
}

/// Sets the permissions of a new file, and its owner if that is not the user who made it.
fn own(file: &File, shape: FileAttributes) -> io::Result<()> {
    let meta = file.metadata()?;
    if nix::unistd::geteuid().is_root() && (meta.uid(), meta.gid()) != shape.owner {
        std::os::unix::fs::fchown(file, Some(shape.owner.0), Some(shape.owner.1))?;
    }
    file.set_permissions(PermissionsExt::from_mode(shape.mode & 0o777))
}

/// Returns a path of an archive or a manifest as names only; `None` if it has other components.
pub(super) fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}
