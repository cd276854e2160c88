//! Commands that take long, seen from the client.

use std::path::Path;

use forge_tools::{Processes, Verdict};
use os_sandbox::{Access, Plan, Policy, Requirement, Support};
use serde_json::json;

use super::*;
use crate::support::Always;

fn toolbox(dir: &Path) -> Toolbox {
    let policy = Policy::builder().mount(dir, "/work-dir", Access::READ | Access::WRITE);
    let support = Support::detect();
    let plan = Plan::new(&policy.build().unwrap(), &support, Requirement::Enforce).unwrap();
    Toolbox::builder()
        .processes(Processes::new(plan).default_timeout(Duration::from_secs(600)))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap()
}

/// Looks until it is so.
async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn shell(id: i64, command: &str) -> Value {
    modern(call(id, "shell", json!({"command": command})))
}

#[test]
fn output_is_progress() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut client = Client::of(toolbox(dir.path()));
        let mut request = shell(
            1,
            "sh -c 'head -c 200000 /dev/zero; until [ -e work-dir/go ]; do sleep 0.02; done'",
        );
        request["params"]["_meta"]["progressToken"] = json!("t");
        client.send(request.to_string()).await;
        loop {
            let message = client.receive().await;
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "t");
            let text = message["params"]["message"].as_str().unwrap();
            if text.ends_with("195 KiB of output") {
                break;
            }
        }
        std::fs::write(dir.path().join("go"), "").unwrap();
        client.hang_up().await;
    });
}

/// Also what went into a session of its own.
#[test]
fn a_cancelled_command_ends_with_everything_that_it_started() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let beat = dir.path().join("beat");
        let mut client = Client::of(toolbox(dir.path()));
        let command =
            "sh -c 'setsid sh -c \"while :; do echo x > work-dir/beat; sleep 0.02; done\" & wait'";
        client.send(shell(1, command).to_string()).await;
        until(|| Path::exists(&beat)).await;
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
        });
        client.send(cancelled.to_string()).await;
        loop {
            let _ = std::fs::remove_file(&beat);
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !beat.exists() {
                break;
            }
        }
        assert_eq!(client.hang_up().await, Vec::<Value>::new());
    });
}
