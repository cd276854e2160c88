//! Named hosts of commands: the broker of `sandbox-network` as the proxy of `os-sandbox`, and the
//! lines about hosts that were refused.

use os_sandbox::{
    Contact, ContactOutcome, Contacts, Directories, HostProxy, NamedHosts, Network, Plan,
    ProxySession, ProxySockets, Sandbox,
};
use rustix::process::{Resource, getrlimit};
use sandbox_network::{
    Broker, BrokerOptions, BrokerService, ConnectionRecord, ConnectionVerdict, Host, HostPattern,
    HostRules, Listeners, Refusal,
};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Bound on the connections of one command that a receipt lists, and on the refusals and failures.
/// Further ones are counted.
const MAX_RECORDS: usize = 1000;
/// Bound on the lines about refused hosts.
const MAX_LINES: usize = 5;

/// Opens a plan. If its policy names hosts, commands reach exactly those, by a broker in this
/// process.
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
    let proxy = match plan.policy().network() {
        Network::Hosts(hosts) => Some(Arc::new(BrokerProxy::new(hosts))),
        _ => None,
    };
    let sandbox = Sandbox::open(plan, directories);
    match proxy {
        Some(proxy) => sandbox.with_host_proxy(proxy),
        None => sandbox,
    }
}

/// A broker that starts with the first command.
#[derive(Debug)]
struct BrokerProxy {
    /// The patterns as the policy shows them.
    patterns: Vec<String>,
    broker: Mutex<Option<Broker>>,
}

impl BrokerProxy {
    fn new(hosts: &NamedHosts) -> BrokerProxy {
        BrokerProxy {
            patterns: hosts.patterns().to_vec(),
            broker: Mutex::default(),
        }
    }

    fn start(&self) -> io::Result<Broker> {
        let rules = rules(&self.patterns)?;
        let mut options = BrokerOptions::default();
        options.limits.records = MAX_RECORDS;
        options.limits.connections = max_connections(options.limits.connections);
        options.advice = Arc::new(|host: &Host, port| {
            format!(
                "A person can allow it: forge allow host:{}",
                host.with_port(port)
            )
        });
        Broker::new(rules, options)
    }
}

impl HostProxy for BrokerProxy {
    fn serve(&self, sockets: ProxySockets) -> io::Result<Box<dyn ProxySession>> {
        let mut broker = self.broker.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = match &mut *broker {
            Some(broker) => broker,
            none => none.insert(self.start()?),
        };
        let service = broker.serve(Listeners {
            resolver: sockets.resolvers,
            resolver_tcp: sockets.resolver_listeners,
            proxy: sockets.proxies,
            forwarders: sockets.forwarders,
            ..Listeners::default()
        })?;
        Ok(Box::new(BrokerSession(service)))
    }
}

/// Returns the number of connections that leave descriptors for everything else that this process
/// does. A connection has two.
fn max_connections(most: usize) -> usize {
    /// For files, pipes and logs; the sweep after a command opens some for each level of a tree.
    const OTHERS: u64 = 400;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = limit.saturating_sub(OTHERS).max(limit / 4) / 2;
    usize::try_from(left).unwrap_or(most).clamp(1, most)
}

/// Returns the rules of a policy's list, in which a leading `!` denies.
fn rules(patterns: &[String]) -> io::Result<HostRules> {
    let parse = |text: &str| {
        HostPattern::parse(text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: {error}"))
        })
    };
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    for text in patterns {
        match text.strip_prefix('!') {
            Some(denied) => deny.push(parse(denied)?),
            None => allow.push(parse(text)?),
        }
    }
    Ok(HostRules::new(allow, deny))
}

#[derive(Debug)]
struct BrokerSession(BrokerService);

impl ProxySession for BrokerSession {
    fn finish(self: Box<Self>) -> Contacts {
        let report = self.0.finish();
        Contacts {
            listed: report.connections.into_iter().map(contact).collect(),
            more: report.omitted,
        }
    }
}

fn contact(record: ConnectionRecord) -> Contact {
    Contact {
        outcome: match record.verdict {
            ConnectionVerdict::Allowed => ContactOutcome::Connected,
            ConnectionVerdict::Refused => ContactOutcome::Refused,
            ConnectionVerdict::Failed => ContactOutcome::Failed,
        },
        reason: record.reason.as_ref().map(ToString::to_string),
        host: record.host,
        port: record.port,
        address: record.address,
        sent: record.sent,
        received: record.received,
        rule: record.rule.map(|rule| rule.to_string()),
    }
}

/// Returns a line for each host that was refused or not reached, for a few of them.
///
/// ```
/// use os_sandbox::{Contact, ContactOutcome};
/// let contact = Contact {
///     host: "example.org".into(), port: 443, address: None, sent: 0, received: 0, rule: None,
///     outcome: ContactOutcome::Refused, reason: Some("no rule names it".into()),
/// };
/// let lines = forge_tools::describe_refused_hosts(&[contact]);
/// assert_eq!(lines, ["refused: connect example.org:443 (no rule names it)"]);
/// ```
#[must_use]
pub fn describe_refused_hosts(contacts: &[Contact]) -> Vec<String> {
    let unconnected = || {
        let outcomes = contacts.iter().map(|one| (one, verb(one.outcome)));
        outcomes.filter_map(|(one, verb)| Some((one, verb?)))
    };
    let tried: BTreeSet<&str> = unconnected()
        .filter(|(one, _)| one.port != 0)
        .map(|(one, _)| one.host.as_str())
        .collect();
    let mut lines: Vec<String> = Vec::new();
    for (one, verb) in unconnected() {
        let host = Host::parse(&one.host);
        let target = match one.port {
            // It has no port either.
            0 if is_invalid_request(one) => format!("request {}", one.host),
            // The connect that follows tells more.
            0 if tried.contains(one.host.as_str()) => continue,
            // A client can name anything, and it is not shown as an address or a name.
            _ if host.is_err() => format!("request {}", one.host),
            0 => format!("resolve {}", one.host),
            port => match host {
                Ok(Host::Address(IpAddr::V6(address))) => format!("connect [{address}]:{port}"),
                _ => format!("connect {}:{port}", one.host),
            },
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

/// `true` for a request to the proxy that is not valid, such as one whose Host header is not its target.
fn is_invalid_request(contact: &Contact) -> bool {
    let reason = contact.reason.as_deref().unwrap_or_default();
    reason.starts_with(&Refusal::Malformed(String::new()).to_string())
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

    fn line(host: &str, port: u16, outcome: ContactOutcome) -> String {
        let contact = Contact {
            host: host.to_owned(),
            port,
            address: None,
            sent: 0,
            received: 0,
            rule: None,
            outcome,
            reason: None,
        };
        describe_refused_hosts(&[contact]).concat()
    }

    #[test]
    fn only_hosts_are_shown_as_hosts() {
        for (host, port, shown) in [
            ("a.org", 80, "connect a.org:80"),
            ("a.org", 0, "resolve a.org"),
            ("1.2.3.4", 80, "connect 1.2.3.4:80"),
            ("2001:db8::1", 80, "connect [2001:db8::1]:80"),
            ("a\\nrefused: x", 80, "request a\\nrefused: x"),
            ("a:b", 443, "request a:b"),
            ("a\\032b.org", 0, "request a\\032b.org"),
            ("", 0, "request"),
        ] {
            let refused = line(host, port, ContactOutcome::Refused);
            assert_eq!(refused, format!("refused: {shown}"));
        }
    }

    #[test]
    fn a_full_table_of_names_is_a_failure() {
        let failure = |reason: sandbox_network::Refusal| reason.is_failure();
        assert!(failure(sandbox_network::Refusal::NamesFull));
        let failed = line("a.org", 0, ContactOutcome::Failed);
        assert_eq!(failed, "failed: resolve a.org");
    }
}
