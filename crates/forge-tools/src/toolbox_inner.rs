//! The parts of a toolbox, shared by its clones and its calls.

use std::sync::Arc;
use std::time::Duration;

use file_sandbox::ErrorKind;
use tokio::task::JoinError;

use crate::approval::Approver;
use crate::audit::Recorder;
use crate::call_result::{CallFailure, FailureCode};
use crate::deadline::{Elapsed, within};
use crate::gate::{Gate, GateRequest, Intent, Judgement};
use crate::mount_access::MountAccess;
use crate::path_locks::PathLocks;
use crate::redact::Redactor;
use crate::run_answers::RunAnswers;
use crate::runner::{CallRunner, LOCAL};
use crate::spec::Spec;
use crate::tool::Tool;
use crate::tool_context::ToolContext;
use crate::turn_limits::TurnLimits;

/// The parts of a [`Toolbox`](crate::Toolbox).
pub(crate) struct ToolboxInner {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) context: ToolContext,
    pub(crate) reach: MountAccess,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) recorder: Arc<dyn Recorder>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) runner: Arc<dyn CallRunner>,
    /// Answers "for this run".
    pub(crate) allowed_for_run: Arc<RunAnswers>,
    /// One question at a time.
    pub(crate) asking: Arc<tokio::sync::Mutex<()>>,
    /// How long looking at files, and a call that is neither a command nor a worker, may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) writing: PathLocks,
    pub(crate) turn: TurnLimits,
}

impl ToolboxInner {
    /// The tools that the worker sees.
    pub(crate) fn offered_tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        let offered = |tool: &&Arc<dyn Tool>| self.gate.offers(&tool.spec().name);
        self.tools.iter().filter(offered)
    }

    /// Looks at files for a call, off the threads that serve the others.
    pub(crate) async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallFailure> {
        match within(self.timeout, tokio::task::spawn_blocking(work)).await {
            Ok(found) => joined(found),
            Err(Elapsed) => Err(FailureCode::TimeLimit
                .failure("The files did not answer in time; nothing was done.")),
        }
    }

    pub(crate) fn judge(&self, spec: &Spec, intents: &[Intent]) -> Judgement {
        self.gate.judge(&GateRequest {
            tool: &spec.name,
            risk: spec.risk,
            requires_permission: spec.requires_permission,
            needs_network: spec.needs_network,
            confined: self.confined(),
            intents,
        })
    }

    pub(crate) fn check_capability(&self, intents: &[Intent]) -> Result<(), CallFailure> {
        for intent in intents {
            match intent {
                Intent::Read(path) | Intent::ReadBelow(path) => {
                    match self.context.files()?.resolve(path) {
                        // Whether it may be read is not a matter of ability.
                        Err(error) if error.kind() == ErrorKind::ReadBlocked => {}
                        found => drop(found?),
                    }
                }
                Intent::Write(path) => self.context.files()?.check_write(path)?,
                Intent::Delete(path) => self.context.files()?.check_delete(path)?,
                Intent::CreateDir(path) => self.context.files()?.check_create_dir(path)?,
                Intent::Execute(_) | Intent::Delegate(_) => {}
            }
        }
        Ok(())
    }

    /// Where a call of this tool runs.
    pub(crate) fn place(&self, spec: &Spec) -> &'static str {
        self.runner.place(spec, self.commands())
    }

    /// Returns `true` if the work of this tool is done in this process.
    pub(crate) fn is_local(&self, spec: &Spec) -> bool {
        self.place(spec) == LOCAL
    }

    /// Where commands of this worker run.
    fn commands(&self) -> &'static str {
        let processes = self.context.processes.as_ref();
        processes.map_or("os", crate::Processes::place)
    }

    pub(crate) fn network(&self, spec: &Spec) -> bool {
        let processes = self.context.processes.as_ref();
        spec.needs_network
            || spec.risk == crate::spec::Risk::Exec
                && processes.is_some_and(crate::Processes::has_network)
    }

    pub(crate) fn confined(&self) -> bool {
        self.context
            .processes
            .as_ref()
            .is_none_or(crate::Processes::is_confined)
    }

    /// Returns `true` if the worker sees a tool of this name.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.gate.offers(name) && self.tools.iter().any(|tool| tool.spec().name == name)
    }
}

/// Returns the result of another thread; continues a panic of that thread here.
pub(crate) fn joined<T>(found: Result<T, JoinError>) -> Result<T, CallFailure> {
    found.map_err(|stopped| match stopped.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => CallFailure::cancelled(),
    })
}
