//! Counts of call results for `--fail-on`, besides the counts of the report.

use std::sync::{Arc, Mutex, PoisonError};

use forge_runtime::{Observer, RunEvent};
use forge_tools::FailureCode;

/// Calls that a person refused, and calls that a rule blocked: `worker: tool`.
#[derive(Debug, Default, Clone)]
pub(super) struct Refusals {
    pub(super) denied: Vec<String>,
    pub(super) blocked: Vec<String>,
}

/// Counts refusals, and passes the events on.
pub(super) struct RefusalCounter {
    next: Arc<dyn Observer>,
    refusals: Arc<Mutex<Refusals>>,
}

/// More are not listed; one is enough to fail.
const MAX_LISTED: usize = 100;

impl RefusalCounter {
    pub(super) fn before(next: Arc<dyn Observer>) -> (Self, Arc<Mutex<Refusals>>) {
        let refusals = Arc::default();
        let tally = RefusalCounter {
            next,
            refusals: Arc::clone(&refusals),
        };
        (tally, refusals)
    }
}

/// Returns the counts so far.
pub(super) fn counted(refusals: &Mutex<Refusals>) -> Refusals {
    refusals
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

impl Observer for RefusalCounter {
    fn observe(&self, event: RunEvent<'_>) {
        if let RunEvent::CallEnded { caller, result } = event {
            let code = result.detail.pointer("/error/code");
            let is = |wanted: FailureCode| code.is_some_and(|code| *code == *wanted.as_str());
            let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let list = if is(FailureCode::Denied) {
                Some(&mut all.denied)
            } else if is(FailureCode::Blocked) {
                Some(&mut all.blocked)
            } else {
                None
            };
            if let Some(list) = list.filter(|list| list.len() < MAX_LISTED) {
                list.push(format!("{caller}: {}", result.tool));
            }
        }
        self.next.observe(event);
    }
}
