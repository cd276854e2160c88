//! The thread that carries the traffic of nodes, and its shutdown.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use os_sandbox::Quarantined;
use tokio::runtime::{Builder, Handle, Runtime};

use super::ContainerSource;

/// Runtime for the traffic of nodes: it lives as long as the process, independent of the callers.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

fn runtime() -> Result<Handle, String> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let made = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("nodes")
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the thread of nodes: {error}"))?;
    Ok(runtime.insert(made).handle().clone())
}

impl ContainerSource {
    /// Waits, at most for this time, until every abandoned container and command has ended; called
    /// before the program exits. Returns the quarantined files that no result has reported.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert!(forge_runtime::ContainerSource::wait_for_dropped(Duration::from_secs(1)).is_empty());
    /// ```
    #[must_use]
    pub fn wait_for_dropped(within: Duration) -> Vec<Quarantined> {
        let runtime = RUNTIME
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(within);
        }
        os_sandbox::settle(within)
    }
}

pub(super) async fn on_nodes<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let done = runtime()?.spawn(work).await;
    done.map_err(|_| "the thread of nodes was lost".to_owned())
}

/// Runs `work` like [`on_nodes`] and blocks, on a runtime or outside of one.
pub(super) fn in_nodes<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let (done, answer) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let answered = work.await;
        // The caller blocks until the answer is sent.
        let _gone = done.send(answered);
    });
    let lost = |_| "the thread of nodes was lost".to_owned();
    answer.recv().map_err(lost)
}
