//! The quarantine directory of a mount, into which the scan after the end moves names.
//!
//! Entry point: [`Quarantine::take`]. A move that fails leaves nothing in the quarantine. Git
//! recognizes no repository in it, because the names that make one have an ending there
//! ([`quarantined_name`]): a command after this one could lead a person's git to it.

use super::super::below;
use super::super::host_mount::HostMount;
use super::quarantine_record;
use super::saved::SavedFile;
use crate::quarantine::QUARANTINE;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use sandbox_names::quarantined_name;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bound on the entries that are moved at a time.
const MAX_ENTRIES: usize = 1_000_000;

/// The ignore rules of git in the quarantine.
const IGNORE: &str = ".gitignore";

/// Device, inode, and time of birth, where the file system has one: the number of a file that is
/// removed can be the next one's.
pub(super) type FileIdentity = (u64, u64, Option<SystemTime>);

pub(super) fn identity_at(parent: &OwnedFd, name: &OsStr) -> Result<FileIdentity, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let place = openat(parent, name, flags, Mode::empty())?;
    let meta = File::from(place).metadata();
    let meta = meta.map_err(|error| below::errno(&error))?;
    Ok((meta.dev(), meta.ino(), meta.created().ok()))
}

/// Quarantine directory in one mount, created on first use, and removed with the value if nothing was
/// moved to it.
pub(super) struct Quarantine<'a> {
    mount: &'a HostMount,
    pub(super) id: &'a str,
    top: Option<RunQuarantine>,
    count: usize,
    /// The state directory; `None` without one.
    state: Option<&'a Path>,
    /// The reason why the last file was not put back.
    pub(super) not_restored: Option<Errno>,
    /// The reason why a repository in the last file may still be one.
    pub(super) not_disabled: Option<Errno>,
}

/// The directory of one run.
struct RunQuarantine {
    /// The directory of all runs, and its name.
    all: (OwnedFd, OsString),
    directory: OwnedFd,
}

/// Directories that were created for one move, each with its parent and name, outermost first.
type CreatedDirs = Vec<(OwnedFd, OsString)>;

impl<'a> Quarantine<'a> {
    pub(super) fn new(
        mount: &'a HostMount,
        id: &'a str,
        state: Option<&'a Path>,
    ) -> Quarantine<'a> {
        Quarantine {
            mount,
            id,
            top: None,
            count: 0,
            state,
            not_restored: None,
            not_disabled: None,
        }
    }

    /// Moves the file at `below`, and puts a saved one in its place. Returns the new path, or `None` if
    /// there was nothing to move. One directory is opened for all of it: another program may exchange
    /// the directories around the name, and ESTALE says that the file is the `original` one, from
    /// before the start.
    pub(super) fn take(
        &mut self,
        below: &Path,
        original: Option<FileIdentity>,
        saved: Option<&SavedFile>,
    ) -> Result<Option<PathBuf>, Errno> {
        let (Some(name), Some(around)) = (below.file_name(), below.parent()) else {
            return Err(Errno::EINVAL);
        };
        let parent = below::directory(self.mount.handle.as_fd(), around)?;
        if original.is_some() && identity_at(&parent, name).ok() == original {
            return Err(Errno::ESTALE);
        }
        let aside = match saved.map(|saved| saved.exchange(&parent, name, self.id)) {
            Some(Ok(None)) => return Ok(None),
            Some(Ok(Some(aside))) => aside,
            Some(Err(errno)) => {
                self.not_restored = Some(errno);
                name.to_owned()
            }
            None => name.to_owned(),
        };
        if let Ok(moved) = self.move_in(&parent, &aside, below) {
            self.not_disabled = disable(self.mount.handle.as_fd(), &moved).err();
            let moved = self.mount.host.join(moved);
            if let Some(state) = self.state {
                quarantine_record::append(state, self.id, &moved, None);
            }
            return Ok(Some(moved));
        }
        // Another file system is mounted below, or the quarantine is full or cannot be written: the
        // file is renamed in its own directory.
        self.count += 1;
        let last = format!("{QUARANTINE}.{}.{}", self.id, self.count);
        rename(&parent, &aside, &parent, OsStr::new(&last))?;
        self.not_disabled = disable(self.mount.handle.as_fd(), &around.join(&last)).err();
        let moved = self.mount.host.join(around).join(last);
        if let Some(state) = self.state {
            quarantine_record::append(state, self.id, &moved, Some(name));
        }
        Ok(Some(moved))
    }

    /// Moves a file to the path `place` of the quarantine. Returns its path below the mount.
    fn move_in(&mut self, from: &OwnedFd, name: &OsStr, place: &Path) -> Result<PathBuf, Errno> {
        let (Some(as_name), Some(around)) = (place.file_name(), place.parent()) else {
            return Err(Errno::EINVAL);
        };
        let id = self.id;
        let as_name = quarantined_name(as_name).unwrap_or_else(|| as_name.to_owned());
        let top = self.top()?;
        let mut created = CreatedDirs::new();
        let moved = deep(top.directory.as_fd(), around, &mut created)
            .and_then(|to| rename(from, name, &to, &as_name));
        if moved.is_err() {
            for (parent, name) in created.iter().rev() {
                let _ = unlinkat(parent, name.as_os_str(), UnlinkatFlags::RemoveDir);
            }
        }
        let place = around.join(&as_name);
        moved.map(|()| Path::new(&top.all.1).join(id).join(place))
    }

    fn top(&mut self) -> Result<&RunQuarantine, Errno> {
        let top = match self.top.take() {
            Some(top) => top,
            None => self.make()?,
        };
        Ok(self.top.insert(top))
    }

    fn make(&self) -> Result<RunQuarantine, Errno> {
        let root = self.mount.handle.as_fd();
        // A command may have created another file with this name.
        let aside = format!("{QUARANTINE}.{}", self.id);
        for name in [QUARANTINE, &aside] {
            let name = OsString::from(name);
            let made = enter(root, &name)
                .and_then(|(all, _)| Ok((enter(all.as_fd(), OsStr::new(self.id))?.0, all)));
            if let Ok((directory, all)) = made {
                ignore(&all);
                let all = (all, name);
                return Ok(RunQuarantine { all, directory });
            }
        }
        Err(Errno::EEXIST)
    }
}

impl Drop for Quarantine<'_> {
    /// Removes records of files that are gone, and directories without content. Others are not empty, so the
    /// system keeps them.
    fn drop(&mut self) {
        let Some(top) = self.top.take() else { return };
        if let Some(state) = self.state {
            quarantine_record::clear(state);
        }
        let (all, name) = &top.all;
        let removed = unlinkat(all, self.id, UnlinkatFlags::RemoveDir);
        if removed.is_ok() && holds_rules_only(all) {
            let _ = unlinkat(all, IGNORE, UnlinkatFlags::NoRemoveDir);
            let root = &self.mount.handle;
            if unlinkat(root, name.as_os_str(), UnlinkatFlags::RemoveDir).is_err() {
                ignore(all);
            }
        }
    }
}

/// Returns `true` for a quarantine without the directory of a run.
fn holds_rules_only(all: &OwnedFd) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut directory) = Dir::openat(all, ".", flags, Mode::empty()) else {
        return false;
    };
    let mut names = directory.iter();
    names.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_bytes();
            matches!(name, b"." | b"..") || name == IGNORE.as_bytes()
        })
    })
}

/// Keeps git from listing the quarantine. If it cannot be written, git lists it.
fn ignore(all: &OwnedFd) {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    if let Ok(file) = openat(all, IGNORE, flags, Mode::from_bits_truncate(0o600)) {
        let _ = File::from(file).write_all(b"*\n");
    }
}

/// Opens the directories of `path` below `top`, and creates missing ones.
fn deep(top: BorrowedFd<'_>, path: &Path, created: &mut CreatedDirs) -> Result<OwnedFd, Errno> {
    let mut at = below::directory(top, Path::new(""))?;
    for name in path {
        let (next, is_new) = enter(at.as_fd(), name)?;
        let parent = std::mem::replace(&mut at, next);
        if is_new {
            created.push((parent, name.to_owned()));
        }
    }
    Ok(at)
}

/// Opens a directory, and creates it if it is missing: then `true`.
fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, bool), Errno> {
    match mkdirat(parent, name, Mode::from_bits_truncate(0o700)) {
        Ok(()) => Ok((open(parent, name)?, true)),
        Err(Errno::EEXIST) => Ok((open(parent, name)?, false)),
        Err(errno) => Err(errno),
    }
}

fn open(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Renames the files that make repositories in a directory, and everything below it, of which git would
/// obey the configuration. A file has none.
fn disable(top: BorrowedFd<'_>, below: &Path) -> Result<(), Errno> {
    let mut queue = vec![below.to_owned()];
    let mut count = 0;
    while let Some(path) = queue.pop() {
        let directory = match below::directory(top, &path) {
            Err(Errno::ENOTDIR | Errno::ELOOP) if path == below => return Ok(()),
            opened => opened?,
        };
        let mode = fstat(&directory)?.st_mode & 0o7777;
        let is_closed = mode & 0o700 != 0o700;
        if is_closed {
            below::set_mode(directory.as_fd(), mode | 0o700).map_err(|e| below::errno(&e))?;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::openat(&directory, ".", flags, Mode::empty())?.iter() {
            names.push(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        for name in names.iter().filter(|name| *name != "." && *name != "..") {
            count += 1;
            if count > MAX_ENTRIES {
                return Err(Errno::E2BIG);
            }
            if below::kind(&below::look(directory.as_fd(), name)?) == SFlag::S_IFDIR {
                queue.push(path.join(name));
            } else if let Some(new) = quarantined_name(name) {
                renameat2(
                    &directory,
                    &**name,
                    &directory,
                    &*new,
                    RenameFlags::RENAME_NOREPLACE,
                )?;
            }
        }
        if is_closed {
            below::set_mode(directory.as_fd(), mode).map_err(|e| below::errno(&e))?;
        }
    }
    Ok(())
}

/// Renames a file, also if its owner removed the necessary permissions: a directory that changes
/// its parent must be writable itself, and so must both parents.
fn rename(from: &OwnedFd, name: &OsStr, to: &OwnedFd, as_name: &OsStr) -> Result<(), Errno> {
    let once = || renameat2(from, name, to, as_name, RenameFlags::RENAME_NOREPLACE);
    match once() {
        Err(Errno::EACCES) => {}
        other => return other,
    }
    let mode = |directory: &OwnedFd| fstat(directory).map(|stat| stat.st_mode & 0o7777);
    let of_parent = mode(from)?;
    // A failure here occurs again below, with the better errno.
    let _ = below::set_mode(from.as_fd(), of_parent | 0o700);
    let directory = open(from.as_fd(), name).and_then(|one| Ok((mode(&one)?, one)));
    if let Ok((_, directory)) = &directory {
        let _ = below::set_mode(directory.as_fd(), 0o700);
    }
    let moved = once();
    if let (Err(_), Ok((of_directory, directory))) = (moved, &directory) {
        let _ = below::set_mode(directory.as_fd(), *of_directory);
    }
    let _ = below::set_mode(from.as_fd(), of_parent);
    moved
}
