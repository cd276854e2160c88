//! Finds the names that a policy protects or hides, below the mounts: before a start, and once
//! more after the end. A bounded walk that follows no links, nearest names first; what it did not
//! get to see is said. It asks for nothing but names and their kinds, which a directory's listing
//! has, so that a file costs no system call of its own.

use super::below;
use super::view::HostMount;
use super::worktree::Linked;
use crate::access::Access;
use crate::policy::{Git, Pattern, Policy};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::ReadDir;
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
const MAX_LINKS: usize = 400;

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
    /// Links with protected names: nothing can be mounted over them.
    pub(crate) links: Vec<PathBuf>,
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
                names.unlisted.push(below);
                continue;
            }
        };
        let named = mount.named(&below);
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
            let own = depth == 0 && name == QUARANTINE;
            let foreign = mount
                .linked
                .as_ref()
                .is_some_and(|one| one.foreign(&below, &name));
            let hidden = own || matches(hide, &named, &name);
            let pointer = pointers && name == ".git" && !kind.is_dir();
            if hidden || pointer || foreign || matches(protect, &named, &name) {
                let path = below.join(name);
                if known(&path, kind.is_symlink()) {
                    continue;
                }
                if !kind.is_symlink() {
                    names.found.push(Found {
                        below: path,
                        is_dir: kind.is_dir(),
                        hide: hidden,
                    });
                } else if names.links.len() < MAX_LINKS {
                    names.links.push(path);
                } else {
                    names.complete = false;
                }
            } else if kind.is_dir() {
                let data = |one: &Linked| depth == 0 && !one.looks_into(&name);
                if mount.linked.as_ref().is_some_and(data) {
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
    }
    if again > 0 {
        let mut once = HashSet::new();
        names.found.retain(|found| once.insert(found.below.clone()));
        names.links.retain(|link| once.insert(link.clone()));
        names.repositories.retain(|git| once.insert(git.clone()));
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

impl Names {
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
