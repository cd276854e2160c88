//! What is to be done once a tree has ended, in this order: look for names that appeared, then
//! take our own placeholders away.

use super::state::PlaceholderLease;
use super::sweep::PostRunScan;
use crate::findings::Findings;

/// The work after the end of a command. Dropping it without [`Cleanup::run`] takes the placeholders away, and nothing else.
pub struct Cleanup {
    sweep: Option<PostRunScan>,
    held: Option<PlaceholderLease>,
}

impl Cleanup {
    pub(crate) fn new(sweep: Option<PostRunScan>, held: Option<PlaceholderLease>) -> Cleanup {
        Cleanup { sweep, held }
    }

    /// Does it. Only once nothing of the tree is left.
    #[must_use]
    pub fn run(self) -> Findings {
        let findings = self.sweep.map(PostRunScan::run).unwrap_or_default();
        drop(self.held);
        findings
    }
}
