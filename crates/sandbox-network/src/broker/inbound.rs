//! The entry for clients outside: a listener of theirs leads to a port of the confined program's own
//! loopback, and to nothing else. The program gets connections this way and makes none.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::admission::ListenerRole;
use super::connect::Admission;
use super::context::{ServiceContext, TrackedConnection};
use super::record::{Protocol, Refusal};
use super::{service, tunnel};

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
    /// Notified when a connection with bytes in both directions has ended.
    pub(super) answered: Notify,
}

impl InboundPort {
    pub(super) fn new(port: u16, sockets: Arc<dyn ConfinedSockets>) -> InboundPort {
        InboundPort {
            port,
            sockets,
            answered: Notify::new(),
        }
    }
}

/// The time for which listeners outside are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundTime {
    /// After this time they close in any case. Connections go on.
    pub limit: Duration,
    /// They close so long after a client got an answer and its connection ended.
    pub after_answer: Duration,
}

/// Opens listeners outside while a service runs. It does not keep the service.
#[derive(Clone, Debug)]
pub struct InboundPorts(pub(super) Weak<ServiceContext>);

impl InboundPorts {
    /// Connects the clients of listeners, for some time at most, with one port of the program.
    ///
    /// # Errors
    /// The service has ended, or a listener cannot be registered with the broker's threads.
    pub fn open(
        &self,
        listeners: Vec<std::net::TcpListener>,
        port: u16,
        sockets: Arc<dyn ConfinedSockets>,
        time: InboundTime,
    ) -> io::Result<()> {
        let ended = || io::Error::other("the program has ended");
        let state = self.0.upgrade().ok_or_else(ended)?;
        let target = Arc::new(InboundPort::new(port, sockets));
        let _entered = state.handle().enter();
        let registered = listeners.into_iter().map(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let registered: Vec<TcpListener> = registered.collect::<io::Result<_>>()?;
        state.spawn(accept_for(Arc::clone(&state), registered, target, time));
        Ok(())
    }
}

/// Accepts clients of all listeners until their time is over or the service ends.
async fn accept_for(
    state: Arc<ServiceContext>,
    listeners: Vec<TcpListener>,
    target: Arc<InboundPort>,
    time: InboundTime,
) {
    let role = ListenerRole::Inbound(Arc::clone(&target));
    let all = listeners.into_iter();
    let mut accepting = JoinSet::new();
    for listener in all {
        accepting.spawn(service::accept(Arc::clone(&state), listener, role.clone()));
    }
    tokio::select! {
        () = state.stopped() => {}
        () = tokio::time::sleep(time.limit) => {}
        () = async {
            target.answered.notified().await;
            tokio::time::sleep(time.after_answer).await;
        } => {}
    }
    accepting.shutdown().await;
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
            if connection.counters.sent() > 0 && connection.counters.received() > 0 {
                target.answered.notify_one();
            }
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
