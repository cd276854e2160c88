//! One call in a node: a file tool, a command, or a file.

use std::io::{Read as _, Write};
use std::path::Path;
use std::sync::Arc;

use file_sandbox::{SandboxPath, WriteOptions};
use forge_tools::{
    CallFailure, CommandLine, CommandRunner, CommandSpec, CommandStdin, ExitReport, FailureCode,
    ProgramList, RunningCommand,
};
use os_sandbox::{Exceeded, Exit, Stream};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::error::internal;
use crate::frame::{FrameKind, MAX_WHOLE_BYTES, NodeFrame, frames};
use crate::message::{
    FileDone, GetCall, PutCall, RunCall, RunDone, WireFailure, WireInput, WireReply, WireToolCall,
};
use crate::node_state::{NodeState, absent};
use crate::task::NodeTask;
use crate::usage;
use crate::window::{CHUNK_BYTES, WINDOW_BYTES, cost, wait};

/// Makes a call and reports its result.
pub(crate) async fn make(shared: Arc<NodeState>, call: Arc<NodeTask>, frame: NodeFrame) {
    let id = frame.id;
    let outcome = match frame.kind {
        FrameKind::Tool => tool(&shared, &call, &frame).await,
        FrameKind::Run => here(&shared, &call, frame, run).await,
        FrameKind::Get => here(&shared, &call, frame, get).await,
        FrameKind::Put => here(&shared, &call, frame, put).await,
        // It was looked at where the frame was read.
        _ => Ok(frame.body),
    };
    let said = match outcome {
        Ok(body) if body.len() <= MAX_WHOLE_BYTES => frames(FrameKind::Done, id, body),
        Ok(_) => failed(id, too_long()),
        Err(failure) => failed(id, failure),
    };
    // Before the last word: after it the id is free.
    shared.close(id);
    for frame in said {
        let _gone = shared.out.send(frame).await;
    }
}

fn failed(id: u32, failure: CallFailure) -> Vec<NodeFrame> {
    let body = serde_json::to_vec(&WireFailure::from(failure)).unwrap_or_default();
    frames(FrameKind::Failed, id, body)
}

fn too_long() -> CallFailure {
    FailureCode::Limit
        .failure("The answer is too long to be sent.")
        .hint("Ask for less at once.")
}

/// Does the work of a call and returns the body of its result.
type TaskWork<T> = fn(&NodeState, &NodeTask, u32, T) -> Result<Vec<u8>, CallFailure>;

/// Does blocking work, with files or commands, on a blocking thread.
async fn here<T: DeserializeOwned + Send + 'static>(
    shared: &Arc<NodeState>,
    call: &Arc<NodeTask>,
    frame: NodeFrame,
    work: TaskWork<T>,
) -> Result<Vec<u8>, CallFailure> {
    let asked: T = frame.parse().map_err(internal)?;
    let (shared, call) = (Arc::clone(shared), Arc::clone(call));
    let working = tokio::task::spawn_blocking(move || work(&shared, &call, frame.id, asked));
    working.await.unwrap_or_else(|_| {
        Err(internal(
            "The tool stopped unexpectedly; nothing else was affected.",
        ))
    })
}

fn done(value: &impl serde::Serialize) -> Result<Vec<u8>, CallFailure> {
    serde_json::to_vec(value).map_err(|_| internal("No answer could be made."))
}

async fn tool(
    shared: &NodeState,
    call: &NodeTask,
    frame: &NodeFrame,
) -> Result<Vec<u8>, CallFailure> {
    let asked: WireToolCall = frame.parse().map_err(internal)?;
    let tools = shared.tools.as_ref().ok_or_else(|| absent("such tool"))?;
    let (tool, arguments, context) = asked.read()?;
    let cancel = call.cancel.clone();
    let reply = tools.run(&tool, &arguments, context, cancel).await?;
    done(&WireReply::from(reply))
}

fn run(
    shared: &NodeState,
    call: &NodeTask,
    id: u32,
    asked: RunCall,
) -> Result<Vec<u8>, CallFailure> {
    let local = shared.commands.as_ref();
    let local = local.ok_or_else(|| absent("commands"))?;
    check_programs(shared, asked.line.as_ref())?;
    let start = CommandSpec {
        input: match asked.input {
            WireInput::Nothing | WireInput::Piped => CommandStdin::Nothing,
            WireInput::Said => CommandStdin::StatusSocket,
        },
        timeout: asked.timeout_ms.map(std::time::Duration::from_millis),
        directory: asked.directory,
        ..CommandSpec::new(asked.program, asked.args)
    };
    let memory = NodeMemory::watch(shared.control_group.as_deref());
    let started = match asked.input {
        WireInput::Nothing | WireInput::Said => local.start(start).map(|started| (started, None)),
        WireInput::Piped => local.start_piped(start),
    };
    let (started, stdin) = started.map_err(|failure| hint_at_image(shared, failure))?;
    call.killed_by(started.killer()?);
    shared.send(NodeFrame::new(FrameKind::Started, id, Vec::new()));
    let ended = match stdin {
        None => started.wait(&mut |stream, bytes| send_output(shared, call, id, stream, bytes)),
        Some(stdin) => wait_feeding(shared, call, id, started, stdin),
    }?;
    for chunk in ended.said.chunks(CHUNK_BYTES) {
        shared.send(NodeFrame::new(FrameKind::Said, id, chunk));
    }
    let exceeded = ended.exceeded.or_else(|| memory.exceeded(ended.exit));
    done(&RunDone {
        exit: ended.exit,
        exceeded,
        quarantined: ended.quarantined,
        enforcement: ended.enforcement,
    })
}

/// The memory limit of the node's own group, which the plan does not know: its container's.
struct NodeMemory<'a> {
    group: Option<&'a Path>,
    out_of_memory: Option<u64>,
}

impl NodeMemory<'_> {
    fn watch(group: Option<&Path>) -> NodeMemory<'_> {
        NodeMemory {
            group,
            out_of_memory: group.and_then(usage::out_of_memory),
        }
    }

    /// Returns the limit in words if a failed command reached it.
    fn exceeded(&self, exit: Exit) -> Option<String> {
        // The lower of the two.
        let limit = Exceeded::Memory(self.group.and_then(usage::memory_limit)?);
        let reached = self.out_of_memory < self.group.and_then(usage::out_of_memory);
        (reached && exit != Exit::Code(0))
            .then(|| format!("{limit} (limits.memory_mb or docker.mem_limit_mb)"))
    }
}

/// Sends output of a command, as much as the broker's window allows.
fn send_output(shared: &NodeState, call: &NodeTask, id: u32, stream: Stream, bytes: &[u8]) {
    let kind = match stream {
        Stream::Stdout => FrameKind::Stdout,
        Stream::Stderr => FrameKind::Stderr,
    };
    for chunk in bytes.chunks(CHUNK_BYTES) {
        if wait(call.window.take(chunk.len())).is_some() {
            shared.send(NodeFrame::new(kind, id, chunk));
        }
    }
}

/// Waits for the end of a command, and gives it the input that the broker sends.
fn wait_feeding(
    shared: &NodeState,
    call: &NodeTask,
    id: u32,
    started: Box<dyn RunningCommand>,
    mut stdin: impl Write + Send,
) -> Result<ExitReport, CallFailure> {
    let mut inbox = call.listen();
    shared.send(call.grant(WINDOW_BYTES, id));
    let feed = move || {
        let mut open = true;
        while let Some(bytes) = inbox.blocking_recv() {
            // Input that the command no longer reads is taken nevertheless.
            open = open && stdin.write_all(&bytes).is_ok();
            shared.send(call.grant(cost(bytes.len()), id));
        }
    };
    std::thread::scope(|scope| {
        let ended = match std::thread::Builder::new().spawn_scoped(scope, feed) {
            Ok(_) => {
                started.wait(&mut |stream, bytes| send_output(shared, call, id, stream, bytes))
            }
            Err(_) => Err(internal(
                "Cannot run the command: there is nobody to give it its input.",
            )),
        };
        call.no_more_input();
        ended
    })
}

/// Adds a hint to the failure of a command that an image does not have.
fn hint_at_image(shared: &NodeState, failure: CallFailure) -> CallFailure {
    match shared.own_container && failure.code == FailureCode::CommandNotFound {
        true => failure.hint(
            "Commands run in a container here, and its image does not have this program. Only \
                 a person can choose another image.",
        ),
        false => failure,
    }
}

/// The check that the broker has made, again: a name may lead to another program here.
fn check_programs(
    shared: &NodeState,
    line: Option<&(String, Vec<String>)>,
) -> Result<(), CallFailure> {
    let (Some((line, state)), Some(local)) = (line, &shared.commands) else {
        return Ok(());
    };
    if shared.programs.is_empty() {
        return Ok(());
    }
    let unclear = || internal("A line that was not judged.");
    let line = CommandLine::parse(line).map_err(|_| unclear())?;
    let line = line.in_session_of(state).ok_or_else(unclear)?;
    ProgramList::check(&shared.programs, &line, local.plan().policy())
}

fn too_large(message: String) -> CallFailure {
    CallFailure::new(
        FailureCode::File(file_sandbox::ErrorKind::TooLarge),
        message,
    )
}

fn get(
    shared: &NodeState,
    call: &NodeTask,
    id: u32,
    asked: GetCall,
) -> Result<Vec<u8>, CallFailure> {
    let files = shared.files.as_ref().ok_or_else(|| absent("files"))?;
    let path = SandboxPath::parse(&asked.path)?;
    let mut file = files.open(&path)?;
    let oversized = || {
        let most = asked.max_bytes;
        too_large(format!("A file of more than {most} bytes is not sent."))
    };
    if file.len() > asked.max_bytes {
        return Err(oversized());
    }
    let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let of_files = error.downcast::<file_sandbox::Error>();
                return Err(
                    of_files.map_or_else(|_| absent("such file any more"), CallFailure::from)
                );
            }
        };
        bytes += count as u64;
        if bytes > asked.max_bytes {
            return Err(oversized());
        }
        hash.update(&chunk[..count]);
        if wait(call.window.take(count)).is_none() {
            return Err(CallFailure::cancelled());
        }
        shared.send(NodeFrame::new(FrameKind::Data, id, &chunk[..count]));
    }
    done(&FileDone {
        bytes,
        sha256: sandbox_names::hex(hash.finalize()),
    })
}

fn put(
    shared: &NodeState,
    call: &NodeTask,
    id: u32,
    asked: PutCall,
) -> Result<Vec<u8>, CallFailure> {
    let path = SandboxPath::parse(&asked.path)?;
    let size = usize::try_from(asked.bytes).unwrap_or(usize::MAX);
    if size > MAX_WHOLE_BYTES {
        let message = format!("A file of {size} bytes is not taken, at most {MAX_WHOLE_BYTES}.");
        return Err(too_large(message));
    }
    let files = shared.files.as_ref().ok_or_else(|| absent("files"))?;
    if !asked.plant {
        files.check_write(&path)?;
        files.check_file_size(&path, asked.bytes)?;
    }
    let mut inbox = call.listen();
    shared.send(call.grant(WINDOW_BYTES, id));
    let mut bytes = Vec::new();
    while let Some(more) = inbox.blocking_recv() {
        if bytes.len() + more.len() > size {
            return Err(internal("More came than was said."));
        }
        bytes.extend_from_slice(&more);
        shared.send(call.grant(cost(more.len()), id));
    }
    if call.cancel.is_cancelled() || bytes.len() != size {
        return Err(CallFailure::cancelled());
    }
    if asked.plant {
        plant(shared, &path, &bytes)?;
    } else {
        files.write_bytes(&path, &bytes, WriteOptions::new())?;
    }
    done(&FileDone {
        bytes: asked.bytes,
        sha256: file_sandbox::ContentHash::of(&bytes).to_string(),
    })
}

/// Into a mount in memory, which may be read-only.
fn plant(shared: &NodeState, path: &SandboxPath, bytes: &[u8]) -> Result<(), CallFailure> {
    let mount = shared
        .memory
        .iter()
        .filter(|mount| path.starts_with(mount.target()))
        .max_by_key(|mount| mount.target().as_str().len());
    let mount = mount.ok_or_else(|| absent("memory for it"))?;
    let top = mount.target().as_str().trim_end_matches('/');
    let below = path.as_str().strip_prefix(top).unwrap_or(path.as_str());
    let below = SandboxPath::parse(below)?;
    mount.clone().with_file(&below, bytes)?;
    Ok(())
}
