//! The third step of a call: it may be made. A runner is given this.

use std::sync::Arc;

use crate::gate::Intent;
use crate::params::Arguments;
use crate::shell_session::ShellState;
use crate::spec::Spec;
use crate::tool::{Invocation, ReplyFuture, Tool};
use crate::tool_context::ToolContext;

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
}

impl ApprovedCall {
    sandbox_names::getters! {
        /// The description of its tool.
        pub spec: &Spec = tool.spec();
        /// Its arguments, with the values behind placeholders.
        pub arguments: &Arguments = &args;
        /// Its files and commands.
        pub context: &ToolContext = &context;
    }

    /// Does its work in this process.
    pub fn run(self) -> ReplyFuture {
        self.invocation.run(self.context)
    }
}

/// Returns the session in whose directory the command of a call begins.
pub(super) fn session(intents: &[Intent]) -> Option<Arc<ShellState>> {
    let mut lines = intents.iter().filter_map(Intent::command_line);
    lines.find_map(|line| line.session().cloned())
}
