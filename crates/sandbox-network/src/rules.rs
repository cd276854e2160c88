//! The rules about hosts: a list that allows, a list that denies, and the decision about one host
//! and port. Deny comes before allow, and an empty list allows nothing.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::host::{Host, HostName};
use crate::pattern::HostPattern;

/// Ports of a pattern that does not name one, for clients that know no proxy: ssh, HTTP and TLS.
///
/// A client that speaks to the proxy reaches every port of such a pattern.
pub const DEFAULT_PORTS: [u16; 3] = [22, 80, 443];

/// The decision about a host and a port, with the pattern that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A pattern of the allow list names the host.
    Allowed(HostPattern),
    /// A pattern of the deny list names the host.
    Denied(HostPattern),
    /// No pattern names the host.
    Unlisted,
}

/// The hosts that are allowed and denied.
///
/// ```
/// use sandbox_network::{Decision, Host, HostPattern, HostRules};
/// let patterns = |list: &[&str]| {
///     list.iter().map(|text| HostPattern::parse(text).unwrap()).collect::<Vec<_>>()
/// };
/// let rules = HostRules::new(patterns(&["*.example.com"]), patterns(&["ads.example.com"]));
/// let decide = |host: &str| rules.decide(&Host::parse(host).unwrap(), 443);
/// assert!(matches!(decide("www.example.com"), Decision::Allowed(_)));
/// assert!(matches!(decide("ads.example.com"), Decision::Denied(_)));
/// assert_eq!(decide("example.org"), Decision::Unlisted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    allow: Vec<HostPattern>,
    deny: Vec<HostPattern>,
}

impl HostRules {
    /// Returns rules of these lists.
    #[must_use]
    pub fn new(
        allow: impl IntoIterator<Item = HostPattern>,
        deny: impl IntoIterator<Item = HostPattern>,
    ) -> HostRules {
        HostRules {
            allow: allow.into_iter().collect(),
            deny: deny.into_iter().collect(),
        }
    }

    /// Adds a pattern to the allow list.
    pub fn allow(&mut self, pattern: HostPattern) {
        if !self.allow.contains(&pattern) {
            self.allow.push(pattern);
        }
    }

    /// Returns the allow list.
    #[must_use]
    pub fn allowed(&self) -> &[HostPattern] {
        &self.allow
    }

    /// Returns the deny list.
    #[must_use]
    pub fn denied(&self) -> &[HostPattern] {
        &self.deny
    }

    /// Decides about a host and a port.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        let names = |pattern: &&HostPattern| pattern.matches_host(host, port);
        if let Some(pattern) = self.deny.iter().find(names) {
            return Decision::Denied(pattern.clone());
        }
        match self.allow.iter().find(names) {
            Some(pattern) => Decision::Allowed(pattern.clone()),
            None => Decision::Unlisted,
        }
    }

    /// Decides whether a name is resolved, which happens before its port is known: allowed if some
    /// port may be, denied if a pattern denies all ports.
    #[must_use]
    pub fn decide_name(&self, name: &HostName) -> Decision {
        let host = Host::Name(name.clone());
        let names = |pattern: &&HostPattern| pattern.names(&host);
        let every_port = |pattern: &&HostPattern| pattern.port().is_none();
        if let Some(pattern) = self.deny.iter().filter(every_port).find(names) {
            return Decision::Denied(pattern.clone());
        }
        let has_port_left = |pattern: &&HostPattern| match pattern.port() {
            None => true,
            Some(port) => !matches!(self.decide(&host, port), Decision::Denied(_)),
        };
        match self.allow.iter().filter(names).find(has_port_left) {
            Some(pattern) => Decision::Allowed(pattern.clone()),
            None => match self.deny.iter().find(names) {
                Some(pattern) if self.allow.iter().any(|one| names(&one)) => {
                    Decision::Denied(pattern.clone())
                }
                _ => Decision::Unlisted,
            },
        }
    }

    /// Returns `true` if a pattern of the allow list names this very address and port.
    #[must_use]
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let host = Host::Address(address);
        self.allow
            .iter()
            .any(|pattern| pattern.matches_host(&host, port))
    }

    /// Returns the pattern of the deny list that names this address and port.
    #[must_use]
    pub fn denied_address(&self, address: IpAddr, port: u16) -> Option<&HostPattern> {
        let host = Host::Address(address);
        self.deny
            .iter()
            .find(|pattern| pattern.matches_host(&host, port))
    }

    /// Returns the ports on which names need a listener for clients that know no proxy: those that
    /// patterns name, and [`DEFAULT_PORTS`] for a pattern without one.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<u16> {
        let of_names = self.allow.iter().filter(|pattern| pattern.name().is_some());
        of_names
            .flat_map(|pattern| match pattern.port() {
                Some(port) => vec![port],
                None => DEFAULT_PORTS.to_vec(),
            })
            .collect()
    }

    /// Returns the addresses with ports that patterns name. Each needs a listener of its own for
    /// clients that know no proxy.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        let named = self.allow.iter().flat_map(HostPattern::addresses);
        named
            .filter(|address| self.denied_address(address.ip(), address.port()).is_none())
            .collect()
    }
}

/// The hosts that a person may be asked about: names that no list denies, and that a ceiling allows.
/// An address is not one, because a person cannot tell its owner, and neither is this machine.
///
/// ```
/// use sandbox_network::{AskableHosts, Host, HostPattern, HostRules};
/// let pattern = |text| HostPattern::parse(text).unwrap();
/// let askable = AskableHosts::default()
///     .without([pattern("ads.example.com")])
///     .within(HostRules::new([pattern("*.example.com")], []));
/// let contains = |host| askable.contains(&Host::parse(host).unwrap(), 443);
/// assert!(contains("www.example.com"));
/// assert!(!contains("ads.example.com") && !contains("example.org"));
/// assert!(!AskableHosts::default().contains(&Host::parse("93.184.216.34").unwrap(), 443));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskableHosts {
    denied: Vec<HostPattern>,
    /// Each must allow the host.
    ceilings: Vec<HostRules>,
}

impl AskableHosts {
    /// Returns these hosts without those that further patterns name.
    #[must_use]
    pub fn without(mut self, denied: impl IntoIterator<Item = HostPattern>) -> AskableHosts {
        for pattern in denied {
            if !self.denied.contains(&pattern) {
                self.denied.push(pattern);
            }
        }
        self
    }

    /// Returns those of these hosts that the rules allow.
    #[must_use]
    pub fn within(mut self, rules: HostRules) -> AskableHosts {
        if !self.ceilings.contains(&rules) {
            self.ceilings.push(rules);
        }
        self
    }

    /// Returns the patterns of the hosts that are left out.
    #[must_use]
    pub fn denied(&self) -> &[HostPattern] {
        &self.denied
    }

    /// Returns `true` if a ceiling allows no host at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ceilings.iter().any(|rules| rules.allowed().is_empty())
    }

    /// Returns `true` if a person may be asked about a host and port.
    #[must_use]
    pub fn contains(&self, host: &Host, port: u16) -> bool {
        let is_name = match host {
            Host::Address(_) => false,
            Host::Name(name) => !name.is_localhost(),
        };
        let mut denied = self.denied.iter();
        let mut ceilings = self.ceilings.iter();
        is_name
            && !denied.any(|pattern| pattern.matches_host(host, port))
            && ceilings.all(|rules| matches!(rules.decide(host, port), Decision::Allowed(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> HostRules {
        let read = |list: &[&str]| {
            let patterns = list.iter().map(|text| HostPattern::parse(text).unwrap());
            patterns.collect::<Vec<_>>()
        };
        HostRules::new(read(allow), read(deny))
    }

    fn decide(rules: &HostRules, host: &str) -> String {
        let (host, port) = Host::parse_with_port(host).unwrap();
        match rules.decide(&host, port) {
            Decision::Allowed(pattern) => format!("allow {pattern}"),
            Decision::Denied(pattern) => format!("deny {pattern}"),
            Decision::Unlisted => "unlisted".to_owned(),
        }
    }

    #[test]
    fn deny_comes_before_allow_and_an_empty_list_allows_nothing() {
        let both = rules(
            &["*.a.com", "a.com:443", "localhost:5432", "[fd00::1]:80"],
            &["x.a.com:80", "127.0.0.1:5432"],
        );
        for (host, decision) in [
            ("b.a.com:80", "allow *.a.com"),
            ("a.com:443", "allow a.com:443"),
            ("a.com:80", "unlisted"),
            ("x.a.com:80", "deny x.a.com:80"),
            ("x.a.com:443", "allow *.a.com"),
            ("localhost:5432", "allow localhost:5432"),
            ("127.0.0.1:5432", "deny 127.0.0.1:5432"),
            ("[::1]:5432", "allow localhost:5432"),
            ("[fd00::1]:80", "allow [fd00::1]:80"),
            ("[fd00::1]:81", "unlisted"),
            ("[fd00::2]:80", "unlisted"),
        ] {
            assert_eq!(decide(&both, host), decision, "{host}");
        }
        assert_eq!(decide(&HostRules::default(), "a.com:443"), "unlisted");
        assert_eq!(decide(&rules(&[], &["a.com"]), "b.com:1"), "unlisted");
    }

    #[test]
    fn a_name_is_resolved_if_a_port_is_left() {
        let decide = |allow: &[&str], deny: &[&str]| {
            let name = HostName::parse("a.com").unwrap();
            matches!(rules(allow, deny).decide_name(&name), Decision::Allowed(_))
        };
        assert!(decide(&["a.com"], &[]));
        assert!(decide(&["a.com:8443"], &[]));
        assert!(decide(&["a.com"], &["a.com:80"]));
        assert!(decide(&["a.com:80", "a.com:443"], &["a.com:80"]));
        assert!(!decide(&["a.com:80"], &["a.com:80"]));
        assert!(!decide(&["a.com"], &["*.com"]));
        assert!(!decide(&["*.a.com"], &[]));
        assert!(!decide(&[], &[]));
    }

    #[test]
    fn listeners_are_needed_where_patterns_say() {
        let named = rules(
            &["a.com:8443", "*.b.com:80", "127.0.0.1:5432", "localhost:1"],
            &["[::1]:1"],
        );
        assert_eq!(named.ports().into_iter().collect::<Vec<_>>(), [80, 8443]);
        let addresses = named.addresses().into_iter().map(|one| one.to_string());
        assert_eq!(
            addresses.collect::<Vec<_>>(),
            ["127.0.0.1:1", "127.0.0.1:5432"]
        );
        let without = rules(&["a.com", "b.com:9"], &[]).ports();
        assert_eq!(without.into_iter().collect::<Vec<_>>(), [9, 22, 80, 443]);
        assert!(HostRules::default().ports().is_empty());
    }
}
