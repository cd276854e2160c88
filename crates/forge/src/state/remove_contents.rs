//! Empties a directory without ever leaving it, despite concurrent changes.
//!
//! All access goes through directory handles: names are opened below an open directory and never
//! through a link (openat(2) with O_NOFOLLOW), and removed there (unlinkat(2), which removes a link
//! and not its target). So a directory that is swapped for a link is not entered. A tree of any
//! depth costs few descriptors: those near the current directory stay open, and the path to the
//! others is walked again.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::unlinkat;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat};
use rustix::io::{Errno, Result};

/// Open directories kept on the way.
const MAX_OPEN_DIRS: usize = 24;
/// Most things that are named one by one when they could not be removed.
const NAMED: usize = 20;

/// The removed files and directories, or with a dry run those to remove.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RemovalReport {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
    /// The first few remaining entries, each with its reason.
    pub(crate) left: Vec<(PathBuf, String)>,
    /// Number of remaining entries.
    pub(crate) left_count: u64,
}

impl RemovalReport {
    fn record_remaining(
        &mut self,
        way: &[CString],
        name: Option<&CStr>,
        why: impl std::fmt::Display,
    ) {
        self.left_count += 1;
        if self.left.len() < NAMED {
            let names = way.iter().map(CString::as_c_str).chain(name);
            let path = names
                .map(|name| OsStr::from_bytes(name.to_bytes()))
                .collect();
            self.left.push((path, why.to_string()));
        }
    }
}

/// Returns the names in a directory.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory. The bits to list and enter it are given back unless nothing is to change.
fn enter(dir: &OwnedFd, name: &CStr, dry_run: bool) -> Result<OwnedFd> {
    match openat(dir, name, flags(), Mode::empty()) {
        Err(Errno::ACCESS) if !dry_run => {
            give_back_access(dir, name)?;
            openat(dir, name, flags(), Mode::empty())
        }
        opened => opened,
    }
}

/// Changes the mode of a directory that cannot be opened, by a handle on exactly this one.
#[cfg(target_os = "linux")]
fn give_back_access(dir: &OwnedFd, name: &CStr) -> Result<()> {
    let handle = openat(dir, name, flags() | OFlags::PATH, Mode::empty())?;
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::chmod(link, Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn give_back_access(_: &OwnedFd, _: &CStr) -> Result<()> {
    Err(Errno::ACCESS)
}

/// Opens `path` below `base` without following a link anywhere on the way.
pub(crate) fn open_below(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let mut dir = openat(base, ".", flags(), Mode::empty())?;
    for component in path.components() {
        match component {
            Component::Normal(name) => dir = openat(&dir, name, flags(), Mode::empty())?,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::INVAL);
            }
        }
    }
    Ok(dir)
}

/// Removes a file, or a directory with everything in it.
pub(crate) fn remove_entry(parent: &OwnedFd, name: &OsStr) -> Result<()> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    if let RemovedEntry::Directory = remove(parent.as_fd(), &name, false)? {
        remove_contents(&enter(parent, &name, false)?, false)?;
        unlink(parent.as_fd(), &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes everything in `top`, which itself stays; or counts it.
pub(crate) fn remove_contents(top: &OwnedFd, dry_run: bool) -> Result<RemovalReport> {
    let mut work = TreeRemoval {
        top,
        device: device(&fstat(top)?),
        dry_run,
        way: Vec::new(),
        kept: VecDeque::new(),
        removed: RemovalReport::default(),
    };
    let mut levels = vec![work.scan()?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.pop() {
            work.way.push(name);
            let below = match work.scan() {
                Ok(names) => names,
                Err(error) => {
                    work.removed.record_remaining(&work.way, None, error);
                    Vec::new()
                }
            };
            levels.push(below);
        } else {
            levels.pop();
            if let Some(name) = work.way.pop() {
                work.remove_directory(&name);
            }
        }
    }
    Ok(work.removed)
}

struct TreeRemoval<'a> {
    top: &'a OwnedFd,
    /// A file system that is mounted here is left alone.
    device: i128,
    dry_run: bool,
    /// Names from the top to the current directory.
    way: Vec<CString>,
    /// Depth and directory, the deepest last.
    kept: VecDeque<(usize, OwnedFd)>,
    removed: RemovalReport,
}

impl TreeRemoval<'_> {
    /// The current directory.
    fn open(&mut self) -> Result<BorrowedFd<'_>> {
        let depth = self.way.len();
        while self.kept.back().is_some_and(|(at, _)| *at > depth) {
            self.kept.pop_back();
        }
        if self.kept.back().is_none_or(|(at, _)| *at < depth) {
            let (from, base) = match self.kept.back() {
                Some((at, dir)) => (*at, dir.as_fd()),
                None => (0, self.top.as_fd()),
            };
            let mut dir = openat(base, ".", flags(), Mode::empty())?;
            for name in self.way.iter().skip(from) {
                dir = enter(&dir, name, self.dry_run)?;
            }
            if device(&fstat(&dir)?) != self.device {
                return Err(Errno::XDEV);
            }
            self.kept.push_back((depth, dir));
            if self.kept.len() > MAX_OPEN_DIRS {
                self.kept.pop_front();
            }
        }
        match self.kept.back() {
            Some((_, dir)) => Ok(dir.as_fd()),
            None => Ok(self.top.as_fd()),
        }
    }

    /// Removes everything but directories, and returns the directories.
    fn scan(&mut self) -> Result<Vec<CString>> {
        let dry_run = self.dry_run;
        let entries = names(self.open()?)?;
        let mut directories = Vec::new();
        for name in entries {
            let outcome = remove(self.open()?, &name, dry_run);
            match outcome {
                Ok(RemovedEntry::Directory) => directories.push(name),
                Ok(RemovedEntry::File { bytes }) => {
                    self.removed.files += 1;
                    self.removed.bytes += bytes;
                }
                Ok(RemovedEntry::Gone) => {}
                Err(error) => self.removed.record_remaining(&self.way, Some(&name), error),
            }
        }
        Ok(directories)
    }

    /// Removes the directory `name` of the current one after its entries.
    fn remove_directory(&mut self, name: &CStr) {
        if self.dry_run {
            self.removed.directories += 1;
            return;
        }
        let outcome = self
            .open()
            .and_then(|dir| unlink(dir, name, AtFlags::REMOVEDIR));
        match outcome {
            Ok(()) => self.removed.directories += 1,
            Err(Errno::NOENT) => {}
            // It was swapped for something else meanwhile, which is taken away as that.
            Err(Errno::NOTDIR) => match self.open().and_then(|dir| remove(dir, name, false)) {
                Ok(RemovedEntry::File { bytes }) => {
                    self.removed.files += 1;
                    self.removed.bytes += bytes;
                }
                Ok(RemovedEntry::Gone) => {}
                Ok(RemovedEntry::Directory) => {
                    self.removed
                        .record_remaining(&self.way, Some(name), Errno::BUSY)
                }
                Err(error) => self.removed.record_remaining(&self.way, Some(name), error),
            },
            // The remaining entries in it are listed already.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.removed.left_count > 0 => {}
            Err(error) => self.removed.record_remaining(&self.way, Some(name), error),
        }
    }
}

enum RemovedEntry {
    Directory,
    File { bytes: u64 },
    Gone,
}

fn remove(dir: BorrowedFd<'_>, name: &CStr, dry_run: bool) -> Result<RemovedEntry> {
    let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(RemovedEntry::Gone),
        Err(error) => return Err(error),
    };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Ok(RemovedEntry::Directory);
    }
    let bytes = bytes_of(&stat);
    if dry_run {
        return Ok(RemovedEntry::File { bytes });
    }
    match unlink(dir, name, AtFlags::empty()) {
        Ok(()) => Ok(RemovedEntry::File { bytes }),
        Err(Errno::NOENT) => Ok(RemovedEntry::Gone),
        // A directory since the look.
        Err(Errno::ISDIR | Errno::PERM) if is_directory(dir, name) => Ok(RemovedEntry::Directory),
        Err(error) => Err(error),
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Its type differs from system to system.
fn device(stat: &Stat) -> i128 {
    i128::from(stat.st_dev)
}

fn bytes_of(stat: &Stat) -> u64 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
        _ => 0,
    }
}

/// Package caches take the write bit from their directories; it is given back on the handle.
fn unlink(dir: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
    match unlinkat(dir, name, flags) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(fstat(dir)?.st_mode & 0o7777);
            fchmod(dir, mode | Mode::RWXU)?;
            unlinkat(dir, name, flags)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> OwnedFd {
        rustix::fs::open(dir, flags(), Mode::empty()).unwrap()
    }

    #[test]
    fn everything_goes_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (zone, kept) = (dir.path().join("zone"), dir.path().join("kept"));
        std::fs::create_dir_all(zone.join("a/b")).unwrap();
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("precious"), "x").unwrap();
        std::fs::write(zone.join("a/b/file"), "12345").unwrap();
        std::os::unix::fs::symlink(&kept, zone.join("a/link")).unwrap();
        std::os::unix::fs::symlink("nowhere", zone.join("dangling")).unwrap();
        let expected = RemovalReport {
            files: 3,
            directories: 2,
            bytes: 5,
            ..RemovalReport::default()
        };
        assert_eq!(remove_contents(&open(&zone), true).unwrap(), expected);
        assert!(zone.join("a/b/file").exists());
        assert_eq!(remove_contents(&open(&zone), false).unwrap(), expected);
        assert_eq!(std::fs::read_dir(&zone).unwrap().count(), 0);
        assert!(kept.join("precious").exists());
    }

    #[test]
    fn a_tree_deeper_than_descriptors_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = open(dir.path());
        for _ in 0..1100 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", flags(), Mode::empty()).unwrap();
        }
        drop(at);
        let top = open(dir.path());
        assert_eq!(remove_contents(&top, true).unwrap().directories, 1100);
        assert_eq!(remove_contents(&top, false).unwrap().directories, 1100);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_way_through_a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("real/zone")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let base = open(dir.path());
        assert!(open_below(base.as_fd(), Path::new("real/zone")).is_ok());
        for way in ["link/zone", "real/../real", "/", "absent"] {
            assert!(open_below(base.as_fd(), Path::new(way)).is_err(), "{way}");
        }
    }

    /// A directory that is swapped for a link all the time is never entered through the link.
    #[test]
    fn a_swap_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (zone, kept) = (dir.path().join("zone"), dir.path().join("kept"));
        std::fs::create_dir_all(&zone).unwrap();
        std::fs::create_dir_all(kept.join("deep")).unwrap();
        for n in 0..50 {
            std::fs::write(kept.join(format!("file-{n}")), "x").unwrap();
            std::fs::write(kept.join(format!("deep/file-{n}")), "x").unwrap();
        }
        let stop = std::sync::atomic::AtomicBool::new(false);
        let swaps = std::thread::scope(|scope| {
            let swapper = scope.spawn(|| {
                let (real, link) = (zone.join("d"), zone.join("l"));
                let mut swaps = 0u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // Each step may fail, since the other side removes what it meets.
                    let _ = std::fs::create_dir_all(real.join("deep"));
                    let _ = std::fs::write(real.join("deep/x"), "x");
                    let _ = std::os::unix::fs::symlink(&kept, &link);
                    let exchanged = rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        &real,
                        rustix::fs::CWD,
                        &link,
                        rustix::fs::RenameFlags::EXCHANGE,
                    );
                    swaps += u32::from(exchanged.is_ok());
                }
                swaps
            });
            let top = open(&zone);
            let end = std::time::Instant::now() + std::time::Duration::from_millis(700);
            while std::time::Instant::now() < end {
                let _ = remove_contents(&top, false);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            swapper.join().unwrap()
        });
        assert!(swaps > 0, "nothing was swapped, so nothing was shown");
        // The swapper writes through its own link, so there may be more; never less.
        for n in 0..50 {
            assert!(kept.join(format!("file-{n}")).exists());
            assert!(kept.join(format!("deep/file-{n}")).exists());
        }
    }
}
