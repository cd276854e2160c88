//! Servers that do not end: each limit has an error of its own kind.

use std::time::Duration;

use forge_runtime::{
    Model as _, ModelError, ModelEvent, ProviderEndpoint, ProviderKey, ResponseLimits, Wire,
    read_stream,
};
use serde_json::json;

use crate::events::{hello, lines, turn};
use crate::server::{Reply, Server, Then};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const BIT: Duration = Duration::from_millis(20);

fn tight() -> ResponseLimits {
    ResponseLimits {
        connect_ms: 5_000,
        idle_ms: 500,
        progress_ms: 1_000,
        total_ms: 3_000,
        answer_bytes: 100_000,
        event_bytes: 10_000,
    }
}

async fn fails(reply: Reply, stream: bool, bounds: ResponseLimits) -> ModelError {
    let server = Server::start(vec![reply]).await;
    let provider = ProviderEndpoint::new("test", Wire::OpenAiChat, &server.url, 64)
        .unwrap()
        .stream(stream)
        .bounds(bounds);
    let model = provider.model("m").unwrap();
    let turn = turn(&model, hello());
    let found = tokio::time::timeout(Duration::from_secs(600), turn)
        .await
        .unwrap();
    match found.last() {
        Some(ModelEvent::Failed(error)) => error.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_limit() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more\"}}]}\n\n";
    let after = |more: &str| Reply::new(format!("{HEAD}{more}")).in_pieces(HEAD.len(), BIT);
    let endless = |more: &str| {
        let repeat = Then::Repeat(more.as_bytes().to_vec());
        Reply::new(HEAD).in_pieces(usize::MAX, BIT).then(repeat)
    };
    let life = ": still here\n\n";
    let long_line = "x".repeat(5_000);
    let slow_text = ResponseLimits {
        answer_bytes: usize::MAX,
        ..tight()
    };
    let json = |body: &str, then| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        Reply::new(format!("{head}{body}"))
            .in_pieces(5_000, BIT)
            .then(then)
    };
    let spaces = b" ".repeat(10_000);
    let rows = [
        (
            "a server that says nothing",
            Reply::new("").then(Then::Hang),
            true,
            tight(),
            "no answer within 500 ms",
        ),
        (
            "one that falls silent",
            after(text).then(Then::Hang),
            true,
            tight(),
            "nothing came for 500 ms",
        ),
        (
            "signs of life",
            endless(life),
            true,
            tight(),
            "nothing but signs of life for 1000 ms",
        ),
        (
            "text without an end",
            endless(text),
            true,
            slow_text,
            "no end of its answer within 3000 ms",
        ),
        (
            "more than an answer",
            endless(text),
            true,
            ResponseLimits {
                answer_bytes: 300,
                ..tight()
            },
            "longer than 300 bytes",
        ),
        (
            "a line without an end",
            endless(&long_line),
            true,
            tight(),
            "an event in it is longer than 10000 bytes",
        ),
        (
            "a whole that never comes",
            json("", Then::Hang),
            false,
            tight(),
            "nothing came for 500 ms",
        ),
        (
            "a whole that is too much",
            json("", Then::Repeat(spaces)),
            false,
            tight(),
            "longer than 10000 bytes",
        ),
    ];
    for (what, reply, stream, bounds, words) in rows {
        let error = fails(reply, stream, bounds).await;
        assert!(error.to_string().contains(words), "{what}: {error}");
    }
}

/// What is no HTTP is said at once: it is no server that cannot be reached.
#[tokio::test]
async fn what_is_no_http() {
    let rows = [
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n{".as_bytes(),
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\x1b\r\n\r\n{",
        b"SSH-2.0-nobody\r\n\r\n",
    ];
    for row in rows {
        let error = fails(Reply::new(row), true, tight()).await;
        let malformed = matches!(error, ModelError::Malformed(_));
        assert!(malformed, "{}: {error:?}", row.escape_ascii());
        assert!(error.to_string().contains("speaks no HTTP"), "{error}");
        assert!(
            error.to_string().ends_with("is the base URL right?"),
            "{error}"
        );
    }
    let error = fails(Reply::new(""), true, tight()).await;
    assert!(matches!(error, ModelError::Unreachable(_)), "{error:?}");
}

/// Failures of a connection are told by the part that failed, and with the port.
#[tokio::test]
async fn what_a_connection_failed_at() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Before any request, as an SSH server does; and no record of TLS.
            let mut stream = stream.unwrap();
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-nobody\r\n");
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        }
    });
    for (url, says) in [
        (
            format!("http://127.0.0.1:{port}/v1"),
            format!("127.0.0.1:{port}: the server speaks no HTTP"),
        ),
        (
            format!("https://127.0.0.1:{port}/v1"),
            format!("127.0.0.1:{port}: the server speaks no TLS; is it http://127.0.0.1:{port}?"),
        ),
        (
            "https://nothing.invalid/v1".to_owned(),
            "nothing.invalid: its name cannot be resolved: ".to_owned(),
        ),
    ] {
        let provider = ProviderEndpoint::new("test", Wire::OpenAiChat, &url, 64).unwrap();
        let found = turn(&provider.model("m").unwrap(), hello()).await;
        let Some(ModelEvent::Failed(error)) = found.last() else {
            panic!("{found:?}");
        };
        assert!(error.to_string().contains(&says), "{error}");
    }
}

/// A refusal without an end is read as far as it is needed.
#[tokio::test]
async fn an_endless_refusal() {
    let refusal = Reply::new(format!(
        "HTTP/1.1 400 Bad Request\r\n\r\n{}",
        "no ".repeat(9_000)
    ))
    .in_pieces(9_000, Duration::ZERO)
    .then(Then::Repeat(b"no ".repeat(3_000)));
    let error = fails(refusal, true, tight()).await;
    assert!(
        matches!(
            error,
            ModelError::Rejected {
                status: Some(400),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().len() < 2_000);
}

/// One megabyte of arguments, slowly and in small pieces, is one call.
#[tokio::test]
async fn a_megabyte_of_arguments() {
    let content = "0123456789abcdef".repeat(65_536);
    let arguments = json!({"path": "/a", "content": content}).to_string();
    let mut body = String::new();
    for piece in arguments.as_bytes().chunks(4_096) {
        let piece = std::str::from_utf8(piece).unwrap();
        let call = json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": piece}});
        let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        body.push_str(&format!("data: {chunk}\r\n\r\n"));
    }
    body.push_str("data: [DONE]\n\n");
    let expected = vec![
        json!({"call": {"id": "a", "tool": "x", "arguments": {"path": "/a", "content": content}}}),
        json!({"end": "unknown"}),
    ];
    for size in [1, 1_000, usize::MAX] {
        let found = read_stream(Wire::OpenAiChat, body.as_bytes(), &[size]);
        assert!(lines(&found) == expected, "in pieces of {size}");
    }
    let reply = Reply::new(format!("{HEAD}{body}")).in_pieces(16_384, Duration::from_millis(1));
    let server = Server::start(vec![reply]).await;
    let provider = ProviderEndpoint::new("test", Wire::OpenAiChat, &server.url, 64).unwrap();
    let found = turn(&provider.model("m").unwrap(), hello()).await;
    assert!(lines(&found) == expected, "over a socket");
}

/// As many calls as an answer may have come out; of more, nothing.
#[test]
fn many_calls() {
    let calls = |found: &[ModelEvent]| {
        let is_call = |event: &&ModelEvent| matches!(event, ModelEvent::Call(_));
        found.iter().filter(is_call).count()
    };
    assert_eq!(calls(&calls_of(2_048)), 2_048);
    let found = calls_of(2_049);
    assert_eq!(calls(&found), 0);
    too_many(&found, "2049 calls");
}

fn too_many(found: &[ModelEvent], what: &str) {
    match found.last() {
        Some(ModelEvent::Failed(ModelError::Malformed(why))) => {
            assert!(why.contains("more than 2048"), "{what}: {why}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn calls_of(count: usize) -> Vec<ModelEvent> {
    let mut body = String::new();
    for nth in 0..count {
        let call = json!({"index": nth, "id": format!("c{nth}"), "function": {"name": "x"}});
        let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        body.push_str(&format!("data: {chunk}\n\n"));
    }
    body.push_str("data: [DONE]\n\n");
    read_stream(Wire::OpenAiChat, body.as_bytes(), &[16_384])
}

/// Behind its end an answer is not read, however the bytes come.
#[test]
fn what_stands_behind_the_end() {
    let body = b"data: [DONE]\n\ndata: \xff\n\n";
    for size in [1, usize::MAX] {
        let found = read_stream(Wire::OpenAiChat, body, &[size]);
        assert_eq!(lines(&found), [json!({"end": "unknown"})], "{size}");
    }
}

/// Items that are nothing but many are not kept until there is no room for them.
#[test]
fn many_small_things() {
    let list = |item: &str| vec![item; 5_000].join(",");
    let begun = |nth: usize| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{nth},\"content_block\":{{\"type\":\"text\"}}}}\n\n"
        )
    };
    let said = |nth: usize| {
        format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":{nth},\"delta\":\"a\"}}\n\n"
        )
    };
    let rows = [
        (
            Wire::OpenAiChat,
            format!("data: {{\"choices\":[{}]}}\n\n", list("{}")),
        ),
        (
            Wire::OpenAiChat,
            format!(
                "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{}]}}}}]}}\n\n",
                list("{}")
            ),
        ),
        (Wire::Anthropic, (0..5_000).map(begun).collect()),
        (Wire::OpenAiResponses, (0..5_000).map(said).collect()),
        (
            Wire::OpenAiResponses,
            format!(
                "data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\",\"output\":[{}]}}}}\n\n",
                list("{\"type\":\"x\"}")
            ),
        ),
    ];
    for (wire, body) in rows {
        too_many(&read_stream(wire, body.as_bytes(), &[16_384]), &body[..60]);
    }
    // Parts of one text are one text.
    let parts = list("{\"text\":\"a\"}");
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":[{parts}]}}}}]}}\n\ndata: [DONE]\n\n"
    );
    let found = read_stream(Wire::OpenAiChat, body.as_bytes(), &[16_384]);
    assert_eq!(found[0], ModelEvent::Text("a".repeat(5_000)));
    // Signs of life that come together are one.
    let found = read_stream(Wire::OpenAiChat, &b":\n".repeat(100_000), &[usize::MAX]);
    assert_eq!(
        found,
        [ModelEvent::Heartbeat, ModelEvent::Failed(ModelError::Cut)]
    );
}

/// Whoever does not want a turn any more is soon rid of its connection.
#[tokio::test]
async fn a_turn_that_is_dropped() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let provider = ProviderEndpoint::new("test", Wire::Anthropic, &url, 64).unwrap();
    let turn = provider.model("m").unwrap().turn(hello());
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(turn);
    let gone = async {
        use tokio::io::AsyncReadExt as _;
        let mut bytes = [0; 1_024];
        // An end or an error: either is one.
        while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    };
    tokio::time::timeout(Duration::from_secs(600), gone)
        .await
        .unwrap();
}

/// A server that repeats the key in whatever it says does not get it into an error.
#[tokio::test]
async fn a_key_that_comes_back() {
    const CANARY: &str = "sk-canary-0123456789";
    let refusals = [
        format!(
            "HTTP/1.1 401 No\r\ncontent-type: application/json\r\n\r\n{{\"error\":{{\"message\":\"no key {CANARY}\"}}}}"
        ),
        format!("HTTP/1.1 400 No\r\n\r\n{CANARY} {CANARY}"),
        format!("HTTP/1.1 503 No\r\n\r\nkey={CANARY}"),
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>{CANARY}"),
        format!("{HEAD}data: {{\"error\":{{\"message\":\"{CANARY}\"}}}}\n\n"),
        format!("{HEAD}data: {{\"choices\":\"{CANARY}\"}}\n\n"),
        format!("{CANARY}\r\n\r\n"),
    ];
    for wire in Wire::ALL {
        for refusal in &refusals {
            let server = Server::start(vec![Reply::new(refusal.as_bytes())]).await;
            let provider = ProviderEndpoint::new("test", wire, &server.url, 64)
                .unwrap()
                .key(ProviderKey::new(CANARY).unwrap());
            let model = provider.model("m").unwrap();
            let found = turn(&model, hello()).await;
            let Some(ModelEvent::Failed(error)) = found.last() else {
                panic!("{wire}: {refusal}: {found:?}");
            };
            let shown = format!("{error} {error:?} {provider:?} {model:?}");
            assert!(!shown.contains(CANARY), "{wire}: {shown}");
            // It did go where it belongs.
            assert!(server.seen()[0].head.contains(CANARY));
        }
    }
}

/// A text that is cut in the middle of the key shows nothing of the key.
#[tokio::test]
async fn a_key_at_every_cut() {
    const CANARY: &str = "sk-canary-0123456789";
    let refusal = |before: usize| {
        let message = format!("{}{CANARY}{}", "x".repeat(before), "y".repeat(2_000));
        format!(
            "HTTP/1.1 400 No\r\ncontent-type: application/json\r\n\r\n{{\"error\":{{\"message\":\"{message}\"}}}}"
        )
    };
    let rows = [
        refusal(990),
        refusal(1_000 - CANARY.len() + 1),
        format!("HTTP/1.1 400 No\r\n\r\n{}{CANARY} more", "x".repeat(190)),
        format!(
            "HTTP/1.1 400 No\r\n\r\n{}{CANARY} more",
            "\n".repeat(64 * 1_024 - 12)
        ),
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}{CANARY}\r\n\r\nx",
            "t".repeat(90)
        ),
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n{}{CANARY} more",
            "x".repeat(190)
        ),
        format!(
            "{HEAD}data: {{\"type\":\"error\",\"error\":{{\"message\":\"{}{CANARY} more\"}}}}\n\n",
            "x".repeat(990)
        ),
        format!(
            "{HEAD}data: {{\"choices\":\"{}{CANARY} more\"}}\n\n",
            "x".repeat(900)
        ),
    ];
    for wire in Wire::ALL {
        for row in &rows {
            let server = Server::start(vec![Reply::new(row.as_bytes())]).await;
            let provider = ProviderEndpoint::new("test", wire, &server.url, 64)
                .unwrap()
                .key(ProviderKey::new(CANARY).unwrap());
            let found = turn(&provider.model("m").unwrap(), hello()).await;
            let Some(ModelEvent::Failed(error)) = found.last() else {
                panic!("{wire}: {row}: {found:?}");
            };
            let shown = error.to_string();
            assert!(!shown.contains("sk-can"), "{wire}: {shown}");
            assert!(shown.chars().count() < 1_200, "{wire}: {shown}");
        }
    }
}

/// A redirect is an answer, not a way for the key to take.
#[tokio::test]
async fn no_key_goes_elsewhere() {
    let elsewhere = Server::start(vec![Reply::new("HTTP/1.1 200 OK\r\n\r\n")]).await;
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let to = format!(
            "HTTP/1.1 {status}\r\nlocation: {}/x\r\ncontent-length: 0\r\n\r\n",
            elsewhere.url
        );
        let server = Server::start(vec![Reply::new(to)]).await;
        let provider = ProviderEndpoint::new("test", Wire::Anthropic, &server.url, 64)
            .unwrap()
            .key(ProviderKey::new("sk-canary").unwrap());
        let found = turn(&provider.model("m").unwrap(), hello()).await;
        let rejected =
            |event: &ModelEvent| matches!(event, ModelEvent::Failed(ModelError::Rejected { .. }));
        assert!(found.last().is_some_and(rejected), "{status}: {found:?}");
    }
    assert!(elsewhere.seen().is_empty());
}
