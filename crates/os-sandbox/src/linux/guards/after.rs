//! Work after the end of a process tree, in this order: scan for protected names that appeared,
//! then remove the placeholders of the run.

use super::state::PlaceholderLease;
use super::sweep::PostRunScan;
use crate::findings::Findings;

/// Work after the end of a command. Dropping it without [`Cleanup::run`] removes the placeholders
/// and does nothing else.
pub struct Cleanup {
    sweep: Option<PostRunScan>,
    held: Option<PlaceholderLease>,
    /// Findings from before the start.
    left: Findings,
}

impl Cleanup {
    pub(crate) fn new(
        sweep: Option<PostRunScan>,
        held: Option<PlaceholderLease>,
        left: Findings,
    ) -> Cleanup {
        Cleanup { sweep, held, left }
    }

    /// Scans the mounts and removes the placeholders. Callers wait until no process of the tree is
    /// left.
    #[must_use]
    pub fn run(self) -> Findings {
        let after = self.sweep.map(PostRunScan::run).unwrap_or_default();
        drop(self.held);
        self.left.followed_by(after)
    }
}
