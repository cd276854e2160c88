//! The third step of a call: it may be made. A runner is given this.

use std::sync::Arc;

use crate::approval::Approver;
use crate::gate::Intent;
use crate::params::Arguments;
use crate::shell_session::ShellState;
use crate::spec::Spec;
use crate::tool::{Invocation, ReplyFuture, Tool};
use crate::tool_context::ToolContext;
use crate::toolbox_inner::ToolboxInner;

/// A call that was allowed, with the files and commands that it was judged with. Only the executor
/// makes one, from a judged call.
///
/// See the example of [`CallRunner`](crate::CallRunner).
pub struct ApprovedCall {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) args: Arc<Arguments>,
    pub(super) invocation: Arc<dyn Invocation>,
    pub(super) intents: Arc<[Intent]>,
    pub(super) context: ToolContext,
    #[cfg_attr(not(feature = "process"), expect(dead_code, reason = "for commands"))]
    pub(super) inner: Arc<ToolboxInner>,
    /// The arguments as the model wrote them.
    #[cfg_attr(not(feature = "process"), expect(dead_code, reason = "for commands"))]
    pub(super) asked: Arc<Arguments>,
}

impl ApprovedCall {
    /// The description of its tool.
    pub fn spec(&self) -> &Spec {
        self.tool.spec()
    }

    /// Its arguments, with the values behind placeholders.
    pub fn arguments(&self) -> &Arguments {
        &self.args
    }

    /// Its files and commands.
    pub fn context(&self) -> &ToolContext {
        &self.context
    }

    /// Lets the command of the call ask this approver about hosts, if a person can answer now.
    #[cfg(feature = "process")]
    pub(super) fn asking(mut self, approver: &Arc<dyn Approver>) -> Self {
        use crate::host_questions::HostQuestions;
        use crate::question_clock::AskingCommand;

        let inner = &self.inner;
        let processes = self.context.processes.as_ref();
        let Some(processes) = processes.filter(|one| one.names_hosts()) else {
            return self;
        };
        let is_command = self.intents.iter().any(super::judged::is_execution);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return self;
        };
        if !is_command || !approver.is_attended() {
            return self;
        }
        let spec = self.tool.spec();
        let recorder = Arc::clone(&inner.recorder);
        let questions = HostQuestions::new(&spec.name, "", Arc::clone(approver), recorder)
            .of_worker(
                inner.context.caller.clone(),
                Arc::clone(&inner.redactor),
                Arc::clone(&inner.allowed_for_run),
                Arc::clone(&inner.asking),
            )
            .of_call(self.asked.to_json(), inner.place(spec));
        self.context.host_questions = Some(AskingCommand {
            asker: questions.asker(processes.askable(), &runtime),
            clock: Arc::clone(questions.clock()),
        });
        self
    }

    #[cfg(not(feature = "process"))]
    pub(super) fn asking(self, _: &Arc<dyn Approver>) -> Self {
        self
    }

    /// Does its work in this process.
    pub fn run(self) -> ReplyFuture {
        self.invocation.run(self.context)
    }
}

/// Returns the session in whose directory the command of a call begins.
pub(super) fn session(intents: &[Intent]) -> Option<Arc<ShellState>> {
    intents.iter().find_map(|intent| match intent {
        Intent::Execute(line) => line.session().cloned(),
        Intent::Read(_)
        | Intent::ReadBelow(_)
        | Intent::Write(_)
        | Intent::Delete(_)
        | Intent::CreateDir(_)
        | Intent::Delegate(_) => None,
    })
}
