//! Work that may wait for files, done on the thread that serves the calls: to hand it to another one
//! and back takes longer than to read a small file.
//!
//! Other calls are not delayed by that, since a second thread of the runtime takes over. Work that
//! is not done soon keeps its thread, and the other one serves. Until then the runtime takes that
//! thread for busy and never wakes it needlessly, which two threads do to each other all the time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// How long the thread that serves may be away before the other one serves: twice this at most,
/// since it only looks that often.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A thread of a runtime that takes over while a call blocks the serving one.
///
/// Clones share the thread. It is free for other work once all of them are gone.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
/// # runtime.block_on(async {
/// use forge_tools::BlockingHandoff;
/// let handoff = BlockingHandoff::on_this_runtime();
/// assert!(handoff.is_some());
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct BlockingHandoff {
    post: Arc<HandoffGuard>,
}

/// Ends the standing by.
#[derive(Debug)]
struct HandoffGuard {
    shared: Arc<HandoffShared>,
}

#[derive(Debug)]
struct HandoffShared {
    runtime: Handle,
    state: Mutex<HandoffState>,
    /// Work has begun while the thread slept, or the thread is no longer needed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct HandoffState {
    /// A thread was requested for the first time.
    called: bool,
    /// A thread is ready to take over.
    stands: bool,
    /// It looks again only when it is told.
    sleeps: bool,
    /// Work is being done on the thread that serves.
    works: bool,
    /// Pieces of work so far.
    count: u64,
    closed: bool,
}

/// Leave to wait for files on the thread that serves, until this is gone.
#[derive(Debug)]
pub(crate) struct BlockingPermit {
    shared: Arc<HandoffShared>,
}

impl BlockingHandoff {
    /// One of the threads of the runtime that this is called on, taken with the first call; none if
    /// it would be the only one. Once for a runtime of two threads, since the runtime cannot tell
    /// it from one that works.
    pub fn on_this_runtime() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let is_one_of_several = match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => runtime.metrics().num_workers() > 1,
            _ => false,
        };
        if !is_one_of_several {
            return None;
        }
        let shared = Arc::new(HandoffShared {
            runtime,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        Some(BlockingHandoff {
            post: Arc::new(HandoffGuard { shared }),
        })
    }

    /// Returns `None` while no thread is ready, or other work is being done already.
    pub(crate) fn permit(&self) -> Option<BlockingPermit> {
        let shared = &self.post.shared;
        let mut state = shared.lock();
        if !state.called {
            state.called = true;
            drop(state);
            shared.stand_by();
            return None;
        }
        if !state.stands || state.works {
            return None;
        }
        state.works = true;
        state.count += 1;
        let sleeps = std::mem::take(&mut state.sleeps);
        drop(state);
        if sleeps {
            shared.changed.notify_one();
        }
        Some(BlockingPermit {
            shared: Arc::clone(shared),
        })
    }
}

impl Drop for HandoffGuard {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for BlockingPermit {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.works = false;
        let nobody_stands = !state.stands && !state.closed;
        drop(state);
        if nobody_stands {
            self.shared.stand_by();
        }
    }
}

impl HandoffShared {
    fn lock(&self) -> MutexGuard<'_, HandoffState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a thread of the runtime wait for its turn.
    fn stand_by(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.runtime.spawn(async move { shared.watch() });
    }

    /// Keeps the thread that this is called on until it is needed.
    fn watch(&self) {
        // The runtime need not have noticed that this thread does not look after its sockets and
        // timers any more. Only from a thread that is none of its own can the other one be woken.
        let runtime = self.runtime.clone();
        self.runtime
            .spawn_blocking(move || drop(runtime.spawn(std::future::ready(()))));
        let mut state = self.lock();
        state.stands = true;
        let mut seen = state.count;
        while !state.closed {
            if !state.works && state.count == seen {
                state.sleeps = true;
                state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
                state.sleeps = false;
            }
            seen = state.count;
            let (now, _) = self
                .changed
                .wait_timeout_while(state, LOOK_EVERY, |state| !state.closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = now;
            if state.works && state.count == seen {
                break;
            }
        }
        state.stands = false;
    }
}
