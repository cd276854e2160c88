//! Serves a client that shows a placeholder. Each request is judged on its own.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::connect::Admission;
use super::super::context::ServiceContext;
use super::super::http::{
    BadRequest, Body, HttpUpstream, close, is_websocket, serve_client, set_hop, text,
};
use super::super::record::{Protocol, Refusal, shown};
use super::{CredentialServer, has_key_parameter};

const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

/// The state of one client.
struct CredentialClient {
    state: Arc<ServiceContext>,
    server: Arc<CredentialServer>,
    upstream: HttpUpstream,
    keyless: KeylessRequests,
}

/// The fate of requests without any key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum KeylessRequests {
    /// They are refused: the client was told of the server for its key.
    Refused,
    /// They are passed on, as those to any host.
    Passed,
}

/// Serves one client.
pub(in super::super) async fn serve(
    state: &Arc<ServiceContext>,
    server: Arc<CredentialServer>,
    client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    admission: Admission,
    keyless: KeylessRequests,
) {
    let context = Arc::new(CredentialClient {
        state: Arc::clone(state),
        server,
        upstream: HttpUpstream::new(state, admission, Protocol::Credential),
        keyless,
    });
    let answer = |request| {
        let context = Arc::clone(&context);
        async move { context.answer(request).await }
    };
    serve_client(state, client, Vec::new(), answer).await;
    context.upstream.run_tunnel().await;
}

impl CredentialClient {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let is_websocket = is_websocket(&request);
        if let Err(BadRequest(why)) =
            check_target(&request).and_then(|()| self.set_hop(&mut request))
        {
            self.record(Refusal::Malformed(why.to_owned()));
            return close(text(StatusCode::BAD_REQUEST, why));
        }
        let shows_key = self.server.has_key_header(request.headers());
        let added = match self.server.replace_placeholders(request.headers_mut()) {
            Some(added) => added,
            None if !shows_key && self.keyless == KeylessRequests::Passed => Vec::new(),
            None => {
                let reason = Refusal::NoPlaceholder;
                let told = reason.to_string();
                // Agents try whether the server is there, without a key.
                if shows_key {
                    self.record(reason);
                }
                return close(text(StatusCode::FORBIDDEN, &told));
            }
        };
        let CredentialServer {
            host, port, tls, ..
        } = &*self.server;
        let sent = match is_websocket {
            true => {
                let sent = self
                    .upstream
                    .send_websocket(request, host, *port, tls.as_ref());
                sent.await
            }
            false => self.upstream.send(request, host, *port, tls.as_ref()).await,
        };
        match sent {
            Ok(mut response) => {
                self.server.remove_keys(&mut response, &added);
                response
            }
            Err(reason) => self.upstream.refusal(host, *port, &reason),
        }
    }

    fn set_hop(&self, request: &mut Request<Incoming>) -> Result<(), BadRequest> {
        let default_port = match self.server.tls {
            Some(_) => HTTPS_PORT,
            None => HTTP_PORT,
        };
        set_hop(request, &self.server.host, self.server.port, default_port)
    }

    fn record(&self, reason: Refusal) {
        let CredentialServer { host, port, .. } = &*self.server;
        self.state
            .refuse(shown(host), *port, Protocol::Credential, reason);
    }
}

/// Checks that a request is for this server only, and that it does not ask for the key.
fn check_target(request: &Request<Incoming>) -> Result<(), BadRequest> {
    let uri = request.uri();
    if request.method() == Method::CONNECT || uri.authority().is_some() {
        return Err(BadRequest("this is not a proxy: it needs a path"));
    }
    if request.method() == Method::TRACE {
        return Err(BadRequest("TRACE would show the key"));
    }
    if !uri.path().starts_with('/') {
        return Err(BadRequest("it needs a path"));
    }
    match uri.query() {
        Some(query) if has_key_parameter(query) => Err(BadRequest(
            "its query has a key; show the placeholder in a header",
        )),
        _ => Ok(()),
    }
}
