//! What is no message, or none that can be taken.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Whatever comes, before the conversation opened or after, the next request is
/// answered; and noise that is no request is not answered at all.
#[test]
fn noise_harms_nobody() {
    let long = "a".repeat(10_000_000);
    let deep = "[".repeat(10_000);
    let many = format!("[{}0]", "0,".repeat(1_000_000));
    let rows: &[(&[u8], Option<i64>)] = &[
        (b"", None),
        (b" \t\r", None),
        (b"garbage", None),
        (b"{\"jsonrpc\":\"2.0\",", None),
        (b"\xff\xfe\x00", None),
        (deep.as_bytes(), None),
        (b"[]", Some(-32600)),
        (
            br#"[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},7,[],{"id":1,"result":{}}]"#,
            Some(-32600),
        ),
        (b"7", Some(-32600)),
        (b"{}", Some(-32600)),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Some(-32600),
        ),
        (
            br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            Some(-32600),
        ),
        (br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
        (
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            None,
        ),
        (
            br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            None,
        ),
        (
            br#"{"jsonrpc":"2.0","method":"window/logMessage","params":[1]}"#,
            None,
        ),
        (long.as_bytes(), Some(-32600)),
        (many.as_bytes(), Some(-32600)),
    ];
    run(async {
        let ping = request(5, "ping", json!({}));
        let list = modern(request(5, "tools/list", json!({})));
        let openings = [
            (None, &ping),
            (Some(initialize("2025-11-25")), &ping),
            (Some(initialize("2025-06-18")), &ping),
            (Some(list.clone()), &list),
        ];
        for (opening, next) in openings {
            // Older revisions have no error that does not name its request.
            let old = opening == Some(initialize("2025-06-18"));
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if let Some(opening) = &opening {
                client.ask(opening).await;
            }
            for (line, code) in rows {
                let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
                client.send(line).await;
                if let (Some(code), false) = (code, old) {
                    let answer = client.receive().await;
                    assert_eq!(answer["error"]["code"], *code, "{opening:?} {shown}");
                    assert_eq!(answer.get("id"), None, "{opening:?} {shown}");
                }
                let answer = client.ask(next).await;
                assert_eq!(answer["id"], 5, "{opening:?} {shown}");
                assert!(answer["result"].is_object(), "{opening:?} {shown}");
            }
            client.hang_up().await;
        }
    });
}

/// A message that is too long is not kept, and whoever sent it is told which one it was, if the
/// id is where clients write it.
#[test]
fn what_is_too_long_is_refused_by_its_id() {
    let params = format!(
        r#"{{"name":"read_file","arguments":{{"path":"{}"}}}}"#,
        "a".repeat(10_000_000)
    );
    let many = format!(
        r#"{{"name":"read_file","arguments":[{}0]}}"#,
        "0,".repeat(100_000)
    );
    run(async {
        for opening in [None, Some("2025-11-25"), Some("2025-06-18")] {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if let Some(version) = opening {
                client.ask(&initialize(version)).await;
            }
            for params in [&params, &many] {
                for line in [
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
                    ),
                    format!(
                        r#"{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":1}}"#
                    ),
                ] {
                    client.send(line).await;
                    let answer = client.receive().await;
                    assert_eq!(answer["error"]["code"], -32600, "{opening:?} {answer}");
                    assert_eq!(answer["id"], 1, "{opening:?} {answer}");
                }
            }
            client.hang_up().await;
        }
    });
}

/// A request that cannot be read is answered all the same, if it can be told from others.
#[test]
fn who_waits_for_an_answer_gets_one() {
    let write = |content: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"write_file","arguments":{{"path":"/x","content":{content}}}}}}}"#
        )
    };
    let deep = format!("{}0{}", "[".repeat(130), "]".repeat(130));
    let rows = [
        // What JSON.stringify makes of a cut emoji.
        (r#""cut \ud83d""#.to_owned(), "hex escape"),
        ("1e400".to_owned(), "number out of range"),
        (deep, "recursion limit"),
    ];
    run(async {
        for opened in [false, true] {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if opened {
                client.ask(&initialize("2025-11-25")).await;
            }
            for (content, reason) in &rows {
                client.send(write(content)).await;
                let answer = client.receive().await;
                assert_eq!(answer["id"], "a", "{answer}");
                assert_eq!(answer["error"]["code"], -32700, "{answer}");
                let text = answer["error"]["message"].as_str().unwrap();
                assert!(text.contains(reason), "{text}");
                assert!(!text.contains("line 1"), "{text}");
                // A notification, and what has no method: nobody waits.
                for (part, other) in [(r#""id":"a","#, ""), (r#""method""#, r#""m""#)] {
                    client.send(write(content).replacen(part, other, 1)).await;
                }
            }
            let ping = client.ask(&request(5, "ping", json!({}))).await;
            assert_eq!(ping["id"], 5, "{ping}");
            client.hang_up().await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_any_bytes_the_next_request_is_answered(
        opened: bool,
        noise in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                r#"\{"jsonrpc":"2\.0"(,"(id|method|params|result|error)":("tools/call"|"tools/list"|"initialize"|"notifications/cancelled"|\{"name":"read_file"\}|[0-9]|null|\[\]|\{\})){0,4}\}"#
                    .prop_map(String::into_bytes),
            ],
            0..12,
        ),
    ) {
        run(async {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if opened {
                client.ask(&initialize("2025-11-25")).await;
            }
            for line in &noise {
                client.send(line).await;
            }
            let list = request(77, "tools/list", json!({}));
            client.send(initialize("2025-11-25").to_string()).await;
            client.send(list.to_string()).await;
            let answers = client.hang_up().await;
            assert!(answers.iter().any(|answer| answer["id"] == 77), "{answers:?}");
        });
    }
}

/// No client waits for ever for a request that it sent in an array, whatever else is in it and
/// whatever revision it speaks.
#[test]
fn each_request_of_a_batch_is_answered() {
    let ping = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let noted = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let many: Vec<Value> = (100..1100).map(|id| ping(id.into())).collect();
    let half = r#"[{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":"\ud83d"}}]"#;
    let batches = [
        (json!([ping(2.into())]).to_string(), json!([2])),
        (
            json!([ping(2.into()), ping("a".into())]).to_string(),
            json!([2, "a"]),
        ),
        (
            json!([noted, ping(2.into()), 7, [ping(3.into())]]).to_string(),
            json!([2]),
        ),
        (
            json!([{"jsonrpc": "2.0", "id": 1, "result": {}}, ping(2.into())]).to_string(),
            json!([2]),
        ),
        (
            json!([{"id": 2, "method": "nosuch"}]).to_string(),
            json!([2]),
        ),
        (json!([initialize("2025-03-26")]).to_string(), json!([0])),
        (
            json!(many).to_string(),
            json!((100..1100).collect::<Vec<_>>()),
        ),
        (half.to_owned(), json!([2])),
    ];
    run(async {
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            client.ask(&initialize(revision)).await;
            for (batch, ids) in &batches {
                let requests =
                    serde_json::from_str(batch).unwrap_or_else(|_| json!([ping(2.into())]));
                for request in requests.as_array().unwrap() {
                    if request.get("method").is_some() {
                        client.protocol.sent(request);
                    }
                }
                client.send(batch).await;
                for id in ids.as_array().unwrap() {
                    let answer = client.receive().await;
                    assert_eq!(
                        (&answer["id"], &answer["error"]["code"]),
                        (id, &json!(-32600)),
                        "{batch}"
                    );
                }
                let answer = client.ask(&request(5, "ping", json!({}))).await;
                assert_eq!(answer["id"], 5, "{revision} {batch}");
            }
        }
    });
}
