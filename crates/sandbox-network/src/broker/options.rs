//! Settings of a broker, and every bound on its work.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::ask::AskHost;
use super::connect::{ParentProxy, class_of};
use super::record::ConnectionEvent;
use super::resolve::{Resolve, SystemResolver};
use crate::address::AddressClass;
use crate::host::Host;

/// Returns the sentence that tells a client's user how to allow a host and port.
pub type HostAdvice = dyn Fn(&Host, u16) -> String + Send + Sync;

/// Called with every event of a broker.
pub type EventListener = dyn Fn(&ConnectionEvent) + Send + Sync;

/// Settings of a [`Broker`](super::Broker).
///
/// ```
/// use sandbox_network::BrokerOptions;
/// use std::sync::Arc;
/// let mut options = BrokerOptions::default();
/// options.advice = Arc::new(|host, port| format!("run `allow {}`", host.with_port(port)));
/// options.limits.connections = 64;
/// ```
#[derive(Clone)]
pub struct BrokerOptions {
    /// Returns the sentence that tells a client's user how to allow a host.
    pub advice: Arc<HostAdvice>,
    /// Called when a connection is opened, refused and closed, on a thread of the broker: it must
    /// not wait.
    pub on_event: Option<Arc<EventListener>>,
    /// Asked about hosts that no rule names, for services without an asker of their own
    /// ([`Listeners::ask`](super::Listeners::ask)). `None`: they are refused at once.
    pub ask: Option<Arc<dyn AskHost>>,
    /// The proxy through which hosts with names are reached.
    pub parent: Option<ParentProxy>,
    /// Resolves names outside of the confined network.
    pub resolve: Arc<dyn Resolve>,
    /// The bounds.
    pub limits: BrokerLimits,
    pub(super) class_of: fn(IpAddr) -> AddressClass,
}

impl BrokerOptions {
    /// Replaces the classes of addresses, for tests whose servers are local.
    #[doc(hidden)]
    #[must_use]
    pub fn with_classes_for_tests(mut self, class_of: fn(IpAddr) -> AddressClass) -> Self {
        self.class_of = class_of;
        self
    }
}

impl Default for BrokerOptions {
    fn default() -> BrokerOptions {
        BrokerOptions {
            advice: Arc::new(|_, _| String::new()),
            on_event: None,
            ask: None,
            parent: None,
            resolve: Arc::new(SystemResolver),
            limits: BrokerLimits::default(),
            class_of,
        }
    }
}

impl fmt::Debug for BrokerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerOptions")
            .field("asks", &self.ask.is_some())
            .field("parent", &self.parent)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The bounds of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerLimits {
    /// Connections of all services at once; further ones wait. A service gets a place while it
    /// has no more than are free, so that others find some. 4 096.
    pub connections: usize,
    /// Connections of one service at once. 1 024.
    pub service_connections: usize,
    /// Clients of all services that wait for a place among the connections. Further ones are refused
    /// at once. 256.
    pub waiting: usize,
    /// Clients of one service that wait. 64.
    pub service_waiting: usize,
    /// Time after which a client that waits is refused. 10 s.
    pub place_timeout: Duration,
    /// Attempts to connect beside another one of the same connection, where a host has several
    /// addresses. Without a free one, the addresses are tried one after the other. 1 024.
    pub attempts: usize,
    /// Names of one service that have an address of their own. All services together have four times
    /// as many. 65 536, which is also the most.
    pub names: usize,
    /// Records of connections in the report of a service, and as many of refusals and failures.
    /// Further ones are counted. 10 000.
    pub records: usize,
    /// Names of all services that are being resolved, each on a thread. Further ones wait. Services
    /// share them as they share connections. 64.
    pub resolutions: usize,
    /// Names of one service that are being resolved. 16.
    pub service_resolutions: usize,
    /// Time to wait for a resolution, and for its turn. 20 s.
    pub resolve_timeout: Duration,
    /// Time for a client to send its first message: a request's head, a SOCKS greeting, a TLS hello.
    /// 30 s.
    pub handshake_timeout: Duration,
    /// Time to connect to one address. 10 s.
    pub connect_timeout: Duration,
    /// Time to connect to all addresses of a host. 30 s.
    pub connect_total_timeout: Duration,
    /// Threads that copy bytes. 2.
    pub threads: usize,
}

impl BrokerLimits {
    /// Lowers the bounds so that the clients and connections of a broker have at most so many
    /// descriptors.
    ///
    /// ```
    /// use sandbox_network::BrokerLimits;
    /// let limits = BrokerLimits::default().within_descriptors(624);
    /// assert_eq!((limits.connections, limits.waiting, limits.attempts), (195, 78, 78));
    /// ```
    #[must_use]
    pub fn within_descriptors(mut self, descriptors: usize) -> BrokerLimits {
        self.waiting = self.waiting.min(descriptors / 8).max(1);
        self.attempts = self.attempts.min(descriptors / 8).max(1);
        // As many clients can be refused while others wait, and a connection has two descriptors.
        let left = descriptors.saturating_sub(2 * self.waiting + self.attempts);
        self.connections = self.connections.min(left / 2).max(1);
        self
    }
}

impl Default for BrokerLimits {
    fn default() -> BrokerLimits {
        BrokerLimits {
            connections: 4096,
            service_connections: 1024,
            waiting: 256,
            service_waiting: 64,
            place_timeout: Duration::from_secs(10),
            attempts: 1024,
            names: super::names::MAX_NAMES,
            records: 10_000,
            resolutions: 64,
            service_resolutions: 16,
            resolve_timeout: Duration::from_secs(20),
            handshake_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            connect_total_timeout: Duration::from_secs(30),
            threads: 2,
        }
    }
}
