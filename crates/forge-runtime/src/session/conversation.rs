//! The conversation of one worker with its model: turn by turn, until it makes no more calls or a
//! limit is reached.

use std::sync::Arc;

use file_sandbox::Mount;
use forge_tools::{Redactor, Toolbox};
use sandbox_config::{Grant, Worker};
use serde_json::Value;

use super::active_conversation::ActiveConversation;
use super::answer_schema::{AnswerSchema, repair};
use super::attachments::{self, Attachment};
use super::calls::cut_short;
use super::context::{is_too_long, trim_context};
use super::turn::receive;
use super::{GrantedWorker, Session};
use crate::budget::{RepeatAction, RepeatDetector};
use crate::equip::EquipError;
use crate::model::{
    Message, Model, ModelEvent, StopReason, ToolCall, ToolDescription, ToolResult, Usage,
};
use crate::report::{ElapsedTime, RunEvent, RunOutcome};

/// The messages and the usage so far, from which a worker continues.
///
/// ```
/// let conversation = forge_runtime::Conversation::asked("audit this");
/// assert_eq!(conversation.messages().len(), 1);
/// assert_eq!(conversation.used().turns, 0);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Conversation {
    pub(super) messages: Vec<Message>,
    /// Number of messages that observers already know.
    pub(super) told: usize,
    used: UsageTotals,
    /// The highest number that a run of a worker had before.
    worker_runs: u64,
    /// Copies that the worker is handed.
    pub(super) place: Option<Mount>,
}

/// Usage of a worker and of all workers below it.
///
/// ```
/// assert_eq!(forge_runtime::UsageTotals::default().calls, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Turns of models.
    pub turns: u64,
    /// Calls of tools.
    pub calls: u64,
    /// Of those, the ones that began: they draw from the limit on calls.
    pub begun: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money, in billionths of a US dollar.
    pub cost_nano_usd: u64,
    /// Time of the entry worker.
    pub time: ElapsedTime,
}

/// Compares messages and usage; not the attachments.
impl PartialEq for Conversation {
    fn eq(&self, other: &Self) -> bool {
        self.messages == other.messages
            && self.told == other.told
            && self.used == other.used
            && self.worker_runs == other.worker_runs
    }
}

impl Conversation {
    /// One that begins with this input.
    pub fn asked(input: impl Into<String>) -> Conversation {
        Conversation {
            messages: vec![Message::Input { text: input.into() }],
            told: 0,
            used: UsageTotals::default(),
            worker_runs: 0,
            place: None,
        }
    }

    /// One that begins with this input and copies of files: `worker` finds them in a place of their
    /// own (`/attached`) if `grant` has files, and else in the input, as text.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # std::fs::write(dir.path().join("workers/w.worker"), "---\nname: w\n---\nWork.\n").unwrap();
    /// use forge_runtime::{Attachment, Conversation, Message};
    /// use sandbox_config::{Grant, Sources, load};
    /// let worker = load(&Sources::new(dir.path())).unwrap().worker("w").unwrap();
    /// let notes = [Attachment::new("notes.md", b"hello".as_slice())];
    /// let redactor = forge_tools::Redactor::default();
    /// let asked = Conversation::attaching(&worker, &Grant::empty(), &redactor, "read", &notes);
    /// let asked = asked.unwrap();
    /// let [Message::Input { text }] = asked.messages() else { panic!() };
    /// assert!(text.ends_with("```\nhello\n```\n"));
    /// ```
    ///
    /// # Errors
    ///
    /// In words for the attaching side: the worker's policy does not allow them, or it has no files
    /// and cannot be given them as text.
    pub fn attaching(
        worker: &Worker,
        grant: &Grant,
        redactor: &Redactor,
        input: impl Into<String>,
        attachments: &[Attachment],
    ) -> Result<Conversation, String> {
        let given = attachments::give(worker, grant, redactor, input.into(), attachments)?;
        let place = given.place;
        Ok(Conversation {
            place,
            ..Conversation::asked(given.input)
        })
    }

    /// Returns the conversation with its original attachments.
    ///
    /// # Errors
    ///
    /// In words: the attachments cannot be mounted.
    pub fn reattach(
        self,
        grant: &Grant,
        attachments: &[Attachment],
    ) -> Result<Conversation, String> {
        let place = attachments::again(grant, attachments)?;
        Ok(Conversation { place, ..self })
    }

    /// Returns an earlier conversation with its usage. Every call in it must have its result.
    pub fn earlier(messages: Vec<Message>, used: UsageTotals) -> Conversation {
        Conversation {
            told: messages.len(),
            messages,
            used,
            worker_runs: 0,
            place: None,
        }
    }

    /// Returns the conversation with this highest number of an earlier worker run: new runs get
    /// higher numbers.
    pub fn behind(mut self, worker_runs: u64) -> Conversation {
        self.worker_runs = worker_runs;
        self
    }

    sandbox_names::getters! {
        /// Returns the messages.
        pub messages: &[Message] = &messages;
        pub(super) worker_runs: u64 = worker_runs;
        /// Returns the usage.
        pub used: UsageTotals = used;
    }
}

impl Session {
    /// Takes turns until the worker ends.
    pub(super) async fn converse(
        &self,
        worker: &GrantedWorker,
        shape: Result<Option<AnswerSchema>, String>,
        place: Option<Mount>,
        running: &mut ActiveConversation,
    ) -> RunOutcome {
        let prepared = self.prepare(worker, place, shape.as_ref().err(), running);
        let (model, toolbox) = match prepared {
            Ok(prepared) => prepared,
            Err(end) => return end,
        };
        let limits = worker.grant.limits();
        let shape = shape.unwrap_or_default();
        let name = model.name();
        let mut repeats = RepeatDetector::new(limits.repeat_calls());
        if let Some(end) = running.budget.was_out_of_time() {
            return end;
        }
        loop {
            if let Err(end) = self.check_limits(limits.max_turns(), &*model, running) {
                return end;
            }
            let turn = match self.take_turn(&*model, &name, running).await {
                Ok(turn) => turn,
                Err(end) => return end,
            };
            let (text, calls) = (turn.text, turn.calls);
            match (turn.stop, calls.is_empty()) {
                (StopReason::Refused, _) => return RunOutcome::Refused { text },
                (StopReason::Done | StopReason::Unknown, true) => {
                    match answered(shape.as_ref(), text, running).await {
                        Some(end) => return end,
                        None => continue,
                    }
                }
                (StopReason::MaxTokens, true) => return RunOutcome::MaxTokens,
                (StopReason::MaxTokens, false) => {
                    for call in &calls {
                        running.say(Message::ToolResult(cut_short(call)));
                    }
                    continue;
                }
                (StopReason::Done | StopReason::Unknown, false) => {}
            }
            let made = self.make_counted_calls(&toolbox, calls, &mut repeats, running);
            if let Err(end) = made.await {
                return end;
            }
        }
    }

    /// Finds the model and opens the tools of `worker`, and reports that it is ready.
    fn prepare(
        &self,
        worker: &GrantedWorker,
        place: Option<Mount>,
        schema_problem: Option<&String>,
        running: &mut ActiveConversation,
    ) -> Result<(Arc<dyn Model>, Toolbox), RunOutcome> {
        let model = self.model_of(&worker.worker)?;
        fits(&worker.worker, &*model, running)?;
        if let Some(problem) = schema_problem {
            return Err(no_shape(&worker.worker, problem));
        }
        let toolbox = self
            .toolbox(worker, &running.caller, &running.budget, place)
            .map_err(|error| not_equipped(&error))?;
        running.request_mut().tools = describe(&toolbox);
        self.tell(RunEvent::Prepared {
            caller: &running.caller,
            model: &model.name(),
            instructions: &running.request().instructions,
            tools: &running.request().tools,
        });
        Ok((model, toolbox))
    }

    /// Checks that the worker may take another turn, and makes the conversation fit into the
    /// model's context.
    fn check_limits(
        &self,
        max_turns: u64,
        model: &dyn Model,
        running: &mut ActiveConversation,
    ) -> Result<(), RunOutcome> {
        // If the run was cancelled during calls, their ends may arrive first.
        if self.shared.is_cancelled() {
            return Err(RunOutcome::Cancelled);
        }
        if running.turns >= max_turns {
            return Err(RunOutcome::TurnLimit { turns: max_turns });
        }
        // Called workers may have exhausted the rest.
        if let Some(end) = running.budget.exhausted_limit() {
            return Err(end);
        }
        is_too_long(running.bytes())?;
        match model.context_tokens() {
            Some(limit) => self.trim_context(running, limit),
            None => Ok(()),
        }
    }

    /// Makes the calls of a turn if the limits on calls allow them.
    async fn make_counted_calls(
        &self,
        toolbox: &Toolbox,
        calls: Vec<ToolCall>,
        repeats: &mut RepeatDetector,
        running: &mut ActiveConversation,
    ) -> Result<(), RunOutcome> {
        // The results of the calls would need another turn.
        if let Some(end) = running.budget.exhausted_limit() {
            return Err(end);
        }
        let made = u64::try_from(calls.len()).unwrap_or(u64::MAX);
        if let Some(end) = running.budget.too_many_calls(made) {
            return Err(end);
        }
        running.budget.count_calls(made);
        let mut stuck = None;
        let heard = |call: &ToolCall, result: &mut ToolResult| match repeats
            .count(identity(call), result.content.clone())
        {
            RepeatAction::No => {}
            RepeatAction::Hint => result.content.push_str(SAME_AGAIN),
            RepeatAction::Stop { times } => stuck = Some(times),
        };
        self.make_calls(toolbox, running, calls, heard).await;
        match stuck {
            Some(calls) => Err(RunOutcome::Repeated { calls }),
            None => Ok(()),
        }
    }

    /// Takes the model's next turn.
    async fn take_turn(
        &self,
        model: &dyn Model,
        name: &str,
        running: &mut ActiveConversation,
    ) -> Result<CompletedTurn, RunOutcome> {
        self.shared.counts.turn();
        running.turns += 1;
        let caller = running.caller.clone();
        self.tell(RunEvent::TurnStarted {
            caller: &caller,
            turn: running.turns,
            model: name,
            time: running.budget.time(),
        });
        let events = model.turn(Arc::clone(running.request()));
        let prices = model.prices();
        let mut usage = Usage::default();
        let watch = |event: &ModelEvent| {
            self.tell(RunEvent::Streamed {
                caller: &caller,
                event,
            });
            if let ModelEvent::Usage(more) = event {
                let cost = prices.map_or(0, |prices| more.cost(prices));
                self.shared.counts.spend(*more, cost);
            }
        };
        let received = receive(events, &running.budget, prices, &mut usage, watch).await;
        self.tell(RunEvent::Used {
            caller: &caller,
            usage,
            cost_nano_usd: prices.map(|prices| usage.cost(prices)),
        });
        let (mut turn, stop) = received?;
        if stop == StopReason::Unknown {
            (self.shared).warn_once("the model stopped for a reason that forge does not know");
        }
        running.name_calls(&mut turn.calls);
        running.last_usage = usage;
        // Each is in the report as it is in the transcript, also one that is not made.
        let calls = u64::try_from(turn.calls.len()).unwrap_or(u64::MAX);
        self.shared.counts.calls(calls);
        running.say(Message::Model {
            text: turn.text.clone(),
            thinking: turn.thinking,
            calls: turn.calls.clone(),
        });
        Ok(CompletedTurn {
            text: turn.text,
            calls: turn.calls,
            stop,
        })
    }

    /// Before the next turn: see [`context`](super::context).
    fn trim_context(&self, running: &mut ActiveConversation, limit: u64) -> Result<(), RunOutcome> {
        let last = running.last_usage;
        let Some(trimmed) = trim_context(running.request_mut(), limit, last)? else {
            return Ok(());
        };
        self.tell(RunEvent::ContextTrimmed {
            caller: &running.caller,
            calls: &trimmed.calls,
            tokens: trimmed.tokens,
        });
        Ok(())
    }
}

/// A turn that was taken.
struct CompletedTurn {
    text: String,
    calls: Vec<ToolCall>,
    stop: StopReason,
}

/// Returns the outcome of an answer; `None` if it does not fit and the model was asked once more.
/// Such a question is the only input of a conversation after the first.
async fn answered(
    shape: Option<&AnswerSchema>,
    answer: String,
    running: &mut ActiveConversation,
) -> Option<RunOutcome> {
    let Some(shape) = shape else {
        return Some(RunOutcome::Answered { answer });
    };
    let problems = match shape.check(&answer).await {
        Ok(value) => {
            return Some(RunOutcome::Answered {
                answer: value.to_owned(),
            });
        }
        Err(problems) => problems,
    };
    let asked = running.request().messages.iter();
    let asked = asked.filter(|message| matches!(message, Message::Input { .. }));
    if asked.count() > 1 {
        return Some(RunOutcome::SchemaMismatch { answer, problems });
    }
    running.say(Message::Input {
        text: repair(&problems),
    });
    None
}

fn no_shape(worker: &Worker, problem: &str) -> RunOutcome {
    RunOutcome::SetupFailed {
        reason: format!(
            "the output schema of worker `{}` cannot be used: {problem}",
            worker.name()
        ),
        hint: None,
        isolation: false,
    }
}

/// Checks that the worker may run on the model, and within its limits.
fn fits(
    worker: &Worker,
    model: &dyn Model,
    running: &ActiveConversation,
) -> Result<(), RunOutcome> {
    let name = model.name();
    if !worker.runs_on(&name) {
        return Err(RunOutcome::WrongModel { model: name });
    }
    if running.budget.limits_cost() && model.prices().is_none() {
        return Err(RunOutcome::NoPrices { model: name });
    }
    Ok(())
}

/// Returns the identity of a call: the tool and the arguments, in sorted order.
fn identity(call: &ToolCall) -> String {
    format!("{} {}", call.tool, sorted(&call.arguments))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            let entry = |name: &String| (name.clone(), sorted(&fields[name]));
            Value::Object(names.into_iter().map(entry).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Follows a result that a worker has seen several times in a row.
const SAME_AGAIN: &str =
    "\n\nThis is the same call with the same result again. Change something, or go on without it.";

fn describe(toolbox: &Toolbox) -> Vec<ToolDescription> {
    toolbox
        .specs()
        .map(|spec| ToolDescription {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.params.to_json_schema(),
        })
        .collect()
}

fn not_equipped(error: &EquipError) -> RunOutcome {
    match error {
        EquipError::Isolation { hint, .. } | EquipError::Container { hint, .. } => {
            RunOutcome::SetupFailed {
                reason: error.to_string(),
                hint: hint.clone(),
                isolation: true,
            }
        }
        EquipError::Repositories(none) => RunOutcome::SetupFailed {
            reason: error.to_string(),
            hint: none.hint.clone(),
            isolation: false,
        },
        EquipError::Grant(failed) => RunOutcome::SetupFailed {
            reason: error.to_string(),
            hint: failed
                .host_path()
                .map(|path| format!("the directory of this host is {path}")),
            isolation: false,
        },
        EquipError::Tools(_) => RunOutcome::SetupFailed {
            reason: error.to_string(),
            hint: None,
            isolation: false,
        },
    }
}
