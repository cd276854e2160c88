//! A toolbox served over the [Model Context Protocol](https://modelcontextprotocol.io),
//! one JSON message a line.
//!
//! Everything that knows `rmcp` is in this crate, because that crate changes its shape often:
//! `stdio_transport` is the transport, `handler` answers requests, `advertise` describes the tools,
//! `client_approver` asks the person at the client (`questions` is its memory), `report` sends
//! progress, and `service_handle` holds the present service. One process speaks to clients of both
//! eras of the protocol: those that open with `initialize`, and those that put version and
//! capabilities into the `_meta` of every request (2026-07-28). The client decides by its opening.
//!
//! The writer belongs to the transport alone. A program that serves on its standard
//! output should therefore keep that descriptor to itself: duplicate it, point
//! descriptor 1 at standard error, and give the duplicate to [`serve`].
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
mod access_check;
mod advertise;
mod client_approver;
mod error_reply;
mod handler;
#[cfg(feature = "http")]
mod http;
mod in_flight;
mod json_line;
mod line_reader;
mod outline;
mod questions;
mod report;
mod service_handle;
mod stdio_transport;

use std::io;
use std::sync::Arc;

use forge_tools::{BlockingHandoff, Toolbox};
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

pub use client_approver::REFUSED_AT_ONCE;
use handler::Handler;
#[cfg(feature = "http")]
pub use http::{HttpListener, HttpToken, serve_http};
use in_flight::ResultSlots;
pub use service_handle::ServiceHandle;
use stdio_transport::{StdioTransport, TransportErrors};

/// How the server introduces itself.
///
/// ```
/// use forge_mcp::ServerInfo;
/// let info = ServerInfo::new("forge", "0.1.0").instructions("List first.");
/// assert_eq!(info.name, "forge");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The instructions about the tools that a client may pass to the model.
    pub instructions: Option<String>,
}

impl ServerInfo {
    /// A name and a version, without instructions.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        ServerInfo {
            name: name.into(),
            version: version.into(),
            instructions: None,
        }
    }

    /// Adds instructions about the tools that a client may pass to the model.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }
}

/// The service of a server.
///
/// ```
/// use forge_mcp::Service;
/// use forge_tools::Toolbox;
/// let works: Service = Toolbox::builder().build().unwrap().into();
/// let mistaken = Service::Broken { message: "forge.yaml:3:1: unknown key `mounst`".into() };
/// # let _ = (works, mistaken);
/// ```
#[derive(Clone)]
pub enum Service {
    /// The worker's tools.
    Tools(Toolbox),
    /// The configuration does not validate: nothing is granted, no tool is listed, and
    /// every call is answered with the mistake. A server that did not start at all
    /// would leave the person with "connection closed" and no reason.
    Broken {
        /// The mistake and its place, fit for a model to read.
        message: String,
    },
}

impl From<Toolbox> for Service {
    fn from(toolbox: Toolbox) -> Self {
        Service::Tools(toolbox)
    }
}

/// Why serving stopped before the client was done.
///
/// ```
/// let error = forge_mcp::McpError::Read(std::io::Error::other("the disk is on fire"));
/// assert_eq!(error.to_string(), "cannot read from the client");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The client's messages could not be read.
    #[error("cannot read from the client")]
    Read(#[source] io::Error),
    /// The client could not be answered, though it has not hung up.
    #[error("cannot write to the client")]
    Write(#[source] io::Error),
    /// The server's own task ended in a panic.
    #[error("the server stopped unexpectedly")]
    Stopped,
}

/// Serves on this process's standard input and output until the client hangs up.
///
/// Nothing else may print to standard output meanwhile; a program that cannot promise
/// that uses [`serve`] with a duplicate of the descriptor.
///
/// # Errors
///
/// As [`serve`].
///
/// ```no_run
/// # async fn example(toolbox: forge_tools::Toolbox) -> Result<(), forge_mcp::McpError> {
/// use forge_mcp::{ServerInfo, serve_stdio};
/// serve_stdio(toolbox, ServerInfo::new("forge", "0.1.0")).await
/// # }
/// ```
pub async fn serve_stdio(service: impl Into<Service>, info: ServerInfo) -> Result<(), McpError> {
    serve(service, info, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves on any pair of byte streams until the client hangs up.
///
/// Returns as soon as the reader ends and the calls still running are answered, or five
/// seconds after it ended. A client that goes away without a word (the writer reports a
/// broken pipe) is not an error either.
///
/// # Errors
///
/// [`McpError::Read`] or [`McpError::Write`] where a stream failed.
///
/// ```
/// use forge_mcp::{ServerInfo, serve};
/// use forge_tools::Toolbox;
/// use tokio::io::AsyncReadExt;
///
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # rt.block_on(async {
/// let asked = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// let (writer, mut answers) = tokio::io::duplex(4096);
/// let toolbox = Toolbox::builder().build().unwrap();
/// serve(toolbox, ServerInfo::new("forge", "0.1.0"), &asked[..], writer).await.unwrap();
///
/// let mut text = String::new();
/// answers.read_to_string(&mut text).await.unwrap();
/// assert_eq!(text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
/// # });
/// ```
pub async fn serve<R, W>(
    service: impl Into<Service>,
    info: ServerInfo,
    reader: R,
    writer: W,
) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve_live(&ServiceHandle::fixed(service.into()), info, reader, writer).await
}

/// As [`serve`], for a service that may be replaced meanwhile.
///
/// # Errors
///
/// As [`serve`].
///
/// ```
/// use forge_mcp::{ServiceHandle, ServerInfo, serve_live};
/// use forge_tools::Toolbox;
///
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # rt.block_on(async {
/// let live = ServiceHandle::new(Toolbox::builder().build().unwrap());
/// let (nothing, out) = (&b""[..], tokio::io::sink());
/// serve_live(&live, ServerInfo::new("forge", "0.1.0"), nothing, out).await.unwrap();
/// # });
/// ```
pub async fn serve_live<R, W>(
    live: &ServiceHandle,
    info: ServerInfo,
    reader: R,
    writer: W,
) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve_beside(live, info, reader, writer, None).await
}

/// As [`serve_live`], on a runtime of which one thread takes over while another blocks: calls that
/// are done soon are answered without another thread.
///
/// # Errors
///
/// As [`serve`].
///
/// ```
/// use forge_mcp::{ServiceHandle, ServerInfo, serve_beside};
/// use forge_tools::{BlockingHandoff, Toolbox};
///
/// # let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
/// # rt.block_on(async {
/// let live = ServiceHandle::new(Toolbox::builder().build().unwrap());
/// let (nothing, out) = (&b""[..], tokio::io::sink());
/// let info = ServerInfo::new("forge", "0.1.0");
/// serve_beside(&live, info, nothing, out, BlockingHandoff::on_this_runtime()).await.unwrap();
/// # });
/// ```
pub async fn serve_beside<R, W>(
    live: &ServiceHandle,
    info: ServerInfo,
    reader: R,
    writer: W,
    handoff: Option<BlockingHandoff>,
) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let breakage = Arc::new(TransportErrors::default());
    let results = ResultSlots::new();
    let handler = Handler::new(
        live.clone(),
        info,
        breakage.over(),
        results.clone(),
        handoff,
    );
    let transport = StdioTransport::new(reader, writer, Arc::clone(&breakage), &results);
    let ended = match serve_server(handler, transport).await {
        Ok(running) => running.waiting().await.map_err(|_| McpError::Stopped),
        // The client hung up before it opened a conversation; or a stream failed,
        // which the transport has noted.
        Err(ServerInitializeError::ConnectionClosed(_))
        | Err(ServerInitializeError::TransportError { .. }) => Ok(QuitReason::Closed),
        Err(_) => Err(McpError::Stopped),
    };
    match breakage.take() {
        Some(error) => Err(error),
        None => match ended? {
            QuitReason::Closed | QuitReason::Cancelled => Ok(()),
            _ => Err(McpError::Stopped),
        },
    }
}
