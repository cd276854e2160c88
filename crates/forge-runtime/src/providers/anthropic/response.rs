//! An answer as events: `message_start`, blocks (each begun, continued, ended), `message_delta`
//! with the reason to stop, `message_stop`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::REDACTED;
use crate::model::{ModelError, ModelEvent, StopReason, Thinking, ToolCall, Usage};
use crate::providers::bounded_list::{BoundedList, room};
use crate::providers::provider_error;
use crate::providers::token_count::{OptionalCounts, TokenCount};
use crate::providers::turn_reader::{ReadState, arguments, conclude, parse};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: MessageHead,
    },
    ContentBlockStart {
        index: u64,
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: MessageTail,
        #[serde(default)]
        usage: OptionalCounts<AnthropicUsage>,
    },
    MessageStop,
    Error {
        #[serde(default)]
        error: Value,
    },
    /// `ping`, and events of later versions of the protocol.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    usage: OptionalCounts<AnthropicUsage>,
}

#[derive(Deserialize)]
struct MessageTail {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
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
enum BlockDelta {
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
struct AnthropicUsage {
    input_tokens: TokenCount,
    output_tokens: TokenCount,
    cache_read_input_tokens: TokenCount,
    cache_creation_input_tokens: TokenCount,
}

impl AnthropicUsage {
    /// Later counts replace earlier ones; counts that are not repeated stay.
    fn take(&mut self, later: OptionalCounts<AnthropicUsage>) {
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

    /// This wire's input count excludes tokens read from the cache or written to it.
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
enum PartialBlock {
    Text,
    Thinking(Thinking),
    Call {
        id: String,
        tool: String,
        /// The block's initial value; servers that send no pieces put everything here.
        whole: Value,
        pieces: String,
    },
    Other,
}

impl PartialBlock {
    fn into_call(self) -> Option<ToolCall> {
        match self {
            PartialBlock::Call {
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
            PartialBlock::Text | PartialBlock::Thinking(_) | PartialBlock::Other => None,
        }
    }
}

/// The state of a turn so far.
#[derive(Debug, Default)]
pub(in crate::providers) struct AnthropicParser {
    blocks: BTreeMap<u64, PartialBlock>,
    tokens: AnthropicUsage,
    stop: Option<StopReason>,
}

impl AnthropicParser {
    pub(in crate::providers) fn usage(&self) -> Usage {
        self.tokens.usage()
    }

    pub(in crate::providers) fn take(
        &mut self,
        data: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<ReadState, ModelError> {
        match parse(data)? {
            AnthropicEvent::MessageStart { message } => {
                self.tokens.take(message.usage);
                events.push(ModelEvent::Heartbeat);
            }
            AnthropicEvent::ContentBlockStart {
                index,
                content_block,
            } => self.begin(index, content_block, events)?,
            AnthropicEvent::ContentBlockDelta { index, delta } => {
                self.continue_block(index, delta, events)?
            }
            AnthropicEvent::ContentBlockStop { index } => {
                // A call stays until the turn is over; so does a block that is cut short.
                if let Some(PartialBlock::Thinking(block)) = self.blocks.get(&index) {
                    events.push(ModelEvent::Thinking(block.clone()));
                    self.blocks.insert(index, PartialBlock::Other);
                }
            }
            AnthropicEvent::MessageDelta { delta, usage } => {
                self.tokens.take(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
            }
            AnthropicEvent::MessageStop => {
                self.end(events);
                return Ok(ReadState::Over);
            }
            AnthropicEvent::Error { error } => return Err(provider_error::in_stream(&error)),
            AnthropicEvent::Other => events.push(ModelEvent::Heartbeat),
        }
        Ok(ReadState::More)
    }

    /// Ends an answer whose last event is missing. Events after the stop reason carry no further
    /// content.
    pub(in crate::providers) fn close(&mut self, events: &mut Vec<ModelEvent>) -> ReadState {
        if self.stop.is_none() {
            return ReadState::More;
        }
        self.end(events);
        ReadState::Over
    }

    fn end(&mut self, events: &mut Vec<ModelEvent>) {
        let calls = std::mem::take(&mut self.blocks).into_values();
        let usage = self.usage();
        let stop = self.stop.unwrap_or(StopReason::Unknown);
        conclude(
            calls.filter_map(PartialBlock::into_call),
            usage,
            stop,
            events,
        );
    }

    fn begin(
        &mut self,
        index: u64,
        block: ContentBlock,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if !self.blocks.contains_key(&index) {
            room(self.blocks.len(), "blocks")?;
        }
        let kept = match block {
            ContentBlock::Text { text } => {
                if !text.is_empty() {
                    events.push(ModelEvent::Text(text));
                }
                PartialBlock::Text
            }
            ContentBlock::Thinking {
                thinking,
                signature,
            } => PartialBlock::Thinking(sealed(thinking, signature)),
            ContentBlock::RedactedThinking { data } => PartialBlock::Thinking(redacted(&data)),
            ContentBlock::ToolUse { id, name, input } => PartialBlock::Call {
                id,
                tool: name,
                whole: input,
                pieces: String::new(),
            },
            ContentBlock::Other => PartialBlock::Other,
        };
        if !matches!(kept, PartialBlock::Text) {
            events.push(ModelEvent::Heartbeat);
        }
        self.blocks.insert(index, kept);
        Ok(())
    }

    fn continue_block(
        &mut self,
        index: u64,
        delta: BlockDelta,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        match (delta, self.blocks.get_mut(&index)) {
            (BlockDelta::Text { text }, Some(PartialBlock::Text)) => {
                if !text.is_empty() {
                    events.push(ModelEvent::Text(text));
                }
                return Ok(());
            }
            (BlockDelta::Thinking { thinking }, Some(PartialBlock::Thinking(block))) => {
                block.text.push_str(&thinking);
            }
            (BlockDelta::Signature { signature }, Some(PartialBlock::Thinking(block))) => {
                block.signature.get_or_insert_default().push_str(&signature)
            }
            (BlockDelta::InputJson { partial_json }, Some(PartialBlock::Call { pieces, .. })) => {
                pieces.push_str(&partial_json);
            }
            // Citations of a text, and the pieces of unknown blocks.
            (BlockDelta::Other, _) | (_, Some(PartialBlock::Other)) => {}
            (
                BlockDelta::Text { .. }
                | BlockDelta::Thinking { .. }
                | BlockDelta::Signature { .. }
                | BlockDelta::InputJson { .. },
                Some(PartialBlock::Text | PartialBlock::Thinking(_) | PartialBlock::Call { .. })
                | None,
            ) => {
                return Err(ModelError::Malformed(format!(
                    "a piece came of block {index}, which is of another kind or was never begun"
                )));
            }
        }
        events.push(ModelEvent::Heartbeat);
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

fn stop(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "tool_use" | "stop_sequence" => StopReason::Done,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        _ => StopReason::Unknown,
    }
}

#[derive(Deserialize)]
struct AnthropicMessage {
    content: BoundedList<ContentBlock>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: OptionalCounts<AnthropicUsage>,
}

/// Reads an answer in one piece.
pub(in crate::providers) fn whole(
    body: &str,
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    let whole: AnthropicMessage = match serde_json::from_str(body) {
        Ok(whole) => whole,
        Err(_) => {
            // Some gateways answer 200 with an error.
            if let Ok(AnthropicEvent::Error { error }) = serde_json::from_str(body) {
                return Err(provider_error::in_stream(&error));
            }
            parse(body)?
        }
    };
    let mut calls = Vec::new();
    for block in whole.content {
        match block {
            ContentBlock::Text { text } if text.is_empty() => {}
            ContentBlock::Text { text } => events.push(ModelEvent::Text(text)),
            ContentBlock::Thinking {
                thinking,
                signature,
            } => events.push(ModelEvent::Thinking(sealed(thinking, signature))),
            ContentBlock::RedactedThinking { data } => {
                events.push(ModelEvent::Thinking(redacted(&data)))
            }
            ContentBlock::ToolUse { id, name, input } => calls.push(ToolCall {
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
            ContentBlock::Other => {}
        }
    }
    let stop = whole
        .stop_reason
        .as_deref()
        .map_or(StopReason::Unknown, stop);
    conclude(
        calls,
        whole.usage.0.unwrap_or_default().usage(),
        stop,
        events,
    );
    Ok(())
}
