//! The connection of a client to its host, which further requests of the client may use.

use std::sync::{Arc, Mutex};

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::connect::{Admission, Upstream, connect};
use super::super::context::{ServiceContext, TrackedConnection};
use super::super::credential::UpstreamTls;
use super::super::lock;
use super::super::proxy::MAX_HEAD;
use super::super::record::{Protocol, Refusal};
use super::stream::BufferedStream;
use super::websocket::{self, WebSocketTunnel};
use super::{Body, close, remove_hop_by_hop, status_of, text};
use crate::host::Host;

/// A connection to a host that further requests of the same client may use.
struct ReusableConnection {
    host: Host,
    port: u16,
    sender: SendRequest<Incoming>,
}

/// The way of one client's requests to hosts.
pub(in super::super) struct HttpUpstream {
    state: Arc<ServiceContext>,
    admission: Admission,
    protocol: Protocol,
    /// hyper handles one request of a client at a time.
    reusable: Mutex<Option<ReusableConnection>>,
    tunnel: Mutex<Option<WebSocketTunnel>>,
}

impl HttpUpstream {
    pub(in super::super) fn new(
        state: &Arc<ServiceContext>,
        admission: Admission,
        protocol: Protocol,
    ) -> HttpUpstream {
        HttpUpstream {
            state: Arc::clone(state),
            admission,
            protocol,
            reusable: Mutex::new(None),
            tunnel: Mutex::new(None),
        }
    }

    /// Returns the answer to a client whose request is refused.
    pub(in super::super) fn refusal(
        &self,
        host: &Host,
        port: u16,
        reason: &Refusal,
    ) -> Response<Body> {
        let told = self.state.refusal_text(host, port, reason);
        let refused = text(status_of(reason), &told);
        match self.admission {
            Admission::Granted => refused,
            Admission::Refused => close(refused),
        }
    }

    /// Sends a request to its host and returns the answer.
    pub(in super::super) async fn send(
        &self,
        mut request: Request<Incoming>,
        host: &Host,
        port: u16,
        tls: Option<&UpstreamTls>,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(mut sender) = self.take_reusable(host, port).await {
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish(response, host, port, sender),
                Err(mut error) => match error.take_message() {
                    // The server has closed it in the meantime, before it saw the request.
                    Some(unsent) => request = unsent,
                    None => return Err(failed(error.error())),
                },
            }
        }
        let upstream = connect(&self.state, self.admission, host, port, self.protocol).await?;
        let (mut sender, _) = self.start_connection(upstream, tls).await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| failed(&error))?;
        self.finish(response, host, port, sender)
    }

    /// Sends a request that changes to WebSocket, and returns the answer. If the server agrees, the
    /// tunnel is ready for [`run_tunnel`](HttpUpstream::run_tunnel).
    pub(in super::super) async fn send_websocket(
        &self,
        mut request: Request<Incoming>,
        host: &Host,
        port: u16,
        tls: Option<&UpstreamTls>,
    ) -> Result<Response<Body>, Refusal> {
        let client = hyper::upgrade::on(&mut request);
        websocket::ask(request.headers_mut());
        let upstream = connect(&self.state, self.admission, host, port, self.protocol).await?;
        let (mut sender, connection) = self.start_connection(upstream, tls).await?;
        let response = sender.send_request(request).await;
        let mut response = response.map_err(|error| failed(&error))?;
        let agrees = response.status() == StatusCode::SWITCHING_PROTOCOLS
            && websocket::is_asked(response.headers());
        if !agrees {
            return self.finish(response, host, port, sender);
        }
        *lock(&self.tunnel) = Some(WebSocketTunnel {
            client,
            server: hyper::upgrade::on(&mut response),
            _connection: connection,
        });
        remove_hop_by_hop(response.headers_mut());
        websocket::ask(response.headers_mut());
        Ok(response.map(Either::Left))
    }

    /// Copies bytes after a change to WebSocket, until both sides have closed.
    pub(in super::super) async fn run_tunnel(&self) {
        let tunnel = lock(&self.tunnel).take();
        if let Some(tunnel) = tunnel {
            tunnel.run().await;
        }
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

    async fn start_connection(
        &self,
        upstream: Upstream,
        tls: Option<&UpstreamTls>,
    ) -> Result<(SendRequest<Incoming>, Arc<TrackedConnection>), Refusal> {
        let Upstream {
            stream,
            early,
            mut connection,
        } = upstream;
        let stream = BufferedStream::new(stream, early).counted(Arc::clone(&connection.counters));
        let Some(tls) = tls else {
            return self.handshake(stream, connection).await;
        };
        let limit = self.state.shared.options.limits.handshake_timeout;
        match tls.connect(stream, limit).await {
            Ok(stream) => self.handshake(stream, connection).await,
            Err(error) => {
                let reason = Refusal::Unreachable(format!("TLS: {error}"));
                connection.refuse(reason.clone());
                Err(reason)
            }
        }
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        mut connection: TrackedConnection,
    ) -> Result<(SendRequest<Incoming>, Arc<TrackedConnection>), Refusal> {
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
        let connection = Arc::new(connection);
        let driven = Arc::clone(&connection);
        self.state.spawn(async move {
            let _connection = driven;
            let _ = driver.with_upgrades().await;
        });
        Ok((sender, connection))
    }

    fn finish(
        &self,
        mut response: Response<Incoming>,
        host: &Host,
        port: u16,
        sender: SendRequest<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // No other request asks for it: `Upgrade` is not passed on.
            let why = "the server answers in another protocol";
            return Err(Refusal::Unreachable(why.to_owned()));
        }
        remove_hop_by_hop(response.headers_mut());
        *lock(&self.reusable) = Some(ReusableConnection {
            host: host.clone(),
            port,
            sender,
        });
        Ok(response.map(Either::Left))
    }
}

fn failed(error: &hyper::Error) -> Refusal {
    Refusal::Unreachable(error.to_string())
}
