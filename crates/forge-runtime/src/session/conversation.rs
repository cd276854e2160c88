//! The conversation of one worker with its model: turn by turn, until it has nothing
//! more to call or a limit is reached.

use std::sync::Arc;

use forge_tools::{Caller, Toolbox};
use sandbox_config::{Grant, Worker};

use super::Session;
use crate::budget::{Budget, Repeated, Repeats};
use crate::equip::EquipError;
use crate::model::{Event, Message, Request, Stop, ToolCall, ToolDescription, Usage, collect};
use crate::report::{End, RunEvent};

/// Most tool calls in a whole run.
const MAX_CALLS_PER_RUN: u64 = 20_000;

/// What was said so far, and what it cost: where a worker goes on.
///
/// ```
/// let conversation = forge_runtime::Conversation::asked("audit this");
/// assert_eq!(conversation.messages().len(), 1);
/// assert_eq!(conversation.used().turns, 0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    messages: Vec<Message>,
    /// So many of the messages are known to those who watch.
    told: usize,
    used: Used,
}

/// What a worker and everybody it called used up.
///
/// ```
/// assert_eq!(forge_runtime::Used::default().calls, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Turns of models.
    pub turns: u64,
    /// Calls of tools.
    pub calls: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money, in billionths of a US dollar.
    pub cost_nano_usd: u64,
}

impl Conversation {
    /// One that begins with this input.
    pub fn asked(input: impl Into<String>) -> Conversation {
        Conversation {
            messages: vec![Message::Input { text: input.into() }],
            told: 0,
            used: Used::default(),
        }
    }

    /// One that was held before, and what it used up. Every call in it has its result:
    /// who gives it in sees to that.
    pub fn earlier(messages: Vec<Message>, used: Used) -> Conversation {
        Conversation {
            told: messages.len(),
            messages,
            used,
        }
    }

    /// What was said.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What was used up.
    pub fn used(&self) -> Used {
        self.used
    }
}

impl Session {
    pub(super) async fn converse(
        &self,
        worker: &Worker,
        grant: Grant,
        caller: &Caller,
        conversation: Conversation,
        budget: &Arc<Budget>,
    ) -> End {
        let model = match self.model_of(worker) {
            Ok(model) => model,
            Err(error) => return error.into(),
        };
        let name = model.name();
        if !worker.runs_on(&name) {
            return End::WrongModel { model: name };
        }
        let max_turns = grant.limits().max_turns();
        let mut repeats = Repeats::default();
        let toolbox = match self.toolbox(worker, &grant, caller, budget) {
            Ok(toolbox) => toolbox,
            Err(error) => return not_equipped(&error),
        };
        let mut request = Request {
            worker: worker.name().to_owned(),
            instructions: worker.instructions().to_owned(),
            tools: describe(&toolbox),
            messages: conversation.messages,
        };
        for message in &request.messages[conversation.told..] {
            self.tell(RunEvent::Said { caller, message });
        }
        let first = u64::try_from(request.turns_so_far()).unwrap_or(u64::MAX);
        for turn in first.saturating_add(1)..=max_turns {
            self.shared.counts.turn();
            self.tell(RunEvent::TurnStarted {
                caller,
                turn,
                model: &name,
            });
            let asked = Arc::new(request.clone());
            let watch = |event: &Event| self.tell(RunEvent::Streamed { caller, event });
            let turn = match collect(model.turn(asked), watch).await {
                Ok(turn) => turn,
                Err(error) => return error.into(),
            };
            let cost_nano_usd = model.prices().map(|prices| prices.of(turn.usage));
            self.tell(RunEvent::Used {
                caller,
                usage: turn.usage,
                cost_nano_usd,
            });
            budget.spend(turn.usage);
            (self.shared.counts).spend(turn.usage, cost_nano_usd.unwrap_or(0));
            self.say(
                caller,
                &mut request,
                Message::Model {
                    text: turn.text.clone(),
                    thinking: turn.thinking,
                    calls: turn.calls.clone(),
                },
            );
            match (turn.stop, turn.calls.is_empty()) {
                (Stop::Refused, _) => return End::Refused { text: turn.text },
                (Stop::Done | Stop::Unknown, true) => return End::Answered { answer: turn.text },
                (Stop::OutOfTokens, true) => return End::OutOfTokens,
                (Stop::Done | Stop::Unknown | Stop::OutOfTokens, false) => {}
            }
            // What the calls come to would need another turn.
            if let Some(end) = budget.out_of_tokens() {
                return end;
            }
            let made = u64::try_from(turn.calls.len()).unwrap_or(u64::MAX);
            if self.shared.counts.calls(made) > MAX_CALLS_PER_RUN {
                return End::CallLimit {
                    calls: MAX_CALLS_PER_RUN,
                };
            }
            let asked: Vec<String> = turn.calls.iter().map(identity).collect();
            let results = self.make_calls(&toolbox, turn.calls, turn.stop).await;
            let mut stuck = None;
            for (mut result, asked) in results.into_iter().zip(asked) {
                let limit = grant.limits().repeat_calls();
                match repeats.count(asked, result.content.clone(), limit) {
                    Repeated::No => {}
                    Repeated::Hint => result.content.push_str(SAME_AGAIN),
                    Repeated::Stop => {
                        stuck = limit.map(|limit| limit.saturating_mul(2));
                    }
                }
                self.say(caller, &mut request, Message::ToolResult(result));
            }
            if let Some(calls) = stuck {
                return End::Repeated { calls };
            }
        }
        End::TurnLimit { turns: max_turns }
    }

    fn say(&self, caller: &Caller, request: &mut Request, message: Message) {
        self.tell(RunEvent::Said {
            caller,
            message: &message,
        });
        request.messages.push(message);
    }
}

/// What makes two calls the same one.
fn identity(call: &ToolCall) -> String {
    format!("{} {}", call.tool, call.arguments)
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

fn not_equipped(error: &EquipError) -> End {
    match error {
        EquipError::Isolation { hint, .. } => End::NotEquipped {
            reason: error.to_string(),
            hint: hint.clone(),
            isolation: true,
        },
        EquipError::Grant(_) | EquipError::Tools(_) => End::NotEquipped {
            reason: error.to_string(),
            hint: None,
            isolation: false,
        },
    }
}
