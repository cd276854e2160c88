//! A conversation as a request.
//!
//! Roles alternate here: all results of a turn's calls go back in one message of the user, the
//! results first. Thinking goes back unchanged, at the start of its turn. A text must not be blank.

use serde_json::{Value, json};

use super::REDACTED;
use crate::model::{Message, ModelRequest, Thinking, ToolCall, ToolResult};
use crate::providers::turn_reader::{arguments_to_wire, tool_name_to_wire};

/// Replaces an empty input, which a worker may have and this wire refuses.
const NO_INPUT: &str = "(no input)";

/// Longest name of a call.
const NAME_LETTERS: usize = 128;

/// Returns the mark for the end of the unchanged part of the conversation, which the provider
/// caches for the next turn.
fn cache() -> Value {
    json!({"type": "ephemeral"})
}

/// The body of a request for the next turn.
pub(in crate::providers) fn ask(
    model: &str,
    max_tokens: u64,
    stream: bool,
    request: &ModelRequest,
) -> Value {
    let mut body = json!({
        "model": model,
        "max_tokens": max_tokens,
        "stream": stream,
        "messages": messages(&request.messages),
    });
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    // Tools come before the instructions, so that the mark on those covers both.
    if !request.instructions.trim().is_empty() {
        body["system"] = json!([
            {"type": "text", "text": request.instructions, "cache_control": cache()},
        ]);
    } else if let Some(last) = tools.last_mut() {
        last["cache_control"] = cache();
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    body
}

fn messages(conversation: &[Message]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in conversation {
        let (role, blocks) = match message {
            Message::Input { text } => ("user", vec![input(text)]),
            Message::ToolResult(result) => ("user", vec![tool_result(result)]),
            Message::Model {
                text,
                thinking,
                calls,
            } => ("assistant", said(text, thinking, calls)),
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            Some(_) | None => turns.push((role, blocks)),
        }
    }
    // The end of this request, and that of the one before: the provider looks back only a few
    // blocks from a mark, and a turn may have had more.
    let users = turns.iter_mut().rev().filter(|(role, _)| *role == "user");
    for (_, content) in users.take(2) {
        if let Some(last) = content.last_mut() {
            last["cache_control"] = cache();
        }
    }
    turns
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

fn input(text: &str) -> Value {
    let text = if text.trim().is_empty() {
        NO_INPUT
    } else {
        text
    };
    json!({"type": "text", "text": text})
}

fn said(text: &str, thinking: &[Thinking], calls: &[ToolCall]) -> Vec<Value> {
    let mut blocks: Vec<Value> = thinking.iter().filter_map(thought).collect();
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks.extend(calls.iter().map(|call| {
        json!({
            "type": "tool_use",
            "id": id(&call.id),
            "name": tool_name_to_wire(&call.tool, NAME_LETTERS),
            "input": arguments_to_wire(&call.arguments),
        })
    }));
    blocks
}

/// An unsealed block is from another provider, and would be refused.
fn thought(block: &Thinking) -> Option<Value> {
    let signature = block.signature.as_deref()?;
    Some(match signature.strip_prefix(REDACTED) {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": block.text, "signature": signature}),
    })
}

fn tool_result(result: &ToolResult) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": id(&result.id),
        "content": result.content,
    });
    if result.is_error {
        block["is_error"] = Value::Bool(true);
    }
    block
}

/// An id as this wire takes it; others are written in its letters, each in one way.
fn id(id: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !id.is_empty() && id.bytes().all(fits) {
        return id.to_owned();
    }
    id.bytes()
        .fold("x_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}
