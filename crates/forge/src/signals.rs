//! Signals that stop forge. Running work is dropped, which ends every command and leaves a record
//! of every call; then forge exits with 128 plus the number of the signal.
//!
//! The command of `forge exec` gets the signal, and ends by itself within [`STOP_GRACE`], or is ended.
//! On a terminal it decides about Ctrl-C, except while forge asks a person.

use std::future::Future as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

use os_sandbox::{Child, Exit, Killer, Session};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CliError, ExitKind};
use crate::output::prompt_terminal::{PromptTerminal, QuestionHold, Withdrawal, withdrawable};

/// The time in which a command can end by itself after a signal or its time limit. `exec --help` and
/// docs/output.md name it.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);
/// Bound on the time between two deliveries of one signal: timeout(1) sends it to its child, and to its
/// process group.
const SAME_SIGNAL_WITHIN: Duration = Duration::from_millis(100);

/// Waits until forge is told to stop, and gives the failure to end with. If a handler cannot be
/// installed it never returns, and the signal keeps its default effect: it ends the process.
pub(crate) async fn stop_signal() -> CliError {
    let exit = match StopSignals::install() {
        Ok(mut signals) => exit_kind(signals.next().await),
        Err(_) => std::future::pending().await,
    };
    CliError::new(exit, "interrupted", "interrupted")
}

/// The signals that stop forge. From the installation on they have no effect of their own.
struct StopSignals {
    interrupt: Signal,
    quit: Signal,
    /// Each of the others, with its number.
    others: Vec<(Signal, u8)>,
}

/// Signals that end a process by default, beside those of the terminal, of faults of the process
/// itself, and of a reader that is gone. Batch systems announce the end of a job by several.
fn terminating() -> impl Iterator<Item = i32> {
    use rustix::process::Signal;
    let named = [
        Signal::HUP,
        Signal::TERM,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::ABORT,
        #[cfg(target_os = "linux")]
        Signal::STKFLT,
        #[cfg(target_os = "linux")]
        Signal::IO,
        #[cfg(target_os = "linux")]
        Signal::POWER,
    ];
    // musl keeps 34 for itself.
    let real_time = (35..=64).filter(|_| cfg!(target_os = "linux"));
    named.into_iter().map(Signal::as_raw).chain(real_time)
}

impl StopSignals {
    /// Takes them, in the runtime that the caller is in. Those that forge was started with ignored
    /// stay so, as SIGHUP does under `nohup`.
    fn install() -> std::io::Result<Self> {
        let ignored = ignored_signals();
        let others = terminating().filter(|number| ignored >> (number - 1) & 1 == 0);
        let taken = others.map(|number| {
            let raw = u8::try_from(number).unwrap_or(u8::MAX);
            Ok((signal(SignalKind::from_raw(number))?, raw))
        });
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            others: taken.collect::<std::io::Result<_>>()?,
        })
    }

    /// Waits for a signal, and returns its number.
    async fn next(&mut self) -> u8 {
        let others = &mut self.others;
        let other = std::future::poll_fn(|context| {
            let mut all = others.iter_mut();
            let told = all.find_map(|(signal, number)| {
                let is_told = matches!(signal.poll_recv(context), Poll::Ready(Some(())));
                is_told.then_some(*number)
            });
            told.map_or(Poll::Pending, Poll::Ready)
        });
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.quit.recv() => QUIT,
            number = other => number,
        }
    }
}

const INTERRUPT: u8 = 2;
const QUIT: u8 = 3;

/// Returns `true` for the signals of keys: Ctrl-C and Ctrl-\.
fn is_typed(number: u8) -> bool {
    matches!(number, INTERRUPT | QUIT)
}

/// Lets a write fail, and say so, where a file reaches the limit of its size (`ulimit -f`): the signal
/// would end forge without a word. Programs that forge starts have the default again.
pub(crate) fn survive_file_limit() {
    let number = rustix::process::Signal::XFSZ.as_raw();
    // Without it a limit ends forge, as every other program.
    let _ = signal_hook::flag::register(number, Arc::default());
}

/// Returns the exit of a forge that a signal stopped.
fn exit_kind(number: u8) -> ExitKind {
    match number {
        INTERRUPT => ExitKind::Interrupted,
        other => ExitKind::Command(other.saturating_add(128)),
    }
}

/// Returns `true` if the signal of Ctrl-C ended a command.
pub(crate) fn is_interrupted(exit: &Exit) -> bool {
    *exit == Exit::Signal(INTERRUPT.into())
}

/// Passes the Ctrl-C that a command's own terminal has made a signal on to the processes of forge's
/// group, as the person's terminal would have: the script or pipeline that forge is a part of.
pub(crate) fn interrupt_group() {
    // Refused by none of the caller's own processes.
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::INT);
}

/// Ends this process as SIGINT does by default.
pub(crate) fn end_as_interrupted() {
    // Without the handler the caller ends with the code of the signal.
    let _ = signal_hook::low_level::emulate_default_handler(INTERRUPT.into());
}

/// Returns the signals that forge was started with ignored, one bit each. If that is unknown, SIGHUP
/// counts as ignored, and keeps its default effect.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(1)
}

/// Ends the process on a signal after a run is over. The handlers of the run stay installed, and
/// the reader of the result may never read it: this ends the process as soon as the records are
/// written and this value is dropped.
pub(crate) struct ExitOnSignal {
    _over: mpsc::Sender<()>,
}

impl ExitOnSignal {
    /// Starts to listen. Without a thread no signal is handled.
    pub(crate) fn listen() -> Self {
        let (over, is_over) = mpsc::channel();
        let (listens, is_listening) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || end_by_signal(&listens, &is_over));
        if thread.is_ok() {
            // Also where it could not be done: the other end is gone then.
            let _ = is_listening.recv();
        }
        ExitOnSignal { _over: over }
    }
}

fn end_by_signal(listens: &mpsc::Sender<()>, is_over: &mpsc::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let Ok(runtime) = runtime else { return };
    let failure = runtime.block_on(async {
        let mut told = std::pin::pin!(stop_signal());
        // Listens before it says so.
        let now = std::future::poll_fn(|context| Poll::Ready(told.as_mut().poll(context))).await;
        let _ = listens.send(());
        match now {
            Poll::Ready(failure) => failure,
            Poll::Pending => told.await,
        }
    });
    // Ends when the other end is dropped.
    let _ = is_over.recv();
    std::process::exit(failure.exit().code().into());
}

/// Passes the signals that stop forge on to a command of `forge exec`, and kills it if it does not end,
/// so that leftovers are cleaned up and the record has an end.
pub(crate) struct CommandSignals(Arc<Mutex<SignalState>>);

#[derive(Default)]
struct SignalState {
    /// The signal that has stopped forge.
    stopped_by: Option<u8>,
    /// The command got that signal.
    is_passed_on: bool,
    /// Commands are killed from now on.
    is_over: bool,
    command: Option<SignalledCommand>,
    question: Option<QuestionHold>,
}

struct SignalledCommand {
    killer: Killer,
    /// The terminal sends it the signals of keys.
    gets_keys: bool,
}

impl CommandSignals {
    /// Starts to listen. With a terminal, the command decides about Ctrl-C and Ctrl-\, except while forge
    /// asks a person; without one they cannot be typed, and stop forge.
    pub(crate) fn listen(has_terminal: bool) -> std::io::Result<Self> {
        let stops = CommandSignals(Arc::default());
        let state = Arc::clone(&stops.0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _inside = runtime.enter();
            StopSignals::install()?
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(stop_command(&mut signals, has_terminal, &state)))?;
        Ok(stops)
    }

    /// This is the command that is to end, with its session.
    pub(crate) fn command(&self, child: &Child, session: Session) -> Result<(), os_sandbox::Error> {
        let command = SignalledCommand {
            killer: child.killer()?,
            gets_keys: session == Session::Inherit,
        };
        let mut state = lock(&self.0);
        if let Some(number) = state.stopped_by {
            state.is_passed_on = command.pass_on(number);
        }
        if state.is_over {
            command.killer.kill();
        }
        state.command = Some(command);
        Ok(())
    }

    /// Returns the end of a question that a signal withdraws: at once if forge was told to stop
    /// before.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "reviews ask here, and are on Linux only")
    )]
    pub(crate) fn question(&self) -> std::io::Result<Withdrawal> {
        let (hold, withdrawal) = withdrawable()?;
        let mut state = lock(&self.0);
        if state.stopped_by.is_none() {
            state.question = Some(hold);
        }
        Ok(withdrawal)
    }

    /// The exit to end with, if forge was told to stop. `None` also for a command that ended by itself
    /// after it had got the signal.
    pub(crate) fn exit_kind(&self, exit: &Exit) -> Option<ExitKind> {
        const KILLED: Exit = Exit::Signal(9);
        let state = lock(&self.0);
        let counts = !state.is_passed_on || *exit == KILLED;
        state.stopped_by.filter(|_| counts).map(exit_kind)
    }
}

impl SignalledCommand {
    /// Returns `false` if the command has ended.
    fn pass_on(&self, number: u8) -> bool {
        is_typed(number) && self.gets_keys || self.killer.signal(number)
    }
}

/// Waits for a signal that stops forge, passes it on to the command, and kills the command at the end of
/// the grace or at a second signal.
async fn stop_command(signals: &mut StopSignals, has_terminal: bool, state: &Mutex<SignalState>) {
    let (first, has_grace) = loop {
        let number = signals.next().await;
        let mut state = lock(state);
        let stops = !is_typed(number)
            || !has_terminal
            || PromptTerminal::has_controlling()
            || state.question.is_some();
        let command = state.command.as_ref();
        let is_passed_on = command.map(|command| command.pass_on(number));
        if stops {
            state.stopped_by = Some(number);
            state.is_passed_on = is_passed_on.unwrap_or(false);
            state.question = None;
            // A command that starts after it gets it then.
            break (number, is_passed_on.unwrap_or(true));
        }
    };
    let start = Instant::now();
    let second =
        async { while signals.next().await == first && start.elapsed() < SAME_SIGNAL_WITHIN {} };
    if has_grace {
        // The command may end before.
        let _over = tokio::time::timeout(STOP_GRACE, second).await;
    }
    let mut state = lock(state);
    state.is_over = true;
    if let Some(command) = &state.command {
        command.killer.kill();
    }
}

fn lock(state: &Mutex<SignalState>) -> MutexGuard<'_, SignalState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
