//! The protocol from outside: raw lines in, raw lines out, in both eras.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_tools::mcp::{McpError, ServerInfo, Service, serve};
use forge_tools::{
    Annotations, Arguments, BoxFuture, Failure, Hands, Intent, Params, PreferredRunner, Reply,
    Risk, Spec, Tool, Toolbox, View,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinHandle;

use crate::support::World;

/// No test waits for this; it only keeps a defect from hanging the suite.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Somebody at the other end of the line.
struct Client {
    input: DuplexStream,
    output: BufReader<DuplexStream>,
    server: JoinHandle<Result<(), McpError>>,
}

impl Client {
    fn of(service: impl Into<Service>) -> Self {
        let (input, reader) = tokio::io::duplex(64 * 1024);
        let (writer, output) = tokio::io::duplex(64 * 1024);
        let info = ServerInfo::new("forge", "1.2.3").instructions("List first.");
        Client {
            input,
            output: BufReader::new(output),
            server: tokio::spawn(serve(service.into(), info, reader, writer)),
        }
    }

    async fn send(&mut self, line: impl AsRef<[u8]>) {
        self.input.write_all(line.as_ref()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, request: &Value) -> Value {
        self.send(request.to_string()).await;
        self.receive().await
    }

    /// Hangs up, and gives back everything that was still said.
    async fn hang_up(mut self) -> Vec<Value> {
        drop(self.input);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).await.unwrap();
        self.server.await.unwrap().unwrap();
        rest.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(WATCHDOG, test).await.unwrap() });
}

/// Sends every line at once, hangs up, and gives back the answers by id.
async fn exchange(service: impl Into<Service>, lines: &[Value]) -> Vec<Value> {
    let mut client = Client::of(service);
    for line in lines {
        client.send(line.to_string()).await;
    }
    let mut answers = client.hang_up().await;
    answers.sort_by_key(|answer| answer["id"].as_i64());
    answers
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request(
        0,
        "initialize",
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}),
    )
}

fn call(id: i64, name: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": name, "arguments": arguments}),
    )
}

/// The same request as a client of 2026-07-28 sends it.
fn modern(mut request: Value) -> Value {
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// Opens in the older way, sends the requests, and gives back their answers.
async fn legacy_answers(service: impl Into<Service>, requests: &[Value]) -> Vec<Value> {
    let mut lines = vec![initialize("2025-06-18"), initialized()];
    lines.extend_from_slice(requests);
    exchange(service, &lines).await.split_off(1)
}

fn files() -> (World, Toolbox) {
    let world = World::new();
    let toolbox = world.toolbox();
    (world, toolbox)
}

/// A tool that does what the test says.
struct Custom<F>(Spec, F);

impl<F> Tool for Custom<F>
where
    F: Fn() -> BoxFuture<'static, Result<Reply, Failure>> + Send + Sync + 'static,
{
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, _: &Arguments, _: &View<'_>) -> Result<Vec<Intent>, Failure> {
        Ok(Vec::new())
    }

    fn run<'a>(&'a self, _: Arguments, _: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        (self.1)()
    }
}

fn custom<F>(name: &str, run: F) -> Toolbox
where
    F: Fn() -> BoxFuture<'static, Result<Reply, Failure>> + Send + Sync + 'static,
{
    let spec = Spec {
        output: None,
        name: name.into(),
        aliases: &[],
        description: "For a test.".into(),
        params: Params::default(),
        risk: Risk::ReadOnly,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::READ,
    };
    Toolbox::builder().tool(Custom(spec, run)).build().unwrap()
}

#[test]
fn a_handshake_settles_on_a_version_that_has_one() {
    run(async {
        for (asked, settled) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2999-01-01", "2025-11-25"),
        ] {
            let (_world, toolbox) = files();
            let answers = exchange(toolbox, &[initialize(asked)]).await;
            assert_eq!(
                answers,
                [json!({"jsonrpc": "2.0", "id": 0, "result": {
                    "protocolVersion": settled,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "forge", "version": "1.2.3"},
                    "instructions": "List first.",
                }})],
                "{asked}"
            );
        }
    });
}

#[test]
fn the_list_states_every_hint_and_is_the_same_in_both_eras() {
    run(async {
        let (_world, toolbox) = files();
        let list = request(1, "tools/list", json!({}));
        let old = legacy_answers(toolbox.clone(), std::slice::from_ref(&list)).await;
        let new = exchange(toolbox.clone(), &[modern(list)]).await;
        let (old, new) = (&old[0]["result"], &new[0]["result"]);

        assert_eq!(old["tools"], new["tools"]);
        assert_eq!(old.as_object().unwrap().len(), 1);
        assert_eq!(new["resultType"], "complete");
        assert_eq!(new["ttlMs"], 0);
        assert_eq!(new["cacheScope"], "private");
        assert_eq!(new.get("nextCursor"), None);

        let tools = old["tools"].as_array().unwrap();
        for (tool, spec) in tools.iter().zip(toolbox.specs()) {
            assert_eq!(tool["inputSchema"], spec.params.to_json_schema());
            assert_eq!(tool["description"], spec.description.as_str());
            assert_eq!(tool.get("outputSchema"), None);
        }
        let rows: Vec<String> = tools
            .iter()
            .map(|tool| format!("{} {} {}", tool["name"], tool["annotations"], tool["_meta"]))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
        "read_file" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "write_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "append_file" {"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "edit_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "list_files" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "search_files" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "delete_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "move_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "copy_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "create_dir" {"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "file_exists" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "file_info" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "hash_file" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "read_output" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "#);
    });
}

/// What a model gets to see of calls that go well and of calls that do not.
#[test]
fn outcomes_of_calls() {
    run(async {
        let (world, toolbox) = files();
        let requests = [
            call(1, "read_file", json!({"path": "/data/readme.md"})),
            call(
                2,
                "write_file",
                json!({"path": "/out/b.md", "content": "hi"}),
            ),
            call(
                3,
                "write_file",
                json!({"path": "/data/readme.md", "content": "hi"}),
            ),
            call(4, "read_file", json!({"path": "/data/readm.md"})),
            call(5, "read_file", json!({"path": "/etc/passwd"})),
            call(6, "read_file", json!({"path": 7})),
            call(7, "read_fil", json!({"path": "/data/readme.md"})),
        ];
        let old = legacy_answers(toolbox.clone(), &requests).await;
        let new: Vec<Value> = requests.into_iter().map(modern).collect();
        let mut new = exchange(toolbox, &new).await;
        for answer in &mut new {
            if let Some(result) = answer.get_mut("result").and_then(Value::as_object_mut) {
                assert_eq!(result.remove("resultType"), Some(json!("complete")));
            }
        }
        assert_eq!(old, new);

        let rows: Vec<String> = old
            .iter()
            .map(|answer| answer.get("result").unwrap_or(&answer["error"]).to_string())
            .collect();
        let text = rows.join("\n");
        assert!(
            !text.contains(world.host.path().to_str().unwrap()),
            "{text}"
        );
        insta::assert_snapshot!(text, @r#"
        {"content":[{"type":"text","text":"hello\nworld\n"}],"isError":false}
        {"content":[{"type":"text","text":"Written 2 characters to /out/b.md"}],"structuredContent":{"success":true,"path":"/out/b.md","chars":2,"bytes":2},"isError":false}
        {"content":[{"type":"text","text":"Cannot write to '/data/readme.md': path is read-only.\nWritable paths: /out"}],"structuredContent":{"code":"READ_ONLY","message":"Cannot write to '/data/readme.md': path is read-only.","hint":"Writable paths: /out","path":"/data/readme.md"},"isError":true}
        {"content":[{"type":"text","text":"File not found: /data/readm.md\nNearest existing names: /data/readme.md"}],"structuredContent":{"code":"NOT_FOUND","message":"File not found: /data/readm.md","hint":"Nearest existing names: /data/readme.md","path":"/data/readm.md"},"isError":true}
        {"content":[{"type":"text","text":"Cannot access '/etc/passwd': path is outside sandbox.\nReadable paths: /data, /out"}],"structuredContent":{"code":"OUTSIDE_SANDBOX","message":"Cannot access '/etc/passwd': path is outside sandbox.","hint":"Readable paths: /data, /out","path":"/etc/passwd"},"isError":true}
        {"content":[{"type":"text","text":"Cannot call read_file: `path` must be a string, not a number."}],"structuredContent":{"code":"INVALID_ARGUMENTS","message":"Cannot call read_file: `path` must be a string, not a number."},"isError":true}
        {"code":-32602,"message":"There is no tool named `read_fil`.\nDid you mean `read_file`?"}
        "#);
    });
}

#[test]
fn a_request_that_cannot_be_taken_is_an_error_of_the_protocol() {
    run(async {
        let (_world, toolbox) = files();
        let answers = legacy_answers(
            toolbox,
            &[
                request(1, "tools/call", json!({"arguments": {}})),
                request(
                    2,
                    "tools/call",
                    json!({"name": "read_file", "arguments": []}),
                ),
                request(3, "tools/call", json!([])),
                json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call"}),
                request(5, "tools/list", json!({"cursor": "x"})),
                request(6, "initialize", json!([])),
                request(7, "no/such/method", json!({})),
                request(8, "initialize", json!({})),
                json!({"id": 9, "method": "tools/list"}),
                json!({"jsonrpc": "2.0", "id": 10, "method": 10}),
                request(11, "subscriptions/listen", json!({"notifications": {}})),
                request(12, "logging/setLevel", json!({"level": "info"})),
                request(13, "server/discover", json!({"_meta": 5})),
            ],
        )
        .await;
        let rows: Vec<String> = answers
            .iter()
            .map(|answer| format!("{} {}", answer["id"], answer["error"]))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
        1 {"code":-32602,"message":"The params of tools/call are malformed."}
        2 {"code":-32602,"message":"The params of tools/call are malformed."}
        3 {"code":-32602,"message":"The params of tools/call are malformed."}
        4 {"code":-32602,"message":"The params of tools/call are malformed."}
        5 {"code":-32602,"message":"There is no such cursor."}
        6 {"code":-32602,"message":"The params of initialize are malformed."}
        7 {"code":-32601,"message":"no/such/method"}
        8 {"code":-32602,"message":"The params of initialize are malformed."}
        9 {"code":-32600,"message":"Not a JSON-RPC 2.0 request."}
        10 {"code":-32600,"message":"Not a JSON-RPC 2.0 request."}
        11 {"code":-32601,"message":"subscriptions/listen"}
        12 {"code":-32601,"message":"logging/setLevel"}
        13 {"code":-32602,"message":"The params of server/discover are malformed."}
        "#);
    });
}

#[test]
fn a_stateless_client_discovers_and_calls() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let discovered = client
            .ask(&modern(request(1, "server/discover", json!({}))))
            .await;
        insta::assert_snapshot!(discovered, @r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"capabilities":{"tools":{}},"instructions":"List first.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"forge","version":"1.2.3"}}}}"#);
        let read = modern(call(2, "read_file", json!({"path": "/data/readme.md"})));
        let answer = client.ask(&read).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hello\nworld\n");
        assert_eq!(client.hang_up().await, Vec::<Value>::new());
    });
}

/// A request without its context is refused before and after the conversation opened;
/// a version nobody knows is named together with those that are known.
#[test]
fn a_stateless_request_brings_its_context() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let bare = request(1, "tools/list", json!({}));
        let mut half = modern(bare.clone());
        half["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove("io.modelcontextprotocol/clientCapabilities");
        let mut future = modern(bare.clone());
        future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");

        for opened in [false, true] {
            for (request, code) in [(&bare, -32602), (&half, -32602), (&future, -32022)] {
                let answer = client.ask(request).await;
                assert_eq!(answer["error"]["code"], code, "{opened} {answer}");
            }
            let answer = client.ask(&future).await;
            let supported = answer["error"]["data"]["supported"].as_array().unwrap();
            assert!(supported.contains(&json!("2026-07-28")), "{answer}");
            // The first answer to this one opens the conversation.
            assert!(client.ask(&modern(bare.clone())).await["result"]["tools"].is_array());
        }
        client.hang_up().await;
    });
}

#[test]
fn a_probe_that_falls_back_to_the_handshake_is_served() {
    run(async {
        let (_world, toolbox) = files();
        let mut client = Client::of(toolbox);
        let probe = client.ask(&request(1, "server/discover", json!({}))).await;
        assert_eq!(probe["error"]["code"], -32602);
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
        });
        client.send(cancelled.to_string()).await;
        let opened = client.ask(&initialize("2025-11-25")).await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
        client.send(initialized().to_string()).await;
        let list = client.ask(&request(2, "tools/list", json!({}))).await;
        assert!(list["result"]["tools"].is_array());
        client.hang_up().await;
    });
}

/// Whatever comes, before the conversation opened or after, the next request is
/// answered; and noise that is no request is not answered at all.
#[test]
fn noise_harms_nobody() {
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"read_file","arguments":{{"path":"{}"}}}}}}"#,
        "a".repeat(10_000_000)
    );
    let deep = "[".repeat(10_000);
    let many = format!("[{}0]", "0,".repeat(1_000_000));
    let rows: &[(&[u8], Option<i64>)] = &[
        (b"", None),
        (b" \t\r", None),
        (b"garbage", None),
        (b"{\"jsonrpc\":\"2.0\",", None),
        (b"\xff\xfe\x00", None),
        (deep.as_bytes(), None),
        (b"[]", Some(-32600)),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            Some(-32600),
        ),
        (b"7", Some(-32600)),
        (b"{}", Some(-32600)),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Some(-32600),
        ),
        (
            br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            Some(-32600),
        ),
        (br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
        (
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
            None,
        ),
        (
            br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            None,
        ),
        (
            br#"{"jsonrpc":"2.0","method":"window/logMessage","params":[1]}"#,
            None,
        ),
        (long.as_bytes(), Some(-32600)),
        (many.as_bytes(), Some(-32600)),
    ];
    run(async {
        for opened in [false, true] {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if opened {
                client.ask(&initialize("2025-11-25")).await;
            }
            for (line, code) in rows {
                let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
                client.send(line).await;
                if let Some(code) = code {
                    let answer = client.receive().await;
                    assert_eq!(answer["error"]["code"], *code, "{opened} {shown}");
                    assert_eq!(answer.get("id"), None, "{opened} {shown}");
                }
                let pong = client.ask(&request(5, "ping", json!({}))).await;
                assert_eq!(pong["id"], 5, "{opened} {shown}");
                assert_eq!(pong["result"], json!({}), "{opened} {shown}");
            }
            client.hang_up().await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_any_bytes_the_next_request_is_answered(
        opened: bool,
        noise in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                r#"\{"jsonrpc":"2.0"(,"(id|method|params|result|error)":("tools/call"|"tools/list"|"initialize"|"notifications/cancelled"|\{"name":"read_file"\}|[0-9]|null|\[\]|\{\})){0,4}\}"#
                    .prop_map(String::into_bytes),
            ],
            0..12,
        ),
    ) {
        run(async {
            let (_world, toolbox) = files();
            let mut client = Client::of(toolbox);
            if opened {
                client.ask(&initialize("2025-11-25")).await;
            }
            for line in &noise {
                client.send(line).await;
            }
            let list = request(77, "tools/list", json!({}));
            client.send(initialize("2025-11-25").to_string()).await;
            client.send(list.to_string()).await;
            let answers = client.hang_up().await;
            assert!(answers.iter().any(|answer| answer["id"] == 77), "{answers:?}");
        });
    }
}

#[test]
fn the_end_of_input_is_the_end() {
    run(async {
        assert_eq!(exchange(files().1, &[]).await, Vec::<Value>::new());
        let opened = exchange(files().1, &[initialize("2025-06-18")]).await;
        assert_eq!(opened.len(), 1);

        // A last line without its newline is still a line.
        let mut client = Client::of(files().1);
        let ping = request(3, "ping", json!({})).to_string();
        client.input.write_all(ping.as_bytes()).await.unwrap();
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

#[test]
fn calls_run_in_parallel() {
    run(async {
        // Neither call can end before the other has begun.
        let both = Arc::new(Barrier::new(2));
        let toolbox = custom("meet", move || {
            let both = Arc::clone(&both);
            Box::pin(async move {
                both.wait().await;
                Ok(Reply::text("met"))
            })
        });
        let answers = legacy_answers(
            toolbox,
            &[call(1, "meet", json!({})), call(2, "meet", json!({}))],
        )
        .await;
        for answer in &answers {
            assert_eq!(answer["result"]["content"][0]["text"], "met");
        }
        assert_eq!(answers.len(), 2);
    });
}

/// Tells when it is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            let _ = told.send(());
        }
    }
}

#[test]
fn a_cancelled_call_is_dropped_and_not_answered() {
    run(async {
        for era in [|request: Value| request, modern as fn(Value) -> Value] {
            let (started, has_started) = oneshot::channel();
            let (dropped, was_dropped) = oneshot::channel();
            let once = Mutex::new(Some((started, Dropped(Some(dropped)))));
            let toolbox = custom("hang", move || {
                let (started, guard) = once.lock().unwrap().take().unwrap();
                Box::pin(async move {
                    let _guard = guard;
                    started.send(()).unwrap();
                    pending().await
                })
            });
            let mut client = Client::of(toolbox);
            if era(json!({})) == json!({}) {
                client.ask(&initialize("2025-11-25")).await;
            }
            client
                .send(era(call(1, "hang", json!({}))).to_string())
                .await;
            has_started.await.unwrap();
            let repeated = client.ask(&era(call(1, "hang", json!({})))).await;
            assert_eq!(repeated["error"]["code"], -32600, "the id is in use");

            let cancelled = json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
            });
            client.send(cancelled.to_string()).await;
            was_dropped.await.unwrap();
            let list = client.ask(&era(request(2, "tools/list", json!({})))).await;
            assert_eq!(list["id"], 2);
            assert_eq!(client.hang_up().await, Vec::<Value>::new());
        }
    });
}

#[test]
fn a_tool_that_panics_costs_one_call() {
    run(async {
        let toolbox = custom("fall", || panic!("on purpose"));
        let answers = legacy_answers(
            toolbox,
            &[
                call(1, "fall", json!({})),
                request(2, "tools/list", json!({})),
            ],
        )
        .await;
        assert_eq!(answers[0]["error"]["code"], -32603);
        assert!(!answers[0].to_string().contains("on purpose"));
        let tools = answers[1]["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "fall"));
    });
}

#[test]
fn a_broken_configuration_is_told_in_answer_to_every_call() {
    run(async {
        let message = "forge.yaml:3:1: unknown key `mounst`, did you mean `mounts`?";
        let broken = Service::Broken {
            message: message.into(),
        };
        let requests = [
            request(1, "tools/list", json!({})),
            call(2, "read_file", json!({"path": "/data/readme.md"})),
            call(3, "anything", json!({})),
        ];
        let opened = exchange(broken.clone(), &[initialize("2025-11-25")]).await;
        assert_eq!(opened[0]["result"]["instructions"], message);
        let old = legacy_answers(broken.clone(), &requests).await;
        let new: Vec<Value> = requests.into_iter().map(modern).collect();
        let new = exchange(broken, &new).await;
        for answers in [old, new] {
            assert_eq!(answers[0]["result"]["tools"], json!([]));
            for answer in &answers[1..] {
                let result = &answer["result"];
                assert_eq!(result["isError"], true);
                assert_eq!(
                    result["content"],
                    json!([{"type": "text", "text": message}])
                );
                assert_eq!(
                    result["structuredContent"],
                    json!({"code": "INVALID_CONFIGURATION", "message": message})
                );
            }
        }
    });
}
