//! Approvals by the person at a client of the older kind, which is asked while the call
//! waits.

use forge_tools::ApprovalAnswer;
use serde_json::{Value, json};

use super::approvals::{accept, asks, nobody, write};
use super::*;
use crate::support::Counting;

/// Opened by a client that can show forms. It has directories to offer as well, for which
/// nobody asks: what is granted is the configuration's business.
async fn open(toolbox: Toolbox) -> Client {
    let mut client = Client::of(toolbox);
    let mut opening = initialize("2025-11-25");
    opening["params"]["capabilities"] = json!({"elicitation": {}, "roots": {"listChanged": true}});
    client.ask(&opening).await;
    client.send(initialized().to_string()).await;
    client
}

fn reply(question: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[test]
fn the_call_waits_for_the_answer() {
    run_in_no_time(async {
        for (answer, outcome) in [
            (accept("allow_once"), "Written 1 characters to /out/a.md"),
            (
                accept("deny"),
                "This call of write_file was denied by a person at the client.\nAsking again for the same is of no use. Other calls are open to you: ask what is wanted instead, or go on without it.",
            ),
            (
                json!({"action": "decline"}),
                "This call of write_file was denied by a person at the client.\nAsking again for the same is of no use. Other calls are open to you: ask what is wanted instead, or go on without it.",
            ),
            (
                json!({"action": "cancel"}),
                "This call of write_file was denied by a person at the client.\nAsking again for the same is of no use. Other calls are open to you: ask what is wanted instead, or go on without it.",
            ),
        ] {
            let world = World::new();
            let mut client = open(asks(&world, &nobody())).await;
            let question = client.ask(&write(1, "x")).await;
            assert_eq!(question["method"], "elicitation/create", "{question}");
            assert_eq!(
                question["params"]["requestedSchema"]["properties"]["decision"],
                json!({
                    "type": "string",
                    "enum": ["allow_once", "allow_run", "deny"],
                    "default": "deny",
                })
            );
            // Others are served meanwhile.
            let pong = client.ask(&request(2, "ping", json!({}))).await;
            assert_eq!(pong["id"], 2);
            tokio::time::sleep(Duration::from_secs(2)).await;
            let done = client.ask(&reply(&question, answer)).await;
            assert_eq!(done["id"], 1);
            assert_eq!(done["result"]["content"][0]["text"], outcome);
            client.hang_up().await;
        }
    });
}

#[test]
fn a_question_that_nobody_answers_goes_to_the_next() {
    run_in_no_time(async {
        let world = World::new();
        let next = Counting::new(ApprovalAnswer::AllowOnce {
            by: "the queue".into(),
        });
        let mut client = open(asks(&world, &next)).await;
        let question = client.ask(&write(1, "x")).await;
        // Time passes.
        let withdrawn = client.receive().await;
        assert_eq!(withdrawn["method"], "notifications/cancelled");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
        let done = client.receive().await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(next.asked(), 1);

        // What comes too late is no answer to anything.
        client
            .send(reply(&question, accept("allow_run")).to_string())
            .await;
        let question = client.ask(&write(2, "x")).await;
        let error = json!({"code": -32601, "message": "no such method"});
        let cannot = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
        let done = client.ask(&cannot).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(next.asked(), 2);
        client.hang_up().await;
    });
}

/// What a call waits for ends with the call.
#[test]
fn a_cancelled_call_asks_no_more() {
    run_in_no_time(async {
        let world = World::new();
        let mut client = open(asks(&world, &nobody())).await;
        let first = client.ask(&write(1, "x")).await;
        client.send(write(2, "y").to_string()).await;
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
        });
        client.send(cancelled.to_string()).await;
        // The second question waits for the first one's turn to end.
        let mut second = client.receive().await;
        if second["method"] == "notifications/cancelled" {
            assert_eq!(second["params"]["requestId"], first["id"]);
            second = client.receive().await;
        }
        assert_eq!(second["method"], "elicitation/create", "{second}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let done = client.ask(&reply(&second, accept("allow_once"))).await;
        assert_eq!(done["id"], 2, "{done}");
        client.hang_up().await;
    });
}

#[test]
fn a_client_that_refuses_by_itself_is_asked_last() {
    run_in_no_time(async {
        let world = World::new();
        let next = Counting::new(ApprovalAnswer::AllowOnce {
            by: "the queue".into(),
        });
        let mut client = open(asks(&world, &next)).await;
        for id in [1, 2] {
            let question = client.ask(&write(id, "x")).await;
            let refused = client
                .ask(&reply(&question, json!({"action": "decline"})))
                .await;
            let text = refused.to_string();
            assert!(text.contains("perhaps nobody saw the question"), "{text}");
        }
        let done = client.ask(&write(3, "x")).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        client.hang_up().await;
    });
}

/// A state means nothing to a conversation that asks while the call waits.
#[test]
fn who_did_not_say_that_it_shows_forms_is_not_asked() {
    run_in_no_time(async {
        let world = World::new();
        let next = nobody();
        let mut state = write(1, "x");
        state["params"]["requestState"] = json!("rs1.x.y");
        state["params"]["inputResponses"] = json!({"approval": accept("allow_once")});
        let answers = legacy_answers(asks(&world, &next), &[state]).await;
        let structure = &answers[0]["result"]["structuredContent"];
        assert_eq!(structure["code"], "APPROVAL_REQUIRED", "{answers:?}");
        assert_eq!(next.asked(), 1);
    });
}
