//! Directories that git takes for a repository under any name, as the scan after a command without
//! a review judges them: git obeys their configuration, and follows links in them when it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use sandbox_names::git::{GitPathClass, classify};

use crate::path::TreePath;
use crate::review::{ChangeClass, ReviewedChange};
use crate::state::{PathKind, kind_of};
use crate::tree;

/// Directories of a repository in which git follows links when it writes.
const WRITTEN: [&str; 4] = ["logs", "refs", "objects", "worktrees"];

/// Names by which git recognizes a repository.
const PARTS: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];

/// A directory that is a repository before a run or after it, or with a part of its changes.
pub(crate) struct GitDir {
    /// The number of names in its path.
    depth: usize,
    /// Names that make a repository of the directory; empty if it was one before.
    making: &'static [&'static str],
}

impl GitDir {
    /// Returns `true` for a name by which git recognizes a repository.
    pub(crate) fn has_part(name: &OsStr) -> bool {
        PARTS.iter().any(|part| name == *part)
    }

    /// Examines a directory, by the names that it has in the project and those that the run wrote.
    pub(crate) fn find(
        path: &TreePath,
        is_written: impl Fn(&str) -> bool,
        was_there: impl Fn(&str) -> bool,
    ) -> Option<GitDir> {
        // The table of names judges those.
        let is_git = |name: &OsString| sandbox_names::fold(&name.to_string_lossy()) == ".git";
        // Why: the first look decides for nearly every directory.
        let (is_head_written, had_head) = (is_written("HEAD"), was_there("HEAD"));
        if !is_head_written && !had_head || path.names().iter().any(is_git) {
            return None;
        }
        let has_rest =
            |has: &dyn Fn(&str) -> bool| has("commondir") || has("objects") && has("refs");
        // Both together: a person may apply a part of the changes, without the deletions.
        if !has_rest(&|name| is_written(name) || was_there(name)) {
            return None;
        }
        let making: &[&str] = match (had_head, has_rest(&was_there)) {
            (true, true) => &[],
            (true, false) => &["commondir", "objects", "refs"],
            (false, _) => &["HEAD"],
        };
        Some(GitDir {
            depth: path.names().len(),
            making,
        })
    }

    /// Returns the reason why a change at or below the directory is protected.
    fn violation(&self, names: &[String], exact: &TreePath, is_link: bool) -> Option<String> {
        let below = names.get(self.depth..)?;
        let first = exact.names().get(self.depth)?;
        if self.making.iter().any(|name| first == name) {
            return Some("it makes a repository of the directory".to_owned());
        }
        if is_link && (below.len() == 1 || WRITTEN.contains(&below[0].as_str())) {
            return Some(LINK.to_owned());
        }
        match classify(below) {
            GitPathClass::State | GitPathClass::Obeyed => Some(format!("git obeys {}", below[0])),
            GitPathClass::Data
            | GitPathClass::GitOnly
            | GitPathClass::Container
            | GitPathClass::Unknown => None,
        }
    }
}

/// Judges the changes of a mount again by the project as it is now: another review, or a person, may
/// have made a part of a repository since the changes were listed.
pub(crate) fn judge_again(changes: &mut [ReviewedChange], lower: &OwnedFd) {
    let written = changes.iter().filter(|change| change.after.is_some());
    let written: BTreeSet<TreePath> = written.map(|change| change.path.clone()).collect();
    let find = |dir: &TreePath| {
        let opened = tree::open_below(lower, dir).ok();
        let was_there = |name: &str| {
            let found = opened.as_ref().map(|dir| tree::lstat(dir, name.as_ref()));
            // A name that cannot be inspected counts as present.
            found.is_some_and(|found| !matches!(found, Ok(None)))
        };
        let is_written = |name: &str| written.contains(&dir.join(name.as_ref()));
        GitDir::find(dir, is_written, was_there)
    };
    let mut known: BTreeMap<TreePath, Option<GitDir>> = BTreeMap::new();
    for change in changes {
        if matches!(change.class, ChangeClass::Protected { .. }) {
            continue;
        }
        let is_link = kind_of(change.after.as_ref()) == Some(PathKind::Link);
        let names = change.path.folded_names();
        let around = std::iter::once(TreePath::default()).chain(change.path.parents());
        let why = around.into_iter().find_map(|dir| {
            let found = known.entry(dir).or_insert_with_key(|dir| find(dir));
            found.as_ref()?.violation(&names, &change.path, is_link)
        });
        if let Some(why) = why {
            let pattern = format!(".git: {why}");
            change.class = ChangeClass::Protected { pattern };
        }
    }
}

const LINK: &str = "it is a link";

/// Returns the pattern of a change that git would obey, or follow, in a repository of any name.
/// `is_link` if the new object is a symbolic link.
pub(crate) fn protected_in(git_dirs: &[GitDir], path: &TreePath, is_link: bool) -> Option<String> {
    let names = path.folded_names();
    let dot = names.iter().position(|name| name == ".git");
    let why = match dot {
        Some(at) if is_link && at + 1 < names.len() => Some(LINK.to_owned()),
        _ => git_dirs
            .iter()
            .find_map(|dir| dir.violation(&names, path, is_link)),
    };
    why.map(|why| format!(".git: {why}"))
}
