//! The proxy: HTTP with CONNECT, HTTP for `http:` URLs, and SOCKS 5 at one address. The first byte
//! tells them apart, because no method of HTTP begins with a version number of SOCKS.

mod head;
mod http;
mod socks;

use std::sync::Arc;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connect::{Admission, connect};
use super::context::ServiceContext;
use super::http::{status_line, status_of};
use super::record::{Protocol, Refusal, escape, shown};
use super::{credential, tunnel};
use crate::host::Host;
use head::ProxyRequest;
pub(super) use head::{MAX_HEAD, MAX_HEADERS};

const SOCKS_4: u8 = 4;
const SOCKS_5: u8 = 5;
/// Bytes of a refused client that are read so that it sees the answer and not a reset.
const MAX_DISCARDED: usize = 256 * 1024;

/// Serves one client.
pub(super) async fn serve(state: &Arc<ServiceContext>, client: TcpStream, admission: Admission) {
    let limit = state.shared.options.limits.handshake_timeout;
    let mut first = [0];
    match timeout(limit, client.peek(&mut first)).await {
        Ok(Ok(1)) => {}
        Ok(_) | Err(_) => return,
    }
    match first[0] {
        SOCKS_5 => socks::serve(state, client, admission).await,
        SOCKS_4 => socks::refuse_version_4(state, client).await,
        _ => serve_http(state, client, admission).await,
    }
}

/// Serves a client that speaks HTTP. The first request decides between a tunnel and HTTP.
async fn serve_http(state: &Arc<ServiceContext>, mut client: TcpStream, admission: Admission) {
    let limit = state.shared.options.limits.handshake_timeout;
    let mut bytes = Vec::new();
    let request = match timeout(limit, read_head(&mut client, &mut bytes)).await {
        Ok(Ok(Some(request))) => request,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(why)) => {
            let host = head::target_of(&bytes);
            let reason = Refusal::Malformed(why.to_owned());
            let shown = escape(&host);
            state.refuse(shown, 0, Protocol::Connect, reason);
            return answer_and_close(client, "400 Bad Request", "", why).await;
        }
    };
    match request {
        ProxyRequest::Connect {
            host,
            port,
            authorization,
        } => {
            if is_authorized(state, authorization.as_deref()) {
                return tunnel_to(state, client, admission, (&host, port)).await;
            }
            refuse_unauthenticated(state, &host, port, Protocol::Connect);
            let status = "407 Proxy Authentication Required";
            let basic = "Proxy-Authenticate: Basic realm=\"proxy\"\r\n";
            answer_and_close(client, status, basic, "this proxy needs its token").await;
        }
        ProxyRequest::Other => http::serve(state, client, admission, bytes).await,
    }
}

/// `true` if the proxy has no token, or the client has shown it.
fn is_authorized(state: &ServiceContext, authorization: Option<&[u8]>) -> bool {
    match (&state.proxy_token, authorization) {
        (None, _) => true,
        (Some(token), Some(header)) => token.is_authorization(header),
        (Some(_), None) => false,
    }
}

fn refuse_unauthenticated(state: &ServiceContext, host: &Host, port: u16, protocol: Protocol) {
    state.refuse(shown(host), port, protocol, Refusal::Unauthenticated);
}

/// Reads until the head of a request is complete. `None` if the client is gone.
async fn read_head(
    client: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> Result<Option<ProxyRequest>, &'static str> {
    loop {
        match client.read_buf(bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
        if let Some(request) = head::parse(bytes)? {
            return Ok(Some(request));
        }
        if bytes.len() > MAX_HEAD {
            return Err("its head is longer than 32 KiB");
        }
    }
}

async fn tunnel_to(
    state: &Arc<ServiceContext>,
    mut client: TcpStream,
    admission: Admission,
    (host, port): (&Host, u16),
) {
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
    if let Some(server) = state.terminated(host, port) {
        if client.write_all(answer).await.is_ok() {
            credential::serve_terminated(state, server, client, admission).await;
        }
        return;
    }
    match connect(state, admission, host, port, Protocol::Connect).await {
        Ok(mut upstream) => {
            state.reached(host, port);
            if client.write_all(answer).await.is_ok() {
                tunnel::run(state, &client, &mut upstream, host).await;
            }
        }
        Err(_) if !state.may_answer(host, port) => {}
        Err(reason) => {
            let status = status_of(&reason);
            let text = state.refusal_text(host, port, &reason);
            answer_and_close(client, &status_line(status), "", &text).await;
        }
    }
}

/// Answers with a further header and a text, and closes the connection so that the client reads
/// both.
async fn answer_and_close(mut client: TcpStream, status: &str, header: &str, text: &str) {
    let answer = tunnel::http_answer(status, header, text);
    close_after(&mut client, answer.as_bytes()).await;
}

/// Writes the last bytes to a client and discards the rest that it sends.
async fn close_after(client: &mut TcpStream, last: &[u8]) {
    if client.write_all(last).await.is_err() {
        return;
    }
    let _ = SockRef::from(&*client).shutdown(std::net::Shutdown::Write);
    let discard = async {
        let mut bytes = vec![0; 4096];
        let mut discarded = 0;
        while discarded < MAX_DISCARDED {
            match client.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(read) => discarded += read,
            }
        }
    };
    let _ = timeout(std::time::Duration::from_secs(2), discard).await;
}
