//! An answer as events about a list of items: each is added, grows, and is done; then the whole
//! response is repeated. Servers leave out one or the other, so texts and calls are accepted from
//! every event that carries them, and none is counted twice.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use crate::model::{ModelError, ModelEvent, StopReason, Thinking, Usage};
use crate::providers::bounded_list::{BoundedList, room};
use crate::providers::openai::{InputTokenDetails, PartialCall, completed};
use crate::providers::provider_error;
use crate::providers::token_count::{OptionalCounts, TokenCount};
use crate::providers::turn_reader::{ReadState, conclude, parse};

#[derive(Deserialize)]
struct ItemEvent {
    #[serde(default)]
    output_index: u64,
    item: OutputItem,
}

#[derive(Deserialize)]
struct DeltaEvent {
    #[serde(default)]
    output_index: u64,
    delta: String,
}

#[derive(Deserialize)]
struct ArgumentsEvent {
    #[serde(default)]
    output_index: u64,
    arguments: String,
}

#[derive(Deserialize)]
struct EndEvent {
    response: ResponseObject,
}

#[derive(Deserialize)]
struct ErrorEvent {
    code: Option<String>,
    message: Option<String>,
    error: Option<Value>,
}

/// The type of an event. Serde would buffer a tagged event in a form that takes many times its
/// bytes, and the last event contains the whole answer.
#[derive(Deserialize)]
struct EventType {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(from = "OutputItemFields")]
enum OutputItem {
    Message {
        content: BoundedList<OutputPart>,
    },
    FunctionCall(PartialCall),
    Reasoning {
        summary: BoundedList<OutputPart>,
        content: Option<BoundedList<OutputPart>>,
        encrypted_content: Option<String>,
    },
    /// Tools of the provider's own, which are never asked for.
    Other,
}

/// An item as it is written, of any type.
#[derive(Deserialize)]
struct OutputItemFields {
    #[serde(rename = "type")]
    kind: String,
    content: Option<BoundedList<OutputPart>>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    summary: Option<BoundedList<OutputPart>>,
    encrypted_content: Option<String>,
}

impl From<OutputItemFields> for OutputItem {
    fn from(item: OutputItemFields) -> Self {
        match item.kind.as_str() {
            "message" => OutputItem::Message {
                content: item.content.unwrap_or_default(),
            },
            "function_call" => OutputItem::FunctionCall(PartialCall {
                id: item.call_id.unwrap_or_default(),
                tool: item.name.unwrap_or_default(),
                arguments: item.arguments.unwrap_or_default(),
            }),
            "reasoning" => OutputItem::Reasoning {
                summary: item.summary.unwrap_or_default(),
                content: item.content,
                encrypted_content: item.encrypted_content,
            },
            _ => OutputItem::Other,
        }
    }
}

#[derive(Deserialize)]
#[serde(from = "OutputPartFields")]
enum OutputPart {
    Text(String),
    Refusal(String),
    Other,
}

#[derive(Deserialize)]
struct OutputPartFields {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
}

impl From<OutputPartFields> for OutputPart {
    fn from(part: OutputPartFields) -> Self {
        match part.kind.as_str() {
            "output_text" | "summary_text" | "reasoning_text" => {
                OutputPart::Text(part.text.unwrap_or_default())
            }
            "refusal" => OutputPart::Refusal(part.refusal.unwrap_or_default()),
            _ => OutputPart::Other,
        }
    }
}

impl OutputPart {
    fn into_text(self) -> String {
        match self {
            OutputPart::Text(text) | OutputPart::Refusal(text) => text,
            OutputPart::Other => String::new(),
        }
    }
}

#[derive(Deserialize)]
struct ResponseObject {
    #[serde(default)]
    output: BoundedList<OutputItem>,
    status: Option<String>,
    incomplete_details: Option<IncompleteDetails>,
    error: Option<Value>,
    #[serde(default)]
    usage: OptionalCounts<ResponsesUsage>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    input_tokens: TokenCount,
    output_tokens: TokenCount,
    input_tokens_details: OptionalCounts<InputTokenDetails>,
}

impl ResponsesUsage {
    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens.or_zero(),
            output_tokens: self.output_tokens.or_zero(),
            cache_read_tokens: InputTokenDetails::cached(&self.input_tokens_details),
            cache_write_tokens: 0,
        }
    }
}

/// No place that a server names: it would have to list as many items.
const ELSEWHERE: u64 = 1 << 63;

/// The state of one item.
#[derive(Debug, Default)]
struct PartialItem {
    /// Text of it that was handed on.
    told: String,
    call: Option<PartialCall>,
    is_done: bool,
}

impl PartialItem {
    /// Adds the completed call to the streamed one.
    fn complete_call(&mut self, whole: PartialCall) {
        let Some(call) = &mut self.call else {
            self.call = Some(whole);
            return;
        };
        if !whole.arguments.is_empty() {
            call.arguments = whole.arguments;
        }
        if call.id.is_empty() {
            call.id = whole.id;
        }
        if call.tool.is_empty() {
            call.tool = whole.tool;
        }
    }
}

/// The state of a turn so far.
#[derive(Debug, Default)]
pub(in crate::providers) struct ResponsesParser {
    items: BTreeMap<u64, PartialItem>,
    usage: Usage,
    refused: bool,
}

impl ResponsesParser {
    pub(in crate::providers) fn usage(&self) -> Usage {
        self.usage
    }

    pub(in crate::providers) fn take(
        &mut self,
        data: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<ReadState, ModelError> {
        // Some end as the older wire does, after the last event.
        if data.trim() == "[DONE]" {
            return Err(ModelError::Cut);
        }
        let before = events.len();
        match parse::<EventType>(data)?.kind.as_str() {
            "response.output_item.added" => {
                let event: ItemEvent = parse(data)?;
                self.add(event.output_index, event.item)?;
            }
            "response.output_item.done" => {
                let event: ItemEvent = parse(data)?;
                self.done(event.output_index, event.item, events)?;
            }
            "response.output_text.delta" => {
                let event: DeltaEvent = parse(data)?;
                self.say(event.output_index, event.delta, events)?;
            }
            "response.refusal.delta" => {
                let event: DeltaEvent = parse(data)?;
                self.refused = true;
                self.say(event.output_index, event.delta, events)?;
            }
            "response.function_call_arguments.delta" => {
                let event: DeltaEvent = parse(data)?;
                self.call(event.output_index)?
                    .arguments
                    .push_str(&event.delta);
            }
            "response.function_call_arguments.done" => {
                let event: ArgumentsEvent = parse(data)?;
                self.call(event.output_index)?.arguments = event.arguments;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let event: EndEvent = parse(data)?;
                self.end(event.response, events)?;
                return Ok(ReadState::Over);
            }
            "error" => {
                let event: ErrorEvent = parse(data)?;
                let ErrorEvent { code, message, .. } = event;
                let error = (event.error)
                    .unwrap_or_else(|| serde_json::json!({"code": code, "message": message}));
                return Err(provider_error::in_stream(&error));
            }
            // Repetitions of other events, and events of later versions.
            _ => {}
        }
        if events.len() == before {
            events.push(ModelEvent::Heartbeat);
        }
        Ok(ReadState::More)
    }

    fn item(&mut self, index: u64) -> Result<&mut PartialItem, ModelError> {
        if !self.items.contains_key(&index) {
            room(self.items.len(), "items")?;
        }
        Ok(self.items.entry(index).or_default())
    }

    fn say(
        &mut self,
        index: u64,
        text: String,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.item(index)?.told.push_str(&text);
            events.push(ModelEvent::Text(text));
        }
        Ok(())
    }

    fn call(&mut self, index: u64) -> Result<&mut PartialCall, ModelError> {
        let kept = self.items.get_mut(&index);
        kept.and_then(|kept| kept.call.as_mut()).ok_or_else(|| {
            ModelError::Malformed(format!("arguments for item {index}, which is not a call"))
        })
    }

    fn add(&mut self, index: u64, item: OutputItem) -> Result<(), ModelError> {
        if let OutputItem::FunctionCall(call) = item {
            self.item(index)?.call = Some(call);
        }
        Ok(())
    }

    fn done(
        &mut self,
        index: u64,
        item: OutputItem,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let is_refusal = |part: &OutputPart| matches!(part, OutputPart::Refusal(_));
        if let OutputItem::Message { content } = &item {
            self.refused |= content.iter().any(is_refusal);
        }
        let kept = self.item(index)?;
        if std::mem::replace(&mut kept.is_done, true) {
            return Ok(());
        }
        match item {
            OutputItem::Message { content } => {
                let text: String = content.into_iter().map(OutputPart::into_text).collect();
                // The part that was not streamed; a text that differs has been passed on already.
                if let Some(rest) = text.strip_prefix(kept.told.as_str())
                    && !rest.is_empty()
                {
                    events.push(ModelEvent::Text(rest.to_owned()));
                }
            }
            OutputItem::FunctionCall(call) => kept.complete_call(call),
            OutputItem::Reasoning {
                summary,
                content,
                encrypted_content,
            } => {
                let mut parts: Vec<String> =
                    summary.into_iter().map(OutputPart::into_text).collect();
                if parts.is_empty() {
                    // Open models show the thinking itself.
                    let content = content.into_iter().flatten();
                    parts.extend(content.map(OutputPart::into_text));
                }
                let block = Thinking {
                    text: parts.join("\n\n"),
                    signature: encrypted_content.filter(|sealed| !sealed.is_empty()),
                };
                if !block.text.is_empty() || block.signature.is_some() {
                    events.push(ModelEvent::Thinking(block));
                }
            }
            OutputItem::Other => {}
        }
        Ok(())
    }

    /// Adds the items of the whole response to the streamed ones.
    fn complete_items(
        &mut self,
        output: impl IntoIterator<Item = OutputItem>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        // A call that was streamed under one index is not a second call when the response lists it
        // at another.
        let places: HashMap<String, u64> = self
            .items
            .iter()
            .filter_map(|(index, kept)| Some((kept.call.as_ref()?.id.clone(), *index)))
            .filter(|(id, _)| !id.is_empty())
            .collect();
        let mut rest = Vec::new();
        for (index, item) in (0..).zip(output) {
            let place = match &item {
                OutputItem::FunctionCall(call) => places.get(&call.id).copied(),
                _ => None,
            };
            match place {
                Some(place) => self.done(place, item, events)?,
                None => rest.push((index, item)),
            }
        }
        for (index, item) in rest {
            let is_a_call = |kept: &PartialItem| kept.call.is_some();
            let is_taken = self.items.get(&index).is_some_and(is_a_call);
            let place = match item {
                // The streamed call occupies this index, so the item gets another.
                OutputItem::Message { .. } | OutputItem::Reasoning { .. } if is_taken => {
                    index | ELSEWHERE
                }
                _ => index,
            };
            self.done(place, item, events)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        response: ResponseObject,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(tokens) = &response.usage.0 {
            self.usage = tokens.usage();
        }
        if let Some(error) = response.error.filter(|error| !error.is_null()) {
            return Err(provider_error::in_stream(&error));
        }
        let reason = response.incomplete_details.and_then(|why| why.reason);
        let stop = match (response.status.as_deref(), reason.as_deref()) {
            (Some("failed"), _) => return Err(provider_error::in_stream(&Value::Null)),
            (Some("completed"), _) => StopReason::Done,
            (Some("incomplete"), Some("max_output_tokens")) => StopReason::MaxTokens,
            (Some("incomplete"), Some("content_filter")) => StopReason::Refused,
            (Some(_) | None, _) => StopReason::Unknown,
        };
        self.complete_items(response.output, events)?;
        let stop = match self.refused {
            true => StopReason::Refused,
            false => stop,
        };
        let calls = std::mem::take(&mut self.items).into_values();
        let calls = calls.filter_map(|kept| kept.call);
        conclude(completed(calls), self.usage, stop, events);
        Ok(())
    }
}

/// Reads an answer in one piece.
pub(in crate::providers) fn whole(
    body: &str,
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    let response: ResponseObject = parse(body)?;
    if response.status.is_none() && response.error.is_none() {
        return Err(ModelError::Malformed("it has no status".to_owned()));
    }
    ResponsesParser::default().end(response, events)
}
