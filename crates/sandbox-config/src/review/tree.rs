//! The tree of calls between workers, and the grant of each call. The runtime refuses the invalid
//! ones when they are made; here they are found before anything runs.
//!
//! A worker with `workers: ["*"]` is not unfolded: it names no particular worker, so a call that it
//! cannot make is a warning and not a mistake.

use std::collections::{BTreeMap, BTreeSet};

use crate::grant::Grant;
use crate::grant::escalation::Escalation;
use crate::loading::worker_names::Delegates;
use crate::project::Project;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::worker::Worker;

/// More calls than a person reads; a graph has exponentially many ways through it.
const MAX_BRANCHES: usize = 10_000;

/// One worker, as one caller calls it.
///
/// See [`Review`](crate::Review).
///
/// ```
/// fn depth(branch: &sandbox_config::DelegationNode) -> usize {
///     1 + branch.calls().iter().map(depth).max().unwrap_or(0)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct DelegationNode {
    worker: String,
    standing: CallStatus,
    grant: Grant,
    narrowed: Vec<String>,
    calls_any: bool,
    calls: Vec<DelegationNode>,
}

/// The status of a call of a worker.
///
/// ```
/// use sandbox_config::CallStatus;
/// assert!(CallStatus::Holds.is_called() && !CallStatus::Cycle.is_called());
/// ```
#[derive(Clone, Debug)]
pub enum CallStatus {
    /// It holds the branch's grant.
    Holds,
    /// It holds, and is shown with its own calls elsewhere in the tree.
    AsShown,
    /// It asks for more than its caller holds; the call is refused.
    Refused(Escalation),
    /// No worker has this name.
    Missing,
    /// It is already at work above; the call is refused.
    Cycle,
    /// It would be deeper than the project allows; the call is refused.
    TooDeep,
}

impl CallStatus {
    /// Returns `true` if the call comes about.
    #[must_use]
    pub fn is_called(&self) -> bool {
        matches!(self, CallStatus::Holds | CallStatus::AsShown)
    }
}

impl DelegationNode {
    sandbox_names::getters! {
        /// The worker's name.
        pub worker: &str = &worker;
        /// Returns the status of the call.
        pub standing: &CallStatus = &standing;
        /// Returns its grant; empty, if the call does not come about.
        pub grant: &Grant = &grant;
        /// Returns the rights of its caller (the project, for the first) that it lacks.
        pub narrowed: &[String] = &narrowed;
        /// Returns `true` if it may call every worker (`["*"]`).
        pub calls_any: bool = calls_any;
        /// Returns the workers that it may call by name.
        pub calls: &[DelegationNode] = &calls;
    }
}

struct TreeBuilder<'p, 'f> {
    project: &'p Project,
    workers: BTreeMap<&'p str, &'p Worker>,
    findings: &'f mut Vec<Diagnostic>,
    /// The grants with which each worker has been shown, and how deep.
    shown: BTreeMap<&'p str, Vec<(Grant, u64)>>,
    reached: BTreeSet<&'p str>,
    branches: usize,
}

pub(crate) fn build_tree<'p>(
    project: &'p Project,
    workers: &'p [Worker],
    findings: &mut Vec<Diagnostic>,
) -> Vec<DelegationNode> {
    let mut grower = TreeBuilder::new(project, workers, findings);
    let mut tree = Vec::new();
    if let Some(entry) = grower.workers.get(project.entry()).copied() {
        tree.push(grower.root(entry));
    }
    for worker in workers {
        if !grower.reached.contains(worker.name()) {
            tree.push(grower.root(worker));
        }
    }
    if grower.branches > MAX_BRANCHES {
        let message = format!("more than {MAX_BRANCHES} calls; the rest was not looked at");
        grower
            .findings
            .push(DiagnosticCode::TooComplex.warning(message));
    }
    tree
}

impl Project {
    /// Returns one worker, started by a person, and every worker that it comes to call. `None` if a
    /// worker file contains mistakes, or no worker has this name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # std::fs::write(dir.path().join("workers/main.worker"), "---\nname: main\n---\nGo.\n").unwrap();
    /// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// assert!(project.branch("main").unwrap().calls().is_empty());
    /// assert!(project.branch("nobody").is_none());
    /// ```
    #[must_use]
    pub fn branch(&self, name: &str) -> Option<DelegationNode> {
        let workers = self.workers().ok()?;
        let worker = workers.iter().find(|worker| worker.name() == name)?;
        Some(TreeBuilder::new(self, &workers, &mut Vec::new()).root(worker))
    }
}

impl<'p, 'f> TreeBuilder<'p, 'f> {
    fn new(
        project: &'p Project,
        workers: &'p [Worker],
        findings: &'f mut Vec<Diagnostic>,
    ) -> TreeBuilder<'p, 'f> {
        TreeBuilder {
            project,
            workers: workers
                .iter()
                .map(|worker| (worker.name(), worker))
                .collect(),
            findings,
            shown: BTreeMap::new(),
            reached: BTreeSet::new(),
            branches: 0,
        }
    }

    /// As `forge run` starts a worker.
    fn root(&mut self, worker: &'p Worker) -> DelegationNode {
        self.reached.insert(worker.name());
        let ceiling = self.project.ceiling();
        match self.project.entry_grant(worker) {
            Ok(grant) => self.held(worker, ceiling, grant, &mut Vec::new()),
            // The look at each worker alone has reported it.
            Err(escalation) => branch(worker.name(), CallStatus::Refused(escalation)),
        }
    }

    fn held(
        &mut self,
        worker: &'p Worker,
        caller: &Grant,
        grant: Grant,
        above: &mut Vec<&'p str>,
    ) -> DelegationNode {
        let mut branch = branch(worker.name(), CallStatus::Holds);
        branch.narrowed = caller.excess_over(&grant);
        let depth = u64::try_from(above.len()).unwrap_or(u64::MAX);
        let shown = self.shown.entry(worker.name()).or_default();
        // Shown at least as deep, nothing more can go wrong below.
        if shown
            .iter()
            .any(|(known, at)| *known == grant && *at >= depth)
        {
            branch.standing = CallStatus::AsShown;
            branch.grant = grant;
            return branch;
        }
        shown.push((grant.clone(), depth));
        above.push(worker.name());
        match worker.delegates() {
            Delegates::None => {}
            Delegates::All => {
                branch.calls_any = true;
                self.reach_all(worker, &grant, above);
            }
            Delegates::Listed(names) => {
                let mut once = BTreeSet::new();
                for name in names.iter().filter(|name| once.insert(name.as_str())) {
                    self.branches += 1;
                    if self.branches > MAX_BRANCHES {
                        break;
                    }
                    branch.calls.push(self.call(worker, &grant, name, above));
                }
            }
        }
        above.pop();
        branch.grant = grant;
        branch
    }

    fn call(
        &mut self,
        from: &'p Worker,
        grant: &Grant,
        name: &str,
        above: &mut Vec<&'p str>,
    ) -> DelegationNode {
        let caller = from.name();
        let Some(worker) = self.workers.get(name).copied() else {
            let unknown = format!("'{caller}' may call the unknown worker '{name}'");
            let finding = DiagnosticCode::UnknownWorker
                .error(unknown)
                .help("`forge worker list` shows the workers; `forge worker new` writes one")
                .suggest(name, self.workers.keys().copied());
            self.find(from, name, finding);
            return branch(name, CallStatus::Missing);
        };
        self.reached.insert(worker.name());
        if above.contains(&worker.name()) {
            let circle = format!("{} > {name}", above.join(" > "));
            let message = format!("'{caller}' calls '{name}', which is at work above it");
            let finding = DiagnosticCode::Cycle
                .error(message)
                .note(circle)
                .help("the call is refused when it is made: take the name out of the list");
            self.find(from, name, finding);
            return branch(name, CallStatus::Cycle);
        }
        let deepest = self.project.max_depth();
        if u64::try_from(above.len()).unwrap_or(u64::MAX) >= deepest {
            let message =
                format!("'{caller}' calls '{name}' deeper than this project's limit of {deepest}");
            let finding = DiagnosticCode::TooDeep
                .error(message)
                .note(format!("{} > {name}", above.join(" > ")))
                .help("raise `delegation.max_depth`, or shorten the chain");
            self.find(from, name, finding);
            return branch(name, CallStatus::TooDeep);
        }
        match grant.child(worker.declaration()) {
            Ok(child) => self.held(worker, grant, child, above),
            Err(escalation) => {
                for finding in escalation.diagnostics_list() {
                    let called = format!("'{caller}' may call '{name}', which asks for more");
                    let finding = match from.delegate_origin(name).and_then(|origin| origin.span())
                    {
                        Some(span) => finding.related(span, called),
                        None => finding.note(called),
                    };
                    self.findings.push(finding);
                }
                branch(name, CallStatus::Refused(escalation))
            }
        }
    }

    /// `["*"]`: every worker is reached, and a refusal is a warning for each worker.
    fn reach_all(&mut self, from: &'p Worker, grant: &Grant, above: &[&'p str]) {
        let all: Vec<&'p Worker> = self.workers.values().copied().collect();
        let mut refused = Vec::new();
        for worker in all {
            self.reached.insert(worker.name());
            self.branches += 1;
            if self.branches > MAX_BRANCHES {
                break;
            }
            if !above.contains(&worker.name()) && grant.child(worker.declaration()).is_err() {
                refused.push(worker.name());
            }
        }
        if !refused.is_empty() {
            const SHOWN: usize = 5;
            let names: Vec<&str> = refused.iter().copied().take(SHOWN).collect();
            let more = match refused.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!(
                "'{}' may call everybody, and some ask for more than it holds: {}{more}",
                from.name(),
                names.join(", ")
            );
            self.findings.push(
                DiagnosticCode::ExceedsParent
                    .warning(message)
                    .at_origin(from.origin())
                    .help("such a call is refused when it is made: list the workers that it calls"),
            );
        }
    }

    fn find(&mut self, from: &Worker, name: &str, finding: Diagnostic) {
        let origin = from.delegate_origin(name).unwrap_or(from.origin());
        self.findings.push(finding.at_origin(origin));
    }
}

fn branch(name: &str, standing: CallStatus) -> DelegationNode {
    DelegationNode {
        worker: name.to_owned(),
        standing,
        grant: Grant::empty(),
        narrowed: Vec::new(),
        calls_any: false,
        calls: Vec::new(),
    }
}
