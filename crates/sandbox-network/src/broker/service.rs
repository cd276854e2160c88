//! The service of one command: its listeners, its open connections and its records.

use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::proxy_token::ProxyToken;
use super::record::{
    ConnectionEvent, ConnectionEventKind, ConnectionRecord, Protocol, Records, Refusal,
};
use super::{BrokerRuntime, Shared, forwarder, lock, proxy, resolver};
use crate::host::Host;

/// Time that open connections have to pass on their last bytes when a service is finished.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
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
    /// Listeners for clients that know no proxy: on any address for each port of
    /// [`HostRules::ports`](crate::HostRules::ports), and for the addresses of
    /// [`HostRules::addresses`](crate::HostRules::addresses). Without one for IPv6 the resolver
    /// gives no IPv6 addresses.
    pub forwarders: Vec<std::net::TcpListener>,
}

/// The report of a finished service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceReport {
    /// Connections and refused questions, in the order in which they began.
    pub connections: Vec<ConnectionRecord>,
    /// Records beyond the limit.
    pub omitted: u64,
    /// Connections that waited because too many were open.
    pub waited: u64,
    /// Questions that were not answered because the table of names is full.
    pub names_full: u64,
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
        let has_ipv6 = |listener: &std::net::TcpListener| {
            listener.local_addr().is_ok_and(|address| address.is_ipv6())
        };
        let state = Arc::new(ServiceContext {
            id: runtime.shared.next_service(),
            gives_ipv6: listeners.forwarders.iter().any(has_ipv6),
            proxy_token: listeners.proxy_token.clone(),
            shared: Arc::clone(&runtime.shared),
            handle: handle.clone(),
            records: Mutex::default(),
            tasks: Mutex::default(),
            stopping: watch::Sender::new(false),
            numbers: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            names_full: AtomicU64::new(0),
        });
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

    /// Ends the service and returns its records.
    ///
    /// Connections whose client has closed its side end at once; others have a fraction of a second
    /// to pass on their last bytes.
    #[must_use]
    pub fn finish(self) -> ServiceReport {
        self.end(DRAIN_TIMEOUT);
        let mut records = mem::take(&mut *lock(&self.state.records));
        records.list.sort_by_key(|record| record.number);
        ServiceReport {
            connections: records.list,
            omitted: records.omitted,
            waited: self.state.waited.load(Ordering::Relaxed),
            names_full: self.state.names_full.load(Ordering::Relaxed),
        }
    }

    /// Ends all tasks and waits for it, also on a thread of another runtime.
    fn end(&self, grace: Duration) {
        self.state.stopping.send_replace(true);
        let (ended, wait) = mpsc::channel();
        let state = Arc::clone(&self.state);
        self.state.handle.spawn(async move {
            state.end_tasks(grace).await;
            let _ = ended.send(());
        });
        let _ = wait.recv_timeout(END_TIMEOUT);
    }
}

impl Drop for BrokerService {
    fn drop(&mut self) {
        self.state.stopping.send_replace(true);
        if self.runtime.handle().is_some() {
            let state = Arc::clone(&self.state);
            self.state.handle.spawn(async move {
                state.end_tasks(Duration::ZERO).await;
            });
        }
    }
}

/// The state of a service, which its tasks share.
pub(super) struct ServiceContext {
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    /// `true` if names have IPv6 addresses too.
    pub(super) gives_ipv6: bool,
    pub(super) proxy_token: Option<ProxyToken>,
    handle: Handle,
    records: Mutex<Records>,
    tasks: Mutex<JoinSet<()>>,
    stopping: watch::Sender<bool>,
    numbers: AtomicU64,
    waited: AtomicU64,
    names_full: AtomicU64,
}

impl fmt::Debug for ServiceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceContext")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl ServiceContext {
    /// Returns the number of the next attempt.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs a task that ends with the service.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.handle);
    }

    /// Waits until the service is finished or dropped.
    pub(super) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender is part of `self`, so it does not end before.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Writes a record if it is complete, and tells the listener of events.
    pub(super) fn report(&self, kind: ConnectionEventKind, record: ConnectionRecord) {
        if kind != ConnectionEventKind::Opened {
            let limit = self.shared.options.limits.records;
            lock(&self.records).push(record.clone(), limit);
        }
        if let Some(listener) = &self.shared.options.on_event {
            listener(&ConnectionEvent { kind, record });
        }
    }

    /// Writes the record of a refused connection.
    pub(super) fn refuse(&self, host: String, port: u16, protocol: Protocol, reason: Refusal) {
        let mut record = ConnectionRecord::new(self, host, port, protocol);
        record.refuse(reason);
        self.report(ConnectionEventKind::Refused, record);
    }

    /// Writes the record of a refused question, once for each name.
    pub(super) fn refuse_name(&self, name: &crate::host::HostName, reason: Refusal) {
        let limit = self.shared.options.limits.records;
        if reason == Refusal::NamesFull {
            self.names_full.fetch_add(1, Ordering::Relaxed);
        }
        if lock(&self.records).is_first_refusal(name, limit) {
            self.refuse(name.to_string(), 0, Protocol::Dns, reason);
        }
    }

    /// Returns the lines that a refused client shows: the reason and the advice.
    pub(super) fn refusal_text(&self, host: &Host, port: u16, reason: &Refusal) -> String {
        let subject = host.with_port(port);
        if reason.is_failure() {
            return format!("{subject}: {reason}\n");
        }
        let line = format!("{subject} is refused: {reason}\n");
        let advised = match reason {
            Refusal::Unlisted | Refusal::Declined => Some(host.clone()),
            // The name has a rule; its address has none.
            Refusal::NotPublic { address, .. } => Some(Host::Address(*address)),
            // No rule that is added allows it.
            _ => None,
        };
        let advice = advised.map(|host| (self.shared.options.advice)(&host, port));
        match advice.filter(|advice| !advice.is_empty()) {
            Some(advice) => format!("{line}{advice}\n"),
            None => line,
        }
    }

    /// Ends all tasks: waits for a time, then aborts. Tasks may start others until they end.
    async fn end_tasks(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        loop {
            let mut tasks = mem::take(&mut *lock(&self.tasks));
            if tasks.is_empty() {
                return;
            }
            let all_ended = async { while tasks.join_next().await.is_some() {} };
            tokio::select! {
                () = all_ended => {}
                () = sleep_until(deadline) => {
                    tasks.shutdown().await;
                }
            }
        }
    }

    /// Waits for a place among the connections of the broker. `None` if the service ends before.
    async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let places = &self.shared.connections;
        if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
            return Some(permit);
        }
        self.waited.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            () = self.stopped() => None,
            permit = Arc::clone(places).acquire_owned() => permit.ok(),
        }
    }
}

#[derive(Clone, Copy)]
enum ListenerRole {
    Resolver,
    Proxy,
    Forwarder,
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
    let of_role = |list: Vec<std::net::TcpListener>, role| {
        list.into_iter().map(move |listener| tcp(listener, role))
    };
    let all = of_role(listeners.resolver_tcp, ListenerRole::Resolver)
        .chain(of_role(listeners.proxy, ListenerRole::Proxy))
        .chain(of_role(listeners.forwarders, ListenerRole::Forwarder));
    Ok(Registered {
        resolver: resolver.collect::<io::Result<_>>()?,
        listeners: all.collect::<io::Result<_>>()?,
    })
}

/// Accepts connections until the service ends. While too many are open, one is accepted and waits.
async fn accept(state: Arc<ServiceContext>, listener: TcpListener, role: ListenerRole) {
    loop {
        let accepted = tokio::select! {
            () = state.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(permit) = state.admit().await else {
            return;
        };
        let own = Arc::clone(&state);
        state.spawn(async move {
            let _permit = permit;
            serve(own, client, role).await;
        });
    }
}

async fn serve(state: Arc<ServiceContext>, client: TcpStream, role: ListenerRole) {
    // Small messages are passed on at once, as the client and the server sent them.
    let _ = client.set_nodelay(true);
    match role {
        ListenerRole::Resolver => resolver::serve_tcp(&state, client).await,
        ListenerRole::Proxy => proxy::serve(&state, client).await,
        ListenerRole::Forwarder => forwarder::serve(&state, client).await,
    }
}
