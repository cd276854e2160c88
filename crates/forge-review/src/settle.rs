//! Turns a copy that a run has changed into an upper layer, so that a review has one format.
//!
//! An object that differs from the manifest is linked into a new layer, and a missing one becomes a
//! whiteout. Nothing of the copy is changed, and the layer gets its name when it is complete: a kill at
//! any moment leaves a copy that is settled again.
//!
//! No directory becomes opaque. One that was removed and made again is compared name by name: a name
//! that the run never saw is not listed as deleted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, fstat, fsync, linkat, mkdirat, mknodat, renameat, syncfs, unlinkat,
};

use crate::budget::{Budget, ReviewLimits};
use crate::copy::{COPY, CopiedObject, CopyIndex, shape_dir};
use crate::error::{ReviewError, failed, failed_own};
use crate::path::TreePath;
use crate::quarantine::is_quarantined;
use crate::staging::set_attributes;
use crate::state::{PathKind, attributes};
use crate::tree;

const UPPER: &str = "upper";
/// The rules of a quarantine for git.
const IGNORE: &str = ".gitignore";
const NEW: &str = "upper-new";

/// Makes the upper layer of a mount from its copy. Returns the directories of the quarantine that
/// are new in the copy, which has no part in the layer.
pub(crate) fn settle(
    mount: &OwnedFd,
    index: &CopyIndex,
    limits: &ReviewLimits,
) -> Result<Vec<TreePath>, ReviewError> {
    fn layer<E: Into<std::io::Error>>(error: E) -> ReviewError {
        ReviewError::Io {
            operation: "make",
            path: "the layer of the review".to_owned(),
            source: error.into(),
        }
    }
    tree::remove_tree(mount, NEW.as_ref()).map_err(layer)?;
    mkdirat(mount, NEW, Mode::RWXU).map_err(layer)?;
    let root = TreePath::default();
    let upper = tree::open_dir(mount, NEW.as_ref()).map_err(layer)?;
    let copy =
        tree::open_own(mount, COPY.as_ref(), true).map_err(failed_own("open", "the copy"))?;
    let mut settler = CopySettler {
        index,
        budget: Budget::new(limits),
        quarantined: Vec::new(),
    };
    settler.directory(&copy, &upper, &root)?;
    let quarantined = settler.quarantined;
    let stat = fstat(&*copy).map_err(failed("examine", &root))?;
    set_attributes(&upper, &BTreeMap::new(), &attributes(&copy, &root)?, &root)?;
    shape_dir(&upper, &stat, &root)?;
    syncfs(&upper).map_err(layer)?;
    tree::remove_tree(mount, UPPER.as_ref()).map_err(layer)?;
    renameat(mount, NEW, mount, UPPER).map_err(layer)?;
    fsync(mount).map_err(layer)?;
    Ok(quarantined)
}

struct CopySettler<'a> {
    index: &'a CopyIndex,
    budget: Budget,
    quarantined: Vec<TreePath>,
}

impl CopySettler<'_> {
    /// Returns `true` if something in the directory differs.
    fn directory(
        &mut self,
        copy: &OwnedFd,
        upper: &OwnedFd,
        path: &TreePath,
    ) -> Result<bool, ReviewError> {
        self.budget.depth(path)?;
        let mut differs = false;
        let found = tree::names(copy).map_err(failed("read", path))?;
        for name in &found {
            let path = path.join(name);
            match is_quarantined(&path) {
                true => self.quarantine(copy, name, &path)?,
                false => differs |= self.entry(copy, upper, name, &path)?,
            }
        }
        for known in self.index.below(path) {
            let Some((_, name)) = known.split_last().filter(|_| !is_quarantined(known)) else {
                continue;
            };
            if found
                .binary_search_by(|one| one.as_os_str().cmp(name))
                .is_err()
            {
                // A whiteout needs no privilege (Linux 5.8).
                mknodat(upper, name, FileType::CharacterDevice, Mode::empty(), 0)
                    .map_err(failed("note the removal of", known))?;
                differs = true;
            }
        }
        Ok(differs)
    }

    /// Notes the content of a quarantine that was not there before the run.
    fn quarantine(
        &mut self,
        copy: &OwnedFd,
        name: &OsStr,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        let stat = tree::lstat(copy, name).map_err(failed("examine", path))?;
        if stat.is_some_and(|stat| PathKind::of(&stat) == PathKind::Directory) {
            let dir = tree::open_own(copy, name, true).map_err(failed("open", path))?;
            let inside = tree::names(&*dir).map_err(failed("read", path))?;
            let inside = inside.iter().filter(|name| *name != IGNORE);
            let inside = inside.map(|name| path.join(name));
            let new = inside.filter(|path| self.index.get(path).is_none());
            self.quarantined.extend(new);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        copy: &OwnedFd,
        upper: &OwnedFd,
        name: &OsStr,
        path: &TreePath,
    ) -> Result<bool, ReviewError> {
        let stat = tree::lstat(copy, name).map_err(failed("examine", path))?;
        let Some(stat) = stat else { return Ok(false) };
        self.budget.entry(path)?;
        let before = self.index.get(path);
        if PathKind::of(&stat) != PathKind::Directory {
            if before == Some(&CopiedObject::other(&stat)) {
                return Ok(false);
            }
            linkat(copy, name, upper, name, AtFlags::empty()).map_err(failed("keep", path))?;
            return Ok(true);
        }
        let from = tree::open_own(copy, name, true).map_err(failed("open", path))?;
        mkdirat(upper, name, Mode::RWXU).map_err(failed("keep", path))?;
        let to = tree::open_dir(upper, name).map_err(failed("keep", path))?;
        let inside = self.directory(&from, &to, path)?;
        let found = attributes(&from, path)?;
        if !inside && before == Some(&CopiedObject::directory(&stat, found.clone())) {
            unlinkat(upper, name, AtFlags::REMOVEDIR).map_err(failed("keep", path))?;
            return Ok(false);
        }
        set_attributes(&to, &BTreeMap::new(), &found, path)?;
        shape_dir(&to, &stat, path)?;
        Ok(true)
    }
}
