//! Listings of directories below a mount, and which of them can be used a second time: a directory
//! whose times have not changed since it was listed still has the same names, so a walk after the
//! end of a command costs one `statx` for each directory and lists only those that changed.
//!
//! Nobody but the superuser can set the change time of a directory (`utimensat` sets the others),
//! and every name that is made, removed or renamed moves it on. It moves in ticks of the kernel's
//! coarse clock, so a directory that changed a moment before it was listed is listed again.

use super::below;
use super::view::HostMount;
use nix::errno::Errno;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, fstatfs, openat, openat2,
    statat,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long ago a directory must have changed for its times to tell a later change: file systems
/// count in ticks of at most two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// How much the clock may have been set between two walks.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(500);
/// Room for the entries of one `getdents64`.
const BUFFER_BYTES: usize = 64 << 10;

/// File systems whose change times are this kernel's own (`linux/magic.h`): ext2 to ext4, XFS,
/// Btrfs, tmpfs, overlayfs, F2FS, bcachefs, ZFS. A server's clock, or a program's, can say anything.
const KEEPS_TIMES: [i64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
];

/// The names of one directory that can matter.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<(OsString, FileType)>,
    /// All of them, also those that cannot matter.
    pub(super) count: usize,
    /// Nothing was left out.
    pub(super) whole: bool,
}

/// Which file a directory is, and when it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    changed: (i64, u64),
    modified: (i64, u64),
}

/// The directories that a walk has listed, by their path below the mount.
#[derive(Debug)]
pub(crate) struct Memory {
    listed: HashMap<PathBuf, (Stamp, Arc<Listing>)>,
    clock: Clock,
    /// By device: whether its times can be believed.
    devices: HashMap<u64, bool>,
}

/// The time of day against a clock that nobody can set.
#[derive(Clone, Copy, Debug)]
struct Clock(SystemTime, Instant);

impl Default for Memory {
    fn default() -> Self {
        Memory {
            listed: HashMap::new(),
            clock: Clock(SystemTime::now(), Instant::now()),
            devices: HashMap::new(),
        }
    }
}

impl Clock {
    fn was_set(self) -> bool {
        let (day, steady) = (self.0.elapsed(), self.1.elapsed());
        match day {
            Ok(day) => day.abs_diff(steady) > MAX_CLOCK_STEP,
            Err(_) => true,
        }
    }
}

/// Lists directories for one walk, with the memory of an earlier one.
pub(super) struct Lister<'a> {
    mount: &'a HostMount,
    earlier: Option<&'a mut Memory>,
    pub(super) memory: Memory,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl<'a> Lister<'a> {
    pub(super) fn new(mount: &'a HostMount, earlier: Option<&'a mut Memory>) -> Lister<'a> {
        Lister {
            mount,
            earlier: earlier.filter(|memory| !memory.clock.was_set()),
            memory: Memory::default(),
            buffer: Box::new_uninit_slice(BUFFER_BYTES),
        }
    }

    /// The listing of a directory, from memory if nothing has changed since. Directories, links and
    /// local sockets are always in it; `matters` says which other names to keep, `whole` asks for all of them.
    pub(super) fn list(
        &mut self,
        below: &Path,
        whole: bool,
        matters: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Arc<Listing>, Errno> {
        if let Some(listing) = self.unchanged(below, whole) {
            return Ok(listing);
        }
        let directory = open(self.mount.handle.as_fd(), below)?;
        let now = SystemTime::now();
        let stat = fstat(&directory).map_err(errno)?;
        if stat.st_mode & 0o111 != 0o111 {
            // Who may list it and not enter it knows nothing of what is in it.
            statat(&directory, ".", AtFlags::empty()).map_err(errno)?;
        }
        let listing = Arc::new(self.read(directory.as_fd(), whole, matters)?);
        if self.tells_changes(directory.as_fd(), &stat, now) {
            let kept = (Stamp::of(&stat), Arc::clone(&listing));
            self.memory.listed.insert(below.to_owned(), kept);
        }
        Ok(listing)
    }

    fn unchanged(&mut self, below: &Path, whole: bool) -> Option<Arc<Listing>> {
        let earlier = self.earlier.as_mut()?;
        let (stamp, listing) = earlier.listed.get(below)?;
        if whole && !listing.whole {
            return None;
        }
        let name = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        // A link on the way would lead to another directory, or to the same one.
        let stat = statat(&self.mount.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if Stamp::of(&stat) != *stamp {
            return None;
        }
        let (path, (stamp, listing)) = earlier.listed.remove_entry(below)?;
        let kept = (stamp, Arc::clone(&listing));
        self.memory.listed.insert(path, kept);
        Some(listing)
    }

    fn read(
        &mut self,
        directory: BorrowedFd<'_>,
        whole: bool,
        matters: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Listing, Errno> {
        let mut listing = Listing {
            whole,
            ..Listing::default()
        };
        let mut raw = RawDir::new(directory, &mut self.buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            listing.count += 1;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let looked = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                    match looked {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        // Gone by now.
                        Err(_) => continue,
                    }
                }
                kind => kind,
            };
            let kept = kind.is_dir() || kind.is_symlink() || kind == FileType::Socket;
            if whole || kept || matters(name) {
                let name = OsStr::from_bytes(name).to_owned();
                listing.entries.push((name, kind));
            }
        }
        Ok(listing)
    }

    /// Whether a later change of this directory will show in its times.
    fn tells_changes(&mut self, directory: BorrowedFd<'_>, stat: &Stat, now: SystemTime) -> bool {
        let changed = u64::try_from(stat.st_ctime).unwrap_or(u64::MAX);
        let changed = UNIX_EPOCH.checked_add(Duration::from_secs(changed));
        let settled = changed.is_some_and(|changed| {
            now.duration_since(changed)
                .is_ok_and(|age| age > SETTLED_AFTER)
        });
        settled
            && *self.memory.devices.entry(stat.st_dev).or_insert_with(|| {
                let system = fstatfs(directory);
                system.is_ok_and(|system| KEEPS_TIMES.contains(&system.f_type))
            })
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            file: (stat.st_dev, stat.st_ino),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// Opens a directory for listing, without following a link on the way to it.
fn open(top: BorrowedFd<'_>, below: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if below.as_os_str().is_empty() {
        return openat(top, ".", flags, Mode::empty()).map_err(errno);
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(top, below, flags, Mode::empty(), resolve).map_err(errno) {
        // Before Linux 5.6, or behind a filter that does not know it.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            let place = below::directory(top, below)?;
            openat(&place, ".", flags, Mode::empty()).map_err(errno)
        }
        opened => opened,
    }
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}
