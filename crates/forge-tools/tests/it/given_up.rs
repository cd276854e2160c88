//! A call that was given up works no more: what it began on a thread ends.

use std::time::{Duration, Instant};

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{
    ApprovalAnswer, BlockingHandoff, CallRequest, FailureCode, Toolbox, ToolboxBuilder, Verdict,
};
use serde_json::{Value, json};

use crate::support::{Always, Counting};

/// Hours of work for each look at all bytes, and no space on the disk.
const BYTES: u64 = 1 << 40;
const LIMIT: Duration = Duration::from_millis(100);
/// A watchdog: cancelled work ends within a chunk of a file.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a call is made.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    /// On the thread that serves.
    HandedOver,
    /// A person is asked first, and shown the change.
    Asked,
    AskedAhead,
}

async fn made(toolbox: &Toolbox, way: Way, call: CallRequest) -> Option<FailureCode> {
    match way {
        Way::Plain | Way::Asked => toolbox.call(call).await.code,
        Way::HandedOver => {
            let handoff = BlockingHandoff::on_this_runtime().unwrap();
            toolbox.call(call.with_blocking_handoff(handoff)).await.code
        }
        Way::AskedAhead => {
            let prepared = toolbox.prepare(vec![call]).await.pop()?;
            prepared.make().await.code
        }
    }
}

fn builder(host: &std::path::Path) -> ToolboxBuilder {
    let target = SandboxPath::parse("/out").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, host, Mode::ReadWrite, authority).unwrap();
    Toolbox::builder()
        .files(FileSandbox::new(vec![mount]).unwrap())
        .timeout(LIMIT)
}

#[test]
fn its_work_ends() {
    let hash = "0".repeat(64);
    let rows: Vec<(&str, Value)> = vec![
        ("hash_file", json!({"path": "/out/a.bin"})),
        (
            "write_file",
            json!({"path": "/out/a.bin", "content": "x", "overwrite": true, "if_match": hash}),
        ),
    ];
    let host = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(host.path().join("a.bin")).unwrap();
    file.set_len(BYTES).unwrap();
    let mut late = Vec::new();
    for (tool, arguments) in rows {
        for way in [Way::Plain, Way::HandedOver, Way::Asked, Way::AskedAhead] {
            let builder = builder(host.path());
            let toolbox = match way {
                Way::Plain | Way::HandedOver => builder.gate(Always(Verdict::Allow)),
                Way::Asked | Way::AskedAhead => builder.gate(Always(Verdict::Ask)).approver(
                    Counting::new(ApprovalAnswer::AllowOnce { by: "test".into() }),
                ),
            };
            let toolbox = toolbox.build().unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let call = CallRequest::new(tool, arguments.clone());
            let code = runtime.block_on(async {
                let toolbox = toolbox.clone();
                tokio::spawn(async move { made(&toolbox, way, call).await })
                    .await
                    .unwrap()
            });
            assert!(code.is_some(), "{tool} {way:?}");
            let began = Instant::now();
            runtime.shutdown_timeout(PATIENCE);
            if began.elapsed() >= PATIENCE {
                late.push(format!("{tool} {way:?}: {code:?}"));
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
