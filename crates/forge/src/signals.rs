//! Being told to stop. What is under way is dropped, which ends every command and
//! leaves a record of every call; then forge ends with 128 and the signal's number.
//!
//! A command on a terminal is another matter: Ctrl-C reaches it as well, and what it
//! means is the command's to say.

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// Waits until forge is told to stop, and gives the failure to end with. Not by SIGHUP:
/// taking it would undo `nohup`.
pub(crate) async fn told_to_stop() -> Failure {
    let code = tokio::select! {
        () = arrival(SignalKind::interrupt()) => 130,
        () = arrival(SignalKind::terminate()) => 143,
    };
    Failure::new(Exit::Command(code), "interrupted", "interrupted")
}

/// Ends when the signal arrives. Never, if it cannot be waited for: then it does what
/// it always did, and ends the process.
async fn arrival(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// While this is held, Ctrl-C and Ctrl-\ do nothing to forge. A command started
/// meanwhile still receives them: a handler, unlike *ignored*, does not outlive exec.
pub(crate) struct LeftToTheCommand {
    _signals: [Signal; 2],
    _runtime: Runtime,
}

impl LeftToTheCommand {
    /// Takes the signals.
    pub(crate) fn take() -> std::io::Result<Self> {
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
        Ok(LeftToTheCommand {
            _signals: signals,
            _runtime: runtime,
        })
    }
}
