//! Commands of calls whose callers do not wait any more. Such a call is recorded when its command
//! and the work after it have ended, so that the record has the receipt and the quarantined names.

use std::fmt;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::audit::EventKind;
use crate::call_result::ExecutionInfo;
use crate::call_result::{CallFailure, Reply};

/// Bound on the stored names.
const MAX_QUARANTINED: usize = 1_000;

static UNENDED: Mutex<(usize, Vec<String>)> = Mutex::new((0, Vec::new()));
static ENDED: Condvar = Condvar::new();

fn unended() -> MutexGuard<'static, (usize, Vec<String>)> {
    UNENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commands of calls that were given up, as [`settle_calls`] found them.
///
/// ```
/// let settled = forge_tools::settle_calls(std::time::Duration::ZERO);
/// assert!(settled.quarantined.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledCalls {
    /// The quarantined names, by the paths that the commands saw. No result has them.
    pub quarantined: Vec<String>,
    /// How many commands have not ended.
    pub unended: usize,
}

/// Waits, at most for this time, until every call whose command was started is recorded. For
/// programs that have dropped their calls and are about to end: the work after a command ends with
/// them.
#[must_use]
pub fn settle_calls(within: Duration) -> SettledCalls {
    let until = Instant::now() + within;
    let mut now = unended();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if now.0 == 0 || left.is_zero() {
            return SettledCalls {
                quarantined: std::mem::take(&mut now.1),
                unended: now.0,
            };
        }
        let waited = ENDED.wait_timeout(now, left);
        now = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The progress of a call's command.
#[derive(Debug, Default)]
pub(crate) enum CommandProgress {
    /// It was not started, or said nothing at its end.
    #[default]
    None,
    Running,
    /// It runs, and the caller does not wait any more.
    Left,
    Ended(Box<ExecutionInfo>),
}

/// A call, as its command knows it.
pub(crate) trait CommandCall: fmt::Debug + Send + Sync {
    fn started(&self);

    /// Returns `true` if nobody waits for the command.
    fn is_left(&self) -> bool;

    /// Records the call if nobody waits for it. Returns whether that is so.
    fn ended(&self, progress: CommandProgress) -> bool;
}

/// The command of a call, from before its start until its end. The call is recorded then if its
/// caller has gone.
pub(crate) struct CallCommand {
    call: Option<Arc<dyn CommandCall>>,
    ended: Option<Box<ExecutionInfo>>,
}

impl CallCommand {
    pub(crate) fn begin(call: Option<Arc<dyn CommandCall>>) -> Self {
        unended().0 += 1;
        if let Some(call) = &call {
            call.started();
        }
        CallCommand { call, ended: None }
    }

    /// Returns `true` if nobody waits for the command.
    pub(crate) fn is_left(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_left())
    }

    /// Keeps the facts for the record.
    pub(crate) fn ended(mut self, outcome: &Result<Reply, CallFailure>) {
        self.ended = match outcome {
            Ok(reply) => Some(Box::new(reply.ran.clone())),
            Err(failure) => failure.ran.clone(),
        };
    }
}

impl Drop for CallCommand {
    fn drop(&mut self) {
        let taken = self.ended.iter().flat_map(|ran| &ran.events);
        let taken = taken.filter(|event| event.event == EventKind::Quarantined);
        let taken: Vec<String> = taken.map(|event| event.detail.clone()).collect();
        let ended = self.ended.take();
        let progress = ended.map_or(CommandProgress::None, CommandProgress::Ended);
        let call = self.call.as_ref();
        let is_left = call.is_some_and(|call| call.ended(progress));
        let mut unended = unended();
        unended.0 -= 1;
        if is_left {
            let room = MAX_QUARANTINED.saturating_sub(unended.1.len());
            unended.1.extend(taken.into_iter().take(room));
        }
        ENDED.notify_all();
    }
}
