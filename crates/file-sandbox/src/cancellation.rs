//! Cancellation of an operation from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cancels an operation from another thread. The operation returns its results so far.
///
/// ```
/// use file_sandbox::{CancellationToken, TruncationReason, FileSandbox, SandboxPath, WalkOptions};
///
/// let cancel = CancellationToken::new();
/// cancel.cancel();
/// let files = FileSandbox::new(vec![])?;
/// let listing = files.walk(&SandboxPath::root(), WalkOptions::new().cancel(&cancel))?;
/// assert_eq!(listing.cut, Some(TruncationReason::Cancelled));
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    said: Arc<AtomicBool>,
    #[cfg(test)]
    looks: Arc<tests::Looks>,
}

impl CancellationToken {
    /// Returns a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every operation that was given this value or a clone of it.
    pub fn cancel(&self) {
        self.said.store(true, Ordering::Relaxed);
    }

    /// `true` after [`cancel`](Self::cancel).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        #[cfg(test)]
        if self.looks.are_enough() {
            self.cancel();
        }
        self.said.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Counts how often somebody looks, and says stop at one of the looks.
    #[derive(Debug)]
    pub(crate) struct Looks {
        count: AtomicU64,
        stop_at: AtomicU64,
    }

    impl Default for Looks {
        fn default() -> Self {
            Self {
                count: AtomicU64::new(0),
                stop_at: AtomicU64::new(u64::MAX),
            }
        }
    }

    impl Looks {
        pub(crate) fn are_enough(&self) -> bool {
            self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_at.load(Ordering::Relaxed)
        }
    }

    impl CancellationToken {
        /// One that says stop at the look of this number, from 1.
        pub(crate) fn at_look(number: u64) -> Self {
            let cancel = Self::new();
            cancel.looks.stop_at.store(number, Ordering::Relaxed);
            cancel
        }

        pub(crate) fn looks(&self) -> u64 {
            self.looks.count.load(Ordering::Relaxed)
        }
    }
}
