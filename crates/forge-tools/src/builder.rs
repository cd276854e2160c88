//! Builds a toolbox from its parts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use file_sandbox::FileSandbox;

use crate::approval::{Approver, NoApprover};
use crate::audit::{NoRecord, Recorder};
use crate::call_result::Caller;
use crate::gate::{Gate, SafeDefaults};
use crate::mount_access::MountAccess;
use crate::output_store::OutputStore;
use crate::path_locks::PathLocks;
use crate::redact::Redactor;
use crate::run_answers::RunAnswers;
use crate::runner::{CallRunner, LocalRunner};
use crate::tool::Tool;
use crate::tool_context::ToolContext;
use crate::toolbox::Toolbox;
use crate::toolbox_inner::ToolboxInner;
use crate::tools;
use crate::turn_limits::TurnLimits;

/// Puts a [`Toolbox`] together.
///
/// ```
/// use forge_tools::{AutoApprove, Toolbox};
/// let toolbox = Toolbox::builder().approver(AutoApprove::confined()).build().unwrap();
/// # let _ = toolbox;
/// ```
#[derive(Default)]
pub struct ToolboxBuilder {
    context: ToolContext,
    gate: Option<Arc<dyn Gate>>,
    approver: Option<Arc<dyn Approver>>,
    recorder: Option<Arc<dyn Recorder>>,
    redactor: Option<Arc<Redactor>>,
    runner: Option<Arc<dyn CallRunner>>,
    timeout: Option<Duration>,
    answers: Arc<RunAnswers>,
    extra: Vec<Box<dyn Tool>>,
}

impl Toolbox {
    /// A toolbox with nothing in it yet.
    pub fn builder() -> ToolboxBuilder {
        ToolboxBuilder::default()
    }
}

impl ToolboxBuilder {
    sandbox_names::setters! {
        /// Gives the worker files, and with them the file tools.
        files(files: FileSandbox) => context.files = Some(files);
        /// Gives the worker a way to run commands, and with it the `shell` tool.
        processes(processes: crate::Processes) => context.processes = Some(processes);
        /// Most bytes that one call may write to a file; without it, only the mounts' own
        /// limits hold.
        max_write_bytes(bytes: u64) => context.max_write_bytes = Some(bytes);
        /// Limits the characters of one result; a longer one keeps its beginning and its end, and
        /// `read_output` reads the rest.
        max_result_chars(chars: usize) => context.outputs = Arc::new(OutputStore::new(chars));
        /// Limits the time of a call that is neither a command nor a worker (they have limits of their
        /// own), so that a file system that does not answer cannot block its caller. Without a limit by
        /// default.
        timeout(limit: Duration) = Some(limit);
        /// Sets the worker on whose behalf calls are made.
        caller(caller: Caller) => context.caller = caller;
        /// Sets the gate; [`SafeDefaults`] by default.
        gate(gate: impl Gate) = Some(Arc::new(gate));
    }

    /// Sets the approver; by default every question is refused.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.shared_approver(Arc::new(approver))
    }

    /// Sets an approver that is shared with other toolboxes of the run.
    pub fn shared_approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets the recorder; by default nothing is recorded.
    pub fn recorder(self, recorder: impl Recorder) -> Self {
        self.shared_recorder(Arc::new(recorder))
    }

    sandbox_names::setters! {
        /// Sets a recorder that is shared with other toolboxes of the run.
        shared_recorder(recorder: Arc<dyn Recorder>) => recorder = Some(recorder);
        /// Sets the answers that count for the rest of the run; by default they count as long as the
        /// toolbox.
        shared_answers(answers: Arc<RunAnswers>) => answers = answers;
        /// Sets the redactor of results and records, shared with other toolboxes of the run; by default
        /// one that knows the shapes of keys.
        shared_redactor(redactor: Arc<Redactor>) => redactor = Some(redactor);
        /// Sets the runner of calls; [`LocalRunner`] by default.
        runner(runner: impl CallRunner) = Some(Arc::new(runner));
    }

    /// Adds a tool of the caller's own, after the built-in ones.
    pub fn tool(self, tool: impl Tool) -> Self {
        self.boxed_tool(Box::new(tool))
    }

    /// As [`tool`](Self::tool), for one that is boxed already.
    pub fn boxed_tool(mut self, tool: Box<dyn Tool>) -> Self {
        self.extra.push(tool);
        self
    }

    /// The finished toolbox.
    ///
    /// # Errors
    ///
    /// Two tools answer to one name.
    pub fn build(self) -> Result<Toolbox, ToolboxError> {
        let mut all: Vec<Box<dyn Tool>> = Vec::new();
        if self.context.files.is_some() {
            all.extend(tools::file_tools());
        }
        // Only with something that could have a long result.
        let runs = self.context.processes.is_some();
        if self.context.files.is_some() || runs || !self.extra.is_empty() {
            all.push(tools::read_output());
        }
        if runs {
            let processes = self.context.processes.as_ref();
            let longest = processes.map_or(crate::processes::MAX_TIMEOUT, |processes| {
                processes.longest_timeout()
            });
            let in_session = processes.and_then(crate::Processes::current_session);
            let shell = tools::shell::tool(longest.as_secs(), in_session.is_some());
            all.push(shell);
        }
        all.extend(self.extra);
        check_names(&all)?;
        let gate = self.gate.unwrap_or_else(|| Arc::new(SafeDefaults));
        let mut context = self.context;
        let redactor = self.redactor.unwrap_or_default();
        let files = context
            .files
            .take()
            .map(|files| files.with_mask(redactor.mask()));
        let reach = MountAccess::new(&*gate, files);
        context.may_read(&reach, &[]);
        Ok(Toolbox {
            inner: Arc::new(ToolboxInner {
                tools: all.into_iter().map(Arc::from).collect(),
                context,
                reach,
                gate,
                approver: self
                    .approver
                    .unwrap_or_else(|| Arc::new(NoApprover::because("this program asks nobody"))),
                recorder: self.recorder.unwrap_or_else(|| Arc::new(NoRecord)),
                redactor,
                runner: self.runner.unwrap_or_else(|| Arc::new(LocalRunner)),
                allowed_for_run: self.answers,
                asking: Arc::default(),
                timeout: self.timeout,
                writing: PathLocks::default(),
                turn: TurnLimits::default(),
            }),
        })
    }
}

fn check_names(all: &[Box<dyn Tool>]) -> Result<(), ToolboxError> {
    let mut names = HashSet::new();
    for tool in all {
        let spec = tool.spec();
        let spellings = std::iter::once(spec.name.as_str()).chain(spec.aliases.iter().copied());
        for name in spellings {
            if !names.insert(name.to_owned()) {
                return Err(ToolboxError {
                    name: name.to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// Two tools answer to one name.
///
/// ```
/// fn name(error: &forge_tools::ToolboxError) -> String {
///     error.to_string()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two tools answer to the name `{name}`")]
pub struct ToolboxError {
    name: String,
}
