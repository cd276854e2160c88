//! The loop of a relay: keys to the command, output to the person, the window size, and stops.
//! Nothing is queued beyond one read in each direction, so that a slow side holds the other.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use os_sandbox::{Terminal, TerminalEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{tcgetwinsize, tcsetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::filter::{OutputFilter, Withheld};
use super::modes::PersonTerminal;
use super::stop_signal::{pending_stops, stop_group};

const MAX_INPUT_BYTES: usize = 4 << 10;
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Bound on the rows that are scrolled away before a question.
const MAX_ROWS: u16 = 1000;
/// Time between two looks for the terminal while another process group has it: the shell's `fg` tells a
/// job that runs nothing.
const FOREGROUND_CHECK_MS: i64 = 200;
/// Time for the command to stop before forge does. It can ignore the signal.
const COMMAND_STOPS_WITHIN_MS: i64 = 200;
/// Bound on the reads before forge stops: another process of the command can write without end.
const MAX_LAST_READS: usize = 256;

/// A message to the loop, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RelayMessage {
    /// The command has ended.
    End = b'e',
    Pause = b'p',
    Resume = b'r',
    /// The window has another size.
    Resized = b'w',
    /// Forge goes on after a stop.
    Continued = b'c',
}

/// The loop. It ends with the command, or with the person's terminal.
pub(super) struct RelayLoop {
    command: Terminal,
    person: PersonTerminal,
    inbox: PipeReader,
    paused: SyncSender<()>,
    pauses: usize,
    /// The keys are for the command, and not for another program of a pipeline.
    has_keys: bool,
    /// The command is getting the foreground. Until then, no process would get the signal of a key.
    awaits_foreground: bool,
    has_ended: bool,
    /// `false` once the command's side is closed by all of its processes, or its stops are.
    is_open: bool,
    tells_stops: bool,
    /// Readable if forge is to stop.
    pending_stops: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    filter: OutputFilter,
    signals: SignalThread,
}

impl RelayLoop {
    pub(super) fn new(
        command: Terminal,
        has_keys: bool,
        inbox: PipeReader,
        messages: PipeWriter,
        paused: SyncSender<()>,
    ) -> io::Result<RelayLoop> {
        Ok(RelayLoop {
            command,
            person: PersonTerminal::open()?,
            inbox,
            paused,
            pauses: 0,
            has_keys,
            awaits_foreground: false,
            has_ended: false,
            is_open: true,
            tells_stops: true,
            pending_stops: pending_stops()?,
            input: Vec::new(),
            output: Vec::new(),
            filter: OutputFilter::default(),
            signals: SignalThread::start(messages)?,
        })
    }

    pub(super) fn run(mut self) -> Withheld {
        // An error is the end of the person's terminal: forge is told by a signal, or told to ignore it.
        // The drop hangs the command's up.
        let _gone = self.relay();
        let _gone = self.person.restore();
        self.signals.end();
        self.filter.withheld()
    }

    fn relay(&mut self) -> io::Result<()> {
        self.take_terminal()?;
        while !self.has_ended || self.pauses > 0 {
            self.step()?;
        }
        self.drain()
    }

    /// Relays the rest of the output. No process of the command is left to write more.
    fn drain(&mut self) -> io::Result<()> {
        while self.is_open && self.read_output()? {
            self.write_output_whole()?;
        }
        self.filter.end(&mut self.output);
        self.write_output_whole()
    }

    /// Makes the person's terminal raw, if it is ours now, and hands the window size on.
    fn take_terminal(&mut self) -> io::Result<()> {
        if self.pauses == 0 && self.has_keys {
            self.person.make_raw()?;
        }
        // A size that cannot be known stays.
        if let Ok(size) = tcgetwinsize(&self.person.input) {
            let _gone = tcsetwinsize(&self.command, size);
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        let relays = self.pauses == 0;
        let when = |wanted: bool, flags| if wanted { flags } else { PollFlags::empty() };
        let keys =
            relays && self.person.is_raw() && self.input.is_empty() && !self.awaits_foreground;
        let reads = relays && self.is_open && self.output.is_empty();
        let of_command = when(reads, PollFlags::IN)
            | when(
                relays && self.is_open && !self.input.is_empty(),
                PollFlags::OUT,
            );
        let wanted = [
            PollFlags::IN,
            PollFlags::IN,
            when(self.tells_stops, PollFlags::IN),
            when(keys, PollFlags::IN),
            of_command,
            when(relays && !self.output.is_empty(), PollFlags::OUT),
        ];
        let looks = relays && self.has_keys && !self.person.is_raw();
        let events = self.wait(wanted, looks.then_some(FOREGROUND_CHECK_MS))?;
        let [told, suspended, stopped, typed, command, writable] = events;
        if !told.is_empty() {
            self.take_messages()?;
        }
        if !suspended.is_empty() {
            return self.suspend();
        }
        if !stopped.is_empty() {
            // The events are from before the stop.
            return self.take_event();
        }
        if self.pauses > 0 {
            return Ok(());
        }
        if looks {
            self.take_terminal()?;
        }
        if !typed.is_empty() {
            self.read_input(typed)?;
        }
        if command.intersects(PollFlags::OUT) || !self.input.is_empty() {
            self.write_input();
        }
        if reads && !command.is_empty() {
            self.read_output()?;
        }
        if !writable.is_empty() || !self.output.is_empty() {
            self.write_output()?;
        }
        Ok(())
    }

    /// Waits for events at the inbox, the stops of forge, those of the command, the person's input,
    /// the command and the person's output. A descriptor without wanted events is left out.
    fn wait(&self, wanted: [PollFlags; 6], limit_ms: Option<i64>) -> io::Result<[PollFlags; 6]> {
        let files = [
            self.inbox.as_fd(),
            self.pending_stops.as_fd(),
            self.command.events(),
            self.person.input.as_fd(),
            self.command.as_fd(),
            self.person.output.as_fd(),
        ];
        let used = |index: &usize| !wanted[*index].is_empty();
        let mut fds: Vec<PollFd<'_>> = (0..files.len())
            .filter(used)
            .map(|index| PollFd::from_borrowed_fd(files[index], wanted[index]))
            .collect();
        let timeout = limit_ms.map(milliseconds);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = [PollFlags::empty(); 6];
        for (index, fd) in (0..files.len()).filter(used).zip(&fds) {
            events[index] = fd.revents();
        }
        Ok(events)
    }

    fn take_messages(&mut self) -> io::Result<()> {
        let mut messages = [0; 64];
        let count = self.inbox.read(&mut messages)?;
        for message in &messages[..count] {
            if *message == RelayMessage::End as u8 {
                self.has_ended = true;
            } else if *message == RelayMessage::Pause as u8 {
                self.pauses += 1;
                self.prepare_question()?;
                // The sender of the message waits for it.
                let _gone = self.paused.send(());
            } else if *message == RelayMessage::Resume as u8 {
                self.pauses = self.pauses.saturating_sub(1);
                if self.pauses == 0 {
                    self.give_screen_back()?;
                }
            } else {
                self.take_terminal()?;
                if *message == RelayMessage::Continued as u8 {
                    // The shell may have used the screen. It has ended if this fails.
                    let _ended = self.command.resume();
                } else if !self.has_keys {
                    // The kernel tells the foreground of the command's terminal alone. It has ended if
                    // this fails.
                    let _ended = self.command.signal(Signal::WINCH.as_raw());
                }
            }
        }
        Ok(())
    }

    /// Makes the terminal show a question as it is, whatever the command has done to it.
    fn prepare_question(&mut self) -> io::Result<()> {
        if self.pauses == 1 && self.filter.screen().is_changed() {
            let rows = tcgetwinsize(&self.person.input).map_or(24, |size| size.ws_row);
            self.filter.interrupt_string(&mut self.output);
            let clear = self.filter.screen().before_a_question(rows.min(MAX_ROWS));
            self.output.extend(clear.bytes());
        }
        self.write_output_whole()
    }

    /// Gives the modes back to the command, and another size for a moment, so that it draws its screen.
    fn give_screen_back(&mut self) -> io::Result<()> {
        if !self.filter.screen().is_changed() {
            return Ok(());
        }
        let modes = self.filter.screen().after_a_question();
        self.output.extend(modes.bytes());
        if let Ok(size) = tcgetwinsize(&self.person.input) {
            let mut other = size;
            other.ws_row = size.ws_row.saturating_sub(1).max(1);
            let _gone = tcsetwinsize(&self.command, other);
            let _gone = tcsetwinsize(&self.command, size);
        }
        Ok(())
    }

    /// Stops forge with the command, and goes on with it: the shell takes the terminal meanwhile. One
    /// that was stopped because it wants the keys gets them.
    fn take_event(&mut self) -> io::Result<()> {
        let of_keys = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        match self.command.next_event() {
            Ok(Some(TerminalEvent::Stopped(signal)))
                if !self.has_keys && of_keys.contains(&signal) =>
            {
                self.has_keys = true;
                self.take_terminal()?;
                // It has ended if this fails.
                self.awaits_foreground = self.command.take_foreground().is_ok();
                Ok(())
            }
            Ok(Some(TerminalEvent::TookForeground)) => {
                self.awaits_foreground = false;
                Ok(())
            }
            Ok(Some(TerminalEvent::Stopped(_))) => self.stop(),
            Ok(None) => Ok(()),
            Err(_) => {
                (self.tells_stops, self.awaits_foreground) = (false, false);
                Ok(())
            }
        }
    }

    /// Stops the command and forge, because another process wants forge to stop.
    fn suspend(&mut self) -> io::Result<()> {
        if self.command.suspend().is_ok() {
            let mut fds = [PollFd::from_borrowed_fd(
                self.command.events(),
                PollFlags::IN,
            )];
            // A signal ends it early, which costs the command's last output.
            let _stopped = poll(&mut fds, Some(&milliseconds(COMMAND_STOPS_WITHIN_MS)));
        }
        self.stop()
    }

    /// Gives the terminal back, stops forge, and goes on with the command.
    fn stop(&mut self) -> io::Result<()> {
        for _ in 0..MAX_LAST_READS {
            if self.pauses > 0 || !self.read_output()? {
                break;
            }
            self.write_output_whole()?;
        }
        self.person.restore()?;
        stop_group()?;
        self.take_terminal()?;
        // The command goes on from all of them.
        while let Ok(Some(event)) = self.command.next_event() {
            self.awaits_foreground &= event != TerminalEvent::TookForeground;
        }
        // It has ended meanwhile if this fails.
        let _ended = self.command.resume();
        Ok(())
    }

    fn read_input(&mut self, events: PollFlags) -> io::Result<()> {
        const END_OF_INPUT: u8 = 4;
        self.input.resize(MAX_INPUT_BYTES, 0);
        let read = (&self.person.input).read(&mut self.input);
        let count = *read.as_ref().unwrap_or(&0);
        self.input.truncate(count);
        match read {
            Ok(0) if events.intersects(PollFlags::HUP) => Err(ErrorKind::UnexpectedEof.into()),
            // It was typed while the terminal still collected lines.
            Ok(0) => {
                self.input.push(END_OF_INPUT);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write_input(&mut self) {
        match (&self.command).write(&self.input) {
            Ok(written) => {
                self.input.drain(..written);
            }
            Err(error) if is_temporary(&error) => {}
            // No process of the command is left to read it.
            Err(_) => self.input.clear(),
        }
    }

    /// Reads output of the command. Returns `false` if none is there.
    fn read_output(&mut self) -> io::Result<bool> {
        let mut read = [0; MAX_OUTPUT_BYTES];
        match (&self.command).read(&mut read) {
            Ok(0) => self.is_open = false,
            Ok(count) => {
                self.filter.push(&read[..count], &mut self.output);
                return Ok(true);
            }
            Err(error) if is_temporary(&error) => {}
            // Every process of the command has closed it.
            Err(_) if self.has_ended => self.is_open = false,
            // A process can open it again by its name. Until then there is nothing to wait for.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
        Ok(false)
    }

    fn write_output(&mut self) -> io::Result<()> {
        match (&self.person.output).write(&self.output) {
            Ok(written) => {
                self.output.drain(..written);
                Ok(())
            }
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write_output_whole(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let mut fds = [PollFd::new(&self.person.output, PollFlags::OUT)];
            match poll(&mut fds, None) {
                Ok(_) => self.write_output()?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Returns `true` if a later attempt can succeed.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn milliseconds(count: i64) -> Timespec {
    Timespec {
        tv_sec: count / 1000,
        tv_nsec: count % 1000 * 1_000_000,
    }
}

/// A thread that tells the loop of SIGWINCH and SIGCONT.
struct SignalThread {
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignalThread {
    fn start(mut messages: PipeWriter) -> io::Result<SignalThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (over, mut is_over) = oneshot::channel();
        let inside = runtime.enter();
        let mut resized = signal(SignalKind::window_change())?;
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        drop(inside);
        let listen = async move {
            loop {
                let message = tokio::select! {
                    _ = &mut is_over => return,
                    _ = resized.recv() => RelayMessage::Resized,
                    _ = continued.recv() => RelayMessage::Continued,
                };
                if messages.write_all(&[message as u8]).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("terminal signals".to_owned())
            .spawn(move || runtime.block_on(listen))?;
        Ok(SignalThread {
            over: Some(over),
            thread: Some(thread),
        })
    }

    fn end(&mut self) {
        drop(self.over.take());
        // It cannot fail.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
