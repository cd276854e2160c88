//! A call that may be made: what a runner is given.

use std::sync::Arc;

use crate::call::judged::ResolvedCall;
use crate::params::Arguments;
use crate::spec::Spec;
use crate::tool::{Invocation, ReplyFuture};
use crate::tool_context::ToolContext;
use crate::toolbox_inner::ToolboxInner;

/// A call that was allowed, with the files and commands that it was judged with. Only the executor
/// makes one.
///
/// See the example of [`CallRunner`](crate::CallRunner).
pub struct ApprovedCall {
    inner: Arc<ToolboxInner>,
    index: usize,
    args: Arc<Arguments>,
    invocation: Arc<dyn Invocation>,
    context: ToolContext,
}

impl ApprovedCall {
    /// `context` has no more files than the call was judged with.
    pub(crate) fn new(inner: &Arc<ToolboxInner>, call: ResolvedCall, context: ToolContext) -> Self {
        ApprovedCall {
            inner: Arc::clone(inner),
            index: call.index,
            args: call.args,
            invocation: call.invocation,
            context,
        }
    }

    /// The description of its tool.
    pub fn spec(&self) -> &Spec {
        self.inner.tool(self.index).spec()
    }

    /// Its arguments, with the values behind placeholders.
    pub fn arguments(&self) -> &Arguments {
        &self.args
    }

    /// Its files and commands.
    pub fn context(&self) -> &ToolContext {
        &self.context
    }

    /// Does its work in this process.
    pub fn run(self) -> ReplyFuture {
        self.invocation.run(self.context)
    }
}
