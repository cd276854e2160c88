//! The terminal of a question: standard input and error, or the controlling terminal while a command
//! has those. The question waits for one line, in time, and can be withdrawn meanwhile.

use std::fs::File;
use std::io::{BufRead as _, PipeReader, PipeWriter, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal as ProcessSignal, getpgrp, kill_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios, isatty, tcflush,
    tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetpgrp,
};

use crate::output::stderr;
use crate::terminal::{self, RelayPause};

/// The path of the controlling terminal.
const TTY: &str = "/dev/tty";

/// Bound on a line from the controlling terminal. The kernel keeps no longer one (termios(3)).
const MAX_LINE_BYTES: usize = 4096;

/// The time without a key after which an answer counts. At an ordinary pace less than half of it is
/// between two keys of a word.
const PAUSE: Duration = Duration::from_millis(700);
/// The time between two looks for keys.
const PAUSE_STEP: Duration = Duration::from_millis(50);
/// Shown behind keys that were typed in the wrong moment, which the terminal has echoed.
const TYPED_BEFORE: &str = "\r\n(keys that were typed before do not count)\r\n";

/// The number of questions that have the controlling terminal.
static CONTROLLING: AtomicUsize = AtomicUsize::new(0);

/// The terminal of a question.
#[derive(Debug)]
pub(crate) enum PromptTerminal {
    /// Standard input and standard error.
    Standard,
    /// The controlling terminal.
    Controlling(ControllingTerminal),
}

/// Dropping it withdraws the question that has the other end.
#[derive(Debug)]
pub(crate) struct QuestionHold(#[expect(dead_code, reason = "its end is the message")] PipeWriter);

/// The end of a question that tells its withdrawal.
#[derive(Debug)]
pub(crate) struct Withdrawal(PipeReader);

/// Returns both ends of a question that can be withdrawn.
pub(crate) fn withdrawable() -> std::io::Result<(QuestionHold, Withdrawal)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((QuestionHold(writer), Withdrawal(reader)))
}

/// A line of a person, or the reason why it is missing.
#[derive(Debug)]
pub(crate) enum InputLine {
    Text(String),
    /// It did not arrive in time.
    Silence,
    /// The end of the input.
    End,
    /// The question is withdrawn.
    Withdrawn,
}

impl PromptTerminal {
    /// Takes the controlling terminal from the command that has it, until the value is dropped.
    pub(crate) fn controlling() -> std::io::Result<PromptTerminal> {
        Ok(PromptTerminal::Controlling(ControllingTerminal::open()?))
    }

    /// `true` while a question of this process has the controlling terminal.
    pub(crate) fn has_controlling() -> bool {
        CONTROLLING.load(Ordering::SeqCst) > 0
    }

    /// `true` if this process is in the foreground of its controlling terminal.
    ///
    /// # Errors
    /// It has no controlling terminal.
    pub(crate) fn has_foreground() -> std::io::Result<bool> {
        Ok(tcgetpgrp(open_tty()?)? == getpgrp())
    }

    /// Writes at once. The screen is not held, so that a message about the end of forge can appear.
    pub(crate) fn write(&mut self, text: &str) -> std::io::Result<()> {
        match self {
            PromptTerminal::Standard => {
                let mut screen = std::io::stderr().lock();
                screen.write_all(text.as_bytes())?;
                screen.flush()
            }
            PromptTerminal::Controlling(terminal) => terminal.file.write_all(text.as_bytes()),
        }
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        match self {
            PromptTerminal::Standard => stderr::size(),
            PromptTerminal::Controlling(terminal) => {
                let size = tcgetwinsize(&terminal.file).ok();
                let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
                size.map_or((80, 24), |size| (size.ws_col, size.ws_row))
            }
        }
    }

    /// Waits until the person types nothing for [`PAUSE`], and discards all that was typed until then:
    /// keys for a command, which decides when the question appears, do not answer it. Call it between
    /// the text of the question and the keys that answer it.
    pub(crate) fn await_pause(
        &mut self,
        until: Option<Instant>,
        withdrawal: Option<&Withdrawal>,
    ) -> std::io::Result<()> {
        let stdin = std::io::stdin();
        let input = match self {
            PromptTerminal::Standard => stdin.as_fd(),
            PromptTerminal::Controlling(terminal) => terminal.file.as_fd(),
        };
        // An answer from a file or pipe needs no pause.
        if !isatty(input) {
            return Ok(());
        }
        let mut last_key = Instant::now();
        let mut was_typed = false;
        loop {
            let step = Instant::now().checked_add(PAUSE_STEP);
            let is_over = until.is_some_and(|until| until <= Instant::now());
            if is_over || is_withdrawn(withdrawal, step)? {
                break;
            }
            // The time before the look: a process that was stopped looks once more.
            let now = Instant::now();
            if discard_keys(input)? {
                last_key = Instant::now();
                was_typed = true;
            } else if now.duration_since(last_key) >= PAUSE {
                break;
            }
        }
        if was_typed {
            self.write(TYPED_BEFORE)?;
        }
        Ok(())
    }

    /// Reads one line, in time.
    pub(crate) fn read_line(
        &mut self,
        until: Option<Instant>,
        withdrawal: Option<&Withdrawal>,
    ) -> std::io::Result<InputLine> {
        let stdin = std::io::stdin();
        let input = match self {
            PromptTerminal::Standard => stdin.as_fd(),
            PromptTerminal::Controlling(terminal) => terminal.file.as_fd(),
        };
        // A terminal is ready when a line is complete; an earlier read would consume the next answer
        // too.
        match ready(Some(input), until, withdrawal)? {
            InputReadiness::Input => {}
            InputReadiness::Late => return Ok(InputLine::Silence),
            InputReadiness::Withdrawn => return Ok(InputLine::Withdrawn),
        }
        let mut line = Vec::new();
        match self {
            PromptTerminal::Standard => {
                stdin.lock().read_until(b'\n', &mut line)?;
            }
            PromptTerminal::Controlling(terminal) => {
                line.resize(MAX_LINE_BYTES, 0);
                let read = terminal.file.read(&mut line)?;
                line.truncate(read);
            }
        }
        if line.is_empty() {
            return Ok(InputLine::End);
        }
        // Invalid text is an unknown answer, and so a no.
        Ok(InputLine::Text(String::from_utf8_lossy(&line).into_owned()))
    }
}

/// Discards the keys that were typed. Returns `true` if there were some, a line without its end too.
fn discard_keys(input: BorrowedFd<'_>) -> std::io::Result<bool> {
    let modes = tcgetattr(input)?;
    let mut keys = modes.clone();
    keys.local_modes -= LocalModes::ICANON;
    // Why: a terminal tells of a line that is not complete only while it passes on single keys. It
    // does for this moment alone, so that a killed forge leaves it as it was.
    tcsetattr(input, OptionalActions::Now, &keys)?;
    let typed = ioctl_fionread(input);
    let discarded = tcflush(input, QueueSelector::IFlush);
    tcsetattr(input, OptionalActions::Now, &modes)?;
    discarded?;
    // Why: keys from between both calls would count as a line.
    tcflush(input, QueueSelector::IFlush)?;
    Ok(typed? > 0)
}

/// Waits until a moment. Returns `true` at once if the question is withdrawn.
fn is_withdrawn(withdrawal: Option<&Withdrawal>, until: Option<Instant>) -> std::io::Result<bool> {
    Ok(matches!(
        ready(None, until, withdrawal)?,
        InputReadiness::Withdrawn
    ))
}

enum InputReadiness {
    Input,
    Late,
    Withdrawn,
}

/// Waits for input. Signals do not prolong the wait.
fn ready(
    input: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
    withdrawal: Option<&Withdrawal>,
) -> std::io::Result<InputReadiness> {
    loop {
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        // poll(2) counts milliseconds in an int.
        let step = left.min(Duration::from_secs(3600));
        let timeout = Timespec {
            tv_sec: i64::try_from(step.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(step.subsec_nanos()),
        };
        let withdrawn = withdrawal.map(|end| PollFd::new(&end.0, PollFlags::IN));
        let input = input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = withdrawn.into_iter().chain(input).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if left <= step => return Ok(InputReadiness::Late),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // An answer to a question that is withdrawn is none.
            Ok(_) if withdrawal.is_some() && !fds[0].revents().is_empty() => {
                return Ok(InputReadiness::Withdrawn);
            }
            Ok(_) => return Ok(InputReadiness::Input),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The controlling terminal, taken from a command: with line input and echo, and with this process
/// in the foreground. The drop gives it back as it was.
#[derive(Debug)]
pub(crate) struct ControllingTerminal {
    file: File,
    modes: Termios,
    /// The process group that had the terminal, if it is another one.
    foreground: Option<Pid>,
    /// The signals that were blocked in this thread.
    mask: SigSet,
    /// Holds the relay of a command's terminal until the modes are given back.
    _pause: RelayPause,
    /// Why: the mask is of one thread, so the value stays there.
    _of_thread: PhantomData<*const ()>,
}

impl ControllingTerminal {
    fn open() -> std::io::Result<Self> {
        let file = open_tty()?;
        let pause = terminal::pause();
        let modes = tcgetattr(&file)?;
        // Why: a process in the background that changes its terminal would be stopped.
        let stops = SigSet::from_iter([Signal::SIGTTOU, Signal::SIGTTIN]);
        let mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let foreground = tcgetpgrp(&file).ok().filter(|group| *group != getpgrp());
        let terminal = ControllingTerminal {
            file,
            modes,
            foreground,
            mask,
            _pause: pause,
            _of_thread: PhantomData,
        };
        CONTROLLING.fetch_add(1, Ordering::SeqCst);
        if foreground.is_some() {
            tcsetpgrp(&terminal.file, getpgrp())?;
        }
        let mut lines = terminal.modes.clone();
        lines.local_modes |= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        lines.input_modes |= InputModes::ICRNL;
        lines.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        tcsetattr(&terminal.file, OptionalActions::Flush, &lines)?;
        Ok(terminal)
    }
}

impl Drop for ControllingTerminal {
    fn drop(&mut self) {
        CONTROLLING.fetch_sub(1, Ordering::SeqCst);
        // A terminal that has gone needs nothing.
        let _gone = tcsetattr(&self.file, OptionalActions::Drain, &self.modes);
        if let Some(group) = self.foreground {
            let _gone = tcsetpgrp(&self.file, group);
            // It was stopped if it read the terminal meanwhile.
            let _gone = kill_process_group(group, ProcessSignal::CONT);
        }
        let _unchanged = self.mask.thread_set_mask();
    }
}

fn open_tty() -> std::io::Result<File> {
    File::options().read(true).write(true).open(TTY)
}
