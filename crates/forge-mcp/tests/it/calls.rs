//! What comes of `tools/call`.

use std::future::pending;
use std::sync::{Arc, Mutex};

use forge_mcp::Service;
use forge_tools::Reply;
use serde_json::{Value, json};
use tokio::sync::{Barrier, oneshot};

use super::*;

/// What a model gets to see of calls that go well and of calls that do not.
#[test]
fn outcomes_of_calls() {
    run(async {
        let (world, toolbox) = files();
        let requests = [
            call(1, "read_file", json!({"path": "/data/readme.md"})),
            call(
                2,
                "write_file",
                json!({"path": "/out/b.md", "content": "hi"}),
            ),
            call(
                3,
                "write_file",
                json!({"path": "/data/readme.md", "content": "hi"}),
            ),
            call(4, "read_file", json!({"path": "/data/readm.md"})),
            call(5, "read_file", json!({"path": "/etc/passwd"})),
            call(6, "read_file", json!({"path": 7})),
            call(7, "read_fil", json!({"path": "/data/readme.md"})),
        ];
        let old = legacy_answers(toolbox.clone(), &requests).await;
        let new: Vec<Value> = requests.into_iter().map(modern).collect();
        let mut new = exchange(toolbox, &new).await;
        for answer in &mut new {
            if let Some(result) = answer.get_mut("result").and_then(Value::as_object_mut) {
                assert_eq!(result.remove("resultType"), Some(json!("complete")));
            }
        }
        assert_eq!(old, new);

        let rows: Vec<String> = old
            .iter()
            .map(|answer| answer.get("result").unwrap_or(&answer["error"]).to_string())
            .collect();
        let text = rows.join("\n");
        assert!(
            !text.contains(world.host.path().to_str().unwrap()),
            "{text}"
        );
        insta::assert_snapshot!(text, @r#"
        {"content":[{"type":"text","text":"hello\nworld\n"}],"isError":false}
        {"content":[{"type":"text","text":"Written 2 characters to /out/b.md"}],"structuredContent":{"success":true,"path":"/out/b.md","chars":2,"bytes":2},"isError":false}
        {"content":[{"type":"text","text":"Cannot write to '/data/readme.md': path is read-only.\nWritable paths: /out"}],"structuredContent":{"code":"READ_ONLY","message":"Cannot write to '/data/readme.md': path is read-only.","hint":"Writable paths: /out","path":"/data/readme.md"},"isError":true}
        {"content":[{"type":"text","text":"File not found: /data/readm.md\nNearest existing names: /data/readme.md"}],"structuredContent":{"code":"NOT_FOUND","message":"File not found: /data/readm.md","hint":"Nearest existing names: /data/readme.md","path":"/data/readm.md"},"isError":true}
        {"content":[{"type":"text","text":"Cannot access '/etc/passwd': path is outside sandbox.\nReadable paths: /data, /out"}],"structuredContent":{"code":"OUTSIDE_SANDBOX","message":"Cannot access '/etc/passwd': path is outside sandbox.","hint":"Readable paths: /data, /out","path":"/etc/passwd"},"isError":true}
        {"content":[{"type":"text","text":"Cannot call read_file: `path` must be a string, not a number."}],"structuredContent":{"code":"INVALID_ARGUMENTS","message":"Cannot call read_file: `path` must be a string, not a number."},"isError":true}
        {"code":-32602,"message":"There is no tool named `read_fil`.\nDid you mean `read_file`?"}
        "#);
    });
}

#[test]
fn a_request_that_cannot_be_taken_is_an_error_of_the_protocol() {
    run(async {
        let (_world, toolbox) = files();
        let answers = legacy_answers(
            toolbox,
            &[
                request(1, "tools/call", json!({"arguments": {}})),
                request(
                    2,
                    "tools/call",
                    json!({"name": "read_file", "arguments": []}),
                ),
                request(3, "tools/call", json!([])),
                json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call"}),
                request(5, "tools/list", json!({"cursor": "x"})),
                request(6, "initialize", json!([])),
                request(7, "no/such/method", json!({})),
                request(8, "initialize", json!({})),
                json!({"id": 9, "method": "tools/list"}),
                json!({"jsonrpc": "2.0", "id": 10, "method": 10}),
                request(11, "subscriptions/listen", json!({"notifications": {}})),
                request(12, "logging/setLevel", json!({"level": "info"})),
                request(13, "server/discover", json!({"_meta": 5})),
            ],
        )
        .await;
        let rows: Vec<String> = answers
            .iter()
            .map(|answer| format!("{} {}", answer["id"], answer["error"]))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
        1 {"code":-32602,"message":"The params of tools/call are malformed."}
        2 {"code":-32602,"message":"The params of tools/call are malformed."}
        3 {"code":-32602,"message":"The params of tools/call are malformed."}
        4 {"code":-32602,"message":"The params of tools/call are malformed."}
        5 {"code":-32602,"message":"Unknown cursor."}
        6 {"code":-32602,"message":"The params of initialize are malformed."}
        7 {"code":-32601,"message":"no/such/method"}
        8 {"code":-32602,"message":"The params of initialize are malformed."}
        9 {"code":-32600,"message":"Not a JSON-RPC 2.0 request."}
        10 {"code":-32600,"message":"Not a JSON-RPC 2.0 request."}
        11 {"code":-32601,"message":"subscriptions/listen"}
        12 {"code":-32601,"message":"logging/setLevel"}
        13 {"code":-32602,"message":"The params of server/discover are malformed."}
        "#);
    });
}

/// There are tools here and nothing else. An empty list would be an answer as well, and would have
/// clients offer what there is not.
#[test]
fn what_is_not_declared_is_not_answered() {
    run(async {
        let named = json!({"name": "x"});
        let completion = json!({"ref": {"type": "ref/prompt", "name": "x"},
            "argument": {"name": "x", "value": "x"}});
        let rows = [
            ("prompts/list", json!({})),
            ("prompts/get", named),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "file:///etc/passwd"})),
            ("completion/complete", completion),
        ];
        for era in [|request: Value| request, modern as fn(Value) -> Value] {
            let mut client = Client::of(files().1);
            if era(json!({})) == json!({}) {
                client.ask(&initialize("2025-11-25")).await;
            }
            for (method, params) in &rows {
                let answer = client.ask(&era(request(1, method, params.clone()))).await;
                assert_eq!(answer["error"]["code"], -32601, "{method} {answer}");
            }
            client.hang_up().await;
        }
    });
}

#[test]
fn calls_run_in_parallel() {
    run(async {
        // Neither call can end before the other has begun.
        let both = Arc::new(Barrier::new(2));
        let toolbox = custom("meet", move || {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                Ok(Reply::text("met"))
            })
        });
        let answers = legacy_answers(
            toolbox,
            &[call(1, "meet", json!({})), call(2, "meet", json!({}))],
        )
        .await;
        for answer in &answers {
            assert_eq!(answer["result"]["content"][0]["text"], "met");
        }
        assert_eq!(answers.len(), 2);
    });
}

#[test]
fn a_cancelled_call_is_dropped_and_not_answered() {
    run(async {
        for era in [|request: Value| request, modern as fn(Value) -> Value] {
            let (started, has_started) = oneshot::channel();
            let (dropped, was_dropped) = oneshot::channel();
            let once = Mutex::new(Some((started, Dropped(Some(dropped)))));
            let toolbox = custom("hang", move || {
                let (started, guard) = once.lock().unwrap().take().unwrap();
                Box::pin(async move {
                    let _guard = guard;
                    started.send(()).unwrap();
                    pending().await
                })
            });
            let mut client = Client::of(toolbox);
            if era(json!({})) == json!({}) {
                client.ask(&initialize("2025-11-25")).await;
            }
            client
                .send(era(call(1, "hang", json!({}))).to_string())
                .await;
            has_started.await.unwrap();
            let repeated = client.ask(&era(call(1, "hang", json!({})))).await;
            assert_eq!(repeated["error"]["code"], -32600, "the id is in use");

            let cancelled = json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
            });
            client.send(cancelled.to_string()).await;
            was_dropped.await.unwrap();
            let list = client.ask(&era(request(2, "tools/list", json!({})))).await;
            assert_eq!(list["id"], 2);
            assert_eq!(client.hang_up().await, Vec::<Value>::new());
        }
    });
}

#[test]
fn a_tool_that_panics_costs_one_call() {
    run(async {
        let toolbox = custom("fall", || panic!("on purpose"));
        let answers = legacy_answers(
            toolbox,
            &[
                call(1, "fall", json!({})),
                request(2, "tools/list", json!({})),
            ],
        )
        .await;
        assert_eq!(answers[0]["error"]["code"], -32603);
        assert!(!answers[0].to_string().contains("on purpose"));
        let tools = answers[1]["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "fall"));
    });
}

#[test]
fn a_broken_configuration_is_told_in_answer_to_every_call() {
    run(async {
        let message = "forge.yaml:3:1: unknown key `mounst`, did you mean `mounts`?";
        let broken = Service::Broken {
            message: message.into(),
        };
        let requests = [
            request(1, "tools/list", json!({})),
            call(2, "read_file", json!({"path": "/data/readme.md"})),
            call(3, "anything", json!({})),
        ];
        let opened = exchange(broken.clone(), &[initialize("2025-11-25")]).await;
        assert_eq!(opened[0]["result"]["instructions"], message);
        let old = legacy_answers(broken.clone(), &requests).await;
        let new: Vec<Value> = requests.into_iter().map(modern).collect();
        let new = exchange(broken, &new).await;
        for answers in [old, new] {
            assert_eq!(answers[0]["result"]["tools"], json!([]));
            for answer in &answers[1..] {
                let result = &answer["result"];
                assert_eq!(result["isError"], true);
                assert_eq!(
                    result["content"],
                    json!([{"type": "text", "text": message}])
                );
                assert_eq!(
                    result["structuredContent"],
                    json!({"code": "INVALID_CONFIGURATION", "message": message})
                );
            }
        }
    });
}
