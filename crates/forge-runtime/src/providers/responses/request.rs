//! A conversation as a request: a flat list of items. This wire has no field for "this result is an
//! error": the text of a result says so itself.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model::{Message, ModelRequest, Thinking};
use crate::providers::turn_reader::{arguments_to_wire, tool_name_to_wire};

/// Longest name of a call.
const NAME_LETTERS: usize = 64;
/// Longest id of a call.
const ID_LETTERS: usize = 64;

/// The request for sealed thinking. Models without thinking refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::providers) enum SealedThinking {
    Wanted,
    NotThere,
}

/// The body of a request for the next turn.
pub(in crate::providers) fn ask(
    model: &str,
    max_tokens: u64,
    sealed: SealedThinking,
    stream: bool,
    request: &ModelRequest,
) -> Value {
    let mut input = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        items(message, &mut input);
    }
    let mut body = json!({
        "model": model,
        "max_output_tokens": max_tokens,
        "stream": stream,
        "store": false,
        "input": input,
    });
    if sealed == SealedThinking::Wanted {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.instructions.trim().is_empty() {
        body["instructions"] = Value::String(request.instructions.clone());
    }
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                    // Otherwise schemas are held to a subset that ours are not written in.
                    "strict": false,
                })
            })
            .collect();
    }
    body
}

fn items(message: &Message, input: &mut Vec<Value>) {
    match message {
        Message::Input { text } => {
            input.push(json!({"type": "message", "role": "user", "content": text}));
        }
        Message::ToolResult(result) => input.push(json!({
            "type": "function_call_output",
            "call_id": id(&result.id),
            "output": result.content,
        })),
        Message::Model {
            text,
            thinking,
            calls,
        } => {
            input.extend(thinking.iter().filter_map(thought));
            if !text.is_empty() {
                input.push(json!({"type": "message", "role": "assistant", "content": text}));
            }
            input.extend(calls.iter().map(|call| {
                json!({
                    "type": "function_call",
                    "call_id": id(&call.id),
                    "name": tool_name_to_wire(&call.tool, NAME_LETTERS),
                    "arguments": arguments_to_wire(&call.arguments).to_string(),
                })
            }));
        }
    }
}

/// Unsealed thinking is useless here: the provider stores none that it could look up.
fn thought(block: &Thinking) -> Option<Value> {
    let sealed = block.signature.as_deref()?;
    let summary = match block.text.as_str() {
        "" => json!([]),
        text => json!([{"type": "summary_text", "text": text}]),
    };
    Some(json!({"type": "reasoning", "summary": summary, "encrypted_content": sealed}))
}

/// Returns an id as this wire takes it. Servers of other wires give longer ones, and a run can be
/// resumed with another model: those are replaced by their hash, in the call and in its result.
/// Within forge a call has its original id.
fn id(id: &str) -> String {
    if id.chars().count() <= ID_LETTERS {
        return id.to_owned();
    }
    sandbox_names::hex(&Sha256::digest(id)[..ID_LETTERS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ToolCall, ToolResult};

    #[test]
    fn a_call_and_its_result_have_one_id_that_fits() {
        let ids = [
            "a".to_owned(),
            "b".repeat(64),
            "c".repeat(65),
            "c".repeat(66),
            "é".repeat(64),
            "d".repeat(100_000),
        ];
        let call = |id: &String| ToolCall {
            id: id.clone(),
            tool: "t".into(),
            arguments: json!({}),
        };
        let result = |id: &String| {
            Message::ToolResult(ToolResult {
                id: id.clone(),
                tool: "t".into(),
                content: String::new(),
                is_error: false,
                detail: Value::Null,
            })
        };
        let mut input = Vec::new();
        let turn = Message::Model {
            text: String::new(),
            thinking: Vec::new(),
            calls: ids.iter().map(call).collect(),
        };
        items(&turn, &mut input);
        ids.iter()
            .map(result)
            .for_each(|message| items(&message, &mut input));
        let sent: Vec<&str> = input
            .iter()
            .filter_map(|item| item["call_id"].as_str())
            .collect();
        let (calls, results) = sent.split_at(ids.len());
        assert_eq!(calls, results);
        assert!(
            calls.iter().all(|id| id.chars().count() <= ID_LETTERS),
            "{calls:?}"
        );
        assert_eq!(
            calls
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            ids.len()
        );
        // What fits is sent as it came.
        assert_eq!([calls[0], calls[1], calls[4]], [&ids[0], &ids[1], &ids[4]]);
    }
}
