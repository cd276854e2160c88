//! Being told to stop. What is under way is dropped, which ends every command and
//! leaves a record of every call; then forge ends with 128 and the signal's number.
//!
//! A command on a terminal is another matter: Ctrl-C reaches it as well, and what it
//! means is the command's to say.

use std::future::Future as _;
use std::sync::mpsc;
use std::task::Poll;

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

/// Being told to stop once a run is over. What takes signals while it goes on stays installed, and
/// whoever should read the result may never do it: this ends the process, as soon as what has to
/// be kept is kept and this is dropped.
pub(crate) struct AfterTheRun {
    _over: mpsc::Sender<()>,
}

impl AfterTheRun {
    /// Begins to listen. Without a thread there is nobody who does.
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
        AfterTheRun { _over: over }
    }
}

fn end_by_signal(listens: &mpsc::Sender<()>, is_over: &mpsc::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let Ok(runtime) = runtime else { return };
    let failure = runtime.block_on(async {
        let mut told = std::pin::pin!(told_to_stop());
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
