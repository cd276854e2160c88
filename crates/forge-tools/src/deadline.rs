//! Time limits that need no timer of the runtime: a program may run its calls on a runtime without
//! one, and a call must end nevertheless.
//!
//! One thread for the whole process, started by the first limit, wakes every task that is due.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The work was not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Returns the outcome of `work`, unless it takes longer than `limit`; then `work` is dropped.
///
/// # Errors
///
/// It took longer.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use forge_tools::{Elapsed, within};
/// use std::time::Duration;
/// let never = std::future::pending::<()>();
/// assert_eq!(within(Some(Duration::from_millis(1)), never).await, Err(Elapsed));
/// # });
/// ```
pub async fn within<F: Future>(limit: Option<Duration>, work: F) -> Result<F::Output, Elapsed> {
    // A limit beyond the end of time is none.
    let Some(due) = limit.and_then(|limit| Instant::now().checked_add(limit)) else {
        return Ok(work.await);
    };
    let mut work = pin!(work);
    let mut alarm = Deadline { due, id: None };
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending => alarm.poll(context).map(|()| Err(Elapsed)),
    })
    .await
}

struct Deadline {
    due: Instant,
    id: Option<u64>,
}

impl Deadline {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if Instant::now() >= self.due {
            return Poll::Ready(());
        }
        let clock = clock();
        let mut waiting = clock.lock();
        let id = *self.id.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        let waker = context.waker().clone();
        waiting.by_time.insert((self.due, id), waker);
        // The thread looks again when it wakes. Mostly that is soon enough: limits are alike, so a
        // later task is due later, and waking another thread costs as much as a call.
        let too_late = waiting.wakes.is_none_or(|wakes| self.due < wakes);
        if too_late {
            waiting.wakes = Some(self.due);
        }
        drop(waiting);
        if too_late {
            clock.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            clock().lock().by_time.remove(&(self.due, id));
        }
    }
}

#[derive(Default)]
struct TimerQueue {
    by_time: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// When the thread wakes by itself; none if it does not.
    wakes: Option<Instant>,
}

#[derive(Default)]
struct TimerThread {
    waiting: Mutex<TimerQueue>,
    changed: Condvar,
}

impl TimerThread {
    fn lock(&self) -> MutexGuard<'_, TimerQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            while let Some(first) = waiting.by_time.first_entry() {
                if first.key().0 > now {
                    break;
                }
                first.remove().wake();
            }
            waiting.wakes = waiting.by_time.keys().next().map(|(due, _)| *due);
            waiting = match waiting.wakes {
                Some(due) => {
                    let sleep = due.saturating_duration_since(now);
                    let (waiting, _) = self
                        .changed
                        .wait_timeout(waiting, sleep)
                        .unwrap_or_else(PoisonError::into_inner);
                    waiting
                }
                None => self
                    .changed
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

fn clock() -> &'static TimerThread {
    static CLOCK: OnceLock<TimerThread> = OnceLock::new();
    static THREAD: OnceLock<bool> = OnceLock::new();
    let clock = CLOCK.get_or_init(TimerThread::default);
    // Where no thread can be had, calls end when they are done.
    THREAD.get_or_init(|| {
        std::thread::Builder::new()
            .name("forge-deadlines".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || clock.run())
            .is_ok()
    });
    clock
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<F: Future>(work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread();
        { runtime }.build().unwrap().block_on(work)
    }

    #[test]
    fn work_that_never_ends_is_given_up_in_order_of_time() {
        run(async {
            let never = |ms| {
                within(
                    Some(Duration::from_millis(ms)),
                    std::future::pending::<()>(),
                )
            };
            let late = tokio::spawn(never(200));
            assert_eq!(never(10).await, Err(Elapsed));
            assert_eq!(late.await.unwrap(), Err(Elapsed));
            assert_eq!(within(None, async { 1 }).await, Ok(1));
            assert_eq!(within(Some(Duration::MAX), async { 2 }).await, Ok(2));
        });
    }

    #[test]
    fn who_is_due_first_is_given_up_first_whoever_came_first() {
        run(async {
            let never = |ms| {
                within(
                    Some(Duration::from_millis(ms)),
                    std::future::pending::<()>(),
                )
            };
            let hour = tokio::spawn(never(3_600_000));
            tokio::task::yield_now().await;
            // Once with the thread asleep until then, and once more after it woke early.
            for _ in 0..2 {
                assert_eq!(never(10).await, Err(Elapsed));
            }
            hour.abort();
        });
    }

    #[test]
    fn nothing_is_kept_of_work_that_was_done() {
        run(async {
            let day = Some(Duration::from_hours(24));
            for _ in 0..100 {
                assert_eq!(within(day, tokio::task::yield_now()).await, Ok(()));
            }
        });
        // Others of this process may wait at the same time, but not for so long.
        let soon = Instant::now() + Duration::from_hours(12);
        assert!(clock().lock().by_time.keys().all(|(due, _)| *due < soon));
    }
}
