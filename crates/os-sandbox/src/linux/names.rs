//! Finds the names that a policy protects or hides, below the mounts, before a start. A bounded
//! walk that follows no links, nearest names first; what it did not get to see is said.

use super::view::HostMount;
use crate::access::Access;
use crate::policy::{Pattern, Policy};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Bound on the entries looked at in one mount.
const MAX_ENTRIES: usize = 20_000;
/// Bound on how deep.
const MAX_DEPTH: usize = 24;
/// Bound on the names held in one mount; each costs a mount.
const MAX_NAMES: usize = 400;

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
}

/// Walks one mount.
pub(crate) fn find(policy: &Policy, mount: &HostMount) -> Names {
    let mut names = Names {
        found: Vec::new(),
        complete: true,
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
    while let Some((below, depth)) = queue.pop_front() {
        let Ok(entries) = std::fs::read_dir(mount.host.join(&below)) else {
            // What the broker cannot list, the target (never more powerful) cannot either.
            continue;
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
    names
}

fn matches(patterns: &[Pattern], path: &Path) -> bool {
    patterns.iter().any(|pattern| pattern.names(path))
}
