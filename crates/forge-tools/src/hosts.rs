//! Named hosts and published ports of commands: the broker of `sandbox-network` as the proxy of
//! `os-sandbox`, and the lines about hosts that were refused.

use os_sandbox::{
    CommandSockets, Contact, ContactKind, ContactOutcome, ContactTotal, Contacts, Directories,
    HostProxy, NamedHosts, Network, ParentProxySetting, Plan, Policy, ProxySession, ProxySockets,
    PublishedPort, Sandbox,
};
use rustix::process::{Resource, getrlimit};
use sandbox_network::{
    AllowedBy, AskHost, Broker, BrokerOptions, BrokerService, ConfinedSockets, ConnectionRecord,
    ConnectionTotal, ConnectionVerdict, CredentialListener, CredentialServer, DEFAULT_PORTS, Host,
    HostAnswer, HostPattern, HostRules, InboundListener, InboundPorts, InboundTime, Listeners,
    ParentProxy, Protocol, ProxyToken, Refusal, TlsTermination,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Bound on the connections of one command that a receipt lists, and on the refusals and failures.
/// Further ones are counted.
const MAX_RECORDS: usize = 1000;
/// Bound on the lines about refused hosts.
const MAX_LINES: usize = 5;

/// Remark about a connection whose address the broker does not know.
const UNCHECKED_ADDRESS: &str = "the parent proxy resolved the name; the address is the proxy's";

/// Opens a plan. If its policy names hosts, commands reach exactly those, by a broker in this
/// process. If it publishes ports, clients on this machine reach those of a command.
///
/// ```
/// use os_sandbox::{Directories, HostSpec, Plan, Policy, Requirement, Support};
///
/// let support = Support::assume(HostSpec { landlock_abi: 7, seccomp: true, ..HostSpec::default() });
/// let plan = Plan::new(&Policy::builder().build()?, &support, Requirement::Enforce)?;
/// let sandbox = forge_tools::open_sandbox(plan, Directories::user());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_sandbox(plan: Plan, directories: Directories) -> Sandbox {
    let proxy = NamedHostProxy::new(&plan);
    let sandbox = Sandbox::open(plan, directories);
    match proxy {
        Some(proxy) => sandbox.with_host_proxy(proxy.0),
        None => sandbox,
    }
}

/// Returns a policy under which a command can ask about hosts through both of its doors: where the
/// policy names hosts, the command also gets listeners for the usual ports of others.
///
/// ```
/// use os_sandbox::{NamedHosts, Network, Policy};
/// let hosts = Network::Hosts(NamedHosts::new(["example.com:8443"]).port(8443));
/// let policy = Policy::builder().network(hosts).build()?;
/// let Network::Hosts(hosts) = forge_tools::with_asked_ports(policy).network().clone() else {
///     panic!("it names hosts");
/// };
/// assert_eq!(hosts.ports().collect::<Vec<_>>(), [22, 80, 443, 8443]);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
pub fn with_asked_ports(policy: Policy) -> Policy {
    let Network::Hosts(hosts) = policy.network() else {
        return policy;
    };
    let mut hosts = hosts.clone();
    for port in DEFAULT_PORTS {
        if hosts.ports().count() < NamedHosts::MAX_PORTS {
            hosts = hosts.port(port);
        }
    }
    // The bound is checked above; a policy without these ports is as strict.
    let with_ports = policy.clone().with_network(Network::Hosts(hosts));
    with_ports.unwrap_or(policy)
}

/// The broker that connects the commands of a plan with named hosts, and clients with their published
/// ports. It starts with the first command.
#[derive(Clone, Debug)]
pub struct NamedHostProxy(Arc<BrokerProxy>);

impl NamedHostProxy {
    /// Returns the broker of a plan; `None` if its policy names no hosts and publishes no ports.
    pub fn new(plan: &Plan) -> Option<NamedHostProxy> {
        let hosts = match plan.policy().network() {
            Network::Hosts(hosts) => hosts.clone(),
            _ if plan.published_ports().next().is_some() => NamedHosts::default(),
            _ => return None,
        };
        Some(NamedHostProxy(Arc::new(BrokerProxy::new(hosts))))
    }

    /// Returns the proxy of commands that do not ask.
    pub fn proxy(&self) -> Arc<dyn HostProxy> {
        Arc::clone(&self.0) as Arc<dyn HostProxy>
    }

    /// Returns the proxy of one command, which asks about the hosts that no rule names.
    pub fn asking(&self, ask: Arc<dyn AskHost>) -> Arc<dyn HostProxy> {
        let services = CommandServices {
            ask: Some(ask),
            ..CommandServices::default()
        };
        self.for_command(services, None)
    }

    /// Returns a broker that connects commands with no host.
    pub fn without_hosts() -> NamedHostProxy {
        NamedHostProxy(Arc::new(BrokerProxy::new(NamedHosts::default())))
    }

    /// Returns the proxy of one command. `ports` publishes ports while the command runs.
    pub fn for_command(
        &self,
        services: CommandServices,
        ports: Option<TemporaryPorts>,
    ) -> Arc<dyn HostProxy> {
        Arc::new(CommandProxy {
            proxy: Arc::clone(&self.0),
            services,
            ports,
        })
    }
}

/// A server that a command reaches on one of its services
/// ([`NamedHosts::add_service`](os_sandbox::NamedHosts::add_service)), without the key.
#[derive(Clone, Debug)]
pub struct CredentialService {
    /// The port of the service.
    pub port: u16,
    /// The server and its keys.
    pub server: Arc<CredentialServer>,
}

/// The questions of one command, and its servers with keys.
#[derive(Clone, Debug, Default)]
pub struct CommandServices {
    /// Asked about the hosts that no rule names.
    pub ask: Option<Arc<dyn AskHost>>,
    /// Servers behind services of the command.
    pub credentials: Vec<CredentialService>,
    /// Servers to which the command speaks TLS that ends at the broker.
    pub termination: Option<Arc<TlsTermination>>,
}

/// The broker, for one command.
#[derive(Debug)]
struct CommandProxy {
    proxy: Arc<BrokerProxy>,
    services: CommandServices,
    ports: Option<TemporaryPorts>,
}

impl HostProxy for CommandProxy {
    fn serve(&self, mut sockets: ProxySockets) -> io::Result<Box<dyn ProxySession>> {
        let on_request = sockets.on_request.take();
        let mut session = self.proxy.serve_command(sockets, &self.services)?;
        if let (Some(ports), Some(sockets)) = (&self.ports, on_request) {
            let inbound = session.service.inbound_ports();
            ports.set(Some(RunningPorts {
                inbound,
                sockets,
                open: BTreeMap::new(),
            }));
            session.ports = Some(ports.clone());
        }
        Ok(Box::new(session))
    }

    fn publishes_later(&self) -> bool {
        self.ports.is_some()
    }
}

/// The time for which a port is published, at most.
const PORT_LIMIT: Duration = Duration::from_secs(600);
/// The time for which a port stays published after an answer to a client.
const PORT_AFTER_ANSWER: Duration = Duration::from_secs(5);

/// Publishes ports of a running command on this machine's loopback: each until a client got an answer,
/// and at most for ten minutes.
#[derive(Clone, Debug, Default)]
pub struct TemporaryPorts(Arc<Mutex<Option<RunningPorts>>>);

/// The ports of a command with a network namespace, while it runs.
#[derive(Debug)]
struct RunningPorts {
    inbound: InboundPorts,
    sockets: Arc<dyn CommandSockets>,
    /// Ports that are published as long as somebody holds their sockets.
    open: BTreeMap<u16, Weak<InboundSockets>>,
}

impl TemporaryPorts {
    /// Publishes a port. The policy allows it ([`Policy::check_port`]).
    ///
    /// # Errors
    /// Another program uses the port, or the command has ended.
    pub fn publish(&self, port: u16) -> Result<(), os_sandbox::Error> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| {
            os_sandbox::Error::io(format!("cannot publish port {port} of the command"), error)
        };
        let Some(running) = running.as_mut() else {
            return Err(failed(io::Error::other("it does not run")));
        };
        let listeners = match os_sandbox::listen_on_loopback(port) {
            // A login that is tried again.
            Err(_)
                if running
                    .open
                    .get(&port)
                    .is_some_and(|open| open.strong_count() > 0) =>
            {
                return Ok(());
            }
            listening => listening?,
        };
        let sockets = Arc::new(InboundSockets(Arc::clone(&running.sockets)));
        running.open.insert(port, Arc::downgrade(&sockets));
        let time = InboundTime {
            limit: PORT_LIMIT,
            after_answer: PORT_AFTER_ANSWER,
        };
        let opened = running.inbound.open(listeners, port, sockets, time);
        opened.map_err(failed)
    }

    fn set(&self, running: Option<RunningPorts>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}

/// Returns each service's listener with its server.
fn credential_listeners(
    services: Vec<TcpListener>,
    credentials: &[CredentialService],
) -> io::Result<Vec<CredentialListener>> {
    let with_server = |listener: TcpListener| {
        let port = listener.local_addr()?.port();
        let mut known = credentials.iter();
        let found = known.find(|one| one.port == port).ok_or_else(|| {
            let text = format!("no server is behind the service on port {port}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Ok(CredentialListener {
            listener,
            server: Arc::clone(&found.server),
        })
    };
    services.into_iter().map(with_server).collect()
}

/// A broker that starts with the first command.
#[derive(Debug)]
struct BrokerProxy {
    hosts: NamedHosts,
    broker: Mutex<Option<Broker>>,
}

impl BrokerProxy {
    fn new(hosts: NamedHosts) -> BrokerProxy {
        BrokerProxy {
            hosts,
            broker: Mutex::default(),
        }
    }

    fn start(&self) -> io::Result<Broker> {
        let rules = rules(&self.hosts)?;
        let mut options = BrokerOptions::default();
        options.limits.records = MAX_RECORDS;
        options.limits = options
            .limits
            .within_descriptors(descriptors_for_connections());
        options.advice = Arc::new(|host: &Host, port| {
            format!(
                "A person can allow it: forge allow host:{}",
                host.with_port(port)
            )
        });
        options.parent = match self.hosts.parent() {
            Some(parent) => Some(parent_proxy(parent)?),
            None => None,
        };
        Broker::new(rules, options)
    }
}

impl HostProxy for BrokerProxy {
    fn serve(&self, sockets: ProxySockets) -> io::Result<Box<dyn ProxySession>> {
        Ok(Box::new(
            self.serve_command(sockets, &CommandServices::default())?,
        ))
    }
}

impl BrokerProxy {
    fn serve_command(
        &self,
        sockets: ProxySockets,
        services: &CommandServices,
    ) -> io::Result<BrokerSession> {
        let mut broker = self.broker.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = match &mut *broker {
            Some(broker) => broker,
            none => none.insert(self.start()?),
        };
        let proxy_token = sockets.password.map(|password| {
            ProxyToken::new(password.as_str())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        });
        let service = broker.serve(Listeners {
            resolver: sockets.resolvers,
            resolver_tcp: sockets.resolver_listeners,
            proxy: sockets.proxies,
            proxy_token: proxy_token.transpose()?,
            forwarders: sockets.forwarders,
            credentials: credential_listeners(sockets.services, &services.credentials)?,
            termination: services.termination.clone(),
            inbound: sockets.published.into_iter().flat_map(inbound).collect(),
            ask: services.ask.clone(),
        })?;
        Ok(BrokerSession {
            service,
            ports: None,
        })
    }
}

/// Returns the listeners of a published port.
fn inbound(published: PublishedPort) -> Vec<InboundListener> {
    let sockets: Arc<dyn ConfinedSockets> = Arc::new(InboundSockets(published.sockets));
    let listeners = published.listeners.into_iter();
    let listeners = listeners.map(|listener| InboundListener {
        listener,
        port: published.port,
        sockets: Arc::clone(&sockets),
    });
    listeners.collect()
}

/// The sockets of a command's network, for the broker.
#[derive(Debug)]
struct InboundSockets(Arc<dyn CommandSockets>);

impl ConfinedSockets for InboundSockets {
    fn make_socket(&self, is_v6: bool) -> io::Result<OwnedFd> {
        self.0.make_socket(is_v6)
    }
}

/// Returns the number of descriptors for connections that leaves enough for everything else that this
/// process does.
fn descriptors_for_connections() -> usize {
    /// For files, pipes and logs; the sweep after a command opens some for each level of a tree.
    const OTHERS: u64 = 400;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = limit.saturating_sub(OTHERS).max(limit / 4);
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// Returns the proxy outside of a policy. The error does not repeat its URL.
fn parent_proxy(parent: &ParentProxySetting) -> io::Result<ParentProxy> {
    ParentProxy::from_variables(parent.url(), parent.exceptions()).map_err(|error| {
        let text = format!("the parent proxy {}: {error}", parent.address());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Returns the rules of a policy's lists.
fn rules(hosts: &NamedHosts) -> io::Result<HostRules> {
    let parse = |text: &String| {
        HostPattern::parse(text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: {error}"))
        })
    };
    let all = |list: &[String]| list.iter().map(parse).collect::<io::Result<Vec<_>>>();
    Ok(HostRules::new(all(hosts.patterns())?, all(hosts.denied())?))
}

#[derive(Debug)]
struct BrokerSession {
    ports: Option<TemporaryPorts>,
    service: BrokerService,
}

impl ProxySession for BrokerSession {
    fn finish(self: Box<Self>) -> Contacts {
        // Their process in the command's network ends with the last of its sockets.
        self.ports.iter().for_each(|ports| ports.set(None));
        let report = self.service.finish();
        Contacts {
            listed: report.connections.into_iter().map(contact).collect(),
            more: report.omitted,
            totals: report.totals.into_iter().map(total).collect(),
        }
    }
}

fn total((allowed_by, total): (AllowedBy, ConnectionTotal)) -> ContactTotal {
    let ConnectionTotal {
        connections,
        sent,
        received,
    } = total;
    let (kind, rule, sent, received) = match allowed_by {
        AllowedBy::Rule(rule) => (ContactKind::Connection, rule.to_string(), sent, received),
        // The command is the server.
        AllowedBy::PublishedPort(port) => (ContactKind::Inbound, port.to_string(), received, sent),
    };
    ContactTotal {
        kind,
        rule,
        connections,
        sent,
        received,
    }
}

fn contact(record: ConnectionRecord) -> Contact {
    // The command is the client of a host, and the server of a published port.
    let (sent, received) = match record.protocol {
        Protocol::Inbound => (record.received, record.sent),
        _ => (record.sent, record.received),
    };
    Contact {
        kind: kind(record.protocol, &record.host, record.reason.as_ref()),
        outcome: match record.verdict {
            ConnectionVerdict::Allowed => ContactOutcome::Connected,
            ConnectionVerdict::Refused => ContactOutcome::Refused,
            ConnectionVerdict::Failed => ContactOutcome::Failed,
        },
        reason: match &record.reason {
            Some(reason) => Some(reason.to_string()),
            None => remark(&record),
        },
        host: record.host,
        port: record.port,
        address: record.address,
        sent,
        received,
        rule: record.rule.map(|rule| rule.to_string()),
    }
}

/// Returns the remark about a connection: the answer that allowed it, and the check that it lacks.
fn remark(record: &ConnectionRecord) -> Option<String> {
    let answer = record.answer.and_then(answered);
    let unchecked = record.through_parent.then(|| UNCHECKED_ADDRESS.to_owned());
    let parts: Vec<String> = answer.into_iter().chain(unchecked).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the reason of a connection that a person's answer allowed.
fn answered(answer: HostAnswer) -> Option<String> {
    let how = match answer {
        HostAnswer::Once => "a person allowed it for this command",
        HostAnswer::Run => "a person allowed it for this run",
        HostAnswer::No | HostAnswer::Unanswered => return None,
    };
    Some(how.to_owned())
}

/// Returns the kind of a record. A client can name anything, and only a host counts as one.
fn kind(protocol: Protocol, host: &str, reason: Option<&Refusal>) -> ContactKind {
    match (protocol, reason) {
        (Protocol::Inbound, _) => ContactKind::Inbound,
        (_, Some(Refusal::Malformed(_) | Refusal::NoPlaceholder | Refusal::Unauthenticated)) => {
            ContactKind::Request
        }
        _ if Host::parse(host).is_err() => ContactKind::Request,
        (Protocol::Dns, _) => ContactKind::Lookup,
        _ => ContactKind::Connection,
    }
}

/// Returns a line for each host that was refused or not reached, for a few of them.
///
/// ```
/// use os_sandbox::{Contact, ContactKind, ContactOutcome};
/// let contact = Contact {
///     kind: ContactKind::Connection, host: "example.org".into(), port: 443,
///     address: None, sent: 0, received: 0, rule: None,
///     outcome: ContactOutcome::Refused, reason: Some("no rule names it".into()),
/// };
/// let lines = forge_tools::describe_refused_hosts(&[contact]);
/// assert_eq!(lines, ["refused: connect example.org:443 (no rule names it)"]);
/// ```
pub fn describe_refused_hosts(contacts: &[Contact]) -> Vec<String> {
    let unconnected = || {
        let outcomes = contacts.iter().map(|one| (one, verb(one.outcome)));
        outcomes.filter_map(|(one, verb)| Some((one, verb?)))
    };
    let tried: BTreeSet<&str> = unconnected()
        .filter(|(one, _)| one.kind == ContactKind::Connection)
        .map(|(one, _)| one.host.as_str())
        .collect();
    let reached: BTreeSet<(&str, u16)> = contacts
        .iter()
        .filter(|one| one.kind == ContactKind::Connection)
        .map(|one| (one.host.as_str(), one.port))
        .collect();
    // Some clients send their password only after they are asked for it, to a proxy with a token.
    let without_password = Refusal::Unauthenticated.to_string();
    let is_asked = |one: &Contact| {
        one.reason.as_ref() == Some(&without_password)
            && reached.contains(&(one.host.as_str(), one.port))
    };
    let mut lines: Vec<String> = Vec::new();
    for (one, verb) in unconnected() {
        let (host, port) = (&one.host, one.port);
        let target = match one.kind {
            // The connect that follows tells more.
            ContactKind::Lookup if tried.contains(host.as_str()) => continue,
            ContactKind::Lookup => format!("resolve {host}"),
            // A client outside tried it, not the command.
            ContactKind::Inbound => continue,
            ContactKind::Connection if host.contains(':') => format!("connect [{host}]:{port}"),
            ContactKind::Connection => format!("connect {host}:{port}"),
            ContactKind::Request if is_asked(one) => continue,
            ContactKind::Request => format!("request {host}"),
        };
        let reason = one.reason.as_deref().map(|reason| format!(" ({reason})"));
        let reason = reason.unwrap_or_default();
        // A request that cannot be read names no host.
        let line = format!("{verb}: {}{reason}", target.trim_end());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("refused or failed: {more} more"));
    }
    lines
}

/// Returns the word for an outcome that left the command unconnected.
fn verb(outcome: ContactOutcome) -> Option<&'static str> {
    match outcome {
        ContactOutcome::Connected => None,
        ContactOutcome::Refused => Some("refused"),
        ContactOutcome::Failed => Some("failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(protocol: Protocol, host: &str, port: u16, reason: &Refusal) -> String {
        let contact = Contact {
            kind: kind(protocol, host, Some(reason)),
            host: host.to_owned(),
            port,
            address: None,
            sent: 0,
            received: 0,
            rule: None,
            outcome: match reason.is_failure() {
                true => ContactOutcome::Failed,
                false => ContactOutcome::Refused,
            },
            reason: None,
        };
        describe_refused_hosts(&[contact]).concat()
    }

    #[test]
    fn only_hosts_are_shown_as_hosts() {
        let unlisted = Refusal::Unlisted;
        let malformed = Refusal::Malformed("two hosts".to_owned());
        for (protocol, host, port, reason, shown) in [
            (
                Protocol::Connect,
                "a.org",
                80,
                &unlisted,
                "connect a.org:80",
            ),
            (Protocol::Dns, "a.org", 0, &unlisted, "resolve a.org"),
            (
                Protocol::Socks,
                "1.2.3.4",
                80,
                &unlisted,
                "connect 1.2.3.4:80",
            ),
            (
                Protocol::Transparent,
                "2001:db8::1",
                80,
                &unlisted,
                "connect [2001:db8::1]:80",
            ),
            (Protocol::Http, "a.org", 0, &malformed, "request a.org"),
            (
                Protocol::Http,
                "a\\nrefused: x",
                80,
                &unlisted,
                "request a\\nrefused: x",
            ),
            (Protocol::Connect, "a:b", 443, &unlisted, "request a:b"),
            (
                Protocol::Dns,
                "a\\032b.org",
                0,
                &unlisted,
                "request a\\032b.org",
            ),
            (Protocol::Connect, "", 0, &malformed, "request"),
        ] {
            let refused = line(protocol, host, port, reason);
            assert_eq!(refused, format!("refused: {shown}"));
        }
    }

    #[test]
    fn a_client_that_is_asked_for_its_password_is_no_refusal() {
        let contact = |host: &str, reason: Option<Refusal>| Contact {
            kind: kind(Protocol::Connect, host, reason.as_ref()),
            host: host.to_owned(),
            port: 443,
            address: None,
            sent: 0,
            received: 0,
            rule: None,
            outcome: match &reason {
                Some(_) => ContactOutcome::Refused,
                None => ContactOutcome::Connected,
            },
            reason: reason.map(|reason| reason.to_string()),
        };
        let asked = Some(Refusal::Unauthenticated);
        let told = |hosts: [(&str, Option<Refusal>); 2]| {
            describe_refused_hosts(&hosts.map(|(host, reason)| contact(host, reason)))
        };
        assert!(told([("a.org", asked.clone()), ("a.org", None)]).is_empty());
        assert_eq!(
            told([("a.org", asked.clone()), ("a.org", Some(Refusal::Unlisted))]),
            ["refused: connect a.org:443 (no rule names it)"]
        );
        assert_eq!(
            told([("a.org", asked), ("b.org", None)]),
            ["refused: request a.org (the client did not authenticate)"]
        );
    }

    #[test]
    fn a_full_table_of_names_is_a_failure() {
        let failed = line(Protocol::Dns, "a.org", 0, &Refusal::NamesFull);
        assert_eq!(failed, "failed: resolve a.org");
    }
}
