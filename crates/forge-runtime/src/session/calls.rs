//! Makes the calls of one turn, and sees to it that each gets exactly one result.

use forge_tools::{Call, CallResult, Code, Risk, Toolbox};

use super::Session;
use crate::model::{Stop, ToolCall, ToolResult};
use crate::report::RunEvent;

/// Calls that only read run side by side, this many at once.
const PARALLEL_READS: usize = 4;

impl Session {
    /// Makes a turn's calls. Runs of calls that only read go side by side; anything
    /// else waits for what came before it. Results keep the order of the calls.
    pub(super) async fn make_calls(
        &self,
        toolbox: &Toolbox,
        calls: Vec<ToolCall>,
        stop: Stop,
    ) -> Vec<ToolResult> {
        toolbox.begin_turn();
        let mut results = Vec::with_capacity(calls.len());
        let mut pending = std::collections::VecDeque::new();
        for call in calls {
            if stop == Stop::OutOfTokens {
                results.push(cut_short(&call));
                continue;
            }
            if !only_reads(toolbox, &call.tool) {
                while let Some(result) = pending.pop_front() {
                    results.push(join(result).await);
                }
                results.push(self.make_call(toolbox.clone(), call).await);
                continue;
            }
            if pending.len() >= PARALLEL_READS
                && let Some(result) = pending.pop_front()
            {
                results.push(join(result).await);
            }
            let (session, toolbox) = (self.clone(), toolbox.clone());
            let (id, tool) = (call.id.clone(), call.tool.clone());
            let task = tokio::spawn(async move { session.make_call(toolbox, call).await });
            pending.push_back((id, tool, task));
        }
        while let Some(result) = pending.pop_front() {
            results.push(join(result).await);
        }
        results
    }

    async fn make_call(&self, toolbox: Toolbox, call: ToolCall) -> ToolResult {
        self.tell(RunEvent::CallStarted {
            caller: toolbox.caller(),
            call: &call,
        });
        let result = toolbox
            .call(Call::new(call.tool.clone(), call.arguments))
            .await;
        if result.code == Some(Code::ApprovalRequired) {
            (self.shared.counts).unanswered(toolbox.caller(), &result.tool);
        }
        let result = to_message(call.id, &result);
        self.tell(RunEvent::CallEnded {
            caller: toolbox.caller(),
            result: &result,
        });
        result
    }
}

fn only_reads(toolbox: &Toolbox, name: &str) -> bool {
    toolbox
        .specs()
        .find(|spec| spec.answers_to(name))
        .is_some_and(|spec| spec.risk == Risk::ReadOnly)
}

type Pending = (String, String, tokio::task::JoinHandle<ToolResult>);

async fn join((id, tool, task): Pending) -> ToolResult {
    match task.await {
        Ok(result) => result,
        Err(_) => failed(id, tool, "The call stopped unexpectedly."),
    }
}

fn cut_short(call: &ToolCall) -> ToolResult {
    failed(
        call.id.clone(),
        call.tool.clone(),
        "Your answer was cut in the middle, so this call was not made. Make it again, shorter.",
    )
}

fn failed(id: String, tool: String, content: &str) -> ToolResult {
    ToolResult {
        id,
        tool,
        content: content.to_owned(),
        is_error: true,
        detail: serde_json::json!({
            "ok": false,
            "content": content,
            "error": {"code": Code::Internal.as_str(), "message": content},
        }),
    }
}

fn to_message(id: String, result: &CallResult) -> ToolResult {
    ToolResult {
        id,
        tool: result.tool.clone(),
        content: result.content.clone(),
        is_error: !result.ok,
        detail: result.to_json(),
    }
}
