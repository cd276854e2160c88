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

/// Waits until forge is told to stop, and gives the failure to end with.
pub(crate) async fn stop_signal() -> CliError {
    let code = tokio::select! {
        () = arrival(SignalKind::interrupt()) => 130,
        () = arrival(SignalKind::quit()) => 131,
        code = termination_signal() => code,
    };
    CliError::new(ExitKind::Command(code), "interrupted", "interrupted")
}

/// Waits for the signals that are not typed, and returns the exit code.
async fn termination_signal() -> u8 {
    tokio::select! {
        () = arrival(SignalKind::terminate()) => 143,
        () = hangup() => 129,
    }
}

/// Ends when the terminal is gone. Never under `nohup`, which taking the signal would undo.
async fn hangup() {
    match is_hangup_ignored() {
        false => arrival(SignalKind::hangup()).await,
        true => std::future::pending().await,
    }
}

/// `true` if forge was started with SIGHUP ignored. If the state is unknown it counts as ignored,
/// and the signal keeps its default effect.
fn is_hangup_ignored() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & HANGUP != 0)
}

/// Returns when the signal arrives. If the handler cannot be installed it never returns, and the
/// signal keeps its default effect: it ends the process.
async fn arrival(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
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
        // From here on the signals have no effect of their own.
        let (typed, told) = {
            let _inside = runtime.enter();
            let hangup = match is_hangup_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            };
            (
                [
                    signal(SignalKind::interrupt())?,
                    signal(SignalKind::quit())?,
                ],
                (signal(SignalKind::terminate())?, hangup),
            )
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let counts = || {
                    interrupts == Interrupts::Stop
                        || PromptTerminal::has_controlling()
                        || lock(&state).question.is_some()
                };
                let code = runtime.block_on(async {
                    tokio::select! {
                        code = typed_code(typed, counts) => code,
                        code = told_code(told) => code,
                    }
                });
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

/// Waits for a typed signal that `counts`.
async fn typed_code([mut interrupt, mut quit]: [Signal; 2], counts: impl Fn() -> bool) -> u8 {
    loop {
        let code = tokio::select! {
            _ = interrupt.recv() => 130,
            _ = quit.recv() => 131,
        };
        if counts() {
            return code;
        }
    }
}

async fn told_code((mut terminate, hangup): (Signal, Option<Signal>)) -> u8 {
    let hung_up = async {
        match hangup {
            Some(mut hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = terminate.recv() => 143,
        _ = hung_up => 129,
    }
}
