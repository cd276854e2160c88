//! Limits on the total of all tool calls in one model turn.

use std::sync::{Mutex, PoisonError};

use crate::call_result::{CallFailure, FailureCode};

/// Limits on one turn, and their use since it began.
#[derive(Debug, Default)]
pub(crate) struct TurnLimits {
    pub(crate) max_calls: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    used: Mutex<TurnUsage>,
}

#[derive(Debug, Default)]
struct TurnUsage {
    /// The limit of this turn alone.
    max_calls: Option<u64>,
    calls: u64,
    bytes: u64,
}

impl TurnLimits {
    /// A new turn begins.
    pub(crate) fn begin(&self) {
        *self.used() = TurnUsage::default();
    }

    /// Starts a turn with its own limit on calls.
    pub(crate) fn begin_with(&self, max_calls: u64) {
        *self.used() = TurnUsage {
            max_calls: Some(max_calls),
            ..TurnUsage::default()
        };
    }

    /// Most calls of this turn.
    pub(crate) fn max_calls(&self) -> Option<u64> {
        self.used().most(self.max_calls)
    }

    /// Counts one more call.
    pub(crate) fn count_call(&self) -> Result<(), CallFailure> {
        let mut used = self.used();
        used.calls = used.calls.saturating_add(1);
        let over = match (used.most(self.max_calls), self.max_bytes) {
            (Some(most), _) if used.calls > most => format!("at most {most} calls"),
            (_, Some(most)) if used.bytes >= most => format!("at most {most} bytes of results"),
            (None | Some(_), None | Some(_)) => return Ok(()),
        };
        Err(CallFailure::new(
            FailureCode::Limit,
            format!("This call was not made: one turn may have {over}."),
        )
        .hint("Go on with it in the next turn."))
    }

    /// Counts the bytes of a result.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        let mut used = self.used();
        used.bytes = used
            .bytes
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn used(&self) -> std::sync::MutexGuard<'_, TurnUsage> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnUsage {
    fn most(&self, of_all: Option<u64>) -> Option<u64> {
        match (self.max_calls, of_all) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
