//! Protected and hidden names below the mounts: found before a start, guarded while the command runs,
//! compared after its end. [`guard`] is the entry point under a mount layer, [`look`] without one.
//!
//! A protected name:
//! 1. `walk` finds it (`listings` reads the directories, `secrets` judges contents).
//! 2. A mount layer mounts it over itself read-only, a hidden one empty. Under Landlock alone
//!    `sweep` takes its `fingerprint`.
//! 3. After the end `sweep` compares with the `snapshot` from before the start: it reports a name that
//!    another program replaced, or that has changed, and walks again. A new or replaced name is judged
//!    (`git_audit`); one that cannot stay is moved to the quarantine, and a file that was there before
//!    is put back (`saved`).
//!
//! A placeholder for an absent name, if the policy holds absent names:
//! 1. `hold` plans it, and `state` records the plan (`record`) under the lock of the state directory.
//! 2. `hold` creates it, records its inode and adds it to the names; it is guarded like any of them.
//! 3. `after` drops the lease after the sweep. The placeholder is removed, unless another living run
//!    lists it: then the last of those runs removes it.
//! 4. After a killed run the record remains without its lock; the next start removes both.
//!
//! Commands side by side: `running` records what was there before each. A name that one of them could
//! have made is not known to the next, and the next start looks for what a killed one left. By the same
//! records `possible_writers` says which command may have written a file that a program is about to obey.
//! A person changes no protected name meanwhile: `start_lock`.

pub(super) mod after;
mod command_text;
mod fingerprint;
mod hidden_links;
mod hold;
mod listings;
pub(super) mod names;
mod other_names;
pub(super) mod possible_writers;
mod quarantine_dir;
pub(super) mod quarantine_record;
mod ready_patterns;
mod record;
mod running;
mod saved;
mod secrets;
mod snapshot;
pub(super) mod start_lock;
pub(super) mod state;
pub(super) mod survey;
pub(super) mod sweep;
pub(super) mod walk;

use super::host_mount::{HostMount, program_mounts};
use super::start::sockets;
use crate::enforcement::HiddenPath;
use crate::error::{Error, ErrorKind};
use crate::findings::Findings;
use crate::policy::{NameGuard, Policy, UnixSockets};
use crate::promise::Promise;
use names::{Held, ScanResult};
pub(super) use running::RecordPlace;
use running::RunningCommands;
use sandbox_names::QUARANTINE;
use state::{PlaceholderLease, StateDir};
use std::path::{Path, PathBuf};

/// Bound on the hidden paths that a receipt lists.
const MAX_HIDDEN_LISTED: usize = 32;

type PromiseNotes = Vec<(Promise, String)>;

/// Protected and hidden names below the mounts, found or held by placeholders.
pub(super) struct Guarded {
    pub(super) names: Vec<ScanResult>,
    pub(super) held: Option<PlaceholderLease>,
    pub(super) notes: Vec<(Promise, String)>,
    /// Remarks that weaken no promise.
    pub(super) remarks: Vec<(Promise, String)>,
    /// The first of the hidden paths.
    pub(super) hidden: Vec<HiddenPath>,
    /// Directories of programs, and the sockets of the host below them.
    pub(super) programs: (Vec<HostMount>, Vec<ScanResult>),
    /// Other commands in the mounts, and the names that killed ones had left.
    pub(super) running: RunningCommands,
    pub(super) left: Findings,
}

/// Returns the state directory, which is outside of everything that the command can write.
///
/// # Errors
/// If there is none, or it cannot be used.
pub(super) fn state_place(
    state_dir: Option<&Path>,
    mounts: &[HostMount],
) -> Result<PathBuf, Error> {
    let hint = match state_dir {
        None => "XDG_STATE_HOME names another place for it",
        Some(_) => "name another one (`Directories::with_state`)",
    };
    match StateDir::open(state_dir, |path| hold::is_outside(path, mounts)) {
        Ok(state) => Ok(state.path().to_owned()),
        Err(reason) => {
            let message = format!("no place for the command's HOME and TMPDIR: {reason}");
            Err(Error::new(ErrorKind::Io, message).with_hint(hint))
        }
    }
}

/// Scans the mounts if nothing can be mounted over the names: the only other measure is a second
/// scan after the end.
pub(super) fn look(
    policy: &Policy,
    mounts: &[HostMount],
    records: RecordPlace<'_>,
) -> Result<Guarded, Error> {
    let (running, left) = RunningCommands::before_walk(policy, mounts, records, Held::ByNothing)?;
    let names = everywhere(policy, mounts, Held::ByNothing)?;
    let unlisted = unlisted(mounts, &names);
    let notes = (!unlisted.is_empty()).then(|| {
        let what = few(&unlisted);
        let note = format!("{what} cannot be listed, and is not looked at after the end");
        (Promise::ProtectedNames, note)
    });
    Ok(Guarded {
        names,
        held: None,
        notes: notes.into_iter().collect(),
        remarks: Vec::new(),
        hidden: Vec::new(),
        programs: Default::default(),
        running,
        left,
    })
}

pub(super) fn guard(
    policy: &Policy,
    mounts: &[HostMount],
    state_dir: Option<&Path>,
    records: RecordPlace<'_>,
) -> Result<Guarded, Error> {
    let (running, left) = RunningCommands::before_walk(policy, mounts, records, Held::ByMounts)?;
    let mut names = everywhere(policy, mounts, Held::ByMounts)?;
    let (mut targets, unhidden, others) = close_other_paths(mounts, &mut names)?;
    let programs = match policy.unix_sockets() {
        UnixSockets::Own => program_mounts(policy)?,
        UnixSockets::Closed | UnixSockets::Named(_) | UnixSockets::Open => Vec::new(),
    };
    let programs_names = everywhere(policy, &programs, Held::ByMounts)?;
    let mut unlisted = unlisted(mounts, &names);
    unlisted.extend(self::unlisted(&programs, &programs_names));
    let remarks = (!unlisted.is_empty()).then(|| {
        let what = few(&unlisted);
        let remark = format!("commands cannot enter {what}, because you may not list it");
        (Promise::ProtectedNames, remark)
    });
    let unread = names.iter().flat_map(|names| names.unread.iter());
    let unread: Vec<_> = unread
        .map(|unread| {
            let remark = format!("also what git tracks: {unread}");
            (Promise::HiddenNames, remark)
        })
        .collect();
    let (held, reasons) = match policy.holds_absent() {
        true => hold::hold(state_dir, policy, mounts, &mut names),
        false => {
            hold::clear(state_dir, mounts);
            (None, Vec::new())
        }
    };
    let unheld = names.iter().flat_map(|names| names.unheld.iter().cloned());
    let notes = reasons
        .into_iter()
        .chain(unheld)
        .map(|reason| (Promise::ProtectedNames, reason))
        .chain(unhidden)
        .collect();
    targets.extend(hidden(policy, mounts, &names));
    Ok(Guarded {
        hidden: targets.into_iter().take(MAX_HIDDEN_LISTED).collect(),
        names,
        held,
        notes,
        remarks: (remarks.into_iter().chain(closed_sockets(policy)))
            .chain(unread)
            .chain(others)
            .collect(),
        programs: (programs, programs_names),
        running,
        left,
    })
}

/// Returns a remark if a command has no local sockets of its own either.
fn closed_sockets(policy: &Policy) -> Option<(Promise, String)> {
    let loose = match policy.unix_sockets() {
        UnixSockets::Own => sockets::in_system(policy),
        UnixSockets::Closed | UnixSockets::Named(_) | UnixSockets::Open => None,
    };
    let path = crate::escape::visible(&loose?.to_string_lossy());
    let remark = format!("its own are closed too: the host has one at {path}, which it sees");
    Some((Promise::UnixSockets, remark))
}

/// Guards the other paths of guarded files: the targets of hidden links, and hard links. Returns the
/// first of those targets, links whose targets can be read, and remarks on hard links.
fn close_other_paths(
    mounts: &[HostMount],
    names: &mut [ScanResult],
) -> Result<(Vec<HiddenPath>, PromiseNotes, PromiseNotes), Error> {
    let (targets, unhidden) = hidden_links::close(mounts, names);
    let remarks = other_names::close(mounts, names).map_err(cannot_look)?;
    let incomplete = names.iter().find_map(|names| names.incomplete.clone());
    incomplete.map_or(Ok((targets, unhidden, remarks)), |reason| {
        Err(cannot_look(reason))
    })
}

/// Returns the directories that a command could open and the caller cannot list, by their paths
/// inside.
fn unlisted(mounts: &[HostMount], names: &[ScanResult]) -> Vec<String> {
    let closed = |(mount, names): (&HostMount, &ScanResult)| -> Vec<String> {
        let closed = names.found.iter().filter(|found| found.unlisted);
        closed.map(|found| mount.shown(&found.below)).collect()
    };
    mounts.iter().zip(names).flat_map(closed).collect()
}

/// Returns the first hidden paths, as the command sees them.
fn hidden(policy: &Policy, mounts: &[HostMount], names: &[ScanResult]) -> Vec<HiddenPath> {
    let of_mount = |(mount, names): (&HostMount, &ScanResult)| -> Vec<HiddenPath> {
        let found = names.found.iter().filter(|found| found.hide);
        let hidden = found.filter_map(|found| {
            let pattern = match policy.guard_of(&mount.host.join(&found.below)) {
                // Commands do not need it, and see an empty directory.
                _ if found.below == Path::new(QUARANTINE) => return None,
                Some(NameGuard::Hidden(pattern)) => pattern,
                // It is closed for another reason, such as a socket of the host's.
                Some(NameGuard::Protected(_)) | None => return None,
            };
            let path = mount.shown(&found.below);
            Some(HiddenPath { path, pattern })
        });
        hidden.take(MAX_HIDDEN_LISTED).collect()
    };
    let all = mounts.iter().zip(names).flat_map(of_mount);
    all.take(MAX_HIDDEN_LISTED).collect()
}

fn everywhere(policy: &Policy, mounts: &[HostMount], held: Held) -> Result<Vec<ScanResult>, Error> {
    let mut names: Vec<ScanResult> = mounts
        .iter()
        .map(|mount| walk::find(policy, mount, held))
        .collect();
    for index in walk::follow_between(policy, mounts, &names) {
        names[index] = walk::find(policy, &mounts[index], held);
    }
    if let Some(reason) = names.iter().find_map(|names| names.incomplete.clone()) {
        return Err(cannot_look(reason));
    }
    if names.iter().any(|names| names.unsettled) {
        return Err(ErrorKind::Unguarded
            .error(
                "directories in a mount are moved about, so that protected names could be missed",
            )
            .with_hint("try again when what moves them is done"));
    }
    Ok(names)
}

fn cannot_look(reason: String) -> Error {
    unguarded(format!(
        "protected and hidden names cannot be looked for: {reason}"
    ))
}

/// Returns the error of an incomplete walk, before a start or after an end.
pub(super) fn unguarded(text: String) -> Error {
    ErrorKind::Unguarded.error(text).with_hint(
        "mount a smaller directory, or one that you may list; `protect` and `hide` say which names \
         are looked for, and without any of them there is no need to look",
    )
}

/// Formats the first entries of a list.
fn few(list: &[String]) -> String {
    const MAX: usize = 4;
    let shown = list[..list.len().min(MAX)].join(", ");
    match list.len().saturating_sub(MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
