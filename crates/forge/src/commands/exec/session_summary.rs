//! The end of an agent's session, for the person who started it: the hosts that it was connected
//! to. Attempts that were refused, and the commands that allow them, follow it.

use std::collections::{BTreeMap, BTreeSet};

use os_sandbox::{Contact, ContactKind, ContactOutcome, ContactTotal, Enforcement};
use sandbox_config::HostGroup;

use crate::output::byte_count::byte_count;

/// Hosts that are listed; the rest is counted.
const MAX_HOSTS: usize = 8;

/// The connections to a host, and their bytes.
#[derive(Default)]
struct Exchange {
    connections: u64,
    sent: u64,
    received: u64,
}

/// Returns a line for each host, the one that was sent most first.
pub(super) fn describe_connections(receipt: &Enforcement) -> Vec<String> {
    let more = receipt.more_contacts;
    describe(&receipt.contacts, more, &receipt.contact_totals)
}

/// Returns a line for each group of hosts that is off and of which the command tried some.
pub(super) fn describe_off_groups<'a>(
    contacts: impl Iterator<Item = (HostGroup, &'a Contact)>,
) -> Vec<String> {
    let mut groups: BTreeMap<HostGroup, BTreeSet<&str>> = BTreeMap::new();
    for (group, contact) in contacts {
        groups.entry(group).or_default().insert(&contact.host);
    }
    let line = |(group, hosts): (HostGroup, BTreeSet<&str>)| {
        let listed: Vec<&str> = hosts.iter().copied().take(MAX_HOSTS).collect();
        let more = match hosts.len() - listed.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "refused: connect {}{more} (group {group} is off: --host-group {group})",
            listed.join(", ")
        )
    };
    groups.into_iter().map(line).collect()
}

fn describe(contacts: &[Contact], more: u64, totals: &[ContactTotal]) -> Vec<String> {
    let mut hosts: BTreeMap<(&str, u16), Exchange> = BTreeMap::new();
    for contact in contacts {
        if contact.kind == ContactKind::Connection && contact.outcome == ContactOutcome::Connected {
            let host = hosts.entry((&contact.host, contact.port)).or_default();
            host.connections += 1;
            host.sent = host.sent.saturating_add(contact.sent);
            host.received = host.received.saturating_add(contact.received);
        }
    }
    let mut hosts: Vec<_> = hosts.into_iter().collect();
    hosts.sort_by_key(|(_, exchange)| std::cmp::Reverse(exchange.sent));
    let mut lines: Vec<String> = hosts
        .iter()
        .take(MAX_HOSTS)
        .map(|((host, port), exchange)| {
            let host = match host.contains(':') {
                true => format!("[{host}]:{port}"),
                false => format!("{host}:{port}"),
            };
            let times = match exchange.connections {
                1 => String::new(),
                times => format!("{times} times, "),
            };
            let (sent, received) = (byte_count(exchange.sent), byte_count(exchange.received));
            format!("connected: {host} ({times}sent {sent}, received {received})")
        })
        .collect();
    let unlisted = hosts.len().saturating_sub(MAX_HOSTS);
    if unlisted > 0 {
        lines.push(format!("connected: {unlisted} more hosts"));
    }
    if more > 0 {
        lines.extend(describe_unlisted(contacts, totals));
        lines.push(format!(
            "connected or refused: {more} more attempts, which are not listed one by one"
        ));
    }
    lines
}

/// Returns a line for each rule that allowed more connections than are listed.
fn describe_unlisted<'a>(
    contacts: &'a [Contact],
    totals: &'a [ContactTotal],
) -> impl Iterator<Item = String> + 'a {
    totals.iter().filter_map(|total| {
        let listed = contacts.iter().filter(|one| {
            let is_connected = one.outcome == ContactOutcome::Connected;
            is_connected && one.rule.as_deref() == Some(&total.rule)
        });
        let mut rest = Exchange {
            connections: total.connections,
            sent: total.sent,
            received: total.received,
        };
        for one in listed {
            rest.connections = rest.connections.saturating_sub(1);
            rest.sent = rest.sent.saturating_sub(one.sent);
            rest.received = rest.received.saturating_sub(one.received);
        }
        let (sent, received) = (byte_count(rest.sent), byte_count(rest.received));
        let is_unlisted = total.kind == ContactKind::Connection && rest.connections > 0;
        is_unlisted.then(|| {
            format!(
                "connected: {} more times by the rule {} (sent {sent}, received {received})",
                rest.connections, total.rule
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(host: &str, sent: u64, outcome: ContactOutcome) -> Contact {
        Contact {
            kind: ContactKind::Connection,
            host: host.to_owned(),
            port: 443,
            address: None,
            sent,
            received: 10 * sent,
            rule: None,
            outcome,
            reason: None,
        }
    }

    #[test]
    fn a_host_is_one_line_and_the_rest_is_counted() {
        let mut contacts = vec![
            contact("api.example.com", 700, ContactOutcome::Connected),
            contact("::1", 5, ContactOutcome::Connected),
            contact("api.example.com", 600, ContactOutcome::Connected),
            contact("other.example.com", 0, ContactOutcome::Refused),
        ];
        let first = [
            "connected: api.example.com:443 (2 times, sent 1.3 kB, received 13.0 kB)",
            "connected: [::1]:443 (sent 5 bytes, received 50 bytes)",
        ];
        assert_eq!(describe(&contacts, 0, &[]), first);
        for number in 0..10 {
            let host = format!("{number}.example.com");
            contacts.push(contact(&host, 1, ContactOutcome::Connected));
        }
        let total = ContactTotal {
            kind: ContactKind::Connection,
            rule: "upload.example".to_owned(),
            connections: 3,
            sent: 40_000,
            received: 7,
        };
        let lines = describe(&contacts, 3, &[total]);
        assert_eq!(lines.len(), MAX_HOSTS + 3);
        assert_eq!(
            lines[MAX_HOSTS..],
            [
                "connected: 4 more hosts",
                "connected: 3 more times by the rule upload.example (sent 40.0 kB, received 7 bytes)",
                "connected or refused: 3 more attempts, which are not listed one by one"
            ]
        );
        assert!(describe(&[], 0, &[]).is_empty());
    }

    #[test]
    fn a_group_is_one_line() {
        let contacts = [
            (HostGroup::Telemetry, "b.example.com"),
            (HostGroup::Update, "c.example.com"),
            (HostGroup::Telemetry, "a.example.com"),
            (HostGroup::Telemetry, "b.example.com"),
        ];
        let contacts =
            contacts.map(|(group, host)| (group, contact(host, 0, ContactOutcome::Refused)));
        let lines = describe_off_groups(contacts.iter().map(|(group, one)| (*group, one)));
        assert_eq!(
            lines,
            [
                "refused: connect c.example.com (group update is off: --host-group update)",
                "refused: connect a.example.com, b.example.com (group telemetry is off: \
                 --host-group telemetry)"
            ]
        );
    }
}
