//! Paths of the project to which links with protected names and the configuration of repositories
//! lead: a program reads them by the protected name, so that a change of one is a change of the name.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use sandbox_names::git::ReferenceKind;
use sandbox_names::git_config::references;

use crate::budget::{self, Budget, ReviewLimits};
use crate::classify::ProtectedName;
use crate::error::{ReviewError, failed};
use crate::path::TreePath;
use crate::review::{ChangeClass, ReviewedChange};
use crate::state::{PathKind, kind_of};
use crate::tree;

/// Links that are followed from one name (the kernel's own limit).
const MAX_LINKS: usize = 40;

/// Configuration files of one repository that are read, and the bytes of each. With more, the changes
/// are not judged.
const MAX_CONFIGS: usize = 32;
const MAX_CONFIG_BYTES: u64 = 8 << 20;

/// A path, and the link or the setting that leads to it.
struct TargetPath {
    path: TreePath,
    by: String,
}

/// What leads to paths of a project.
struct LinkTargets<'a> {
    lower: &'a OwnedFd,
    host: &'a Path,
    targets: Vec<TargetPath>,
    /// Directories in which git starts programs for files that attributes name.
    drivers: Vec<TargetPath>,
}

/// Marks each change as protected that a link with a protected name or the configuration of a
/// repository leads to, and attributes where git has programs for files. `host` is the path of the
/// project.
pub(crate) fn protect_targets(
    changes: &mut [ReviewedChange],
    lower: &OwnedFd,
    host: &Path,
    judge: &dyn Fn(&Path) -> Option<ProtectedName>,
    limits: &ReviewLimits,
) -> Result<(), ReviewError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut found = LinkTargets {
        lower,
        host,
        targets: Vec::new(),
        drivers: Vec::new(),
    };
    found.walk(judge, limits)?;
    for change in changes {
        let is_dir = kind_of(change.after.as_ref()) == Some(PathKind::Directory);
        let is_led = |target: &&TargetPath| {
            change.path.starts_with(&target.path)
                // A directory on the way is removed or becomes something else.
                || target.path.starts_with(&change.path) && !is_dir
        };
        if matches!(change.class, ChangeClass::Protected { .. }) {
            continue;
        }
        let is_attributes =
            (change.path.names().last()).is_some_and(|name| name == ".gitattributes");
        let has_driver = |target: &&TargetPath| {
            is_attributes && change.after.is_some() && change.path.starts_with(&target.path)
        };
        let target = found.targets.iter().find(is_led);
        if let Some(target) = target.or_else(|| found.drivers.iter().find(has_driver)) {
            let pattern = format!("{} leads to it", target.by);
            change.class = ChangeClass::Protected { pattern };
        }
    }
    Ok(())
}

fn kinds(dir: &OwnedFd) -> rustix::io::Result<Vec<(OsString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match tree::lstat(dir, &name)? {
                Some(stat) => FileType::from_raw_mode(stat.st_mode),
                None => continue,
            },
            known => known,
        };
        found.push((name, kind));
    }
    Ok(found)
}

impl LinkTargets<'_> {
    /// Walks the project.
    fn walk(
        &mut self,
        judge: &dyn Fn(&Path) -> Option<ProtectedName>,
        limits: &ReviewLimits,
    ) -> Result<(), ReviewError> {
        let mut budget = Budget::new(limits);
        let mut queue = VecDeque::from([TreePath::default()]);
        while let Some(path) = queue.pop_front() {
            budget.depth(&path)?;
            let entries = tree::open_below(self.lower, &path).and_then(|dir| kinds(&dir));
            let entries = match entries {
                Ok(entries) => entries,
                // Commands do not reach it, or it has moved.
                Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    continue;
                }
                Err(error) => return Err(failed("read", &path)(error)),
            };
            let has = |own: &str| entries.iter().any(|(name, _)| name == own);
            if path.names().last().is_some_and(|name| name == ".git")
                || has("HEAD") && has("config")
            {
                self.repository(&path)?;
            }
            for (name, kind) in entries {
                let path = path.join(&name);
                budget.entry(&path)?;
                if kind == FileType::Directory {
                    queue.push_back(path);
                } else if kind == FileType::Symlink
                    // A repository is recognized by its contents.
                    && name != ".git"
                    && judge(Path::new(&path.to_os_string())).is_some()
                {
                    self.follow(&path, &format!("the link {path}"));
                }
            }
        }
        Ok(())
    }

    /// Adds the links on the way of a link, and its end, which may be missing. What is outside of the
    /// project is not in a review.
    fn follow(&mut self, link: &TreePath, by: &str) {
        let (lower, host) = (self.lower, self.host);
        let mut add = |path: &TreePath| {
            if !path.names().is_empty() && path != link {
                let (path, by) = (path.clone(), by.to_owned());
                self.targets.push(TargetPath { path, by });
            }
        };
        let mut rest: VecDeque<OsString> = link.names().iter().cloned().collect();
        let mut at = TreePath::default();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                match at.split_last() {
                    Some((above, _)) => at = above,
                    None => return,
                }
                continue;
            }
            let next = at.join(&name);
            let dir = tree::open_below(lower, &at);
            let Ok(found) = dir.and_then(|dir| Ok((tree::lstat(&dir, &name)?, dir))) else {
                return;
            };
            let (Some(stat), dir) = found else {
                // Only the end is meant, unless the rest of the way leads up again.
                let is_down = rest.iter().all(|name| name != "..");
                let end = rest.iter().filter(|_| is_down);
                return add(&end.fold(next, |path, name| path.join(name)));
            };
            match PathKind::of(&stat) {
                PathKind::Directory => at = next,
                PathKind::Link => {
                    links += 1;
                    add(&next);
                    let target = tree::read_link(&dir, &name).unwrap_or_default();
                    let target = PathBuf::from(OsString::from_vec(target));
                    let relative = relative_to(host, &target).filter(|_| links <= MAX_LINKS);
                    let Some(relative) = relative else {
                        return;
                    };
                    if target.is_absolute() {
                        at = TreePath::default();
                    }
                    for component in relative.components().rev() {
                        match component {
                            Component::Normal(name) => rest.push_front(name.to_owned()),
                            Component::ParentDir => rest.push_front("..".into()),
                            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
                        }
                    }
                }
                PathKind::File | PathKind::Pipe | PathKind::Socket | PathKind::Device => {
                    return add(&next);
                }
            }
        }
        add(&at);
    }

    /// Adds the paths that the configuration of a repository names.
    fn repository(&mut self, git: &TreePath) -> Result<(), ReviewError> {
        let around = match git.split_last() {
            Some((above, name)) if name == ".git" => above,
            _ => git.clone(),
        };
        let mut files =
            VecDeque::from(["config", "config.worktree"].map(|name| git.join(name.as_ref())));
        let mut has_drivers = false;
        let mut known = BTreeSet::new();
        while let Some(file) = files.pop_front() {
            if !known.insert(file.clone()) {
                continue;
            }
            let at_most = |count: usize, limit, unit| {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                budget::check(count, limit, unit, &file)
            };
            at_most(known.len(), MAX_CONFIGS as u64, "configuration files")?;
            let Some(text) = self.text(&file)? else {
                continue;
            };
            at_most(text.len(), MAX_CONFIG_BYTES, "bytes of configuration")?;
            let references = references(&String::from_utf8_lossy(&text));
            has_drivers |= references.drivers;
            for lead in references.paths {
                let base = match lead.kind {
                    ReferenceKind::None => continue,
                    ReferenceKind::Configuration => file.split_last().map(|(above, _)| above),
                    ReferenceKind::File | ReferenceKind::Program => Some(around.clone()),
                };
                let path = Path::new(&lead.path);
                let Some(path) =
                    base.and_then(|base| below(&base, relative_to(self.host, path)?, path))
                else {
                    continue;
                };
                // A word of a command need not be a file.
                let is_word = lead.kind == ReferenceKind::Program && !lead.path.contains('/');
                if path.names().is_empty() || is_word && !self.is_file(&path) {
                    continue;
                }
                let by = format!("{file}: {}", lead.by);
                self.follow(&path, &by);
                if lead.kind == ReferenceKind::Configuration {
                    files.push_back(path.clone());
                }
                self.targets.push(TargetPath { path, by });
            }
        }
        if has_drivers {
            let by = format!("a program for files in {git}");
            self.drivers.push(TargetPath { path: around, by });
        }
        Ok(())
    }

    /// Returns the content of a file, with a byte too much if it is too large for a configuration;
    /// `None` for one that commands cannot read.
    fn text(&self, path: &TreePath) -> Result<Option<Vec<u8>>, ReviewError> {
        let read = || {
            let (above, name) = path.split_last().ok_or(Errno::NOENT)?;
            let dir = tree::open_below(self.lower, &above)?;
            tree::read_file(&tree::open_file(&dir, name)?, MAX_CONFIG_BYTES)
        };
        match read() {
            Ok(bytes) => Ok(bytes),
            Err(
                Errno::ACCESS
                | Errno::PERM
                | Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::ISDIR,
            ) => Ok(None),
            Err(error) => Err(failed("read", path)(error)),
        }
    }

    fn is_file(&self, path: &TreePath) -> bool {
        let found = path.split_last().and_then(|(above, name)| {
            let dir = tree::open_below(self.lower, &above).ok()?;
            tree::lstat(&dir, name).ok()?
        });
        found.is_some_and(|stat| PathKind::of(&stat) == PathKind::File)
    }
}

/// Returns a path that is written in the directory `base`, by the names alone; `None` above the top.
fn below(base: &TreePath, relative: &Path, written: &Path) -> Option<TreePath> {
    let mut names = match written.is_absolute() {
        true => TreePath::default(),
        false => base.clone(),
    };
    for component in relative.components() {
        match component {
            Component::Normal(name) => names = names.join(name),
            Component::ParentDir => names = names.split_last()?.0,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names)
}

/// Returns the target of a link as a relative path; `None` outside of `host`.
fn relative_to<'a>(host: &Path, target: &'a Path) -> Option<&'a Path> {
    match target.is_absolute() {
        true => target.strip_prefix(host).ok(),
        false => Some(target),
    }
}
