//! SOCKS 5 (RFC 1928), as far as a broker needs it: CONNECT, names and addresses, and the proxy's
//! token as a password (RFC 1929) if it has one.
//! Nothing is read beyond the request, so that the client's first bytes stay for the tunnel.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::connect::connect;
use super::super::context::ServiceContext;
use super::super::record::{Protocol, Refusal, escape};
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
    Reply(SocksReply, Option<(String, u16)>),
}

impl From<io::Error> for RequestError {
    fn from(_: io::Error) -> RequestError {
        RequestError::Gone
    }
}

/// Serves one client.
pub(super) async fn serve(state: &Arc<ServiceContext>, mut client: TcpStream) {
    let limit = state.shared.options.limits.handshake_timeout;
    let Ok(request) = timeout(limit, read_request(state, &mut client)).await else {
        return;
    };
    let (host, port) = match request {
        Ok(request) => request,
        Err(RequestError::Gone) => return,
        Err(RequestError::Reply(reply, subject)) => {
            if let Some((host, port)) = subject {
                let reason = Refusal::Malformed("invalid host".to_owned());
                state.refuse(host, port, Protocol::Socks, reason);
            }
            return close_after(&mut client, &reply_bytes(reply)).await;
        }
    };
    match connect(state, &host, port, Protocol::Socks).await {
        Ok(mut upstream) => {
            if client
                .write_all(&reply_bytes(SocksReply::Succeeded))
                .await
                .is_ok()
            {
                tunnel::run(state, &client, &mut upstream, &host).await;
            }
        }
        Err(reason) => {
            let reply = if reason.is_failure() {
                SocksReply::HostUnreachable
            } else {
                SocksReply::NotAllowed
            };
            close_after(&mut client, &reply_bytes(reply)).await;
        }
    }
}

/// Answers a client of SOCKS 4 or 4a: "request rejected".
pub(super) async fn refuse_version_4(mut client: TcpStream) {
    close_after(&mut client, &[0, 91, 0, 0, 0, 0, 0, 0]).await;
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
        return Err(RequestError::Reply(SocksReply::GeneralFailure, None));
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
            return Err(RequestError::Reply(
                SocksReply::AddressTypeNotSupported,
                None,
            ));
        }
    };
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Err(RequestError::Reply(SocksReply::CommandNotSupported, None));
    }
    match host {
        Ok(host) => Ok((host, port)),
        Err(text) => {
            let subject = (escape(&text), port);
            Err(RequestError::Reply(SocksReply::NotAllowed, Some(subject)))
        }
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
