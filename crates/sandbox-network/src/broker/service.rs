//! The service of one command: its listeners, and its begin and end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};

use super::admission::{ListenerRole, admit};
use super::ask::{AskHost, Questions};
use super::context::ServiceContext;
use super::credential::{CredentialListener, TlsTermination};
use super::inbound::{InboundListener, InboundPort, InboundPorts};
use super::proxy_token::ProxyToken;
use super::record::ServiceReport;
use super::{BrokerRuntime, names, resolver};

/// Time that open connections have to pass on their last bytes when a service is finished.
/// They have it again while bytes of clients are passed on.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Time after which connections are cut off also if their bytes are still passed on.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// Time for the broker's threads to end all connections of a service. They need far less.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a listener could not accept, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Sockets in the network of one command, made by whoever set up that network.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The resolver's address, UDP.
    pub resolver: Vec<std::net::UdpSocket>,
    /// The resolver's address, TCP.
    pub resolver_tcp: Vec<std::net::TcpListener>,
    /// The proxy's address.
    pub proxy: Vec<std::net::TcpListener>,
    /// The token that clients of the proxy must show. `None` where only the program can reach it.
    pub proxy_token: Option<ProxyToken>,
    /// Asked about the hosts of this command that no rule names, in place of
    /// [`BrokerOptions::ask`](super::BrokerOptions::ask).
    pub ask: Option<Arc<dyn AskHost>>,
    /// Listeners for clients that know no proxy: on any address for each port of
    /// [`HostRules::ports`](crate::HostRules::ports), and for the addresses of
    /// [`HostRules::addresses`](crate::HostRules::addresses). Without one for IPv6 on
    /// any address the resolver gives no IPv6 addresses.
    pub forwarders: Vec<std::net::TcpListener>,
    /// Listeners for clients that show the placeholder of a key.
    pub credentials: Vec<CredentialListener>,
    /// The servers with TLS that the broker terminates, on every road to them.
    pub termination: Option<Arc<TlsTermination>>,
    /// Listeners outside of the program's network. Their clients reach a port of its loopback.
    pub inbound: Vec<InboundListener>,
}

/// Serves the listeners of one command. Dropping it ends its connections.
#[must_use = "a service that is dropped ends its connections"]
#[derive(Debug)]
pub struct BrokerService {
    runtime: Arc<BrokerRuntime>,
    state: Arc<ServiceContext>,
}

impl BrokerService {
    pub(super) fn start(
        runtime: Arc<BrokerRuntime>,
        listeners: Listeners,
    ) -> io::Result<BrokerService> {
        let handle = runtime.handle().cloned();
        let handle = handle.ok_or_else(|| io::Error::other("the broker has ended"))?;
        let gives_ipv6 = listeners.forwarders.iter().any(takes_synthetic_ipv6);
        let proxy_token = listeners.proxy_token.clone();
        let shared = Arc::clone(&runtime.shared);
        let asker = listeners.ask.clone().or_else(|| shared.options.ask.clone());
        let questions = Questions::new(asker);
        let handle_of = handle.clone();
        let state = Arc::new(ServiceContext::new(
            shared,
            handle_of,
            gives_ipv6,
            proxy_token,
            listeners.termination.clone(),
            questions,
        ));
        let registered = {
            let _entered = handle.enter();
            register(listeners)?
        };
        for socket in registered.resolver {
            state.spawn(resolver::serve_udp(Arc::clone(&state), socket));
        }
        for (listener, role) in registered.listeners {
            state.spawn(accept(Arc::clone(&state), listener, role));
        }
        Ok(BrokerService { runtime, state })
    }

    /// Returns the number of this service, which its records have.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.state.id
    }

    /// Returns the way to open listeners outside while the service runs.
    #[must_use]
    pub fn inbound_ports(&self) -> InboundPorts {
        InboundPorts(Arc::downgrade(&self.state))
    }

    /// Ends the service and returns its records.
    ///
    /// Connections whose client has closed its side end at once, those of clients outside when the
    /// server has; others have a fraction of a second
    /// to pass on their last bytes, and seconds if a slow server takes them. Both sides of a
    /// connection that is cut off see a reset and not an end.
    #[must_use]
    pub fn finish(self) -> ServiceReport {
        self.end(DRAIN_TIMEOUT, DRAIN_LIMIT);
        self.state.take_report()
    }

    /// Ends all tasks and waits for it, also on a thread of another runtime.
    fn end(&self, grace: Duration, limit: Duration) {
        self.state.stop();
        let (ended, wait) = mpsc::channel();
        let state = Arc::clone(&self.state);
        self.state.handle().spawn(async move {
            state.end_tasks(grace, limit).await;
            let _ = ended.send(());
        });
        let _ = wait.recv_timeout(END_TIMEOUT);
    }
}

impl Drop for BrokerService {
    fn drop(&mut self) {
        self.state.stop();
        if self.runtime.handle().is_some() {
            let state = Arc::clone(&self.state);
            self.state.handle().spawn(async move {
                state.end_tasks(Duration::ZERO, Duration::ZERO).await;
            });
        }
    }
}

/// `true` if connections to synthetic IPv6 addresses arrive at a listener. One for `[::1]` alone does
/// not take them.
fn takes_synthetic_ipv6(listener: &std::net::TcpListener) -> bool {
    let Ok(SocketAddr::V6(address)) = listener.local_addr() else {
        return false;
    };
    address.ip().is_unspecified() || names::is_synthetic((*address.ip()).into())
}

struct Registered {
    resolver: Vec<UdpSocket>,
    listeners: Vec<(TcpListener, ListenerRole)>,
}

/// Registers the sockets with the runtime that is entered.
fn register(listeners: Listeners) -> io::Result<Registered> {
    let udp = |socket: std::net::UdpSocket| {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket)
    };
    let tcp = |listener: std::net::TcpListener, role: ListenerRole| {
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>((TcpListener::from_std(listener)?, role))
    };
    let resolver = listeners.resolver.into_iter().map(udp);
    let of_role = |list: Vec<std::net::TcpListener>, role: ListenerRole| {
        list.into_iter()
            .map(move |listener| tcp(listener, role.clone()))
    };
    let inbound = listeners.inbound.into_iter().map(|one| {
        let target = Arc::new(InboundPort::new(one.port, one.sockets));
        tcp(one.listener, ListenerRole::Inbound(target))
    });
    let all = of_role(listeners.resolver_tcp, ListenerRole::Resolver)
        .chain(of_role(listeners.proxy, ListenerRole::Proxy))
        .chain(of_role(listeners.forwarders, ListenerRole::Forwarder));
    let credentials = listeners.credentials.into_iter();
    let all = all
        .chain(credentials.map(|one| tcp(one.listener, ListenerRole::Credential(one.server))))
        .chain(inbound);
    Ok(Registered {
        resolver: resolver.collect::<io::Result<_>>()?,
        listeners: all.collect::<io::Result<_>>()?,
    })
}

/// Accepts connections until the service ends.
pub(super) async fn accept(state: Arc<ServiceContext>, listener: TcpListener, role: ListenerRole) {
    loop {
        let accepted = tokio::select! {
            () = state.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, _)) => admit(&state, client, role.clone()),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
