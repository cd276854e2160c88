//! Signals that stop forge. Running work is dropped, which ends every command and leaves a record
//! of every call; then forge exits with 128 plus the number of the signal.
//!
//! A command on a terminal is an exception: Ctrl-C reaches the command as well, and the command
//! decides about it.

use std::future::Future as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Poll;

use os_sandbox::Killer;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CliError, ExitKind};

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

#[derive(Default)]
struct SignalState {
    code: Option<u8>,
    killer: Option<Killer>,
}

impl KillOnSignal {
    /// Begins to listen: to Ctrl-C and Ctrl-\ as well if they are `ours`, and not the command's.
    pub(crate) fn listen(ours: bool) -> std::io::Result<Self> {
        let stops = KillOnSignal(Arc::default());
        let told = Arc::clone(&stops.0);
        let (listens, is_listening) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let code = runtime.block_on(async {
                    let mut code = std::pin::pin!(async {
                        match ours {
                            true => stop_signal().await.exit().code(),
                            false => termination_signal().await,
                        }
                    });
                    // Listens before it says so.
                    let first =
                        std::future::poll_fn(|context| Poll::Ready(code.as_mut().poll(context)));
                    let now = first.await;
                    let _ = listens.send(());
                    match now {
                        Poll::Ready(code) => code,
                        Poll::Pending => code.await,
                    }
                });
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.code = Some(code);
                if let Some(killer) = &told.killer {
                    killer.kill();
                }
            })?;
        let _ = is_listening.recv();
        Ok(stops)
    }

    /// This is the command that is to end.
    pub(crate) fn command(&self, killer: Killer) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.code.is_some() {
            killer.kill();
        }
        told.killer = Some(killer);
    }

    /// The code to end with, if forge was told to stop.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).code
    }
}

/// While this is held, Ctrl-C and Ctrl-\ do nothing to forge. A command started
/// meanwhile still receives them: a handler, unlike *ignored*, does not outlive exec.
pub(crate) struct IgnoredInterrupts {
    _signals: [Signal; 2],
    _runtime: Runtime,
}

impl IgnoredInterrupts {
    /// Takes the signals.
    pub(crate) fn install() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let signals = {
            let _inside = runtime.enter();
            [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::quit())?,
            ]
        };
        Ok(IgnoredInterrupts {
            _signals: signals,
            _runtime: runtime,
        })
    }
}
