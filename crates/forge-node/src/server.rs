//! The node's side: takes a setup, makes calls until its input ends, and then ends everything.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cap_std::AmbientAuthority;
use forge_tools::within;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::calls::make;
use crate::connection::{FrameQueue, garbage, more, write};
use crate::error::NodeError;
use crate::frame::{BodyParts, CONNECTION, Decoder, FrameKind, NodeFrame};
use crate::message::{Hello, NodeReady, Stats};
use crate::node_state::{NodeCounters, NodeState};
use crate::setup::{OpenedSetup, Setup};
use crate::task::NodeTask;
use crate::usage;

/// Most frames that wait to be written; further senders wait.
const MAX_WAITING: usize = 64;

/// Time for commands to end when the input has ended. Those that run longer are ended with this
/// process.
const ENDING: Duration = Duration::from_secs(20);

/// The means of the program that serves as a node.
///
/// ```
/// use forge_node::ServeOptions;
/// let inside = ServeOptions::new(cap_std::ambient_authority()).control_group("/sys/fs/cgroup");
/// # let _ = inside;
/// ```
#[derive(Clone)]
#[must_use]
pub struct ServeOptions {
    authority: AmbientAuthority,
    control_group: Option<PathBuf>,
}

sandbox_names::debug!(ServeOptions { control_group });

impl ServeOptions {
    /// The authority to open directories, where the setup says.
    pub fn new(authority: AmbientAuthority) -> ServeOptions {
        ServeOptions {
            authority,
            control_group: None,
        }
    }

    /// Sets the control group. The node reports its use of processor and memory.
    pub fn control_group(mut self, path: impl Into<PathBuf>) -> ServeOptions {
        self.control_group = Some(path.into());
        self
    }
}

/// Serves as a node over two streams, until the one from the broker ends. Everything that was
/// started has ended then, or ends with this process.
///
/// Must be called on a tokio runtime, whose blocking threads the calls use.
///
/// See the [module](crate) for an example.
///
/// # Errors
///
/// The other side is not a broker, or speaks another version; or the setup is impossible, which it
/// was told.
pub async fn serve<R, W>(reader: R, writer: W, inside: ServeOptions) -> Result<(), NodeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (out, frames) = mpsc::channel(MAX_WAITING);
    let counts = NodeCounters::default();
    let sent = Arc::clone(&counts.bytes_out);
    let mut writing = tokio::spawn(write(writer, FrameQueue::Few(frames), move |bytes| {
        sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }));
    let served = tokio::select! {
        served = serve_reading(reader, out, inside, counts) => served,
        // The reader is gone, and so is the broker.
        _ = &mut writing => return Ok(()),
    };
    // The last words.
    let _gone = within(Some(ENDING), writing).await;
    served
}

async fn serve_reading(
    mut reader: impl AsyncRead + Unpin,
    out: mpsc::Sender<NodeFrame>,
    inside: ServeOptions,
    counts: NodeCounters,
) -> Result<(), NodeError> {
    let began = Instant::now();
    say(&out, FrameKind::Hello, &json!(Hello::ours())).await;
    let mut decoder = Decoder::default();
    let Some(hello) = next(&mut reader, &mut decoder, &counts).await? else {
        return Ok(());
    };
    read::<Hello>(&hello, FrameKind::Hello)?.check()?;
    let mut parts = BodyParts::default();
    let setup: Setup = loop {
        let Some(mut frame) = next(&mut reader, &mut decoder, &counts).await? else {
            return Ok(());
        };
        if frame.kind != FrameKind::Part {
            frame.body = parts.complete(frame.body);
            break read(&frame, FrameKind::Setup)?;
        }
        if !parts.add(&frame.body) {
            return Err(NodeError::garbage("a setup that is too long"));
        }
    };
    let authority = inside.authority;
    let opening = tokio::task::spawn_blocking(move || setup.open(authority));
    let opened = opening.await;
    let opened = match opened.unwrap_or_else(|_| Err("it stopped unexpectedly".to_owned())) {
        Ok(opened) => opened,
        Err(why) => {
            say(&out, FrameKind::Refused, &json!(why)).await;
            return Err(NodeError::Refused(why));
        }
    };
    say(&out, FrameKind::Ready, &json!(ready(&opened))).await;
    let shared = Arc::new(NodeState::new(
        opened,
        out,
        counts,
        inside.control_group.clone(),
    ));
    // Also where this is given up.
    let ending = EndAll(Arc::clone(&shared));
    let mut tasks = JoinSet::new();
    let served = calls(&mut reader, &mut decoder, &shared, &mut tasks, |stats| {
        stats.uptime_ms = forge_tools::millis(began.elapsed());
        if let Some(group) = &inside.control_group {
            usage::fill(stats, group);
        }
    })
    .await;
    drop(ending);
    let all_have_ended = async { while tasks.join_next().await.is_some() {} };
    let _those_that_did = within(Some(ENDING), all_have_ended).await;
    served
}

/// Ends every call under way.
struct EndAll(Arc<NodeState>);

impl Drop for EndAll {
    fn drop(&mut self) {
        let calls: Vec<Arc<NodeTask>> = self.0.lock().values().cloned().collect();
        calls.iter().for_each(|call| call.cancel());
    }
}

/// Takes calls until the input ends.
async fn calls(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
    shared: &Arc<NodeState>,
    tasks: &mut JoinSet<()>,
    usage: impl Fn(&mut Stats),
) -> Result<(), NodeError> {
    // A body of many frames comes in one piece.
    let (mut whose, mut parts) = (CONNECTION, BodyParts::default());
    while let Some(mut frame) = next(reader, decoder, &shared.counts).await? {
        // Those that are over are let go.
        while tasks.try_join_next().is_some() {}
        let in_parts = !parts.is_empty() && whose != frame.id;
        match frame.kind {
            FrameKind::Bye => return Ok(()),
            FrameKind::Part => {
                if in_parts {
                    return Err(NodeError::garbage("two bodies at once"));
                }
                whose = frame.id;
                if !parts.add(&frame.body) {
                    return Err(NodeError::garbage("a body that is too long"));
                }
            }
            FrameKind::Tool
            | FrameKind::Run
            | FrameKind::Get
            | FrameKind::Put
            | FrameKind::Stats => {
                if in_parts {
                    return Err(NodeError::garbage("two bodies at once"));
                }
                frame.body = parts.complete(frame.body);
                let call = shared.open(frame.id);
                let call = call.ok_or_else(|| NodeError::garbage("a call that there cannot be"))?;
                if frame.kind == FrameKind::Stats {
                    let mut stats = shared.stats();
                    usage(&mut stats);
                    frame.body = serde_json::to_vec(&stats).unwrap_or_default();
                }
                tasks.spawn(make(Arc::clone(shared), call, frame));
            }
            FrameKind::Input
            | FrameKind::InputEnd
            | FrameKind::Signal
            | FrameKind::Cancel
            | FrameKind::Window => {
                // It may have ended just now.
                let call = shared.lock().get(&frame.id).cloned();
                if let Some(call) = call {
                    call.take(frame).map_err(NodeError::garbage)?;
                }
            }
            _ => {
                return Err(NodeError::garbage("what no broker says here"));
            }
        }
    }
    Ok(())
}

/// The confinement of calls in it, before any is made.
fn ready(opened: &OpenedSetup) -> NodeReady {
    let files = opened.files.as_ref().map(|files| {
        let mounts = files.mounts().iter();
        let mounts = mounts
            .map(|mount| json!({"path": mount.target().as_str(), "mode": mount.mode().as_str()}));
        json!({"backend": "file handles", "mounts": mounts.collect::<Vec<Value>>()})
    });
    let commands = opened.plan.as_ref().map(|plan| {
        json!({
            "backend": plan.backend(),
            "policy": plan.policy().hash(),
            "promises": plan.entries(),
        })
    });
    NodeReady { commands, files }
}

async fn say(out: &mpsc::Sender<NodeFrame>, kind: FrameKind, body: &Value) {
    let body = serde_json::to_vec(body).unwrap_or_default();
    for frame in crate::frame::frames(kind, CONNECTION, body) {
        // The writer reports when its reader is gone.
        let _gone = out.send(frame).await;
    }
}

/// Returns the next frame; `None` at the end.
async fn next(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
    counts: &NodeCounters,
) -> Result<Option<NodeFrame>, NodeError> {
    loop {
        match decoder.next() {
            Ok(Some(frame)) => return Ok(Some(frame)),
            Ok(None) => {}
            Err(error) => return Err(garbage(&error, decoder)),
        }
        let before = decoder.rest().len();
        match more(reader, decoder).await {
            Ok(()) => {
                let came = decoder.rest().len().saturating_sub(before);
                counts.bytes_in.fetch_add(came as u64, Ordering::Relaxed);
            }
            Err(NodeError::Ended(_)) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
}

fn read<T: DeserializeOwned>(frame: &NodeFrame, kind: FrameKind) -> Result<T, NodeError> {
    if frame.kind != kind {
        let why = format!("{:?} in the place of {kind:?}", frame.kind);
        return Err(NodeError::garbage(why));
    }
    frame.parse().map_err(NodeError::garbage)
}
