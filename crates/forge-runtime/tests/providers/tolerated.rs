//! What servers and gateways do to an answer that is there all the same: each row is taken, over a
//! socket, on every wire.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use forge_runtime::{
    Model as _, ModelError, ModelEvent, ProviderEndpoint, RetryingModel, StopReason, Wire,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::events::{hello, turn};
use crate::server::{Reply, Server};

/// How many tokens an answer says that it took.
struct Counts {
    input: Value,
    output: Value,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            input: json!(7),
            output: json!(3),
        }
    }
}

/// The events of an answer that says `text`.
fn events(wire: Wire, text: &str, counts: &Counts) -> Vec<Value> {
    let Counts { input, output } = counts;
    match wire {
        Wire::Anthropic => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": input}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}),
            json!({"type": "content_block_delta", "index": 0,
                   "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                   "usage": {"output_tokens": output}}),
            json!({"type": "message_stop"}),
        ],
        Wire::OpenAiChat => vec![
            json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": input, "completion_tokens": output}}),
        ],
        Wire::OpenAiResponses => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}),
            json!({"type": "response.completed", "response": in_one_piece(wire, text, counts)}),
        ],
    }
}

fn in_one_piece(wire: Wire, text: &str, counts: &Counts) -> Value {
    let Counts { input, output } = counts;
    match wire {
        Wire::Anthropic => json!({
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": input, "output_tokens": output},
        }),
        Wire::OpenAiChat => json!({
            "choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": input, "completion_tokens": output},
        }),
        Wire::OpenAiResponses => json!({
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
            "usage": {"input_tokens": input, "output_tokens": output},
        }),
    }
}

fn stream(wire: Wire, text: &str, counts: &Counts) -> String {
    let mut body: String = events(wire, text, counts)
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    if wire == Wire::OpenAiChat {
        body.push_str("data: [DONE]\n\n");
    }
    body
}

fn reply(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\n{head}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn gzip(body: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(body.as_bytes()).unwrap();
    packer.finish().unwrap()
}

async fn answered(wire: Wire, reply: Vec<u8>) -> Vec<ModelEvent> {
    let server = Server::start(vec![Reply::new(reply)]).await;
    let provider = ProviderEndpoint::new("test", wire, &server.url, 64).unwrap();
    turn(&provider.model("m").unwrap(), hello()).await
}

fn text_of(found: &[ModelEvent]) -> String {
    let text = |event: &ModelEvent| match event {
        ModelEvent::Text(text) => Some(text.clone()),
        _ => None,
    };
    found.iter().filter_map(text).collect()
}

const SSE: &str = "content-type: text/event-stream\r\n";
const JSON: &str = "content-type: application/json; charset=utf-8\r\n";

#[tokio::test]
async fn answers_that_are_there_all_the_same() {
    let usual = Counts::default();
    for wire in Wire::ALL {
        let stream = stream(wire, "Guten Tag", &usual);
        let whole = in_one_piece(wire, "Guten Tag", &usual).to_string();
        let marked = stream.trim_end().to_owned();
        let unmarked = marked.replace("\n\ndata: [DONE]", "");
        let last_missing = match wire {
            Wire::Anthropic => marked[..marked.rfind("data: ").unwrap()].to_owned(),
            Wire::OpenAiChat => unmarked.clone(),
            // The last event is the answer.
            Wire::OpenAiResponses => stream.clone(),
        };
        let packed = "content-encoding: gzip\r\n";
        let rows = [
            ("a stream", reply(SSE, &stream)),
            ("one piece", reply(JSON, &whole)),
            (
                "the last event without an empty line",
                reply(SSE, format!("{marked}\n")),
            ),
            ("the last event without a line end", reply(SSE, &marked)),
            ("without [DONE]", reply(SSE, format!("{unmarked}\n\n"))),
            ("without [DONE] and line end", reply(SSE, &unmarked)),
            ("without the last event", reply(SSE, &last_missing)),
            ("a stream that is called JSON", reply(JSON, &stream)),
            (
                "a stream that begins with a comment",
                reply(JSON, format!(": hello\n\n{stream}")),
            ),
            ("a stream without a type", reply("", &stream)),
            (
                "a stream that is called text",
                reply("content-type: text/plain\r\n", &stream),
            ),
            ("JSON that is called a stream", reply(SSE, &whole)),
            (
                "JSON behind spaces",
                reply(SSE, format!("\r\n \n{whole}\n")),
            ),
            ("JSON without a type", reply("", &whole)),
            (
                "JSON that is called text",
                reply("content-type: text/plain\r\n", &whole),
            ),
            (
                "a packed stream",
                reply(&format!("{SSE}{packed}"), gzip(&stream)),
            ),
            (
                "packed JSON",
                reply(&format!("{JSON}{packed}"), gzip(&whole)),
            ),
            (
                "packed JSON, wrong type",
                reply(&format!("{SSE}{packed}"), gzip(&whole)),
            ),
            (
                "bytes behind what is packed",
                reply(
                    &format!("{JSON}content-encoding: X-GZIP\r\n"),
                    [gzip(&whole), b"more".to_vec()].concat(),
                ),
            ),
            (
                "not packed at all",
                reply(&format!("{JSON}content-encoding: identity\r\n"), &whole),
            ),
        ];
        for (what, bytes) in rows {
            let found = answered(wire, bytes).await;
            assert_eq!(text_of(&found), "Guten Tag", "{wire}: {what}: {found:?}");
            assert_eq!(
                found.last(),
                Some(&ModelEvent::End(StopReason::Done)),
                "{wire}: {what}"
            );
        }
    }
}

#[tokio::test]
async fn odd_counts_cost_no_answer() {
    let odd = [
        json!(-7),
        json!(7.5),
        json!(1e30),
        json!("7"),
        json!("many"),
        json!(null),
        json!(true),
        json!([1]),
        json!({"a": 1}),
        serde_json::from_str("99999999999999999999999").unwrap(),
    ];
    for wire in Wire::ALL {
        for count in &odd {
            let counts = Counts {
                input: count.clone(),
                output: count.clone(),
            };
            for (head, body) in [
                (SSE, stream(wire, "Guten Tag", &counts)),
                (JSON, in_one_piece(wire, "Guten Tag", &counts).to_string()),
            ] {
                let found = answered(wire, reply(head, body)).await;
                assert_eq!(text_of(&found), "Guten Tag", "{wire}: {count}: {found:?}");
                assert_eq!(
                    found.last(),
                    Some(&ModelEvent::End(StopReason::Done)),
                    "{wire}: {count}"
                );
            }
        }
        // Nor does something else where the counts belong.
        for odd in ["\"none\"", "7", "[]", "null", "true", "-1.5"] {
            let mut whole = in_one_piece(wire, "Guten Tag", &Counts::default());
            whole["usage"] = serde_json::from_str(odd).unwrap();
            let found = answered(wire, reply(JSON, whole.to_string())).await;
            assert_eq!(
                found.last(),
                Some(&ModelEvent::End(StopReason::Done)),
                "{wire}: {odd}"
            );
        }
    }
}

/// The last event of Responses has the whole answer in it.
#[tokio::test]
async fn ten_megabytes() {
    let text = "0123456789abcdef".repeat(10 * 1024 * 1024 / 16);
    let wire = Wire::OpenAiResponses;
    let whole = in_one_piece(wire, &text, &Counts::default());
    let mut body = String::new();
    for piece in text.as_bytes().chunks(1024 * 1024) {
        let piece = std::str::from_utf8(piece).unwrap();
        let event =
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece});
        body.push_str(&format!("data: {event}\n\n"));
    }
    let end = json!({"type": "response.completed", "response": whole});
    body.push_str(&format!("data: {end}\n\n"));
    for bytes in [reply(SSE, body), reply(JSON, whole.to_string())] {
        let found = answered(wire, bytes).await;
        assert_eq!(text_of(&found).len(), text.len());
        assert_eq!(found.last(), Some(&ModelEvent::End(StopReason::Done)));
    }
}

#[tokio::test]
async fn what_is_packed_wrongly() {
    let wire = Wire::OpenAiChat;
    let whole = in_one_piece(wire, "Guten Tag", &Counts::default()).to_string();
    let packed = gzip(&whole);
    let head = |encoding: &str| format!("{JSON}content-encoding: {encoding}\r\n");
    let rows = [
        ("br", packed.clone(), "encoded as `br`"),
        (
            "gzip",
            b"not packed, whatever it says".to_vec(),
            "not the gzip",
        ),
        // Nothing but zeros, a gigabyte of them: no more is unpacked than an answer may have.
        ("gzip", bomb(), "longer than 4194304 bytes"),
    ];
    for (encoding, body, words) in rows {
        let found = answered(wire, reply(&head(encoding), body)).await;
        let Some(ModelEvent::Failed(error @ ModelError::Malformed(_))) = found.last() else {
            panic!("{words}: {found:?}");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
    let half = packed[..packed.len() / 2].to_vec();
    let found = answered(wire, reply(&head("gzip"), half)).await;
    assert_eq!(found, [ModelEvent::Failed(ModelError::Cut)]);
}

fn bomb() -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(b"{").unwrap();
    for _ in 0..64 {
        packer.write_all(&[b' '; 1024 * 1024]).unwrap();
    }
    packer.finish().unwrap()
}

/// A server that does not speak TLS will not at the next attempt.
#[tokio::test]
async fn what_lasts_is_not_tried_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _gone = stream.read(&mut [0; 1024]).await;
        }
    });
    let provider = ProviderEndpoint::new("test", Wire::OpenAiChat, &url, 64).unwrap();
    let model = RetryingModel::new(Arc::new(provider.model("m").unwrap()), 60_000);
    let found = turn(&model, hello()).await;
    let [ModelEvent::Failed(error @ ModelError::NoConnection(_))] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(!error.is_transient(), "{error}");
    assert_eq!(model.name(), "test:m");
}
