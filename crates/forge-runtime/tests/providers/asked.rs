//! What a server is asked: a conversation as each wire writes it.

use std::sync::Arc;

use forge_runtime::{
    Message, ModelError, ModelEvent, ModelRequest, ProviderEndpoint, ProviderKey, Thinking,
    ToolCall, ToolDescription, ToolResult, Wire,
};
use serde_json::{Value, json};

use crate::events::{hello, lines, turn};
use crate::fixture::{Fixture, Framing};
use crate::server::{Reply, Seen, Server};

fn result(id: &str, content: &str, is_error: bool) -> Message {
    Message::ToolResult(ToolResult {
        id: id.into(),
        tool: "read_file".into(),
        content: content.into(),
        is_error,
        detail: json!({"for": "programs"}),
    })
}

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: id.into(),
        tool: "read_file".into(),
        arguments,
    }
}

fn conversation() -> Arc<ModelRequest> {
    let thought = |text: &str, signature: Option<&str>| Thinking {
        text: text.into(),
        signature: signature.map(Into::into),
    };
    Arc::new(ModelRequest {
        worker: "main".into(),
        instructions: "Audit.".into(),
        tools: vec![ToolDescription {
            name: "read_file".into(),
            description: "Reads.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        messages: vec![
            Message::Input { text: " ".into() },
            Message::Model {
                text: "Two at once.".into(),
                thinking: vec![
                    thought("Hm.", Some("c2lnbg==")),
                    thought("", Some("redacted:ZGF0YQ==")),
                ],
                calls: vec![
                    call("c1", json!({"path": "/a"})),
                    call("c 2", json!("{path: /b}")),
                ],
            },
            result("c1", "one", false),
            result("c 2", "no such file", true),
            Message::Model {
                text: String::new(),
                thinking: vec![thought("In the open.", None)],
                calls: vec![call("c3", json!({}))],
            },
            result("c3", "", false),
            Message::Model {
                text: String::new(),
                thinking: vec![],
                calls: vec![],
            },
            Message::Input {
                text: "Go on.".into(),
            },
        ],
    })
}

async fn seen(wire: Wire, stream: bool, request: Arc<ModelRequest>) -> Seen {
    let fixture = Fixture::named(&format!("{wire}/{}", if stream { "text" } else { "whole" }));
    let server = Server::start(vec![Reply::new(fixture.response(Framing::Length))]).await;
    let provider = ProviderEndpoint::new("test", wire, &server.url, 4_096)
        .unwrap()
        .key(ProviderKey::new("sk-canary").unwrap())
        .stream(stream);
    // A name that a library once took for a wish to think less.
    let found = turn(&provider.model("m-high").unwrap(), request).await;
    assert_eq!(lines(&found), fixture.expected);
    server.seen().remove(0)
}

#[tokio::test]
async fn anthropic() {
    let seen = seen(Wire::Anthropic, true, conversation()).await;
    assert!(
        seen.head.starts_with("post /v1/messages http/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(seen.head.contains("\r\nx-api-key: sk-canary\r\n"));
    assert!(seen.head.contains("\r\nanthropic-version: 2023-06-01\r\n"));
    assert!(!seen.head.contains("authorization"));
    let mark = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "m-high",
        "max_tokens": 4096,
        "stream": true,
        "system": [{"type": "text", "text": "Audit.", "cache_control": mark}],
        "tools": [{"name": "read_file", "description": "Reads.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "(no input)"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbg=="},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "Two at once."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "/a"}},
                {"type": "tool_use", "id": "x_632032", "name": "read_file",
                    "input": {"not_an_object": "{path: /b}"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "x_632032", "content": "no such file",
                    "is_error": true, "cache_control": mark},
            ]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c3", "name": "read_file", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c3", "content": ""},
                {"type": "text", "text": "Go on.", "cache_control": mark},
            ]},
        ],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn chat() {
    let seen = seen(Wire::OpenAiChat, true, conversation()).await;
    assert!(
        seen.head
            .starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(
        seen.head
            .contains("\r\nauthorization: bearer sk-canary\r\n")
    );
    let call = |id: &str, arguments: &str| {
        json!({"id": id, "type": "function",
            "function": {"name": "read_file", "arguments": arguments}})
    };
    let expected = json!({
        "model": "m-high",
        "max_tokens": 4096,
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "read_file", "description": "Reads.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
        "messages": [
            {"role": "system", "content": "Audit."},
            {"role": "user", "content": " "},
            {"role": "assistant", "content": "Two at once.", "tool_calls": [
                call("c1", "{\"path\":\"/a\"}"),
                call("c 2", "{\"not_an_object\":\"{path: /b}\"}"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c 2", "content": "no such file"},
            {"role": "assistant", "content": null, "reasoning_content": "In the open.",
                "tool_calls": [call("c3", "{}")]},
            {"role": "tool", "tool_call_id": "c3", "content": ""},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Go on."},
        ],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn responses() {
    let seen = seen(Wire::OpenAiResponses, true, conversation()).await;
    assert!(
        seen.head.starts_with("post /v1/responses http/1.1\r\n"),
        "{}",
        seen.head
    );
    let expected = json!({
        "model": "m-high",
        "max_output_tokens": 4096,
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Audit.",
        "tools": [{"type": "function", "name": "read_file", "description": "Reads.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "strict": false}],
        "input": [
            {"type": "message", "role": "user", "content": " "},
            {"type": "reasoning", "encrypted_content": "c2lnbg==",
                "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "reasoning", "encrypted_content": "redacted:ZGF0YQ==", "summary": []},
            {"type": "message", "role": "assistant", "content": "Two at once."},
            {"type": "function_call", "call_id": "c1", "name": "read_file",
                "arguments": "{\"path\":\"/a\"}"},
            {"type": "function_call", "call_id": "c 2", "name": "read_file",
                "arguments": "{\"not_an_object\":\"{path: /b}\"}"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c 2", "output": "no such file"},
            {"type": "function_call", "call_id": "c3", "name": "read_file", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c3", "output": ""},
            {"type": "message", "role": "user", "content": "Go on."},
        ],
    });
    assert_eq!(seen.body, expected);
}

/// A model may make up any name for a call. What a vendor would refuse, and the whole
/// conversation with it, goes back written in its letters; the result says which it was.
#[tokio::test]
async fn calls_of_any_name() {
    let row = |name: &str, on_anthropic: &str, elsewhere: &str| {
        [name, on_anthropic, elsewhere].map(ToOwned::to_owned)
    };
    let same = |name: &str, written: &str| row(name, written, written);
    let long = |count: usize| "a".repeat(count);
    let cut = |count: usize| format!("x_{}", long(count));
    let rows = [
        same("read_file", "read_file"),
        same("Read-2", "Read-2"),
        same("", "x_"),
        same("read file", "x_read_file"),
        same("::error::d", "x___error__d"),
        same("a\u{1b}[1m\n\0", "x_a__1m__"),
        same("é日👍", "x____"),
        same(&long(64), &long(64)),
        row(&long(65), &long(65), &cut(62)),
        row(&long(128), &long(128), &cut(62)),
        row(&long(129), &cut(126), &cut(62)),
        row(&long(300), &cut(126), &cut(62)),
    ];
    for [name, on_anthropic, elsewhere] in &rows {
        let said = format!("There is no tool named `{name}`.");
        let request = || {
            let mut request = ModelRequest::clone(&hello());
            let mut made = call("c1", json!({}));
            made.tool = name.clone();
            request.messages.push(Message::Model {
                text: String::new(),
                thinking: vec![],
                calls: vec![made],
            });
            request.messages.push(result("c1", &said, true));
            Arc::new(request)
        };
        for (wire, name_at, result_at, expected) in [
            (
                Wire::Anthropic,
                "/messages/1/content/0/name",
                "/messages/2/content/0/content",
                on_anthropic,
            ),
            (
                Wire::OpenAiChat,
                "/messages/2/tool_calls/0/function/name",
                "/messages/3/content",
                elsewhere,
            ),
            (
                Wire::OpenAiResponses,
                "/input/1/name",
                "/input/2/output",
                elsewhere,
            ),
        ] {
            let body = seen(wire, true, request()).await.body;
            assert_eq!(
                body.pointer(name_at),
                Some(&json!(expected)),
                "{wire} {name:?}: {body}"
            );
            assert_eq!(
                body.pointer(result_at),
                Some(&json!(said)),
                "{wire} {name:?}: {body}"
            );
        }
    }
}

/// In one piece, and without what is empty; the mark for the cache then stands on the tools.
#[tokio::test]
async fn less() {
    for wire in Wire::ALL {
        let body = seen(wire, false, hello()).await.body;
        assert_eq!(body["stream"], false, "{wire}");
        assert!(
            body.get("tools").is_none() && body.get("stream_options").is_none(),
            "{wire}"
        );
    }
    let mut request = ModelRequest::clone(&conversation());
    request.instructions.clear();
    let body = seen(Wire::Anthropic, true, Arc::new(request)).await.body;
    assert!(body.get("system").is_none());
    assert_eq!(body["tools"][0]["cache_control"]["type"], "ephemeral");
}

/// A model that refuses a word in the request is asked again without it, once, and never with it
/// again.
#[tokio::test]
async fn what_a_model_does_not_take() {
    let rows = [
        (
            Wire::OpenAiChat,
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_completion_tokens",
            "max_tokens",
        ),
        (
            Wire::OpenAiResponses,
            "Encrypted content is not supported with this model.",
            "model",
            "include",
        ),
    ];
    for (wire, words, then_there, then_gone) in rows {
        let refusal = json!({"error": {"message": words}}).to_string();
        let refusal = Reply::new(format!(
            "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n{refusal}"
        ));
        let fixture = Fixture::named(&format!("{wire}/text"));
        let answer = Reply::new(fixture.response(Framing::Length));
        let server = Server::start(vec![refusal.clone(), answer]).await;
        let provider = ProviderEndpoint::new("test", wire, &server.url, 64).unwrap();
        let model = provider.model("m").unwrap();
        for _turn in 0..2 {
            assert_eq!(
                lines(&turn(&model, hello()).await),
                fixture.expected,
                "{wire}"
            );
        }
        let seen = server.seen();
        assert_eq!(seen.len(), 3, "{wire}");
        assert!(seen[0].body.get(then_gone).is_some(), "{wire}");
        for seen in &seen[1..] {
            assert!(seen.body.get(then_there).is_some(), "{wire}");
            assert!(seen.body.get(then_gone).is_none(), "{wire}");
        }
        // A server that goes on complaining is not asked for ever.
        let server = Server::start(vec![refusal]).await;
        let provider = ProviderEndpoint::new("test", wire, &server.url, 64).unwrap();
        let found = turn(&provider.model("m").unwrap(), hello()).await;
        let rejected =
            |event: &ModelEvent| matches!(event, ModelEvent::Failed(ModelError::Rejected { .. }));
        assert!(found.last().is_some_and(rejected), "{wire}: {found:?}");
        assert_eq!(server.seen().len(), 2, "{wire}");
    }
}
