//! Requests for `http:` URLs (RFC 9112, section 3.2.2). Each request is decided on its own, also on a
//! connection that is kept alive. hyper reads and writes both sides, so that a request that reaches
//! a server is exactly the one that was judged.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::super::connect::{Admission, Upstream, connect};
use super::super::context::ServiceContext;
use super::super::lock;
use super::super::record::{Protocol, Refusal, escape, shown};
use super::head::{MAX_HEAD, check_host};
use super::stream::BufferedStream;
use super::{is_authorized, refuse_unauthenticated};
use crate::host::Host;

const HTTP_PORT: u16 = 80;

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

type Body = Either<Incoming, Full<Bytes>>;

/// A connection to a host that further requests of the same client may use.
struct ReusableConnection {
    host: Host,
    port: u16,
    sender: SendRequest<Incoming>,
}

/// The state of one client.
struct Client {
    state: Arc<ServiceContext>,
    admission: Admission,
    /// hyper handles one request of a client at a time.
    reusable: Mutex<Option<ReusableConnection>>,
}

/// A request that is not valid, with the reason.
struct BadRequest(&'static str);

/// Serves a client whose first bytes have been read.
pub(super) async fn serve(
    state: &Arc<ServiceContext>,
    client: TcpStream,
    admission: Admission,
    first: Vec<u8>,
) {
    let context = Arc::new(Client {
        state: Arc::clone(state),
        admission,
        reusable: Mutex::new(None),
    });
    let service = service_fn(move |request| {
        let context = Arc::clone(&context);
        async move { Ok::<_, Infallible>(context.answer(request).await) }
    });
    let stream = TokioIo::new(BufferedStream::new(client, first));
    // An error ends this client's connection; hyper has answered what it could not read.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(state.shared.options.limits.handshake_timeout)
        .max_buf_size(MAX_HEAD)
        // A client may close its side behind its last request.
        .half_close(true)
        .serve_connection(stream, service)
        .await;
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (host, port) = match target(&request) {
            Ok(target) => target,
            Err(BadRequest(why)) => {
                let reason = Refusal::Malformed(why.to_owned());
                let named = request.uri().host().unwrap_or_default();
                let shown = escape(named);
                self.state.refuse(shown, 0, Protocol::Http, reason);
                return close(text(StatusCode::BAD_REQUEST, why));
            }
        };
        let authorization = request.headers().get(header::PROXY_AUTHORIZATION);
        let authorization = authorization.map(HeaderValue::as_bytes);
        if !is_authorized(&self.state, authorization) {
            refuse_unauthenticated(&self.state, &host, port, Protocol::Http);
            return needs_token();
        }
        let request = match for_server(request, &host, port) {
            Ok(request) => request,
            Err(BadRequest(why)) => {
                let reason = Refusal::Malformed(why.to_owned());
                self.state
                    .refuse(shown(&host), port, Protocol::Http, reason);
                return close(text(StatusCode::BAD_REQUEST, why));
            }
        };
        match self.forward(request, &host, port).await {
            Ok(response) => response,
            Err(reason) => {
                let status = status_of(&reason);
                let refused = text(status, &self.state.refusal_text(&host, port, &reason));
                match self.admission {
                    Admission::Granted => refused,
                    Admission::Refused => close(refused),
                }
            }
        }
    }

    /// Sends a request to its host and returns the answer.
    async fn forward(
        &self,
        mut request: Request<Incoming>,
        host: &Host,
        port: u16,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(mut sender) = self.take_reusable(host, port).await {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.finish(response, host, port, sender)),
                Err(mut error) => match error.take_message() {
                    // The server has closed it in the meantime, before it saw the request.
                    Some(unsent) => request = unsent,
                    None => return Err(failed(error.error())),
                },
            }
        }
        let upstream = connect(&self.state, self.admission, host, port, Protocol::Http).await?;
        let mut sender = self.start_connection(upstream).await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| failed(&error))?;
        Ok(self.finish(response, host, port, sender))
    }

    /// Returns the connection of an earlier request if it leads to this host, which the rules do not
    /// deny.
    async fn take_reusable(&self, host: &Host, port: u16) -> Option<SendRequest<Incoming>> {
        let leads_there = |one: &mut ReusableConnection| one.host == *host && one.port == port;
        let taken = lock(&self.reusable).take_if(leads_there)?;
        // A person's answer for one connection counts for all of its requests.
        if self.state.shared.is_denied(host, port) {
            return None;
        }
        let mut sender = taken.sender;
        sender.ready().await.ok()?;
        Some(sender)
    }

    async fn start_connection(&self, upstream: Upstream) -> Result<SendRequest<Incoming>, Refusal> {
        let Upstream {
            stream,
            early,
            mut connection,
        } = upstream;
        let stream = BufferedStream::new(stream, early).counted(Arc::clone(&connection.counters));
        let handshake = hyper::client::conn::http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = match handshake {
            Ok(started) => started,
            Err(error) => {
                let reason = failed(&error);
                connection.refuse(reason.clone());
                return Err(reason);
            }
        };
        self.state.spawn(async move {
            let _connection = connection;
            let _ = driver.await;
        });
        Ok(sender)
    }

    fn finish(
        &self,
        mut response: Response<Incoming>,
        host: &Host,
        port: u16,
        sender: SendRequest<Incoming>,
    ) -> Response<Body> {
        remove_hop_by_hop(response.headers_mut());
        *lock(&self.reusable) = Some(ReusableConnection {
            host: host.clone(),
            port,
            sender,
        });
        response.map(Either::Left)
    }
}

/// Returns the host and port of a request.
fn target(request: &Request<Incoming>) -> Result<(Host, u16), BadRequest> {
    if request.method() == Method::CONNECT {
        return Err(BadRequest("CONNECT needs a connection of its own"));
    }
    let uri = request.uri();
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(BadRequest("`https` needs CONNECT")),
        Some(_) => return Err(BadRequest("it is not an `http` URL")),
        None => return Err(BadRequest("this is a proxy: it needs a whole URL")),
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let (host, port) = Host::parse_with_optional_port(authority)
        .map_err(|_| BadRequest("its URL does not name a valid host"))?;
    let port = port.unwrap_or(HTTP_PORT);
    let hosts = request.headers().get_all(header::HOST).into_iter();
    let hosts = hosts.map(HeaderValue::as_bytes);
    let is_http_11 = request.version() == Version::HTTP_11;
    check_host(&host, port, Some(HTTP_PORT), hosts, is_http_11).map_err(BadRequest)?;
    Ok((host, port))
}

/// Returns the request in the form for a server: a path, and headers that are not for this hop.
fn for_server(
    mut request: Request<Incoming>,
    host: &Host,
    port: u16,
) -> Result<Request<Incoming>, BadRequest> {
    let invalid = |_| BadRequest("its URL is not valid");
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let path = if path.starts_with('?') {
        format!("/{path}")
    } else {
        path.to_owned()
    };
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| invalid(()))?;
    *request.version_mut() = Version::HTTP_11;
    let is_chunked = is_chunked(request.headers())?;
    remove_hop_by_hop(request.headers_mut());
    if is_chunked {
        // Without it, hyper sends no body of a method that rarely has one.
        let chunked = HeaderValue::from_static("chunked");
        let headers = request.headers_mut();
        headers.insert(header::TRANSFER_ENCODING, chunked);
    }
    let authority = match (host, port) {
        (Host::Address(std::net::IpAddr::V6(address)), HTTP_PORT) => format!("[{address}]"),
        (host, HTTP_PORT) => host.to_string(),
        (host, port) => host.with_port(port),
    };
    let value = HeaderValue::from_str(&authority).map_err(|_| invalid(()))?;
    request.headers_mut().insert(header::HOST, value);
    Ok(request)
}

/// `true` if the body is sent in chunks. hyper undoes no other coding, so others are refused.
fn is_chunked(headers: &HeaderMap) -> Result<bool, BadRequest> {
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

fn failed(error: &hyper::Error) -> Refusal {
    Refusal::Unreachable(error.to_string())
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let body = Bytes::from(format!("{}\n", text.trim_end()));
    let mut response = Response::new(Either::Right(Full::new(body)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn needs_token() -> Response<Body> {
    let status = StatusCode::PROXY_AUTHENTICATION_REQUIRED;
    let mut response = text(status, "this proxy needs its token");
    let basic = HeaderValue::from_static("Basic realm=\"proxy\"");
    response
        .headers_mut()
        .insert(header::PROXY_AUTHENTICATE, basic);
    response
}

/// Makes hyper close the connection after the answer.
fn close(mut response: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
