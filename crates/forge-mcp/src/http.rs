//! The service over HTTP: each request is independent, in every era of clients, so sessions that
//! could be guessed, kept open or filled up do not exist.
//!
//! A web page must not be able to reach it (names that resolve to this machine are the usual way),
//! nor another user of this machine: only loopback addresses with a token, or a Unix socket whose
//! other end is this user.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access_check::{AccessCheck, ConnectionGuard};
use super::handler::Handler;
use super::questions::QuestionStore;
use super::service_handle::ServiceHandle;
use super::stdio_transport::{MAX_LINE_BYTES, MAX_VALUES, values_at_most};
use super::{McpError, ServerInfo};

/// Where it is served.
const PATH: &str = "/mcp";

/// How long a client may take over the head of a request, and over its body.
const READ_TIME: Duration = Duration::from_secs(30);

/// Most bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// After a failure to accept (too many open files, say), how long until the next try.
const PAUSE: Duration = Duration::from_millis(200);

/// The secret that a client on a loopback address has to show: 256 random bits.
///
/// ```
/// let token = forge_mcp::HttpToken::random().unwrap();
/// assert_eq!(token.reveal().len(), 64);
/// // Not by accident, in a log.
/// assert!(!format!("{token:?}").contains(token.reveal()));
/// ```
#[derive(Clone)]
pub struct HttpToken {
    text: String,
}

impl HttpToken {
    /// A new one.
    ///
    /// # Errors
    ///
    /// The system gives no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(HttpToken {
            text: sandbox_names::hex(bytes),
        })
    }

    /// The token itself, for the person to hand on.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// In constant time: digests of equal length are compared, all of them.
    fn is_in(&self, header: Option<&HeaderValue>) -> bool {
        let given = header
            .and_then(|header| header.as_bytes().split_at_checked(7))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
            .map_or(&[][..], |(_, token)| token);
        let given = Sha256::digest(given);
        let own = Sha256::digest(self.text.as_bytes());
        let differing = given.iter().zip(own).fold(0, |all, (a, b)| all | (a ^ b));
        differing == 0
    }
}

impl std::fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpToken(…)")
    }
}

/// Where clients come from.
///
/// ```
/// use forge_mcp::{HttpListener, HttpToken};
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
/// assert!(HttpListener::loopback(socket, HttpToken::random().unwrap()).is_ok());
///
/// let everywhere = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
/// assert!(HttpListener::loopback(everywhere, HttpToken::random().unwrap()).is_err());
/// # });
/// ```
#[derive(Debug)]
pub struct HttpListener {
    kind: ListenerKind,
}

#[derive(Debug)]
enum ListenerKind {
    Loopback(TcpListener, HttpToken),
    Unix(UnixListener, u32),
}

impl HttpListener {
    /// Clients on this machine that know the token.
    ///
    /// # Errors
    ///
    /// Other machines could connect.
    pub fn loopback(socket: TcpListener, token: HttpToken) -> io::Result<Self> {
        let address = socket.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address} is not a loopback address"),
            ));
        }
        Ok(HttpListener {
            kind: ListenerKind::Loopback(socket, token),
        })
    }

    /// Processes of the user with this id; others are hung up on.
    pub fn unix(socket: UnixListener, user: u32) -> Self {
        HttpListener {
            kind: ListenerKind::Unix(socket, user),
        }
    }

    /// The address, if it is one of the network.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            ListenerKind::Loopback(socket, _) => socket.local_addr().ok(),
            ListenerKind::Unix(..) => None,
        }
    }
}

/// Serves over HTTP, at `/mcp`, until it is dropped.
///
/// Every request is answered for itself. Clients of 2026-07-28 are asked for approvals as
/// over a stream; older ones cannot be asked without a session, so the toolbox's own
/// [`Approver`](forge_tools::Approver) is.
///
/// # Errors
///
/// None at present: a connection that fails is that client's loss alone.
///
/// ```no_run
/// use forge_mcp::{HttpListener, HttpToken, ServiceHandle, ServerInfo, serve_http};
/// use forge_tools::Toolbox;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let live = ServiceHandle::new(Toolbox::builder().build()?);
/// let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let listener = HttpListener::loopback(socket, HttpToken::random()?)?;
/// serve_http(&live, ServerInfo::new("forge", "0.1.0"), listener).await?;
/// # Ok(()) }
/// ```
pub async fn serve_http(
    live: &ServiceHandle,
    info: ServerInfo,
    listener: HttpListener,
) -> Result<(), McpError> {
    let server = Arc::new(HttpServer::new(live.clone(), info));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let server = Arc::clone(&server);
        match &listener.kind {
            ListenerKind::Loopback(socket, token) => match socket.accept().await {
                Ok((stream, _)) => {
                    let token = token.clone();
                    connections.spawn(async move {
                        server.converse(stream, Some(token)).await;
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            ListenerKind::Unix(socket, user) => match socket.accept().await {
                Ok((stream, _)) => {
                    if stream.peer_cred().is_ok_and(|peer| peer.uid() == *user) {
                        connections.spawn(async move {
                            server.converse(stream, None).await;
                        });
                    }
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

struct HttpServer {
    service: StreamableHttpService<Handler, NeverSessionManager>,
    entrance: AccessCheck,
    /// Requests end with their connection, so this is never awaited.
    _over: watch::Sender<bool>,
}

impl HttpServer {
    fn new(live: ServiceHandle, info: ServerInfo) -> Self {
        let (over, ended) = watch::channel(false);
        // One memory for all requests: the answer to a question comes with another one.
        let questions = Arc::new(QuestionStore::new());
        let handler = move || {
            let questions = Arc::clone(&questions);
            Ok(Handler::sharing(
                live.clone(),
                info.clone(),
                questions,
                ended.clone(),
            ))
        };
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_LINE_BYTES)
            .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
            .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]);
        HttpServer {
            service: StreamableHttpService::new(
                handler,
                Arc::new(NeverSessionManager::default()),
                config,
            ),
            entrance: AccessCheck::new(),
            _over: over,
        }
    }

    async fn converse<S>(&self, stream: S, token: Option<HttpToken>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (token, visitor) = (token.as_ref(), &self.entrance.enter());
        let answer = service_fn(|request| async move {
            Ok::<_, Infallible>(self.answer(request, token, visitor).await)
        });
        let conversation = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIME)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), answer);
        tokio::select! {
            // A broken connection is not reported.
            _ = conversation => {}
            () = visitor.expires() => {}
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        token: Option<&HttpToken>,
        visitor: &ConnectionGuard<'_>,
    ) -> HttpResponse {
        if token.is_some_and(|token| !token.is_in(request.headers().get(AUTHORIZATION))) {
            let mut refusal = refuse(StatusCode::UNAUTHORIZED, "The token is missing or wrong.");
            let scheme = HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return refusal;
        }
        if !visitor.admit() {
            let mut refusal = refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many connections; close some, or come again.",
            );
            refusal
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return refusal;
        }
        if request.uri().path() != PATH {
            return refuse(StatusCode::NOT_FOUND, "There is nothing here but /mcp.");
        }
        let (head, body) = request.into_parts();
        // Said in advance: then nothing of it is read.
        if body.size_hint().lower() > MAX_LINE_BYTES as u64 {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long.");
        }
        let read = Limited::new(body, MAX_LINE_BYTES).collect();
        let body = match tokio::time::timeout(READ_TIME, read).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long.");
            }
            Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "The message broke off."),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "The message took too long."),
        };
        if values_at_most(&body) > MAX_VALUES {
            return refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The message holds too many values.",
            );
        }
        let is_message = head.method == Method::POST && is_json(&head.headers);
        let request = Request::from_parts(head, Full::new(body.clone()));
        let answer = self.service.handle(request).await;
        // The type was right, so it is the message that was not.
        match answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_message {
            true => not_a_message(&body),
            false => answer,
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or("");
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The errors of JSON-RPC for text that is not JSON, and for JSON that is not a request.
fn not_a_message(body: &[u8]) -> HttpResponse {
    let (code, text) = match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(IgnoredAny) => (
            -32600,
            "Invalid request: this is not a message of MCP.".to_owned(),
        ),
        Err(error) => (-32700, format!("Parse error: {error}.")),
    };
    let error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": text}});
    let mut answer = Response::new(Full::new(Bytes::from(error.to_string())).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn refuse(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
