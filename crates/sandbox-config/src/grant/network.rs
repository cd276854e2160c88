//! The hosts that commands may reach, as a set: none, some, all. The meet is the intersection, so a
//! chain of grants can only lose hosts.
//!
//! Some hosts are two lists of patterns ([`HostRules`]): a host is reached if the first names it and
//! the second does not.

use std::fmt;
use std::net::SocketAddr;

use sandbox_network::{Host, HostPattern, HostRules};

use crate::syntax::text::ConfigOrigin;

/// Bound on the ports that a list of hosts names
/// ([`HostRules::ports`]): each takes a listener in the network namespace of every command.
pub(crate) const MAX_PORTS: usize = 32;
/// Bound on the addresses that a list of hosts names ([`HostRules::addresses`]).
pub(crate) const MAX_ADDRESSES: usize = 16;

/// The hosts that commands may reach.
///
/// ```
/// use sandbox_config::{HostPattern, NetworkAccess};
/// let hosts = |list: &[&str]| {
///     NetworkAccess::hosts(list.iter().map(|text| HostPattern::parse(text).unwrap()))
/// };
/// let project = hosts(&["*.rust-lang.org", "example.com:443"]);
/// // Allowed: fewer hosts.
/// assert!(hosts(&["static.rust-lang.org:443"]).is_within(&project));
/// // Denied: another port of the same host, and everybody.
/// assert!(!hosts(&["example.com:80"]).is_within(&project));
/// assert!(!NetworkAccess::Unrestricted.is_within(&project));
/// assert_eq!(project.meet(&hosts(&["example.com", "other.org"])).to_string(), "example.com:443");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Not at all.
    Denied,
    /// The hosts that the rules allow. Their allow list is not empty, and it names no host that the
    /// deny list takes back as a whole. Both lists are sorted, with no pattern within another.
    Hosts(HostRules),
    /// As the host does.
    Unrestricted,
}

/// A pattern of `network` in a file.
#[derive(Clone, Debug)]
pub(crate) struct HostLine {
    /// `allow`, `loopback_out` or `deny`.
    pub(crate) key: &'static str,
    pub(crate) pattern: HostPattern,
    pub(crate) origin: ConfigOrigin,
}

impl HostLine {
    pub(crate) fn allowed(pattern: HostPattern, origin: ConfigOrigin) -> HostLine {
        let key = "allow";
        HostLine {
            key,
            pattern,
            origin,
        }
    }

    pub(crate) fn is_denial(&self) -> bool {
        self.key == "deny"
    }
}

/// Returns the patterns of the deny lists.
pub(crate) fn denied_hosts(lines: &[HostLine]) -> impl Iterator<Item = HostPattern> {
    let denied = lines.iter().filter(|line| line.is_denial());
    denied.map(|line| line.pattern.clone())
}

impl NetworkAccess {
    /// Returns a list of hosts; an empty list is [`Denied`](Self::Denied).
    #[must_use]
    pub fn hosts(patterns: impl IntoIterator<Item = HostPattern>) -> NetworkAccess {
        NetworkAccess::hosts_except(patterns, [])
    }

    /// Returns a list of hosts without those that the second list names.
    ///
    /// ```
    /// use sandbox_config::{HostPattern, NetworkAccess};
    /// let pattern = |text| HostPattern::parse(text).unwrap();
    /// let access = NetworkAccess::hosts_except([pattern("*.a.com")], [pattern("ads.a.com")]);
    /// assert!(access.allows("www.a.com", 443));
    /// assert!(!access.allows("ads.a.com", 443));
    /// assert_eq!(access.to_string(), "*.a.com but not ads.a.com");
    /// ```
    #[must_use]
    pub fn hosts_except(
        allow: impl IntoIterator<Item = HostPattern>,
        deny: impl IntoIterator<Item = HostPattern>,
    ) -> NetworkAccess {
        let deny = widest(deny);
        let mut allow = widest(allow);
        allow.retain(|one| !is_denied(one, &deny));
        if allow.is_empty() {
            NetworkAccess::Denied
        } else {
            NetworkAccess::Hosts(HostRules::new(allow, deny))
        }
    }

    /// Returns this access with further hosts, of which denied ones stay denied. The patterns that are
    /// denied are given as well, because an access without hosts does not have them.
    pub(crate) fn with_hosts(
        &self,
        more: impl IntoIterator<Item = HostPattern>,
        denied: impl IntoIterator<Item = HostPattern>,
    ) -> NetworkAccess {
        match self {
            NetworkAccess::Denied => NetworkAccess::hosts_except(more, denied),
            NetworkAccess::Hosts(rules) => {
                let allow = rules.allowed().iter().cloned().chain(more);
                NetworkAccess::hosts_except(allow, rules.denied().iter().cloned().chain(denied))
            }
            NetworkAccess::Unrestricted => NetworkAccess::Unrestricted,
        }
    }

    /// Returns the hosts that both reach.
    #[must_use]
    pub fn meet(&self, other: &NetworkAccess) -> NetworkAccess {
        match (self, other) {
            (NetworkAccess::Denied, _) | (_, NetworkAccess::Denied) => NetworkAccess::Denied,
            (NetworkAccess::Unrestricted, held) | (held, NetworkAccess::Unrestricted) => {
                held.clone()
            }
            (NetworkAccess::Hosts(own), NetworkAccess::Hosts(others)) => {
                let pairs = own
                    .allowed()
                    .iter()
                    .flat_map(|one| others.allowed().iter().map(move |other| one.meet(other)));
                let deny = own.denied().iter().chain(others.denied()).cloned();
                NetworkAccess::hosts_except(pairs.flatten(), deny)
            }
        }
    }

    /// Returns `true` if it reaches only hosts that the other reaches.
    #[must_use]
    pub fn is_within(&self, other: &NetworkAccess) -> bool {
        match (self, other) {
            (NetworkAccess::Denied, _) | (_, NetworkAccess::Unrestricted) => true,
            (NetworkAccess::Unrestricted | NetworkAccess::Hosts(_), NetworkAccess::Denied)
            | (NetworkAccess::Unrestricted, NetworkAccess::Hosts(_)) => false,
            // Several patterns together name no more than each: they would need all 65 535 ports,
            // or all names below one.
            (NetworkAccess::Hosts(own), NetworkAccess::Hosts(others)) => {
                let mut allowed = own.allowed().iter();
                allowed.all(|one| is_named(one, others.allowed()) && avoids(one, own, others))
            }
        }
    }

    /// Returns `true` if it asks for hosts that the other does not name, or denies as a whole. A
    /// pattern of which the other denies a part asks for no more: whoever asks inherits the denial.
    pub(crate) fn asks_beyond(&self, other: &NetworkAccess) -> bool {
        match (self, other) {
            (NetworkAccess::Denied, _) | (_, NetworkAccess::Unrestricted) => false,
            (NetworkAccess::Unrestricted, _) => true,
            (NetworkAccess::Hosts(_), _) => !self.excess_over(other).is_empty(),
        }
    }

    /// Returns the patterns that ask for more than the other.
    pub(crate) fn excess_over(&self, other: &NetworkAccess) -> Vec<HostPattern> {
        let NetworkAccess::Hosts(own) = self else {
            return Vec::new();
        };
        let (held, denied): (&[HostPattern], &[HostPattern]) = match other {
            NetworkAccess::Unrestricted => return Vec::new(),
            NetworkAccess::Denied => (&[], &[]),
            NetworkAccess::Hosts(held) => (held.allowed(), held.denied()),
        };
        own.allowed()
            .iter()
            .filter(|one| !is_named(one, held) || is_denied(one, denied))
            .cloned()
            .collect()
    }

    /// Returns `true` if this host may be talked to on this port.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> bool {
        match self {
            NetworkAccess::Denied => false,
            NetworkAccess::Unrestricted => true,
            NetworkAccess::Hosts(rules) => {
                let names = |pattern: &HostPattern| pattern.matches(host, port);
                !rules.denied().iter().any(names) && rules.allowed().iter().any(names)
            }
        }
    }
}

/// Returns the patterns that are not within another, sorted.
fn widest(patterns: impl IntoIterator<Item = HostPattern>) -> Vec<HostPattern> {
    let mut sorted: Vec<HostPattern> = patterns.into_iter().collect();
    sorted.sort();
    sorted.dedup();
    let is_widest = |one: &&HostPattern| {
        let mut others = sorted.iter().filter(|other| other != one);
        !others.any(|other| one.is_within(other))
    };
    sorted.iter().filter(is_widest).cloned().collect()
}

/// Returns `true` if a pattern of the list names every host of this one.
fn is_named(one: &HostPattern, list: &[HostPattern]) -> bool {
    list.iter().any(|other| one.is_within(other))
}

/// Returns `true` if the deny list leaves no host of this pattern. The loopback is left out, too, if
/// each of its addresses is.
fn is_denied(one: &HostPattern, deny: &[HostPattern]) -> bool {
    let addresses = one.addresses();
    let is_address_denied = |address: &SocketAddr| {
        let (host, port) = (Host::Address(address.ip()), address.port());
        deny.iter().any(|other| other.matches_host(&host, port))
    };
    is_named(one, deny) || (!addresses.is_empty() && addresses.iter().all(is_address_denied))
}

/// Returns `true` if `own` denies each host of the pattern `one` that `others` denies.
fn avoids(one: &HostPattern, own: &HostRules, others: &HostRules) -> bool {
    let mut denied = others.denied().iter();
    denied.all(|deny| match one.meet(deny) {
        Some(both) => is_denied(&both, own.denied()),
        // A denied address holds for the names that lead to it, too.
        None if one.name().is_some() && deny.name().is_none() => {
            is_denied(deny, own.denied()) || leads_nowhere(one, deny, own)
        }
        None => true,
    })
}

/// Returns `true` if the names of a pattern are not connected on the port of a denied address.
fn leads_nowhere(names: &HostPattern, address: &HostPattern, own: &HostRules) -> bool {
    match (names.port(), address.port()) {
        (Some(port), denied) => Some(port) != denied,
        (None, None) => false,
        (None, Some(port)) => HostPattern::parse(&format!("{names}:{port}"))
            .is_ok_and(|on_port| is_named(&on_port, own.denied())),
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |patterns: &[HostPattern]| {
            let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            texts.join(", ")
        };
        match self {
            NetworkAccess::Denied => f.write_str("off"),
            NetworkAccess::Unrestricted => f.write_str("on"),
            NetworkAccess::Hosts(rules) => {
                f.write_str(&list(rules.allowed()))?;
                match rules.denied() {
                    [] => Ok(()),
                    denied => write!(f, " but not {}", list(denied)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let names = ["a.com", "b.a.com", "c.b.a.com", "com", "ba.com", "z.org"];
        let ports = proptest::option::of(prop_oneof![Just(80u16), Just(443)]);
        let name = (
            proptest::sample::select(names.to_vec()),
            any::<bool>(),
            ports,
        )
            .prop_map(|(name, below, port)| {
                let star = if below { "*." } else { "" };
                let port = port.map(|port: u16| format!(":{port}")).unwrap_or_default();
                format!("{star}{name}{port}")
            });
        let addresses = ["127.0.0.1:80", "[::1]:80", "localhost:80", "192.0.2.1:443"];
        let address = proptest::sample::select(addresses.to_vec()).prop_map(str::to_owned);
        prop_oneof![3 => name, 1 => address].prop_map(|text| HostPattern::parse(&text).unwrap())
    }

    fn access() -> impl Strategy<Value = NetworkAccess> {
        let list = |most| proptest::collection::vec(pattern(), 0..most);
        prop_oneof![
            1 => Just(NetworkAccess::Denied),
            1 => Just(NetworkAccess::Unrestricted),
            3 => list(5).prop_map(NetworkAccess::hosts),
            6 => (list(5), list(4))
                .prop_map(|(allow, deny)| NetworkAccess::hosts_except(allow, deny)),
        ]
    }

    /// A host with a port, and the address that its name leads to.
    type Probe = (&'static str, u16, IpAddr);

    /// Enough hosts to tell any two sets of the patterns above apart.
    fn probes() -> Vec<Probe> {
        let names = [
            "com",
            "a.com",
            "x.a.com",
            "b.a.com",
            "x.b.a.com",
            "c.b.a.com",
            "x.c.b.a.com",
            "ba.com",
            "x.ba.com",
            "x.com",
            "z.org",
            "x.z.org",
            "org",
            "A.COM.",
        ];
        let addresses = ["127.0.0.1", "::1", "192.0.2.1", "192.0.2.2"];
        let parsed = addresses.map(|text| (text, text.parse::<IpAddr>().unwrap()));
        let named = names
            .into_iter()
            .flat_map(|name| parsed.map(|(_, address)| (name, address)));
        let on_loopback = parsed[..2]
            .iter()
            .map(|(_, address)| ("localhost", *address));
        named
            .chain(on_loopback)
            .chain(parsed)
            .flat_map(|(host, address)| [80, 443, 8080].map(|port| (host, port, address)))
            .collect()
    }

    /// The hosts that are reached: a denied address is not, whatever name leads to it.
    fn reached(access: &NetworkAccess) -> Vec<Probe> {
        let is_reached = |(host, port, address): &Probe| {
            let address_is_denied = match access {
                NetworkAccess::Hosts(rules) => rules.denied_address(*address, *port).is_some(),
                NetworkAccess::Denied | NetworkAccess::Unrestricted => false,
            };
            access.allows(host, *port) && !address_is_denied
        };
        probes().into_iter().filter(is_reached).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The reference meaning is the set of hosts that are reached.
        #[test]
        fn the_meet_is_the_intersection(a in access(), b in access()) {
            let meet = a.meet(&b);
            let (of_a, of_b) = (reached(&a), reached(&b));
            let both: Vec<_> = of_a.into_iter().filter(|probe| of_b.contains(probe)).collect();
            prop_assert_eq!(reached(&meet), both);
            prop_assert_eq!(&meet, &b.meet(&a));
            prop_assert_eq!(a.meet(&a), a.clone());
            prop_assert!(meet.is_within(&a) && meet.is_within(&b));
        }

        #[test]
        fn within_is_the_subset(a in access(), b in access()) {
            let of_b = reached(&b);
            let subset = reached(&a).iter().all(|probe| of_b.contains(probe));
            prop_assert_eq!(a.is_within(&b), subset, "{} in {}", a, b);
            prop_assert!(!a.asks_beyond(&b) || !subset, "{} asks beyond {}", a, b);
        }

        /// A worker that asks for hosts that its caller names gets them, without those that the caller denies.
        #[test]
        fn a_denial_is_inherited(a in access(), b in access()) {
            let without = |access: &NetworkAccess| match access {
                NetworkAccess::Hosts(rules) => NetworkAccess::hosts(rules.allowed().iter().cloned()),
                other => other.clone(),
            };
            if !without(&a).asks_beyond(&b) {
                prop_assert!(without(&a).is_within(&without(&b)));
            }
        }
    }

    #[test]
    fn a_denial_of_everything_is_off() {
        let list = |texts: &[&str]| -> Vec<HostPattern> {
            let patterns = texts.iter().map(|text| HostPattern::parse(text).unwrap());
            patterns.collect()
        };
        for (allow, deny, shown) in [
            (&["a.com"][..], &["a.com"][..], "off"),
            (&["b.a.com", "a.com:80"], &["*.a.com", "a.com"], "off"),
            (&["127.0.0.1:80"], &["localhost:80"], "off"),
            (
                &["localhost:80"],
                &["127.0.0.1:80"],
                "localhost:80 but not 127.0.0.1:80",
            ),
            (&["a.com"], &["a.com:80"], "a.com but not a.com:80"),
            (&["a.com", "b.com"], &["a.com"], "b.com but not a.com"),
            (&[], &["a.com"], "off"),
        ] {
            let access = NetworkAccess::hosts_except(list(allow), list(deny));
            assert_eq!(access.to_string(), shown, "{allow:?} {deny:?}");
        }
    }
}
