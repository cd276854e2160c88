//! Requests that change to the WebSocket protocol (RFC 6455). After the server's 101 both sides
//! exchange bytes that are no HTTP.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::super::context::TrackedConnection;

const WEBSOCKET: &str = "websocket";

/// A client and a server that both speak WebSocket.
pub(super) struct WebSocketTunnel {
    pub(super) client: OnUpgrade,
    pub(super) server: OnUpgrade,
    /// Recorded when the tunnel ends.
    pub(super) _connection: Arc<TrackedConnection>,
}

impl WebSocketTunnel {
    /// Copies bytes both ways until both sides have closed.
    pub(super) async fn run(self) {
        if let (Ok(client), Ok(server)) = (self.client.await, self.server.await) {
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    }
}

/// Returns `true` if a message changes to WebSocket, and to no other protocol.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(header::CONNECTION).iter();
    let mut options = connection
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    if !options.any(|option| option.trim().eq_ignore_ascii_case("upgrade")) {
        return false;
    }
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    match (protocols.next(), protocols.next()) {
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()),
        _ => false,
    }
}

/// Says in a message that it changes to WebSocket.
pub(super) fn ask(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
}
