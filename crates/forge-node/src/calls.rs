//! One call in a node: a file tool, a command, or a file.

use std::io::{Read as _, Write};
use std::sync::Arc;

use file_sandbox::{SandboxPath, WriteOptions};
use forge_tools::{
    CallFailure, CommandLine, CommandRunner, CommandSpec, CommandStdin, ContextSnapshot,
    FailureCode, ProgramList, ReviewedState,
};
use os_sandbox::Stream;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::connection::MAX_WHOLE_BYTES;
use crate::frame::{FrameKind, NodeFrame, frames};
use crate::message::{
    FileDone, GetCall, PutCall, RunCall, RunDone, TREE, WireFailure, WireInput, WireReply,
    WireToolCall,
};
use crate::node_state::{NodeState, absent};
use crate::task::{NodeTask, body};
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
    CallFailure::new(FailureCode::Limit, "The answer is too long to be sent.")
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
    let asked: T = body(&frame).map_err(|why| CallFailure::new(FailureCode::Internal, why))?;
    let (shared, call) = (Arc::clone(shared), Arc::clone(call));
    let working = tokio::task::spawn_blocking(move || work(&shared, &call, frame.id, asked));
    working.await.unwrap_or_else(|_| {
        let stopped = "The tool stopped unexpectedly; nothing else was affected.";
        Err(CallFailure::new(FailureCode::Internal, stopped))
    })
}

fn done(value: &impl serde::Serialize) -> Result<Vec<u8>, CallFailure> {
    serde_json::to_vec(value)
        .map_err(|_| CallFailure::new(FailureCode::Internal, "No answer could be made."))
}

async fn tool(
    shared: &NodeState,
    call: &NodeTask,
    frame: &NodeFrame,
) -> Result<Vec<u8>, CallFailure> {
    let asked: WireToolCall =
        body(frame).map_err(|why| CallFailure::new(FailureCode::Internal, why))?;
    let tools = shared.tools.as_ref().ok_or_else(|| absent("such tool"))?;
    let path = |text: &str| Ok::<_, CallFailure>(SandboxPath::parse(text)?);
    let mut paths = Vec::with_capacity(asked.paths.len());
    for (text, meant) in asked.paths {
        // As it was requested, where that has an equal meaning.
        let as_asked = SandboxPath::parse(&text).ok();
        let meant = match as_asked.filter(|path| path.as_str() == meant) {
            Some(path) => path,
            None => path(&meant)?,
        };
        paths.push((text, meant));
    }
    let mut seen = Vec::with_capacity(asked.seen.len());
    for (path, hash) in asked.seen {
        let tree = hash.as_deref().and_then(|hash| hash.strip_prefix(TREE));
        let state = match tree.or(hash.as_deref()).map(str::parse) {
            None => ReviewedState::Missing,
            Some(Ok(hash)) if tree.is_some() => ReviewedState::Tree(hash),
            Some(Ok(hash)) => ReviewedState::Bytes(hash),
            Some(Err(_)) => {
                return Err(CallFailure::new(
                    FailureCode::Internal,
                    "A hash that is none.",
                ));
            }
        };
        seen.push((path, state));
    }
    let snapshot = ContextSnapshot {
        paths,
        closed: asked.closed,
        seen,
    };
    let cancel = call.cancel.clone();
    let reply = tools.run(&asked.tool, &asked.arguments, snapshot, cancel);
    let reply = reply.await?;
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
    let group = shared.control_group.as_deref();
    let out_of_memory = || group.and_then(usage::out_of_memory);
    let before = out_of_memory();
    let started = match asked.input {
        WireInput::Nothing | WireInput::Said => local.start(start).map(|started| (started, None)),
        WireInput::Piped => local.start_piped(start),
    };
    let (started, stdin) = started.map_err(|failure| hint_at_image(shared, failure))?;
    call.killed_by(started.killer()?);
    let say = |frame| {
        // The writer ends everything when its reader is gone.
        let _gone = shared.out.blocking_send(frame);
    };
    say(NodeFrame::new(FrameKind::Started, id, Vec::new()));
    let mut sink = |stream: Stream, bytes: &[u8]| {
        let kind = match stream {
            Stream::Stdout => FrameKind::Stdout,
            Stream::Stderr => FrameKind::Stderr,
        };
        for chunk in bytes.chunks(CHUNK_BYTES) {
            if wait(call.window.take(chunk.len())).is_some() {
                say(NodeFrame::new(kind, id, chunk));
            }
        }
    };
    let ended = match stdin {
        None => started.wait(&mut sink),
        Some(stdin) => {
            let inbox = call.listen();
            say(call.grant(WINDOW_BYTES, id));
            std::thread::scope(|scope| {
                let feed = || {
                    feed_input(inbox, stdin, |bytes| {
                        say(call.grant(cost(bytes), id));
                    });
                };
                let ended = match std::thread::Builder::new().spawn_scoped(scope, feed) {
                    Ok(_) => started.wait(&mut sink),
                    Err(_) => Err(CallFailure::new(
                        FailureCode::Internal,
                        "Cannot run the command: there is nobody to give it its input.",
                    )),
                };
                call.no_more_input();
                ended
            })
        }
    }?;
    for chunk in ended.said.chunks(CHUNK_BYTES) {
        say(NodeFrame::new(FrameKind::Said, id, chunk));
    }
    // The limit of the node's own group, which the plan does not know: its container's.
    let ours = || {
        let limit = group.and_then(usage::memory_limit)?;
        let failed = ended.exit != os_sandbox::Exit::Code(0);
        let was = failed && before < out_of_memory();
        // The lower of the two.
        was.then(|| {
            let limit = os_sandbox::Exceeded::Memory(limit);
            format!("{limit} (limits.memory_mb or docker.mem_limit_mb)")
        })
    };
    let exceeded = ended.exceeded.or_else(ours);
    done(&RunDone {
        exit: ended.exit.into(),
        exceeded,
        quarantined: ended.quarantined,
        enforcement: ended.enforcement,
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

/// Writes input to a command until its end, and reports the size of each piece.
fn feed_input(
    mut inbox: mpsc::UnboundedReceiver<Vec<u8>>,
    mut stdin: impl Write,
    taken: impl Fn(usize),
) {
    let mut open = true;
    while let Some(bytes) = inbox.blocking_recv() {
        // Input that the command no longer reads is taken nevertheless.
        open = open && stdin.write_all(&bytes).is_ok();
        taken(bytes.len());
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
    let unclear = || CallFailure::new(FailureCode::Internal, "A line that was not judged.");
    let line = CommandLine::parse(line).map_err(|_| unclear())?;
    let line = line.in_session_of(state).ok_or_else(unclear)?;
    ProgramList::check(&shared.programs, &line, local.plan().policy())
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
    let too_large = || {
        let message = format!("A file of more than {} bytes is not sent.", asked.max_bytes);
        CallFailure::new(
            FailureCode::File(file_sandbox::ErrorKind::TooLarge),
            message,
        )
    };
    if file.len() > asked.max_bytes {
        return Err(too_large());
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
            return Err(too_large());
        }
        hash.update(&chunk[..count]);
        if wait(call.window.take(count)).is_none() {
            return Err(CallFailure::cancelled());
        }
        let _gone = shared
            .out
            .blocking_send(NodeFrame::new(FrameKind::Data, id, &chunk[..count]));
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
        return Err(CallFailure::new(
            FailureCode::File(file_sandbox::ErrorKind::TooLarge),
            message,
        ));
    }
    let files = shared.files.as_ref().ok_or_else(|| absent("files"))?;
    if !asked.plant {
        files.check_write(&path)?;
        files.check_file_size(&path, asked.bytes)?;
    }
    let mut inbox = call.listen();
    let _gone = shared.out.blocking_send(call.grant(WINDOW_BYTES, id));
    let mut bytes = Vec::new();
    while let Some(more) = inbox.blocking_recv() {
        if bytes.len() + more.len() > size {
            return Err(CallFailure::new(
                FailureCode::Internal,
                "More came than was said.",
            ));
        }
        bytes.extend_from_slice(&more);
        let more_room = call.grant(cost(more.len()), id);
        let _gone = shared.out.blocking_send(more_room);
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
