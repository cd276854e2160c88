//! What the official conformance suite of MCP judges (`cargo xtask test --mcp`): the tools of
//! this crate and a few that the suite calls by name, behind the same adapter as the product.
//!
//! Served over HTTP, since the suite knows no other transport. It sends no token, so this
//! passes its connections on to the socket of a user's own, where none is wanted. Prints the
//! address, and ends with its standard input.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, cap_std};
use forge_mcp::{HttpListener, ServerInfo, ServiceHandle, serve_http};
use forge_tools::{
    Arguments, CallFailure, FailureCode, Gate, GateRequest, Intent, Invocation, Judgement,
    ReadOnlyContext, Reply, ReplyFuture, SafeDefaults, Spec, Tool, ToolContext, Toolbox,
    ToolboxError, Verdict, VerdictReason,
};
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Another of these is a word of progress to whoever waits.
const STEP_BYTES: u64 = 64 * 1024;

/// What the suite calls, and what it is there to see.
const FIXTURES: [(&str, Act); 15] = [
    ("test_simple_text", Act::Text),
    ("test_error_handling", Act::Error),
    ("test_tool_with_progress", Act::Progress),
    // The suite asks for forms of its own making; this server has one form, for approvals, and
    // puts that one.
    ("test_elicitation", Act::Ask),
    ("test_elicitation_sep1034_defaults", Act::Ask),
    ("test_elicitation_sep1330_enums", Act::Ask),
    ("test_input_required_result_elicitation", Act::Ask),
    ("test_input_required_result_request_state", Act::Ask),
    ("test_input_required_result_multiple_inputs", Act::Ask),
    ("test_input_required_result_multi_round", Act::Ask),
    ("test_input_required_result_tampered_state", Act::Ask),
    ("test_input_required_result_capabilities", Act::Ask),
    ("test_streaming_elicitation", Act::Ask),
    ("test_logging_tool", Act::Text),
    ("test_trigger_tool_change", Act::Change),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Text,
    Error,
    Progress,
    /// Another list of tools from here on.
    Change,
    /// Text, if a person agrees.
    Ask,
}

#[derive(Clone)]
struct Fixture {
    spec: Spec,
    act: Act,
    world: World,
}

/// What toolboxes are made of, and whom the next one is given to.
#[derive(Clone)]
struct World {
    files: FileSandbox,
    live: ServiceHandle,
    /// Whether the list has one tool more.
    more: bool,
}

impl Tool for Fixture {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, _: &Arguments) -> std::result::Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(self.clone()))
    }
}

impl Invocation for Fixture {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> std::result::Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            match self.act {
                Act::Text | Act::Ask => {
                    Ok(Reply::text("This is a simple text response for testing."))
                }
                Act::Error => Err(CallFailure::new(
                    FailureCode::CommandNotFound,
                    "This tool intentionally returns an error for testing",
                )),
                Act::Change => {
                    let mut world = self.world.clone();
                    world.more = !world.more;
                    let toolbox = world.toolbox().map_err(|error| {
                        CallFailure::new(FailureCode::Internal, format!("No other list: {error}"))
                    })?;
                    self.world.live.replace(toolbox);
                    Ok(Reply::text("Changed."))
                }
                Act::Progress => {
                    for _ in 0..3 {
                        if let Some(progress) = context.progress() {
                            progress.add_bytes(STEP_BYTES);
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Ok(Reply::text("Done."))
                }
            }
        })
    }
}

/// Asks for what is there to be asked for, and otherwise as ever.
struct Asks;

impl Gate for Asks {
    fn judge(&self, request: &GateRequest<'_>) -> Judgement {
        let name = request.tool;
        if FIXTURES.contains(&(name, Act::Ask)) {
            Judgement::new(
                Verdict::Ask,
                VerdictReason::new("the suite wants to be asked"),
            )
        } else {
            SafeDefaults.judge(request)
        }
    }
}

impl World {
    fn toolbox(&self) -> std::result::Result<Toolbox, ToolboxError> {
        let fixture = |name: &str, act| Fixture {
            spec: Spec::looks(name, "Is called by the conformance suite."),
            act,
            world: self.clone(),
        };
        let mut builder = Toolbox::builder().files(self.files.clone()).gate(Asks);
        for (name, act) in FIXTURES {
            builder = builder.tool(fixture(name, act));
        }
        if self.more {
            builder = builder.tool(fixture("test_one_more", Act::Text));
        }
        builder.build()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    std::fs::create_dir(&data)?;
    std::fs::write(data.join("hello.txt"), "hello\n")?;
    let own = dir.path().join("own.sock");
    let user = std::fs::metadata(&data)?.uid();
    let listener = HttpListener::unix(UnixListener::bind(&own)?, user);
    let mount = Mount::open_ambient(
        SandboxPath::parse("/data")?,
        &data,
        Mode::ReadWrite,
        cap_std::ambient_authority(),
    )?;
    let live = ServiceHandle::new(Toolbox::builder().build()?);
    let world = World {
        files: FileSandbox::new(vec![mount])?,
        live: live.clone(),
        more: false,
    };
    live.replace(world.toolbox()?);
    let info = ServerInfo::new("forge-judged", env!("CARGO_PKG_VERSION"));

    let outside = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(
        std::io::stdout().lock(),
        "http://{}/mcp",
        outside.local_addr()?
    )?;
    let mut until = tokio::io::stdin();
    let mut nothing = Vec::new();
    tokio::select! {
        served = serve_http(&live, info, listener) => served?,
        passed = pass_on(outside, &own) => passed?,
        ended = until.read_to_end(&mut nothing) => drop(ended?),
    }
    // Its thread would wait for standard input for ever.
    drop(dir);
    std::process::exit(0);
}

async fn pass_on(outside: TcpListener, own: &Path) -> std::io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = outside.accept().await?;
        let mut server = UnixStream::connect(own).await?;
        connections.spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        while connections.try_join_next().is_some() {}
    }
}
