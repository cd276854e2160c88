//! The server: HTTP/1.1 on loopback, for this process only.
//!
//! Every process of the machine can connect. Without the key of a pending turn it gets a 401 before
//! a byte of its body is read; the server offers nothing else. It cannot delay a turn either: a
//! connection is accepted at once, and beyond the limit the oldest unauthenticated connection is
//! closed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forge_runtime::{ScriptedModel, Wire};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::parsed_request::ParsedRequest;
use super::pending::{PendingTurn, PendingTurns};
use super::response::{self, ResponseBody};
use super::{anthropic, chat, diff, responses, schemas};

/// Largest request.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Connections that have shown no key. Those that have are as many as turns are on their way.
const MAX_STRANGERS: usize = 256;

/// Longest time for a request's head.
const MAX_HEAD: Duration = Duration::from_secs(5);

/// Longest time for its body.
const MAX_BODY: Duration = Duration::from_secs(120);

/// Pause after a failed accept, for want of descriptors say.
const PAUSE: Duration = Duration::from_millis(50);

/// The shared state of the server.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) wire: Wire,
    pub(super) scripted: ScriptedModel,
    pub(super) pending: Arc<PendingTurns>,
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    let mut unauthenticated: VecDeque<Unauthenticated> = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                unauthenticated.retain(Unauthenticated::is_here);
                if unauthenticated.len() >= MAX_STRANGERS
                    && let Some(oldest) = unauthenticated.pop_front()
                {
                    oldest.task.abort();
                }
                let known = Arc::new(AtomicBool::new(false));
                let task = connections.spawn(one(stream, Arc::clone(&state), Arc::clone(&known)));
                unauthenticated.push_back(Unauthenticated { task, known });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// A connection, until it shows the key of a turn.
struct Unauthenticated {
    task: AbortHandle,
    known: Arc<AtomicBool>,
}

impl Unauthenticated {
    fn is_here(&self) -> bool {
        !self.known.load(Ordering::Relaxed) && !self.task.is_finished()
    }
}

/// Serves one request: a reused connection could be closed just when the next request is sent.
async fn one(stream: TcpStream, state: Arc<ServerState>, known: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        let known = Arc::clone(&known);
        async move { Ok::<_, Infallible>(respond(request, &state, &known).await) }
    });
    // The error of a failed connection has no recipient.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    state: &Arc<ServerState>,
    known: &AtomicBool,
) -> Response<ResponseBody> {
    let wire = state.wire;
    let Some((id, turn)) = turn(&request, state) else {
        return response::refusal(wire, 401, "the key is not one of a turn that is on its way");
    };
    known.store(true, Ordering::Relaxed);
    let parsed = match parsed(request, wire, &turn).await {
        Ok(parsed) => parsed,
        Err((status, why)) => return response::refusal(wire, status, &why),
    };
    let state = Arc::clone(state);
    // Templates can take their time.
    let played = {
        let turn = Arc::clone(&turn);
        tokio::task::spawn_blocking(move || turn.play(&state.scripted)).await
    };
    match played {
        Ok(Ok(played)) => response::answer(wire, &parsed, &played, &id, turn.next_try()),
        Ok(Err(error)) => response::unplayable(wire, &error),
        Err(_) => response::refusal(wire, 500, "the playbook could not be played"),
    }
}

/// The turn that the request's key opens. Its answer is named after the first letters of it.
fn turn(request: &Request<Incoming>, state: &ServerState) -> Option<(String, Arc<PendingTurn>)> {
    let header = |name| request.headers().get(name)?.to_str().ok();
    let key = match state.wire {
        Wire::Anthropic => header("x-api-key")?,
        Wire::OpenAiChat | Wire::OpenAiResponses => {
            header(AUTHORIZATION.as_str())?.strip_prefix("Bearer ")?
        }
    };
    let turn = state.pending.find(key)?;
    Some((format!("{}", turn.request.turns_so_far() + 1), turn))
}

/// Parses the request and checks it against the vendor's schema and the sent conversation.
async fn parsed(
    request: Request<Incoming>,
    wire: Wire,
    turn: &PendingTurn,
) -> Result<ParsedRequest, (u16, String)> {
    let path = match wire {
        Wire::Anthropic => "/v1/messages",
        Wire::OpenAiChat => "/v1/chat/completions",
        Wire::OpenAiResponses => "/v1/responses",
    };
    if request.method() != Method::POST || request.uri().path() != path {
        return Err((404, format!("this is not POST {path}")));
    }
    let header = |name: &str| {
        let value = request.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err((400, "the request is not application/json".to_owned()));
    }
    if wire == Wire::Anthropic && header("anthropic-version").is_none() {
        return Err((400, "there is no anthropic-version".to_owned()));
    }
    let body = whole(request.into_body()).await?;
    let body: Value = serde_json::from_slice(&body)
        .map_err(|error| (400, format!("the request is not JSON: {error}")))?;
    schemas::check(wire, &body).map_err(|mistakes| {
        (
            400,
            format!("the request is not of the documented shape: {mistakes}"),
        )
    })?;
    let parsed = match wire {
        Wire::Anthropic => anthropic::read(&body),
        Wire::OpenAiChat => chat::read(&body),
        Wire::OpenAiResponses => responses::read(&body),
    };
    match diff::diff(&turn.request, &parsed, wire) {
        None => Ok(parsed),
        Some(what) => Err((400, format!("the request is not the conversation: {what}"))),
    }
}

async fn whole(body: Incoming) -> Result<Bytes, (u16, String)> {
    let too_large = || {
        (
            413,
            format!("the request is larger than {MAX_BODY_BYTES} bytes"),
        )
    };
    if usize::try_from(body.size_hint().lower())
        .ok()
        .is_none_or(|bytes| bytes > MAX_BODY_BYTES)
    {
        return Err(too_large());
    }
    let read = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(MAX_BODY, read).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err((400, format!("the request broke off: {error}"))),
        Err(_) => Err((408, "the request took too long".to_owned())),
    }
}
