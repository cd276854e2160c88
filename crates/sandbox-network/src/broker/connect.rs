//! The one road of a connection: decide, resolve, check the addresses, connect to a checked one.

mod own_address;
mod parent;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::context::{ServiceContext, TrackedConnection};
use super::record::{ConnectionRecord, Protocol, Refusal, shown};
use super::resolve::resolve;
use crate::host::Host;
use crate::pattern::LOOPBACK;

pub(super) use own_address::class_of;
pub use parent::ParentProxy;

/// Time after which the next address is tried too (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Idle time of a connection after which the system asks whether the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Permission to connect to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The client has a place.
    Granted,
    /// Every request of the client is refused.
    Refused,
}

/// A connection to a host that the rules allow.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) stream: TcpStream,
    /// Bytes that the host sent while the connection was made.
    pub(super) early: Vec<u8>,
    pub(super) connection: TrackedConnection,
}

/// Connects to a host. A refusal has been recorded when it is returned, and an attempt whose future
/// is dropped as well.
pub(super) async fn connect(
    state: &Arc<ServiceContext>,
    admission: Admission,
    host: &Host,
    port: u16,
    protocol: Protocol,
) -> Result<Upstream, Refusal> {
    let mut connection = TrackedConnection::new(state, shown(host), port, protocol);
    let reached = match admission {
        Admission::Granted => reach(state, host, port, &mut connection.record).await,
        Admission::Refused => Err(Refusal::TooManyConnections),
    };
    match reached {
        Ok((stream, early)) => {
            connection.open();
            Ok(Upstream {
                stream,
                early,
                connection,
            })
        }
        Err(reason) => {
            connection.refuse(reason.clone());
            Err(reason)
        }
    }
}

async fn reach(
    state: &Arc<ServiceContext>,
    host: &Host,
    port: u16,
    record: &mut ConnectionRecord,
) -> Result<(TcpStream, Vec<u8>), Refusal> {
    let shared = &state.shared;
    state.decide(host, port, record).await?;
    if shared.is_private_behind_parent(host, port) {
        return Err(Refusal::PrivateName);
    }
    if let Some(parent) = shared.parent_of(host, port) {
        record.through_parent = true;
        let (stream, early) = parent::connect(state, parent, host, port).await?;
        record.address = peer(&stream);
        return Ok((stream, early));
    }
    let addresses = checked_addresses(state, host, port).await?;
    let stream = connect_any(state, &addresses)
        .await
        .map_err(|error| Refusal::Unreachable(error.to_string()))?;
    record.address = peer(&stream);
    Ok((stream, Vec::new()))
}

/// Returns the addresses of a host that may be connected. The refusal is that of the first address
/// if there is none.
async fn checked_addresses(
    state: &Arc<ServiceContext>,
    host: &Host,
    port: u16,
) -> Result<Vec<SocketAddr>, Refusal> {
    let shared = &state.shared;
    let name = match host {
        // The rule that allowed it names this very address.
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, port)]),
        Host::Name(name) => name,
    };
    // A rule for `localhost` is one for the loopback addresses.
    let is_loopback = name.as_str() == "localhost";
    let answers = if is_loopback {
        LOOPBACK.to_vec()
    } else {
        resolve(state, name).await?
    };
    let mut checked = Vec::new();
    let mut refused = None;
    for address in answers {
        let judged = if is_loopback {
            shared.check_denied(address, port)
        } else {
            shared.check_address(address, port)
        };
        match judged {
            Ok(()) => checked.push(SocketAddr::new(address, port)),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match refused {
        Some(reason) if checked.is_empty() => Err(reason),
        _ => Ok(checked),
    }
}

/// Connects to the first address that answers, within the time limits for one and for all.
///
/// An attempt that does not answer soon does not hold up the next one (RFC 8305), so that a host with
/// a broken address is reached by its others.
pub(super) async fn connect_any(
    state: &ServiceContext,
    addresses: &[SocketAddr],
) -> io::Result<TcpStream> {
    let limits = &state.shared.options.limits;
    let attempts = attempt_in_turn(state, limits.connect_timeout, addresses);
    match timeout(limits.connect_total_timeout, attempts).await {
        Ok(connected) => connected,
        Err(_) => Err(timed_out("none of its addresses answers".to_owned())),
    }
}

/// Begins an attempt when the one before fails or [`ATTEMPT_DELAY`] has passed. The first success
/// ends the others; without one, the error is the first. An attempt beside others needs a permit;
/// without one, it waits for another to fail or for the next delay.
async fn attempt_in_turn(
    state: &ServiceContext,
    limit: Duration,
    addresses: &[SocketAddr],
) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.iter();
    let mut first_error = None;
    loop {
        let beside = match attempts.is_empty() {
            true => None,
            false => state.shared.attempts.try_acquire(state.id),
        };
        if waiting.len() > 0 && (attempts.is_empty() || beside.is_some()) {
            if let Some(address) = waiting.next().copied() {
                attempts.spawn(async move {
                    let _beside = beside;
                    attempt(limit, address).await
                });
            }
        } else if waiting.len() == 0 && attempts.is_empty() {
            return Err(first_error.unwrap_or_else(|| io::Error::other("it has no address")));
        }
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                Err(failed) => first_error = first_error.or(Some(io::Error::other(failed))),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

async fn attempt(limit: Duration, address: SocketAddr) -> io::Result<TcpStream> {
    let connected = timeout(limit, TcpStream::connect(address)).await;
    let late = |_| timed_out(format!("{} does not answer", address.ip()));
    let stream = connected.map_err(late)??;
    let _ = stream.set_nodelay(true);
    // An idle tunnel has no time limit, so a server that has vanished is found out otherwise.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    Ok(stream)
}

fn timed_out(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn peer(stream: &TcpStream) -> Option<std::net::IpAddr> {
    stream.peer_addr().ok().map(|address| address.ip())
}
