//! Limits on the resources of a worker and of all workers below it: tokens, money, calls, time,
//! workers started. A called worker runs inside its caller's time and draws from its caller's
//! remaining budget, so a lower limit never grants more than the limits above it leave.
//!
//! Limits are checked before a turn begins. Workers that run side by side draw from one caller:
//! each may be in the middle of a turn when the last token or cent goes, so together they overrun
//! by at most one turn each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, millis};
use sandbox_config::RunLimits;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::Usage;
use crate::report::{ElapsedTime, RunOutcome};

/// Resource use of one run of one worker.
#[derive(Debug)]
pub(crate) struct WorkerBudget {
    above: Option<Arc<WorkerBudget>>,
    limits: RunLimits,
    tokens: AtomicU64,
    nano_usd: AtomicU64,
    calls: AtomicU64,
    children: AtomicU64,
    /// Workers below that have not ended yet.
    at_work: watch::Sender<u64>,
    started: Instant,
    /// Time that earlier programs spent on the run.
    earlier: ElapsedTime,
    still: PauseClock,
    /// The limit that ended the worker, if it is known before the workers below it have ended.
    over: OnceLock<RunOutcome>,
}

/// Adds; saturating, since a model that reports nonsense has used everything up.
fn add(count: &AtomicU64, more: u64) {
    let add = |so_far: u64| Some(so_far.saturating_add(more));
    let _always = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

impl WorkerBudget {
    /// Starts the clock, on top of the time that was spent before.
    pub(crate) fn new(
        above: Option<Arc<WorkerBudget>>,
        limits: RunLimits,
        earlier: ElapsedTime,
    ) -> Arc<WorkerBudget> {
        Arc::new(WorkerBudget {
            above,
            limits,
            tokens: AtomicU64::new(0),
            nano_usd: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            children: AtomicU64::new(0),
            at_work: watch::Sender::new(0),
            started: Instant::now(),
            earlier,
            still: PauseClock::default(),
            over: OnceLock::new(),
        })
    }

    /// This one and those above it.
    fn chain(&self) -> impl Iterator<Item = &WorkerBudget> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref())
    }

    /// Counts the usage of a turn, here and above.
    pub(crate) fn spend(&self, usage: Usage, nano_usd: u64) {
        for budget in self.chain() {
            add(&budget.tokens, usage.total());
            add(&budget.nano_usd, nano_usd);
        }
    }

    /// Counts calls, here and above.
    pub(crate) fn count_calls(&self, calls: u64) {
        for budget in self.chain() {
            add(&budget.calls, calls);
        }
    }

    /// The limit that was reached, here or above: no further turn.
    pub(crate) fn exhausted_limit(&self) -> Option<RunOutcome> {
        self.chain().find_map(|budget| {
            let reached = |limit: Option<u64>, used: &AtomicU64| {
                limit.filter(|limit| used.load(Ordering::Relaxed) >= *limit)
            };
            reached(budget.limits.max_tokens(), &budget.tokens)
                .map(|tokens| RunOutcome::TokenLimit { tokens })
                .or_else(|| {
                    reached(budget.limits.max_cost_nano_usd(), &budget.nano_usd)
                        .map(|nano_usd| RunOutcome::CostLimit { nano_usd })
                })
        })
    }

    /// The limit that so many more calls would break, here or above.
    pub(crate) fn too_many_calls(&self, more: u64) -> Option<RunOutcome> {
        self.chain().find_map(|budget| {
            let calls = budget.limits.max_tool_calls();
            let with = budget.calls.load(Ordering::Relaxed).saturating_add(more);
            (with > calls).then_some(RunOutcome::CallLimit { calls })
        })
    }

    /// Returns `true` if money is limited, here or above.
    pub(crate) fn limits_cost(&self) -> bool {
        self.chain()
            .any(|budget| budget.limits.max_cost_nano_usd().is_some())
    }

    /// Counts one more worker started; false: there were `most` already.
    pub(crate) fn start_child(&self, most: u64) -> bool {
        self.children
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |so_far| {
                (so_far < most).then_some(so_far + 1)
            })
            .is_ok()
    }

    /// Takes back one count: the child could not be set up.
    pub(crate) fn child_did_not_start(&self) {
        self.children.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn children(&self) -> u64 {
        self.children.load(Ordering::Relaxed)
    }

    /// Counts one running worker directly below, until the returned guard is dropped.
    pub(crate) fn track_child(self: &Arc<Self>) -> ChildGuard {
        self.at_work.send_modify(|workers| *workers += 1);
        ChildGuard(Arc::clone(self))
    }

    /// Waits until the stopped workers below have ended, at most for [`CHILD_SHUTDOWN_TIMEOUT`].
    pub(crate) async fn children_ended(&self) {
        let mut at_work = self.at_work.subscribe();
        let none = at_work.wait_for(|workers| *workers == 0);
        let _late = tokio::time::timeout(CHILD_SHUTDOWN_TIMEOUT, none).await;
    }

    /// Stops the work clock of this worker and of its callers until the returned guard is dropped:
    /// a person is being asked, or a provider asked for a pause.
    pub(crate) fn pause_clock(self: &Arc<Self>) -> PauseGuard {
        for budget in self.chain() {
            budget.still.begin();
        }
        PauseGuard(Arc::clone(self))
    }

    /// Returns the reason why a dropped worker had to stop: the time limit of a worker above it, or
    /// else the cancellation of the run.
    pub(crate) fn stopped_by(&self) -> RunOutcome {
        self.chain()
            .find_map(|budget| budget.over.get().cloned())
            .unwrap_or(RunOutcome::Cancelled)
    }

    fn wall(&self) -> Duration {
        let earlier = Duration::from_millis(self.earlier.wall_ms);
        earlier.saturating_add(self.started.elapsed())
    }

    fn working(&self) -> Duration {
        let earlier = Duration::from_millis(self.earlier.working_ms);
        let now = self.started.elapsed().saturating_sub(self.still.total());
        earlier.saturating_add(now)
    }

    fn time_left(&self) -> (TimeLeft, TimeLeft) {
        (
            left(self.limits.max_wall_s(), self.wall()),
            left(self.limits.max_working_s(), self.working()),
        )
    }

    /// Returns the time since its start.
    pub(crate) fn time(&self) -> ElapsedTime {
        ElapsedTime {
            wall_ms: millis(self.wall()),
            working_ms: millis(self.working()),
        }
    }

    /// Returns the time limit that was exceeded before the run was resumed.
    pub(crate) fn was_out_of_time(&self) -> Option<RunOutcome> {
        match self.time_left() {
            (TimeLeft::Nothing(seconds), _) => Some(RunOutcome::WallLimit { seconds }),
            (_, TimeLeft::Nothing(seconds)) => Some(RunOutcome::WorkingLimit { seconds }),
            (TimeLeft::Endless | TimeLeft::Some(_), TimeLeft::Endless | TimeLeft::Some(_)) => None,
        }
    }

    /// Returns when the worker's time is up; never, if it has no limit.
    pub(crate) async fn time_up(&self) -> RunOutcome {
        loop {
            let end = match self.time_left() {
                (TimeLeft::Nothing(seconds), _) => RunOutcome::WallLimit { seconds },
                (_, TimeLeft::Nothing(seconds)) => RunOutcome::WorkingLimit { seconds },
                (TimeLeft::Endless, TimeLeft::Endless) => std::future::pending().await,
                (TimeLeft::Some(time), TimeLeft::Endless)
                | (TimeLeft::Endless, TimeLeft::Some(time)) => {
                    tokio::time::sleep(time.max(MIN_TIMER_INTERVAL)).await;
                    continue;
                }
                (TimeLeft::Some(wall), TimeLeft::Some(work)) => {
                    tokio::time::sleep(wall.min(work).max(MIN_TIMER_INTERVAL)).await;
                    continue;
                }
            };
            // Set before the worker, and with it every worker below, is dropped.
            return self.over.get_or_init(|| end).clone();
        }
    }
}

/// Longest wait for the workers below to end, once all are stopped.
const CHILD_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker below at work.
#[derive(Debug)]
pub(crate) struct ChildGuard(Arc<WorkerBudget>);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        (self.0.at_work).send_modify(|workers| *workers = workers.saturating_sub(1));
    }
}

/// Shortest interval between two checks of the limits while the clock is stopped.
const MIN_TIMER_INTERVAL: Duration = Duration::from_millis(20);

enum TimeLeft {
    Endless,
    Some(Duration),
    /// With the limit.
    Nothing(u64),
}

fn left(limit_s: Option<u64>, used: Duration) -> TimeLeft {
    match limit_s {
        None => TimeLeft::Endless,
        Some(limit_s) => match Duration::from_secs(limit_s).checked_sub(used) {
            Some(time) if !time.is_zero() => TimeLeft::Some(time),
            Some(_) | None => TimeLeft::Nothing(limit_s),
        },
    }
}

/// Time during which a worker's clock was stopped; two simultaneous reasons count once.
#[derive(Debug, Default)]
struct PauseClock {
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    open: u64,
    since: Option<Instant>,
    closed: Duration,
}

impl PauseClock {
    fn total(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open = state.open.saturating_sub(1);
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.closed += since.elapsed();
        }
    }
}

/// Stops the clock of a worker and of every worker above it until it is dropped.
#[derive(Debug)]
pub(crate) struct PauseGuard(Arc<WorkerBudget>);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        for budget in self.0.chain() {
            budget.still.end();
        }
    }
}

/// An approver that does not count the time of a question as work. Workers that run side by side
/// wait for each other here: a person is asked one question at a time.
pub(crate) struct PausingApprover {
    pub(crate) inner: Arc<dyn Approver>,
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    pub(crate) budget: Arc<WorkerBudget>,
}

impl Approver for PausingApprover {
    fn shows(&self) -> bool {
        self.inner.shows()
    }

    fn is_attended(&self) -> bool {
        self.inner.is_attended()
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let _still = self.budget.pause_clock();
            let _turn = self.turn.lock().await;
            self.inner.ask(request).await
        })
    }
}

/// Notices a worker that repeats one call with an unchanged result.
#[derive(Debug)]
pub(crate) struct RepeatDetector {
    /// Repetitions after which the model is told; after as many more the worker ends.
    limit: Option<u64>,
    last: Option<(String, String)>,
    times: u64,
}

/// The reaction to one more call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RepeatAction {
    No,
    /// Tell the model.
    Hint,
    /// The limit of repetitions is reached.
    Stop {
        times: u64,
    },
}

impl RepeatDetector {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let (last, times) = (None, 0);
        RepeatDetector { limit, last, times }
    }

    /// Counts a call (tool and arguments) and its result.
    pub(crate) fn count(&mut self, call: String, result: String) -> RepeatAction {
        let this = (call, result);
        if self.last.as_ref() == Some(&this) {
            self.times += 1;
        } else {
            self.last = Some(this);
            self.times = 1;
        }
        match self.limit {
            Some(limit) if self.times >= limit.saturating_mul(2) => RepeatAction::Stop {
                times: limit.saturating_mul(2),
            },
            Some(limit) if self.times == limit => RepeatAction::Hint,
            Some(_) | None => RepeatAction::No,
        }
    }
}
