//! Finds the names that a policy protects or hides, below the mounts: before a start, and once
//! more after the end. A bounded walk that follows no links, nearest names first; what it did not
//! get to see is said. It asks for nothing but names and their kinds, which a directory's listing
//! has, so that a file costs no system call of its own.

use super::bare;
use super::below;
use super::view::HostMount;
use super::worktree::Linked;
use crate::access::Access;
use crate::policy::{Git, Pattern, Policy};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use nix::unistd::geteuid;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{FileType, ReadDir};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Bound on the entries looked at in one mount.
const MAX_ENTRIES: usize = 20_000;
/// Bound on how deep.
const MAX_DEPTH: usize = 24;
/// Bound on the names held in one mount; each costs a mount.
const MAX_NAMES: usize = 400;
/// Bound on how often a directory is listed again because what it listed has moved.
const MAX_AGAIN: usize = 200;
/// Bound on the links that are remembered in one mount.
const MAX_LINKS: usize = 4000;

/// Where a sweep puts what it finds, at the root of a mount: neither changed nor read by a later
/// command.
pub(crate) const QUARANTINE: &str = ".os-sandbox-quarantine";

/// A name that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Relative to the mount.
    pub(crate) below: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) hide: bool,
}

/// What was found, and whether everything was looked at.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) found: Vec<Found>,
    /// Links with protected names, and those in repositories: nothing can be mounted over them.
    pub(crate) links: Vec<PathBuf>,
    /// Directories that git takes for repositories, whatever they are called.
    pub(crate) bare: Vec<PathBuf>,
    /// Directories called `.git` that are not protected as a whole.
    pub(crate) repositories: Vec<PathBuf>,
    /// Directories that the caller may not list.
    pub(crate) unlisted: Vec<PathBuf>,
    pub(crate) complete: bool,
    /// Somebody moves directories about, so that one could have been missed.
    pub(crate) unsettled: bool,
}

/// Walks one mount.
pub(crate) fn find(policy: &Policy, mount: &HostMount) -> Names {
    find_but(policy, mount, &|_, _| false)
}

/// Walks one mount; what is `known` (a path, and whether it is a link) is neither listed nor
/// counted.
pub(crate) fn find_but(
    policy: &Policy,
    mount: &HostMount,
    known: &dyn Fn(&Path, bool) -> bool,
) -> Names {
    let mut names = Names {
        complete: true,
        ..Names::default()
    };
    let protect = if mount.access.contains(Access::WRITE) {
        policy.protect_patterns()
    } else {
        &[]
    };
    let hide = if mount.access.contains(Access::READ) {
        policy.hide_patterns()
    } else {
        &[]
    };
    if !mount.is_dir {
        return names;
    }
    if protect.is_empty() && hide.is_empty() {
        names.quarantine(mount);
        return names;
    }
    let pointers = policy.git() != Git::Unaware && !protect.is_empty();
    let git_matters = bare::matters(policy, protect);
    let mut queue = VecDeque::from([(PathBuf::new(), 0usize)]);
    let mut seen = 0usize;
    let mut again = 0usize;
    while let Some((below, depth)) = queue.pop_front() {
        let (_open, entries) = match list(mount, &below) {
            Ok(listing) => listing,
            Err(error) if moved(&error) && depth > 0 => {
                // A directory a moment ago. It may have gone where nobody looks any more, so the
                // one it was in is listed again.
                again += 1;
                if again > MAX_AGAIN {
                    names.unsettled = true;
                    return names;
                }
                let around = below.parent().unwrap_or(Path::new("")).to_owned();
                queue.retain(|(path, _)| path.parent() != Some(&around));
                queue.push_back((around, depth - 1));
                continue;
            }
            Err(_) => {
                // Who may not list it may still be able to permit it to itself.
                if !protect.is_empty() && names.found.len() < MAX_NAMES && opens(mount, &below) {
                    names.found.push(Found {
                        below: below.clone(),
                        is_dir: true,
                        hide: false,
                    });
                }
                names.unlisted.push(below);
                continue;
            }
        };
        let named = mount.named(&below);
        let part = git_matters && (mount.linked.is_some() || bare::is_part(&below, &names.bare));
        let in_git = mount.linked.is_some() || below.iter().any(|name| name == ".git");
        // Names of branches, which can be anything.
        let data = mount.linked.as_ref().is_some_and(|one| one.is_data(&below));
        let mut listed = bare::Listed::default();
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES || names.found.len() >= MAX_NAMES {
                names.complete = false;
                return names;
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = entry.file_name();
            if git_matters && !in_git {
                listed.see(&name, kind);
            }
            let own = depth == 0 && name == QUARANTINE;
            let foreign = mount
                .linked
                .as_ref()
                .is_some_and(|one| one.foreign(&below, &name));
            let hidden = own || matches(hide, &named, &name);
            let pointer = pointers && name == ".git" && !kind.is_dir();
            let link = part && kind.is_symlink();
            let held = hidden || pointer || foreign || matches(protect, &named, &name);
            if link || held && !data {
                let path = below.join(name);
                if !known(&path, kind.is_symlink()) {
                    names.add(path, kind, hidden);
                }
            } else if kind.is_dir() {
                let skipped = |one: &Linked| depth == 0 && !one.looks_into(&name);
                if mount.linked.as_ref().is_some_and(skipped) {
                    continue;
                }
                let git = name == ".git";
                let path = below.join(name);
                if git {
                    names.repositories.push(path.clone());
                }
                if depth + 1 >= MAX_DEPTH {
                    names.complete = false;
                } else {
                    queue.push_back((path, depth + 1));
                }
            }
        }
        if let Some(parts) = listed.parts() {
            for (name, kind) in parts {
                let path = below.join(name);
                if !known(&path, kind.is_symlink()) {
                    names.add(path, kind, false);
                }
            }
            names.bare.push(below);
        }
    }
    if again > 0 || !names.bare.is_empty() {
        let mut once = HashSet::new();
        names.found.retain(|found| once.insert(found.below.clone()));
        names.links.retain(|link| once.insert(link.clone()));
        names.repositories.retain(|git| once.insert(git.clone()));
        let mut once = HashSet::new();
        names.bare.retain(|git| once.insert(git.clone()));
    }
    names
}

/// A directory's entries, without following a link on the way to it. They are read by the
/// descriptor, which must stay open for that.
fn list(mount: &HostMount, below: &Path) -> io::Result<(OwnedFd, ReadDir)> {
    let directory = below::directory(mount.handle.as_fd(), below)?;
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    Ok((directory, entries))
}

/// Not where it was, or a link by now.
fn moved(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
}

/// Whether a command could list it after all: its owner can, and who may enter it can know what is
/// in it.
fn opens(mount: &HostMount, below: &Path) -> bool {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return false;
    };
    let looked = below::directory(mount.handle.as_fd(), parent)
        .and_then(|parent| below::look(parent.as_fd(), name));
    looked.is_ok_and(|stat| stat.st_uid == geteuid().as_raw() || stat.st_mode & 0o011 != 0)
}

impl Names {
    fn add(&mut self, below: PathBuf, kind: FileType, hide: bool) {
        if !kind.is_symlink() {
            self.found.push(Found {
                below,
                is_dir: kind.is_dir(),
                hide,
            });
        } else if self.links.len() < MAX_LINKS {
            self.links.push(below);
        } else {
            self.complete = false;
        }
    }

    /// Without patterns there is no walk, only this one name.
    fn quarantine(&mut self, mount: &HostMount) {
        let looked = below::look(mount.handle.as_fd(), OsStr::new(QUARANTINE));
        let there = looked.is_ok_and(|stat| below::kind(&stat) == SFlag::S_IFDIR);
        if there && mount.access.contains(Access::READ) {
            self.found.push(Found {
                below: PathBuf::from(QUARANTINE),
                is_dir: true,
                hide: true,
            });
        }
    }
}

/// The last name decides in most cases, and needs no path.
fn matches(patterns: &[Pattern], below: &Path, name: &OsStr) -> bool {
    patterns
        .iter()
        .any(|pattern| pattern.last(name) && pattern.ends(&below.join(name)))
}
