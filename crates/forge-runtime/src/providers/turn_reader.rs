//! A turn on its way from a server: bytes, events of the wire, events of ours. Pure; the
//! connection around it waits and counts.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::settings::ResponseLimits;
use super::sse::{SseError, SseFrame, SseParser};
use super::{anthropic, chat, responses};
use crate::model::{ModelError, ModelEvent, StopReason, ToolCall, Usage, Wire};

/// State of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadState {
    More,
    Over,
}

impl ReadState {
    pub(super) fn is_over(self) -> bool {
        self == ReadState::Over
    }
}

/// The state of a turn so far, on one of the wires.
#[derive(Debug)]
enum WireParser {
    Anthropic(anthropic::AnthropicParser),
    Chat(chat::ChatParser),
    Responses(responses::ResponsesParser),
}

/// Reads the streamed body of an answer.
#[derive(Debug)]
pub(super) struct TurnReader {
    frames: SseParser,
    complete: Vec<SseFrame>,
    answer: WireParser,
    bytes: usize,
    max_bytes: usize,
}

impl TurnReader {
    pub(super) fn new(wire: Wire, bounds: &ResponseLimits) -> Self {
        TurnReader {
            frames: SseParser::new(bounds.event_limit(wire)),
            complete: Vec::new(),
            answer: match wire {
                Wire::Anthropic => WireParser::Anthropic(anthropic::AnthropicParser::default()),
                Wire::OpenAiChat => WireParser::Chat(chat::ChatParser::default()),
                Wire::OpenAiResponses => {
                    WireParser::Responses(responses::ResponsesParser::default())
                }
            },
            bytes: 0,
            max_bytes: bounds.answer_bytes,
        }
    }

    /// Takes the next bytes, and adds completed events to `events`.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ModelEvent>,
    ) -> Result<ReadState, ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.max_bytes {
            return Err(too_long(self.max_bytes));
        }
        let read = self.frames.feed(bytes, &mut self.complete);
        let step = self.take(events)?;
        // Complete events before an error count, and nothing counts after the end.
        match step {
            ReadState::Over => Ok(ReadState::Over),
            ReadState::More => read.map(|()| ReadState::More).map_err(broken),
        }
    }

    /// Ends the input.
    pub(super) fn close(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.frames.close(&mut self.complete).map_err(broken)?;
        if self.take(events)?.is_over() {
            return Ok(());
        }
        let closed = match &mut self.answer {
            WireParser::Anthropic(answer) => answer.close(events),
            WireParser::Chat(answer) => answer.close(events),
            // Its last event is the one with the reason to stop.
            WireParser::Responses(_) => ReadState::More,
        };
        match closed {
            ReadState::Over => Ok(()),
            ReadState::More => Err(ModelError::Cut),
        }
    }

    /// Returns the usage of the turn that the server reported before the stream broke off.
    pub(super) fn used(&self) -> Option<Usage> {
        let usage = match &self.answer {
            WireParser::Anthropic(answer) => answer.usage(),
            WireParser::Chat(answer) => answer.usage(),
            WireParser::Responses(answer) => answer.usage(),
        };
        (usage != Usage::default()).then_some(usage)
    }

    fn take(&mut self, events: &mut Vec<ModelEvent>) -> Result<ReadState, ModelError> {
        for frame in self.complete.drain(..) {
            let step = match frame {
                SseFrame::Comment => {
                    // A hundred at once say no more than one.
                    if events.last() != Some(&ModelEvent::Heartbeat) {
                        events.push(ModelEvent::Heartbeat);
                    }
                    ReadState::More
                }
                SseFrame::Data(data) => match &mut self.answer {
                    WireParser::Anthropic(answer) => answer.take(&data, events)?,
                    WireParser::Chat(answer) => answer.take(&data, events)?,
                    WireParser::Responses(answer) => answer.take(&data, events)?,
                },
            };
            if step.is_over() {
                return Ok(ReadState::Over);
            }
        }
        Ok(ReadState::More)
    }
}

/// Reads an answer that came in one piece.
pub(super) fn whole(
    wire: Wire,
    bytes: &[u8],
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    let body = std::str::from_utf8(bytes)
        .map_err(|_| ModelError::Malformed("it is not UTF-8".to_owned()))?;
    match wire {
        Wire::Anthropic => anthropic::whole(body, events),
        Wire::OpenAiChat => chat::whole(body, events),
        Wire::OpenAiResponses => responses::whole(body, events),
    }
}

pub(super) fn too_long(max_bytes: usize) -> ModelError {
    ModelError::Malformed(format!("it is longer than {max_bytes} bytes"))
}

fn broken(broken: SseError) -> ModelError {
    ModelError::Malformed(match broken {
        SseError::TooLong(bytes) => format!("an event in it is longer than {bytes} bytes"),
        SseError::NotText => "an event in it is not UTF-8".to_owned(),
    })
}

/// JSON of a server.
pub(super) fn parse<T: DeserializeOwned>(data: &str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|error| ModelError::Malformed(format!("it is not of the protocol: {error}")))
}

/// Ends a turn: the held-back calls, its usage, and its stop reason.
pub(super) fn conclude(
    calls: impl IntoIterator<Item = ToolCall>,
    usage: Usage,
    stop: StopReason,
    events: &mut Vec<ModelEvent>,
) {
    events.extend(calls.into_iter().map(ModelEvent::Call));
    if usage != Usage::default() {
        events.push(ModelEvent::Usage(usage));
    }
    events.push(ModelEvent::End(stop));
}

/// Parses the arguments of a call as a model wrote them. A value other than an object becomes its
/// text: the executor rejects it, and the model can correct it.
pub(super) fn arguments(text: &str) -> Value {
    // Servers write missing arguments in both ways.
    if matches!(text.trim(), "" | "null") {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(_) | Err(_) => Value::String(text.to_owned()),
    }
}

/// Returns the name of a call for a server that takes up to `longest` ASCII letters, digits, `_`
/// and `-`. A model may have invented any name, which must not fail the whole conversation: an
/// unsupported name is written in those letters. The result contains the real name, and ids
/// distinguish the calls.
pub(super) fn tool_name_to_wire(name: &str, longest: usize) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if (1..=longest).contains(&name.len()) && name.chars().all(fits) {
        return name.to_owned();
    }
    // Not the name of a tool that is there and differs in a blank.
    "x_".chars()
        .chain(name.chars().map(|it| if fits(it) { it } else { '_' }))
        .take(longest)
        .collect()
}

/// Returns arguments as they go back to a server. All servers parse them, and some fail on values
/// that they wrote themselves, so a value other than an object is wrapped in one.
pub(super) fn arguments_to_wire(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => serde_json::json!({ "not_an_object": text }),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            serde_json::json!({ "not_an_object": arguments })
        }
    }
}
