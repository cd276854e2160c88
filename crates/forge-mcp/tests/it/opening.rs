//! How a conversation begins, in both eras.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_handshake_settles_on_a_version_that_has_one() {
    run(async {
        for (asked, settled) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2999-01-01", "2025-11-25"),
        ] {
            let (_world, toolbox) = files();
            let answers = exchange(toolbox, &[initialize(asked)]).await;
            assert_eq!(
                answers,
                [json!({"jsonrpc": "2.0", "id": 0, "result": {
                    "protocolVersion": settled,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "forge", "version": "1.2.3"},
                    "instructions": "List first.",
                }})],
                "{asked}"
            );
        }
    });
}

#[test]
fn a_stateless_client_discovers_and_calls() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let discovered = client
            .ask(&modern(request(1, "server/discover", json!({}))))
            .await;
        insta::assert_snapshot!(discovered, @r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"capabilities":{"tools":{}},"instructions":"List first.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"forge","version":"1.2.3"}}}}"#);
        let read = modern(call(2, "read_file", json!({"path": "/data/readme.md"})));
        let answer = client.ask(&read).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hello\nworld\n");
        assert_eq!(client.hang_up().await, Vec::<Value>::new());
    });
}

/// A request without its context is refused before and after the conversation opened;
/// a version nobody knows is named together with those that are known.
#[test]
fn a_stateless_request_brings_its_context() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let bare = request(1, "tools/list", json!({}));
        let mut half = modern(bare.clone());
        half["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove("io.modelcontextprotocol/clientCapabilities");
        let mut future = modern(bare.clone());
        future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");

        for opened in [false, true] {
            for (request, code) in [(&bare, -32602), (&half, -32602), (&future, -32022)] {
                let answer = client.ask(request).await;
                assert_eq!(answer["error"]["code"], code, "{opened} {answer}");
            }
            let answer = client.ask(&future).await;
            let supported = answer["error"]["data"]["supported"].as_array().unwrap();
            assert!(supported.contains(&json!("2026-07-28")), "{answer}");
            // The first answer to this one opens the conversation.
            assert!(client.ask(&modern(bare.clone())).await["result"]["tools"].is_array());
        }
        client.hang_up().await;
    });
}

#[test]
fn a_probe_that_falls_back_to_the_handshake_is_served() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let probe = client.ask(&request(1, "server/discover", json!({}))).await;
        assert_eq!(probe["error"]["code"], -32602);
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
        });
        client.send(cancelled.to_string()).await;
        let opened = client.ask(&initialize("2025-11-25")).await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
        client.send(initialized().to_string()).await;
        let list = client.ask(&request(2, "tools/list", json!({}))).await;
        assert!(list["result"]["tools"].is_array());
        client.hang_up().await;
    });
}
