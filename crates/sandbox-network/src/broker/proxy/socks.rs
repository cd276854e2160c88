//! SOCKS 5 (RFC 1928), as far as a broker needs it: CONNECT, names and addresses, and the proxy's
//! token as a password (RFC 1929) if it has one.
//! Nothing is read beyond the request, so that the client's first bytes stay for the tunnel.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::connect::{Admission, connect};
use super::super::context::ServiceContext;
use super::super::credential;
use super::super::record::{Protocol, Refusal, escape, shown};
use super::super::tunnel;
use super::{SOCKS_5, close_after};
use crate::host::Host;

const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// RFC 1928, section 6.
#[derive(Clone, Copy)]
enum SocksReply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// A client's request cannot be served.
enum RequestError {
    /// The client is gone.
    Gone,
    /// The request is answered, and recorded for a host and port with the reason.
    Refused {
        reply: SocksReply,
        host: String,
        port: u16,
        why: &'static str,
    },
}

impl RequestError {
    /// Returns the refusal of a request that names no host.
    fn without_host(reply: SocksReply, why: &'static str) -> RequestError {
        RequestError::Refused {
            reply,
            host: String::new(),
            port: 0,
            why,
        }
    }
}

impl From<io::Error> for RequestError {
    fn from(_: io::Error) -> RequestError {
        RequestError::Gone
    }
}

/// Serves one client.
pub(super) async fn serve(
    state: &Arc<ServiceContext>,
    mut client: TcpStream,
    admission: Admission,
) {
    let limit = state.shared.options.limits.handshake_timeout;
    let Ok(request) = timeout(limit, read_request(state, &mut client)).await else {
        return;
    };
    let (host, port) = match request {
        Ok(request) => request,
        Err(RequestError::Gone) => return,
        Err(RequestError::Refused {
            reply,
            host,
            port,
            why,
        }) => {
            refuse(state, host, port, why);
            return close_after(&mut client, &reply_bytes(reply)).await;
        }
    };
    let succeeded = reply_bytes(SocksReply::Succeeded);
    if let Some(server) = state.terminated(&host, port) {
        if client.write_all(&succeeded).await.is_ok() {
            credential::serve_terminated(state, server, client, admission).await;
        }
        return;
    }
    match connect(state, admission, &host, port, Protocol::Socks).await {
        Ok(mut upstream) => {
            if client.write_all(&succeeded).await.is_ok() {
                tunnel::run(state, &client, &mut upstream, &host).await;
            }
        }
        Err(reason) => {
            let reply = match &reason {
                Refusal::TooManyConnections => SocksReply::GeneralFailure,
                failure if failure.is_failure() => SocksReply::HostUnreachable,
                _ => SocksReply::NotAllowed,
            };
            close_after(&mut client, &reply_bytes(reply)).await;
        }
    }
}

fn refuse(state: &ServiceContext, host: String, port: u16, why: &str) {
    let reason = Refusal::Malformed(why.to_owned());
    state.refuse(host, port, Protocol::Socks, reason);
}

/// Answers a client of SOCKS 4 or 4a: "request rejected".
pub(super) async fn refuse_version_4(state: &ServiceContext, mut client: TcpStream) {
    let limit = state.shared.options.limits.handshake_timeout;
    let target = timeout(limit, read_version_4(&mut client)).await;
    let (host, port) = target.ok().and_then(Result::ok).unwrap_or_default();
    refuse(state, host, port, "SOCKS 4 is not served");
    close_after(&mut client, &[0, 91, 0, 0, 0, 0, 0, 0]).await;
}

/// Returns the host and port that a client of SOCKS 4 or 4a names.
async fn read_version_4(client: &mut TcpStream) -> io::Result<(String, u16)> {
    let _version_and_command = client.read_u16().await?;
    let port = client.read_u16().await?;
    let address = client.read_u32().await?;
    let _user = read_terminated(client).await?;
    let host = match address {
        // 0.0.0.x announces a name.
        1..=255 => escape(&String::from_utf8_lossy(&read_terminated(client).await?)),
        _ => Ipv4Addr::from(address).to_string(),
    };
    Ok((host, port))
}

/// Reads up to a zero byte, for as many bytes as a length of one byte could tell.
async fn read_terminated(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() <= usize::from(u8::MAX) {
        match client.read_u8().await? {
            0 => return Ok(bytes),
            byte => bytes.push(byte),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn read_request(
    state: &ServiceContext,
    client: &mut TcpStream,
) -> Result<(Host, u16), RequestError> {
    authenticate(state, client).await?;
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [version, command, reserved, kind] = head;
    if version != SOCKS_5 || reserved != 0 {
        let reply = SocksReply::GeneralFailure;
        return Err(RequestError::without_host(reply, "it is not SOCKS 5"));
    }
    let host = match kind {
        IPV4 => Ok(Host::Address(
            Ipv4Addr::from(client.read_u32().await?).into(),
        )),
        IPV6 => Ok(Host::Address(
            Ipv6Addr::from(client.read_u128().await?).into(),
        )),
        NAME => {
            let name = read_prefixed(client).await?;
            let text = String::from_utf8_lossy(&name).into_owned();
            Host::parse(&text).map_err(|_| text)
        }
        _ => {
            let reply = SocksReply::AddressTypeNotSupported;
            let why = "unknown type of address";
            return Err(RequestError::without_host(reply, why));
        }
    };
    let port = client.read_u16().await?;
    let refused = |reply, host, why| RequestError::Refused {
        reply,
        host,
        port,
        why,
    };
    match host {
        Ok(host) if command == CONNECT => Ok((host, port)),
        Ok(host) => {
            let reply = SocksReply::CommandNotSupported;
            Err(refused(reply, shown(&host), "only CONNECT is served"))
        }
        Err(text) => Err(refused(
            SocksReply::NotAllowed,
            escape(&text),
            "invalid host",
        )),
    }
}

/// Agrees on a method with the client. Without a token every client is taken.
async fn authenticate(state: &ServiceContext, client: &mut TcpStream) -> Result<(), RequestError> {
    let _version = client.read_u8().await?;
    let methods = read_prefixed(client).await?;
    let method = match state.proxy_token {
        None => NO_AUTHENTICATION,
        Some(_) => PASSWORD,
    };
    if !methods.contains(&method) {
        refuse(state, String::new(), 0, "no acceptable authentication");
        client.write_all(&[SOCKS_5, NO_ACCEPTABLE_METHOD]).await?;
        return Err(RequestError::Gone);
    }
    client.write_all(&[SOCKS_5, method]).await?;
    let Some(token) = &state.proxy_token else {
        return Ok(());
    };
    let version = client.read_u8().await?;
    let _user = read_prefixed(client).await?;
    let password = read_prefixed(client).await?;
    if version == PASSWORD_VERSION && token.is_password(&password) {
        client.write_all(&[PASSWORD_VERSION, 0]).await?;
        return Ok(());
    }
    client.write_all(&[PASSWORD_VERSION, 1]).await?;
    let reason = Refusal::Unauthenticated;
    state.refuse(String::new(), 0, Protocol::Socks, reason);
    Err(RequestError::Gone)
}

/// Reads a length of one byte and as many bytes.
async fn read_prefixed(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = client.read_u8().await?;
    let mut bytes = vec![0; usize::from(length)];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The address of a reply means nothing for CONNECT through a broker.
fn reply_bytes(reply: SocksReply) -> [u8; 10] {
    [SOCKS_5, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]
}
