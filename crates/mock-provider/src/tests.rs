//! The server against anybody on the machine, and the schemas against requests.

use std::sync::Arc;
use std::time::Duration;

use forge_runtime::{Message, ModelRequest, Playbook, ScriptedModel, Wire};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::pending::{PendingGuard, PendingTurns};
use super::schemas;
use super::server::{ServerState, serve};

const WIRES: [Wire; 3] = [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses];

/// A server with one turn on its way, whose key is `good`.
async fn started(wire: Wire) -> (std::net::SocketAddr, PendingGuard) {
    let playbook = Playbook::parse("version: 1\nworkers: {main: [{say: the answer}]}").unwrap();
    let state = Arc::new(ServerState {
        wire,
        scripted: ScriptedModel::new("test", playbook),
        pending: Arc::new(PendingTurns::default()),
    });
    let guard = state.pending.lay(
        "good",
        Arc::new(ModelRequest {
            worker: "main".into(),
            instructions: "Go.".into(),
            tools: vec![],
            messages: vec![Message::Input { text: "go".into() }],
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, state));
    (address, guard)
}

/// Sends bytes and reads what comes.
async fn sent(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    exchanged(address, bytes, false).await
}

/// The same, and says that there are no more if that is the `end`.
async fn exchanged(address: std::net::SocketAddr, bytes: &[u8], end: bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may end before it has read everything.
    let _ = stream.write_all(bytes).await;
    if end {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(600), read)
        .await
        .expect("the server answers or ends");
    String::from_utf8_lossy(&answer).into_owned()
}

fn good(wire: Wire) -> Value {
    match wire {
        Wire::Anthropic => json!({
            "model": "m", "max_tokens": 9, "system": "Go.",
            "messages": [{"role": "user", "content": "go"}],
        }),
        Wire::OpenAiChat => json!({"model": "m", "messages": [
            {"role": "developer", "content": "Go."}, {"role": "user", "content": "go"},
        ]}),
        Wire::OpenAiResponses => {
            json!({"model": "m", "instructions": "Go.", "input": "go"})
        }
    }
}

fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "/v1/messages",
        Wire::OpenAiChat => "/v1/chat/completions",
        Wire::OpenAiResponses => "/v1/responses",
    }
}

fn keyed(wire: Wire, key: &str) -> String {
    match wire {
        Wire::Anthropic => format!("x-api-key: {key}\r\nanthropic-version: 2023-06-01"),
        Wire::OpenAiChat | Wire::OpenAiResponses => {
            format!("authorization: Bearer {key}")
        }
    }
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[tokio::test]
async fn only_a_request_with_the_key_and_the_conversation_gets_an_answer() {
    for wire in WIRES {
        let (address, _laid) = started(wire).await;
        let body = good(wire);
        let with = |change: fn(&mut Value)| {
            let mut body = good(wire);
            change(&mut body);
            body.to_string()
        };
        let whole = body.to_string();
        let cases = [
            (path(wire), "good", whole.clone(), "200 OK", "the answer"),
            (path(wire), "", whole.clone(), "401", "the key is not one"),
            (
                path(wire),
                "bad",
                whole.clone(),
                "401",
                "the key is not one",
            ),
            (
                path(wire),
                "Good",
                whole.clone(),
                "401",
                "the key is not one",
            ),
            ("/", "good", whole.clone(), "404", "this is not POST"),
            (
                "/v1/models",
                "good",
                whole.clone(),
                "404",
                "this is not POST",
            ),
            (path(wire), "good", "{".to_owned(), "400", "is not JSON"),
            (
                path(wire),
                "good",
                "[]".to_owned(),
                "400",
                "documented shape",
            ),
            (
                path(wire),
                "good",
                with(|b| b["modle"] = json!(1)),
                "400",
                "documented shape",
            ),
            (
                path(wire),
                "good",
                with(|b| b["model"] = json!(7)),
                "400",
                "documented shape",
            ),
            (
                path(wire),
                "good",
                whole.replace("\"go\"", "\"went\""),
                "400",
                "the request is not the conversation: entry 0 was sent as an input of 2 bytes, \
                 and came as an input of 4 bytes",
            ),
            (
                path(wire),
                "good",
                whole.replace("Go.", "Stay."),
                "400",
                "its instructions are not",
            ),
        ];
        for (path, key, body, status, says) in cases {
            let answer = sent(address, &post(path, &keyed(wire, key), body.as_bytes())).await;
            let first = answer.lines().next().unwrap_or_default();
            assert!(first.contains(status), "{wire:?} {key} {body}: {answer}");
            assert!(answer.contains(says), "{wire:?} {key} {body}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_key_opens_nothing_once_its_turn_is_over() {
    let wire = Wire::OpenAiChat;
    let (address, guard) = started(wire).await;
    drop(guard);
    let body = good(wire).to_string();
    let answer = sent(
        address,
        &post(path(wire), &keyed(wire, "good"), body.as_bytes()),
    )
    .await;
    assert!(answer.contains("401"), "{answer}");
}

#[tokio::test]
async fn a_body_without_end_is_not_read() {
    let wire = Wire::Anthropic;
    let (address, _laid) = started(wire).await;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{}\r\n\
         content-length: 99999999999\r\n\r\n",
        keyed(wire, "good")
    );
    let answer = sent(address, head.as_bytes()).await;
    // Its length says enough.
    assert!(answer.contains("413"), "{answer}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever comes, the next request is answered.
    #[test]
    fn garbage_ends_nothing(
        garbage in prop::collection::vec(any::<u8>(), 0..600),
        kind in 0..4_u8,
        wire in prop::sample::select(WIRES.to_vec()),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (address, _laid) = started(wire).await;
            let bytes = match kind {
                0 => garbage.clone(),
                1 => post(path(wire), &keyed(wire, "good"), &garbage),
                2 => {
                    let mut bytes = post(path(wire), &keyed(wire, "good"), b"");
                    bytes.truncate(bytes.len() / 2);
                    bytes.extend(&garbage);
                    bytes
                }
                _ => {
                    let text = json!({"model": garbage, "messages": [garbage]}).to_string();
                    post(path(wire), &keyed(wire, "good"), text.as_bytes())
                }
            };
            let answer = exchanged(address, &bytes, matches!(kind, 0 | 2)).await;
            prop_assert!(!answer.contains("200 OK"), "{}", answer);
            let body = good(wire).to_string();
            let answer = sent(address, &post(path(wire), &keyed(wire, "good"), body.as_bytes())).await;
            prop_assert!(answer.contains("the answer"), "{}", answer);
            Ok(())
        })?;
    }
}

/// Whoever holds connections open and says nothing keeps no turn waiting.
#[tokio::test]
async fn strangers_are_in_nobodys_way() {
    let wire = Wire::Anthropic;
    let (address, _laid) = started(wire).await;
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let body = good(wire).to_string();
    let request = post(path(wire), &keyed(wire, "good"), body.as_bytes());
    // Far less than the half minute for which a head was waited for.
    let answer = tokio::time::timeout(Duration::from_secs(600), sent(address, &request));
    assert!(answer.await.unwrap().contains("the answer"));
    // The oldest are gone.
    let mut byte = [0];
    let gone = tokio::time::timeout(Duration::from_secs(600), silent[0].read(&mut byte));
    assert!(!matches!(gone.await.unwrap(), Ok(1..)));
}

#[test]
fn the_schemas_are_schemas_and_hold() {
    for wire in WIRES {
        schemas::check(wire, &good(wire)).unwrap();
        for wrong in [json!(null), json!({}), json!({"model": "m"}), json!("text")] {
            assert!(schemas::check(wire, &wrong).is_err(), "{wire:?} {wrong}");
        }
    }
    let tool_turn = |wire| match wire {
        Wire::Anthropic => json!({"model": "m", "max_tokens": 9, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "a_1", "name": "t", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a_1", "content": "", "is_error": true},
            ]},
        ]}),
        Wire::OpenAiChat => json!({"model": "m", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": ""},
        ]}),
        Wire::OpenAiResponses => json!({"model": "m", "input": [
            {"type": "message", "role": "user", "content": "go"},
            {"type": "reasoning", "summary": [], "encrypted_content": "s"},
            {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": ""},
        ]}),
    };
    // What vendors refuse, each a single change to a request that they take.
    let refused: [(Wire, &str, Value); 14] = [
        (WIRES[0], "/messages/1/content/1/input", json!("{}")),
        (WIRES[0], "/messages/1/content/1/id", json!("a.1")),
        (WIRES[0], "/messages/1/content/0/signature", json!("")),
        (WIRES[0], "/messages/1/content", json!([])),
        (WIRES[0], "/messages/0/content", json!(" \n")),
        (WIRES[0], "/messages/0/role", json!("system")),
        (WIRES[0], "/max_tokens", json!(0)),
        (
            WIRES[1],
            "/messages/1/tool_calls/0/function/arguments",
            json!({}),
        ),
        (WIRES[1], "/messages/1/tool_calls", json!([])),
        (WIRES[1], "/messages/2/tool_call_id", json!("")),
        (WIRES[1], "/messages/0/role", json!("tool")),
        (WIRES[2], "/input/2/arguments", json!({})),
        (WIRES[2], "/input/2/call_id", json!("")),
        (WIRES[2], "/input/1/type", json!("thinking")),
    ];
    for (wire, place, value) in refused {
        let mut body = tool_turn(wire);
        schemas::check(wire, &body).unwrap();
        *body.pointer_mut(place).unwrap() = value;
        assert!(schemas::check(wire, &body).is_err(), "{place} {body}");
    }
}
