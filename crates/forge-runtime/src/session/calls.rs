//! Makes the calls of one turn, and sees to it that each gets exactly one result.
//!
//! All questions about the calls are asked before the first call is made. Then read-only calls run
//! side by side, and so do consecutive calls of workers; any other call waits for the calls before
//! it. Results are in the order of the calls.

use std::panic::AssertUnwindSafe;

use forge_tools::{CallRequest, CallResult, FailureCode, PreparedCall, Risk, Toolbox};
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::Session;
use super::active_conversation::{ActiveConversation, FinishedResults, failed};
use crate::model::{Message, ToolCall, ToolResult};
use crate::report::RunEvent;

/// Most calls of one turn that are made; the rest is refused, one by one.
const MAX_CALLS_PER_TURN: u64 = 2_000;
/// Calls that only read run side by side, this many at once.
const PARALLEL_READS: usize = 4;
/// Called workers run side by side, this many at once of one caller.
const PARALLEL_WORKERS: usize = 8;

/// The calls that may run at once with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concurrency {
    /// Others that only read.
    Reads,
    /// Other workers.
    Workers,
    /// Nothing.
    Alone,
}

impl Concurrency {
    fn at_once(self) -> usize {
        match self {
            Concurrency::Reads => PARALLEL_READS,
            Concurrency::Workers => PARALLEL_WORKERS,
            Concurrency::Alone => 1,
        }
    }
}

impl Session {
    /// Makes a turn's calls; `heard` may extend a result before the model gets it.
    pub(super) async fn make_calls(
        &self,
        toolbox: &Toolbox,
        running: &mut ActiveConversation,
        calls: Vec<ToolCall>,
        mut heard: impl FnMut(&ToolCall, &mut ToolResult),
    ) {
        toolbox.begin_turn_of(MAX_CALLS_PER_TURN);
        let wanted = calls
            .iter()
            .map(|call| CallRequest::new(call.tool.clone(), call.arguments.clone()))
            .collect();
        let prepared = toolbox.prepare(wanted).await;
        let mut rest = calls.into_iter().zip(prepared).peekable();
        while let Some((first, _)) = rest.peek() {
            let company = self.company(toolbox, &first.tool);
            let mut group = Vec::new();
            while let Some(next) =
                rest.next_if(|(call, _)| self.company(toolbox, &call.tool) == company)
            {
                group.push(next);
            }
            let done = running.done();
            let making = group
                .into_iter()
                .map(|(call, prepared)| self.make_call(toolbox, &done, call, prepared));
            let mut made = stream::iter(making).buffered(company.at_once());
            while let Some(call) = made.next().await {
                if let Some(mut result) = done.take(&call.id) {
                    heard(&call, &mut result);
                    running.say(Message::ToolResult(result));
                }
            }
        }
    }

    fn company(&self, toolbox: &Toolbox, name: &str) -> Concurrency {
        let spec = toolbox.specs().find(|spec| spec.answers_to(name));
        match spec {
            Some(spec) if spec.risk == Risk::ReadOnly => Concurrency::Reads,
            Some(spec) if self.is_delegation(&spec.name) => Concurrency::Workers,
            Some(_) | None => Concurrency::Alone,
        }
    }

    async fn make_call(
        &self,
        toolbox: &Toolbox,
        done: &FinishedResults,
        call: ToolCall,
        prepared: PreparedCall,
    ) -> ToolCall {
        if self.shared.is_cancelled() {
            // Cancelled while this call waited: it gets its result at the end.
            return call;
        }
        self.tell(RunEvent::CallStarted {
            caller: toolbox.caller(),
            call: &call,
        });
        // A panic in one call does not affect the others.
        let made = AssertUnwindSafe(prepared.make()).catch_unwind().await;
        let result = match made {
            Ok(result) => {
                if result.code == Some(FailureCode::ApprovalRequired) {
                    (self.shared.counts).unanswered(toolbox.caller(), &result.tool);
                }
                // The model gets a general text only.
                if result.code == Some(FailureCode::IsolationUnavailable) {
                    for event in &result.events {
                        if !result.content.contains(&event.detail) {
                            self.shared.warn_once(&event.detail);
                        }
                    }
                }
                to_message(call.id.clone(), &result)
            }
            Err(_) => failed(
                call.id.clone(),
                call.tool.clone(),
                FailureCode::Internal,
                "The call stopped unexpectedly.",
            ),
        };
        self.tell(RunEvent::CallEnded {
            caller: toolbox.caller(),
            result: &result,
        });
        done.add(result);
        call
    }
}

/// A call of a turn that was cut in the middle.
pub(super) fn cut_short(call: &ToolCall) -> ToolResult {
    failed(
        call.id.clone(),
        call.tool.clone(),
        FailureCode::Internal,
        "Your answer was cut in the middle, so this call was not made. Make it again, shorter.",
    )
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
