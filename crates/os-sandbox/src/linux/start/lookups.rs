//! Failed lookups of a command: reads and executions that its policy refused. Under a mount layer a
//! path that no mount shows is just missing, so this module looks for it on the host, after the end
//! of the command: neither the answer nor its time can reach the command.
//!
//! Entry points: [`FailedLookups::add`] for each record, then [`FailedLookups::judge`].

use super::super::wire;
use super::observe::DenialRecord;
use crate::access::Access;
use crate::denials::{
    Denial, DenialReason, Denials, DeniedOperation, RefusedLookup, is_outside, judge_lookup,
};
use crate::escape::visible;
use crate::plan::Plan;
use crate::policy::Policy;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, faccessat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bound on the time of all looks at the host. A dead file system answers never.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The failed lookups of one command, without those that were a part of a search.
#[derive(Debug, Default)]
pub(super) struct FailedLookups {
    slots: BTreeMap<u32, FailedLookup>,
    /// Records so far, which order the lookups.
    count: usize,
}

/// One failed lookup.
#[derive(Debug)]
struct FailedLookup {
    /// The denials of other calls before it, then the records of lookups before it.
    order: (usize, usize),
    path: PathBuf,
    access: Access,
    /// One or more of `STATE_…`.
    state: u32,
    program: String,
}

impl FailedLookups {
    /// Adds a record of a lookup; a record of a search takes one back. `before`: the number of denials
    /// before it.
    pub(super) fn add(&mut self, record: &DenialRecord<'_>, before: usize) {
        let slot = record.state >> wire::STATE_SLOT_SHIFT;
        self.count += 1;
        let access = match record.operation {
            wire::CALL_READ => Access::READ,
            wire::CALL_EXECUTE => Access::EXECUTE,
            _ => {
                self.slots.remove(&slot);
                return;
            }
        };
        let lookup = FailedLookup {
            order: (before, self.count),
            path: PathBuf::from(OsStr::from_bytes(record.object)),
            access,
            state: record.state,
            program: record.program(),
        };
        self.slots.insert(slot, lookup);
    }

    /// Adds the lookups that the policy refused to the denials, each in its place.
    pub(super) fn judge(self, plan: &Plan, maps_paths: bool, denials: &mut Denials) {
        let policy = plan.policy();
        let mut lookups: Vec<FailedLookup> = self.slots.into_values().collect();
        lookups.sort_unstable_by_key(|lookup| lookup.order);
        let hidden = |lookup: &FailedLookup| !lookup.exists() && maps_paths;
        let wanted: Vec<(PathBuf, Access)> = lookups
            .iter()
            .filter(|lookup| hidden(lookup) && is_to_look_for(policy, &lookup.path))
            .map(|lookup| (lookup.path.clone(), lookup.access))
            .collect();
        let found = look_outside(wanted);
        denials.more |= !found.is_complete;
        let mut added = 0;
        for lookup in lookups {
            let judged = match lookup.exists() {
                true => judge_lookup(policy, lookup.refused(), maps_paths),
                false if found.paths.contains(&lookup.path) => {
                    let shown = visible(&lookup.path.to_string_lossy());
                    Some((shown, DenialReason::NotShown))
                }
                false => None,
            };
            let Some((object, reason)) = judged else {
                continue;
            };
            let denial = Denial {
                operation: match lookup.access == Access::EXECUTE {
                    true => DeniedOperation::Execute,
                    false => DeniedOperation::Read,
                },
                object,
                reason,
                program: lookup.program,
            };
            if !denials.listed.contains(&denial) {
                denials.listed.insert(lookup.order.0 + added, denial);
                added += 1;
            }
        }
    }
}

impl FailedLookup {
    fn exists(&self) -> bool {
        self.state & wire::STATE_EXISTS != 0
    }

    fn refused(&self) -> RefusedLookup<'_> {
        RefusedLookup {
            path: &self.path,
            access: self.access,
            is_closed: self.state & wire::STATE_MOUNT != 0,
        }
    }
}

/// Returns `true` for a path that no mount shows. A command can make links in the directories of its
/// own mounts, also where the host has those, so nothing is looked for there.
fn is_to_look_for(policy: &Policy, path: &Path) -> bool {
    let is_writable = |path: &Path| {
        let mut mounts = policy.mounts().iter();
        mounts.any(|mount| mount.access().contains(Access::WRITE) && path.starts_with(mount.host()))
    };
    is_outside(policy, path) && !is_writable(path)
}

/// The paths that exist on the host.
struct FoundOutside {
    paths: Vec<PathBuf>,
    /// `false` if the time was over before all were looked for.
    is_complete: bool,
}

/// Returns the paths that exist on the host and that the caller can use. A thread looks for them,
/// because a lookup can hang; a thread that hangs is left behind.
fn look_outside(wanted: Vec<(PathBuf, Access)>) -> FoundOutside {
    let mut found = FoundOutside {
        paths: Vec::new(),
        is_complete: true,
    };
    if wanted.is_empty() {
        return found;
    }
    let count = wanted.len();
    let (sender, receiver) = mpsc::channel();
    let looked = std::thread::Builder::new()
        .name("os-sandbox-lookups".to_owned())
        .spawn(move || {
            for (path, access) in wanted {
                let is_usable = is_usable(&path, access);
                // Fails if the time is over.
                if sender.send((path, is_usable)).is_err() {
                    return;
                }
            }
        });
    if looked.is_err() {
        found.is_complete = false;
        return found;
    }
    let deadline = Instant::now() + LOOK_TIMEOUT;
    for _ in 0..count {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok((path, true)) => found.paths.push(path),
            Ok((_, false)) => {}
            Err(_) => {
                found.is_complete = false;
                break;
            }
        }
    }
    found
}

/// Returns `true` if the caller could read or execute the path without a sandbox. Nothing is opened
/// for reading, and no link of `/proc` is followed.
fn is_usable(path: &Path, access: Access) -> bool {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .mode(Mode::empty())
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let Ok(object) = openat2(AT_FDCWD, path, how) else {
        return false;
    };
    let wanted = match access == Access::EXECUTE {
        true => AccessFlags::X_OK,
        false => AccessFlags::R_OK,
    };
    let opened = format!("/proc/self/fd/{}", object.as_raw_fd());
    faccessat(AT_FDCWD, opened.as_str(), wanted, AtFlags::AT_EACCESS).is_ok()
}
