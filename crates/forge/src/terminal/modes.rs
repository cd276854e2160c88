//! The modes of the person's terminal: it sends each key at once while the relay runs, and is given
//! back as it was.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::fs::OFlags;
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr};

/// The person's terminal. The drop gives it back.
#[derive(Debug)]
pub(super) struct PersonTerminal {
    pub(super) input: File,
    pub(super) output: File,
    /// The modes to give back. `None` while they are set.
    before: Option<Termios>,
    /// Other programs of a pipeline write to it.
    is_shared: bool,
}

impl PersonTerminal {
    /// Opens the terminal of the standard streams again, or the controlling terminal if no stream is
    /// one. The new descriptors do not block, and those of other programs on the terminal still do.
    pub(super) fn open() -> io::Result<PersonTerminal> {
        let streams = (io::stdin(), io::stdout(), io::stderr());
        let [input, output, error] = [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd()];
        let first = |streams: [BorrowedFd<'_>; 3]| {
            let terminal = streams.into_iter().find(|stream| isatty(stream));
            terminal.map_or_else(|| open("/dev/tty"), open_again)
        };
        let terminal = PersonTerminal {
            input: first([input, output, error])?,
            output: first([output, error, input])?,
            before: None,
            is_shared: !isatty(output),
        };
        tcgetattr(&terminal.input)?;
        Ok(terminal)
    }

    pub(super) fn is_raw(&self) -> bool {
        self.before.is_some()
    }

    /// Makes the terminal raw, unless another process group has it, which has set its own modes. A
    /// terminal that is not our controlling one has no such group.
    pub(super) fn make_raw(&mut self) -> io::Result<()> {
        if tcgetpgrp(&self.input).is_ok_and(|group| group != getpgrp()) {
            self.before = None;
            return Ok(());
        }
        let now = tcgetattr(&self.input)?;
        let before = self.before.get_or_insert(now);
        let mut raw = before.clone();
        raw.make_raw();
        if self.is_shared {
            raw.output_modes = before.output_modes;
        }
        set_modes(&self.input, &raw)
    }

    /// Gives the terminal back.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        match self.before.take() {
            Some(before) => set_modes(&self.input, &before),
            None => Ok(()),
        }
    }
}

impl Drop for PersonTerminal {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _gone = self.restore();
    }
}

fn set_modes(terminal: &File, modes: &Termios) -> io::Result<()> {
    // Why: a process in the background that changes its terminal would be stopped.
    let stops = SigSet::from_iter([Signal::SIGTTOU]);
    let mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let set = tcsetattr(terminal, OptionalActions::Now, modes);
    mask.thread_set_mask()?;
    Ok(set?)
}

fn open(path: &str) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags);
    options.open(path)
}

fn open_again(terminal: BorrowedFd<'_>) -> io::Result<File> {
    match open(&format!("/dev/fd/{}", terminal.as_raw_fd())) {
        Ok(file) => Ok(file),
        // A terminal of another user, as after su(1). Its reads and writes block, for as long as the
        // terminal takes.
        Err(_) => terminal.try_clone_to_owned().map(File::from),
    }
}
