//! The limit on the calls of one turn of a model.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call_result::{CallFailure, FailureCode};

/// The calls of the turn that runs.
#[derive(Debug, Default)]
pub(crate) struct TurnLimits(Mutex<TurnCalls>);

#[derive(Debug, Default)]
struct TurnCalls {
    max: Option<u64>,
    made: u64,
}

impl TurnLimits {
    /// Starts a turn with this limit.
    pub(crate) fn begin(&self, max_calls: u64) {
        *self.calls() = TurnCalls {
            max: Some(max_calls),
            made: 0,
        };
    }

    /// Most calls of this turn.
    pub(crate) fn max_calls(&self) -> Option<u64> {
        self.calls().max
    }

    /// Counts one more call.
    pub(crate) fn count_call(&self) -> Result<(), CallFailure> {
        let mut calls = self.calls();
        calls.made = calls.made.saturating_add(1);
        match calls.max {
            Some(most) if calls.made > most => Err(FailureCode::Limit
                .failure(format!(
                    "This call was not made: one turn may have at most {most} calls."
                ))
                .hint("Go on with it in the next turn.")),
            Some(_) | None => Ok(()),
        }
    }

    fn calls(&self) -> MutexGuard<'_, TurnCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
