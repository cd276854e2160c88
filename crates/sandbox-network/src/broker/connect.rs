//! The one road of a connection: decide, resolve, check the addresses, connect to a checked one.

mod parent;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::context::{OpenConnection, ServiceContext};
use super::record::{ConnectionEventKind, ConnectionRecord, Protocol, Refusal, shown};
use super::resolve::resolve;
use crate::host::Host;
use crate::pattern::LOOPBACK;

pub use parent::ParentProxy;

/// A connection to a host that the rules allow.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) stream: TcpStream,
    /// Bytes that the host sent while the connection was made.
    pub(super) early: Vec<u8>,
    pub(super) connection: OpenConnection,
}

/// Connects to a host. A refusal has been recorded when it is returned.
pub(super) async fn connect(
    state: &Arc<ServiceContext>,
    host: &Host,
    port: u16,
    protocol: Protocol,
) -> Result<Upstream, Refusal> {
    let mut record = state.new_record(shown(host), port, protocol);
    match reach(state, host, port, &mut record).await {
        Ok((stream, early)) => Ok(Upstream {
            stream,
            early,
            connection: OpenConnection::new(Arc::clone(state), record),
        }),
        Err(reason) => {
            record.refuse(reason.clone());
            state.report(ConnectionEventKind::Refused, record);
            Err(reason)
        }
    }
}

async fn reach(
    state: &ServiceContext,
    host: &Host,
    port: u16,
    record: &mut ConnectionRecord,
) -> Result<(TcpStream, Vec<u8>), Refusal> {
    let shared = &state.shared;
    record.rule = Some(shared.decide(host, port).await?);
    if let Some(parent) = &shared.options.parent
        && parent.carries(host, port)
    {
        record.through_parent = true;
        let (stream, early) = parent::connect(shared, parent, host, port).await?;
        record.address = peer(&stream);
        return Ok((stream, early));
    }
    let addresses = checked_addresses(state, host, port).await?;
    let stream = connect_any(&shared.options.limits, &addresses)
        .await
        .map_err(|error| Refusal::Unreachable(error.to_string()))?;
    record.address = peer(&stream);
    Ok((stream, Vec::new()))
}

/// Returns the addresses of a host that may be connected. The refusal is that of the first address
/// if there is none.
async fn checked_addresses(
    state: &ServiceContext,
    host: &Host,
    port: u16,
) -> Result<Vec<SocketAddr>, Refusal> {
    let shared = &state.shared;
    let name = match host {
        // The rule that allowed it names this very address.
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, port)]),
        Host::Name(name) => name,
    };
    // What allowed `localhost` allowed its addresses.
    let is_loopback = name.as_str() == "localhost";
    let answers = if is_loopback {
        LOOPBACK.to_vec()
    } else {
        resolve(shared, name).await?
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
pub(super) async fn connect_any(
    limits: &super::BrokerLimits,
    addresses: &[SocketAddr],
) -> io::Result<TcpStream> {
    let late = |address: &SocketAddr| {
        let why = format!("{} does not answer", address.ip());
        io::Error::new(io::ErrorKind::TimedOut, why)
    };
    let in_turn = async {
        let mut first = None;
        for address in addresses {
            let connected = timeout(limits.connect_timeout, TcpStream::connect(address)).await;
            match connected.unwrap_or_else(|_| Err(late(address))) {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| io::Error::other("it has no address")))
    };
    match timeout(limits.connect_total_timeout, in_turn).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "none of its addresses answers",
        )),
    }
}

fn peer(stream: &TcpStream) -> Option<std::net::IpAddr> {
    stream.peer_addr().ok().map(|address| address.ip())
}
