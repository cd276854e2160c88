//! The progress of a call: a tool counts, and its caller watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The caller is notified each time so many more bytes were handled.
const STEP_BYTES: u64 = 64 * 1024;

/// A counter that one call of a tool moves and its caller watches. Clones share the counter.
///
/// ```
/// use forge_tools::Progress;
/// let progress = Progress::default();
/// progress.add_bytes(10);
/// assert_eq!(progress.bytes(), 10);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Progress {
    shared: Arc<ProgressCounter>,
}

#[derive(Debug, Default)]
struct ProgressCounter {
    bytes: AtomicU64,
    stepped: Notify,
}

impl Progress {
    /// So many more bytes were handled. Cheap, and may be called from any thread.
    pub fn add_bytes(&self, count: u64) {
        let before = self.shared.bytes.fetch_add(count, Ordering::Relaxed);
        if before / STEP_BYTES != before.saturating_add(count) / STEP_BYTES {
            self.shared.stepped.notify_one();
        }
    }

    /// How many bytes were handled so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Waits until another 64 KiB were handled.
    pub async fn stepped(&self) {
        self.shared.stepped.notified().await;
    }
}
