//! An answer as events: `message_start`, blocks (each begun, continued, ended), `message_delta`
//! with the reason to stop, `message_stop`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::REDACTED;
use crate::model::{Event, ModelError, Stop, Thinking, ToolCall, Usage};
use crate::providers::bounded_list::{List, room};
use crate::providers::provider_error;
use crate::providers::token_count::{Counts, TokenCount};
use crate::providers::turn_reader::{Step, arguments, conclude, parse};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame {
    MessageStart {
        message: Begun,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Stopped,
        #[serde(default)]
        usage: Counts<Tokens>,
    },
    MessageStop,
    Error {
        #[serde(default)]
        error: Value,
    },
    /// `ping`, and what later versions of the protocol add.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default)]
    usage: Counts<Tokens>,
}

#[derive(Deserialize)]
struct Stopped {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Tools of the provider's own, which are never asked for.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: TokenCount,
    output_tokens: TokenCount,
    cache_read_input_tokens: TokenCount,
    cache_creation_input_tokens: TokenCount,
}

impl Tokens {
    /// Later counts replace earlier ones; what is not repeated stays.
    fn take(&mut self, later: Counts<Tokens>) {
        fn replace(count: &mut TokenCount, later: TokenCount) {
            *count = later.or(*count);
        }
        let later = later.0.unwrap_or_default();
        replace(&mut self.input_tokens, later.input_tokens);
        replace(&mut self.output_tokens, later.output_tokens);
        replace(
            &mut self.cache_read_input_tokens,
            later.cache_read_input_tokens,
        );
        replace(
            &mut self.cache_creation_input_tokens,
            later.cache_creation_input_tokens,
        );
    }

    /// Here what was read does not count what the cache had or got.
    fn usage(&self) -> Usage {
        let read = self.cache_read_input_tokens.or_zero();
        let written = self.cache_creation_input_tokens.or_zero();
        let input = self.input_tokens.or_zero();
        Usage {
            input_tokens: input.saturating_add(read).saturating_add(written),
            output_tokens: self.output_tokens.or_zero(),
            cache_read_tokens: read,
            cache_write_tokens: written,
        }
    }
}

/// A block that is not whole yet, or is only handed on at the end.
#[derive(Debug)]
enum Kept {
    Text,
    Thinking(Thinking),
    Call {
        id: String,
        tool: String,
        /// What the block began with; servers that send no pieces put everything there.
        whole: Value,
        pieces: String,
    },
    Other,
}

impl Kept {
    fn into_call(self) -> Option<ToolCall> {
        match self {
            Kept::Call {
                id,
                tool,
                whole,
                pieces,
            } => Some(ToolCall {
                id,
                tool,
                arguments: match whole {
                    Value::Object(fields) if pieces.is_empty() && !fields.is_empty() => {
                        Value::Object(fields)
                    }
                    _ => arguments(&pieces),
                },
            }),
            Kept::Text | Kept::Thinking(_) | Kept::Other => None,
        }
    }
}

/// What came of a turn so far.
#[derive(Debug, Default)]
pub(in crate::providers) struct Answer {
    blocks: BTreeMap<u64, Kept>,
    tokens: Tokens,
    stop: Option<Stop>,
}

impl Answer {
    pub(in crate::providers) fn usage(&self) -> Usage {
        self.tokens.usage()
    }

    pub(in crate::providers) fn take(
        &mut self,
        data: &str,
        events: &mut Vec<Event>,
    ) -> Result<Step, ModelError> {
        match parse(data)? {
            Frame::MessageStart { message } => {
                self.tokens.take(message.usage);
                events.push(Event::Alive);
            }
            Frame::ContentBlockStart {
                index,
                content_block,
            } => self.begin(index, content_block, events)?,
            Frame::ContentBlockDelta { index, delta } => self.go_on(index, delta, events)?,
            Frame::ContentBlockStop { index } => {
                // A call stays until the turn is over; so does a block that is cut short.
                if let Some(Kept::Thinking(block)) = self.blocks.get(&index) {
                    events.push(Event::Thinking(block.clone()));
                    self.blocks.insert(index, Kept::Other);
                }
            }
            Frame::MessageDelta { delta, usage } => {
                self.tokens.take(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
            }
            Frame::MessageStop => {
                self.end(events);
                return Ok(Step::Over);
            }
            Frame::Error { error } => return Err(provider_error::in_stream(&error)),
            Frame::Other => events.push(Event::Alive),
        }
        Ok(Step::More)
    }

    /// Ends an answer whose last event is missing. What comes after the reason to stop says
    /// nothing more.
    pub(in crate::providers) fn close(&mut self, events: &mut Vec<Event>) -> Step {
        if self.stop.is_none() {
            return Step::More;
        }
        self.end(events);
        Step::Over
    }

    fn end(&mut self, events: &mut Vec<Event>) {
        let calls = std::mem::take(&mut self.blocks).into_values();
        let usage = self.usage();
        let stop = self.stop.unwrap_or(Stop::Unknown);
        conclude(calls.filter_map(Kept::into_call), usage, stop, events);
    }

    fn begin(
        &mut self,
        index: u64,
        block: Block,
        events: &mut Vec<Event>,
    ) -> Result<(), ModelError> {
        if !self.blocks.contains_key(&index) {
            room(self.blocks.len(), "blocks")?;
        }
        let kept = match block {
            Block::Text { text } => {
                if !text.is_empty() {
                    events.push(Event::Text(text));
                }
                Kept::Text
            }
            Block::Thinking {
                thinking,
                signature,
            } => Kept::Thinking(sealed(thinking, signature)),
            Block::RedactedThinking { data } => Kept::Thinking(redacted(&data)),
            Block::ToolUse { id, name, input } => Kept::Call {
                id,
                tool: name,
                whole: input,
                pieces: String::new(),
            },
            Block::Other => Kept::Other,
        };
        if !matches!(kept, Kept::Text) {
            events.push(Event::Alive);
        }
        self.blocks.insert(index, kept);
        Ok(())
    }

    fn go_on(
        &mut self,
        index: u64,
        delta: Delta,
        events: &mut Vec<Event>,
    ) -> Result<(), ModelError> {
        match (delta, self.blocks.get_mut(&index)) {
            (Delta::Text { text }, Some(Kept::Text)) => {
                if !text.is_empty() {
                    events.push(Event::Text(text));
                }
                return Ok(());
            }
            (Delta::Thinking { thinking }, Some(Kept::Thinking(block))) => {
                block.text.push_str(&thinking);
            }
            (Delta::Signature { signature }, Some(Kept::Thinking(block))) => {
                block.signature.get_or_insert_default().push_str(&signature)
            }
            (Delta::InputJson { partial_json }, Some(Kept::Call { pieces, .. })) => {
                pieces.push_str(&partial_json);
            }
            // Citations of a text, and the pieces of blocks that we do not know.
            (Delta::Other, _) | (_, Some(Kept::Other)) => {}
            (
                Delta::Text { .. }
                | Delta::Thinking { .. }
                | Delta::Signature { .. }
                | Delta::InputJson { .. },
                Some(Kept::Text | Kept::Thinking(_) | Kept::Call { .. }) | None,
            ) => {
                return Err(ModelError::Malformed(format!(
                    "a piece came of block {index}, which is of another kind or was never begun"
                )));
            }
        }
        events.push(Event::Alive);
        Ok(())
    }
}

fn sealed(text: String, signature: String) -> Thinking {
    Thinking {
        text,
        signature: (!signature.is_empty()).then_some(signature),
    }
}

fn redacted(data: &str) -> Thinking {
    Thinking {
        text: String::new(),
        signature: Some(format!("{REDACTED}{data}")),
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "tool_use" | "stop_sequence" => Stop::Done,
        "max_tokens" | "model_context_window_exceeded" => Stop::OutOfTokens,
        "refusal" => Stop::Refused,
        _ => Stop::Unknown,
    }
}

#[derive(Deserialize)]
struct Whole {
    content: List<Block>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Counts<Tokens>,
}

/// The same in one piece.
pub(in crate::providers) fn whole(body: &str, events: &mut Vec<Event>) -> Result<(), ModelError> {
    let whole: Whole = match serde_json::from_str(body) {
        Ok(whole) => whole,
        Err(_) => {
            // Some gateways answer 200 with an error.
            if let Ok(Frame::Error { error }) = serde_json::from_str(body) {
                return Err(provider_error::in_stream(&error));
            }
            parse(body)?
        }
    };
    let mut calls = Vec::new();
    for block in whole.content {
        match block {
            Block::Text { text } if text.is_empty() => {}
            Block::Text { text } => events.push(Event::Text(text)),
            Block::Thinking {
                thinking,
                signature,
            } => events.push(Event::Thinking(sealed(thinking, signature))),
            Block::RedactedThinking { data } => events.push(Event::Thinking(redacted(&data))),
            Block::ToolUse { id, name, input } => calls.push(ToolCall {
                id,
                tool: name,
                arguments: match input {
                    Value::Object(_) => input,
                    Value::Null => arguments(""),
                    Value::String(text) => arguments(&text),
                    Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                        Value::String(input.to_string())
                    }
                },
            }),
            Block::Other => {}
        }
    }
    let stop = whole.stop_reason.as_deref().map_or(Stop::Unknown, stop);
    conclude(
        calls,
        whole.usage.0.unwrap_or_default().usage(),
        stop,
        events,
    );
    Ok(())
}
