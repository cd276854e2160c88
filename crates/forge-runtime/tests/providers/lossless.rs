//! A conversation, to the wire and back: whatever a model said and was told, the next request
//! holds it all. A reader of requests, written from the vendors' pages, takes it out again.
//!
//! What a wire has no place for is left out before the comparison, and listed here: Chat
//! Completions carries no sealed thinking, and unsealed only beside calls; Anthropic and
//! Responses carry only sealed thinking; `is_error` goes over Anthropic alone; the texts of
//! several blocks are one; a name that vendors refuse is written in letters that they take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use forge_runtime::{
    Message, Model as _, ModelRequest, ProviderEndpoint, Thinking, ToolCall, ToolResult, Wire,
};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::events::turn;
use crate::server::{Reply, Server};

fn text() -> impl Strategy<Value = String> {
    // With a letter at least: a blank text is none.
    "[a-z]\\PC{0,12}[\\n\\r\\t\"\\\\\u{0}]?"
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(text(), inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop::collection::hash_map(text(), value(), 0..3)
            .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        1 => text().prop_map(Value::from),
    ]
}

/// What tools are called, and what nobody would call one.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zA-Z0-9_-]{1,64}",
        1 => "[a-z_]{60,140}",
        1 => "[a-z:.]{0,8}\\PC{0,12}[\n\u{0}\u{1b}]?",
    ]
}

fn thinking() -> impl Strategy<Value = Thinking> {
    prop_oneof![
        (text(), "[A-Za-z0-9+/]{4,12}=?").prop_map(|(text, signature)| Thinking {
            text,
            signature: Some(signature),
        }),
        "[A-Za-z0-9+/]{4,12}".prop_map(|data| Thinking {
            text: String::new(),
            signature: Some(format!("redacted:{data}")),
        }),
        text().prop_map(|text| Thinking {
            text,
            signature: None,
        }),
    ]
}

#[derive(Debug, Clone)]
struct Turn {
    text: String,
    thinking: Vec<Thinking>,
    calls: Vec<(String, Value, String, bool)>,
}

fn a_turn() -> impl Strategy<Value = Turn> {
    (
        prop_oneof![Just(String::new()), text()],
        prop::collection::vec(thinking(), 0..3),
        prop::collection::vec((name(), arguments(), text(), any::<bool>()), 1..4),
    )
        .prop_map(|(text, thinking, calls)| Turn {
            text,
            thinking,
            calls,
        })
}

fn conversation(input: String, turns: Vec<Turn>) -> Vec<Message> {
    let mut messages = vec![Message::Input { text: input }];
    for (nth, turn) in turns.into_iter().enumerate() {
        let id = |call: usize| format!("toolu_{nth}_{call}");
        let calls = turn.calls.iter().enumerate();
        messages.push(Message::Model {
            text: turn.text,
            thinking: turn.thinking,
            calls: calls
                .map(|(call, (name, arguments, ..))| ToolCall {
                    id: id(call),
                    tool: name.clone(),
                    arguments: arguments.clone(),
                })
                .collect(),
        });
        for (call, (name, _, content, is_error)) in turn.calls.into_iter().enumerate() {
            messages.push(Message::ToolResult(ToolResult {
                id: id(call),
                tool: name,
                content,
                is_error,
                detail: Value::Null,
            }));
        }
    }
    messages
}

/// A call's name, written in what vendors' pages say that they take.
fn name_on(wire: Wire, name: &str) -> String {
    let longest = if wire == Wire::Anthropic { 128 } else { 64 };
    let written: String = name
        .chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
            _ => '_',
        })
        .collect();
    if written == name && !name.is_empty() && name.len() <= longest {
        written
    } else {
        format!("x_{written}").chars().take(longest).collect()
    }
}

/// What is left of a conversation on a wire.
fn carried(wire: Wire, messages: &[Message]) -> Vec<Message> {
    let carries = |block: &Thinking| (wire == Wire::OpenAiChat) == block.signature.is_none();
    let mut messages = messages.to_vec();
    for message in &mut messages {
        match message {
            Message::Input { .. } => {}
            Message::ToolResult(result) => {
                result.is_error &= wire == Wire::Anthropic;
                result.tool.clear();
            }
            Message::Model {
                thinking, calls, ..
            } => {
                for call in calls {
                    call.tool = name_on(wire, &call.tool);
                }
                thinking.retain(carries);
                if wire == Wire::OpenAiChat && thinking.len() > 1 {
                    let texts: Vec<&str> = thinking.iter().map(|it| it.text.as_str()).collect();
                    *thinking = vec![Thinking {
                        text: texts.join("\n"),
                        signature: None,
                    }];
                }
            }
        }
    }
    messages
}

/// Reads the conversation out of a request.
fn read(wire: Wire, body: &Value) -> Vec<Message> {
    let mut messages = Vec::new();
    match wire {
        Wire::Anthropic => {
            for message in body["messages"].as_array().unwrap() {
                let is_model = message["role"] == "assistant";
                if is_model {
                    messages.push(silent());
                }
                for block in message["content"].as_array().unwrap() {
                    read_block(block, &mut messages);
                }
            }
        }
        Wire::OpenAiChat => {
            for message in body["messages"].as_array().unwrap() {
                match message["role"].as_str().unwrap() {
                    "system" => {}
                    "user" => messages.push(Message::Input {
                        text: string(&message["content"]),
                    }),
                    "tool" => messages.push(result(&message["tool_call_id"], &message["content"])),
                    "assistant" => {
                        messages.push(silent());
                        if let Some(thought) = message.get("reasoning_content") {
                            think(&mut messages, string(thought), None);
                        }
                        say(&mut messages, message["content"].as_str().unwrap_or(""));
                        for call in message["tool_calls"].as_array().into_iter().flatten() {
                            let function = &call["function"];
                            let arguments = serde_json::from_str(&string(&function["arguments"]));
                            make(
                                &mut messages,
                                &call["id"],
                                &function["name"],
                                arguments.unwrap(),
                            );
                        }
                    }
                    other => panic!("{other}"),
                }
            }
        }
        Wire::OpenAiResponses => {
            for item in body["input"].as_array().unwrap() {
                let kind = item["type"].as_str().unwrap();
                let is_model =
                    matches!(kind, "reasoning" | "function_call") || item["role"] == "assistant";
                if is_model && !matches!(messages.last(), Some(Message::Model { .. })) {
                    messages.push(silent());
                }
                match kind {
                    "message" if is_model => say(&mut messages, item["content"].as_str().unwrap()),
                    "message" => messages.push(Message::Input {
                        text: string(&item["content"]),
                    }),
                    "reasoning" => {
                        let text = item.pointer("/summary/0/text").map(string);
                        let sealed = string(&item["encrypted_content"]);
                        think(&mut messages, text.unwrap_or_default(), Some(sealed));
                    }
                    "function_call" => {
                        let arguments = serde_json::from_str(&string(&item["arguments"]));
                        make(
                            &mut messages,
                            &item["call_id"],
                            &item["name"],
                            arguments.unwrap(),
                        );
                    }
                    "function_call_output" => {
                        messages.push(result(&item["call_id"], &item["output"]));
                    }
                    other => panic!("{other}"),
                }
            }
        }
    }
    messages
}

fn read_block(block: &Value, messages: &mut Vec<Message>) {
    let is_model = matches!(messages.last(), Some(Message::Model { .. }));
    match block["type"].as_str().unwrap() {
        "text" if is_model => say(messages, block["text"].as_str().unwrap()),
        "text" => messages.push(Message::Input {
            text: string(&block["text"]),
        }),
        "thinking" => {
            let signature = string(&block["signature"]);
            think(messages, string(&block["thinking"]), Some(signature));
        }
        "redacted_thinking" => {
            let data = format!("redacted:{}", string(&block["data"]));
            think(messages, String::new(), Some(data));
        }
        "tool_use" => make(
            messages,
            &block["id"],
            &block["name"],
            block["input"].clone(),
        ),
        "tool_result" => {
            let mut message = result(&block["tool_use_id"], &block["content"]);
            if let Message::ToolResult(result) = &mut message {
                result.is_error = block["is_error"].as_bool().unwrap_or(false);
            }
            messages.push(message);
        }
        other => panic!("{other}"),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn silent() -> Message {
    Message::Model {
        text: String::new(),
        thinking: vec![],
        calls: vec![],
    }
}

fn result(id: &Value, content: &Value) -> Message {
    Message::ToolResult(ToolResult {
        id: string(id),
        tool: String::new(),
        content: string(content),
        is_error: false,
        detail: Value::Null,
    })
}

fn say(messages: &mut [Message], more: &str) {
    if let Some(Message::Model { text, .. }) = messages.last_mut() {
        text.push_str(more);
    }
}

fn think(messages: &mut [Message], text: String, signature: Option<String>) {
    if let Some(Message::Model { thinking, .. }) = messages.last_mut() {
        thinking.push(Thinking { text, signature });
    }
}

fn make(messages: &mut [Message], id: &Value, tool: &Value, arguments: Value) {
    // What was no object went inside of one.
    let arguments = match arguments.get("not_an_object") {
        Some(text) => text.clone(),
        None => arguments,
    };
    if let Some(Message::Model { calls, .. }) = messages.last_mut() {
        calls.push(ToolCall {
            id: string(id),
            tool: string(tool),
            arguments,
        });
    }
}

/// One server and one client for all cases of a wire.
struct Wired {
    runtime: tokio::runtime::Runtime,
    servers: HashMap<Wire, (Server, forge_runtime::HttpModel)>,
    taken: Mutex<HashMap<Wire, usize>>,
}

impl Wired {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let servers = Wire::ALL.map(|wire| {
            // What comes back does not matter.
            let refusal = "HTTP/1.1 418 Tea\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let server = runtime.block_on(Server::start(vec![Reply::new(refusal)]));
            let provider = ProviderEndpoint::new("test", wire, &server.url, 64).unwrap();
            (wire, (server, provider.model("m").unwrap()))
        });
        Wired {
            runtime,
            servers: servers.into(),
            taken: Mutex::default(),
        }
    }

    /// The request that a conversation makes.
    fn ask(&self, wire: Wire, messages: Vec<Message>) -> Value {
        let (server, model) = &self.servers[&wire];
        let request = Arc::new(ModelRequest {
            worker: "main".into(),
            instructions: "Be brief.".into(),
            tools: vec![],
            messages,
        });
        assert!(!model.name().is_empty());
        let _refused = self.runtime.block_on(turn(model, request));
        let mut taken = self.taken.lock().unwrap();
        let nth = taken.entry(wire).or_default();
        *nth += 1;
        server.seen()[*nth - 1].body.clone()
    }
}

#[test]
fn nothing_is_lost() {
    let wired = Wired::new();
    let strategy = (text(), prop::collection::vec(a_turn(), 0..4));
    let config = ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest::test_runner::TestRunner::new(config)
        .run(&strategy, |(input, turns)| {
            let messages = conversation(input, turns);
            for wire in Wire::ALL {
                let body = wired.ask(wire, messages.clone());
                prop_assert_eq!(read(wire, &body), carried(wire, &messages), "{}", wire);
            }
            Ok(())
        })
        .unwrap();
}

/// What comes as an answer goes back as it was: each recorded turn, put into a conversation.
#[test]
fn answers_go_back() {
    let wired = Wired::new();
    for fixture in crate::fixture::Fixture::all() {
        let mut said = silent();
        for line in &fixture.expected {
            let Message::Model {
                text,
                thinking,
                calls,
            } = &mut said
            else {
                unreachable!();
            };
            if let Some(more) = line.get("text") {
                text.push_str(more.as_str().unwrap());
            } else if let Some(block) = line.get("thinking") {
                thinking.push(serde_json::from_value(block.clone()).unwrap());
            } else if let Some(call) = line.get("call") {
                calls.push(serde_json::from_value(call.clone()).unwrap());
            }
        }
        if matches!(&said, Message::Model { calls, .. } if calls.is_empty()) {
            continue;
        }
        let input = Message::Input { text: "go".into() };
        let messages = vec![input, said];
        let body = wired.ask(fixture.wire, messages.clone());
        let expected = carried(fixture.wire, &messages);
        assert_eq!(read(fixture.wire, &body), expected, "{}", fixture.name);
    }
}
