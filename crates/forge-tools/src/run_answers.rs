//! The approvals that count for the rest of a run.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The approvals that count for the rest of a run. The owner of the run keeps them and gives them
/// to every toolbox of the run, so that an answer for a worker counts when it is called again.
///
/// ```
/// use std::sync::Arc;
/// use forge_tools::{RunAnswers, Toolbox};
/// let answers = Arc::new(RunAnswers::default());
/// let first = Toolbox::builder().shared_answers(Arc::clone(&answers)).build().unwrap();
/// let second = Toolbox::builder().shared_answers(answers).build().unwrap();
/// assert_eq!(first.caller(), second.caller());
/// ```
#[derive(Debug, Default)]
pub struct RunAnswers(Mutex<HashSet<ApprovalKey>>);

impl RunAnswers {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<ApprovalKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum ApprovalKey {
    /// A call, by worker, tool and canonical arguments, with all that was shown of it.
    Shown(String, String),
    /// That call where it changes nothing, because the files already have the content that it would
    /// write.
    Done(String),
    /// Connections of a worker's commands to a host and port.
    Host(String, String),
}
