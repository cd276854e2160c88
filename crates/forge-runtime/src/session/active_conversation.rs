//! A worker at work: its conversation as it stands, and which calls still lack a result.
//!
//! However a worker ends (an answer, a limit, somebody stopping it, the whole run being
//! dropped), every call that its model made has exactly one result, and its end is told.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use forge_tools::{Caller, FailureCode};

use super::Session;
use super::context::bytes;
use crate::budget::{ChildGuard, WorkerBudget};
use crate::model::{Message, ModelRequest, ToolCall, ToolResult};
use crate::report::{RunEvent, RunOutcome};

pub(super) struct ActiveConversation {
    session: Session,
    pub(super) caller: Caller,
    pub(super) budget: Arc<WorkerBudget>,
    request: Arc<ModelRequest>,
    /// What was said so far, left out or not.
    bytes: usize,
    /// Every id of a call so far.
    ids: HashSet<String>,
    /// Calls without a result, in order.
    open: VecDeque<(String, String)>,
    done: Arc<FinishedResults>,
    ended: bool,
    /// Whoever called it knows that it is at work; dropped after all else.
    _at_work: Option<ChildGuard>,
}

/// Results by id that are there and not said yet: those of calls that were faster than the
/// ones before them.
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
    /// With nothing said yet; what is in `request` is known already.
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

    /// What the model is asked with.
    pub(super) fn request(&self) -> &Arc<ModelRequest> {
        &self.request
    }

    /// The same, to be changed. A model that is done with its turn holds it no more, so
    /// that nothing is copied.
    pub(super) fn request_mut(&mut self) -> &mut ModelRequest {
        Arc::make_mut(&mut self.request)
    }

    pub(super) fn done(&self) -> Arc<FinishedResults> {
        Arc::clone(&self.done)
    }

    /// Gives every call an id that no other call of the conversation has. Some servers leave
    /// ids out, and some begin anew with each turn.
    pub(super) fn name_calls(&mut self, turn: u64, calls: &mut [ToolCall]) {
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

    /// How many bytes were said.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
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

    /// It is over: whatever was called and has no result gets one that says why.
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
