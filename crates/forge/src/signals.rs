//! Signals that stop forge. Running work is dropped, which ends every command and leaves a record
//! of every call; then forge exits with 128 plus the number of the signal.
//!
//! A command on a terminal is an exception: Ctrl-C reaches the command as well, and the command
//! decides about it, except while forge asks a person.

use std::future::Future as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;

use os_sandbox::Killer;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CliError, ExitKind};
use crate::output::prompt_terminal::{PromptTerminal, QuestionHold, Withdrawal, withdrawable};

/// Waits until forge is told to stop, and gives the failure to end with. If a handler cannot be
/// installed it never returns, and the signal keeps its default effect: it ends the process.
pub(crate) async fn stop_signal() -> CliError {
    let code = match StopSignals::install() {
        Ok(signals) => signals.exit_code(|| true).await,
        Err(_) => std::future::pending().await,
    };
    CliError::new(ExitKind::Command(code), "interrupted", "interrupted")
}

/// The signals that stop forge. From the installation on they have no effect of their own.
struct StopSignals {
    interrupt: Signal,
    quit: Signal,
    /// Each of the others, with its number.
    others: Vec<(Signal, u8)>,
    /// A file that reaches the limit of its size: the write fails, and says so.
    _too_large: Signal,
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
            let code = u8::try_from(128 + number).unwrap_or(u8::MAX);
            Ok((signal(SignalKind::from_raw(number))?, code))
        });
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            others: taken.collect::<std::io::Result<_>>()?,
            _too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Waits for a signal that stops forge, and returns the exit code. Ctrl-C and Ctrl-\ do only if
    /// `typed_counts` when they arrive.
    async fn exit_code(self, typed_counts: impl Fn() -> bool) -> u8 {
        let StopSignals {
            mut interrupt,
            mut quit,
            mut others,
            ..
        } = self;
        let mut other = std::future::poll_fn(move |context| {
            let mut all = others.iter_mut();
            let told = all.find_map(|(signal, code)| {
                let is_told = matches!(signal.poll_recv(context), Poll::Ready(Some(())));
                is_told.then_some(*code)
            });
            told.map_or(Poll::Pending, Poll::Ready)
        });
        loop {
            let typed = tokio::select! {
                _ = interrupt.recv() => 130,
                _ = quit.recv() => 131,
                code = &mut other => return code,
            };
            if typed_counts() {
                return typed;
            }
        }
    }
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

/// Kills a command of `forge exec` when a signal stops forge, so that leftovers are cleaned up and
/// the record has an end.
pub(crate) struct KillOnSignal(Arc<Mutex<SignalState>>);

/// The effect of Ctrl-C and Ctrl-\ on forge. A command that is started meanwhile receives them in any
/// case: a handler, unlike *ignored*, does not outlive exec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    /// They stop forge.
    Stop,
    /// The command decides about them, except while forge asks a person.
    OfCommand,
}

#[derive(Default)]
struct SignalState {
    code: Option<u8>,
    killer: Option<Killer>,
    question: Option<QuestionHold>,
}

impl KillOnSignal {
    /// Starts to listen.
    pub(crate) fn listen(interrupts: Interrupts) -> std::io::Result<Self> {
        let stops = KillOnSignal(Arc::default());
        let state = Arc::clone(&stops.0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let signals = {
            let _inside = runtime.enter();
            StopSignals::install()?
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let counts = || {
                    interrupts == Interrupts::Stop
                        || PromptTerminal::has_controlling()
                        || lock(&state).question.is_some()
                };
                let code = runtime.block_on(signals.exit_code(counts));
                let mut state = lock(&state);
                state.code = Some(code);
                state.question = None;
                if let Some(killer) = &state.killer {
                    killer.kill();
                }
            })?;
        Ok(stops)
    }

    /// This is the command that is to end.
    pub(crate) fn command(&self, killer: Killer) {
        let mut state = lock(&self.0);
        if state.code.is_some() {
            killer.kill();
        }
        state.killer = Some(killer);
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
        if state.code.is_none() {
            state.question = Some(hold);
        }
        Ok(withdrawal)
    }

    /// The code to end with, if forge was told to stop.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        lock(&self.0).code
    }
}

fn lock(state: &Mutex<SignalState>) -> MutexGuard<'_, SignalState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
