//! An answer as chunks, each with a piece of the one choice that was asked for, until `[DONE]`.
//!
//! Servers differ in the calls: all agree on pieces that are put together by `index`, but some
//! leave the index out, some the id, and some give every call the index 0 and another id.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;

use crate::model::{ModelError, ModelEvent, StopReason, Thinking, Usage};
use crate::providers::bounded_list::{BoundedList, room};
use crate::providers::openai::{InputTokenDetails, PartialCall, completed};
use crate::providers::provider_error;
use crate::providers::token_count::{OptionalCounts, TokenCount};
use crate::providers::turn_reader::{ReadState, conclude, parse};

#[derive(Deserialize)]
struct ChatChunk {
    choices: Option<BoundedList<ChatChoice>>,
    #[serde(default)]
    usage: OptionalCounts<ChatUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChatChoice {
    #[serde(default)]
    index: u64,
    /// A piece of it, or all of it.
    #[serde(alias = "message")]
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChoiceDelta {
    content: Option<DeltaContent>,
    refusal: Option<String>,
    /// Two names for one thing.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<BoundedList<CallPiece>>,
}

/// A text, or parts that are one. They are put together as they are read: many small ones would
/// take far more memory than they have bytes.
#[derive(Default)]
struct DeltaContent {
    text: String,
    refused: bool,
}

impl<'de> Deserialize<'de> for DeltaContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DeltaContentVisitor)
    }
}

struct DeltaContentVisitor;

impl<'de> Visitor<'de> for DeltaContentVisitor {
    type Value = DeltaContent;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text or its parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DeltaContent, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<DeltaContent, E> {
        Ok(DeltaContent {
            text,
            refused: false,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<DeltaContent, A::Error> {
        let mut content = DeltaContent::default();
        while let Some(part) = from.next_element::<ContentPart>()? {
            content.refused |= part.refusal.is_some();
            for text in [part.text, part.refusal].into_iter().flatten() {
                content.text.push_str(&text);
            }
        }
        Ok(content)
    }
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChatUsage {
    prompt_tokens: TokenCount,
    completion_tokens: TokenCount,
    prompt_tokens_details: OptionalCounts<InputTokenDetails>,
}

impl ChatUsage {
    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_tokens.or_zero(),
            output_tokens: self.completion_tokens.or_zero(),
            cache_read_tokens: InputTokenDetails::cached(&self.prompt_tokens_details),
            cache_write_tokens: 0,
        }
    }
}

/// The state of a turn so far.
#[derive(Debug, Default)]
pub(in crate::providers) struct ChatParser {
    thinking: String,
    calls: Vec<PartialCall>,
    /// The last call of each index.
    by_index: BTreeMap<u64, usize>,
    usage: Usage,
    refused: bool,
    stop: Option<StopReason>,
}

impl ChatParser {
    pub(in crate::providers) fn usage(&self) -> Usage {
        self.usage
    }

    pub(in crate::providers) fn take(
        &mut self,
        data: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<ReadState, ModelError> {
        if data.trim() == "[DONE]" {
            self.end(events);
            return Ok(ReadState::Over);
        }
        self.add(parse(data)?, events)?;
        Ok(ReadState::More)
    }

    /// Ends an answer that came without `[DONE]`: the reason to stop was its last piece.
    pub(in crate::providers) fn close(&mut self, events: &mut Vec<ModelEvent>) -> ReadState {
        if self.stop.is_none() {
            return ReadState::More;
        }
        self.end(events);
        ReadState::Over
    }

    fn add(&mut self, chunk: ChatChunk, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(provider_error::in_stream(&error));
        }
        // Some count after every piece; the last count is the whole.
        if let Some(tokens) = chunk.usage.0 {
            self.usage = tokens.usage();
        }
        let before = events.len();
        for choice in chunk.choices.into_iter().flatten() {
            if choice.index != 0 {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.piece(delta, events)?;
            }
            if let Some(reason) = choice.finish_reason {
                self.stop = Some(stop(&reason));
            }
        }
        if events.len() == before {
            events.push(ModelEvent::Heartbeat);
        }
        Ok(())
    }

    fn piece(
        &mut self,
        delta: ChoiceDelta,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(thought) = delta.reasoning_content.or(delta.reasoning) {
            self.thinking.push_str(&thought);
        }
        if let Some(content) = delta.content {
            self.refused |= content.refused;
            self.say(content.text, events);
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.say(refusal, events);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.thought(events);
            self.call_piece(piece)?;
        }
        Ok(())
    }

    fn say(&mut self, text: String, events: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.thought(events);
            events.push(ModelEvent::Text(text));
        }
    }

    /// Thinking is complete as soon as the model writes text or makes a call.
    fn thought(&mut self, events: &mut Vec<ModelEvent>) {
        let text = std::mem::take(&mut self.thinking);
        if !text.is_empty() {
            events.push(ModelEvent::Thinking(Thinking {
                text,
                signature: None,
            }));
        }
    }

    fn call_piece(&mut self, piece: CallPiece) -> Result<(), ModelError> {
        let id = piece.id.unwrap_or_default();
        // Without an index it belongs to the call that is being made.
        let known = match piece.index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        // Another id is another call, also under a known index.
        let known = known.filter(|at| {
            let of = &self.calls[*at].id;
            id.is_empty() || of.is_empty() || *of == id
        });
        let at = known.unwrap_or(self.calls.len());
        if known.is_none() {
            room(self.calls.len(), "calls")?;
            self.calls.push(PartialCall::default());
            if let Some(index) = piece.index {
                self.by_index.insert(index, at);
            }
        }
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        let Some(function) = piece.function else {
            return Ok(());
        };
        if let Some(name) = function.name
            && call.tool.is_empty()
        {
            call.tool = name;
        }
        match function.arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.arguments.push_str(&text),
            // Against the protocol, but unambiguous.
            Some(whole @ Value::Object(_)) => call.arguments = whole.to_string(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                return Err(ModelError::Malformed(
                    "the arguments of a call are not text".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<ModelEvent>) {
        self.thought(events);
        let calls = completed(std::mem::take(&mut self.calls));
        let stop = match self.refused {
            true => StopReason::Refused,
            false => self.stop.unwrap_or(StopReason::Unknown),
        };
        conclude(calls, self.usage, stop, events);
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "stop" | "tool_calls" | "function_call" => StopReason::Done,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refused,
        _ => StopReason::Unknown,
    }
}

/// Reads an answer in one piece.
pub(in crate::providers) fn whole(
    body: &str,
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    let chunk: ChatChunk = parse(body)?;
    if chunk.error.is_none() && chunk.choices.as_ref().is_none_or(BoundedList::is_empty) {
        return Err(ModelError::Malformed("it has no choices".to_owned()));
    }
    let mut answer = ChatParser::default();
    answer.add(chunk, events)?;
    answer.end(events);
    Ok(())
}
