//! What a worker may use up, together with everybody it calls: tokens, time, workers
//! started. A called worker runs inside its caller's time and draws from its caller's
//! tokens, so a limit further down never gives more than what is left above.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forge_tools::{Answer, ApprovalRequest, Approver, BoxFuture};
use sandbox_config::Limits;

use crate::model::Usage;
use crate::report::End;

/// One run of one worker, seen as what it uses up.
#[derive(Debug)]
pub(crate) struct Budget {
    above: Option<Arc<Budget>>,
    limits: Limits,
    tokens: AtomicU64,
    children: AtomicU64,
}

impl Budget {
    pub(crate) fn new(above: Option<Arc<Budget>>, limits: Limits) -> Arc<Budget> {
        Arc::new(Budget {
            above,
            limits,
            tokens: AtomicU64::new(0),
            children: AtomicU64::new(0),
        })
    }

    /// Counts what a turn used, here and above.
    pub(crate) fn spend(&self, usage: Usage) {
        let mut at = Some(self);
        while let Some(budget) = at {
            let before = budget.tokens.load(Ordering::Relaxed);
            // Saturating: a model that reports nonsense has used everything up.
            budget
                .tokens
                .store(before.saturating_add(usage.total()), Ordering::Relaxed);
            at = budget.above.as_deref();
        }
    }

    /// The limit that the tokens have reached, here or above.
    pub(crate) fn out_of_tokens(&self) -> Option<End> {
        let mut at = Some(self);
        while let Some(budget) = at {
            if let Some(limit) = budget.limits.max_tokens()
                && budget.tokens.load(Ordering::Relaxed) >= limit
            {
                return Some(End::TokenLimit { tokens: limit });
            }
            at = budget.above.as_deref();
        }
        None
    }

    /// Counts one more worker started; false: there were `most` already.
    pub(crate) fn start_child(&self, most: u64) -> bool {
        self.children
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |so_far| {
                (so_far < most).then_some(so_far + 1)
            })
            .is_ok()
    }

    pub(crate) fn children(&self) -> u64 {
        self.children.load(Ordering::Relaxed)
    }

    /// Returns when the worker's time is up; never, if it has no limit.
    pub(crate) async fn time_up(&self, asking: &Asking) -> End {
        let started = Instant::now();
        let asked_before = asking.total();
        loop {
            let since = started.elapsed();
            let working = since.saturating_sub(asking.total().saturating_sub(asked_before));
            let wall = left(self.limits.max_wall_s(), since);
            let work = left(self.limits.max_working_s(), working);
            match (wall, work) {
                (Left::Nothing(seconds), _) => return End::WallLimit { seconds },
                (_, Left::Nothing(seconds)) => return End::WorkingLimit { seconds },
                (Left::Endless, Left::Endless) => std::future::pending::<()>().await,
                (Left::Some(time), Left::Endless) | (Left::Endless, Left::Some(time)) => {
                    tokio::time::sleep(time.max(LOOK)).await;
                }
                (Left::Some(wall), Left::Some(work)) => {
                    tokio::time::sleep(wall.min(work).max(LOOK)).await;
                }
            }
        }
    }
}

/// While a person is asked, working time stands still; look again no more often than
/// this.
const LOOK: Duration = Duration::from_millis(20);

enum Left {
    Endless,
    Some(Duration),
    /// With the limit.
    Nothing(u64),
}

fn left(limit_s: Option<u64>, used: Duration) -> Left {
    match limit_s {
        None => Left::Endless,
        Some(limit_s) => match Duration::from_secs(limit_s).checked_sub(used) {
            Some(time) if !time.is_zero() => Left::Some(time),
            Some(_) | None => Left::Nothing(limit_s),
        },
    }
}

/// How long a person has been asked in this session, all questions together; two at
/// once count once.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    state: Mutex<AskingState>,
}

#[derive(Debug, Default)]
struct AskingState {
    open: u64,
    since: Option<Instant>,
    closed: Duration,
}

impl Asking {
    fn total(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn open(self: &Arc<Self>) -> Question {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
        Question(Arc::clone(self))
    }
}

/// An open question; closed when it is dropped, answered or not.
struct Question(Arc<Asking>);

impl Drop for Question {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open = state.open.saturating_sub(1);
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.closed += since.elapsed();
        }
    }
}

/// An approver whose questions are timed.
pub(crate) struct Timed {
    pub(crate) inner: Arc<dyn Approver>,
    pub(crate) asking: Arc<Asking>,
}

impl Approver for Timed {
    fn shows(&self) -> bool {
        self.inner.shows()
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _question = self.asking.open();
            self.inner.ask(request).await
        })
    }
}

/// Notices a worker that makes the same call again and again with the same result.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last: Option<(String, String)>,
    times: u64,
}

/// What comes of one more call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    No,
    /// Tell the model.
    Hint,
    /// It goes round in circles.
    Stop,
}

impl Repeats {
    /// Counts a call (tool and arguments) and what came of it.
    pub(crate) fn count(&mut self, call: String, result: String, limit: Option<u64>) -> Repeated {
        let this = (call, result);
        if self.last.as_ref() == Some(&this) {
            self.times += 1;
        } else {
            self.last = Some(this);
            self.times = 1;
        }
        match limit {
            Some(limit) if self.times >= limit.saturating_mul(2) => Repeated::Stop,
            Some(limit) if self.times == limit => Repeated::Hint,
            Some(_) | None => Repeated::No,
        }
    }
}
