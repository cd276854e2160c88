//! The broker's side of a command's terminal: output, keys, the window size, and job control.

use nix::sys::signal::Signal;
use std::any::Any;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// As in `launcher/wire.rs`.
const TAKE_FOREGROUND: u8 = 0;

/// An event of a command's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// The command was stopped by this signal.
    Stopped(i32),
    /// The command has the foreground that [`Terminal::take_foreground`] asked for: keys that signal,
    /// such as Ctrl-C, reach it from now on.
    TookForeground,
}

/// The broker's side of the pseudo-terminal of a command with
/// [`Session::Terminal`](crate::Session::Terminal): the master of pty(7). Reading and writing never
/// block. Once no process of the command has the other side open, a read fails with `EIO`. A new
/// window size (`TIOCSWINSZ` of ioctl_tty(2)) signals the command. Dropping it hangs the terminal up.
///
/// A command that stops, by Ctrl-Z say, is told by [`Terminal::next_event`]. It goes on after
/// [`Terminal::resume`].
///
/// ```
/// use os_sandbox::{Command, Directories, Plan, Policy, Requirement, Sandbox, Session, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// if sandbox.plan().makes_terminals() {
///     let command = Command::new(&sandbox, "true").session(Session::Terminal);
///     assert!(command.spawn()?.terminal.is_some());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Terminal {
    side: File,
    jobs: UnixStream,
    /// Ends after the terminal.
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Terminal {
    pub(crate) fn new(side: OwnedFd, jobs: OwnedFd) -> Terminal {
        Terminal {
            side: side.into(),
            jobs: jobs.into(),
            guard: None,
        }
    }

    /// Sets the process that gives the broker's terminal its modes back if the broker cannot. The
    /// broker relays the rest of the output after the command's end.
    pub(crate) fn guarded_by(&mut self, guard: impl Any + Send + Sync) {
        self.guard = Some(Box::new(guard));
    }

    /// Returns the descriptor that is readable when there is an event, or the command has ended.
    #[must_use]
    pub fn events(&self) -> BorrowedFd<'_> {
        self.jobs.as_fd()
    }

    /// Returns the next event, `None` if there is none yet. Never blocks.
    ///
    /// # Errors
    /// `UnexpectedEof` if the command has ended.
    pub fn next_event(&self) -> io::Result<Option<TerminalEvent>> {
        let mut byte = [0];
        match (&self.jobs).read(&mut byte) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte == [TAKE_FOREGROUND] => Ok(Some(TerminalEvent::TookForeground)),
            Ok(_) => Ok(Some(TerminalEvent::Stopped(byte[0].into()))),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets a stopped command go on. One that is not stopped learns that its terminal is back
    /// (`SIGCONT`).
    ///
    /// # Errors
    /// If the command has ended.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::SIGCONT as i32)
    }

    /// Gives a command that began in the background the foreground of its terminal, and lets it go on.
    /// The kernel has stopped it (`SIGTTIN`, `SIGTTOU`) because it read the terminal or changed its
    /// modes. [`TerminalEvent::TookForeground`] tells that it is done; a key that signals would reach
    /// nobody before.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn take_foreground(&self) -> io::Result<()> {
        (&self.jobs).write_all(&[TAKE_FOREGROUND])
    }

    /// Asks the command to stop, as Ctrl-Z does (`SIGTSTP`). [`Terminal::next_event`] tells the stop of
    /// one that does not ignore it.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn suspend(&self) -> io::Result<()> {
        self.signal(Signal::SIGTSTP as i32)
    }

    /// Sends the command's process group a signal.
    ///
    /// # Errors
    /// If the command has ended, or `InvalidInput` if the number is not one of a signal.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        match u8::try_from(number) {
            Ok(signal @ 1..) => (&self.jobs).write_all(&[signal]),
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.side.as_fd()
    }
}

impl Read for &Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.side).read(buffer)
    }
}

impl Write for &Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.side).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
