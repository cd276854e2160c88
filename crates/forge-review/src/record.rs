//! Lists the changes that an upper layer holds, by a walk over that layer alone.
//!
//! The marks of overlayfs mounted with `userxattr`
//! (<https://docs.kernel.org/filesystems/overlayfs.html>): a deleted name is a character device 0/0,
//! or an empty file with `user.overlay.whiteout` in a directory with `user.overlay.opaque` = `x`; a
//! directory with `user.overlay.opaque` = `y` hides the lower one of its name. The latter is also
//! set on directories that are simply new, so it proves no deletion: the lower directory does.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Stat, fstat};

use crate::budget::{Budget, ReviewLimits};
use crate::classify::{Contents, ProtectedName, classify, is_git_redirect, is_harmless_config};
use crate::copy::CopyIndex;
use crate::error::{ReviewError, failed};
use crate::generated::GeneratedDirs;
use crate::git_dirs::{GitDir, protected_in};
use crate::link_targets::protect_targets;
use crate::path::TreePath;
use crate::quarantine::is_quarantined;
use crate::review::{ChangeClass, ChangeKind, ReviewedChange};
use crate::state::{
    Comparison, FileTime, ObjectState, ObservedPath, PathKind, Place, changed_at, kind_of,
    refuse_foreign,
};
use crate::tree;

const OPAQUE: &str = "user.overlay.opaque";
const WHITEOUT: &str = "user.overlay.whiteout";
const ORIGIN: &str = "user.overlay.origin";

/// Lists the changes of `upper` over `lower`, which is the directory `host`, in the order of their
/// paths. `copied` is the copy before the run, if the layer was made from one.
pub(crate) fn record(
    (lower, host): (&OwnedFd, &Path),
    upper: &OwnedFd,
    (started, copied): (FileTime, Option<&CopyIndex>),
    judge: &dyn Fn(&Path) -> Option<ProtectedName>,
    limits: &ReviewLimits,
) -> Result<Vec<ReviewedChange>, ReviewError> {
    let mut recorder = ChangeRecorder {
        started,
        copied,
        judge,
        budget: Budget::new(limits),
        git_dirs: Vec::new(),
        generated: GeneratedDirs::new(host),
        changes: Vec::new(),
    };
    let root = TreePath::default();
    let here = OsStr::new(".");
    let top = LayerPair {
        upper,
        lower: Some(lower),
        is_replaced: false,
        has_xattr_whiteouts: false,
    };
    recorder.entry(top.entry(here, &root))?;
    let mut changes = recorder.changes;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    protect_targets(&mut changes, lower, host, judge, limits)?;
    Ok(changes)
}

struct ChangeRecorder<'a> {
    started: FileTime,
    /// The copy before the run; `None` for an overlay.
    copied: Option<&'a CopyIndex>,
    judge: &'a dyn Fn(&Path) -> Option<ProtectedName>,
    budget: Budget,
    /// Repositories of any name around the current directory.
    git_dirs: Vec<GitDir>,
    generated: GeneratedDirs<'a>,
    changes: Vec<ReviewedChange>,
}

/// One directory in both layers.
struct LayerPair<'a> {
    upper: &'a OwnedFd,
    lower: Option<&'a OwnedFd>,
    /// The lower directory, or one above it, is hidden: names that are only in the lower one are
    /// deleted.
    is_replaced: bool,
    has_xattr_whiteouts: bool,
}

impl LayerPair<'_> {
    fn entry<'a>(&'a self, name: &'a OsStr, path: &'a TreePath) -> LayerEntry<'a> {
        LayerEntry {
            layers: self,
            name,
            path,
        }
    }
}

/// One name of a directory in both layers.
#[derive(Clone, Copy)]
struct LayerEntry<'a> {
    layers: &'a LayerPair<'a>,
    name: &'a OsStr,
    path: &'a TreePath,
}

impl<'a> LayerEntry<'a> {
    fn above(self) -> Place<'a> {
        Place {
            dir: self.layers.upper,
            name: self.name,
            path: self.path,
            is_own: true,
        }
    }

    fn below(self) -> Option<Place<'a>> {
        Some(Place {
            dir: self.layers.lower?,
            is_own: false,
            ..self.above()
        })
    }
}

impl ChangeRecorder<'_> {
    fn directory(&mut self, layers: &LayerPair<'_>, path: &TreePath) -> Result<(), ReviewError> {
        self.budget.depth(path)?;
        let found = tree::names(layers.upper).map_err(failed("read", path))?;
        let git_dir = git_dir(layers, &found, path)?;
        let around = self.git_dirs.len();
        self.git_dirs.extend(git_dir);
        for name in &found {
            self.entry(layers.entry(name, &path.join(name)))?;
        }
        if let (true, Some(lower)) = (layers.is_replaced, layers.lower) {
            for name in tree::names(lower).map_err(failed("read", path))? {
                if found.binary_search(&name).is_err() {
                    self.deleted(layers.entry(&name, &path.join(&name)))?;
                }
            }
        }
        self.git_dirs.truncate(around);
        Ok(())
    }

    fn entry(&mut self, entry: LayerEntry<'_>) -> Result<(), ReviewError> {
        let (above, path) = (entry.above(), entry.path);
        let stat = tree::lstat(above.dir, above.name).map_err(failed("examine", path))?;
        let Some(stat) = stat else { return Ok(()) };
        if is_whiteout(entry, &stat)? {
            return self.deleted(entry);
        }
        let kind = PathKind::of(&stat);
        if self.copied.is_none() && matches!(kind, PathKind::File | PathKind::Directory) {
            let object = above.open(kind == PathKind::Directory);
            refuse_foreign(&*object.map_err(failed("open", path))?, path)?;
        }
        let by = self.comparison(path, false);
        let Some(after) = above.observe(by, &mut self.budget)? else {
            return Ok(());
        };
        let before = match entry.below() {
            Some(below) => below.observe(by, &mut self.budget)?,
            None => None,
        };
        let kinds = (after.state.kind, before.as_ref().map(|b| b.state.kind));
        if kinds == (PathKind::Directory, Some(PathKind::Directory)) {
            return self.merged(entry, [before, Some(after)]);
        }
        let is_lost = before.is_none() && self.is_lost(entry, after.state.kind)?;
        let is_dir = after.state.kind == PathKind::Directory;
        self.single(entry, before, after, is_lost)?;
        if is_dir {
            let upper = above.open(true).map_err(failed("open", path))?;
            let inner = LayerPair {
                has_xattr_whiteouts: opaque(&upper, path)?.as_deref() == Some(b"x"),
                upper: &upper,
                lower: None,
                is_replaced: false,
            };
            self.directory(&inner, path)?;
        }
        Ok(())
    }

    /// Returns `true` if an object of the layer is the copy of one that the project no longer has.
    ///
    /// A directory with an origin was never renamed (that is EXDEV). A file was perhaps, so its old
    /// name proves nothing unless the directory of the project has changed since the start.
    fn is_lost(&self, entry: LayerEntry<'_>, kind: PathKind) -> Result<bool, ReviewError> {
        let above = entry.above();
        let (Some(lower), false) = (entry.layers.lower, entry.layers.is_replaced) else {
            return Ok(false);
        };
        if let Some(copied) = self.copied {
            return Ok(copied.get(above.path).is_some());
        }
        let is_dir = match kind {
            PathKind::Directory => true,
            PathKind::File => false,
            PathKind::Link | PathKind::Pipe | PathKind::Socket | PathKind::Device => {
                return Ok(false);
            }
        };
        let examined = failed("examine", above.path);
        if !is_dir && changed_at(&fstat(lower).map_err(examined)?) <= self.started {
            return Ok(false);
        }
        let object = above.open(is_dir).map_err(failed("open", above.path))?;
        let origin = tree::xattr(&*object, ORIGIN).map_err(failed("examine", above.path))?;
        Ok(origin.is_some())
    }

    /// Anything but a directory over a directory.
    fn single(
        &mut self,
        entry: LayerEntry<'_>,
        before: Option<ObservedPath>,
        after: ObservedPath,
        is_lost: bool,
    ) -> Result<(), ReviewError> {
        let Some(mut before) = before else {
            let states = [None, Some(after.state)];
            self.push(entry, ChangeKind::Added, states, is_lost);
            return Ok(());
        };
        let mut changed_below = self.is_later(&before.stat);
        let kind = match (before.state.kind, after.state.kind) {
            (old, new) if old != new => ChangeKind::TypeChanged,
            _ if before.state.content != after.state.content
                || before.state.target != after.state.target =>
            {
                ChangeKind::Modified
            }
            _ if before.state.mode != after.state.mode
                || before.state.attributes != after.state.attributes =>
            {
                ChangeKind::Metadata
            }
            // Copied up and not changed.
            _ => return Ok(()),
        };
        let mut pattern = None;
        if before.state.kind == PathKind::Directory
            && let Some(place) = entry.below()
        {
            changed_below |= self.observe_tree(&place, &mut before, &mut pattern)?;
        }
        let states = [Some(before.state), Some(after.state)];
        self.push(entry, kind, states, changed_below);
        self.protect_last(pattern);
        Ok(())
    }

    /// A directory in both layers.
    fn merged(
        &mut self,
        entry: LayerEntry<'_>,
        states: [Option<ObservedPath>; 2],
    ) -> Result<(), ReviewError> {
        let LayerEntry { layers, path, .. } = entry;
        let Some(below) = entry.below() else {
            return Ok(());
        };
        let upper = entry.above().open(true).map_err(failed("open", path))?;
        let lower = below.open(true).map_err(failed("open", path))?;
        let mark = opaque(&upper, path)?;
        let is_opaque = mark.as_deref() == Some(b"y");
        let states = states.map(|state| state.map(|observed| observed.state));
        let differs = states[0] != states[1];
        let at = self.changes.len();
        if is_opaque && !layers.is_replaced {
            self.push(entry, ChangeKind::Replaced, states, false);
        } else if differs {
            self.push(entry, ChangeKind::Metadata, states, false);
        }
        let inner = LayerPair {
            upper: &upper,
            lower: Some(&lower),
            is_replaced: layers.is_replaced || is_opaque,
            has_xattr_whiteouts: mark.as_deref() == Some(b"x"),
        };
        let listed = self.changes.len();
        self.directory(&inner, path)?;
        // Removed and made again as it was.
        if listed > at && self.changes.len() == listed && !differs {
            self.changes.truncate(at);
        }
        Ok(())
    }

    fn deleted(&mut self, entry: LayerEntry<'_>) -> Result<(), ReviewError> {
        let Some(place) = entry.below() else {
            return Ok(());
        };
        let by = self.comparison(entry.path, false);
        // A whiteout of something that is gone changes nothing.
        let Some(mut before) = place.observe(by, &mut self.budget)? else {
            return Ok(());
        };
        let mut changed_below = self.is_later(&before.stat);
        let mut pattern = None;
        if before.state.kind == PathKind::Directory {
            changed_below |= self.observe_tree(&place, &mut before, &mut pattern)?;
        }
        let states = [Some(before.state), None];
        self.push(entry, ChangeKind::Deleted, states, changed_below);
        self.protect_last(pattern);
        Ok(())
    }

    /// Adds the sum of a directory to its state. Returns `true` if something below it changed
    /// since the start, and the protected name in it.
    fn observe_tree(
        &mut self,
        place: &Place<'_>,
        before: &mut ObservedPath,
        pattern: &mut Option<String>,
    ) -> Result<bool, ReviewError> {
        let (started, judge) = (self.started, self.judge);
        let by = self.comparison(place.path, true);
        let mut changed = false;
        let sum = place.observe_tree(by, &mut self.budget, &mut |path, observed| {
            changed |= changed_at(&observed.stat) > started;
            if pattern.is_none() {
                // Names alone decide: the contents of a deleted tree are not read twice.
                let class = classify(judge, path, None, &NoContents);
                if let ChangeClass::Protected { pattern: found } = class {
                    *pattern = Some(found);
                }
            }
            Ok(())
        })?;
        before.state.tree = Some(sum);
        Ok(changed)
    }

    fn comparison(&self, path: &TreePath, is_dir: bool) -> Comparison {
        Comparison::new(self.generated.root_of(path, is_dir).is_some())
    }

    fn is_later(&self, stat: &Stat) -> bool {
        // The times of directories change with each name in them, and those are compared.
        PathKind::of(stat) != PathKind::Directory && changed_at(stat) > self.started
    }

    fn push(
        &mut self,
        entry: LayerEntry<'_>,
        kind: ChangeKind,
        [before, after]: [Option<ObjectState>; 2],
        changed_below: bool,
    ) {
        let LayerEntry { name, path, .. } = entry;
        let newest = kind_of(after.as_ref().or(before.as_ref()));
        let is_dir = newest == Some(PathKind::Directory);
        let generated = self.generated.root_of(path, is_dir);
        let mut class = classify(self.judge, path, generated, &entry);
        let is_file = |state: &Option<_>| {
            kind_of(state.as_ref()).is_some_and(|kind| kind != PathKind::Directory)
        };
        if let [Some(before), Some(after)] = [&before, &after]
            && [before, after].iter().all(|one| one.kind == PathKind::File)
            && after.mode & !before.mode == 0
            && is_harmless_config(path, &entry)
        {
            class = ChangeClass::Ordinary;
        }
        if is_git_redirect(name) && (is_file(&after) || is_file(&before)) {
            let pattern = ".git".to_owned();
            class = ChangeClass::Protected { pattern };
        }
        if is_quarantined(path) {
            // Of a command in an overlay, where no scan makes one.
            let pattern = sandbox_names::QUARANTINE.to_owned();
            class = ChangeClass::Protected { pattern };
        }
        let is_link = kind_of(after.as_ref()) == Some(PathKind::Link);
        if !matches!(class, ChangeClass::Protected { .. })
            && let Some(pattern) = protected_in(&self.git_dirs, path, is_link)
        {
            class = ChangeClass::Protected { pattern };
        }
        self.changes.push(ReviewedChange {
            path: path.clone(),
            kind,
            class,
            before,
            after,
            changed_below,
        });
    }

    /// A directory is protected if something in it is.
    fn protect_last(&mut self, pattern: Option<String>) {
        if let (Some(pattern), Some(last)) = (pattern, self.changes.last_mut()) {
            last.class = ChangeClass::Protected { pattern };
        }
    }
}

fn is_whiteout(entry: LayerEntry<'_>, stat: &Stat) -> Result<bool, ReviewError> {
    let above = entry.above();
    match PathKind::of(stat) {
        PathKind::Device => Ok(stat.st_rdev == 0),
        PathKind::File if entry.layers.has_xattr_whiteouts && stat.st_size == 0 => {
            let file = above.open(false).map_err(failed("open", above.path))?;
            let mark = tree::xattr(&*file, WHITEOUT).map_err(failed("examine", above.path))?;
            Ok(mark.is_some())
        }
        _ => Ok(false),
    }
}

/// Returns the directory if it is a repository under any name.
fn git_dir(
    layers: &LayerPair<'_>,
    found: &[OsString],
    path: &TreePath,
) -> Result<Option<GitDir>, ReviewError> {
    let mut written = Vec::new();
    for name in found.iter().filter(|name| GitDir::has_part(name)) {
        let stat = tree::lstat(layers.upper, name).map_err(failed("examine", path))?;
        if let Some(stat) = stat
            && !is_whiteout(layers.entry(name, path), &stat)?
        {
            written.push(name.as_os_str());
        }
    }
    let is_written = |name: &str| written.iter().any(|one| *one == name);
    let was_there = |name: &str| {
        let found = layers.lower.map(|lower| tree::lstat(lower, name.as_ref()));
        found.is_some_and(|found| found.is_ok_and(|stat| stat.is_some()))
    };
    Ok(GitDir::find(path, is_written, was_there))
}

/// Returns the mark of a directory of the upper layer.
fn opaque(dir: &OwnedFd, path: &TreePath) -> Result<Option<Vec<u8>>, ReviewError> {
    tree::xattr(dir, OPAQUE).map_err(failed("examine", path))
}

impl Contents for LayerEntry<'_> {
    fn current(&self, max_bytes: u64) -> Option<Vec<u8>> {
        read(&self.above(), max_bytes).or_else(|| self.previous(max_bytes))
    }

    fn previous(&self, max_bytes: u64) -> Option<Vec<u8>> {
        read(&self.below()?, max_bytes)
    }
}

fn read(place: &Place<'_>, max_bytes: u64) -> Option<Vec<u8>> {
    tree::read_file(&*place.open(false).ok()?, max_bytes).ok()?
}

struct NoContents;

impl Contents for NoContents {
    fn current(&self, _: u64) -> Option<Vec<u8>> {
        None
    }

    fn previous(&self, _: u64) -> Option<Vec<u8>> {
        None
    }
}
