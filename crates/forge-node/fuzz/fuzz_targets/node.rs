//! Any bytes to a node, and any bytes to a broker that has asked a node something: both come to an
//! end, and the broker's call is answered by what is an answer.
//!
//! An input that begins with `1` is for the broker, one with `0` for the node. The node has a mount
//! in memory and nothing else, so that whatever it is asked touches no disk.
#![no_main]

use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_node::{NodeClient, NodeConnectOptions, NodeRunner, ServeOptions, Setup, serve};
use forge_tools::{CallRequest, Toolbox};
use forge_tools_fuzz::check_text;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// One that takes longer does not end.
const PATIENCE: Duration = Duration::from_secs(8);

fn frame(kind: u8, body: &Value) -> Vec<u8> {
    let body = body.to_string().into_bytes();
    let length = u32::try_from(body.len()).expect("short");
    [&[kind, 0, 0, 0, 0][..], &length.to_be_bytes(), &body].concat()
}

fn hello() -> Vec<u8> {
    frame(1, &json!({"forge-node": 1, "version": "1"}))
}

fn setup() -> Vec<u8> {
    let mount = json!({
        "path": "/m", "place": null, "writable": true, "suffixes": null, "max_file_bytes": 65536,
        "quota_bytes": null, "quota_files": null, "hard_links": "allow", "strict_paths": false,
        "protected": [], "hidden": [], "rules_from": []
    });
    let files = json!({"relative_roots": false, "mounts": [mount]});
    frame(
        2,
        &json!({"files": files, "commands": null, "max_write_bytes": null}),
    )
}

fuzz_target!(|input: &[u8]| {
    let (first, noise) = input.split_first().unwrap_or((&0, &[]));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let work = async {
            match first % 2 {
                0 => to_the_node(noise).await,
                _ => to_the_broker(noise).await,
            }
        };
        let ended = tokio::time::timeout(PATIENCE, work).await;
        ended.expect("it does not end");
    });
});

async fn to_the_node(noise: &[u8]) {
    let (mut broker, reader) = tokio::io::duplex(64 * 1024);
    let (writer, mut answers) = tokio::io::duplex(64 * 1024);
    let inside = ServeOptions::new(cap_std::ambient_authority());
    let node = tokio::spawn(serve(reader, writer, inside));
    let speak = async {
        for part in [&hello(), &setup(), noise] {
            let _had_enough = broker.write_all(part).await;
        }
        drop(broker);
    };
    let mut said = Vec::new();
    let (_, read) = tokio::join!(speak, answers.read_to_end(&mut said));
    read.expect("a pipe of ours");
    let _either = node.await.expect("no panic");
}

async fn to_the_broker(noise: &[u8]) {
    let (broker, mut node) = tokio::io::duplex(1 << 20);
    let ready = frame(3, &json!({"commands": null, "files": {}}));
    node.write_all(&[hello(), ready].concat())
        .await
        .expect("room for it");
    let (reader, writer) = tokio::io::split(broker);
    let connected = NodeClient::connect(
        reader,
        writer,
        Setup::new(),
        NodeConnectOptions::new("elsewhere"),
    )
    .await;
    let memory = SandboxPath::parse("/m").expect("a path");
    let mount = Mount::memory(memory, Mode::ReadWrite);
    let toolbox = Toolbox::builder()
        .files(FileSandbox::new(vec![mount]).expect("one mount"))
        .runner(NodeRunner::new(connected.expect("a node so far")))
        .build()
        .expect("tools");
    let call = toolbox.call(CallRequest::new("file_exists", json!({"path": "/m/x"})));
    let speak = async {
        let mut asked = [0; 4096];
        let _first_words = node.read(&mut asked).await;
        let _had_enough = node.write_all(noise).await;
        drop(node);
    };
    let (result, ()) = tokio::join!(call, speak);
    check_text("node", &result.content);
}
