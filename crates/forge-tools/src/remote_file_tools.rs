//! Calls of file tools that one process judges and another one runs: the facts that go there with a
//! call, and the tools at the other side.

use file_sandbox::{CancellationToken, FileSandbox};
use serde_json::Value;

use crate::call_result::{CallFailure, FailureCode, Reply};
use crate::tool::Tool;
use crate::tool_context::{ContextSnapshot, ToolContext};
use crate::tools::file_tools;

/// The file tools of a process that runs the calls which another process has judged.
///
/// It decides about nothing: its files are the limit of every call. It runs these tools only, so
/// that no other tool gets a [`ToolContext`] that no executor made.
pub struct RemoteFileTools {
    tools: Vec<Box<dyn Tool>>,
    context: ToolContext,
}

impl RemoteFileTools {
    /// The tools over these files; `max_write_bytes` is the most that one call may write.
    pub fn new(files: FileSandbox, max_write_bytes: Option<u64>) -> RemoteFileTools {
        let mut context = ToolContext::default();
        // Of the secrets with a known shape only: a value does not leave the process that judges.
        context.files = Some(files.with_mask(context.redactor.mask()));
        context.max_write_bytes = max_write_bytes;
        RemoteFileTools {
            tools: file_tools(),
            context,
        }
    }

    /// Returns the names of the tools.
    pub fn names() -> Vec<String> {
        let tools = file_tools();
        tools.iter().map(|tool| tool.spec().name.clone()).collect()
    }

    /// Runs a call as it was judged. Its work, on files too, ends when `cancel` is set.
    ///
    /// # Errors
    ///
    /// The failure of the tool, in words for the model; or the tool or its arguments are unknown,
    /// which is a mistake of the process that judged it.
    pub async fn run(
        &self,
        tool: &str,
        arguments: &Value,
        snapshot: ContextSnapshot,
        cancel: CancellationToken,
    ) -> Result<Reply, CallFailure> {
        let internal = |why| FailureCode::Internal.failure(why);
        let mut tools = self.tools.iter();
        let tool = tools.find(|own| own.spec().name == tool);
        let tool = tool.ok_or_else(|| internal("This place has no such tool."))?;
        let args = tool.spec().params.parse(arguments);
        let args = args.map_err(|_| internal("Arguments that were not checked."))?;
        let invocation = tool.prepare(&args)?;
        let context = self.context.restore(snapshot, cancel);
        invocation.run(context).await
    }
}
