//! A command that nobody supervises (`Survivors::Left`): the launcher became the command, so its
//! process is waited for and ended by the broker itself. By descriptor (`pidfd_open(2)`, Linux 5.3),
//! because a number can be somebody else's by the time it is used.

use super::super::wire;
use super::running::Record;
use crate::error::Error;
use crate::exit::Exit;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

/// What the broker knows of such a command.
pub(crate) struct Unsupervised {
    process: Arc<OwnedFd>,
    /// When to end it; nobody else does.
    pub(crate) deadline: Option<Instant>,
    pub(crate) timed_out: bool,
    /// The launcher has no end of the control socket any more: it was replaced, or is gone.
    pub(crate) replaced: bool,
}

impl Unsupervised {
    pub(crate) fn watch(process: &Child, deadline: Option<Instant>) -> Result<Unsupervised, Error> {
        let opened = pidfd_open(Pid::from_child(process), PidfdFlags::NONBLOCK);
        let process =
            opened.map_err(|errno| Error::io("could not watch the command", errno.into()))?;
        Ok(Unsupervised {
            process: Arc::new(process),
            deadline,
            timed_out: false,
            replaced: false,
        })
    }

    /// Readable once it has ended.
    pub(crate) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    pub(crate) fn killer(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.process)
    }

    pub(crate) fn kill(&self) {
        kill(&self.process);
    }

    /// What the launcher said before it was replaced: the last word counts, since a program can
    /// still turn out to be none. Nothing at all is no start.
    pub(crate) fn answer(records: &[Record]) -> Option<Record> {
        let last = records.last()?;
        Some(match last.kind {
            wire::RECORD_CONFINED => Record {
                kind: wire::RECORD_STARTED,
                ..*last
            },
            _ => *last,
        })
    }

    pub(crate) fn exit(&self, status: ExitStatus) -> Exit {
        match (self.timed_out, status.code(), status.signal()) {
            (true, _, _) => Exit::TimedOut,
            (false, Some(code), _) => Exit::Code(code),
            (false, None, signal) => Exit::Signal(signal.unwrap_or(0)),
        }
    }
}

/// Ends the process behind a descriptor; nothing if it has ended.
pub(crate) fn kill(process: &OwnedFd) {
    let _ = pidfd_send_signal(process, Signal::KILL);
}
