//! Listings of directories below a mount, reused by later walks: a directory whose times have not
//! changed since its listing still has the same names, so a walk after the end of a command costs
//! one `statx` for each directory and lists only the changed ones.
//!
//! Only the superuser can set the change time of a directory (`utimensat` sets the others), and
//! every name that is created, removed or renamed advances it. It advances in ticks of the kernel's
//! coarse clock, so a directory that changed a moment before its listing is listed again.

use super::super::below;
use super::super::host_mount::HostMount;
use nix::errno::Errno;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, fstatfs, openat, openat2,
    statat,
};
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Minimum age of a directory's last change for its times to reveal a later change: file systems
/// count in ticks of at most two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// Maximum correction of the clock between two walks.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(500);
/// Size of the buffer for one `getdents64`.
const BUFFER_BYTES: usize = 64 << 10;
/// Minimum number of directories for which threads are started.
const MIN_AHEAD: usize = 128;
/// Bound on the directories that are listed ahead of the walk.
const MAX_AHEAD: usize = 8192;
const MAX_THREADS: usize = 4;

/// File systems whose change times come from this kernel (`linux/magic.h`): ext2 to ext4, XFS,
/// Btrfs, tmpfs, overlayfs, F2FS, bcachefs, ZFS. The clock of a server or of a program can report
/// any time.
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

/// Relevant names of one directory.
#[derive(Debug, Default)]
pub(super) struct CachedListing {
    pub(super) entries: Vec<(OsString, FileType)>,
    /// Number of all entries, including irrelevant ones.
    pub(super) count: usize,
    /// `true` if the listing has every entry.
    pub(super) whole: bool,
}

/// Identity of a directory, and the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirStamp {
    file: (u64, u64),
    changed: (i64, u64),
    modified: (i64, u64),
}

/// The directories that a walk has listed, by their path below the mount.
#[derive(Debug)]
pub(crate) struct ListingCache {
    listed: HashMap<PathBuf, (DirStamp, Arc<CachedListing>)>,
    clock: WallClock,
    /// `true` for devices with reliable times.
    devices: HashMap<u64, bool>,
}

/// Time of day, paired with a clock that cannot be set.
#[derive(Clone, Copy, Debug)]
struct WallClock(SystemTime, Instant);

impl Default for ListingCache {
    fn default() -> Self {
        ListingCache {
            listed: HashMap::new(),
            clock: WallClock(SystemTime::now(), Instant::now()),
            devices: HashMap::new(),
        }
    }
}

impl WallClock {
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
    earlier: Option<&'a mut ListingCache>,
    /// Selects names, beside the directories, links and local sockets, which every listing has.
    matters: &'a (dyn Fn(&[u8]) -> bool + Sync),
    pub(super) memory: ListingCache,
    buffer: Buffer,
    /// Directories examined ahead of the walk, in the order in which it reaches them.
    ahead: VecDeque<(PathBuf, Ahead)>,
    /// Directories that the walk reaches before listing ahead is due again.
    considered: usize,
}

type Buffer = Box<[MaybeUninit<u8>]>;

/// Result for a directory that the walk has not reached yet.
enum Ahead {
    Listed(FreshListing),
    /// The listing of the earlier walk is still true.
    Unchanged,
    /// The walk has to examine the directory itself.
    Unknown,
}

/// A directory that was just listed.
struct FreshListing {
    listing: CachedListing,
    stamp: DirStamp,
    /// `true` if its last change is old enough for its times to tell a later one.
    settled: bool,
    /// `true` if its file system keeps reliable times.
    keeps_times: bool,
}

impl<'a> Lister<'a> {
    pub(super) fn new(
        mount: &'a HostMount,
        earlier: Option<&'a mut ListingCache>,
        matters: &'a (dyn Fn(&[u8]) -> bool + Sync),
    ) -> Lister<'a> {
        Lister {
            mount,
            earlier: earlier.filter(|memory| !memory.clock.was_set()),
            matters,
            memory: ListingCache::default(),
            buffer: Box::new_uninit_slice(BUFFER_BYTES),
            ahead: VecDeque::new(),
            considered: 0,
        }
    }

    /// Counts a directory that the walk reaches. Returns `true` if listing ahead is due.
    pub(super) fn is_due(&mut self) -> bool {
        let rest = self.considered.checked_sub(1);
        self.considered = rest.unwrap_or(0);
        rest.is_none()
    }

    /// Examines directories that the walk will reach, on several threads, if their number is worth
    /// it. [`Lister::list`] reports the errors.
    pub(super) fn list_ahead<'p>(&mut self, pending: impl Iterator<Item = &'p PathBuf>) {
        // Why: an unused listing is older than this call.
        self.ahead.clear();
        let pending: Vec<&PathBuf> = pending.take(MAX_AHEAD).collect();
        self.considered = pending.len().saturating_sub(1);
        if pending.len() < MIN_AHEAD {
            return;
        }
        let threads = available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        if threads == 1 {
            return;
        }
        let (top, matters) = (self.mount.handle.as_fd(), self.matters);
        let devices = &self.memory.devices;
        let earlier = self.earlier.as_ref().map(|memory| &memory.listed);
        let look = |below: &Path, buffer: &mut Buffer| {
            if let Some((stamp, _)) = earlier.and_then(|listed| listed.get(below)) {
                return match is_unchanged(top, below, *stamp) {
                    true => Ahead::Unchanged,
                    false => Ahead::Unknown,
                };
            }
            let fresh = list_fresh(top, below, false, matters, buffer, devices);
            fresh.map_or(Ahead::Unknown, Ahead::Listed)
        };
        let next = AtomicUsize::new(0);
        let look_at_some = |buffer: &mut Buffer| {
            let mut looked = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(below) = pending.get(index) else {
                    return looked;
                };
                looked.push((index, look(below, buffer)));
            }
        };
        let looked = on_threads(threads, &mut self.buffer, &look_at_some);
        // The walk examines the directories without a result itself.
        let unknown = pending
            .iter()
            .map(|below| ((*below).clone(), Ahead::Unknown));
        self.ahead = unknown.collect();
        for (index, result) in looked {
            if let Some((_, ahead)) = self.ahead.get_mut(index) {
                *ahead = result;
            }
        }
    }

    /// Drops the listings ahead, because directories have moved since.
    pub(super) fn forget_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Returns the listing of a directory, from memory if the directory has not changed since. `whole`
    /// asks for all names.
    pub(super) fn list(&mut self, below: &Path, whole: bool) -> Result<Arc<CachedListing>, Errno> {
        let ahead = match self.ahead.front() {
            Some((path, _)) if path == below => self.ahead.pop_front(),
            Some(_) | None => None,
        };
        let ahead = ahead.map_or(Ahead::Unknown, |(_, ahead)| ahead);
        let is_unchanged = matches!(ahead, Ahead::Unchanged);
        if let Some(listing) = self.unchanged(below, whole, is_unchanged) {
            return Ok(listing);
        }
        let fresh = match ahead {
            Ahead::Listed(fresh) if fresh.listing.whole || !whole => fresh,
            Ahead::Listed(_) | Ahead::Unchanged | Ahead::Unknown => list_fresh(
                self.mount.handle.as_fd(),
                below,
                whole,
                self.matters,
                &mut self.buffer,
                &self.memory.devices,
            )?,
        };
        let device = fresh.stamp.file.0;
        self.memory
            .devices
            .entry(device)
            .or_insert(fresh.keeps_times);
        let listing = Arc::new(fresh.listing);
        if fresh.settled && fresh.keeps_times {
            let kept = (fresh.stamp, Arc::clone(&listing));
            self.memory.listed.insert(below.to_owned(), kept);
        }
        Ok(listing)
    }

    /// Returns the listing of the earlier walk if it is still true; `known` if that is known.
    fn unchanged(&mut self, below: &Path, whole: bool, known: bool) -> Option<Arc<CachedListing>> {
        let top = self.mount.handle.as_fd();
        let earlier = self.earlier.as_mut()?;
        let (stamp, listing) = earlier.listed.get(below)?;
        if whole && !listing.whole || !known && !is_unchanged(top, below, *stamp) {
            return None;
        }
        let (path, (stamp, listing)) = earlier.listed.remove_entry(below)?;
        let kept = (stamp, Arc::clone(&listing));
        self.memory.listed.insert(path, kept);
        Some(listing)
    }
}

/// Runs `work` on as many threads, this one with its own buffer, and returns all results but those of
/// a thread that panicked or could not be started.
fn on_threads<T: Send>(
    threads: usize,
    own: &mut Buffer,
    work: &(dyn Fn(&mut Buffer) -> Vec<T> + Sync),
) -> Vec<T> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .filter_map(|_| {
                let work = || work(&mut Box::new_uninit_slice(BUFFER_BYTES));
                thread::Builder::new().spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut all = work(own);
        let others = others.into_iter();
        all.extend(others.flat_map(|one| one.join().unwrap_or_default()));
        all
    })
}

/// `true` if a directory has the same times and identity as when it was listed.
fn is_unchanged(top: BorrowedFd<'_>, below: &Path, stamp: DirStamp) -> bool {
    let name = match below.as_os_str().is_empty() {
        true => Path::new("."),
        false => below,
    };
    // A link on the way would lead to another directory, or to the same one.
    let looked = statat(top, name, AtFlags::SYMLINK_NOFOLLOW);
    looked.is_ok_and(|stat| DirStamp::of(&stat) == stamp)
}

/// Lists a directory. `devices` tells which file systems keep reliable times.
fn list_fresh(
    top: BorrowedFd<'_>,
    below: &Path,
    whole: bool,
    matters: &dyn Fn(&[u8]) -> bool,
    buffer: &mut Buffer,
    devices: &HashMap<u64, bool>,
) -> Result<FreshListing, Errno> {
    let directory = open(top, below)?;
    let now = SystemTime::now();
    let stat = fstat(&directory).map_err(errno)?;
    if stat.st_mode & 0o111 != 0o111 {
        // Why: a caller that can list a directory and not enter it cannot look at its entries.
        statat(&directory, ".", AtFlags::empty()).map_err(errno)?;
    }
    let listing = read(directory.as_fd(), whole, matters, buffer)?;
    let changed = u64::try_from(stat.st_ctime).unwrap_or(u64::MAX);
    let changed = UNIX_EPOCH.checked_add(Duration::from_secs(changed));
    let keeps_times = devices.get(&stat.st_dev).copied().unwrap_or_else(|| {
        let system = fstatfs(&directory);
        system.is_ok_and(|system| KEEPS_TIMES.contains(&system.f_type))
    });
    Ok(FreshListing {
        listing,
        stamp: DirStamp::of(&stat),
        settled: changed.is_some_and(|changed| {
            now.duration_since(changed)
                .is_ok_and(|age| age > SETTLED_AFTER)
        }),
        keeps_times,
    })
}

fn read(
    directory: BorrowedFd<'_>,
    whole: bool,
    matters: &dyn Fn(&[u8]) -> bool,
    buffer: &mut Buffer,
) -> Result<CachedListing, Errno> {
    let mut listing = CachedListing {
        whole,
        ..CachedListing::default()
    };
    let mut raw = RawDir::new(directory, buffer);
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

impl DirStamp {
    fn of(stat: &Stat) -> DirStamp {
        DirStamp {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::platform::host_mount::host_mounts;
    use crate::policy::Policy;
    use std::fs;

    const DIRECTORIES: usize = 3 * MIN_AHEAD;

    fn names(listing: &CachedListing) -> Vec<String> {
        let shown = |(name, kind): &(OsString, FileType)| format!("{kind:?} {name:?}");
        let mut names: Vec<String> = listing.entries.iter().map(shown).collect();
        names.sort();
        names
    }

    #[test]
    fn listed_ahead_is_what_is_listed_later() {
        let dir = tempfile::tempdir().unwrap();
        let below: Vec<PathBuf> = (0..DIRECTORIES)
            .map(|number| PathBuf::from(format!("d{number}")))
            .collect();
        for (number, below) in below.iter().enumerate() {
            let made = dir.path().join(below);
            fs::create_dir_all(made.join(format!("sub{number}"))).unwrap();
            fs::write(made.join(".env"), "").unwrap();
            fs::write(made.join("plain"), "").unwrap();
        }
        // A link is not followed, ahead or later.
        let link = PathBuf::from("link");
        std::os::unix::fs::symlink("d0", dir.path().join(&link)).unwrap();
        let policy = Policy::builder().mount(dir.path(), "/", Access::ALL);
        let policy = policy.build().unwrap();
        let mounts = host_mounts(&policy).unwrap();
        let matters = |name: &[u8]| name == b".env";
        let mut ahead = Lister::new(&mounts[0], None, &matters);
        ahead.list_ahead(below.iter().chain([&link]));
        let threads = available_parallelism().map_or(1, std::num::NonZero::get);
        let expected = if threads > 1 { DIRECTORIES } else { 0 };
        let listed = ahead.ahead.iter();
        let listed = listed.filter(|(_, ahead)| matches!(ahead, Ahead::Listed(_)));
        assert_eq!(listed.count(), expected);
        // A file created after the listing ahead is not in it.
        fs::write(dir.path().join("d1/.env2"), "").unwrap();
        for (number, below) in below.iter().enumerate() {
            let listing = ahead.list(below, false).unwrap();
            let wanted = [
                format!("{:?} \"sub{number}\"", FileType::Directory),
                format!("{:?} \".env\"", FileType::RegularFile),
            ];
            let mut wanted = wanted.to_vec();
            wanted.sort();
            assert_eq!(
                (names(&listing), listing.count),
                (wanted, 3 + usize::from(number == 1 && threads == 1))
            );
        }
        let refused = ahead.list(&link, false).unwrap_err();
        assert!(ahead.ahead.is_empty());
        assert!(
            matches!(refused, Errno::ELOOP | Errno::ENOTDIR),
            "{refused}"
        );
        // A request for all names is not answered by a listing of some.
        ahead.list_ahead(below.iter());
        let whole = ahead.list(&below[2], true).unwrap();
        assert_eq!((names(&whole).len(), whole.whole), (3, true));
        // Listing ahead is due again after the last of them.
        let dues = (0..DIRECTORIES).map(|_| ahead.is_due());
        assert_eq!(dues.filter(|due| *due).count(), 1);
    }

    #[test]
    fn what_changed_since_the_earlier_walk_is_listed_again() {
        let dir = tempfile::tempdir().unwrap();
        let below: Vec<PathBuf> = (0..DIRECTORIES)
            .map(|number| PathBuf::from(format!("d{number}")))
            .collect();
        for below in &below {
            fs::create_dir(dir.path().join(below)).unwrap();
        }
        let policy = Policy::builder().mount(dir.path(), "/", Access::ALL);
        let policy = policy.build().unwrap();
        let mounts = host_mounts(&policy).unwrap();
        let mut earlier = ListingCache::default();
        let mut buffer: Buffer = Box::new_uninit_slice(BUFFER_BYTES);
        for below in &below {
            let top = mounts[0].handle.as_fd();
            let fresh = list_fresh(top, below, false, &|_| true, &mut buffer, &HashMap::new());
            let fresh = fresh.unwrap();
            let kept = (fresh.stamp, Arc::new(fresh.listing));
            earlier.listed.insert(below.clone(), kept);
        }
        // A change, a link and nothing in the place of directories.
        fs::write(dir.path().join("d1/.env"), "").unwrap();
        fs::remove_dir(dir.path().join("d2")).unwrap();
        std::os::unix::fs::symlink("d1", dir.path().join("d2")).unwrap();
        fs::remove_dir(dir.path().join("d3")).unwrap();
        let mut lister = Lister::new(&mounts[0], Some(&mut earlier), &|_| true);
        lister.list_ahead(below.iter());
        let found: Vec<_> = below
            .iter()
            .map(|below| lister.list(below, false))
            .map(|listing| listing.map(|listing| names(&listing)).ok())
            .collect();
        assert_eq!(found[0], Some(Vec::new()));
        let file = format!("{:?} \".env\"", FileType::RegularFile);
        assert_eq!(found[1], Some(vec![file]));
        assert_eq!((&found[2], &found[3]), (&None, &None));
        // The walk after this one has the listings of unchanged directories.
        assert_eq!(lister.memory.listed.len(), DIRECTORIES - 3);
    }
}
