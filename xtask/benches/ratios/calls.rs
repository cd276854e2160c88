//! What the executor adds to a call, and the log to that: calls in this process, on a runtime like
//! that of `forge mcp`. Times and not ratios, since there is nobody to compare with.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::audit::{AuditLog, LogOptions};
use forge_tools::{
    Arguments, BlockingHandoff, CallFailure, CallRequest, Intent, Invocation, NoRecord, Param,
    Params, ReadOnlyContext, Reply, ReplyFuture, Spec, Tool, ToolContext, Toolbox,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::compare::{Measure, Outcome, median};

const ROUNDS: usize = 200;
const BATCH: u32 = 50;

const EXECUTOR_US: f64 = 20.0;
const AUDIT_US: f64 = 30.0;

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let stand_in = runtime
        .block_on(async { BlockingHandoff::on_this_runtime() })
        .ok_or("a runtime of one thread")?;
    let (idle, hop) = executor(&runtime, &stand_in)?;
    let (without, with) = audit(&runtime, &stand_in)?;
    let difference = with.saturating_sub(without);
    Ok(vec![
        microseconds(
            "executor, a tool that does nothing",
            idle,
            "the whole call",
            EXECUTOR_US,
        ),
        Measure {
            name: "executor, a tool that does nothing",
            outcome: Outcome::Ratio {
                ours: idle,
                other: hop,
                other_name: "work on another thread",
                target: None,
            },
        },
        microseconds(
            "audit, file_exists",
            difference,
            "above the same call without records",
            AUDIT_US,
        ),
    ])
}

/// A call through the whole road, and what it costs to hand work to another thread, which a call
/// did at least once before another thread stood by.
fn executor(
    runtime: &Runtime,
    stand_in: &BlockingHandoff,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    let toolbox = Toolbox::builder()
        .tool(Nothing(Spec {
            params: Params::new([Param::text("path", "A path.")]),
            ..Spec::looks("nothing", "Does nothing.")
        }))
        .timeout(Duration::from_secs(30))
        .build()?;
    let (mut calls, mut hops) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        calls.push(calls_of(runtime, stand_in, &toolbox, "nothing")?);
        hops.push(runtime.block_on(runtime.spawn(async {
            let start = Instant::now();
            for _ in 0..BATCH {
                // Work that fails would take as long.
                let _ = tokio::task::spawn_blocking(|| ()).await;
            }
            start.elapsed() / BATCH
        }))?);
    }
    Ok((median(calls), median(hops)))
}

/// One call without records, and with the log on the disk.
fn audit(
    runtime: &Runtime,
    stand_in: &BlockingHandoff,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    std::fs::create_dir(dir.path().join("data"))?;
    let builder = || -> Result<_, Box<dyn Error>> {
        let target = SandboxPath::parse("/data")?;
        let data = dir.path().join("data");
        let mount = Mount::open_ambient(target, &data, Mode::ReadOnly, ambient_authority())?;
        let builder = Toolbox::builder().timeout(Duration::from_secs(30));
        Ok(builder.files(FileSandbox::new(vec![mount])?))
    };
    let without = builder()?.recorder(NoRecord).build()?;
    let opened = cap_std::fs::Dir::open_ambient_dir(dir.path(), ambient_authority())?;
    let log = AuditLog::open(opened, LogOptions::default())?;
    let with = builder()?.recorder(log).build()?;
    let (mut plain, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        plain.push(calls_of(runtime, stand_in, &without, "file_exists")?);
        recorded.push(calls_of(runtime, stand_in, &with, "file_exists")?);
    }
    Ok((median(plain), median(recorded)))
}

/// The mean of a batch of calls, made where a server makes them: in a task.
fn calls_of(
    runtime: &Runtime,
    stand_in: &BlockingHandoff,
    toolbox: &Toolbox,
    tool: &'static str,
) -> Result<Duration, Box<dyn Error>> {
    let (toolbox, stand_in) = (toolbox.clone(), stand_in.clone());
    let (time, failed) = runtime.block_on(runtime.spawn(async move {
        let start = Instant::now();
        let mut failed = 0;
        for _ in 0..BATCH {
            let call = CallRequest::new(tool, json!({ "path": "/data/a.md" }))
                .with_blocking_handoff(stand_in.clone());
            failed += u32::from(!toolbox.call(call).await.ok);
        }
        (start.elapsed() / BATCH, failed)
    }))?;
    match failed {
        0 => Ok(time),
        _ => Err(format!("{failed} calls of {tool} failed").into()),
    }
}

fn microseconds(name: &'static str, time: Duration, of: &'static str, target: f64) -> Measure {
    Measure {
        name,
        outcome: Outcome::Amount {
            got: time.as_secs_f64() * 1e6,
            unit: "µs",
            of,
            target,
        },
    }
}

struct Nothing(Spec);

impl Tool for Nothing {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn prepare(&self, _: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(NothingCall))
    }
}

struct NothingCall;

impl Invocation for NothingCall {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        Box::pin(async { Ok(Reply::text("done")) })
    }
}
