//! Paths of the project to which links with protected names lead: a program reads them by the
//! protected name, so that a change of one is a change of the name.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::budget::{Budget, ReviewLimits};
use crate::classify::ProtectedName;
use crate::error::{ReviewError, failed};
use crate::path::TreePath;
use crate::review::{ChangeClass, ReviewedChange};
use crate::state::PathKind;
use crate::tree;

/// Links that are followed from one name (the kernel's own limit).
const MAX_LINKS: usize = 40;

/// A path, and the link with a protected name that leads to it.
struct LedPath {
    path: TreePath,
    link: TreePath,
}

/// Marks each change as protected that a link with a protected name leads to. `host` is the path of
/// the project.
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
    let mut targets = Vec::new();
    let mut budget = Budget::new(limits);
    let mut queue = VecDeque::from([TreePath::default()]);
    while let Some(path) = queue.pop_front() {
        budget.depth(&path)?;
        let entries = tree::open_below(lower, &path).and_then(|dir| kinds(&dir));
        let entries = match entries {
            Ok(entries) => entries,
            // Commands do not reach it, or it has moved.
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                continue;
            }
            Err(error) => return Err(failed("read", &path)(error)),
        };
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
                follow(lower, host, &path, &mut targets);
            }
        }
    }
    for change in changes {
        let is_dir = |change: &ReviewedChange| {
            let after = change.after.as_ref();
            after.is_some_and(|after| after.kind == PathKind::Directory)
        };
        let is_led = |target: &&LedPath| {
            change.path.starts_with(&target.path)
                // A directory on the way is removed or becomes something else.
                || target.path.starts_with(&change.path) && !is_dir(change)
        };
        if matches!(change.class, ChangeClass::Protected { .. }) {
            continue;
        }
        if let Some(target) = targets.iter().find(is_led) {
            let pattern = format!("the link {} leads to it", target.link);
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

/// Adds the links on the way of a link, and its end, which may be missing. What is outside of the
/// project is not in a review.
fn follow(lower: &OwnedFd, host: &Path, link: &TreePath, targets: &mut Vec<LedPath>) {
    let mut add = |path: &TreePath| {
        if !path.names().is_empty() && path != link {
            let (path, link) = (path.clone(), link.clone());
            targets.push(LedPath { path, link });
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

/// Returns the target of a link as a relative path; `None` outside of `host`.
fn relative_to<'a>(host: &Path, target: &'a Path) -> Option<&'a Path> {
    match target.is_absolute() {
        true => target.strip_prefix(host).ok(),
        false => Some(target),
    }
}
