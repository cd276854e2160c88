//! The directory of a review: its layers or copies, its list, its lock.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, fstat, mkdirat, openat, renameat_with,
};
use rustix::io::Errno;

use crate::budget::{Budget, LayerLimits, ReviewLimits};
use crate::classify::JudgeName;
use crate::copy::{self, CopyIndex};
use crate::error::{ReviewError, failed_own};
use crate::own_files::{OnDisk, read_json, write_file, write_json};
use crate::path::TreePath;
use crate::record;
use crate::review::{ReviewMount, ReviewStage, RunReview, VERSION};
use crate::settle::settle;
use crate::staging::set_attributes;
use crate::state::{FileTime, attributes, changed_at};
use crate::tree::{self, DIRECTORY, OpenObject};
use crate::usage::{self, LayerUsage};

const LIST: &str = "review.json";
const LOCK: &str = "lock";
const STARTED: &str = "started";
pub(crate) const MOUNTS: &str = "mounts";
/// Beginning of the name of a review that is being removed.
pub(crate) const DISCARDED: &str = ".discarded-";
/// Beginning of the name of a review that is being made.
const NEW: &str = ".new-";
/// How often a lock is tried, and the time between two attempts.
pub(crate) const LOCK_ATTEMPTS: u32 = 20;
/// How often the lock of all reviews is tried. Others hold it for a removal at most.
const LOCK_ALL_ATTEMPTS: u32 = 3_000;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// How often a removal begins again. Each time another process has removed something.
const REMOVAL_ATTEMPTS: u32 = 10_000;

/// The facts of a run, as they are listed.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The name of the run: the name of its directory.
    pub run: String,
    /// The project's directory on the host.
    pub project: PathBuf,
    /// The command, for people.
    pub command: Vec<String>,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

/// A directory that a run is about to see through an overlay or as a copy.
#[derive(Clone, Copy, Debug)]
pub struct NewMount<'a> {
    /// The name of the mount: letters, digits, `-`, `_` and `.`.
    pub name: &'a str,
    /// The directory.
    pub lower: BorrowedFd<'a>,
    /// Its path on the host, by which it is opened later.
    pub host: &'a Path,
    /// Patterns of protected names, kept for the list.
    pub protected: &'a [String],
    /// `true` if the run works in a copy, and not in an overlay.
    pub copy: bool,
}

/// The directory of one review, locked against other processes until this is dropped.
#[derive(Debug)]
pub struct ReviewDir {
    pub(crate) dir: OwnedFd,
    pub(crate) review: RunReview,
    name: OsString,
    /// The limits beside the other reviews, of a review that this process created.
    limits: Option<LayerLimits>,
    _lock: OwnedFd,
}

impl ReviewDir {
    /// Makes the directory of a run in `reviews`, with an empty upper layer or a copy for each mount.
    /// Objects of the project that change from now on have changed below the run. After an error
    /// nothing is left.
    ///
    /// # Errors
    /// If a name is invalid or exists, if the directory cannot be written, or at a limit of copies
    /// or of all reviews.
    pub fn create(
        reviews: BorrowedFd<'_>,
        about: &RunInfo,
        mounts: &[NewMount<'_>],
        limits: &LayerLimits,
    ) -> Result<ReviewDir, ReviewError> {
        check_name(&about.run)?;
        let name = OsString::from(&about.run);
        let limits = usage::limits_beside(reviews, &name, limits)?;
        if tree::lstat(reviews, &name).is_ok_and(|found| found.is_some()) {
            return Err(failed_own("create", "the review")(Errno::EXIST));
        }
        let new = OsString::from(format!("{NEW}{}", about.run));
        let (dir, own_lock) = {
            let _all = lock_all(reviews)?;
            mkdirat(reviews, &new, Mode::RWXU).map_err(failed_own("create", "the review"))?;
            let dir = tree::open_dir(reviews, &new).map_err(failed_own("open", "the review"))?;
            let own_lock = lock(&dir)?;
            (dir, own_lock)
        };
        let made = Self::make(reviews, (dir, own_lock), about, mounts, &limits).and_then(|this| {
            renameat_with(reviews, &new, reviews, &name, RenameFlags::NOREPLACE)
                .map_err(failed_own("create", "the review"))?;
            Ok(this)
        });
        if made.is_err() {
            remove_review(reviews, &new)?;
        }
        made
    }

    /// Makes everything of a review in its new directory.
    fn make(
        reviews: BorrowedFd<'_>,
        (dir, lock): (OwnedFd, OwnedFd),
        about: &RunInfo,
        mounts: &[NewMount<'_>],
        limits: &LayerLimits,
    ) -> Result<ReviewDir, ReviewError> {
        let mut budget = Budget::of_layers(limits);
        let of_reviews = fstat(reviews).map_err(failed_own("examine", "the reviews"))?;
        let all = make_dir(&dir, MOUNTS, Mode::RWXU)?;
        let mut listed = Vec::new();
        // A copy sees an object at any moment since it was begun.
        let is_copy = mounts.iter().any(|mount| mount.copy);
        let before = is_copy.then(|| mark_start(&dir)).transpose()?;
        for mount in mounts {
            check_name(mount.name)?;
            let stat = fstat(mount.lower).map_err(failed_own("examine", "the mount"))?;
            let own = make_dir(&all, mount.name, Mode::RWXU)?;
            let lower = mount.lower.try_clone_to_owned().map_err(own_io)?;
            let copied = match mount.copy {
                true => Some(copy::make(&lower, &own, &of_reviews, &mut budget)?),
                false => make_layers(&lower, &own).map(|()| None)?,
            };
            listed.push(ReviewMount {
                name: mount.name.to_owned(),
                host: mount.host.to_owned(),
                device: stat.st_dev,
                inode: stat.st_ino,
                copied,
                protected: mount.protected.to_vec(),
                quarantined: Vec::new(),
                changes: Vec::new(),
            });
        }
        // Last: everything of the project that is older is as the run sees it.
        let started = before.map_or_else(|| mark_start(&dir), Ok)?;
        let review = RunReview {
            version: VERSION,
            run: about.run.clone(),
            project: about.project.clone(),
            command: about.command.clone(),
            at_ms: about.at_ms,
            started,
            stage: ReviewStage::Running,
            mounts: listed,
            applied: Vec::new(),
        };
        let this = ReviewDir {
            dir,
            review,
            name: OsString::from(&about.run),
            limits: Some(*limits),
            _lock: lock,
        };
        this.save(OnDisk::Later)?;
        Ok(this)
    }

    /// Opens the review of a run.
    ///
    /// # Errors
    /// [`ReviewError::Busy`] while another process has it open; or if it cannot be read.
    pub fn open(reviews: BorrowedFd<'_>, run: &OsStr) -> Result<ReviewDir, ReviewError> {
        let dir = tree::open_dir(reviews, run).map_err(failed_own("open", "the review"))?;
        let lock = lock(&dir)?;
        let review = read_list(&dir)?;
        Ok(ReviewDir {
            dir,
            review,
            name: run.to_owned(),
            limits: None,
            _lock: lock,
        })
    }

    /// Reads the list of a run without taking the lock: it may be out of date at once.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn peek(reviews: BorrowedFd<'_>, run: &OsStr) -> Result<RunReview, ReviewError> {
        let dir = tree::open_dir(reviews, run).map_err(failed_own("open", "the review"))?;
        read_list(&dir)
    }

    /// Returns the names of the reviews in a directory, in order, and removes the rest of those
    /// that were discarded, or that were not complete when their process ended.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(reviews: BorrowedFd<'_>) -> Result<Vec<OsString>, ReviewError> {
        let all = tree::names(reviews).map_err(failed_own("read", "the reviews"))?;
        let (gone, all): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|name| name.to_string_lossy().starts_with(DISCARDED));
        let (new, all): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|name| name.to_string_lossy().starts_with(NEW));
        // The process that makes one holds its lock, from the time when it holds that of all.
        let _all = match new.is_empty() {
            true => None,
            false => Some(lock_all(reviews)?),
        };
        let is_free = |name: &OsString| {
            let dir = tree::open_dir(reviews, name);
            dir.is_ok_and(|dir| lock(&dir).is_ok())
        };
        for name in gone.into_iter().chain(new.into_iter().filter(is_free)) {
            remove_review(reviews, &name)?;
        }
        Ok(all)
    }

    /// Returns the list of changes.
    pub fn review(&self) -> &RunReview {
        &self.review
    }

    fn layer(&self, mount: &str, layer: &str) -> Result<OwnedFd, ReviewError> {
        tree::open_dir(&self.mount_dir(mount)?, layer.as_ref())
            .map_err(failed_own("open", "a layer of the review"))
    }

    fn mount_dir(&self, mount: &str) -> Result<OwnedFd, ReviewError> {
        let all = tree::open_dir(&self.dir, MOUNTS.as_ref());
        all.and_then(|all| tree::open_dir(&all, mount.as_ref()))
            .map_err(failed_own("open", "a layer of the review"))
    }

    /// Counts the layers or copies of the run against these limits, or against the part of them that
    /// the other reviews leave.
    ///
    /// # Errors
    /// If a layer cannot be opened, or the other reviews leave nothing.
    pub fn usage(
        &self,
        reviews: BorrowedFd<'_>,
        limits: &LayerLimits,
    ) -> Result<LayerUsage, ReviewError> {
        let layers = self.review.mounts.iter().map(|mount| {
            let layer = if mount.copied.is_some() {
                copy::COPY
            } else {
                "upper"
            };
            self.layer(&mount.name, layer)
        });
        let layers = layers.collect::<Result<_, _>>()?;
        let limits = match self.limits {
            Some(limits) => limits,
            None => usage::limits_beside(reviews, &self.name, limits)?,
        };
        LayerUsage::new(layers, limits)
    }

    /// Lets the run go on in its copies, so that its changes are listed once more.
    ///
    /// # Errors
    /// If a mount has no copy, or has none any more: a part of the changes was applied.
    pub fn resume(&mut self) -> Result<(), ReviewError> {
        for mount in &self.review.mounts {
            if mount.copied.is_none() || !copy::is_whole(&self.mount_dir(&mount.name)?) {
                let reason = "the copy in which the run worked is gone";
                return Err(ReviewError::selection(&mount.name, reason));
            }
        }
        self.review.stage = ReviewStage::Running;
        self.save(OnDisk::Now)
    }

    /// Removes the copies of a run that does not go on. Its changes are kept, and its quarantine.
    ///
    /// # Errors
    /// If its changes are not listed yet, or a copy cannot be removed.
    pub fn drop_copies(&self) -> Result<(), ReviewError> {
        if self.review.stage != ReviewStage::Recorded {
            let reason = "the changes of the run are not listed yet";
            return Err(ReviewError::damaged(LIST, reason));
        }
        for mount in self.review.mounts.iter().filter(|m| m.copied.is_some()) {
            let keeps_quarantine = !mount.quarantined.is_empty();
            copy::drop_copy(&self.mount_dir(&mount.name)?, keeps_quarantine)?;
        }
        Ok(())
    }

    /// Opens the upper layer of a mount, although a command may have closed it.
    pub(crate) fn own_upper(&self, mount: &str) -> Result<OpenObject, ReviewError> {
        tree::open_own(&self.mount_dir(mount)?, "upper".as_ref(), true)
            .map_err(failed_own("open", "a layer of the review"))
    }

    /// Lists the changes of the run. Call it when no process writes into its layers or copies any
    /// more. A copy becomes a layer, and stays for a run that goes on ([`ReviewDir::resume`]).
    /// `lowers` are the directories of the mounts, opened by [`ReviewMount::host`]; `None` for one
    /// that is missing.
    ///
    /// # Errors
    /// If a directory is missing, another one than before, or cannot be read, or at a limit. Nothing
    /// is listed then.
    pub fn record(
        &mut self,
        lowers: &[Option<OwnedFd>],
        protected: &JudgeName<'_>,
        limits: &ReviewLimits,
    ) -> Result<&RunReview, ReviewError> {
        for index in 0..self.review.mounts.len() {
            let lower = self.lower(lowers, index)?;
            let ReviewMount { name, host, .. } = &self.review.mounts[index];
            let (copied, quarantined) = match self.review.mounts[index].copied {
                Some(_) => {
                    let dir = self.mount_dir(name)?;
                    let copied = CopyIndex::read(&dir)?;
                    let quarantined = settle(&dir, &copied, limits)?;
                    (Some(copied), quarantined)
                }
                None => (None, Vec::new()),
            };
            let upper = self.own_upper(name)?;
            let judge = |path: &Path| protected(index, path);
            let seen = (self.review.started, copied.as_ref());
            let changes = record::record((lower, host), &upper, seen, &judge, limits)?;
            self.review.mounts[index].changes = changes;
            self.review.mounts[index].quarantined = quarantined;
        }
        self.review.stage = ReviewStage::Recorded;
        let mut mounts = self.review.mounts.iter();
        let is_changed =
            mounts.any(|mount| !mount.changes.is_empty() || !mount.quarantined.is_empty());
        self.save(match is_changed {
            true => OnDisk::Now,
            false => OnDisk::Later,
        })?;
        Ok(&self.review)
    }

    /// Returns the directory of a mount, if it is still the one of the start.
    pub(crate) fn lower<'a>(
        &self,
        lowers: &'a [Option<OwnedFd>],
        mount: usize,
    ) -> Result<&'a OwnedFd, ReviewError> {
        let known = &self.review.mounts[mount];
        let gone = || ReviewError::LowerGone(known.name.clone());
        let lower = lowers
            .get(mount)
            .and_then(Option::as_ref)
            .ok_or_else(gone)?;
        let stat = fstat(lower).map_err(failed_own("examine", "the mount"))?;
        if (stat.st_dev, stat.st_ino) != (known.device, known.inode) {
            return Err(gone());
        }
        Ok(lower)
    }

    /// Removes the review with its layers. The project is not touched.
    ///
    /// # Errors
    /// If something cannot be removed. The review is gone from the list all the same.
    pub fn discard(self, reviews: BorrowedFd<'_>) -> Result<(), ReviewError> {
        let mut gone = OsString::from(DISCARDED);
        gone.push(&self.name);
        renameat_with(reviews, &self.name, reviews, &gone, RenameFlags::NOREPLACE)
            .map_err(failed_own("remove", "the review"))?;
        remove_review(reviews, &gone)
    }

    pub(crate) fn save(&self, on_disk: OnDisk) -> Result<(), ReviewError> {
        write_json(&self.dir, LIST, &self.review, on_disk)
    }
}

fn read_list(dir: &OwnedFd) -> Result<RunReview, ReviewError> {
    let review: Option<RunReview> = read_json(dir, LIST)?;
    let review = review.ok_or_else(|| ReviewError::damaged(LIST, "missing"))?;
    if review.version != VERSION {
        let reason = format!("unknown version {}", review.version);
        return Err(ReviewError::damaged(LIST, reason));
    }
    for mount in &review.mounts {
        check_name(&mount.name)?;
    }
    Ok(review)
}

fn own_io(source: std::io::Error) -> ReviewError {
    ReviewError::Io {
        operation: "open",
        path: "the review".to_owned(),
        source,
    }
}

/// A name that is one component of a path and harmless in mount options.
fn check_name(name: &str) -> Result<(), ReviewError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.chars().all(plain) {
        return Ok(());
    }
    let reason = "invalid name of a run or mount: expected letters, digits, `-`, `_` and `.`";
    Err(ReviewError::selection(name, reason))
}

/// Removes a review, also while another process removes the same one: each removes a part then.
fn remove_review(reviews: BorrowedFd<'_>, name: &OsStr) -> Result<(), ReviewError> {
    for _ in 0..REMOVAL_ATTEMPTS {
        match tree::remove_tree(reviews, name) {
            Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            removed => return removed.map_err(failed_own("remove", "a review")),
        }
    }
    Err(ReviewError::Busy)
}

/// Locks the directory of all reviews, for a moment.
fn lock_all(reviews: BorrowedFd<'_>) -> Result<OwnedFd, ReviewError> {
    let all = tree::open_dir(reviews, ".".as_ref()).map_err(failed_own("open", "the reviews"))?;
    take_lock(&all, LOCK_ALL_ATTEMPTS)?;
    Ok(all)
}

fn lock(dir: &OwnedFd) -> Result<OwnedFd, ReviewError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR)
        .map_err(failed_own("open", "the review's lock"))?;
    take_lock(&lock, LOCK_ATTEMPTS)?;
    Ok(lock)
}

/// Takes a lock that another process may hold for a moment: the handle of a process that this one
/// is starting is closed only when that program runs.
pub(crate) fn take_lock(object: &OwnedFd, attempts: u32) -> Result<(), ReviewError> {
    for _ in 0..attempts {
        match flock(object, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(failed_own("lock", "the review")(error)),
        }
    }
    Err(ReviewError::Busy)
}

/// Makes the directories of an overlay.
fn make_layers(lower: &OwnedFd, own: &OwnedFd) -> Result<(), ReviewError> {
    let root = TreePath::default();
    let stat = fstat(lower).map_err(failed_own("examine", "the mount"))?;
    make_dir(own, "work", Mode::RWXU)?;
    // The merged root has the mode and the attributes of the upper one.
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let upper = make_dir(own, "upper", mode)?;
    set_attributes(&upper, &BTreeMap::new(), &attributes(lower, &root)?, &root)
}

/// Returns the time from which on changes of the project are later than the start.
fn mark_start(dir: &OwnedFd) -> Result<FileTime, ReviewError> {
    let started = write_file(dir, STARTED, b"", OnDisk::Later)?;
    let stat = fstat(&started).map_err(failed_own("examine", STARTED))?;
    Ok(changed_at(&stat))
}

fn make_dir(parent: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd, ReviewError> {
    mkdirat(parent, name, Mode::RWXU).map_err(failed_own("create", "a layer of the review"))?;
    let dir = tree::open_dir(parent, name.as_ref())
        .map_err(failed_own("open", "a layer of the review"))?;
    fchmod(&dir, mode).map_err(failed_own("create", "a layer of the review"))?;
    Ok(dir)
}

/// Opens a directory by its path on the host: the one place where a path becomes a handle.
///
/// # Errors
/// If it is missing, a link, or not a directory.
pub fn open_host_dir(path: &Path) -> std::io::Result<OwnedFd> {
    rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(Into::into)
}
