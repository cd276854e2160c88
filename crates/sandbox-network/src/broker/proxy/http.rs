//! Requests for `http:` URLs (RFC 9112, section 3.2.2). Each request is decided on its own, also on a
//! connection that is kept alive. hyper reads and writes both sides, so that a request that reaches
//! a server is exactly the one that was judged.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use tokio::net::TcpStream;

use super::super::connect::Admission;
use super::super::context::ServiceContext;
use super::super::http::{BadRequest, Body, HttpUpstream, close, serve_client, set_hop, text};
use super::super::record::{Protocol, Refusal, escape, shown};
use super::head::check_host;
use super::{is_authorized, refuse_unauthenticated};
use crate::host::Host;

const HTTP_PORT: u16 = 80;

/// The state of one client.
struct Client {
    state: Arc<ServiceContext>,
    upstream: HttpUpstream,
}

/// Serves a client whose first bytes have been read.
pub(super) async fn serve(
    state: &Arc<ServiceContext>,
    client: TcpStream,
    admission: Admission,
    first: Vec<u8>,
) {
    let context = Arc::new(Client {
        state: Arc::clone(state),
        upstream: HttpUpstream::new(state, admission, Protocol::Http),
    });
    let answer = move |request| {
        let context = Arc::clone(&context);
        async move { context.answer(request).await }
    };
    serve_client(state, client, first, answer).await;
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
        match self.upstream.send(request, &host, port, None).await {
            Ok(response) => response,
            Err(reason) => self.upstream.refusal(&host, port, &reason),
        }
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
    set_hop(&mut request, host, port, HTTP_PORT)?;
    Ok(request)
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
