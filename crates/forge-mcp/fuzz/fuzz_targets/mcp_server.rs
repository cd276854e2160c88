//! Any bytes to the MCP server, before or after the conversation was opened: every line of its
//! answer is a message, no request that it could read is answered twice, and the next request is
//! answered.
//!
//! An input that begins with `1` comes after an opening, one with `0` before it.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use forge_mcp::{ServerInfo, serve};
use forge_tools_fuzz::{asking_toolbox, check_text};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// An id that no input knows.
const LAST: &str = "the last request, \u{1f512}";

/// An answer that takes longer is none: a call that waits for a person ends with its client.
const PATIENCE: Duration = Duration::from_secs(8);

/// More than the answers to the longest input.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

fuzz_target!(|input: &[u8]| {
    let (first, noise) = input.split_first().unwrap_or((&0, &[]));
    let opened = first % 2 == 1;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        // It jumps ahead whenever nothing else is left to do.
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async {
        let (mut client, reader) = tokio::io::duplex(64 * 1024);
        let (writer, mut answers) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(serve(
            asking_toolbox(),
            ServerInfo::new("forge", "1"),
            reader,
            writer,
        ));
        let speak = async {
            if opened {
                say(&mut client, &initialize()).await;
            }
            let _hung_up = client.write_all(noise).await;
            let _hung_up = client.write_all(b"\n").await;
            say(&mut client, &initialize()).await;
            say(
                &mut client,
                &json!({"jsonrpc": "2.0", "id": LAST, "method": "tools/list", "params": {}}),
            )
            .await;
            drop(client);
        };
        let mut said = Vec::new();
        let listen = answers.read_to_end(&mut said);
        let both = async { tokio::join!(speak, listen) };
        tokio::time::timeout(PATIENCE, both)
            .await
            .expect("the server ends when its client does")
            .1
            .expect("memory does not fail");
        server.await.expect("no panic").expect("no failure");

        assert!(said.len() < MAX_ANSWER_BYTES, "{} bytes", said.len());
        let said = String::from_utf8(said).expect("text");
        check_text(&String::from_utf8_lossy(noise), &said);
        let mut answered = HashSet::new();
        for line in said.lines() {
            let message: Value = serde_json::from_str(line).expect("a message a line");
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            let is_answer = message.get("result").or(message.get("error")).is_some();
            if is_answer && message["id"] == LAST {
                assert!(answered.insert(message["id"].to_string()), "twice: {line}");
            }
        }
        assert_eq!(
            answered.len(),
            1,
            "the last request was not answered: {said}"
        );
    });
});

fn initialize() -> Value {
    let client = json!({"name": "fuzz", "version": "1"});
    json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client,
    }})
}

/// A server that has hung up hears nothing.
async fn say(client: &mut tokio::io::DuplexStream, message: &Value) {
    let line = format!("{message}\n");
    let _hung_up = client.write_all(line.as_bytes()).await;
}
