//! Gives a file content of its own. Names are protected by their paths, and a hard link is another
//! path to the same content.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, fchown, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// Bound on the directories in each other, each of which is open meanwhile.
const MAX_DEPTH: usize = 64;
/// Name of the copy until it takes the place of the file.
const COPY: &str = ".os-sandbox-quarantine.copy";

/// Copies a file in `parent`, and each file below a directory, that has another name too: the copy
/// takes the place of this name, and a change by another name no longer reaches it. Follows no link.
///
/// # Errors
/// If a file cannot be read or replaced. Those before it are copied already.
///
/// ```
/// use os_sandbox::separate_names;
/// use std::{fs, os::fd::AsFd, os::unix::fs::MetadataExt};
///
/// let dir = tempfile::tempdir()?;
/// fs::write(dir.path().join("a"), "text")?;
/// fs::hard_link(dir.path().join("a"), dir.path().join("b"))?;
/// separate_names(fs::File::open(dir.path())?.as_fd(), "a".as_ref())?;
/// assert_eq!(fs::metadata(dir.path().join("a"))?.nlink(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn separate_names(parent: BorrowedFd<'_>, name: &OsStr) -> std::io::Result<()> {
    separate(parent, name, MAX_DEPTH)
}

fn separate(parent: BorrowedFd<'_>, name: &OsStr, depth: usize) -> std::io::Result<()> {
    let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    let is = |stat: &FileStat, kind: SFlag| stat.st_mode & SFlag::S_IFMT.bits() == kind.bits();
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    if is(&stat, SFlag::S_IFDIR) {
        let depth = depth.checked_sub(1).ok_or(Errno::ELOOP)?;
        let mut dir = Dir::openat(parent, name, flags | OFlag::O_DIRECTORY, Mode::empty())?;
        let entries = dir
            .iter()
            .map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
        let names: Vec<OsString> = entries.collect::<Result<_, Errno>>()?;
        let mut names = names.iter().filter(|name| *name != "." && *name != "..");
        return names.try_for_each(|name| separate(dir.as_fd(), name, depth));
    }
    if !is(&stat, SFlag::S_IFREG) || stat.st_nlink == 1 {
        return Ok(());
    }
    let mut source = File::from(openat(parent, name, flags, Mode::empty())?);
    let stat = fstat(&source)?;
    if !is(&stat, SFlag::S_IFREG) {
        return Err(Errno::ESTALE.into());
    }
    let flags = flags | OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
    let mut copy = File::from(openat(
        parent,
        COPY,
        flags,
        Mode::from_bits_truncate(0o600),
    )?);
    let mut replace = || {
        std::io::copy(&mut source, &mut copy)?;
        // Only the administrator can give a file away.
        let _ = fchown(&copy, Some(stat.st_uid.into()), Some(stat.st_gid.into()));
        copy.set_permissions(Permissions::from_mode(stat.st_mode as u32 & 0o777))?;
        copy.set_modified(source.metadata()?.modified()?)?;
        Ok(renameat(parent, COPY, parent, name)?)
    };
    replace().inspect_err(|_| {
        let _ = unlinkat(parent, COPY, UnlinkatFlags::NoRemoveDir);
    })
}
