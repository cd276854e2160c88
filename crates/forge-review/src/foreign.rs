//! Objects that an overlay cannot change: in a user namespace that maps one user and one group,
//! overlayfs copies no object of others to the upper layer (EOVERFLOW).

use std::os::fd::OwnedFd;

use rustix::fs::Stat;
use rustix::process::{getegid, geteuid};

use crate::budget::{Budget, ReviewLimits};
use crate::error::{ReviewError, failed};
use crate::path::TreePath;
use crate::state::PathKind;
use crate::tree;

/// Returns the first object below `lower` that belongs to another user or another group than this
/// process does.
///
/// # Errors
/// If a directory cannot be read, or a limit is met before one is found.
pub fn first_foreign(
    lower: &OwnedFd,
    limits: &ReviewLimits,
) -> Result<Option<TreePath>, ReviewError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let is_foreign = |stat: &Stat| stat.st_uid != user || stat.st_gid != group;
    find(
        lower,
        &TreePath::default(),
        &is_foreign,
        &mut Budget::new(limits),
    )
}

fn find(
    dir: &OwnedFd,
    path: &TreePath,
    is_wanted: &dyn Fn(&Stat) -> bool,
    budget: &mut Budget,
) -> Result<Option<TreePath>, ReviewError> {
    budget.depth(path)?;
    for name in tree::names(dir).map_err(failed("read", path))? {
        let path = path.join(&name);
        budget.entry(&path)?;
        let stat = tree::lstat(dir, &name).map_err(failed("examine", &path))?;
        let Some(stat) = stat else { continue };
        if is_wanted(&stat) {
            return Ok(Some(path));
        }
        if PathKind::of(&stat) == PathKind::Directory {
            let below = tree::open_dir(dir, &name).map_err(failed("open", &path))?;
            if let Some(found) = find(&below, &path, is_wanted, budget)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_first_one_is_found_and_a_limit_is_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/f"), "").unwrap();
        let lower = crate::open_host_dir(dir.path()).unwrap();
        let limits = ReviewLimits::default();
        assert_eq!(first_foreign(&lower, &limits).unwrap(), None);
        let is_file = |stat: &Stat| PathKind::of(stat) == PathKind::File;
        let budget = &mut Budget::new(&limits);
        let found = find(&lower, &TreePath::default(), &is_file, budget).unwrap();
        assert_eq!(found.unwrap().to_string(), "a/f");
        let limits = ReviewLimits {
            entries: 1,
            ..limits
        };
        assert!(first_foreign(&lower, &limits).is_err());
    }
}
