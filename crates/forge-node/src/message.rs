//! The bodies of frames that have fields.

use file_sandbox::SandboxPath;
use forge_tools::{
    Artifact, CallFailure, ContextSnapshot, EventKind, ExecutionInfo, FailureCode, PolicyEvent,
    Reply, ReviewedState,
};
use os_sandbox::Exit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{NodeError, internal};

/// The version of the protocol between broker and node. Other versions are incompatible.
pub const PROTOCOL: u32 = 1;

/// The first word of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The protocol; the name of the field says which.
    #[serde(rename = "forge-node")]
    pub(crate) protocol: u32,
    /// The program's version, for people.
    pub(crate) version: String,
}

impl Hello {
    pub(crate) fn ours() -> Hello {
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Checks the first word of the other side.
    ///
    /// # Errors
    ///
    /// It speaks another protocol.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        match self.protocol {
            PROTOCOL => Ok(()),
            theirs => Err(NodeError::Version {
                ours: PROTOCOL,
                theirs,
                their_program: forge_tools::escape_controls(&self.version),
            }),
        }
    }
}

/// A node's answer to its setup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeReady {
    /// The confinement of commands in the node, before any was started.
    pub(crate) commands: Option<Value>,
    /// The confinement of file tools.
    pub(crate) files: Option<Value>,
}

/// A call of a file tool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireToolCall {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Files as a person has seen them: the hash, or that there was none.
    seen: Vec<(String, Option<String>)>,
    /// The meanings of the call's paths when it was judged.
    paths: Vec<(String, String)>,
    /// The mounts in which nothing may be read, by their targets.
    closed: Vec<String>,
}

/// Before the hash of a directory that a person has seen.
const TREE: &str = "tree:";

impl WireToolCall {
    pub(crate) fn new(tool: String, arguments: Value, context: ContextSnapshot) -> WireToolCall {
        let seen = context.seen.into_iter().map(|(path, state)| {
            let hash = match state {
                ReviewedState::Missing => None,
                ReviewedState::Bytes(hash) => Some(hash.to_string()),
                ReviewedState::Tree(hash) => Some(format!("{TREE}{hash}")),
            };
            (path, hash)
        });
        let paths = context.paths.into_iter();
        let paths = paths.map(|(text, path)| (text, path.as_str().to_owned()));
        WireToolCall {
            tool,
            arguments,
            seen: seen.collect(),
            paths: paths.collect(),
            closed: context.closed,
        }
    }

    /// Returns the tool, its arguments and their context.
    ///
    /// # Errors
    ///
    /// A path or a hash is not one.
    pub(crate) fn read(self) -> Result<(String, Value, ContextSnapshot), CallFailure> {
        let paths = self.paths.into_iter().map(|(text, meant)| {
            // As it was requested, where that has an equal meaning.
            let as_asked = SandboxPath::parse(&text).ok();
            let meant = match as_asked.filter(|path| path.as_str() == meant) {
                Some(path) => path,
                None => SandboxPath::parse(&meant)?,
            };
            Ok((text, meant))
        });
        let seen = self.seen.into_iter().map(|(path, hash)| {
            let tree = hash.as_deref().and_then(|hash| hash.strip_prefix(TREE));
            let state = match tree.or(hash.as_deref()).map(str::parse) {
                None => ReviewedState::Missing,
                Some(Ok(hash)) if tree.is_some() => ReviewedState::Tree(hash),
                Some(Ok(hash)) => ReviewedState::Bytes(hash),
                Some(Err(_)) => return Err(internal("A hash that is none.")),
            };
            Ok((path, state))
        });
        let context = ContextSnapshot {
            paths: paths.collect::<Result<_, CallFailure>>()?,
            closed: self.closed,
            seen: seen.collect::<Result<_, CallFailure>>()?,
        };
        Ok((self.tool, self.arguments, context))
    }
}

/// A command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunCall {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) input: WireInput,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) directory: Option<String>,
    /// The line that it comes from, and the state that it begins in.
    pub(crate) line: Option<(String, Vec<String>)>,
}

/// The standard input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireInput {
    Nothing,
    /// A socket: its bytes are reported.
    Said,
    /// The data that the broker sends.
    Piped,
}

/// The result of a command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunDone {
    pub(crate) exit: Exit,
    pub(crate) exceeded: Option<String>,
    pub(crate) quarantined: Vec<String>,
    pub(crate) enforcement: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GetCall {
    pub(crate) path: String,
    pub(crate) max_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PutCall {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The file belongs to a mount in memory that only the broker can write.
    pub(crate) plant: bool,
}

/// The result of sending or writing a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileDone {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Signal {
    pub(crate) signal: i32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WindowMore {
    pub(crate) bytes: u32,
}

/// The resources that a node has used so far; `None` for unknown ones.
///
/// ```
/// let stats = forge_node::Stats::default();
/// assert_eq!((stats.calls, stats.memory_bytes), (0, None));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Since it began.
    pub uptime_ms: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Calls under way.
    pub in_flight: u64,
    /// Bytes that came in.
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Processor time of everything in its control group.
    pub cpu_us: Option<u64>,
    /// Memory of the control group, now.
    pub memory_bytes: Option<u64>,
    /// Memory of the control group, at most so far.
    pub memory_peak_bytes: Option<u64>,
    /// Processes and threads of the control group, now.
    pub processes: Option<u64>,
}

/// [`Reply`], as it goes over the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireReply {
    text: String,
    structured: Option<Value>,
    artifacts: Vec<Artifact>,
    events: Vec<WireEvent>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireEvent {
    kind: EventKind,
    detail: String,
}

/// [`CallFailure`], as it goes over the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireFailure {
    code: String,
    message: String,
    hint: Option<String>,
    path: Option<String>,
    structured: Option<Value>,
    events: Vec<WireEvent>,
}

/// Most artifacts and events that one call can have.
const MAX_LISTED: usize = 1024;

impl From<PolicyEvent> for WireEvent {
    fn from(event: PolicyEvent) -> Self {
        WireEvent {
            kind: event.event,
            detail: event.detail,
        }
    }
}

impl From<WireEvent> for PolicyEvent {
    fn from(event: WireEvent) -> Self {
        PolicyEvent::new(event.kind, event.detail)
    }
}

fn listed<A, B: From<A>>(list: Vec<A>) -> Vec<B> {
    list.into_iter().take(MAX_LISTED).map(B::from).collect()
}

impl From<Reply> for WireReply {
    fn from(reply: Reply) -> Self {
        WireReply {
            text: reply.text,
            structured: reply.structured,
            artifacts: listed(reply.ran.artifacts),
            events: listed(reply.ran.events),
        }
    }
}

impl WireReply {
    /// The reply of a call that was made at `place`.
    pub(crate) fn made_at(self, place: &'static str, enforcement: Option<Value>) -> Reply {
        Reply {
            text: self.text,
            structured: self.structured,
            ran: ExecutionInfo {
                runner: place,
                enforcement,
                events: listed(self.events),
                artifacts: listed(self.artifacts),
            },
        }
    }
}

impl From<CallFailure> for WireFailure {
    fn from(failure: CallFailure) -> Self {
        WireFailure {
            code: failure.code.as_str().to_owned(),
            message: failure.message,
            hint: failure.hint,
            path: failure.path,
            structured: failure.structured.map(|facts| *facts),
            events: failure
                .ran
                .map(|ran| listed(ran.events))
                .unwrap_or_default(),
        }
    }
}

impl WireFailure {
    /// The failure of a call that was tried at `place`.
    pub(crate) fn made_at(self, place: &'static str, enforcement: Option<Value>) -> CallFailure {
        let code = match FailureCode::from_code(&self.code) {
            // A node asks no questions and calls no workers.
            None
            | Some(
                FailureCode::Denied
                | FailureCode::ApprovalRequired
                | FailureCode::Escalation
                | FailureCode::WorkerFailed
                | FailureCode::Cancelled,
            ) => FailureCode::Internal,
            Some(code) => code,
        };
        CallFailure {
            code,
            message: self.message,
            hint: self.hint,
            path: self.path,
            structured: self.structured.map(Box::new),
            ran: None,
        }
        .ran(ExecutionInfo {
            runner: place,
            enforcement,
            events: listed(self.events),
            artifacts: Vec::new(),
        })
    }
}
