//! Facts about one command that its mechanism learns after planning: at the start, and after the end.

use crate::error::{Error, ErrorKind};
use crate::plan::Plan;
use crate::promise::Promise;
use crate::quarantine::Quarantined;

/// What a backend learnt only at the start: a promise that is kept in part, and why.
#[derive(Debug, Default)]
pub(crate) struct Notes(
    pub(crate) Vec<(Promise, String)>,
    /// Remarks that weaken nothing.
    pub(crate) Vec<(Promise, String)>,
);

/// What a backend learnt after the end.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) quarantined: Vec<Quarantined>,
    pub(crate) not_copied: Vec<String>,
    pub(crate) notes: Notes,
    /// Attempts to reach other hosts.
    pub(crate) unreachable: u64,
    /// Why what ran cannot be vouched for.
    pub(crate) failed: Option<String>,
}

impl Findings {
    /// Not everything was looked at: the command fails, and the receipt says so.
    pub(crate) fn fail(&mut self, reason: &str) {
        let reason = crate::escape::visible(reason);
        let note = format!("not looked for everywhere after the end: {reason}");
        self.notes.0.push((Promise::ProtectedNames, note));
        self.failed.get_or_insert(reason);
    }

    /// The error that takes the place of the command's result.
    pub(crate) fn failure(&self, plan: &Plan) -> Option<Error> {
        let Some(reason) = self.failed.as_ref() else {
            return plan.insists(&self.notes.0, true);
        };
        let text = format!(
            "the command ended, and protected names that it made could not be looked for: {reason}"
        );
        Some(Error::new(ErrorKind::Unguarded, text).with_hint(
            "look at what the command left; what it changed is still there, and the next command \
             is refused until everything can be looked at",
        ))
    }

    /// Each reason once; what a command can make many of is listed in the first few.
    pub(crate) fn note(&mut self, promise: Promise, reason: &str) {
        const MAX: usize = 8;
        let reason = crate::escape::visible(reason);
        let known = self.notes.0.iter().any(|(_, known)| *known == reason);
        if self.notes.0.len() < MAX && !known {
            self.notes.0.push((promise, reason));
        }
    }
}
