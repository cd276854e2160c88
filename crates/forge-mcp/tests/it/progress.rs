//! Word of a call that takes long.

use serde_json::{Value, json};

use super::*;

/// A tool that takes three and a half seconds and moves as much as it is told.
fn slow(bytes: u64) -> Toolbox {
    custom_with("slow", move |context| {
        Box::pin(async move {
            for _ in 0..7 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                if let Some(progress) = context.progress() {
                    progress.add_bytes(bytes);
                }
            }
            Ok(Reply::text("done"))
        })
    })
}

fn with_token(mut request: Value, token: &Value) -> Value {
    if request["params"].get("_meta").is_none() {
        request["params"]["_meta"] = json!({});
    }
    request["params"]["_meta"]["progressToken"] = token.clone();
    request
}

#[test]
fn a_long_call_is_told_of_each_second_and_each_64_kib() {
    run_in_no_time(async {
        for (bytes, most) in [(0, 3), (64 * 1024, 10)] {
            for (era, token) in [
                ((|request| request) as fn(Value) -> Value, json!(5)),
                (modern, json!("x")),
            ] {
                let mut client = Client::of(slow(bytes));
                if token == json!(5) {
                    client.ask(&initialize("2025-11-25")).await;
                }
                let request = with_token(era(call(1, "slow", json!({}))), &token);
                client.send(request.to_string()).await;
                let mut last = 0.0;
                let mut count = 0;
                let done = loop {
                    let message = client.receive().await;
                    if message["id"] == 1 {
                        break message;
                    }
                    assert_eq!(message["method"], "notifications/progress");
                    assert_eq!(message["params"]["progressToken"], token);
                    let now = message["params"]["progress"].as_f64().unwrap();
                    assert!(now > last, "{now} after {last}");
                    last = now;
                    count += 1;
                };
                assert_eq!(done["result"]["content"][0]["text"], "done");
                assert!((3..=most).contains(&count), "{bytes} {count}");
                assert_eq!(client.hang_up().await, Vec::<Value>::new());
            }
        }
    });
}

#[test]
fn who_did_not_ask_hears_nothing() {
    run_in_no_time(async {
        let mut client = Client::of(slow(1 << 20));
        let done = client.ask(&modern(call(1, "slow", json!({})))).await;
        assert_eq!(done["id"], 1);
        client.hang_up().await;
    });
}
