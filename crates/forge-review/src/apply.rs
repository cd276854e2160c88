//! Applies chosen changes: choose, compare with the list, prepare, commit, keep a record.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::Stat;
use rustix::io::Errno;

use crate::budget::{Budget, ReviewLimits};
use crate::diff::{FileDiff, LineDiff, MAX_TEXT_BYTES, as_text};
use crate::error::{ReviewError, failed, failed_own};
use crate::git_dirs::judge_again;
use crate::journal::{JOURNAL, Journal, Phase, Site, Step, StepAction, StepOutcome, current_state};
use crate::own_files::{OnDisk, read_json, remove_file, write_json};
use crate::path::TreePath;
use crate::review::{
    ApplyRecord, ChangeClass, ChangeKind, ReviewMount, ReviewStage, ReviewedChange, RunReview,
    VERSION,
};
use crate::review_dir::{LOCK_ATTEMPTS, ReviewDir, take_lock};
use crate::staging::{AREA, Blueprint, StagingArea};
use crate::state::{ObjectIdentity, PathKind, Place, kind_of, modified_at, u64_of};
use crate::tree::{self, OpenObject};

/// A path below one mount of a review, by the index of the mount.
pub type MountedPath = (usize, TreePath);

/// The changes that a person chooses.
#[derive(Clone, Debug, Default)]
pub struct ChangeSelection {
    /// All changes that need not be named.
    pub all: bool,
    /// Changes at and below these paths.
    pub paths: Vec<MountedPath>,
    /// Hunks of modified text files, by their numbers.
    pub hunks: BTreeMap<MountedPath, BTreeSet<usize>>,
    /// Protected names at and below these paths. No other ones are chosen.
    pub protected: Vec<MountedPath>,
}

/// The result of an apply.
#[derive(Debug)]
pub struct ApplyReport {
    /// The record, as it is kept in the review.
    pub record: ApplyRecord,
    /// Changes at or below the chosen paths that are left because nobody named the protected name.
    pub skipped_protected: Vec<MountedPath>,
    /// Changes that are left because an apply cannot make such an object.
    pub skipped_special: Vec<MountedPath>,
}

/// The changes that a [`ChangeSelection`] means.
#[derive(Debug, Default)]
pub struct ChosenChanges {
    /// Mount and index of each change, in the order of paths.
    chosen: Vec<(usize, usize)>,
    /// Paths left out, as in [`ApplyReport::skipped_protected`].
    pub skipped_protected: Vec<MountedPath>,
    /// Paths left out, as in [`ApplyReport::skipped_special`].
    pub skipped_special: Vec<MountedPath>,
}

/// A review with the directories below which its changes are applied.
#[derive(Debug)]
pub struct OpenReview {
    dir: ReviewDir,
    lowers: Vec<Option<OwnedFd>>,
}

impl OpenReview {
    /// Takes a review, and finishes or takes back an apply that was interrupted; returns the record
    /// of a finished one. `lowers` are the directories of the mounts, as for [`ReviewDir::record`].
    ///
    /// # Errors
    /// If an interrupted apply cannot be finished, because its directory is missing.
    pub fn new(
        dir: ReviewDir,
        lowers: Vec<Option<OwnedFd>>,
    ) -> Result<(OpenReview, Option<ApplyRecord>), ReviewError> {
        let mut this = OpenReview { dir, lowers };
        let recovered = this.recover()?;
        Ok((this, recovered))
    }

    /// Returns the list of changes.
    pub fn review(&self) -> &RunReview {
        &self.dir.review
    }

    /// Removes the review with its layers.
    ///
    /// # Errors
    /// As [`ReviewDir::discard`].
    pub fn discard(self, reviews: BorrowedFd<'_>) -> Result<(), ReviewError> {
        self.dir.discard(reviews)
    }

    /// Compares the project's file with the one of the run.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn diff(&self, mount: usize, change: &ReviewedChange) -> Result<FileDiff, ReviewError> {
        let kinds = [&change.before, &change.after].map(|state| kind_of(state.as_ref()));
        let is_content = matches!(
            change.kind,
            ChangeKind::Added
                | ChangeKind::Modified
                | ChangeKind::Deleted
                | ChangeKind::TypeChanged
        );
        if !is_content || !kinds.contains(&Some(PathKind::File)) {
            return Ok(FileDiff::None);
        }
        let [old, new] = match self.texts(mount, change) {
            Ok(Some(texts)) => texts,
            Ok(None) => return Ok(FileDiff::Binary),
            Err(ReviewError::ChangedBelow(_)) => return Ok(FileDiff::ChangedBelow),
            Err(error) => return Err(error),
        };
        match (as_text(&old), as_text(&new)) {
            (Some(old), Some(new)) => Ok(FileDiff::Text(LineDiff::of(old, new).hunks())),
            _ => Ok(FileDiff::Binary),
        }
    }

    /// Returns the two contents of a path, empty for a side that is not a file; `None` if one is too
    /// large for text.
    fn texts(
        &self,
        mount: usize,
        change: &ReviewedChange,
    ) -> Result<Option<[Vec<u8>; 2]>, ReviewError> {
        let is_file = |state: &Option<_>| kind_of(state.as_ref()) == Some(PathKind::File);
        let mut sides = [Vec::new(), Vec::new()];
        if is_file(&change.before) {
            let lower = self.dir.lower(&self.lowers, mount)?;
            match read_below(lower, &change.path, false) {
                Ok(Some(content)) => sides[0] = content,
                Ok(None) => return Ok(None),
                Err(ReviewError::Io { source, .. }) if is_another_object(&source) => {
                    return Err(ReviewError::ChangedBelow(vec![change.path.clone()]));
                }
                Err(error) => return Err(error),
            }
        }
        if is_file(&change.after) {
            let upper = self.dir.own_upper(&self.mount(mount).name)?;
            match read_below(&upper, &change.path, true)? {
                Some(content) => sides[1] = content,
                None => return Ok(None),
            }
        }
        Ok(Some(sides))
    }

    fn mount(&self, mount: usize) -> &ReviewMount {
        &self.dir.review.mounts[mount]
    }

    /// Returns the changes that a selection means, without a look at the project.
    ///
    /// # Errors
    /// If a path or hunk has no change, or cannot be applied without another path.
    pub fn choose(&self, selection: &ChangeSelection) -> Result<ChosenChanges, ReviewError> {
        choose(&self.dir.review, selection)
    }

    /// Returns the paths of chosen changes.
    pub fn paths_of(&self, chosen: &ChosenChanges) -> Vec<MountedPath> {
        let path = |(mount, at): &(usize, usize)| {
            let change = &self.mount(*mount).changes[*at];
            (*mount, change.path.clone())
        };
        chosen.chosen.iter().map(path).collect()
    }

    /// Applies the selection: all of it, or nothing.
    ///
    /// # Errors
    /// [`ReviewError::ChangedBelow`] if a chosen path changed in the project. Any error but
    /// [`ReviewError::PartlyApplied`] leaves the project as it was.
    pub fn apply(
        &mut self,
        selection: &ChangeSelection,
        by: &str,
        at_ms: u64,
        limits: &ReviewLimits,
    ) -> Result<ApplyReport, ReviewError> {
        if self.dir.review.stage != ReviewStage::Recorded {
            let reason = "the changes of the run are not listed yet";
            return Err(ReviewError::damaged("list", reason));
        }
        let chosen = self.choose(selection)?;
        let mut budget = Budget::new(limits);
        let mut journal = Journal {
            version: VERSION,
            id: random_id()?,
            at_ms,
            by: by.to_owned(),
            phase: Phase::Preparing,
            mounts: chosen.chosen.iter().map(|(mount, _)| *mount).collect(),
            steps: Vec::new(),
            notes: Vec::new(),
        };
        for mount in &journal.mounts {
            // No two applies of forge work on one directory at once.
            take_lock(self.dir.lower(&self.lowers, *mount)?, LOCK_ATTEMPTS)?;
        }
        let mounts = self.dir.review.mounts.iter_mut();
        for (mount, lower) in mounts.zip(&self.lowers) {
            if let Some(lower) = lower {
                judge_again(&mut mount.changes, lower);
            }
        }
        let chosen = self.choose(selection)?;
        let mut plans = self.plan(&chosen, selection, &mut budget)?;
        // From now on the project differs from the copy: the run cannot go on.
        self.dir.drop_copies()?;
        write_json(&self.dir.dir, JOURNAL, &journal, OnDisk::Now)?;
        let prepared = self.prepare(&mut plans, &mut journal, &mut budget);
        if let Err(error) = prepared {
            self.clean_up(&journal)?;
            return Err(error);
        }
        journal.phase = Phase::Committing;
        write_json(&self.dir.dir, JOURNAL, &journal, OnDisk::Now)?;
        let record = self.commit(journal, &mut budget)?;
        Ok(ApplyReport {
            record,
            skipped_protected: chosen.skipped_protected,
            skipped_special: chosen.skipped_special,
        })
    }

    /// Compares each chosen path with the list. Nothing is changed.
    fn plan(
        &self,
        chosen: &ChosenChanges,
        selection: &ChangeSelection,
        budget: &mut Budget,
    ) -> Result<Vec<ChosenStep>, ReviewError> {
        let mut plans = Vec::new();
        let mut changed = Vec::new();
        for (mount, at) in &chosen.chosen {
            let change = &self.mount(*mount).changes[*at];
            let lower = self.dir.lower(&self.lowers, *mount)?;
            let now = state_below(lower, change, budget)?;
            let (state, stat) = match now {
                Some((state, stat)) => (Some(state), Some(stat)),
                None => (None, None),
            };
            if change.changed_below || state != change.before {
                changed.push(change.path.clone());
                continue;
            }
            let key = (*mount, change.path.clone());
            let content = match selection.hunks.get(&key) {
                Some(numbers) => Some(self.merged(*mount, change, numbers)?),
                None => None,
            };
            plans.push(ChosenStep {
                mount: *mount,
                change: change.clone(),
                victim: stat,
                content,
            });
        }
        if !changed.is_empty() {
            return Err(ReviewError::ChangedBelow(changed));
        }
        Ok(plans)
    }

    /// Returns the project's file with some hunks of the run's one.
    fn merged(
        &self,
        mount: usize,
        change: &ReviewedChange,
        numbers: &BTreeSet<usize>,
    ) -> Result<Vec<u8>, ReviewError> {
        let refused = |reason: &str| ReviewError::selection(&change.path, reason);
        let texts = self.texts(mount, change)?;
        let [old, new] = texts.ok_or_else(|| refused("too large to apply hunks"))?;
        let (Some(old), Some(new)) = (as_text(&old), as_text(&new)) else {
            return Err(refused("not a text file: it has no hunks"));
        };
        let merged = LineDiff::of(old, new).with_hunks(numbers);
        let merged = merged.ok_or_else(|| refused("a chosen hunk does not exist"))?;
        Ok(merged.into_bytes())
    }

    /// Makes all new objects beside the project's ones.
    fn prepare(
        &self,
        plans: &mut [ChosenStep],
        journal: &mut Journal,
        budget: &mut Budget,
    ) -> Result<(), ReviewError> {
        let mut sites = BTreeMap::new();
        let mut uppers = BTreeMap::new();
        for mount in journal.mounts.clone() {
            let lower = self.dir.lower(&self.lowers, mount)?;
            let area = StagingArea::create(lower, &area_name(&journal.id))?;
            sites.insert(mount, Site { lower, area });
            uppers.insert(mount, self.dir.own_upper(&self.mount(mount).name)?);
        }
        for (number, plan) in plans.iter_mut().enumerate() {
            let (Some(site), Some(upper)) = (sites.get_mut(&plan.mount), uppers.get(&plan.mount))
            else {
                continue;
            };
            let mut step = plan.step(number);
            if step.action == StepAction::Install {
                plan.prepare(&mut step, upper, &mut site.area, budget)?;
            }
            plan.note(&mut journal.notes);
            journal.steps.push(step);
        }
        journal
            .notes
            .extend(sites.values().flat_map(|site| site.area.notes()));
        count_names(&mut journal.steps);
        // Directories come to their last mode and attributes after everything in them, in `finish`;
        // those that exist are changed last.
        journal.steps.sort_by_key(|step| {
            let is_last = step.action == StepAction::SetMetadata;
            (is_last, step.mount, step.number)
        });
        let in_new: BTreeSet<MountedPath> = journal
            .steps
            .iter()
            .filter(|step| step.action == StepAction::Install)
            .map(|step| (step.mount, step.path.clone()))
            .collect();
        for step in &journal.steps {
            let parents = step.path.parents();
            let mut parents = parents.map(|path| (step.mount, path));
            // In a directory that does not exist yet.
            if parents.any(|parent| in_new.contains(&parent)) {
                continue;
            }
            if let Some(site) = sites.get(&step.mount) {
                step.check(site)?;
            }
        }
        Ok(())
    }

    /// Moves everything to its place, or everything back.
    fn commit(
        &mut self,
        journal: Journal,
        budget: &mut Budget,
    ) -> Result<ApplyRecord, ReviewError> {
        let sites = self.sites(&journal)?;
        let mut failure = None;
        let mut done = 0;
        for step in &journal.steps {
            let Some(site) = sites.get(&step.mount) else {
                continue;
            };
            match step.commit(site, false, budget) {
                Ok(StepOutcome::Done) => done += 1,
                Ok(StepOutcome::Raced) => {
                    failure = Some(ReviewError::ChangedBelow(vec![step.path.clone()]));
                    break;
                }
                Ok(StepOutcome::Exchanged) => {
                    failure = Some(ReviewError::PreparedChanged(step.path.clone()));
                    break;
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let Some(cause) = failure else {
            drop(sites);
            return self.finish(&journal, &journal.steps);
        };
        let mut kept = Vec::new();
        for step in journal.steps[..done].iter().rev() {
            let Some(site) = sites.get(&step.mount) else {
                continue;
            };
            if !step.undo(site).unwrap_or(false) {
                kept.push(step.clone());
            }
        }
        drop(sites);
        if kept.is_empty() {
            self.clean_up(&journal)?;
            return Err(cause);
        }
        self.finish(&journal, &kept)?;
        Err(ReviewError::PartlyApplied {
            cause: Box::new(cause),
            kept: kept.into_iter().map(|step| step.path).collect(),
        })
    }

    fn sites(&self, journal: &Journal) -> Result<BTreeMap<usize, Site<'_>>, ReviewError> {
        let mut sites = BTreeMap::new();
        for mount in &journal.mounts {
            let lower = self.dir.lower(&self.lowers, *mount)?;
            let name = area_name(&journal.id);
            let area = match StagingArea::open(lower, &name) {
                // The person removed it: steps that are not done yet find nothing to install.
                Err(Errno::NOENT) => StagingArea::create(lower, &name)?,
                area => area.map_err(failed("open", &TreePath::default()))?,
            };
            sites.insert(*mount, Site { lower, area });
        }
        Ok(sites)
    }

    /// Sets the last modes, keeps the record, and removes everything that only the apply needed.
    fn finish(&mut self, journal: &Journal, done: &[Step]) -> Result<ApplyRecord, ReviewError> {
        let sites = self.sites(journal)?;
        let mut synced = BTreeSet::new();
        // Inner directories before outer ones: the mode of an outer one may close it.
        for step in done.iter().rev() {
            let Some(site) = sites.get(&step.mount) else {
                continue;
            };
            let parent = step.path.split_last().map(|(parent, _)| parent);
            if synced.insert((step.mount, parent)) {
                step.sync(site)?;
            }
        }
        let mut directories: Vec<&Step> = done.iter().collect();
        directories.sort_by_key(|step| std::cmp::Reverse(step.path.names().len()));
        for step in directories {
            if let Some(site) = sites.get(&step.mount) {
                step.finish(site)?;
            }
        }
        drop(sites);
        let mounts = &self.dir.review.mounts;
        let record = ApplyRecord {
            id: journal.id.clone(),
            at_ms: journal.at_ms,
            by: journal.by.clone(),
            changes: done
                .iter()
                .map(|step| step.applied(&mounts[step.mount].name))
                .collect(),
            notes: journal.notes.clone(),
        };
        self.keep(&record, done);
        self.dir.save(OnDisk::Now)?;
        self.clean_up(journal)?;
        Ok(record)
    }

    /// Takes applied changes from the list.
    fn keep(&mut self, record: &ApplyRecord, done: &[Step]) {
        let review = &mut self.dir.review;
        if review.applied.iter().any(|known| known.id == record.id) {
            return;
        }
        review.applied.push(record.clone());
        for (index, mount) in review.mounts.iter_mut().enumerate() {
            let steps: BTreeMap<&TreePath, &Step> = done
                .iter()
                .filter(|step| step.mount == index)
                .map(|step| (&step.path, step))
                .collect();
            mount
                .changes
                .retain_mut(|change| match steps.get(&change.path) {
                    Some(step) if step.is_partial => {
                        change.before.clone_from(&step.after);
                        true
                    }
                    Some(_) => false,
                    None => true,
                });
            // A directory that was made again is listed for the sake of its contents.
            let paths: Vec<TreePath> = mount.changes.iter().map(|c| c.path.clone()).collect();
            mount.changes.retain(|change| {
                let mut below = paths.iter().filter(|path| **path != change.path);
                change.kind != ChangeKind::Replaced
                    || change.before != change.after
                    || below.any(|path| path.starts_with(&change.path))
            });
        }
    }

    /// Removes the staging areas and the journal.
    fn clean_up(&self, journal: &Journal) -> Result<(), ReviewError> {
        for mount in &journal.mounts {
            let lower = self.dir.lower(&self.lowers, *mount)?;
            tree::remove_tree(lower, OsStr::new(&area_name(&journal.id)))
                .map_err(failed("remove prepared files in", &TreePath::default()))?;
        }
        remove_file(&self.dir.dir, JOURNAL)
    }

    /// Finishes an apply whose process ended, or takes it back if nothing was moved yet.
    fn recover(&mut self) -> Result<Option<ApplyRecord>, ReviewError> {
        let Some(journal) = self.dir.journal()? else {
            return Ok(None);
        };
        let applied = &self.dir.review.applied;
        let is_kept = applied.iter().any(|record| record.id == journal.id);
        if journal.phase == Phase::Preparing || is_kept {
            self.clean_up(&journal)?;
            let applied = self.dir.review.applied.iter();
            return Ok(applied
                .rev()
                .find(|record| record.id == journal.id)
                .cloned());
        }
        let mut budget = Budget::new(&ReviewLimits::default());
        let mut done = Vec::new();
        {
            let sites = self.sites(&journal)?;
            for step in &journal.steps {
                let Some(site) = sites.get(&step.mount) else {
                    continue;
                };
                let outcome = step.commit(site, true, &mut budget)?;
                if outcome == StepOutcome::Done {
                    done.push(step.clone());
                }
            }
        }
        self.finish(&journal, &done).map(Some)
    }
}

impl ReviewDir {
    /// Returns the paths of an apply that was interrupted: [`OpenReview::new`] changes them.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn interrupted_paths(&self) -> Result<Vec<MountedPath>, ReviewError> {
        let steps = self.journal()?.map(|journal| journal.steps);
        let steps = steps.into_iter().flatten();
        Ok(steps.map(|step| (step.mount, step.path)).collect())
    }

    fn journal(&self) -> Result<Option<Journal>, ReviewError> {
        let journal = read_json::<Journal>(&self.dir, JOURNAL)?;
        let is_known = |journal: &Journal| {
            let mut mounts = journal.mounts.iter();
            journal.version == VERSION
                && is_id(&journal.id)
                && mounts.all(|mount| *mount < self.review.mounts.len())
        };
        match journal {
            Some(journal) if !is_known(&journal) => {
                Err(ReviewError::damaged(JOURNAL, "unknown version or mount"))
            }
            journal => Ok(journal),
        }
    }
}

/// A chosen change that is as it was listed.
struct ChosenStep {
    mount: usize,
    change: ReviewedChange,
    victim: Option<Stat>,
    /// The new content, if only some hunks are applied.
    content: Option<Vec<u8>>,
}

impl ChosenStep {
    fn step(&self, number: usize) -> Step {
        let change = &self.change;
        let action = match change.kind {
            ChangeKind::Deleted => StepAction::Remove,
            ChangeKind::Metadata | ChangeKind::Replaced => StepAction::SetMetadata,
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::TypeChanged => {
                StepAction::Install
            }
        };
        let mut after = change.after.clone();
        if let (StepAction::SetMetadata, Some(after)) = (action, after.as_mut()) {
            after.mode &= crate::staging::MODE_BITS;
        }
        Step {
            mount: self.mount,
            number,
            path: change.path.clone(),
            kind: change.kind,
            action,
            before: change.before.clone(),
            after,
            victim: self.victim.as_ref().map(ObjectIdentity::of),
            staged: None,
            names: 1,
            is_partial: self.content.is_some(),
            modified: None,
        }
    }

    fn prepare(
        &self,
        step: &mut Step,
        upper: &OwnedFd,
        area: &mut StagingArea,
        budget: &mut Budget,
    ) -> Result<(), ReviewError> {
        let path = &self.change.path;
        let (Some((above, name)), Some(after)) = (path.split_last(), &self.change.after) else {
            return Ok(());
        };
        let dir = tree::open_own_below(upper, &above).map_err(failed("read", path))?;
        let from = Place {
            dir: &dir,
            name,
            path,
            is_own: true,
        };
        let mut state = after.clone();
        if let (Some(_), Some(before)) = (&self.content, &self.change.before) {
            // The rest of the change, its mode included, stays in the list.
            state.mode = before.mode;
            state.attributes.clone_from(&before.attributes);
        }
        let is_file = |stat: &&Stat| PathKind::of(stat) == PathKind::File;
        let blueprint = Blueprint {
            number: step.number,
            path,
            state: &state,
            victim: self.victim.as_ref().filter(is_file),
            content: self.content.as_deref(),
            is_single: matches!(self.change.class, ChangeClass::Protected { .. }),
        };
        let prepared = area.prepare(&from, &blueprint, budget)?;
        if prepared.state.kind == PathKind::Directory {
            let stat = tree::lstat(&*dir, name).map_err(failed("read", path))?;
            step.modified = stat.as_ref().map(modified_at);
        }
        step.staged = Some(prepared.identity);
        step.after = Some(prepared.state);
        Ok(())
    }

    fn note(&self, notes: &mut Vec<String>) {
        let change = &self.change;
        let set_id = change.after.as_ref().map_or(0, |after| after.mode & 0o6000);
        if set_id != 0 && self.content.is_none() {
            notes.push(format!("{}: set-id bits are not applied", change.path));
        }
        let is_file = |stat: &&Stat| PathKind::of(stat) == PathKind::File;
        let links = self
            .victim
            .as_ref()
            .filter(is_file)
            .map_or(1, |s| s.st_nlink);
        let replaces = matches!(change.kind, ChangeKind::Modified | ChangeKind::TypeChanged);
        if links > 1 && replaces {
            notes.push(format!(
                "{}: it had {links} hard links, and the others keep the old content",
                change.path
            ));
        }
    }
}

/// Returns the state of a changed path in the project. A path whose directory is missing does not
/// exist.
fn state_below(
    lower: &OwnedFd,
    change: &ReviewedChange,
    budget: &mut Budget,
) -> Result<Option<(crate::ObjectState, Stat)>, ReviewError> {
    let path = &change.path;
    let (above, name) = match path.split_last() {
        Some((above, name)) => (above, name),
        None => (TreePath::default(), OsStr::new(".")),
    };
    let dir = match tree::open_below(lower, &above) {
        // Deleted, or another kind of object, which the entry of that directory tells.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        dir => dir.map_err(failed("open", &above))?,
    };
    let place = Place {
        dir: &dir,
        name,
        path,
        is_own: false,
    };
    current_state(&place, change.before.as_ref(), budget)
}

/// Counts the prepared names of each object.
fn count_names(steps: &mut [Step]) {
    let mut names: BTreeMap<_, u64> = BTreeMap::new();
    for staged in steps.iter().filter_map(|step| step.staged) {
        *names.entry(staged.object()).or_default() += 1;
    }
    for step in steps {
        let count = step.staged.and_then(|staged| names.get(&staged.object()));
        step.names = count.copied().unwrap_or(1);
    }
}

fn choose(review: &RunReview, selection: &ChangeSelection) -> Result<ChosenChanges, ReviewError> {
    let mut chosen = ChosenChanges::default();
    let covers = |list: &[MountedPath], mount: usize, path: &TreePath| {
        list.iter().any(|(m, p)| *m == mount && path.starts_with(p))
    };
    check_names(review, selection)?;
    let mut picked = BTreeSet::new();
    for (mount, list) in review.mounts.iter().enumerate() {
        for (at, change) in list.changes.iter().enumerate() {
            let key = (mount, change.path.clone());
            let is_named = covers(&selection.protected, mount, &change.path);
            let is_chosen = selection.all
                || is_named
                || selection.hunks.contains_key(&key)
                || covers(&selection.paths, mount, &change.path);
            if !is_chosen {
                continue;
            }
            let is_protected = matches!(change.class, ChangeClass::Protected { .. });
            if is_protected && !is_named {
                chosen.skipped_protected.push(key);
            } else if !change.is_applicable() {
                chosen.skipped_special.push(key);
            } else {
                picked.insert((mount, at));
            }
        }
    }
    for (mount, at) in picked.clone() {
        add_parents(review, mount, at, &mut picked)?;
    }
    chosen.chosen = picked.into_iter().collect();
    Ok(chosen)
}

/// Every named path has a change.
fn check_names(review: &RunReview, selection: &ChangeSelection) -> Result<(), ReviewError> {
    let refused = |path: &TreePath, reason: &str| Err(ReviewError::selection(path, reason));
    for (mount, path) in selection.paths.iter().chain(&selection.protected) {
        let mut changes = review.changes();
        if !changes.any(|(m, change)| m == *mount && change.path.starts_with(path)) {
            return refused(path, "the run did not change it, or the change is applied");
        }
    }
    for (mount, path) in &selection.protected {
        let is_protected = |change: &ReviewedChange| {
            change.path.starts_with(path) && matches!(change.class, ChangeClass::Protected { .. })
        };
        let mut changes = review.changes();
        if !changes.any(|(m, change)| m == *mount && is_protected(change)) {
            return refused(path, "no protected name was changed there");
        }
    }
    for (mount, path) in selection.hunks.keys() {
        let mut changes = review.changes();
        let found = changes.find(|(m, change)| m == mount && change.path == *path);
        let is_modified = found.is_some_and(|(_, change)| {
            change.kind == ChangeKind::Modified
                && kind_of(change.after.as_ref()) == Some(PathKind::File)
        });
        if !is_modified {
            return refused(path, "not a modified file: it has no hunks to choose");
        }
    }
    for (mount, path) in &selection.paths {
        let mut changes = review.changes();
        let exact = changes.find(|(m, change)| m == mount && change.path == *path);
        if exact.is_some_and(|(_, change)| !change.is_applicable()) {
            return refused(path, "a pipe, socket or device cannot be applied");
        }
    }
    Ok(())
}

/// Adds the new directories above a chosen change.
fn add_parents(
    review: &RunReview,
    mount: usize,
    at: usize,
    picked: &mut BTreeSet<(usize, usize)>,
) -> Result<(), ReviewError> {
    let changes = &review.mounts[mount].changes;
    let change = &changes[at];
    for parent in change.path.parents() {
        let Ok(above) = changes.binary_search_by(|other| other.path.cmp(&parent)) else {
            continue;
        };
        if picked.contains(&(mount, above)) {
            continue;
        }
        let other = &changes[above];
        let is_protected = matches!(other.class, ChangeClass::Protected { .. });
        match other.kind {
            ChangeKind::Added if !is_protected => {
                picked.insert((mount, above));
            }
            ChangeKind::Added | ChangeKind::TypeChanged => {
                let reason = format!("it needs `{parent}`, which is not chosen");
                return Err(ReviewError::selection(&change.path, reason));
            }
            ChangeKind::Modified
            | ChangeKind::Metadata
            | ChangeKind::Deleted
            | ChangeKind::Replaced => {}
        }
    }
    Ok(())
}

/// Reads a file of a layer; `None` if it is not a file or too large for text.
fn read_below(
    root: &OwnedFd,
    path: &TreePath,
    is_own: bool,
) -> Result<Option<Vec<u8>>, ReviewError> {
    let Some((above, name)) = path.split_last() else {
        return Ok(None);
    };
    let object = match is_own {
        true => {
            tree::open_own_below(root, &above).and_then(|dir| tree::open_own(&*dir, name, false))
        }
        false => tree::open_below(root, &above)
            .and_then(|dir| tree::open_file(&dir, name).map(OpenObject::from)),
    };
    let object = object.map_err(failed("read", path))?;
    let content = tree::read_file(&object, MAX_TEXT_BYTES).map_err(failed("read", path))?;
    Ok(content.filter(|content| u64_of(content.len()) <= MAX_TEXT_BYTES))
}

/// `true` if a path that was a file leads to nothing, a directory or a link now.
fn is_another_object(error: &std::io::Error) -> bool {
    let kinds = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::NXIO,
    ];
    Errno::from_io_error(error).is_some_and(|error| kinds.contains(&error))
}

fn area_name(id: &str) -> String {
    format!("{AREA}{id}")
}

fn random_id() -> Result<String, ReviewError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| failed_own("read", "random bytes")(Errno::IO))?;
    Ok(sandbox_names::hex(bytes))
}

fn is_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}
