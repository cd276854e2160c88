//! The journal of an apply: the objects that are about to be moved, so that an apply that was interrupted can be
//! finished or undone.
//!
//! Everything is prepared first. Then the journal is written, and each step is one rename: a path
//! is old or new at any time. A step tells by the inode at its path whether it is done. After an
//! interruption before the first rename the prepared objects are removed; later the remaining steps
//! are done, except those whose path changed since: they keep their state and stay in the list.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Mode, RenameFlags, Stat, Timespec, Timestamps, fchmod, fstat, fsync, futimens,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::error::{ReviewError, failed};
use crate::path::TreePath;
use crate::review::{AppliedChange, ChangeKind};
use crate::staging::{MODE_BITS, StagingArea, set_attributes, staged_name, victim_name};
use crate::state::{Comparison, FileTime, ObjectIdentity, ObjectState, PathKind, Place, kind_of};
use crate::tree;

pub(crate) const JOURNAL: &str = "journal";

/// A journal of one apply.
#[derive(Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) version: u32,
    pub(crate) id: String,
    pub(crate) at_ms: u64,
    pub(crate) by: String,
    pub(crate) phase: Phase,
    /// Indices of the mounts that have a staging area.
    pub(crate) mounts: BTreeSet<usize>,
    pub(crate) steps: Vec<Step>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Nothing of the project has changed.
    Preparing,
    /// Everything is prepared.
    Committing,
}

/// One path of an apply.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) mount: usize,
    pub(crate) number: usize,
    pub(crate) path: TreePath,
    pub(crate) kind: ChangeKind,
    pub(crate) action: StepAction,
    pub(crate) before: Option<ObjectState>,
    pub(crate) after: Option<ObjectState>,
    /// The object of the project, as it was examined.
    pub(crate) victim: Option<ObjectIdentity>,
    /// The prepared object.
    pub(crate) staged: Option<ObjectIdentity>,
    /// The number of prepared names of this object.
    pub(crate) names: u64,
    /// Only some hunks of the file: the change stays in the list.
    pub(crate) is_partial: bool,
    /// Times of a new directory, set when everything in it is there.
    pub(crate) modified: Option<FileTime>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepAction {
    /// Moves the prepared object to the path, and an old one to the staging area.
    Install,
    /// Moves the old object to the staging area.
    Remove,
    /// Sets mode and attributes.
    SetMetadata,
}

/// The state of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Done,
    /// The path changed meanwhile and keeps its state.
    Raced,
    /// The prepared object is another one, or was changed. The path keeps its state.
    Exchanged,
}

/// One mount with everything that a step needs.
pub(crate) struct Site<'a> {
    pub(crate) lower: &'a OwnedFd,
    pub(crate) area: StagingArea,
}

/// A step's directory and name in the project.
struct Destination<'a> {
    parent: OwnedFd,
    name: &'a OsStr,
}

impl Step {
    /// Performs the step, unless it is done already. `recovers` if time has passed since the
    /// objects were examined: then they are examined again.
    pub(crate) fn commit(
        &self,
        site: &Site<'_>,
        recovers: bool,
        budget: &mut Budget,
    ) -> Result<StepOutcome, ReviewError> {
        let at = match self.destination(site) {
            // A directory on the way is gone, or a link now.
            Err(ReviewError::Io { .. }) if recovers => return Ok(StepOutcome::Raced),
            at => at?,
        };
        if self.is_done(site, &at)? {
            return Ok(StepOutcome::Done);
        }
        let has_tree = self
            .before
            .as_ref()
            .is_some_and(|state| state.tree.is_some());
        if (recovers || has_tree) && !self.is_as_before(&at, budget)? {
            return Ok(StepOutcome::Raced);
        }
        let current = self.current(&at)?;
        let is_known = match (current, self.victim) {
            (None, None) => true,
            // Examined just now.
            (Some(current), Some(victim)) => current == victim || recovers,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_known {
            return Ok(StepOutcome::Raced);
        }
        match self.action {
            StepAction::Install => {
                let is_prepared = !recovers || self.is_as_prepared(site, budget)?;
                match is_prepared && self.is_staged(&site.area.dir, &staged_name(self.number))? {
                    true => self.install(site, &at, current),
                    false => Ok(StepOutcome::Exchanged),
                }
            }
            StepAction::Remove => self.remove(site, &at, current),
            StepAction::SetMetadata => {
                self.set_metadata(&at, self.before.as_ref(), self.after.as_ref())?;
                Ok(StepOutcome::Done)
            }
        }
    }

    fn destination(&self, site: &Site<'_>) -> Result<Destination<'_>, ReviewError> {
        let here = OsStr::new(".");
        let Some((parent, _)) = self.path.split_last() else {
            let root = tree::open_below(site.lower, &self.path);
            let parent = root.map_err(failed("open", &self.path))?;
            return Ok(Destination { parent, name: here });
        };
        let name = self
            .path
            .names()
            .last()
            .map_or(here, |name| name.as_os_str());
        let parent = tree::open_below(site.lower, &parent).map_err(failed("open", &parent))?;
        let stat = fstat(&parent).map_err(failed("examine", &self.path))?;
        let area = fstat(&site.area.dir).map_err(failed("examine", &self.path))?;
        if stat.st_dev != area.st_dev {
            return Err(failed("replace", &self.path)(Errno::XDEV));
        }
        Ok(Destination { parent, name })
    }

    /// Checks that the destination can be reached, before anything is changed.
    pub(crate) fn check(&self, site: &Site<'_>) -> Result<(), ReviewError> {
        self.destination(site).map(drop)
    }

    fn current(&self, at: &Destination<'_>) -> Result<Option<ObjectIdentity>, ReviewError> {
        let stat = tree::lstat(&at.parent, at.name).map_err(failed("examine", &self.path))?;
        Ok(stat.as_ref().map(ObjectIdentity::of))
    }

    fn is_done(&self, site: &Site<'_>, at: &Destination<'_>) -> Result<bool, ReviewError> {
        match self.action {
            StepAction::Install => {
                let (current, staged) = (self.current(at)?, self.staged);
                Ok(matches!((current, staged), (Some(a), Some(b)) if a.is_object(b)))
            }
            StepAction::Remove => {
                let victim = tree::lstat(&site.area.dir, &victim_name(self.number));
                let victim = victim.map_err(failed("examine", &self.path))?;
                Ok(victim.is_some())
            }
            // Cheap to do again.
            StepAction::SetMetadata => Ok(false),
        }
    }

    /// Returns `true` if the path has the state that the list shows as the old one.
    fn is_as_before(&self, at: &Destination<'_>, budget: &mut Budget) -> Result<bool, ReviewError> {
        let place = Place {
            dir: &at.parent,
            name: at.name,
            path: &self.path,
            is_own: false,
        };
        match current_state(&place, self.before.as_ref(), budget)? {
            // Half done.
            Some((now, _)) if self.action == StepAction::SetMetadata => {
                let states = [self.before.as_ref(), self.after.as_ref()];
                let fits = |state: &&ObjectState| {
                    state.kind == now.kind && [state.mode, state.mode | 0o700].contains(&now.mode)
                };
                Ok(states.iter().flatten().any(fits))
            }
            now => Ok(now.map(|(state, _)| state) == self.before),
        }
    }

    /// Returns `true` if this name has the prepared object, unchanged and without another name. Other
    /// programs can write in the staging area.
    fn is_staged(&self, dir: &OwnedFd, name: &OsStr) -> Result<bool, ReviewError> {
        let stat = tree::lstat(dir, name).map_err(failed("examine", &self.path))?;
        let is_single = |stat: &Stat| self.is_dir() || stat.st_nlink <= self.names;
        let is_whole = |stat: &Stat| {
            let mode = self.after.as_ref().map(|after| after.mode & 0o7777);
            self.is_dir() || mode == Some(Mode::from_raw_mode(stat.st_mode).as_raw_mode())
        };
        Ok(stat.is_some_and(|stat| {
            Some(ObjectIdentity::of(&stat)) == self.staged && is_single(&stat) && is_whole(&stat)
        }))
    }

    /// Returns `true` if the prepared object has the state that was prepared: commands may have run
    /// since.
    fn is_as_prepared(&self, site: &Site<'_>, budget: &mut Budget) -> Result<bool, ReviewError> {
        let place = Place {
            dir: &site.area.dir,
            name: &staged_name(self.number),
            path: &self.path,
            is_own: false,
        };
        if self.is_dir() {
            let dir = tree::open_dir(place.dir, place.name);
            let names = dir.and_then(|dir| tree::names(&dir));
            return Ok(names.is_ok_and(|names| names.is_empty()));
        }
        let now = current_state(&place, self.after.as_ref(), budget)?;
        Ok(now.map(|(state, _)| state) == self.after)
    }

    fn install(
        &self,
        site: &Site<'_>,
        at: &Destination<'_>,
        victim: Option<ObjectIdentity>,
    ) -> Result<StepOutcome, ReviewError> {
        let (area, staged) = (&site.area.dir, staged_name(self.number));
        let into = |flags| renameat_with(area, &staged, &at.parent, at.name, flags);
        let Some(victim) = victim else {
            match into(RenameFlags::NOREPLACE) {
                Ok(()) => {}
                Err(Errno::EXIST | Errno::NOENT) => return Ok(StepOutcome::Raced),
                Err(error) => return Err(failed("create", &self.path)(error)),
            }
            if self.is_staged(&at.parent, at.name)? {
                return Ok(StepOutcome::Done);
            }
            renameat(&at.parent, at.name, area, &staged).map_err(failed("restore", &self.path))?;
            return Ok(StepOutcome::Exchanged);
        };
        match into(RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // Not on this file system: two renames, which the journal joins.
            Err(Errno::INVAL) => {
                let aside = victim_name(self.number);
                renameat(&at.parent, at.name, area, &aside)
                    .and_then(|()| renameat(area, &staged, &at.parent, at.name))
                    .map_err(failed("replace", &self.path))?;
                if self.is_staged(&at.parent, at.name)? {
                    return Ok(StepOutcome::Done);
                }
                renameat(&at.parent, at.name, area, &staged)
                    .and_then(|()| renameat(area, &aside, &at.parent, at.name))
                    .map_err(failed("restore", &self.path))?;
                return Ok(StepOutcome::Exchanged);
            }
            Err(Errno::NOENT) => return Ok(StepOutcome::Raced),
            Err(error) => return Err(failed("replace", &self.path)(error)),
        }
        let got = tree::lstat(area, &staged).map_err(failed("replace", &self.path))?;
        let is_victim = got.is_some_and(|got| ObjectIdentity::of(&got) == victim);
        let is_staged = self.is_staged(&at.parent, at.name)?;
        if is_victim && is_staged {
            return Ok(StepOutcome::Done);
        }
        // Another program has replaced one of them meanwhile: both go back.
        into(RenameFlags::EXCHANGE).map_err(failed("restore", &self.path))?;
        Ok(match is_staged {
            true => StepOutcome::Raced,
            false => StepOutcome::Exchanged,
        })
    }

    fn remove(
        &self,
        site: &Site<'_>,
        at: &Destination<'_>,
        victim: Option<ObjectIdentity>,
    ) -> Result<StepOutcome, ReviewError> {
        let (area, aside) = (&site.area.dir, victim_name(self.number));
        match renameat_with(&at.parent, at.name, area, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL) => {
                renameat(&at.parent, at.name, area, &aside).map_err(failed("remove", &self.path))?
            }
            Err(Errno::NOENT) => return Ok(StepOutcome::Raced),
            result => result.map_err(failed("remove", &self.path))?,
        }
        let got = tree::lstat(area, &aside).map_err(failed("remove", &self.path))?;
        if got.as_ref().map(ObjectIdentity::of) == victim {
            return Ok(StepOutcome::Done);
        }
        renameat(area, &aside, &at.parent, at.name).map_err(failed("restore", &self.path))?;
        Ok(StepOutcome::Raced)
    }

    fn set_metadata(
        &self,
        at: &Destination<'_>,
        before: Option<&ObjectState>,
        after: Option<&ObjectState>,
    ) -> Result<(), ReviewError> {
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(());
        };
        let is_dir = after.kind == PathKind::Directory;
        let object = match is_dir {
            true => tree::open_dir(&at.parent, at.name),
            false => tree::open_file(&at.parent, at.name),
        };
        let object = object.map_err(failed("open", &self.path))?;
        set_attributes(&object, &before.attributes, &after.attributes, &self.path)?;
        // Everything in a directory comes before its last mode.
        let open = if is_dir { 0o700 } else { 0 };
        let mode = Mode::from_raw_mode(after.mode & MODE_BITS | open);
        fchmod(&object, mode).map_err(failed("change the mode of", &self.path))?;
        fsync(&object).map_err(failed("change the mode of", &self.path))
    }

    /// Gives a directory its own mode and times, after everything in it is there.
    pub(crate) fn finish(&self, site: &Site<'_>) -> Result<(), ReviewError> {
        let Some(after) = self.after.as_ref().filter(|_| self.is_dir()) else {
            return Ok(());
        };
        // The person may have removed it in the meantime.
        let Ok(at) = self.destination(site) else {
            return Ok(());
        };
        if self.action == StepAction::Install && !self.is_done(site, &at)? {
            return Ok(());
        }
        let dir = match tree::open_dir(&at.parent, at.name) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            dir => dir.map_err(failed("open", &self.path))?,
        };
        let mode = Mode::from_raw_mode(after.mode & MODE_BITS);
        fchmod(&dir, mode).map_err(failed("change the mode of", &self.path))?;
        if let Some(modified) = self.modified {
            let time = Timespec {
                tv_sec: modified.seconds,
                tv_nsec: modified.nanoseconds,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            futimens(&dir, &times).map_err(failed("set the times of", &self.path))?;
        }
        fsync(&dir).map_err(failed("write", &self.path))
    }

    /// Writes the directory entry of this step to the disk.
    pub(crate) fn sync(&self, site: &Site<'_>) -> Result<(), ReviewError> {
        match self.destination(site) {
            Ok(at) => fsync(&at.parent).map_err(failed("write", &self.path)),
            // The person may have removed it in the meantime.
            Err(_) => Ok(()),
        }
    }

    /// Takes a finished step back. Returns `false` if the path keeps its new state, because
    /// somebody has changed it since.
    pub(crate) fn undo(&self, site: &Site<'_>) -> Result<bool, ReviewError> {
        let at = self.destination(site)?;
        let area = &site.area.dir;
        match self.action {
            StepAction::SetMetadata => {
                let (before, after) = (self.before.as_ref(), self.after.as_ref());
                self.set_metadata(&at, after, before)?;
                if let (Some(before), Ok(dir)) = (before, tree::open_dir(&at.parent, at.name)) {
                    let mode = Mode::from_raw_mode(before.mode);
                    fchmod(&dir, mode).map_err(failed("restore", &self.path))?;
                }
                Ok(true)
            }
            StepAction::Remove => {
                let aside = victim_name(self.number);
                let flags = RenameFlags::NOREPLACE;
                let back = renameat_with(area, &aside, &at.parent, at.name, flags);
                Ok(back.is_ok())
            }
            StepAction::Install => {
                if !self.is_done(site, &at)? {
                    return Ok(true);
                }
                if let Ok(dir) = tree::open_dir(&at.parent, at.name)
                    && !tree::names(&dir)
                        .map_err(failed("read", &self.path))?
                        .is_empty()
                {
                    return Ok(false);
                }
                let staged = staged_name(self.number);
                let back = match self.victim {
                    None if self.is_dir() => unlinkat(&at.parent, at.name, AtFlags::REMOVEDIR),
                    None => renameat(&at.parent, at.name, area, &staged),
                    Some(_) => {
                        let flags = RenameFlags::EXCHANGE;
                        renameat_with(area, &staged, &at.parent, at.name, flags).or_else(|_| {
                            renameat(area, victim_name(self.number), &at.parent, at.name)
                        })
                    }
                };
                Ok(back.is_ok())
            }
        }
    }

    fn is_dir(&self) -> bool {
        kind_of(self.after.as_ref()) == Some(PathKind::Directory)
    }

    pub(crate) fn applied(&self, mount: &str) -> AppliedChange {
        AppliedChange {
            mount: mount.to_owned(),
            path: self.path.clone(),
            kind: self.kind,
            before: self.before.clone(),
            after: self.after.clone(),
        }
    }
}

/// Returns the present state of a path of the project, in the form of an older one.
pub(crate) fn current_state(
    place: &Place<'_>,
    older: Option<&ObjectState>,
    budget: &mut Budget,
) -> Result<Option<(ObjectState, Stat)>, ReviewError> {
    let by = Comparison::of(older);
    let Some(mut now) = place.observe(by, budget)? else {
        return Ok(None);
    };
    let has_tree = older.is_some_and(|older| older.tree.is_some());
    if has_tree && now.state.kind == PathKind::Directory {
        now.state.tree = Some(place.observe_tree(by, budget, &mut |_, _| Ok(()))?);
    }
    Ok(Some((now.state, now.stat)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{changed_at, modified_at};

    #[test]
    fn a_written_file_has_another_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "a").unwrap();
        let stat = || rustix::fs::lstat(&path).unwrap();
        let before = ObjectIdentity::of(&stat());
        assert_eq!(before, ObjectIdentity::of(&stat()));
        std::fs::write(&path, "ab").unwrap();
        let after = ObjectIdentity::of(&stat());
        assert!(before != after && before.is_object(after));
        assert!(changed_at(&stat()) >= modified_at(&stat()));
    }
}
