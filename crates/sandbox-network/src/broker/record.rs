//! Records of connections and refusals, and the events that carry them to an audit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::ask::HostAnswer;
use crate::address::AddressClass;
use crate::host::Host;
use crate::pattern::HostPattern;

/// The protocol by which a client named a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// A question of the domain name system.
    Dns,
    /// The CONNECT method of HTTP.
    Connect,
    /// A request for an `http:` URL.
    Http,
    /// SOCKS 5.
    Socks,
    /// A plain connection to an address that stands for a name.
    Transparent,
    /// A request with the placeholder of a key.
    Credential,
    /// A connection of a client outside to a port of the program. The host is the address that the
    /// client used.
    Inbound,
}

/// The outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionVerdict {
    /// The broker connected the client.
    Allowed,
    /// The broker refused, or ended the connection because of the client's first bytes.
    Refused,
    /// The rules do not refuse the host, but the broker could not connect to it.
    Failed,
}

/// The name in the client's TLS hello, compared with the host that it connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsName {
    /// The client does not begin with TLS.
    NotTls,
    /// The name is the host.
    Matching,
    /// TLS without a name, or with encrypted parts that can hold another one (ECH).
    NotSeen,
    /// The client named the host by its address, so nothing is compared.
    NotCompared,
}

/// The reason of a refusal or failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A pattern of the deny list names the host.
    #[error("the rule `{0}` denies it")]
    Denied(HostPattern),
    /// No pattern names the host.
    #[error("no rule names it")]
    Unlisted,
    /// A person was asked and declined.
    #[error("access was declined")]
    Declined,
    /// A person was asked and did not answer.
    #[error("no rule names it, and the question about it was not answered")]
    Unanswered,
    /// Too many questions about the command were asked, or too many of its connections wait.
    #[error("no rule names it, and the command asks about too many hosts")]
    TooManyQuestions,
    /// The name resolves to addresses that are not public.
    #[error("it resolves to {address}, {class}, which no rule names with this port")]
    NotPublic {
        /// The first such address.
        address: IpAddr,
        /// Its class.
        class: AddressClass,
    },
    /// The name resolves to an address that is denied.
    #[error("it resolves to {address}, which the rule `{rule}` denies")]
    AddressDenied {
        /// The first such address.
        address: IpAddr,
        /// The pattern of the deny list.
        rule: HostPattern,
    },
    /// The name is one of private networks, and a parent proxy would resolve it.
    #[error(
        "it is a name of a private network, whose address cannot be checked behind the parent proxy"
    )]
    PrivateName,
    /// The name cannot be resolved.
    #[error("cannot resolve the name: {0}")]
    Unresolved(String),
    /// No address of the host can be connected.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Too many connections are open, and too many clients wait or have waited for too long.
    #[error("too many connections are open")]
    TooManyConnections,
    /// The client or the service ended while the broker was connecting.
    #[error("it ended before it was connected")]
    Interrupted,
    /// The TLS hello names another host.
    #[error("TLS asks for `{0}` on a connection to another host")]
    OtherTlsName(String),
    /// The TLS hello cannot be read.
    #[error("invalid TLS hello: {0}")]
    InvalidHello(&'static str),
    /// An HTTP request names another host.
    #[error("HTTP asks for `{0}` on a connection to another host")]
    OtherHttpHost(String),
    /// The head of an HTTP request cannot be read in one way only.
    #[error("invalid HTTP request: {0}")]
    InvalidHttp(&'static str),
    /// A synthetic address that no name has.
    #[error("no name has this address")]
    UnassignedAddress,
    /// The client's request is not valid.
    #[error("invalid request: {0}")]
    Malformed(String),
    /// The client of a proxy with a token did not show it.
    #[error("the client did not authenticate")]
    Unauthenticated,
    /// The client of a server with a key did not show the placeholder.
    #[error("the request does not show the placeholder of the key, or a key of its own")]
    NoPlaceholder,
    /// The client of a server with TLS that the broker terminates does not complete the handshake.
    #[error("the program did not complete TLS with forge: {0}")]
    TlsIncomplete(String),
    /// The table of names is full.
    #[error("too many names have been resolved")]
    NamesFull,
}

impl Refusal {
    /// `true` if the broker could not connect, rather than would not.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Refusal::Unresolved(_)
                | Refusal::Unreachable(_)
                | Refusal::TooManyConnections
                | Refusal::Interrupted
                | Refusal::NamesFull
        )
    }
}

/// A connection, or a refused question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionRecord {
    /// The service ([`BrokerService::id`](super::BrokerService::id)), one for each command.
    pub service: u64,
    /// The number of this attempt within its service. The events of one connection have the same.
    pub number: u64,
    /// The host as the client named it; with escapes if it is not a valid host.
    pub host: String,
    /// The port. 0 for a question of the domain name system, which has none.
    pub port: u16,
    /// The address that the broker connected to; of a parent proxy, if there is one. Of a refusal
    /// because of an address, that one.
    pub address: Option<IpAddr>,
    /// The protocol by which the client named the host.
    pub protocol: Protocol,
    /// Bytes from the client.
    pub sent: u64,
    /// Bytes for the client.
    pub received: u64,
    /// The outcome.
    pub verdict: ConnectionVerdict,
    /// The pattern that allowed or denied it. If a person allowed it, the pattern of this host and
    /// port alone.
    pub rule: Option<HostPattern>,
    /// The answer of the person who allowed it. `None` if a rule did.
    pub answer: Option<HostAnswer>,
    /// The reason, unless it was allowed.
    pub reason: Option<Refusal>,
    /// The name in the TLS hello.
    pub tls_name: TlsName,
    /// `true` if a parent proxy resolved the name, so that its addresses were not checked.
    pub through_parent: bool,
}

impl ConnectionRecord {
    pub(super) fn new(
        (service, number): (u64, u64),
        host: String,
        port: u16,
        protocol: Protocol,
    ) -> ConnectionRecord {
        ConnectionRecord {
            service,
            number,
            host,
            port,
            address: None,
            protocol,
            sent: 0,
            received: 0,
            verdict: ConnectionVerdict::Allowed,
            rule: None,
            answer: None,
            reason: None,
            tls_name: TlsName::NotTls,
            through_parent: false,
        }
    }

    pub(super) fn refuse(&mut self, reason: Refusal) {
        self.verdict = if reason.is_failure() {
            ConnectionVerdict::Failed
        } else {
            ConnectionVerdict::Refused
        };
        match &reason {
            Refusal::Denied(rule) | Refusal::AddressDenied { rule, .. } => {
                self.rule = Some(rule.clone());
            }
            Refusal::NotPublic { address, .. } => self.address = Some(*address),
            _ => {}
        }
        self.reason = Some(reason);
    }
}

/// The moment of a [`ConnectionEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEventKind {
    /// The broker has connected the client.
    Opened,
    /// The broker refused, or could not connect, or was cut off. The record is complete.
    Refused,
    /// An open connection ended. The record is complete.
    Closed,
}

/// A change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionEvent {
    /// The change.
    pub kind: ConnectionEventKind,
    /// The record so far.
    pub record: ConnectionRecord,
}

/// The report of a finished service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceReport {
    /// Connections and refused questions, in the order in which they began.
    pub connections: Vec<ConnectionRecord>,
    /// Records beyond the limit.
    pub omitted: u64,
    /// All connections by the reason for them, those beyond the limit too.
    pub totals: BTreeMap<AllowedBy, ConnectionTotal>,
    /// Clients that waited because too many connections were open.
    pub waited: u64,
    /// Questions that were not answered because the table of names is full.
    pub names_full: u64,
}

/// The reason for which clients were connected: a rule, an answer or a published port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllowedBy {
    /// The pattern of a rule or of an answer.
    Rule(HostPattern),
    /// The port is published. The clients are outside.
    PublishedPort(u16),
}

/// The number of connections and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotal {
    /// Connections that the broker made.
    pub connections: u64,
    /// Bytes from the clients.
    pub sent: u64,
    /// Bytes for the clients.
    pub received: u64,
}

/// The records of a service. Refusals, of which a program can make any number, use up none of the
/// connections' part, and a connection has its place from its begin on.
#[derive(Debug, Default)]
pub(super) struct Records {
    list: Vec<ConnectionRecord>,
    /// Connections that are open, by their numbers.
    open: HashMap<u64, ConnectionRecord>,
    connected: usize,
    unconnected: usize,
    omitted: u64,
    totals: BTreeMap<AllowedBy, ConnectionTotal>,
    refused_names: HashSet<String>,
}

impl Records {
    /// Writes down a change. At most `limit` records are of connections, and as many of others.
    pub(super) fn add(
        &mut self,
        kind: ConnectionEventKind,
        record: &ConnectionRecord,
        limit: usize,
    ) {
        self.count(kind, record);
        match kind {
            ConnectionEventKind::Opened if self.connected < limit => {
                self.connected += 1;
                self.open.insert(record.number, record.clone());
            }
            ConnectionEventKind::Refused if self.unconnected < limit => {
                self.unconnected += 1;
                self.list.push(record.clone());
            }
            ConnectionEventKind::Opened | ConnectionEventKind::Refused => self.omitted += 1,
            ConnectionEventKind::Closed => {
                if self.open.remove(&record.number).is_some() {
                    self.list.push(record.clone());
                }
            }
        }
    }

    /// Counts a connection at its beginning, and its bytes at its end.
    fn count(&mut self, kind: ConnectionEventKind, record: &ConnectionRecord) {
        let allowed_by = match &record.rule {
            _ if record.protocol == Protocol::Inbound => AllowedBy::PublishedPort(record.port),
            Some(rule) => AllowedBy::Rule(rule.clone()),
            None => return,
        };
        if kind == ConnectionEventKind::Refused {
            return;
        }
        let total = self.totals.entry(allowed_by).or_default();
        total.connections += u64::from(kind == ConnectionEventKind::Opened);
        total.sent = total.sent.saturating_add(record.sent);
        total.received = total.received.saturating_add(record.received);
    }

    /// Returns the records in the order in which the attempts began, the number of those that were
    /// omitted, and the totals.
    pub(super) fn into_report(self) -> ServiceReport {
        let mut connections = self.list;
        connections.extend(self.open.into_values());
        connections.sort_by_key(|record| record.number);
        ServiceReport {
            connections,
            omitted: self.omitted,
            totals: self.totals,
            ..ServiceReport::default()
        }
    }

    /// Returns `true` at the first refusal of a name. Clients ask for several types of one name, and
    /// again and again.
    pub(super) fn is_first_refusal(&mut self, name: &str, limit: usize) -> bool {
        if self.refused_names.len() < limit {
            self.refused_names.insert(name.to_owned())
        } else {
            !self.refused_names.contains(name)
        }
    }
}

/// Figures of an open connection, written while bytes are copied.
#[derive(Debug)]
pub(super) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    tls_name: AtomicU8,
    /// Bytes from all clients of the service.
    service_sent: Arc<AtomicU64>,
}

const TLS_NAMES: [TlsName; 4] = [
    TlsName::NotTls,
    TlsName::Matching,
    TlsName::NotSeen,
    TlsName::NotCompared,
];

impl Counters {
    pub(super) fn new(service_sent: Arc<AtomicU64>) -> Counters {
        Counters {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            tls_name: AtomicU8::new(0),
            service_sent,
        }
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.service_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn set_tls_name(&self, name: TlsName) {
        let number = TLS_NAMES.iter().position(|one| *one == name).unwrap_or(0);
        let number = u8::try_from(number).unwrap_or(0);
        self.tls_name.store(number, Ordering::Relaxed);
    }

    pub(super) fn tls_name(&self) -> TlsName {
        let number = usize::from(self.tls_name.load(Ordering::Relaxed));
        TLS_NAMES[number.min(TLS_NAMES.len() - 1)]
    }
}

/// Returns a text of a client in one line, without control characters, cut to a readable length.
pub(super) fn escape(text: &str) -> String {
    let escaped = text.escape_debug().take(crate::host::MAX_NAME);
    escaped.collect()
}

/// Returns the host of a record.
pub(super) fn shown(host: &Host) -> String {
    host.to_string()
}
