//! Flow control: a sender waits for space, so that an idle reader costs bounded memory.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::sync::Semaphore;

use crate::frame::NodeFrame;
use crate::message::WindowMore;

/// Bytes of one call that may be on their way in one direction.
pub(crate) const WINDOW_BYTES: u32 = 256 * 1024;

/// Most bytes of data in one frame.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// A frame counts as so many bytes at least: many small ones cost memory as well.
const LEAST: usize = 256;

/// The cost of a frame with so many bytes of data.
pub(crate) fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes.max(LEAST)).unwrap_or(u32::MAX)
}

/// Room to send in.
#[derive(Debug)]
pub(crate) struct SendWindow(Semaphore);

impl SendWindow {
    /// Of so many bytes.
    pub(crate) fn new(bytes: u32) -> Arc<SendWindow> {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        Arc::new(SendWindow(Semaphore::new(
            bytes.min(Semaphore::MAX_PERMITS),
        )))
    }

    /// Widens the window by a frame of the other side; returns the mistake in words. More than any
    /// window holds is one.
    pub(crate) fn widen(&self, frame: &NodeFrame) -> Result<(), String> {
        let more: WindowMore = frame.parse()?;
        let bytes = usize::try_from(more.bytes).unwrap_or(usize::MAX);
        let fits = self.0.available_permits().saturating_add(bytes) <= WINDOW_BYTES as usize;
        if !fits {
            return Err("more room than there can be".to_owned());
        }
        self.0.add_permits(bytes);
        Ok(())
    }

    /// Closes the window, and wakes waiting senders.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Waits for space for one frame; `None` if the reader is gone.
    pub(crate) async fn take(&self, bytes: usize) -> Option<()> {
        let room = self.0.acquire_many(cost(bytes)).await.ok()?;
        room.forget();
        Some(())
    }
}

/// Runs `work` to its end on this thread, which may wait. Another thread must wake it.
pub(crate) fn wait<F: Future>(work: F) -> F::Output {
    struct UnparkWaker(Thread);
    impl Wake for UnparkWaker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(UnparkWaker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}
