//! The protocol from outside: raw lines in, raw lines out, in both eras.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod approvals;
mod approvals_while_waiting;
mod calls;
mod changes;
// Commands are confined on Linux only, so far.
#[cfg(target_os = "linux")]
mod commands;
mod ending;
#[cfg(feature = "http")]
mod host_questions;
mod http;
mod interleaved;
mod listing;
mod noise;
mod opening;
mod place;
mod progress;
mod protocol;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../../../forge-tools/tests/it/support.rs"]
mod support;
mod wrong;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use forge_mcp::{McpError, ServerInfo, Service, ServiceHandle, serve, serve_live};
use forge_tools::{
    Annotations, Arguments, CallFailure, Intent, Invocation, Params, PreferredRunner,
    ReadOnlyContext, Reply, ReplyFuture, Risk, Spec, Tool, ToolContext, Toolbox,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::protocol::Protocol;
use crate::support::World;

/// No test waits for this; it only keeps a defect from hanging the suite.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Somebody at the other end of the line.
struct Client {
    input: DuplexStream,
    output: BufReader<DuplexStream>,
    server: JoinHandle<Result<(), McpError>>,
    protocol: Protocol,
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
            protocol: Protocol::default(),
        }
    }

    /// Of a service that the test may replace.
    fn live(live: &ServiceHandle) -> Self {
        let (input, reader) = tokio::io::duplex(64 * 1024);
        let (writer, output) = tokio::io::duplex(64 * 1024);
        let live = live.clone();
        Client {
            input,
            output: BufReader::new(output),
            server: tokio::spawn(async move {
                serve_live(&live, ServerInfo::new("forge", "1.2.3"), reader, writer).await
            }),
            protocol: Protocol::default(),
        }
    }

    async fn send(&mut self, line: impl AsRef<[u8]>) {
        self.send_unended(line).await;
        self.input.write_all(b"\n").await.unwrap();
    }

    /// A line whose end does not come.
    async fn send_unended(&mut self, line: impl AsRef<[u8]>) {
        if let Ok(message) = serde_json::from_slice(line.as_ref()) {
            self.protocol.sent(&message);
        }
        self.input.write_all(line.as_ref()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        heard(&mut self.protocol, &line)
    }

    async fn ask(&mut self, request: &Value) -> Value {
        self.send(request.to_string()).await;
        self.receive().await
    }

    /// Hangs up, and gives back everything that was still said.
    async fn hang_up(self) -> Vec<Value> {
        let Client {
            input,
            mut output,
            server,
            mut protocol,
        } = self;
        drop(input);
        let mut rest = String::new();
        output.read_to_string(&mut rest).await.unwrap();
        server.await.unwrap().unwrap();
        rest.lines()
            .map(|line| heard(&mut protocol, line))
            .collect()
    }
}

/// A message of the server, which is one by the schema too.
fn heard(protocol: &mut Protocol, line: &str) -> Value {
    let message = serde_json::from_str(line).unwrap();
    assert_eq!(protocol.received(&message), [""; 0], "{message}");
    message
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(WATCHDOG, test).await.unwrap() });
}

/// The same with a clock that jumps ahead whenever nothing else is left to do.
fn run_in_no_time(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test);
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
struct Custom<F>(Spec, Arc<F>);

struct CustomCall<F>(Arc<F>);

impl<F> Tool for Custom<F>
where
    F: Fn(ToolContext) -> ReplyFuture + Send + Sync + 'static,
{
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(CustomCall(Arc::clone(&self.1))))
    }
}

impl<F> Invocation for CustomCall<F>
where
    F: Fn(ToolContext) -> ReplyFuture + Send + Sync + 'static,
{
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        (self.0)(context)
    }
}

fn custom<F>(name: &str, run: F) -> Toolbox
where
    F: Fn() -> ReplyFuture + Send + Sync + 'static,
{
    custom_with(name, move |_| run())
}

fn custom_with<F>(name: &str, run: F) -> Toolbox
where
    F: Fn(ToolContext) -> ReplyFuture + Send + Sync + 'static,
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
    Toolbox::builder()
        .tool(Custom(spec, Arc::new(run)))
        .build()
        .unwrap()
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
