//! The names that a walk found below a mount (`walk.rs`), as the guards and the scan after the end
//! use them.

use super::super::git_audit::pointer::Pointer;
use super::super::host_mount::{HostMount, ObeyedPath};
use super::listings::ListingCache;
use rustix::fs::FileType;
use sandbox_names::git_index::TrackedFiles;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Bound on the names held in one mount; each costs a mount, and a namespace has 100 000.
const MAX_NAMES: usize = 10_000;
/// Bound on the entries of protected directories in one mount that are compared.
const MAX_WITHIN: usize = 100_000;
/// Bound on the links that are remembered in one mount.
pub(super) const MAX_LINKS: usize = 100_000;

/// Protected or hidden name below a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuardedPath {
    /// Relative to the mount.
    pub(crate) below: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) hide: bool,
    /// `true` for a directory that cannot be listed: the command must not reach its contents.
    pub(crate) unlisted: bool,
}

/// Result of a walk, and `incomplete` if the walk did not reach everything.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) found: Vec<GuardedPath>,
    /// Entries of protected directories, if nothing is mounted over these: outer ones first.
    pub(super) within: Vec<PathBuf>,
    /// `true` if there are more.
    pub(super) is_within_cut: bool,
    /// Links with protected names, and links in repositories: a link cannot be mounted over.
    pub(crate) links: Vec<PathBuf>,
    /// Links to protected targets: these, and those below protected names.
    pub(crate) guarded_links: Vec<PathBuf>,
    /// Links with hidden names, before a command.
    pub(super) hidden_links: Vec<PathBuf>,
    /// Links under other names: after the end of a command, or where links stay.
    pub(super) plain_links: Vec<PathBuf>,
    /// Directories that git recognizes as repositories under any name.
    pub(crate) bare: Vec<PathBuf>,
    /// Local sockets outside of hidden directories.
    pub(super) sockets: Vec<PathBuf>,
    /// Directories called `.git` that are not protected as a whole.
    pub(crate) repositories: Vec<PathBuf>,
    /// Directories called `.git` that are protected as a whole: the files that they name are
    /// elsewhere.
    pub(super) whole: Vec<PathBuf>,
    /// Files and links called `.git`, outside of protected directories.
    pub(crate) pointers: Vec<Pointer>,
    /// Configuration of repositories. It is protected, unless it is judged after the end or when a
    /// layer is applied.
    pub(crate) configs: Vec<PathBuf>,
    /// Protected lists of modules, `.gitmodules`.
    pub(crate) module_lists: Vec<PathBuf>,
    /// Unfinished rebases and similar operations, if the policy lets commands have them.
    pub(crate) states: Vec<PathBuf>,
    /// Files that are protected because a link or a repository's configuration leads to them.
    pub(crate) targets: Vec<ObeyedPath>,
    /// Host paths that links and configuration lead to, possibly in other mounts.
    pub(super) elsewhere: Vec<(PathBuf, String)>,
    /// Reasons for files among these that cannot be protected.
    pub(crate) unheld: Vec<String>,
    /// Files that are not hidden or protected because git tracks them.
    pub(crate) tracked: Vec<PathBuf>,
    /// The indexes that were read, by the tops of their repositories, with the paths that end in a
    /// hidden name.
    pub(crate) indexes: HashMap<PathBuf, TrackedFiles>,
    /// Indexes of repositories that were not read, and why.
    pub(crate) unread: Vec<String>,
    /// Directories that the caller may not list.
    pub(crate) unlisted: Vec<PathBuf>,
    /// Reason of an incomplete walk.
    pub(crate) incomplete: Option<String>,
    /// `true` if a program moves directories while the walk runs, so that it could have missed one.
    pub(crate) unsettled: bool,
    /// Number of entries.
    pub(crate) entries: usize,
    /// Listings for the next walk.
    pub(crate) memory: ListingCache,
}

/// How a command finds the names that a walk found at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Mounts are over them: it cannot change protected names, nor anything in a hidden directory.
    ByMounts,
    /// As they are.
    ByNothing,
}

impl GuardedPath {
    /// Returns `true` if one of these directories is around it.
    pub(crate) fn is_in(&self, directories: &HashSet<&Path>) -> bool {
        let mut around = self.below.ancestors().skip(1);
        around.any(|directory| directories.contains(directory))
    }
}

impl ScanResult {
    /// Returns the protected directories that a command can read.
    pub(crate) fn sealed(&self) -> HashSet<&Path> {
        let sealed = self
            .found
            .iter()
            .filter(|found| found.is_dir && !found.hide);
        sealed.map(|found| found.below.as_path()).collect()
    }

    /// Returns the hidden directories.
    pub(crate) fn masked(&self) -> HashSet<&Path> {
        let masked = self.found.iter().filter(|found| found.is_dir && found.hide);
        masked.map(|found| found.below.as_path()).collect()
    }

    pub(super) fn add(&mut self, mount: &HostMount, below: PathBuf, kind: FileType, hide: bool) {
        let (list, bound) = match kind.is_symlink() {
            true => (self.links.len(), MAX_LINKS),
            false => (self.found.len(), MAX_NAMES),
        };
        if list >= bound {
            self.incomplete = Some(format!(
                "{} has more than {bound} {}",
                mount.inside,
                match kind.is_symlink() {
                    true => "links in repositories or with protected names",
                    false => "protected and hidden names",
                }
            ));
        } else if kind.is_symlink() {
            self.links.push(below);
        } else {
            self.found.push(GuardedPath {
                below,
                is_dir: kind.is_dir(),
                hide,
                unlisted: false,
            });
        }
    }

    /// Adds an entry of a protected directory over which nothing is mounted.
    pub(super) fn add_within(&mut self, below: &Path) {
        self.is_within_cut |= self.within.len() >= MAX_WITHIN;
        if !self.is_within_cut {
            self.within.push(below.to_owned());
        }
    }

    /// Keeps one of each name that a walk met more than once.
    pub(super) fn remove_duplicates(&mut self) {
        let mut once = HashSet::new();
        self.found.retain(|found| once.insert(found.below.clone()));
        for list in [&mut self.sockets, &mut self.links, &mut self.repositories] {
            list.retain(|path| once.insert(path.clone()));
        }
        let mut once = HashSet::new();
        self.bare.retain(|git| once.insert(git.clone()));
    }
}
