//! A running worker: its conversation so far, and the calls that still lack a result.
//!
//! However a worker ends (an answer, a limit, a cancellation, the drop of the whole run), every
//! call that its model made has exactly one result, and its end is reported.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use forge_tools::{Caller, FailureCode};

use super::Session;
use super::context::bytes;
use crate::budget::{ChildGuard, WorkerBudget};
use crate::model::{Message, ModelRequest, ToolCall, ToolResult, Usage};
use crate::report::{RunEvent, RunOutcome};

pub(super) struct ActiveConversation {
    session: Session,
    pub(super) caller: Caller,
    pub(super) budget: Arc<WorkerBudget>,
    request: Arc<ModelRequest>,
    /// Number of the turns so far.
    pub(super) turns: u64,
    /// Of the last turn.
    pub(super) last_usage: Usage,
    /// Total size of all messages, including results that were trimmed since.
    bytes: usize,
    /// Every id of a call so far.
    ids: HashSet<String>,
    /// Calls without a result, in order.
    open: VecDeque<(String, String)>,
    done: Arc<FinishedResults>,
    ended: bool,
    /// Tells the caller's budget that this worker is running; dropped last.
    _at_work: Option<ChildGuard>,
}

/// Finished results by id that the model has not got yet: those of calls that overtook earlier
/// ones.
#[derive(Default)]
pub(super) struct FinishedResults(Mutex<HashMap<String, ToolResult>>);

impl FinishedResults {
    pub(super) fn add(&self, result: ToolResult) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(result.id.clone(), result);
    }

    pub(super) fn take(&self, id: &str) -> Option<ToolResult> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.remove(id)
    }
}

impl ActiveConversation {
    /// Starts with the messages of `request`, which observers already know.
    pub(super) fn new(
        session: Session,
        caller: Caller,
        budget: Arc<WorkerBudget>,
        request: ModelRequest,
        at_work: Option<ChildGuard>,
    ) -> Self {
        let mut ids = HashSet::new();
        for message in &request.messages {
            match message {
                Message::Model { calls, .. } => {
                    ids.extend(calls.iter().map(|call| call.id.clone()));
                }
                Message::Input { .. } | Message::ToolResult(_) => {}
            }
        }
        let bytes = request.messages.iter().map(bytes).sum();
        ActiveConversation {
            turns: u64::try_from(request.turns_so_far()).unwrap_or(u64::MAX),
            last_usage: Usage::default(),
            bytes,
            session,
            caller,
            budget,
            request: Arc::new(request),
            ids,
            open: VecDeque::new(),
            done: Arc::default(),
            ended: false,
            _at_work: at_work,
        }
    }

    sandbox_names::getters! {
        /// Returns the request for the model.
        pub(super) request: &Arc<ModelRequest> = &request;
        /// Returns the size of all messages.
        pub(super) bytes: usize = bytes;
    }

    /// Returns the request for changes. A model that has finished its turn has released it, so that
    /// it is not copied.
    pub(super) fn request_mut(&mut self) -> &mut ModelRequest {
        Arc::make_mut(&mut self.request)
    }

    pub(super) fn done(&self) -> Arc<FinishedResults> {
        Arc::clone(&self.done)
    }

    /// Gives every call an id that no other call of the conversation has. Some servers leave
    /// ids out, and some begin anew with each turn.
    pub(super) fn name_calls(&mut self, calls: &mut [ToolCall]) {
        let turn = self.turns;
        for (index, call) in calls.iter_mut().enumerate() {
            let mut tried = 0u64;
            while call.id.is_empty() || self.ids.contains(&call.id) {
                call.id = match tried {
                    0 => format!("call_{turn}_{index}"),
                    more => format!("call_{turn}_{index}_{more}"),
                };
                tried += 1;
            }
            self.ids.insert(call.id.clone());
        }
    }

    /// Another entry of the conversation.
    pub(super) fn say(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_add(bytes(&message));
        match &message {
            Message::Model { calls, .. } => {
                let names = calls
                    .iter()
                    .map(|call| (call.id.clone(), call.tool.clone()));
                self.open.extend(names);
            }
            Message::ToolResult(result) => {
                let at = self.open.iter().position(|(id, _)| *id == result.id);
                at.and_then(|at| self.open.remove(at));
            }
            Message::Input { .. } => {}
        }
        self.session.tell(RunEvent::Said {
            caller: &self.caller,
            message: &message,
        });
        self.request_mut().messages.push(message);
    }

    /// Ends the worker: every call without a result gets one with the reason.
    pub(super) fn end(mut self, end: RunOutcome) -> RunOutcome {
        self.close(&end);
        end
    }

    fn close(&mut self, end: &RunOutcome) {
        self.ended = true;
        while let Some((id, tool)) = self.open.front().cloned() {
            let result = self.done.take(&id).unwrap_or_else(|| {
                let result = unfinished(id, tool, end);
                self.session.tell(RunEvent::CallEnded {
                    caller: &self.caller,
                    result: &result,
                });
                result
            });
            self.say(Message::ToolResult(result));
        }
        self.session.tell(RunEvent::Ended {
            caller: &self.caller,
            end,
            time: self.budget.time(),
        });
    }
}

impl Drop for ActiveConversation {
    fn drop(&mut self) {
        if !self.ended {
            let end = self.budget.stopped_by();
            self.close(&end);
        }
    }
}

/// The result of a call that was under way, or had not begun, when the run was stopped.
pub(crate) const CANCELLED: &str = "Cancelled by user.";

fn unfinished(id: String, tool: String, end: &RunOutcome) -> ToolResult {
    match end {
        RunOutcome::Cancelled => failed(id, tool, FailureCode::Cancelled, CANCELLED),
        end => failed(
            id,
            tool,
            FailureCode::Limit,
            &format!("Not finished: {end}."),
        ),
    }
}

pub(super) fn failed(id: String, tool: String, code: FailureCode, content: &str) -> ToolResult {
    ToolResult {
        id,
        tool,
        content: content.to_owned(),
        is_error: true,
        detail: serde_json::json!({
            "ok": false,
            "content": content,
            "error": {"code": code.as_str(), "message": content},
        }),
    }
}
