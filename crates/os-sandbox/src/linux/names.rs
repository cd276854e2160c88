//! Finds the names that a policy protects or hides, below the mounts, before a start. A bounded
//! walk that follows no links, nearest names first; what it did not get to see is said.

use super::view::HostMount;
use crate::access::Access;
use crate::policy::{Pattern, Policy};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;
use std::collections::{HashSet, VecDeque};
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
    pub(crate) complete: bool,
    /// Somebody moves directories about, so that one could have been missed.
    pub(crate) unsettled: bool,
}

/// Walks one mount.
pub(crate) fn find(policy: &Policy, mount: &HostMount) -> Names {
    let mut names = Names {
        found: Vec::new(),
        complete: true,
        unsettled: false,
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
    if !mount.is_dir || (protect.is_empty() && hide.is_empty()) {
        return names;
    }
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
            // What the broker cannot list, the target (never more powerful) cannot either.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES || names.found.len() >= MAX_NAMES {
                names.complete = false;
                return names;
            }
            let path = below.join(entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_symlink() {
                continue;
            }
            let hidden = matches(hide, &path);
            if hidden || matches(protect, &path) {
                names.found.push(Found {
                    below: path,
                    is_dir: kind.is_dir(),
                    hide: hidden,
                });
            } else if kind.is_dir() {
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
    }
    names
}

/// A directory's entries, without following a link on the way to it. They are read by the
/// descriptor, which must stay open for that.
fn list(mount: &HostMount, below: &Path) -> io::Result<(OwnedFd, ReadDir)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = openat(&mount.handle, ".", flags, Mode::empty())?;
    if !below.as_os_str().is_empty() {
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
        directory = match openat2(directory.as_fd(), below, how) {
            // Before Linux 5.6, or behind a filter that does not know it.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                for name in below {
                    directory = openat(&directory, name, flags, Mode::empty())?;
                }
                directory
            }
            other => other?,
        };
    }
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    Ok((directory, entries))
}

/// Not where it was, or a link by now.
fn moved(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
}

fn matches(patterns: &[Pattern], path: &Path) -> bool {
    patterns.iter().any(|pattern| pattern.names(path))
}
