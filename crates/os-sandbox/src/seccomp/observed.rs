//! Calls that a filter reports ([`ObservedCalls`]): those that change files by a path, and those that
//! reach for the network. Calls on an open descriptor are not reported, because opening it was.

use super::numbers::Arch;

/// The calls that a filter turns into questions, for which the answer is to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedCalls {
    /// Calls that change files, sockets that are refused, and `bind`.
    pub changes: bool,
    /// Changes of modes.
    pub modes: bool,
    /// `connect`.
    pub connects: bool,
    /// Opens for reading, and executions.
    pub reads: bool,
}

/// What an observed call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Open,
    Creat,
    Execute,
    Write,
    Create,
    Remove,
    Move,
    Mode,
    Bind,
    Connect,
    Socket,
}

/// The indices of the arguments that name a file: the directory's descriptor, and the path.
pub(crate) type PathArguments = Option<(Option<u8>, u8)>;

/// An observed call, with its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRow {
    pub(crate) name: &'static str,
    pub(crate) kind: CallKind,
    pub(crate) paths: [PathArguments; 2],
    /// The index of the flags.
    pub(crate) flags: Option<u8>,
}

/// A path from the working directory.
const fn path(index: u8) -> [PathArguments; 2] {
    [Some((None, index)), None]
}

/// A path from a directory's descriptor, the argument before it.
const fn at(index: u8) -> [PathArguments; 2] {
    [Some((Some(index - 1), index)), None]
}

const fn row(name: &'static str, kind: CallKind, paths: [PathArguments; 2]) -> CallRow {
    CallRow {
        name,
        kind,
        paths,
        flags: None,
    }
}

const fn flagged(
    name: &'static str,
    kind: CallKind,
    paths: [PathArguments; 2],
    flags: u8,
) -> CallRow {
    CallRow {
        flags: Some(flags),
        ..row(name, kind, paths)
    }
}

/// Every call that can be observed. Indices as in the manual page of each call.
pub(crate) const OBSERVED: [CallRow; 26] = [
    flagged("open", CallKind::Open, path(0), 1),
    flagged("openat", CallKind::Open, at(1), 2),
    row("creat", CallKind::Creat, path(0)),
    row("execve", CallKind::Execute, path(0)),
    flagged("execveat", CallKind::Execute, at(1), 4),
    row("truncate", CallKind::Write, path(0)),
    row("mkdir", CallKind::Create, path(0)),
    row("mkdirat", CallKind::Create, at(1)),
    row("mknod", CallKind::Create, path(0)),
    row("mknodat", CallKind::Create, at(1)),
    row("symlink", CallKind::Create, path(1)),
    row("symlinkat", CallKind::Create, at(2)),
    row("link", CallKind::Create, path(1)),
    row("linkat", CallKind::Create, at(3)),
    row("unlink", CallKind::Remove, path(0)),
    row("unlinkat", CallKind::Remove, at(1)),
    row("rmdir", CallKind::Remove, path(0)),
    row("rename", CallKind::Move, [path(0)[0], path(1)[0]]),
    row("renameat", CallKind::Move, [at(1)[0], at(3)[0]]),
    flagged("renameat2", CallKind::Move, [at(1)[0], at(3)[0]], 4),
    row("chmod", CallKind::Mode, path(0)),
    row("fchmodat", CallKind::Mode, at(1)),
    flagged("fchmodat2", CallKind::Mode, at(1), 3),
    row("bind", CallKind::Bind, [None, None]),
    row("connect", CallKind::Connect, [None, None]),
    row("socket", CallKind::Socket, [None, None]),
];

impl ObservedCalls {
    /// Returns `true` if a filter reports any call.
    #[must_use]
    pub fn any(self) -> bool {
        self.changes || self.modes || self.connects || self.reads
    }

    /// Returns `true` if the filter reports calls of this kind.
    pub(crate) fn includes(self, kind: CallKind) -> bool {
        match kind {
            CallKind::Mode => self.modes,
            CallKind::Connect => self.connects,
            CallKind::Execute => self.reads,
            CallKind::Open
            | CallKind::Creat
            | CallKind::Write
            | CallKind::Create
            | CallKind::Remove
            | CallKind::Move
            | CallKind::Bind
            | CallKind::Socket => self.changes,
        }
    }

    /// Returns the calls of a machine that a filter reports, with their numbers.
    pub(crate) fn rows(self, arch: Arch) -> impl Iterator<Item = (u32, CallRow)> {
        OBSERVED
            .into_iter()
            .filter(move |row| self.includes(row.kind))
            .filter_map(move |row| Some((arch.number(row.name)?, row)))
    }
}
