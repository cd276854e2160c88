//! The thread that carries what nodes say, and its end.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use os_sandbox::Quarantined;
use tokio::runtime::{Builder, Handle, Runtime};

use super::ContainerSource;

/// What carries what nodes say: it goes on as long as the process, whoever waits for a call.
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
    /// For a program before its own end: waits, so long at most, until every container and every
    /// command that nobody holds any more has ended. What was taken away then that had a protected
    /// name, and that no result says, is what it gives.
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

/// The same for who may wait, on a runtime or not.
pub(super) fn in_nodes<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let (done, answer) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let answered = work.await;
        // Who asked waits for it.
        let _gone = done.send(answered);
    });
    let lost = |_| "the thread of nodes was lost".to_owned();
    answer.recv().map_err(lost)
}
