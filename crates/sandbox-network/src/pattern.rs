//! A pattern of hosts: a name, or all names below one at any depth (`*.example.com`, which is not
//! `example.com` itself), with one port or any.

use std::fmt;

/// A host, or all hosts below a name; on one port, or on any.
///
/// ```
/// use sandbox_network::HostPattern;
/// let pattern = HostPattern::parse("*.Example.com:443").unwrap();
/// assert_eq!(pattern.to_string(), "*.example.com:443");
/// assert!(pattern.matches("a.b.example.com", 443));
/// assert!(!pattern.matches("example.com", 443));
/// assert!(HostPattern::parse("https://example.com").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPattern {
    /// Lower case, without the `*.`.
    name: String,
    /// `*.`: the names below, not this one.
    below: bool,
    port: Option<u16>,
}

/// Why a host pattern cannot be read, and its correction.
///
/// ```
/// use sandbox_network::HostPattern;
/// let error = HostPattern::parse("https://example.com/x").unwrap_err();
/// assert_eq!(error.to_string(), "it is a URL");
/// assert_eq!(error.help(), "write the host alone: `example.com:443`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct HostError {
    why: String,
    help: String,
}

impl HostError {
    fn new(why: impl Into<String>, help: impl Into<String>) -> HostError {
        HostError {
            why: why.into(),
            help: help.into(),
        }
    }

    /// Returns the correction.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.help
    }
}

const EXAMPLES: &str = "write `example.com`, `*.example.com` or `example.com:443`";
/// RFC 1035, 2.3.4.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

impl HostPattern {
    /// Read a pattern.
    ///
    /// # Errors
    /// It is a URL, an address, a name that no resolver takes, or a `*` elsewhere than in front.
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
        if text.starts_with('[') || text.matches(':').count() > 1 {
            return Err(address());
        }
        let (host, port) = match text.split_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(parse_port(port)?)),
        };
        let host = host.to_ascii_lowercase();
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None if host == "*" => {
                let help = "write `network: true` for every host";
                return Err(HostError::new("it names every host", help));
            }
            None => (false, host.as_str()),
        };
        check_name(name)?;
        Ok(HostPattern {
            name: name.to_owned(),
            below,
            port,
        })
    }

    /// Returns `true` if a host is meant, on this port. Case and a final dot do not matter.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let named = if self.below {
            is_below(&host, &self.name)
        } else {
            host == self.name
        };
        named && self.port.is_none_or(|own| own == port)
    }

    /// Returns the host's name; for `*.name` the part after the `*.`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if the names below are meant instead of the name itself.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.below
    }

    /// Returns the only port; `None`: any.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns `true` if it names only hosts that the other names.
    #[must_use]
    pub fn is_within(&self, other: &HostPattern) -> bool {
        let named = match (self.below, other.below) {
            (false, false) => self.name == other.name,
            (false, true) => is_below(&self.name, &other.name),
            (true, false) => false,
            (true, true) => self.name == other.name || is_below(&self.name, &other.name),
        };
        named && (other.port.is_none() || self.port == other.port)
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
        let star = if self.below { "*." } else { "" };
        match self.port {
            Some(port) => write!(f, "{star}{}:{port}", self.name),
            None => write!(f, "{star}{}", self.name),
        }
    }
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
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

fn address() -> HostError {
    HostError::new(
        "it is an address",
        "name the host: only names are compared, an address cannot be allowed",
    )
}

fn parse_port(text: &str) -> Result<u16, HostError> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|port| *port > 0);
    match port {
        Some(port) if plain && !text.starts_with('0') => Ok(port),
        _ if text == "*" => Err(HostError::new(
            "`*` is not a port",
            "leave the port out for every port",
        )),
        _ => Err(HostError::new(
            format!("`{text}` is not a port"),
            "a port is a number from 1 to 65535; leave it out for every port",
        )),
    }
}

fn check_name(name: &str) -> Result<(), HostError> {
    if name.contains('*') {
        let help = "`*` stands for whole names in front only: `*.example.com`";
        return Err(HostError::new("`*` stands inside the name", help));
    }
    if !name.is_ascii() {
        let help = "write the form that the network uses: `xn--…`";
        return Err(HostError::new("it is not in ASCII", help));
    }
    if let Some(plain) = name.strip_suffix('.') {
        return Err(HostError::new(
            "it ends in a dot",
            format!("write `{plain}`"),
        ));
    }
    if name.len() > MAX_NAME {
        let why = format!("it is longer than {MAX_NAME} characters");
        return Err(HostError::new(why, "no host has such a name"));
    }
    let mut last = "";
    for label in name.split('.') {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let fits = (1..=MAX_LABEL).contains(&label.len());
        if !fits || !label.chars().all(plain) || label.starts_with('-') || label.ends_with('-') {
            return Err(HostError::new(
                format!("`{label}` is not a part of a host's name"),
                "letters, digits and inner hyphens, 1 to 63 of them, between single dots",
            ));
        }
        last = label;
    }
    // Resolvers read `127.1`, `2130706433` and `0x7f.1` as addresses; no top-level name is a number.
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(address());
    }
    if last == "localhost" {
        return Err(HostError::new(
            "it is the machine itself",
            "what listens on this machine cannot be allowed by name; commands have a loopback of their own",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_read_or_refused_with_a_reason() {
        for (text, read) in [
            ("example.com", Ok("example.com")),
            ("EXAMPLE.com:443", Ok("example.com:443")),
            ("*.a-b.example.com", Ok("*.a-b.example.com")),
            ("xn--mnchen-3ya.de", Ok("xn--mnchen-3ya.de")),
            ("proxy", Ok("proxy")),
            ("*.com", Ok("*.com")),
            ("", Err("it is empty")),
            ("*", Err("it names every host")),
            ("*:443", Err("it names every host")),
            ("https://example.com", Err("it is a URL")),
            ("example.com/path", Err("it has a path")),
            ("10.0.0.0/8", Err("it has a path")),
            ("me@example.com", Err("it has a user name")),
            ("127.0.0.1", Err("it is an address")),
            ("127.0.0.1:80", Err("it is an address")),
            ("0x7f.1", Err("it is an address")),
            ("0x7f000001", Err("it is an address")),
            ("2130706433", Err("it is an address")),
            ("::1", Err("it is an address")),
            ("[::1]:80", Err("it is an address")),
            ("*.1", Err("it is an address")),
            ("localhost", Err("it is the machine itself")),
            ("a.localhost:80", Err("it is the machine itself")),
            ("münchen.de", Err("it is not in ASCII")),
            ("example.com.", Err("it ends in a dot")),
            ("a.*.com", Err("`*` stands inside the name")),
            ("*a.com", Err("`*` stands inside the name")),
            ("*.*.com", Err("`*` stands inside the name")),
            ("*.", Err("`` is not a part of a host's name")),
            ("a..b", Err("`` is not a part of a host's name")),
            ("-a.com", Err("`-a` is not a part of a host's name")),
            ("a b.com", Err("`a b` is not a part of a host's name")),
            ("a_b.com", Err("`a_b` is not a part of a host's name")),
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
        let names = ["a.com", "b.a.com", "c.b.a.com", "com", "ba.com", "z.org"];
        let ports = proptest::option::of(prop_oneof![Just(80u16), Just(443)]);
        (
            proptest::sample::select(names.to_vec()),
            any::<bool>(),
            ports,
        )
            .prop_map(|(name, below, port)| HostPattern {
                name: name.to_owned(),
                below,
                port,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_shown_can_be_read(one in pattern()) {
            prop_assert_eq!(HostPattern::parse(&one.to_string()), Ok(one));
        }

        #[test]
        fn nothing_panics(text in "[a-z0-9.*:/@\\[\\]\\-é ]{0,20}") {
            let _ = HostPattern::parse(&text);
        }
    }
}
