//! The network broker: decides about hosts by name and connects confined programs to them.
//!
//! [`Broker::serve`] takes the listeners of one command. Every connection takes one road: the host
//! is decided, resolved outside, its addresses are checked, the broker connects to an address that
//! it has checked, bytes are copied, a record is written. Nothing is resolved twice.

mod admission;
mod answer_budget;
mod ask;
mod connect;
mod context;
mod credential;
mod fair_semaphore;
mod forwarder;
mod http;
mod inbound;
mod names;
mod options;
mod proxy;
mod proxy_token;
mod record;
mod resolve;
mod resolver;
mod service;
mod tunnel;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::address::AddressClass;
use crate::host::{Host, HostName};
use crate::pattern::HostPattern;
use crate::rules::{Decision, HostRules};
use ask::BrokerAnswers;
use fair_semaphore::FairSemaphore;

pub use ask::{AskHost, HostAnswer};
pub use connect::ParentProxy;
pub use credential::{
    CredentialListener, CredentialServer, HeaderCredential, InvalidCredential, TlsTermination,
};
pub use inbound::{ConfinedSockets, InboundListener, InboundPorts, InboundTime};
pub use options::{BrokerLimits, BrokerOptions, EventListener, HostAdvice};
pub use proxy_token::ProxyToken;
pub use record::{
    AllowedBy, ConnectionEvent, ConnectionEventKind, ConnectionRecord, ConnectionTotal,
    ConnectionVerdict, Protocol, Refusal, ServiceReport, TlsName,
};
pub use resolve::{Resolve, SystemResolver};
pub use service::{BrokerService, Listeners};

/// A network broker, with threads of its own. Clones share one broker.
///
/// The caller may be synchronous or inside another runtime. The broker's threads end when the last
/// clone and the last [`BrokerService`] are dropped.
///
/// ```no_run
/// use sandbox_network::{Broker, BrokerOptions, HostPattern, HostRules, Listeners};
///
/// let rules = HostRules::new([HostPattern::parse("example.com")?], []);
/// let broker = Broker::new(rules, BrokerOptions::default())?;
/// // Made in the network namespace of a command, and handed out of it.
/// let listeners = Listeners {
///     proxy: vec![std::net::TcpListener::bind("127.0.0.1:3128")?],
///     ..Listeners::default()
/// };
/// let service = broker.serve(listeners)?;
/// // … the command runs …
/// for record in service.finish().connections {
///     println!("{}:{} {:?}", record.host, record.port, record.verdict);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Broker {
    runtime: Arc<BrokerRuntime>,
}

impl Broker {
    /// Starts the broker's threads.
    ///
    /// # Errors
    /// The system does not give it threads.
    pub fn new(rules: HostRules, options: BrokerOptions) -> io::Result<Broker> {
        let limits = &options.limits;
        let runtime = Builder::new_multi_thread()
            .worker_threads(limits.threads.max(1))
            // Each resolution is one call of `getaddrinfo`.
            .max_blocking_threads(limits.resolutions.max(1))
            .thread_name("network-broker")
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            rules: RwLock::new(rules),
            names: Arc::default(),
            answers: BrokerAnswers::default(),
            connections: FairSemaphore::new(limits.connections, limits.service_connections),
            waiting: FairSemaphore::new(limits.waiting, limits.service_waiting),
            refusing: FairSemaphore::new(limits.waiting, limits.service_waiting),
            attempts: FairSemaphore::new(limits.attempts, limits.attempts),
            resolutions: FairSemaphore::new(limits.resolutions, limits.service_resolutions),
            services: AtomicU64::new(0),
            options,
        });
        Ok(Broker {
            runtime: Arc::new(BrokerRuntime {
                runtime: Some(runtime),
                shared,
            }),
        })
    }

    /// Serves the listeners of one command until the service is finished or dropped.
    ///
    /// # Errors
    /// A listener cannot be registered with the broker's threads.
    pub fn serve(&self, listeners: Listeners) -> io::Result<BrokerService> {
        BrokerService::start(Arc::clone(&self.runtime), listeners)
    }

    /// Allows another pattern for as long as the broker lives. Deny rules still come first.
    pub fn allow(&self, pattern: HostPattern) {
        self.runtime.shared.allow(pattern);
    }

    /// Returns the rules as they are now.
    #[must_use]
    pub fn rules(&self) -> HostRules {
        read(&self.runtime.shared.rules).clone()
    }
}

/// The broker's threads. Dropped last, also inside another runtime: it never waits.
#[derive(Debug)]
struct BrokerRuntime {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
}

impl BrokerRuntime {
    fn handle(&self) -> Option<&Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }
}

impl Drop for BrokerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The state of all services of a broker.
#[derive(Debug)]
struct Shared {
    rules: RwLock<HostRules>,
    /// Names in the tables of all services.
    names: Arc<AtomicUsize>,
    /// Answers of people that count for all services.
    answers: BrokerAnswers,
    connections: Arc<FairSemaphore>,
    /// Clients that wait for a place among the connections.
    waiting: Arc<FairSemaphore>,
    /// Clients that are being refused because too many wait.
    refusing: Arc<FairSemaphore>,
    /// Attempts to connect beside another one of the same connection.
    attempts: Arc<FairSemaphore>,
    resolutions: Arc<FairSemaphore>,
    services: AtomicU64,
    options: BrokerOptions,
}

impl Shared {
    fn allow(&self, pattern: HostPattern) {
        self.rules
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .allow(pattern);
    }

    fn next_service(&self) -> u64 {
        self.services.fetch_add(1, Ordering::Relaxed)
    }

    fn decide_name(&self, name: &HostName) -> Decision {
        read(&self.rules).decide_name(name)
    }

    fn decide(&self, host: &Host, port: u16) -> Decision {
        read(&self.rules).decide(host, port)
    }

    /// Returns the parent proxy if the host is reached through it.
    fn parent_of(&self, host: &Host, port: u16) -> Option<&ParentProxy> {
        let parent = self.options.parent.as_ref();
        parent.filter(|parent| parent.carries(host, port))
    }

    /// `true` for names of private networks that a parent proxy would resolve.
    fn is_private_behind_parent(&self, host: &Host, port: u16) -> bool {
        host.as_name().is_some_and(HostName::is_private) && self.parent_of(host, port).is_some()
    }

    /// `true` if a rule denies a host after its connection was allowed.
    fn is_denied(&self, host: &Host, port: u16) -> bool {
        matches!(self.decide(host, port), Decision::Denied(_))
    }

    /// Checks an address against the deny rules alone.
    fn check_denied(&self, address: IpAddr, port: u16) -> Result<(), Refusal> {
        match read(&self.rules).denied_address(address, port) {
            Some(rule) => Err(Refusal::AddressDenied {
                address,
                rule: rule.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Checks an address that a name resolved to.
    fn check_address(&self, address: IpAddr, port: u16) -> Result<(), Refusal> {
        self.check_denied(address, port)?;
        let is_named = || read(&self.rules).names_address(address, port);
        match (self.options.class_of)(address) {
            AddressClass::Public => Ok(()),
            _ if is_named() => Ok(()),
            class => Err(Refusal::NotPublic { address, class }),
        }
    }
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
