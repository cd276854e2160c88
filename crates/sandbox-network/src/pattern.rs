//! A pattern of hosts: a name, all names below one at any depth (`*.example.com`, which is not
//! `example.com` itself), one address and port, or a port of the host's loopback.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::host::{Host, HostError, HostName, is_below, parse_ipv6, split_port};

/// A host, or all hosts below a name, on one port or on any; or one address with its port.
///
/// ```
/// use sandbox_network::HostPattern;
/// let pattern = HostPattern::parse("*.Example.com:443").unwrap();
/// assert_eq!(pattern.to_string(), "*.example.com:443");
/// assert!(pattern.matches("a.b.example.com", 443));
/// assert!(!pattern.matches("example.com", 443));
/// assert!(HostPattern::parse("https://example.com").is_err());
///
/// // The loopback of the host, by name.
/// let database = HostPattern::parse("localhost:5432").unwrap();
/// assert!(database.matches("127.0.0.1", 5432) && database.matches("::1", 5432));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    subject: Subject,
    /// Always one for addresses and the loopback.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Subject {
    Name(HostName),
    /// `*.`: the names below, not this one.
    Below(HostName),
    Address(IpAddr),
    /// The name `localhost`, 127.0.0.1 and ::1.
    Loopback,
}

pub(crate) const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

const EXAMPLES: &str = "write `example.com`, `*.example.com` or `example.com:443`";

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// It is a URL, an address without a port or in an unusual spelling, a name that no resolver
    /// takes, or a `*` elsewhere than in front.
    pub fn parse(text: &str) -> Result<HostPattern, HostError> {
        if text.is_empty() {
            return Err(HostError::new("it is empty", EXAMPLES));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(url(scheme, rest));
        }
        if text.contains('/') {
            let help = "write the host alone: paths cannot be told apart from outside";
            return Err(HostError::new("it has a path", help));
        }
        if text.contains('@') {
            return Err(HostError::new("it has a user name", "write the host alone"));
        }
        let (host, port) = split_port(text)?;
        let subject = parse_subject(host)?;
        if port.is_none() {
            match subject {
                Subject::Name(_) | Subject::Below(_) => {}
                Subject::Address(address) => return Err(address_without_port(address)),
                Subject::Loopback => return Err(machine_itself()),
            }
        }
        Ok(HostPattern { subject, port })
    }

    /// Returns the pattern that names this host on this port and nothing else. `None` for a host
    /// that no pattern can name, such as a multicast address.
    #[must_use]
    pub fn exactly(host: &Host, port: u16) -> Option<HostPattern> {
        HostPattern::parse(&host.with_port(port)).ok()
    }

    /// Returns `true` if a host is meant, on this port. Case and a final dot do not matter.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        Host::parse(host).is_ok_and(|host| self.matches_host(&host, port))
    }

    /// Returns `true` if the host is meant, on this port.
    #[must_use]
    pub fn matches_host(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|own| own == port) && self.names(host)
    }

    /// Returns `true` if the host is meant on some port.
    #[must_use]
    pub fn names(&self, host: &Host) -> bool {
        match (&self.subject, host) {
            (Subject::Name(own), Host::Name(name)) => own == name,
            (Subject::Below(above), Host::Name(name)) => is_below(name.as_str(), above.as_str()),
            (Subject::Address(own), Host::Address(address)) => own == address,
            (Subject::Loopback, Host::Address(address)) => LOOPBACK.contains(address),
            (Subject::Loopback, Host::Name(name)) => name.as_str() == "localhost",
            (Subject::Name(_) | Subject::Below(_), Host::Address(_))
            | (Subject::Address(_), Host::Name(_)) => false,
        }
    }

    /// Returns the name; for `*.name` the part after the `*.`. `None` for addresses and the
    /// loopback.
    #[must_use]
    pub fn name(&self) -> Option<&HostName> {
        match &self.subject {
            Subject::Name(name) | Subject::Below(name) => Some(name),
            Subject::Address(_) | Subject::Loopback => None,
        }
    }

    /// Returns the addresses that it names: one, two for the loopback, none for names.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.port.unwrap_or_default();
        match &self.subject {
            Subject::Name(_) | Subject::Below(_) => Vec::new(),
            Subject::Address(address) => vec![SocketAddr::new(*address, port)],
            Subject::Loopback => LOOPBACK
                .map(|address| SocketAddr::new(address, port))
                .to_vec(),
        }
    }

    /// Returns the only port; `None`: any.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns `true` if it names only hosts that the other names.
    #[must_use]
    pub fn is_within(&self, other: &HostPattern) -> bool {
        let within_subject = match (&self.subject, &other.subject) {
            (Subject::Name(own), Subject::Below(above)) => is_below(own.as_str(), above.as_str()),
            (Subject::Below(own), Subject::Below(above)) => {
                own == above || is_below(own.as_str(), above.as_str())
            }
            (Subject::Address(own), Subject::Loopback) => LOOPBACK.contains(own),
            (own, others) => own == others,
        };
        within_subject && (other.port.is_none() || self.port == other.port)
    }

    /// Returns the hosts that both name. Two patterns have one pattern in common, or nothing: names
    /// nest, and ports are equal or any.
    #[must_use]
    pub fn meet(&self, other: &HostPattern) -> Option<HostPattern> {
        let port = match (self.port, other.port) {
            (Some(own), Some(others)) if own != others => return None,
            (own, others) => own.or(others),
        };
        let of_any_port = |pattern: &HostPattern| HostPattern {
            port: None,
            ..pattern.clone()
        };
        let (own, others) = (of_any_port(self), of_any_port(other));
        let narrower = if own.is_within(&others) {
            own
        } else if others.is_within(&own) {
            others
        } else {
            return None;
        };
        Some(HostPattern { port, ..narrower })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Name(name) => write!(f, "{name}")?,
            Subject::Below(name) => write!(f, "*.{name}")?,
            Subject::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Subject::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Subject::Loopback => f.write_str("localhost")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn parse_subject(host: &str) -> Result<Subject, HostError> {
    if let Some(inner) = host.strip_prefix('[') {
        return ipv6(inner.strip_suffix(']').unwrap_or(inner));
    }
    if host.contains(':') {
        return Err(HostError::new(
            "it has several colons",
            "write an IPv6 address in brackets and its port: `[::1]:5432`",
        ));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return of_one_host(address.into());
    }
    if host == "*" {
        let help = "write `network: true` for every host";
        return Err(HostError::new("it names every host", help));
    }
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    if name.contains('*') {
        let help = "`*` stands for whole names in front only: `*.example.com`";
        return Err(HostError::new("`*` stands inside the name", help));
    }
    let name = HostName::parse(name)?;
    if name.as_str() == "localhost" && !below {
        return Ok(Subject::Loopback);
    }
    if name.is_localhost() {
        return Err(machine_itself());
    }
    Ok(if below {
        Subject::Below(name)
    } else {
        Subject::Name(name)
    })
}

fn ipv6(text: &str) -> Result<Subject, HostError> {
    let address = parse_ipv6(text)?;
    match address.to_ipv4_mapped() {
        Some(mapped) => Err(HostError::new(
            "it is an IPv4 address inside an IPv6 address",
            format!("write the IPv4 address: `{mapped}:5432`"),
        )),
        None => of_one_host(address.into()),
    }
}

/// Refuses addresses of no host or of several. Systems connect 0.0.0.0 to the loopback.
fn of_one_host(address: IpAddr) -> Result<Subject, HostError> {
    let several = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    if several || address.is_unspecified() || address.is_multicast() {
        return Err(HostError::new(
            "it is not the address of one host",
            "write the address of the host itself: `127.0.0.1:5432`",
        ));
    }
    Ok(Subject::Address(address))
}

fn address_without_port(address: IpAddr) -> HostError {
    let example = SocketAddr::new(address, 5432);
    HostError::new(
        "it is an address without a port",
        format!("write the port too: `{example}`"),
    )
}

fn machine_itself() -> HostError {
    HostError::new(
        "it is the machine itself",
        "write `localhost` with one port: `localhost:5432`; commands have a loopback of their own",
    )
}

fn url(scheme: &str, rest: &str) -> HostError {
    let host = rest.split(['/', ':', '?', '#']).next().unwrap_or_default();
    let port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    let help = match HostPattern::parse(host) {
        Ok(host) => format!("write the host alone: `{host}{port}`"),
        Err(_) => EXAMPLES.to_owned(),
    };
    HostError::new("it is a URL", help)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_read_or_refused_with_a_reason() {
        let unusual = Err("it is an address in an unusual spelling");
        for (text, read) in [
            ("example.com", Ok("example.com")),
            ("EXAMPLE.com:443", Ok("example.com:443")),
            ("example.com.:443", Ok("example.com:443")),
            ("*.a-b.example.com", Ok("*.a-b.example.com")),
            ("xn--mnchen-3ya.de", Ok("xn--mnchen-3ya.de")),
            ("München.de", Ok("xn--mnchen-3ya.de")),
            ("*.münchen.de:80", Ok("*.xn--mnchen-3ya.de:80")),
            ("proxy", Ok("proxy")),
            ("*.com", Ok("*.com")),
            ("example.com.", Ok("example.com")),
            ("a_b.com", Ok("a_b.com")),
            ("127.0.0.1:5432", Ok("127.0.0.1:5432")),
            ("[::1]:5432", Ok("[::1]:5432")),
            ("[0:0::1]:5432", Ok("[::1]:5432")),
            ("169.254.169.254:80", Ok("169.254.169.254:80")),
            ("localhost:5432", Ok("localhost:5432")),
            ("LOCALHOST.:5432", Ok("localhost:5432")),
            ("", Err("it is empty")),
            ("*", Err("it names every host")),
            ("*:443", Err("it names every host")),
            ("https://example.com", Err("it is a URL")),
            ("example.com/path", Err("it has a path")),
            ("10.0.0.0/8", Err("it has a path")),
            ("me@example.com", Err("it has a user name")),
            ("127.0.0.1", Err("it is an address without a port")),
            ("[::1]", Err("it is an address without a port")),
            ("::1", Err("it has several colons")),
            ("::1:80", Err("it has several colons")),
            ("0x7f.1", unusual),
            ("0x7f.1:80", unusual),
            ("0x7f000001", unusual),
            ("2130706433:80", unusual),
            ("127.1:80", unusual),
            ("127.0.0.01:80", unusual),
            ("*.1", unusual),
            (
                "[fe80::1%eth0]:80",
                Err("`fe80::1%eth0` is not an IPv6 address"),
            ),
            (
                "[::ffff:127.0.0.1]:80",
                Err("it is an IPv4 address inside an IPv6 address"),
            ),
            ("[127.0.0.1]:80", Err("`127.0.0.1` is not an IPv6 address")),
            ("0.0.0.0:80", Err("it is not the address of one host")),
            ("[::]:80", Err("it is not the address of one host")),
            ("224.0.0.1:80", Err("it is not the address of one host")),
            (
                "255.255.255.255:80",
                Err("it is not the address of one host"),
            ),
            ("localhost", Err("it is the machine itself")),
            ("*.localhost:80", Err("it is the machine itself")),
            ("a.localhost:80", Err("it is the machine itself")),
            ("a.*.com", Err("`*` stands inside the name")),
            ("*a.com", Err("`*` stands inside the name")),
            ("*.*.com", Err("`*` stands inside the name")),
            ("*.", Err("`` is not a part of a host's name")),
            ("a..b", Err("`` is not a part of a host's name")),
            ("-a.com", Err("`-a` is not a part of a host's name")),
            ("a b.com", Err("`a b` is not a part of a host's name")),
            ("a\0.com", Err("`a\\0` is not a part of a host's name")),
            ("example.com:", Err("`` is not a port")),
            ("example.com:0", Err("`0` is not a port")),
            ("example.com:080", Err("`080` is not a port")),
            ("example.com:+80", Err("`+80` is not a port")),
            ("example.com:65536", Err("`65536` is not a port")),
            ("example.com:https", Err("`https` is not a port")),
            ("example.com:*", Err("`*` is not a port")),
        ] {
            let parsed = HostPattern::parse(text).map(|pattern| pattern.to_string());
            let parsed = parsed.map_err(|error| error.to_string());
            assert_eq!(parsed.as_deref().map_err(String::as_str), read, "{text:?}");
        }
        assert!(HostPattern::parse(&format!("{}.com", "a".repeat(64))).is_err());
        assert!(HostPattern::parse(&["a"; 130].join(".")).is_err());
    }

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let hosts = [
            "a.com",
            "b.a.com",
            "com",
            "ba.com",
            "*.a.com",
            "*.b.a.com",
            "*.com",
            "*.ba.com",
        ];
        let ports = ["", ":80", ":443"];
        let with_port = [
            "127.0.0.1",
            "127.0.0.2",
            "[::1]",
            "[fd00::1]",
            "localhost",
            "10.0.0.1",
        ];
        let names = (
            proptest::sample::select(hosts.to_vec()),
            proptest::sample::select(ports.to_vec()),
        );
        let addresses = (
            proptest::sample::select(with_port.to_vec()),
            proptest::sample::select(ports[1..].to_vec()),
        );
        prop_oneof![names, addresses]
            .prop_map(|(host, port)| HostPattern::parse(&format!("{host}{port}")).unwrap())
    }

    /// Enough hosts to tell any two sets of the patterns above apart.
    fn reached(pattern: &HostPattern) -> Vec<(&'static str, u16)> {
        let hosts = [
            "com",
            "a.com",
            "x.a.com",
            "b.a.com",
            "x.b.a.com",
            "ba.com",
            "x.ba.com",
            "x.com",
            "z.org",
            "localhost",
            "x.localhost",
            "127.0.0.1",
            "127.0.0.2",
            "::1",
            "fd00::1",
            "10.0.0.1",
        ];
        hosts
            .into_iter()
            .flat_map(|host| [80, 443, 8080].map(|port| (host, port)))
            .filter(|(host, port)| pattern.matches(host, *port))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_pattern_that_is_shown_is_read_again(one in pattern()) {
            prop_assert_eq!(HostPattern::parse(&one.to_string()), Ok(one));
        }

        #[test]
        fn the_meet_is_the_intersection(a in pattern(), b in pattern()) {
            let both: Vec<_> = reached(&a).into_iter().filter(|probe| reached(&b).contains(probe)).collect();
            let meet = a.meet(&b);
            prop_assert_eq!(meet.as_ref().map(reached).unwrap_or_default(), both);
            prop_assert_eq!(&meet, &b.meet(&a));
            prop_assert!(meet.is_none_or(|meet| meet.is_within(&a) && meet.is_within(&b)));
        }

        #[test]
        fn within_is_the_subset(a in pattern(), b in pattern()) {
            let subset = reached(&a).iter().all(|probe| reached(&b).contains(probe));
            prop_assert_eq!(a.is_within(&b), subset);
            prop_assert_eq!(a.is_within(&b), a.meet(&b).as_ref() == Some(&a));
        }

        #[test]
        fn nothing_panics(text in "[a-z0-9.*:/@\\[\\]\\-é% ]{0,20}|\\PC{0,20}") {
            if let Ok(pattern) = HostPattern::parse(&text) {
                prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
            }
        }
    }
}
