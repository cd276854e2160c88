//! A service that is replaced while a client is there.

use forge_mcp::{Service, ServiceHandle};
use serde_json::{Value, json};

use super::*;

fn broken() -> Service {
    Service::Broken {
        message: "forge.yaml:3:1: unknown key `mounst`".into(),
    }
}

#[test]
fn a_client_with_a_handshake_is_told_of_a_new_list() {
    run_in_no_time(async {
        let world = World::new();
        let live = ServiceHandle::new(broken());
        let mut client = Client::live(&live);
        let opened = client.ask(&initialize("2025-11-25")).await;
        assert_eq!(
            opened["result"]["capabilities"],
            json!({"tools": {"listChanged": true}})
        );
        client.send(initialized().to_string()).await;
        // Once more does not mean twice as often.
        client.send(initialized().to_string()).await;
        let list = request(1, "tools/list", json!({}));
        assert_eq!(client.ask(&list).await["result"]["tools"], json!([]));

        live.replace(world.toolbox());
        let told = client.receive().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        let tools = client.ask(&list).await["result"]["tools"].clone();
        assert_eq!(tools[0]["name"], "read_file");
        // The same list from another policy is no news.
        live.replace(world.toolbox());
        assert_eq!(client.ask(&list).await["result"]["tools"], tools);
        live.replace(broken());
        let told = client.receive().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(client.hang_up().await, Vec::<Value>::new());
    });
}

#[test]
fn a_client_without_one_listens() {
    run_in_no_time(async {
        let world = World::new();
        let live = ServiceHandle::new(broken());
        let mut client = Client::live(&live);
        let wanted =
            json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
        let listening = client
            .ask(&modern(request(7, "subscriptions/listen", wanted)))
            .await;
        insta::assert_snapshot!(listening, @r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}"#);
        live.replace(world.toolbox());
        let told = client.receive().await;
        insta::assert_snapshot!(told, @r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#);

        // Whoever hangs up is not kept waiting for the end of the stream.
        let rest = client.hang_up().await;
        let ends: Vec<&Value> = rest.iter().map(|message| &message["id"]).collect();
        assert!(ends.is_empty() || ends == [&json!(7)], "{rest:?}");
    });
}

#[test]
fn a_cancelled_stream_is_silent() {
    run_in_no_time(async {
        let world = World::new();
        let live = ServiceHandle::new(broken());
        let mut client = Client::live(&live);
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        client
            .ask(&modern(request(7, "subscriptions/listen", wanted)))
            .await;
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7},
        });
        client.send(cancelled.to_string()).await;
        let list = modern(request(8, "tools/list", json!({})));
        assert_eq!(client.ask(&list).await["id"], 8);
        live.replace(world.toolbox());
        assert_eq!(client.ask(&list).await["id"], 8);
        assert_eq!(client.hang_up().await, Vec::<Value>::new());
    });
}

#[test]
fn what_cannot_change_is_not_listened_for() {
    run_in_no_time(async {
        let mut client = Client::of(World::new().toolbox());
        for (params, code) in [(json!({"notifications": {}}), -32601), (json!({}), -32602)] {
            let listening = modern(request(7, "subscriptions/listen", params));
            assert_eq!(client.ask(&listening).await["error"]["code"], code);
        }
        client.hang_up().await;
    });
}

#[test]
fn a_call_under_way_ends_with_what_it_began_with() {
    run_in_no_time(async {
        let (go, may_go) = oneshot::channel::<()>();
        let may_go = std::sync::Mutex::new(Some(may_go));
        let live = ServiceHandle::new(custom("wait", move || {
            let may_go = may_go.lock().unwrap().take().unwrap();
            Box::pin(async move {
                may_go.await.unwrap();
                Ok(Reply::text("waited"))
            })
        }));
        let mut client = Client::live(&live);
        client
            .send(modern(call(1, "wait", json!({}))).to_string())
            .await;
        let list = modern(request(2, "tools/list", json!({})));
        client.ask(&list).await;
        live.replace(broken());
        assert_eq!(client.ask(&list).await["result"]["tools"], json!([]));
        go.send(()).unwrap();
        let done = client.receive().await;
        assert_eq!(done["result"]["content"][0]["text"], "waited");
        client.hang_up().await;
    });
}

#[test]
fn a_handle_outlives_a_change_of_the_configuration() {
    run_in_no_time(async {
        let world = World::new();
        let text = "a line of a long file\n".repeat(1000);
        std::fs::write(world.host.path().join("data/long.md"), text).unwrap();
        let toolbox = || world.builder().max_result_chars(1000).build().unwrap();
        let live = ServiceHandle::new(toolbox());
        let mut client = Client::live(&live);
        let read = modern(call(1, "read_file", json!({"path": "/data/long.md"})));
        let result = client.ask(&read).await["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        let (_, after) = text.split_once("output_id \"").unwrap();
        let (id, _) = after.split_once('"').unwrap();
        live.replace(toolbox());
        let page = modern(call(2, "read_output", json!({"output_id": id})));
        let page = client.ask(&page).await["result"].clone();
        assert_eq!(page["isError"], json!(false), "{page}");
        client.hang_up().await;
    });
}
