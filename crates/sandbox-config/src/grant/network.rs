//! The hosts that commands may reach, as a set: none, some, all. The meet is the intersection, so a
//! chain of grants can only lose hosts.
//!
//! A [`HostPattern`] is a name or all names below one, with one port or any.

use sandbox_network::HostPattern;
use std::fmt;

/// Whether commands may talk to the network.
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
    /// These hosts; never empty, sorted, none within another.
    Hosts(Vec<HostPattern>),
    /// As the host does.
    Unrestricted,
}

impl NetworkAccess {
    /// Returns a list of hosts; an empty list is [`Denied`](Self::Denied).
    #[must_use]
    pub fn hosts(patterns: impl IntoIterator<Item = HostPattern>) -> NetworkAccess {
        let mut sorted: Vec<HostPattern> = patterns.into_iter().collect();
        sorted.sort();
        sorted.dedup();
        let kept: Vec<HostPattern> = sorted
            .iter()
            .filter(|one| {
                let within_another = |other: &&HostPattern| other != one && one.is_within(other);
                !sorted.iter().any(|other| within_another(&other))
            })
            .cloned()
            .collect();
        if kept.is_empty() {
            NetworkAccess::Denied
        } else {
            NetworkAccess::Hosts(kept)
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
                    .iter()
                    .flat_map(|one| others.iter().map(move |other| one.meet(other)));
                NetworkAccess::hosts(pairs.flatten())
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
            (NetworkAccess::Hosts(_), NetworkAccess::Hosts(_)) => {
                self.excess_over(other).is_empty()
            }
        }
    }

    /// The patterns that reach further than the other.
    pub(crate) fn excess_over(&self, other: &NetworkAccess) -> Vec<HostPattern> {
        let NetworkAccess::Hosts(own) = self else {
            return Vec::new();
        };
        let held: &[HostPattern] = match other {
            NetworkAccess::Unrestricted => return Vec::new(),
            NetworkAccess::Denied => &[],
            NetworkAccess::Hosts(held) => held,
        };
        // Several patterns together reach no more than each: they would need all 65 535 ports.
        own.iter()
            .filter(|one| !held.iter().any(|other| one.is_within(other)))
            .cloned()
            .collect()
    }

    /// Returns `true` if this host may be talked to on this port.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> bool {
        match self {
            NetworkAccess::Denied => false,
            NetworkAccess::Unrestricted => true,
            NetworkAccess::Hosts(patterns) => {
                patterns.iter().any(|pattern| pattern.matches(host, port))
            }
        }
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkAccess::Denied => f.write_str("off"),
            NetworkAccess::Unrestricted => f.write_str("on"),
            NetworkAccess::Hosts(patterns) => {
                let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let names = ["a.com", "b.a.com", "c.b.a.com", "com", "ba.com", "z.org"];
        let ports = proptest::option::of(prop_oneof![Just(80u16), Just(443)]);
        (
            proptest::sample::select(names.to_vec()),
            any::<bool>(),
            ports,
        )
            .prop_map(|(name, below, port)| {
                let star = if below { "*." } else { "" };
                let port = port.map(|port: u16| format!(":{port}")).unwrap_or_default();
                HostPattern::parse(&format!("{star}{name}{port}")).unwrap()
            })
    }

    fn access() -> impl Strategy<Value = NetworkAccess> {
        prop_oneof![
            1 => Just(NetworkAccess::Denied),
            1 => Just(NetworkAccess::Unrestricted),
            6 => proptest::collection::vec(pattern(), 0..5).prop_map(NetworkAccess::hosts),
        ]
    }

    /// Enough hosts to tell any two sets of the patterns above apart.
    fn probes() -> impl Iterator<Item = (&'static str, u16)> {
        let hosts = [
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
        hosts
            .into_iter()
            .flat_map(|host| [80, 443, 8080].map(|port| (host, port)))
    }

    fn reached(access: &NetworkAccess) -> Vec<(&'static str, u16)> {
        probes()
            .filter(|(host, port)| access.allows(host, *port))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The reference meaning is the set of hosts that are reached.
        #[test]
        fn the_meet_is_the_intersection(a in access(), b in access()) {
            let both: Vec<_> = reached(&a).into_iter().filter(|probe| reached(&b).contains(probe)).collect();
            prop_assert_eq!(reached(&a.meet(&b)), both);
            prop_assert_eq!(a.meet(&b), b.meet(&a));
            prop_assert_eq!(a.meet(&a), a.clone());
            prop_assert!(a.meet(&b).is_within(&a));
        }

        #[test]
        fn within_is_the_subset(a in access(), b in access()) {
            let subset = reached(&a).iter().all(|probe| reached(&b).contains(probe));
            prop_assert_eq!(a.is_within(&b), subset);
            prop_assert_eq!(a.is_within(&b), a.meet(&b) == a);
        }
    }
}
