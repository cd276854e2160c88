//! HTTP between a client and a host, for proxies that read requests: hyper reads and writes both
//! sides, so that a request that reaches a server is exactly the one that was judged.

mod client_heads;
mod stream;
mod upstream;
mod websocket;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::context::ServiceContext;
use super::proxy::MAX_HEAD;
use super::record::{Protocol, Refusal};
use crate::host::Host;
use client_heads::ClientHeads;

pub(super) use stream::BufferedStream;
pub(super) use upstream::HttpUpstream;

/// Headers that are meant for the next hop only (RFC 9110, section 7.6.1), and `Expect`, which hyper
/// answers itself.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// The body of an answer: a server's, or a text of the broker's.
pub(super) type Body = Either<Incoming, Full<Bytes>>;

/// A request that is not valid, with the reason.
pub(super) struct BadRequest(pub(super) &'static str);

/// Serves the requests of a client, one after the other, up to one with a body in chunks: see
/// [`ClientHeads`]. `first`: bytes that have been read.
pub(super) async fn serve_client<S, F>(
    state: &ServiceContext,
    client: S,
    first: Vec<u8>,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Body>>,
{
    let heads = Arc::<ClientHeads>::default();
    let stream = BufferedStream::new(client, first).with_heads(Arc::clone(&heads));
    let stream = TokioIo::new(stream);
    let service = service_fn(|mut request: Request<Incoming>| {
        let is_last = websocket::is_asked(request.headers());
        let may_follow = heads.complete(request.headers_mut(), is_last);
        let answered = answer(request);
        async move {
            let answer = answered.await;
            Ok::<_, Infallible>(match may_follow {
                _ if answer.status() == StatusCode::SWITCHING_PROTOCOLS => answer,
                true => answer,
                false => close(answer),
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(state.shared.options.limits.handshake_timeout)
        .max_buf_size(MAX_HEAD)
        // A client may close its side behind its last request.
        .half_close(true)
        .serve_connection(stream, service)
        .with_upgrades()
        .await;
    // An error ends this client's connection; hyper has answered bytes that it could not read.
    if let Err(error) = served
        && error.is_parse()
    {
        let reason = Refusal::Malformed(error.to_string());
        state.refuse(String::new(), 0, Protocol::Http, reason);
    }
}

/// Returns `true` if a request changes to WebSocket.
pub(super) fn is_websocket(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET && websocket::is_asked(request.headers())
}

/// Replaces the headers that are for this hop by those for the server.
pub(super) fn set_hop(
    request: &mut Request<Incoming>,
    host: &Host,
    port: u16,
    default_port: u16,
) -> Result<(), BadRequest> {
    *request.version_mut() = Version::HTTP_11;
    let is_chunked = is_chunked(request.headers())?;
    remove_hop_by_hop(request.headers_mut());
    if is_chunked {
        // Without it, hyper sends no body of a method that rarely has one.
        let chunked = HeaderValue::from_static("chunked");
        let headers = request.headers_mut();
        headers.insert(header::TRANSFER_ENCODING, chunked);
    }
    let authority = match host {
        Host::Address(std::net::IpAddr::V6(address)) if port == default_port => {
            format!("[{address}]")
        }
        host if port == default_port => host.to_string(),
        host => host.with_port(port),
    };
    let value =
        HeaderValue::from_str(&authority).map_err(|_| BadRequest("its URL is not valid"))?;
    request.headers_mut().insert(header::HOST, value);
    Ok(())
}

/// `true` if the body is sent in chunks. hyper undoes no other coding, so others are refused.
fn is_chunked(headers: &HeaderMap) -> Result<bool, BadRequest> {
    if headers.contains_key(header::TRANSFER_ENCODING)
        && headers.contains_key(header::CONTENT_LENGTH)
    {
        return Err(BadRequest("it has two lengths"));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(BadRequest("its transfer coding is not `chunked` alone")),
    }
}

/// Removes headers for this hop, and those that `Connection` declares to be such.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let declared: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Without them the message would be another one.
        .filter(|name| ![header::HOST, header::CONTENT_LENGTH].contains(name))
        .collect();
    for name in HOP_BY_HOP.iter().chain(&declared) {
        headers.remove(name);
    }
}

/// Returns the status of an answer for a refusal.
pub(super) fn status_of(reason: &Refusal) -> StatusCode {
    match reason {
        Refusal::Unresolved(_) | Refusal::Unreachable(_) => StatusCode::BAD_GATEWAY,
        Refusal::TooManyConnections => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::FORBIDDEN,
    }
}

/// Returns a status as it is written in an answer.
pub(super) fn status_line(status: StatusCode) -> String {
    format!(
        "{} {}",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error")
    )
}

/// Returns an answer of the broker's.
pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    let body = Bytes::from(format!("{}\n", text.trim_end()));
    let mut response = Response::new(Either::Right(Full::new(body)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Makes hyper close the connection after the answer.
pub(super) fn close(mut response: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
