//! How a conversation ends.

use std::future::pending;
use std::sync::Mutex;

use forge_mcp::{McpError, ServerInfo, serve};
use forge_tools::Reply;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;

#[test]
fn the_end_of_input_is_the_end() {
    run(async {
        assert_eq!(exchange(files().1, &[]).await, Vec::<Value>::new());
        let opened = exchange(files().1, &[initialize("2025-06-18")]).await;
        assert_eq!(opened.len(), 1);

        // A last line without its newline is still a line.
        let mut client = Client::of(files().1);
        let ping = request(3, "ping", json!({})).to_string();
        client.send_unended(ping).await;
        assert_eq!(client.hang_up().await[0]["id"], 3);
    });
}

/// A call that hangs and a client that does not read: neither keeps the process.
#[test]
fn the_end_of_input_is_the_end_whoever_hangs() {
    // The clock jumps ahead whenever nothing else is left to do.
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    clock.block_on(async {
        let (dropped, was_dropped) = oneshot::channel();
        let once = Mutex::new(Some(Dropped(Some(dropped))));
        let toolbox = custom("hang", move || {
            let guard = once.lock().unwrap().take();
            Box::pin(async move {
                let _guard = guard;
                pending().await
            })
        });
        let answers = legacy_answers(toolbox, &[call(1, "hang", json!({}))]).await;
        assert_eq!(answers, Vec::<Value>::new());
        was_dropped.await.unwrap();

        // More than fits the pipe.
        let toolbox = custom("flood", || {
            Box::pin(async { Ok(Reply::text("x".repeat(200_000))) })
        });
        let mut client = Client::of(toolbox);
        client.ask(&initialize("2025-11-25")).await;
        client.send(call(1, "flood", json!({})).to_string()).await;
        // The answer is under way, and stuck.
        client.output.read_u8().await.unwrap();
        drop(client.input);
        tokio::time::timeout(WATCHDOG, client.server)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    });
}

#[test]
fn a_client_that_stops_listening_is_let_go() {
    run(async {
        let mut client = Client::of(files().1);
        client.ask(&initialize("2025-06-18")).await;
        drop(client.output);
        let ping = request(3, "ping", json!({})).to_string() + "\n";
        client.input.write_all(ping.as_bytes()).await.unwrap();
        // Its input stays open.
        client.server.await.unwrap().unwrap();
    });
}

/// A reader that fails in the middle of a conversation.
struct Failing;

impl tokio::io::AsyncRead for Failing {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::Error::other("gone")))
    }
}

#[test]
fn a_stream_that_fails_is_reported() {
    run(async {
        let info = ServerInfo::new("forge", "1.2.3");
        let served = serve(files().1, info, Failing, tokio::io::sink()).await;
        assert!(matches!(served, Err(McpError::Read(_))), "{served:?}");
    });
}
