//! Being told to stop. What is under way is dropped, which ends every command and
//! leaves a record of every call; then forge ends with 128 and the signal's number.

use tokio::signal::unix::{SignalKind, signal};

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
