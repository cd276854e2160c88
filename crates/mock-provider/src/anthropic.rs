//! Anthropic Messages, the server's side of it.
//!
//! <https://docs.anthropic.com/en/api/messages>,
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming>

use forge_runtime::{PlayedTurn, StopReason, Thinking, ToolCall, Usage, text_pieces};
use serde_json::{Value, json};

use super::parsed_request::{ConversationBuilder, ParsedRequest, joined, text_at, tools};
use super::stream_event::StreamEvent;

pub(super) fn read(body: &Value) -> ParsedRequest {
    let mut conversation = ConversationBuilder::default();
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("assistant") => said(message, &mut conversation),
            Some(_) | None => heard(message, &mut conversation),
        }
    }
    ParsedRequest {
        model: text_at(body, "model"),
        stream: body["stream"] == true,
        usage_in_stream: true,
        instructions: joined(&body["system"]),
        tools: tools(body, |tool| tool, "input_schema"),
        messages: conversation.done(),
    }
}

fn said(message: &Value, conversation: &mut ConversationBuilder) {
    conversation.turn();
    let Some(blocks) = message["content"].as_array() else {
        return conversation.text(&joined(&message["content"]));
    };
    for block in blocks {
        match block["type"].as_str() {
            Some("thinking") => conversation.thinking(Thinking {
                text: text_at(block, "thinking"),
                signature: block["signature"].as_str().map(str::to_owned),
            }),
            Some("tool_use") => conversation.call(ToolCall {
                id: text_at(block, "id"),
                tool: text_at(block, "name"),
                arguments: block["input"].clone(),
            }),
            Some(_) | None => conversation.text(&text_at(block, "text")),
        }
    }
}

fn heard(message: &Value, conversation: &mut ConversationBuilder) {
    let Some(blocks) = message["content"].as_array() else {
        return conversation.input(joined(&message["content"]));
    };
    for block in blocks {
        if block["type"] == "tool_result" {
            let failed = block["is_error"] == true;
            conversation.result(
                text_at(block, "tool_use_id"),
                joined(&block["content"]),
                failed,
            );
        } else {
            conversation.input(text_at(block, "text"));
        }
    }
}

/// The stream of a turn.
pub(super) fn stream(played: &PlayedTurn, id: &str, model: &str) -> Vec<StreamEvent> {
    let mut message = envelope(played, id, model);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(played.usage.output_tokens.min(1));
    let mut frames = vec![
        named(json!({"type": "message_start", "message": message})),
        named(json!({"type": "ping"})),
    ];
    for (index, block) in blocks(played).into_iter().enumerate() {
        let (start, deltas) = opened(&block);
        frames.push(named(
            json!({"type": "content_block_start", "index": index, "content_block": start}),
        ));
        for delta in deltas {
            frames.push(named(
                json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        frames.push(named(json!({"type": "content_block_stop", "index": index})));
    }
    frames.push(named(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(played), "stop_sequence": null},
        "usage": {"output_tokens": played.usage.output_tokens},
    })));
    frames.push(named(json!({"type": "message_stop"})));
    frames
}

/// Returns the turn in one piece.
pub(super) fn whole(played: &PlayedTurn, id: &str, model: &str) -> Value {
    let mut message = envelope(played, id, model);
    message["content"] = Value::Array(blocks(played));
    message
}

pub(super) fn failure(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub(super) fn failure_in_stream(message: &str) -> StreamEvent {
    StreamEvent::named("error", &failure(529, message))
}

fn envelope(played: &PlayedTurn, id: &str, model: &str) -> Value {
    json!({
        "id": format!("msg_{id}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_reason": stop_reason(played),
        "stop_sequence": null,
        "usage": usage(played.usage),
    })
}

/// Tokens read from the cache and written to it are counted separately.
fn usage(usage: Usage) -> Value {
    let cached = usage
        .cache_read_tokens
        .saturating_add(usage.cache_write_tokens);
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(cached),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    })
}

fn blocks(played: &PlayedTurn) -> Vec<Value> {
    let thinking = played.thinking.iter().map(
        |block| json!({"type": "thinking", "thinking": block.text, "signature": block.signature}),
    );
    let text = (!played.text.is_empty()).then(|| json!({"type": "text", "text": played.text}));
    let calls = played.calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments})
    });
    thinking.chain(text).chain(calls).collect()
}

/// Splits a block into its start and its deltas.
fn opened(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let cut = |text: &str, kind: &str, member: &str| -> Vec<Value> {
        text_pieces(text)
            .into_iter()
            .map(|piece| json!({"type": kind, member: piece}))
            .collect()
    };
    match block["type"].as_str() {
        Some("thinking") => {
            start["thinking"] = json!("");
            start["signature"] = json!("");
            let mut deltas = cut(&text_at(block, "thinking"), "thinking_delta", "thinking");
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
            (start, deltas)
        }
        Some("tool_use") => {
            start["input"] = json!({});
            let input = block["input"].to_string();
            (start, cut(&input, "input_json_delta", "partial_json"))
        }
        Some(_) | None => {
            start["text"] = json!("");
            let deltas = cut(&text_at(block, "text"), "text_delta", "text");
            (start, deltas)
        }
    }
}

fn stop_reason(played: &PlayedTurn) -> &'static str {
    match played.stop {
        StopReason::Done if played.calls.is_empty() => "end_turn",
        StopReason::Done => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refused => "refusal",
        StopReason::Unknown => "a_reason_of_the_future",
    }
}

/// Each event is named after its data's type.
fn named(data: Value) -> StreamEvent {
    let event = match data["type"].as_str() {
        Some("message_start") => "message_start",
        Some("content_block_start") => "content_block_start",
        Some("content_block_delta") => "content_block_delta",
        Some("content_block_stop") => "content_block_stop",
        Some("message_delta") => "message_delta",
        Some("message_stop") => "message_stop",
        Some(_) | None => "ping",
    };
    StreamEvent::named(event, &data)
}
