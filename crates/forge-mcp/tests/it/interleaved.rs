//! Several conversations on one line: a process is not a conversation, so nothing that one
//! client said holds for another.

use serde_json::{Value, json};

use super::approvals::{accept, again, asks, is_question, nobody, showing, write, written};
use super::*;

/// One can show forms and the other cannot; each of their requests counts for itself, whichever
/// came before.
#[test]
fn two_clients_take_turns() {
    run_in_no_time(async {
        let world = World::new();
        let mut client = Client::of(asks(&world, &nobody()));
        let one = |id| showing(write(id, "one"));
        let other = |id| modern(write(id, "other"));

        let asked = client.ask(&one(1)).await;
        assert!(is_question(&asked), "{asked}");
        let refused = client.ask(&other(2)).await;
        let code = &refused["result"]["structuredContent"]["code"];
        assert_eq!(code, "APPROVAL_REQUIRED", "{refused}");

        // The same id, of another conversation, is free again once it is answered.
        let list = client
            .ask(&modern(request(1, "tools/list", json!({}))))
            .await;
        assert!(list["result"]["tools"].is_array(), "{list}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        // The other one cannot use what was given to the first.
        let stolen = client
            .ask(&again(other(3), 3, &asked, accept("allow_once")))
            .await;
        assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
        assert_eq!(written(&world), None);
        let done = client
            .ask(&again(one(4), 4, &asked, accept("allow_once")))
            .await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(written(&world).unwrap(), "one");
        client.hang_up().await;
    });
}

/// A client with a handshake and one without, in turn: each is answered in its own words, and the
/// list is the same for both.
#[test]
fn both_eras_take_turns() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        client.ask(&initialize("2025-11-25")).await;
        client.send(initialized().to_string()).await;
        let mut lists = Vec::new();
        for id in [1, 2, 3] {
            let list = request(id, "tools/list", json!({}));
            let old = client.ask(&list).await;
            assert_eq!(old["result"].get("resultType"), None, "{old}");
            let new = client.ask(&modern(list)).await;
            assert_eq!(new["result"]["resultType"], "complete", "{new}");
            lists.extend([old, new].map(|answer| answer["result"]["tools"].clone()));
        }
        lists.dedup();
        assert_eq!(lists.len(), 1, "{lists:?}");
        client.hang_up().await;
    });
}

/// What is asked at once is answered when it is ready, not in the order it was asked.
#[test]
fn answers_overtake_each_other() {
    run_in_no_time(async {
        for era in [|request: Value| request, modern as fn(Value) -> Value] {
            let toolbox = custom("slow", || {
                Box::pin(async {
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    Ok(Reply::text("slept"))
                })
            });
            let mut client = Client::of(toolbox);
            if era(json!({})) == json!({}) {
                client.ask(&initialize("2025-11-25")).await;
            }
            let slow = era(call(1, "slow", json!({})));
            client.send(slow.to_string()).await;
            let list = client.ask(&era(request(2, "tools/list", json!({})))).await;
            assert_eq!(list["id"], 2);
            let slept = client.receive().await;
            assert_eq!(slept["id"], 1);
            assert_eq!(slept["result"]["content"][0]["text"], "slept");
            client.hang_up().await;
        }
    });
}
