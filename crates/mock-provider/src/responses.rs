//! OpenAI Responses, the server's side of it.
//!
//! <https://platform.openai.com/docs/api-reference/responses>,
//! <https://platform.openai.com/docs/api-reference/responses-streaming>

use forge_runtime::{PlayedTurn, StopReason, Thinking, ToolCall, Usage, text_pieces};
use serde_json::{Value, json};

use super::parsed_request::{
    ConversationBuilder, ParsedRequest, arguments, joined, text_at, tools,
};
use super::stream_event::{StreamEvent, interleaved};

pub(super) fn read(body: &Value) -> ParsedRequest {
    let mut instructions: Vec<String> = Vec::new();
    instructions.extend(body["instructions"].as_str().map(str::to_owned));
    let mut conversation = ConversationBuilder::default();
    if let Some(text) = body["input"].as_str() {
        conversation.input(text.to_owned());
    }
    for item in body["input"].as_array().into_iter().flatten() {
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("function_call"), _) => conversation.call(ToolCall {
                id: text_at(item, "call_id"),
                tool: text_at(item, "name"),
                arguments: arguments(&text_at(item, "arguments")),
            }),
            (Some("function_call_output"), _) => {
                conversation.result(text_at(item, "call_id"), joined(&item["output"]), false);
            }
            (Some("reasoning"), _) => conversation.thinking(Thinking {
                text: joined(&item["summary"]),
                signature: item["encrypted_content"].as_str().map(str::to_owned),
            }),
            (_, Some("system" | "developer")) => instructions.push(joined(&item["content"])),
            (_, Some("assistant")) => conversation.text(&joined(&item["content"])),
            (_, _) => conversation.input(joined(&item["content"])),
        }
    }
    ParsedRequest {
        model: text_at(body, "model"),
        stream: body["stream"] == true,
        usage_in_stream: true,
        instructions: instructions.join("\n\n"),
        tools: tools(body, |tool| tool, "parameters"),
        messages: conversation.done(),
    }
}

/// The stream of a turn.
pub(super) fn stream(played: &PlayedTurn, id: &str, model: &str) -> Vec<StreamEvent> {
    let mut events = NumberedEvents::default();
    let mut begun = envelope(played, id, model);
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    begun["incomplete_details"] = Value::Null;
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));

    let items = items(played, id);
    let first_call = items.len() - played.calls.len();
    for (index, item) in items[..first_call].iter().enumerate() {
        match item["type"].as_str() {
            Some("reasoning") => events.reasoning(index, item),
            Some(_) | None => events.message(index, item),
        }
    }
    // Calls come side by side.
    let calls = &items[first_call..];
    for (nth, call) in calls.iter().enumerate() {
        let mut begun = call.clone();
        begun["arguments"] = json!("");
        begun["status"] = json!("in_progress");
        events.push(
            "response.output_item.added",
            json!({"output_index": first_call + nth, "item": begun}),
        );
    }
    let texts: Vec<String> = calls
        .iter()
        .map(|call| text_at(call, "arguments"))
        .collect();
    for (nth, piece) in interleaved(&texts) {
        events.push(
            "response.function_call_arguments.delta",
            json!({"item_id": calls[nth]["id"], "output_index": first_call + nth, "delta": piece}),
        );
    }
    for (nth, call) in calls.iter().enumerate() {
        let index = first_call + nth;
        events.push(
            "response.function_call_arguments.done",
            json!({"item_id": call["id"], "output_index": index, "arguments": call["arguments"]}),
        );
        events.push(
            "response.output_item.done",
            json!({"output_index": index, "item": call}),
        );
    }
    let last = match ending(played.stop).0 {
        "completed" => "response.completed",
        _ => "response.incomplete",
    };
    let mut done = envelope(played, id, model);
    done["output"] = Value::Array(items);
    events.push(last, json!({"response": done}));
    events.frames
}

/// Returns the turn in one piece.
pub(super) fn whole(played: &PlayedTurn, id: &str, model: &str) -> Value {
    let mut done = envelope(played, id, model);
    done["output"] = Value::Array(items(played, id));
    done
}

pub(super) fn failure(status: u16, message: &str) -> Value {
    super::chat::failure(status, message)
}

pub(super) fn failure_in_stream(message: &str) -> StreamEvent {
    let data = json!({
        "type": "error",
        "code": "server_error",
        "message": message,
        "param": null,
        "sequence_number": 0,
    });
    StreamEvent::named("error", &data)
}

/// Events are numbered.
#[derive(Default)]
struct NumberedEvents {
    frames: Vec<StreamEvent>,
}

impl NumberedEvents {
    fn push(&mut self, event: &'static str, mut data: Value) {
        data["type"] = json!(event);
        data["sequence_number"] = json!(self.frames.len());
        self.frames.push(StreamEvent::named(event, &data));
    }

    fn reasoning(&mut self, index: usize, item: &Value) {
        let id = &item["id"];
        let mut begun = item.clone();
        begun["summary"] = json!([]);
        begun["encrypted_content"] = Value::Null;
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": begun}),
        );
        let text = joined(&item["summary"]);
        if !text.is_empty() {
            let at = json!({"item_id": id, "output_index": index, "summary_index": 0});
            let with = |name: &str, value: Value| {
                let mut data = at.clone();
                data[name] = value;
                data
            };
            let part = json!({"type": "summary_text", "text": ""});
            self.push("response.reasoning_summary_part.added", with("part", part));
            for piece in text_pieces(&text) {
                self.push(
                    "response.reasoning_summary_text.delta",
                    with("delta", json!(piece)),
                );
            }
            self.push(
                "response.reasoning_summary_text.done",
                with("text", json!(text)),
            );
            let part = json!({"type": "summary_text", "text": text});
            self.push("response.reasoning_summary_part.done", with("part", part));
        }
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn message(&mut self, index: usize, item: &Value) {
        let text = joined(&item["content"]);
        let mut begun = item.clone();
        begun["content"] = json!([]);
        begun["status"] = json!("in_progress");
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": begun}),
        );
        let at = json!({"item_id": item["id"], "output_index": index, "content_index": 0});
        let with = |name: &str, value: Value| {
            let mut data = at.clone();
            data[name] = value;
            data
        };
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        self.push("response.content_part.added", with("part", part("")));
        for piece in text_pieces(&text) {
            self.push("response.output_text.delta", with("delta", json!(piece)));
        }
        self.push("response.output_text.done", with("text", json!(text)));
        self.push("response.content_part.done", with("part", part(&text)));
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }
}

fn envelope(played: &PlayedTurn, id: &str, model: &str) -> Value {
    let (status, reason) = ending(played.stop);
    json!({
        "id": format!("resp_{id}"),
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": null,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "model": model,
        "output": [],
        "usage": usage(played.usage),
    })
}

fn ending(stop: StopReason) -> (&'static str, Option<&'static str>) {
    match stop {
        StopReason::Done => ("completed", None),
        StopReason::MaxTokens => ("incomplete", Some("max_output_tokens")),
        StopReason::Refused => ("incomplete", Some("content_filter")),
        StopReason::Unknown => ("incomplete", Some("a_reason_of_the_future")),
    }
}

fn items(played: &PlayedTurn, id: &str) -> Vec<Value> {
    let thinking = played.thinking.iter().enumerate().map(|(nth, block)| {
        let summary = match block.text.as_str() {
            "" => json!([]),
            text => json!([{"type": "summary_text", "text": text}]),
        };
        json!({
            "type": "reasoning",
            "id": format!("rs_{id}_{nth}"),
            "summary": summary,
            "encrypted_content": block.signature,
        })
    });
    let text = (!played.text.is_empty()).then(|| {
        json!({
            "type": "message",
            "id": format!("msg_{id}"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": played.text, "annotations": []}],
        })
    });
    let calls = played.calls.iter().enumerate().map(|(nth, call)| {
        json!({
            "type": "function_call",
            "id": format!("fc_{id}_{nth}"),
            "call_id": call.id,
            "name": call.tool,
            "arguments": call.arguments.to_string(),
            "status": "completed",
        })
    });
    thinking.chain(text).chain(calls).collect()
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total(),
    })
}
