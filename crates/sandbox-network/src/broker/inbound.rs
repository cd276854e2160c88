//! The entry for clients outside: a listener of theirs leads to a port of the confined program's own
//! loopback, and to nothing else. The program gets connections this way and makes none.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::connect::Admission;
use super::context::{ServiceContext, TrackedConnection};
use super::record::{Protocol, Refusal};
use super::tunnel;

/// Makes sockets in the network of a confined program.
pub trait ConfinedSockets: fmt::Debug + Send + Sync {
    /// Makes a TCP socket that is neither bound nor connected. Called on a thread that may wait.
    ///
    /// # Errors
    /// The network is gone, or the system does not give it the socket.
    fn make_socket(&self, is_v6: bool) -> io::Result<OwnedFd>;
}

/// A listener outside. Its clients are connected to a port of the program's loopback.
#[derive(Debug)]
pub struct InboundListener {
    /// The listener.
    pub listener: std::net::TcpListener,
    /// The port inside.
    pub port: u16,
    /// The sockets that are connected to it.
    pub sockets: Arc<dyn ConfinedSockets>,
}

/// The port that the clients of a listener reach.
#[derive(Debug)]
pub(super) struct InboundPort {
    pub(super) port: u16,
    pub(super) sockets: Arc<dyn ConfinedSockets>,
}

/// Connects a client. One that cannot be connected sees a reset at once.
pub(super) async fn serve(
    state: &Arc<ServiceContext>,
    client: TcpStream,
    target: &InboundPort,
    admission: Admission,
) {
    let Ok(address) = client.local_addr() else {
        return;
    };
    let host = address.ip().to_string();
    let mut connection = TrackedConnection::new(state, host, target.port, Protocol::Inbound);
    let reached = match admission {
        Admission::Granted => connect(state, target, address.ip()).await,
        Admission::Refused => Err(Refusal::TooManyConnections),
    };
    match reached {
        Ok(server) => {
            connection.record.address = server.peer_addr().ok().map(|peer| peer.ip());
            connection.open();
            tunnel::run_inbound(state, &client, &server, &connection.counters).await;
        }
        Err(reason) => {
            connection.refuse(reason);
            tunnel::reset(&client);
        }
    }
}

/// Connects to the port on the loopback address of the client's family, or else on the other one.
async fn connect(
    state: &ServiceContext,
    target: &InboundPort,
    used: IpAddr,
) -> Result<TcpStream, Refusal> {
    let mut addresses = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    if used.is_ipv6() {
        addresses.reverse();
    }
    let limit = state.shared.options.limits.connect_timeout;
    let mut first_error = None;
    for ip in addresses {
        let attempt = attempt(target, SocketAddr::new(ip, target.port));
        let error = match timeout(limit, attempt).await {
            Ok(Ok(server)) => return Ok(server),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the program does not accept the connection".to_owned(),
        };
        first_error = first_error.or(Some(error));
    }
    Err(Refusal::Unreachable(first_error.unwrap_or_default()))
}

async fn attempt(target: &InboundPort, address: SocketAddr) -> io::Result<TcpStream> {
    let sockets = Arc::clone(&target.sockets);
    let made = tokio::task::spawn_blocking(move || sockets.make_socket(address.is_ipv6()));
    let socket = std::net::TcpStream::from(made.await.map_err(io::Error::other)??);
    socket.set_nonblocking(true)?;
    let server = TcpSocket::from_std_stream(socket).connect(address).await?;
    // Without a listener, a socket connects to itself if the system chose this port as its own.
    if server.local_addr()? == address {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let _ = server.set_nodelay(true);
    Ok(server)
}
