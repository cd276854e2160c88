//! Commands in a node: for the `shell` tool, and for a person's own commands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forge_tools::{
    BoxFuture, CallFailure, CommandRunner, CommandSpec, CommandStdin, Elapsed, ExitReport,
    FailureCode, RunningCommand, within,
};
use os_sandbox::Stream;
use sandbox_network::AskHost;

use crate::client::{NodeClient, wrong};
use crate::connection::{CallEvent, NodeCall};
use crate::error::ended;
use crate::frame::{FrameKind, NodeFrame};
use crate::message::{RunCall, RunDone, Signal, WireInput};
use crate::runner::{NodeSource, joined, settled};
use crate::window::{CHUNK_BYTES, wait};

/// How much longer than a command's own time its end is waited for.
const GRACE: Duration = Duration::from_secs(30);

/// The signal that ends a process at once.
const SIGKILL: i32 = 9;

/// Starts commands in nodes, for [`Processes::started_by`](forge_tools::Processes::started_by).
///
/// ```
/// use forge_tools::Processes;
/// use forge_node::{NodeClient, NodeCommandRunner};
///
/// fn commands(node: NodeClient, policy: os_sandbox::Policy) -> Processes {
///     Processes::started_by(NodeCommandRunner::new(node), policy)
/// }
/// ```
#[derive(Clone)]
pub struct NodeCommandRunner {
    source: Arc<dyn NodeSource>,
}

impl NodeCommandRunner {
    /// In nodes of this source.
    pub fn new(source: impl NodeSource) -> NodeCommandRunner {
        NodeCommandRunner::shared(Arc::new(source))
    }

    /// Uses a source that is shared with others.
    pub fn shared(source: Arc<dyn NodeSource>) -> NodeCommandRunner {
        NodeCommandRunner { source }
    }
}

impl fmt::Debug for NodeCommandRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeStarter")
            .field("place", &self.source.place())
            .finish_non_exhaustive()
    }
}

impl CommandRunner for NodeCommandRunner {
    fn place(&self) -> &'static str {
        self.source.place()
    }

    fn is_confined(&self) -> bool {
        true
    }

    fn start(&self, start: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure> {
        self.start_in(self.source.node(), start)
    }

    fn start_asking(
        &self,
        start: CommandSpec,
        ask: Arc<dyn AskHost>,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        self.start_in(self.source.node_asking(ask), start)
    }
}

impl NodeCommandRunner {
    fn start_in(
        &self,
        node: BoxFuture<'_, Result<NodeClient, CallFailure>>,
        start: CommandSpec,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        let limit = start.timeout.map(|limit| limit.saturating_add(GRACE));
        let command = wait(async {
            let node = node.await?;
            node.start(start, false).await
        })?;
        let source = Arc::clone(&self.source);
        Ok(Box::new(NodeProcess {
            command,
            limit,
            source,
        }))
    }
}

struct NodeProcess {
    command: NodeCommand,
    limit: Option<Duration>,
    source: Arc<dyn NodeSource>,
}

impl RunningCommand for NodeProcess {
    fn killer(&self) -> Result<Box<dyn FnOnce() + Send>, CallFailure> {
        let connection = Arc::clone(&self.command.calling.connection);
        let id = self.command.calling.id;
        Ok(Box::new(move || connection.cancel(id)))
    }

    fn wait(
        mut self: Box<Self>,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ExitReport, CallFailure> {
        let work = async {
            loop {
                match self.command.next().await? {
                    CommandEvent::Some(stream, bytes) => sink(stream, &bytes),
                    CommandEvent::Ended(ended) => return Ok(ended),
                }
            }
        };
        // A node that is there and says nothing is as good as gone.
        let outcome = wait(within(self.limit, work)).unwrap_or_else(|Elapsed| Err(ended()));
        let node = self.command.node.clone();
        drop(self.command);
        let over = wait(self.source.over(node));
        let (mut ended, over) = joined(outcome, over)?;
        ended.quarantined.extend(over.quarantined);
        settled(&mut ended.enforcement, over.receipt);
        Ok(ended)
    }
}

/// A command in a node. Dropping it ends everything that it started.
///
/// ```
/// use forge_node::{NodeClient, CommandEvent};
/// use forge_tools::{ExitReport, CallFailure, CommandSpec};
///
/// async fn printed(node: &NodeClient) -> Result<ExitReport, CallFailure> {
///     let mut command = node.start(CommandSpec::new("cat", ["-"]), true).await?;
///     command.write(b"hello").await;
///     command.close();
///     loop {
///         match command.next().await? {
///             CommandEvent::Some(_, bytes) => assert_eq!(bytes, b"hello"),
///             CommandEvent::Ended(ended) => return Ok(ended),
///         }
///     }
/// }
/// ```
pub struct NodeCommand {
    /// It ends with its last clone.
    node: NodeClient,
    calling: NodeCall,
    said: Vec<u8>,
}

sandbox_names::debug!(NodeCommand {});

/// The next event of a command.
///
/// ```
/// use forge_node::CommandEvent;
/// let printed = CommandEvent::Some(os_sandbox::Stream::Stdout, b"x".to_vec());
/// assert!(matches!(printed, CommandEvent::Some(_, bytes) if bytes == b"x"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum CommandEvent {
    /// It printed these bytes.
    Some(Stream, Vec<u8>),
    /// It has ended, with everything that it started.
    Ended(ExitReport),
}

impl NodeClient {
    /// Starts a command, which reads the written bytes if `piped`; otherwise as `start` says.
    ///
    /// # Errors
    ///
    /// It was not started, in words for the model.
    pub async fn start(&self, start: CommandSpec, piped: bool) -> Result<NodeCommand, CallFailure> {
        let body = RunCall {
            program: start.program,
            args: start.args,
            input: match (piped, start.input) {
                (true, _) => WireInput::Piped,
                (false, CommandStdin::Nothing) => WireInput::Nothing,
                (false, CommandStdin::StatusSocket) => WireInput::Said,
            },
            timeout_ms: start.timeout.map(forge_tools::millis),
            directory: start.directory,
            line: start.line,
        };
        let connection = &self.inner.connection;
        let mut calling = connection.begin(FrameKind::Run, &body).await?;
        match calling.next().await {
            CallEvent::Started => Ok(NodeCommand {
                node: self.clone(),
                calling,
                said: Vec::new(),
            }),
            CallEvent::Failed(failure) => {
                let mut failure = failure.made_at(self.inner.place, None);
                // As with one that was not started here.
                failure.ran = None;
                Err(failure)
            }
            CallEvent::Lost => Err(self.lost()),
            CallEvent::Printed(..)
            | CallEvent::Said(_)
            | CallEvent::Data(_)
            | CallEvent::Done(_) => Err(wrong("a command")),
        }
    }
}

impl NodeCommand {
    /// Returns the next event. Must not be called again after the end.
    ///
    /// # Errors
    ///
    /// Its result is unknown; it was ended.
    pub async fn next(&mut self) -> Result<CommandEvent, CallFailure> {
        let place = self.node.place();
        loop {
            match self.calling.next().await {
                CallEvent::Printed(stream, bytes) => return Ok(CommandEvent::Some(stream, bytes)),
                CallEvent::Said(bytes) => self.said.extend_from_slice(&bytes),
                CallEvent::Done(body) => {
                    let done: RunDone =
                        serde_json::from_slice(&body).map_err(|_| wrong("a command"))?;
                    return Ok(CommandEvent::Ended(ExitReport {
                        exit: done.exit,
                        exceeded: done
                            .exceeded
                            .map(|limit| forge_tools::escape_controls(&limit)),
                        quarantined: done
                            .quarantined
                            .iter()
                            .map(|path| forge_tools::escape_controls(path))
                            .collect(),
                        enforcement: self.node.receipt(done.enforcement),
                        said: std::mem::take(&mut self.said),
                    }));
                }
                CallEvent::Failed(failure) => {
                    return Err(failure.made_at(place, self.node.receipt(None)));
                }
                CallEvent::Lost => return Err(self.node.lost()),
                CallEvent::Started | CallEvent::Data(_) => {}
            }
        }
    }

    /// Writes to its standard input, once the window allows it; bytes that are no longer read are
    /// dropped.
    pub async fn write(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            if self.calling.window.take(chunk.len()).await.is_none() {
                return;
            }
            self.send(FrameKind::Input, chunk.to_vec());
        }
    }

    /// Closes its standard input.
    pub fn close(&self) {
        self.send(FrameKind::InputEnd, Vec::new());
    }

    /// Sends it a signal. A node can only end a command with all that it started (9).
    ///
    /// # Errors
    ///
    /// It is another signal.
    pub fn signal(&self, signal: i32) -> Result<(), CallFailure> {
        if signal != SIGKILL {
            return Err(FailureCode::Limit.failure(format!(
                "Signal {signal} cannot be sent to a command in this place, only 9."
            )));
        }
        let body = serde_json::to_vec(&Signal { signal }).unwrap_or_default();
        self.send(FrameKind::Signal, body);
        Ok(())
    }

    /// Ends it with everything that it started; [`next`](Self::next) then tells how.
    pub fn kill(&self) {
        let _it_is_nine = self.signal(SIGKILL);
    }

    fn send(&self, kind: FrameKind, body: Vec<u8>) {
        let connection = &self.calling.connection;
        connection.send(NodeFrame::new(kind, self.calling.id, body));
    }
}
