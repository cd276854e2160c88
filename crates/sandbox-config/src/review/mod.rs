//! The findings of `forge check` in a project that loads: every worker file's mistakes, calls that
//! cannot work, missing directories, and warnings. Reads the loaded project and looks for its
//! directories; changes nothing.

pub(crate) mod lints;
mod models;
mod needs;
pub(crate) mod tree;

use crate::grant::Grant;
use crate::grant::escalation::Escalation;
use crate::project::Project;
use crate::review::tree::DelegationNode;
use crate::syntax::diagnostic::Diagnostic;
use crate::worker::Worker;

/// A project, looked through.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # std::fs::write(dir.path().join("workers/main.worker"),
/// #     "---\nname: main\nworkers: [fmt]\n---\nGo.\n").unwrap();
/// # std::fs::write(dir.path().join("workers/fmt.worker"),
/// #     "---\nname: fmt\nsandbox: {zones: [{name: cache, mode: ro}]}\n---\nGo.\n").unwrap();
/// use sandbox_config::{load, Sources, CallStatus};
/// let review = load(&Sources::new(dir.path())).unwrap().review();
/// let main = &review.tree()[0];
/// let fmt = &main.calls()[0];
/// assert!(matches!(fmt.standing(), CallStatus::Holds));
/// assert_eq!(fmt.narrowed(), ["cache rw → ro", "no workspace"]);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Review {
    findings: Vec<Diagnostic>,
    readable: bool,
    workers: Vec<Worker>,
    tree: Vec<DelegationNode>,
}

impl Review {
    sandbox_names::getters! {
        /// Mistakes and warnings, by file and place.
        pub findings: &[Diagnostic] = &findings;
        /// `false` if a worker file contains mistakes, so that it has no workers and no tree.
        pub is_readable: bool = readable;
        /// Every worker, by name.
        pub workers: &[Worker] = &workers;
        /// Returns the delegation tree: the entry worker first, then the workers that it does not
        /// reach.
        pub tree: &[DelegationNode] = &tree;
    }
}

impl Project {
    /// Look through the project and all its workers.
    pub fn review(&self) -> Review {
        let mut findings = self.warnings().to_vec();
        lints::rules(self.ceiling(), &mut findings);
        lints::container_network(self.ceiling(), &mut findings);
        models::project(self, &mut findings);
        needs::directories(self, self.ceiling(), &mut findings);
        let (readable, workers, tree) = match self.workers() {
            Err(mistakes) => {
                findings.extend(mistakes.into_list());
                (false, Vec::new(), Vec::new())
            }
            Ok(workers) => {
                let tree = self.review_workers(&workers, &mut findings);
                (true, workers, tree)
            }
        };
        in_order(&mut findings);
        Review {
            findings,
            readable,
            workers,
            tree,
        }
    }

    /// The rights of a worker that the project calls, or starts if it is the entry.
    fn held(&self, worker: &Worker) -> Result<Grant, Escalation> {
        match worker.name() == self.entry() {
            true => self.entry_grant(worker),
            false => worker.ceiling(self.ceiling()).child(worker.declaration()),
        }
    }

    fn review_workers(
        &self,
        workers: &[Worker],
        findings: &mut Vec<Diagnostic>,
    ) -> Vec<DelegationNode> {
        for worker in workers {
            findings.extend_from_slice(worker.warnings());
            if let Err(escalation) = self.held(worker) {
                findings.extend(escalation.diagnostics_list());
            }
            needs::worker(self, worker, findings);
            lints::worker_rules(worker, findings);
            models::worker(self, worker, findings);
        }
        lints::entry(self, workers, findings);
        let tree = tree::build_tree(self, workers, findings);
        lints::workers(self, workers, findings);
        // A refused worker uses nothing, and that is not its mistake.
        if !findings.iter().any(Diagnostic::is_error) {
            lints::unused_mounts(self.ceiling(), &tree, findings);
        }
        tree
    }

    /// Returns the findings of `forge check` beside a successful load: [`Review::findings`].
    #[must_use]
    pub fn check(&self) -> Vec<Diagnostic> {
        self.review().findings
    }
}

/// Sorts by file and place; one mistake that is found in two ways counts once.
fn in_order(findings: &mut Vec<Diagnostic>) {
    let key = |one: &Diagnostic| {
        let (file, message) = (one.file().map(str::to_owned), one.message().to_owned());
        (file, one.line(), one.column(), one.code(), message)
    };
    findings.sort_by_cached_key(key);
    findings.dedup_by_key(|one| key(one));
}
