//! OpenAI Chat Completions, the server's side of it.
//!
//! <https://platform.openai.com/docs/api-reference/chat>; `reasoning_content` is the field for
//! thinking of DeepSeek, vLLM and others.

use forge_runtime::{PlayedTurn, StopReason, Thinking, ToolCall, Usage, text_pieces};
use serde_json::{Value, json};

use super::parsed_request::{
    ConversationBuilder, ParsedRequest, arguments, joined, text_at, tools,
};
use super::stream_event::{StreamEvent, interleaved};

pub(super) fn read(body: &Value) -> ParsedRequest {
    let mut instructions = Vec::new();
    let mut conversation = ConversationBuilder::default();
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = joined(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => instructions.push(content),
            Some("assistant") => said(message, &content, &mut conversation),
            Some("tool") => conversation.result(text_at(message, "tool_call_id"), content, false),
            Some(_) | None => conversation.input(content),
        }
    }
    ParsedRequest {
        model: text_at(body, "model"),
        stream: body["stream"] == true,
        usage_in_stream: body["stream_options"]["include_usage"] == true,
        instructions: instructions.join("\n\n"),
        tools: tools(body, |tool| &tool["function"], "parameters"),
        messages: conversation.done(),
    }
}

fn said(message: &Value, content: &str, conversation: &mut ConversationBuilder) {
    conversation.turn();
    if let Some(text) = message["reasoning_content"].as_str() {
        conversation.thinking(Thinking {
            text: text.to_owned(),
            signature: None,
        });
    }
    conversation.text(content);
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        conversation.call(ToolCall {
            id: text_at(call, "id"),
            tool: text_at(&call["function"], "name"),
            arguments: arguments(&text_at(&call["function"], "arguments")),
        });
    }
}

/// The stream of a turn.
pub(super) fn stream(
    played: &PlayedTurn,
    id: &str,
    model: &str,
    with_usage: bool,
) -> Vec<StreamEvent> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{id}"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
            "choices": choices,
        })
    };
    let delta = |delta: Value| {
        StreamEvent::plain(&chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
        ))
    };
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    for block in &played.thinking {
        for piece in text_pieces(&block.text) {
            frames.push(delta(json!({"reasoning_content": piece})));
        }
    }
    for piece in text_pieces(&played.text) {
        frames.push(delta(json!({"content": piece})));
    }
    for (index, call) in played.calls.iter().enumerate() {
        frames.push(delta(json!({"tool_calls": [{
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.tool, "arguments": ""},
        }]})));
    }
    let texts: Vec<String> = played
        .calls
        .iter()
        .map(|call| call.arguments.to_string())
        .collect();
    for (index, piece) in interleaved(&texts) {
        frames.push(delta(
            json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
        ));
    }
    let last = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(played)}]);
    frames.push(StreamEvent::plain(&chunk(last)));
    if with_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage(played.usage);
        frames.push(StreamEvent::plain(&last));
    }
    frames.push(StreamEvent {
        event: None,
        data: "[DONE]".to_owned(),
    });
    frames
}

/// Returns the turn in one piece.
pub(super) fn whole(played: &PlayedTurn, id: &str, model: &str) -> Value {
    let mut message = json!({"role": "assistant", "content": played.text, "refusal": null});
    if !played.thinking.is_empty() {
        let texts: String = played
            .thinking
            .iter()
            .map(|block| block.text.as_str())
            .collect();
        message["reasoning_content"] = json!(texts);
    }
    if !played.calls.is_empty() {
        let calls = played.calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments.to_string()},
            })
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": format!("chatcmpl-{id}"),
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(played)}],
        "usage": usage(played.usage),
    })
}

pub(super) fn failure(status: u16, message: &str) -> Value {
    let kind = match status {
        400 | 404 | 413 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

pub(super) fn failure_in_stream(message: &str) -> StreamEvent {
    StreamEvent::plain(&failure(503, message))
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    })
}

fn finish_reason(played: &PlayedTurn) -> &'static str {
    match played.stop {
        StopReason::Done if played.calls.is_empty() => "stop",
        StopReason::Done => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refused => "content_filter",
        StopReason::Unknown => "a_reason_of_the_future",
    }
}
