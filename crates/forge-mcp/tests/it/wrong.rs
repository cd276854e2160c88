//! That a message which is not one of the protocol's is found.

use serde_json::{Value, json};

use super::protocol::Protocol;
use super::{initialize, modern, request};

/// What the server says to a client that opened with a handshake (2025-11-25) or without one.
fn complaints(handshake: bool, asked: Value, answer: &Value) -> Vec<String> {
    let mut protocol = Protocol::default();
    if handshake {
        protocol.sent(&initialize("2025-11-25"));
        let opened = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"}});
        let opened = json!({"jsonrpc": "2.0", "id": 0, "result": opened});
        assert_eq!(protocol.received(&opened), [""; 0]);
        protocol.sent(&asked);
    } else {
        protocol.sent(&modern(asked));
    }
    protocol.received(answer)
}

#[test]
fn a_wrong_message_is_found() {
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let error = |error: Value| json!({"jsonrpc": "2.0", "id": 1, "error": error});
    let told = |method: &str, params| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let text = json!([{"type": "text", "text": "x"}]);
    let tool = json!({"name": "x", "inputSchema": {"type": "object"}});
    let form = json!({"message": "x", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": form});
    let with = |tool: &Value, name: &str, value: Value| {
        let mut tool = tool.clone();
        tool[name] = value;
        result(
            json!({"tools": [tool], "resultType": "complete", "ttlMs": 0,
            "cacheScope": "private"}),
        )
    };
    let fits = with(&tool, "title", json!("X"));
    let (list, call) = ("tools/list", "tools/call");
    // Method asked, answer, whether it fits an older conversation, and one of 2026-07-28.
    let rows: &[(&str, Value, bool, bool)] = &[
        (list, fits.clone(), true, true),
        (list, result(json!({"tools": [tool]})), true, false),
        (list, result(json!({"tools": {}})), false, false),
        (list, result(json!({})), false, false),
        (list, result(Value::Null), false, false),
        (list, with(&tool, "name", json!(7)), false, false),
        (list, with(&tool, "inputSchema", json!({})), false, false),
        (
            list,
            with(&tool, "annotations", json!({"readOnlyHint": "yes"})),
            false,
            false,
        ),
        (call, result(json!({"content": text})), true, false),
        (
            call,
            result(json!({"content": text, "resultType": "complete"})),
            true,
            true,
        ),
        (
            call,
            result(json!({"content": "x", "resultType": "complete"})),
            false,
            false,
        ),
        (
            call,
            result(json!({"content": [{"type": "text"}], "resultType": "complete"})),
            false,
            false,
        ),
        (
            call,
            result(json!({"content": [{"type": "txt", "text": "x"}], "resultType": "complete"})),
            false,
            false,
        ),
        (
            call,
            result(json!({"content": text, "resultType": "complete", "isError": 1})),
            false,
            false,
        ),
        (
            call,
            result(json!({"resultType": "input_required", "requestState": "x"})),
            false,
            true,
        ),
        (
            call,
            result(json!({"resultType": "input_required", "requestState": 7})),
            false,
            false,
        ),
        (
            call,
            result(json!({"resultType": "input_required", "inputRequests": {"a": {}}})),
            false,
            false,
        ),
        (
            call,
            error(json!({"code": -32602, "message": "x"})),
            true,
            true,
        ),
        (
            call,
            error(json!({"code": -32022, "message": "x"})),
            true,
            false,
        ),
        (
            call,
            error(json!({"code": "-32602", "message": "x"})),
            false,
            false,
        ),
        (call, error(json!({"code": -32602})), false, false),
        (
            call,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}),
            false,
            false,
        ),
        (
            call,
            json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "x"}}),
            true,
            true,
        ),
        (
            call,
            json!({"jsonrpc": "1.0", "id": 1, "error": {"code": 1, "message": "x"}}),
            false,
            false,
        ),
        (call, json!({"jsonrpc": "2.0", "id": 1}), false, false),
        (call, ask, true, false),
        (
            call,
            told(
                "notifications/progress",
                json!({"progressToken": 1, "progress": 1}),
            ),
            true,
            true,
        ),
        (
            call,
            told("notifications/progress", json!({"progress": 1})),
            false,
            false,
        ),
        (
            call,
            told("notifications/initialized", json!({})),
            false,
            false,
        ),
        (call, told("notifications/of/ours", json!({})), false, false),
        // An answer to a question that nobody asked.
        (
            call,
            json!({"jsonrpc": "2.0", "id": 9, "result": fits["result"]}),
            false,
            false,
        ),
    ];
    for (method, answer, older, newer) in rows {
        let params = match *method {
            "tools/call" => json!({"name": "x"}),
            _ => json!({}),
        };
        for (handshake, fits) in [(true, older), (false, newer)] {
            let found = complaints(handshake, request(1, method, params.clone()), answer);
            assert_eq!(found.is_empty(), *fits, "{handshake} {answer} {found:?}");
        }
    }
}

/// What the schema refuses may be refused by the server, and must not be granted.
#[test]
fn a_wrong_request_that_succeeds_is_found() {
    let wrong = request(1, "tools/call", json!({"name": 7}));
    let content = json!([{"type": "text", "text": "x"}]);
    for (failed, fits) in [(true, true), (false, false)] {
        let result = json!({"content": content, "isError": failed});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let found = complaints(true, wrong.clone(), &answer);
        assert_eq!(found.is_empty(), fits, "{found:?}");
    }
}
