//! The state that all workers of a run share: models, people, records, and counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forge_tools::{Approver, Caller, NoApprover, NoRecord, Recorder, Redactor, RunAnswers};
use sandbox_config::{MountOpener, Worker};
use serde_json::Value;
use tokio::sync::watch;

use super::Conversation;
use crate::confinement::OsSandbox;
use crate::equip::Isolation;
use crate::model::{Model, ModelError, Usage};
use crate::report::{NoObserver, Observer, RunEvent, RunOutcome, RunReport};

pub(super) struct SessionState {
    pub(super) model: Arc<dyn Model>,
    pub(super) models: Option<BTreeMap<String, Arc<dyn Model>>>,
    pub(super) workers: BTreeMap<String, Worker>,
    /// For the entry worker of this run.
    pub(super) output_schema: Option<Value>,
    pub(super) max_depth: u64,
    pub(super) max_children: u64,
    pub(super) isolation: Isolation,
    /// Opener of the mounted directories; `None` if they are on the host.
    pub(super) open: Option<Arc<MountOpener>>,
    pub(super) approver: Arc<dyn Approver>,
    /// One question at a time.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// Approvals until the run ends, for any worker.
    pub(super) answers: Arc<RunAnswers>,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) counts: RunCounters,
    warned: Mutex<Vec<String>>,
    stop: watch::Sender<bool>,
}

impl SessionState {
    pub(super) fn new(model: Arc<dyn Model>) -> SessionState {
        SessionState {
            model,
            models: None,
            workers: BTreeMap::new(),
            output_schema: None,
            max_depth: 5,
            max_children: 16,
            isolation: Isolation::from(OsSandbox::Off),
            open: None,
            approver: Arc::new(NoApprover::because("this program asks nobody")),
            answers: Arc::default(),
            asking: Arc::default(),
            recorder: Arc::new(NoRecord),
            redactor: Arc::default(),
            observer: Arc::new(NoObserver),
            counts: RunCounters::default(),
            warned: Mutex::new(Vec::new()),
            stop: watch::Sender::new(false),
        }
    }

    /// The worker's own model if it names one that can be had here, else the session's.
    pub(super) fn model_of(&self, worker: &Worker) -> Result<Arc<dyn Model>, ModelError> {
        match (worker.model(), &self.models) {
            (Some(name), Some(models)) => {
                (models.get(name).cloned()).ok_or_else(|| ModelError::Rejected {
                    status: None,
                    message: format!("the model `{name}` was not known when the run began"),
                })
            }
            (Some(_) | None, _) => Ok(Arc::clone(&self.model)),
        }
    }

    pub(super) fn cancel(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns when the run is cancelled.
    pub(super) async fn cancelled(&self) {
        let mut stop = self.stop.subscribe();
        let _stopped = stop.wait_for(|stop| *stop).await;
    }

    pub(super) fn tell(&self, event: RunEvent<'_>) {
        self.observer.observe(event);
    }

    pub(super) fn warn_once(&self, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if !warned.iter().any(|known| known == text) {
            warned.push(text.to_owned());
            self.tell(RunEvent::Warning { text });
        }
    }

    pub(super) fn report(&self, end: RunOutcome) -> RunReport {
        let counts = &self.counts;
        RunReport {
            end,
            turns: counts.turns.load(Ordering::Relaxed),
            calls: counts.calls.load(Ordering::Relaxed),
            tokens: counts.tokens.load(Ordering::Relaxed),
            cost_nano_usd: counts.cost.load(Ordering::Relaxed),
            unanswered: counts
                .unanswered
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }
}

/// Usage of the whole tree, for its report.
#[derive(Default)]
pub(super) struct RunCounters {
    worker_runs: AtomicU64,
    turns: AtomicU64,
    calls: AtomicU64,
    tokens: AtomicU64,
    cost: AtomicU64,
    unanswered: Mutex<Vec<String>>,
}

impl RunCounters {
    /// Adds the usage of an earlier run.
    pub(super) fn start_from(&self, earlier: &Conversation) {
        let used = earlier.used();
        // The entry worker is the first one, also when it is resumed.
        let worker_runs = earlier.worker_runs().max(1);
        self.worker_runs.store(worker_runs, Ordering::Relaxed);
        self.turns.fetch_add(used.turns, Ordering::Relaxed);
        self.calls.fetch_add(used.calls, Ordering::Relaxed);
        self.spend(used.usage, used.cost_nano_usd);
    }

    /// A number for another run of a called worker; the entry worker's is 1.
    pub(super) fn worker_run(&self) -> u64 {
        let before = self.worker_runs.fetch_add(1, Ordering::Relaxed);
        before.saturating_add(1)
    }

    pub(super) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn calls(&self, more: u64) {
        self.calls.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn spend(&self, usage: Usage, nano_usd: u64) {
        self.cost.fetch_add(nano_usd, Ordering::Relaxed);
        self.tokens.fetch_add(usage.total(), Ordering::Relaxed);
    }

    /// Records a call whose approval got no answer.
    pub(super) fn unanswered(&self, caller: &Caller, tool: &str) {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(format!("{caller}: {tool}"));
    }
}
