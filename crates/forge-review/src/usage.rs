//! The size of layers and copies, counted while a run works in them: ordinary users have no quota of
//! the kernel on a directory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Stat, fstatvfs};
use rustix::io::Errno;

use crate::budget::{Budget, DEPTH, LayerLimits};
use crate::error::{ReviewError, failed, failed_own};
use crate::path::TreePath;
use crate::review_dir::{DISCARDED, MOUNTS};
use crate::state::PathKind;
use crate::tree::{self, OpenObject};

/// All reviews together may hold this many times the limit of one.
const ALL_REVIEWS: u64 = 4;

/// Blocks of a file beyond its size up to this many bytes are rounding; more of them are reserved.
const MAX_ROUNDING: u64 = 64 << 10;

/// The layers or copies of a run, to count their content.
#[derive(Debug)]
pub struct LayerUsage {
    layers: Vec<OwnedFd>,
    limits: LayerLimits,
    /// Bytes in use on the file system at the start.
    used_at_start: u64,
}

impl LayerUsage {
    pub(crate) fn new(layers: Vec<OwnedFd>, limits: LayerLimits) -> Result<Self, ReviewError> {
        let mut usage = LayerUsage {
            layers,
            limits,
            used_at_start: 0,
        };
        usage.used_at_start = usage.used_bytes()?;
        Ok(usage)
    }

    /// Returns the limits of this run.
    pub fn limits(&self) -> LayerLimits {
        self.limits
    }

    /// Counts everything. `is_running`: a command may be at work, so that no mode is changed; of
    /// directories that only the command can list, the growth of the file system is counted.
    ///
    /// # Errors
    /// [`ReviewError::Limit`] at a limit; or if something cannot be read.
    pub fn check(&self, is_running: bool) -> Result<(), ReviewError> {
        let mut budget = Budget::of_layers(&self.limits);
        let root = TreePath::default();
        let mut count = LayerCounter::new(&mut budget, is_running);
        for layer in &self.layers {
            count.directory(layer, &root)?;
        }
        if count.is_incomplete {
            let grown = self.used_bytes()?.saturating_sub(self.used_at_start);
            Budget::of_layers(&self.limits).bytes(grown, &root)?;
        }
        Ok(())
    }

    fn used_bytes(&self) -> Result<u64, ReviewError> {
        let Some(layer) = self.layers.first() else {
            return Ok(0);
        };
        let found = fstatvfs(layer).map_err(failed_own("examine", "a layer of the review"))?;
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        Ok(used.saturating_mul(found.f_frsize))
    }
}

/// Returns the limits of a run: these, or the part of the limit on all reviews that the others leave.
pub(crate) fn limits_beside(
    reviews: BorrowedFd<'_>,
    own: &OsStr,
    limits: &LayerLimits,
) -> Result<LayerLimits, ReviewError> {
    let mut budget = Budget::of_layers(&LayerLimits {
        entries: limits.entries.saturating_mul(ALL_REVIEWS),
        bytes: limits.bytes.saturating_mul(ALL_REVIEWS),
    });
    let all = budget.left();
    let (mut left, mut largest) = (budget.left(), (0, 0, String::new()));
    for name in tree::names(reviews).map_err(failed_own("read", "the reviews"))? {
        // Of one that is discarded at this moment nothing is left soon.
        if name == own || name.to_string_lossy().starts_with(DISCARDED) {
            continue;
        }
        let mounts =
            tree::open_dir(reviews, &name).and_then(|dir| tree::open_dir(dir, MOUNTS.as_ref()));
        let Ok(mounts) = mounts else { continue };
        let counted = LayerCounter::new(&mut budget, true).directory(&mounts, &TreePath::default());
        let now = budget.left();
        let size = (left.bytes - now.bytes, left.entries - now.entries);
        if size > (largest.0, largest.1) {
            largest = (size.0, size.1, name.to_string_lossy().into_owned());
        }
        left = now;
        match counted {
            // A review that is too deep to be listed refuses no other one.
            Err(ReviewError::Limit { unit: DEPTH, .. }) => {}
            Err(ReviewError::Limit { .. }) => break,
            counted => counted?,
        }
    }
    let full = match left {
        LayerLimits { entries: 0, .. } => Some((all.entries, "files")),
        LayerLimits { bytes: 0, .. } => Some((all.bytes, "bytes")),
        LayerLimits { .. } => None,
    };
    if let Some((limit, unit)) = full {
        let largest = largest.2;
        return Err(ReviewError::Full {
            limit,
            unit,
            largest,
        });
    }
    Ok(LayerLimits {
        entries: limits.entries.min(left.entries),
        bytes: limits.bytes.min(left.bytes),
    })
}

struct LayerCounter<'a> {
    budget: &'a mut Budget,
    is_running: bool,
    /// Counted files with several names, by device and inode.
    linked: HashSet<(u64, u64)>,
    /// `true` if a directory cannot be listed.
    is_incomplete: bool,
}

impl<'a> LayerCounter<'a> {
    fn new(budget: &'a mut Budget, is_running: bool) -> Self {
        LayerCounter {
            budget,
            is_running,
            linked: HashSet::new(),
            is_incomplete: false,
        }
    }

    fn directory(&mut self, dir: &OwnedFd, path: &TreePath) -> Result<(), ReviewError> {
        self.budget.depth(path)?;
        let names = match tree::names(dir) {
            Ok(names) => names,
            Err(error) => return self.skip(error, path),
        };
        for name in names {
            match tree::lstat(dir, &name) {
                Ok(None) => {}
                Ok(Some(stat)) => self.object(dir, &name, &stat, path)?,
                Err(error) => self.skip(error, path)?,
            }
        }
        Ok(())
    }

    /// Counts an object in the directory at `path`.
    fn object(
        &mut self,
        dir: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        self.budget.entry(path)?;
        match PathKind::of(stat) {
            PathKind::File => {
                let key = (stat.st_dev, stat.st_ino);
                if stat.st_nlink < 2 || self.linked.insert(key) {
                    self.budget.bytes(bytes_of(stat), path)?;
                }
            }
            PathKind::Directory => {
                let opened = match self.is_running {
                    true => tree::open_dir(dir, name).map(OpenObject::from),
                    false => tree::open_own(dir, name, true),
                };
                match opened {
                    Ok(inner) => self.directory(&inner, &path.join(name))?,
                    Err(error) => self.skip(error, path)?,
                }
            }
            PathKind::Link | PathKind::Pipe | PathKind::Socket | PathKind::Device => {}
        }
        Ok(())
    }

    /// Goes on after an error of an object that was removed, or that only the command can read.
    fn skip(&mut self, error: Errno, path: &TreePath) -> Result<(), ReviewError> {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(()),
            Errno::ACCESS => {
                self.is_incomplete = true;
                Ok(())
            }
            error => Err(failed("count", path)(error)),
        }
    }
}

/// Returns the bytes that a file holds: holes do not count, and room that is reserved beyond its end
/// does.
fn bytes_of(stat: &Stat) -> u64 {
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
    let room = blocks.saturating_mul(512);
    match room > size.saturating_add(MAX_ROUNDING) {
        true => room,
        false => room.min(size),
    }
}
