//! A process that outlives the broker gives the broker's terminal its modes back
//! (`launcher/supervisor/terminal.rs`): a broker that is killed leaves it raw otherwise.

use super::super::wire;
use super::launch::{Launched, SpawnFrom, launch};
use super::message::LauncherMessage;
use crate::command::Session;
use crate::error::Error;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The process. Dropping it ends the process.
pub(crate) struct TerminalGuard(Launched);

impl TerminalGuard {
    /// Starts the process, which has noted the modes of the first stream that is a terminal by the
    /// return, or of the controlling terminal. `None` without one, or if the command gets no terminal
    /// of its own.
    pub(super) fn start(
        session: Session,
        streams: &[OwnedFd; 3],
    ) -> Result<Option<TerminalGuard>, Error> {
        if session != Session::Terminal {
            return Ok(None);
        }
        let controlling = File::open("/dev/tty").map(OwnedFd::from).ok();
        let mut terminals = streams.iter().filter(|stream| stream.is_terminal());
        let Some(terminal) = terminals.next().or(controlling.as_ref()) else {
            return Ok(None);
        };
        let message = LauncherMessage {
            kind: wire::KIND_TERMINAL,
            body: Vec::new(),
            fds: vec![terminal.as_fd()],
        };
        let launched = launch(false, false, SpawnFrom::DedicatedThread)?.job(&[message])?;
        let guard = TerminalGuard(launched);
        let mut record = [0; wire::RECORD_BYTES];
        let noted = (&guard.0.control).read_exact(&mut record);
        noted.map_err(|error| Error::io("could not note the modes of the terminal", error))?;
        Ok(Some(guard))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // Both fail only if the process is gone.
        let _ = (&self.0.control).write_all(&[0]);
        let _ = self.0.process.wait();
    }
}
