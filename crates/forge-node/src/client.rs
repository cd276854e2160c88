//! The broker's side: a connection to one node, and the requests to it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use forge_tools::{ApprovedCall, CallFailure, Elapsed, ExecutionInfo, Reply, within};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::connection::{FrameQueue, NodeConnection, garbage, more, read, write};
use crate::error::{NodeError, ended, internal};
use crate::frame::{CONNECTION, Decoder, FrameKind, NodeFrame, frames};
use crate::message::{Hello, NodeReady, Stats, WireFailure, WireReply, WireToolCall};
use crate::setup::Setup;

/// Options of a connection, beside the setup of the node.
///
/// ```
/// use forge_node::NodeConnectOptions;
/// use std::time::Duration;
/// let connect = NodeConnectOptions::new("docker").within(Duration::from_secs(5));
/// # let _ = connect;
/// ```
#[derive(Debug, Clone)]
pub struct NodeConnectOptions {
    place: &'static str,
    enforcement: Option<Value>,
    within: Duration,
}

impl NodeConnectOptions {
    /// Options for a node at `place`, its name in previews and records: `docker`.
    pub fn new(place: &'static str) -> NodeConnectOptions {
        NodeConnectOptions {
            place,
            enforcement: None,
            within: Duration::from_secs(60),
        }
    }

    sandbox_names::setters! {
        /// Sets the confinement of the whole node, for receipts. The confinement of a call in it is
        /// added as `inside`.
        enforcement(receipt: Value) = Some(receipt);
        /// How long the node has until it is ready; a minute unless said.
        within(limit: Duration) = limit;
    }
}

/// One node. Clones share it; when the last is dropped, the node ends.
///
/// See the [module](crate) for how one is made:
///
/// ```
/// async fn used(node: &forge_node::NodeClient) -> u64 {
///     node.stats().await.map_or(0, |stats| stats.calls)
/// }
/// ```
#[derive(Clone)]
pub struct NodeClient {
    pub(crate) inner: Arc<NodeInner>,
}

pub(crate) struct NodeInner {
    pub(crate) connection: Arc<NodeConnection>,
    pub(crate) place: &'static str,
    enforcement: Option<Value>,
    ready: NodeReady,
    /// Gone with the last clone, behind the connection.
    kept: Box<dyn Any + Send + Sync>,
}

sandbox_names::debug!(NodeClient { place = inner.place });

impl NodeClient {
    /// Connects to a node over its two streams and waits until it is ready for calls. Two tasks of
    /// the current runtime carry the frames, so that one must go on as long as the node is used;
    /// calls may be made from any other.
    ///
    /// # Errors
    ///
    /// The other side is not a node, speaks another version, or cannot provide `setup`.
    pub async fn connect<R, W>(
        reader: R,
        writer: W,
        setup: Setup,
        connect: NodeConnectOptions,
    ) -> Result<NodeClient, NodeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        NodeClient::connect_keeping(reader, writer, setup, connect, ()).await
    }

    /// Connects, and keeps `kept` as long as the node is used: the handle of its process, which
    /// ends it when dropped.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub async fn connect_keeping<R, W>(
        reader: R,
        writer: W,
        setup: Setup,
        connect: NodeConnectOptions,
        kept: impl Any + Send + Sync,
    ) -> Result<NodeClient, NodeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let seconds = connect.within.as_secs();
        let limit = Some(connect.within);
        let made = within(
            limit,
            NodeClient::make(reader, writer, setup, connect, kept),
        )
        .await;
        made.unwrap_or_else(|Elapsed| Err(NodeError::Late { seconds }))
    }

    async fn make<R, W>(
        mut reader: R,
        writer: W,
        mut setup: Setup,
        connect: NodeConnectOptions,
        kept: impl Any + Send + Sync,
    ) -> Result<NodeClient, NodeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, frames_out) = mpsc::unbounded_channel();
        let connection = Arc::new(NodeConnection::new(out));
        // Without a guard: it ends by itself when the connection is dropped.
        let calls = Arc::clone(&connection.calls);
        tokio::spawn(async move {
            if let Err(error) = write(writer, FrameQueue::Free(frames_out), |_| {}).await {
                calls.die(NodeError::Ended(error.to_string()));
            }
        });
        let preloaded = std::mem::take(&mut setup.preloaded);
        let hello = bytes(&Hello::ours())?;
        connection.send(NodeFrame::new(FrameKind::Hello, CONNECTION, hello));
        for frame in frames(FrameKind::Setup, CONNECTION, bytes(&setup)?) {
            connection.send(frame);
        }
        let mut decoder = Decoder::default();
        let ready = greeting(&mut reader, &mut decoder).await?;
        tokio::spawn(read(reader, decoder, Arc::clone(&connection.calls)));
        let node = NodeClient {
            inner: Arc::new(NodeInner {
                connection,
                place: connect.place,
                enforcement: connect.enforcement,
                ready,
                kept: Box::new(kept),
            }),
        };
        for (path, bytes) in preloaded {
            node.write_file(&path, bytes, true)
                .await
                .map_err(|failure| NodeError::Refused(failure.message))?;
        }
        Ok(node)
    }

    sandbox_names::getters! {
        /// Where it is, in previews and records.
        pub place: &'static str = inner.place;
        /// Why it is not there any more, if it is not.
        pub ended: Option<NodeError> = inner.connection.calls.dead();
        /// The confinement of commands in the node, before any was started; `None` if it has none.
        pub commands: Option<&Value> = inner.ready.commands.as_ref();
    }

    /// Tells the node that no request follows, so that it ends, even while clones exist.
    pub fn bye(&self) {
        let bye = NodeFrame::new(FrameKind::Bye, CONNECTION, Vec::new());
        self.inner.connection.send(bye);
    }

    /// The value given to [`connect_keeping`](Self::connect_keeping), if it is of this type.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        self.inner.kept.downcast_ref()
    }

    /// The confinement of the node, with that of a call in it.
    pub(crate) fn receipt(&self, inside: Option<Value>) -> Option<Value> {
        let mut receipt = match &self.inner.enforcement {
            Some(Value::Object(outer)) => outer.clone(),
            Some(other) => Map::from_iter([("outside".to_owned(), other.clone())]),
            None => Map::new(),
        };
        receipt.insert("inside".to_owned(), inside.unwrap_or(Value::Null));
        Some(Value::Object(receipt))
    }

    /// It ended in the middle of a call.
    pub(crate) fn lost(&self) -> CallFailure {
        ended().ran(ExecutionInfo {
            runner: self.inner.place,
            enforcement: self.receipt(None),
            events: Vec::new(),
            artifacts: Vec::new(),
        })
    }

    /// Has a file tool do its work there.
    pub(crate) async fn call(&self, call: &ApprovedCall) -> Result<Reply, CallFailure> {
        let (spec, context) = (call.spec(), call.context());
        let arguments = call.arguments().to_json();
        let body = WireToolCall::new(spec.name.clone(), arguments, context.snapshot());
        let connection = &self.inner.connection;
        let mut calling = connection.begin(FrameKind::Tool, &body).await?;
        let (place, inside) = (self.inner.place, self.inner.ready.files.clone());
        let answer = calling.result().await.map_err(|failure| match failure {
            Some(failure) => failure.made_at(place, self.receipt(inside.clone())),
            None => self.lost(),
        })?;
        let reply: WireReply = serde_json::from_slice(&answer).map_err(|_| wrong(&spec.name))?;
        let reply = reply.made_at(place, self.receipt(inside));
        // The reply is shown to a model and recorded, so a reply that is impossible for the tool is
        // rejected.
        let fits = match (&spec.output, &reply.structured) {
            (Some(output), Some(facts)) => output.check(facts).is_ok(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let files = context.files()?;
        let own = reply.ran.artifacts.iter().all(|artifact| {
            let path = file_sandbox::SandboxPath::parse(&artifact.path);
            path.is_ok_and(|path| files.mode_at(&path).is_some_and(|mode| mode.can_write()))
        });
        match fits && own {
            true => Ok(reply),
            false => Err(wrong(&spec.name)),
        }
    }

    /// Returns the resources that the node has used so far.
    ///
    /// # Errors
    ///
    /// It is not there any more.
    pub async fn stats(&self) -> Result<Stats, CallFailure> {
        let connection = &self.inner.connection;
        let mut calling = connection.begin(FrameKind::Stats, &json!({})).await?;
        self.parsed(calling.result().await, "stats")
    }

    /// Parses the result of a call that is neither a tool's nor a command's.
    pub(crate) fn parsed<T: DeserializeOwned>(
        &self,
        result: Result<Vec<u8>, Option<Box<WireFailure>>>,
        call: &str,
    ) -> Result<T, CallFailure> {
        let body = result.map_err(|failure| match failure {
            Some(failure) => failure.made_at(self.inner.place, None),
            None => ended(),
        })?;
        serde_json::from_slice(&body).map_err(|_| wrong(call))
    }
}

fn bytes(value: &impl serde::Serialize) -> Result<Vec<u8>, NodeError> {
    serde_json::to_vec(value).map_err(|error| NodeError::Unsupported(error.to_string()))
}

/// Reads the first words of a node, until it is ready.
async fn greeting(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Result<NodeReady, NodeError> {
    let hello = first(reader, decoder).await?;
    match hello.kind {
        FrameKind::Hello => said::<Hello>(&hello)?.check()?,
        kind => return Err(unexpected(kind)),
    }
    let answer = first(reader, decoder).await?;
    match answer.kind {
        FrameKind::Ready => said(&answer),
        FrameKind::Refused => {
            let why: String = said(&answer)?;
            Err(NodeError::Refused(forge_tools::escape_controls(&why)))
        }
        kind => Err(unexpected(kind)),
    }
}

/// The next frame before anything is called.
async fn first(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Result<NodeFrame, NodeError> {
    loop {
        match decoder.next() {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => more(reader, decoder).await?,
            Err(error) => return Err(garbage(&error, decoder)),
        }
    }
}

fn said<T: DeserializeOwned>(frame: &NodeFrame) -> Result<T, NodeError> {
    frame.parse().map_err(NodeError::garbage)
}

fn unexpected(kind: FrameKind) -> NodeError {
    NodeError::garbage(format!("{kind:?} where it should say who it is"))
}

/// It sent another answer than requested.
pub(crate) fn wrong(tool: &str) -> CallFailure {
    internal(format!(
        "{tool} was called, and what came back is not its answer."
    ))
}
