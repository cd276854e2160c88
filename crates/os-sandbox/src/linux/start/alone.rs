//! A command without a supervisor (`Survivors::Left`): the launcher became the command, so the
//! broker itself waits for its process and ends it. The broker uses a descriptor (`pidfd_open(2)`,
//! Linux 5.3), because the kernel can reuse a process number.

use super::super::wire;
use super::running::Record;
use crate::error::Error;
use crate::exit::Exit;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIGTERM: u8 = 15;

/// State of such a command in the broker.
pub(crate) struct Unsupervised {
    process: Arc<OwnedFd>,
    /// Time at which the broker ends the command; no other process does.
    pub(crate) deadline: Option<Instant>,
    /// The time between SIGTERM and the end at the deadline, until SIGTERM was sent.
    pub(crate) grace: Option<Duration>,
    pub(crate) timed_out: bool,
    /// The launcher has no end of the control socket any more: it was replaced, or is gone.
    pub(crate) replaced: bool,
}

impl Unsupervised {
    pub(crate) fn watch(
        process: &Child,
        deadline: Option<Instant>,
        grace: Option<Duration>,
    ) -> Result<Unsupervised, Error> {
        let opened = pidfd_open(Pid::from_child(process), PidfdFlags::NONBLOCK);
        let process =
            opened.map_err(|errno| Error::io("could not watch the command", errno.into()))?;
        Ok(Unsupervised {
            process: Arc::new(process),
            deadline,
            grace,
            timed_out: false,
            replaced: false,
        })
    }

    /// Returns a descriptor that is readable once the command has ended.
    pub(crate) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    pub(crate) fn killer(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.process)
    }

    pub(crate) fn kill(&self) {
        kill(&self.process);
    }

    /// Ends the command at its deadline, or gives it SIGTERM and the grace.
    pub(crate) fn end_late(&mut self) {
        self.timed_out = true;
        let grace = self.grace.take();
        self.deadline = grace.and_then(|grace| Instant::now().checked_add(grace));
        if self.deadline.is_none() || !signal(&self.process, SIGTERM) {
            self.kill();
        }
    }

    /// Returns the launcher's answer from before it was replaced: the last record counts, since
    /// `execve` can still fail. Without a record the command did not start.
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

/// Sends the process behind a descriptor a signal, and lets it go on if it is stopped. Returns `false`
/// if it has ended.
pub(crate) fn signal(process: &OwnedFd, number: u8) -> bool {
    let signal = Signal::from_named_raw(number.into());
    let is_sent = signal.is_some_and(|signal| pidfd_send_signal(process, signal).is_ok());
    is_sent && pidfd_send_signal(process, Signal::CONT).is_ok()
}

/// Ends the process behind a descriptor, unless it has ended.
pub(crate) fn kill(process: &OwnedFd) {
    let _ = pidfd_send_signal(process, Signal::KILL);
}
