//! A conversation as a request.
//!
//! This wire has no field for sealed thinking or for "this result is an error": the text of a
//! result says so itself. Unsealed thinking goes back with the calls it led to, as its vendors
//! request, and nowhere else.

use serde_json::{Value, json};

use crate::model::{Message, ModelRequest, Thinking, ToolCall};
use crate::providers::turn_reader::{arguments_to_wire, tool_name_to_wire};

/// Longest name of a call.
const NAME_LETTERS: usize = 64;

sandbox_names::word_enum! {
    /// The field for the limit on an answer. Many servers refuse the newer name or, worse, ignore it;
    /// some models refuse the older one, with a message that names the other.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::providers) enum LimitName {
        MaxTokens = "max_tokens",
        MaxCompletionTokens = "max_completion_tokens",
    }
    fn as_str
}

/// The body of a request for the next turn.
pub(in crate::providers) fn ask(
    model: &str,
    max_tokens: u64,
    limit: LimitName,
    stream: bool,
    request: &ModelRequest,
) -> Value {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.instructions.trim().is_empty() {
        messages.push(json!({"role": "system", "content": request.instructions}));
    }
    messages.extend(request.messages.iter().map(message));
    let mut body = json!({
        "model": model,
        limit.as_str(): max_tokens,
        "stream": stream,
        "messages": messages,
    });
    if stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                }})
            })
            .collect();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::Input { text } => json!({"role": "user", "content": text}),
        Message::ToolResult(result) => json!({
            "role": "tool",
            "tool_call_id": result.id,
            "content": result.content,
        }),
        Message::Model { text, calls, .. } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Model {
            text,
            thinking,
            calls,
        } => {
            let mut said = json!({
                "role": "assistant",
                "content": if text.is_empty() { Value::Null } else { text.as_str().into() },
                "tool_calls": calls.iter().map(call).collect::<Vec<_>>(),
            });
            if let Some(thought) = unsealed(thinking) {
                said["reasoning_content"] = Value::String(thought);
            }
            said
        }
    }
}

fn unsealed(thinking: &[Thinking]) -> Option<String> {
    let texts: Vec<&str> = thinking
        .iter()
        .filter(|block| block.signature.is_none() && !block.text.is_empty())
        .map(|block| block.text.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {
        "name": tool_name_to_wire(&call.tool, NAME_LETTERS),
        "arguments": arguments_to_wire(&call.arguments).to_string(),
    }})
}
