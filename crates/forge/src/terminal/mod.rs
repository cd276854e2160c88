//! The terminal of `forge exec`: a command on a terminal gets one of forge's own, and forge relays
//! between both. [`Relay::start`] is the entry point. While a relay runs, a question to the person at
//! the terminal holds it with [`pause`].

mod filter;
mod modes;
mod relay;
mod screen;
mod stop_signal;

use std::io::{IsTerminal as _, PipeWriter, Write as _};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use os_sandbox::{Plan, Session, Terminal};

pub(crate) use filter::OutputFilter;
use filter::Withheld;
use modes::PersonTerminal;
use relay::{RelayLoop, RelayMessage};
pub(crate) use stop_signal::HeldStops;

/// The relay that runs, if one does.
static RUNNING: Mutex<Option<Arc<RelayHandle>>> = Mutex::new(None);

/// Locked while a command may run whose relay does not run yet.
static STARTING: Mutex<()> = Mutex::new(());

/// Returns the session of a command. With a terminal of forge, which the command could write to by any
/// stream or by `/dev/tty`, it gets one of its own. Without one, signals for forge's process group reach
/// it by forge alone.
pub(crate) fn session(plan: &Plan) -> Session {
    match (PersonTerminal::open(), plan.makes_terminals()) {
        (Ok(_), true) => Session::Terminal,
        (Ok(_), false) => Session::Inherit,
        (Err(_), _) => Session::New,
    }
}

/// `true` with terminals at both ends.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The relay between a person's terminal and the command's. The drop ends it too.
pub(crate) struct Relay {
    handle: Arc<RelayHandle>,
    thread: Option<JoinHandle<Withheld>>,
    _stops: HeldStops,
}

struct RelayHandle {
    messages: PipeWriter,
    /// One for each [`RelayMessage::Pause`].
    paused: Mutex<Receiver<()>>,
}

/// While this is held, the relay neither reads nor writes the person's terminal.
#[derive(Debug)]
pub(crate) struct RelayPause(Option<Arc<RelayHandle>>);

impl Relay {
    /// Starts to relay. With `has_keys` the person's terminal sends each key at once until the end,
    /// otherwise from the moment on at which the command reads its terminal. `stops` is from before the
    /// first thread that stays, and after the last question.
    ///
    /// # Errors
    /// If the system is out of descriptors or threads, or forge has no terminal.
    pub(crate) fn start(
        terminal: Terminal,
        has_keys: bool,
        stops: HeldStops,
    ) -> std::io::Result<Relay> {
        let (inbox, messages) = std::io::pipe()?;
        // At most one pause is not acknowledged yet.
        let (acknowledge, paused) = sync_channel(1);
        let handle = Arc::new(RelayHandle {
            messages,
            paused: Mutex::new(paused),
        });
        let messages = handle.messages.try_clone()?;
        let relay = RelayLoop::new(terminal, has_keys, inbox, messages, acknowledge)?;
        let thread = std::thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || relay.run())?;
        *running() = Some(Arc::clone(&handle));
        Ok(Relay {
            handle,
            thread: Some(thread),
            _stops: stops,
        })
    }

    /// Relays the rest after the command has ended, gives the terminal back as it was, and returns
    /// one line about the withheld sequences.
    pub(crate) fn finish(mut self) -> Option<String> {
        self.end().describe()
    }

    fn end(&mut self) -> Withheld {
        *running() = None;
        self.handle.send(RelayMessage::End);
        let ended = self.thread.take().map(JoinHandle::join);
        // A relay that failed has given the terminal back as well.
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

impl RelayHandle {
    fn send(&self, message: RelayMessage) {
        // A relay that has ended needs none.
        let _ended = (&self.messages).write_all(&[message as u8]);
    }
}

/// Delays questions until the returned guard is dropped. Take it before a command starts, and drop it
/// when the relay runs: before that, the command's output could cover a question.
pub(crate) fn hold_questions() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the relay, if one runs, so that the terminal belongs to a question.
pub(crate) fn pause() -> RelayPause {
    drop(hold_questions());
    let Some(handle) = running().clone() else {
        return RelayPause(None);
    };
    {
        let paused = handle.paused.lock();
        let paused = paused.unwrap_or_else(PoisonError::into_inner);
        handle.send(RelayMessage::Pause);
        // The other end is gone if the relay has ended.
        let _ended = paused.recv();
    }
    RelayPause(Some(handle))
}

impl Drop for RelayPause {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.send(RelayMessage::Resume);
        }
    }
}

impl std::fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RelayHandle")
    }
}

fn running() -> MutexGuard<'static, Option<Arc<RelayHandle>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
