//! Names and addresses of hosts as strict types. [`Host::parse`] reads everything that clients send;
//! a [`HostName`] never holds an address, whatever its spelling.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

/// RFC 1035, section 2.3.4: 255 octets on the wire are 253 characters in text.
pub(crate) const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Folding shortens a text by less than four times, so a longer one cannot become a name.
const MAX_TEXT: usize = 4 * MAX_NAME;

/// The reason why a host or a pattern of hosts cannot be read, and its correction.
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
    pub(crate) fn new(why: impl Into<String>, help: impl Into<String>) -> HostError {
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

/// A name of a host: ASCII, lower case, without a final dot.
///
/// International names are folded to their ASCII form (UTS 46), so that two spellings of one name
/// are equal and two names that only look alike are not:
///
/// ```
/// use sandbox_network::HostName;
/// assert_eq!(HostName::parse("Bücher.Example.").unwrap().as_str(), "xn--bcher-kva.example");
/// assert_ne!(HostName::parse("аpple.com").unwrap(), HostName::parse("apple.com").unwrap());
/// assert!(HostName::parse("127.1").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

/// Domains of private networks: RFC 6761, 6762 and 8375, `internal` (ICANN, 2024), RFC 6762, appendix
/// G, and names that ICANN gives nobody (2018).
#[rustfmt::skip]
const PRIVATE_DOMAINS: [&str; 11] = [
    "corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost",
    "mail", "private",
];

impl HostName {
    /// Parses a name.
    ///
    /// Letters, digits, inner hyphens and underscores make up labels of 1 to 63 characters.
    /// Underscores are not for names of machines (RFC 952), but the domain name system allows them
    /// (RFC 2181, section 11) and programs connect to such names.
    ///
    /// # Errors
    /// The text is empty or too long, has other characters, or resolvers read it as an address.
    pub fn parse(text: &str) -> Result<HostName, HostError> {
        let folded = fold(text)?;
        let name = folded.strip_suffix('.').unwrap_or(&folded);
        check_labels(name)?;
        Ok(HostName(name.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `true` for `localhost` and the names below it, which never leave the machine (RFC 6761,
    /// section 6.3).
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        *self.0 == *"localhost" || is_below(&self.0, "localhost")
    }

    /// `true` for names that are common in private networks: those without a dot, and those below
    /// domains that the public name system does not have. Other names can lead there too.
    ///
    /// ```
    /// use sandbox_network::HostName;
    /// assert!(HostName::parse("intranet").unwrap().is_private());
    /// assert!(HostName::parse("metadata.google.internal").unwrap().is_private());
    /// assert!(!HostName::parse("local.example.com").unwrap().is_private());
    /// ```
    #[must_use]
    pub fn is_private(&self) -> bool {
        !self.0.contains('.') || PRIVATE_DOMAINS.iter().any(|above| is_below(&self.0, above))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host as a client names it.
///
/// ```
/// use sandbox_network::Host;
/// assert!(matches!(Host::parse("Example.com"), Ok(Host::Name(_))));
/// assert!(matches!(Host::parse("[::1]"), Ok(Host::Address(_))));
/// assert!(Host::parse("0x7f.1").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name, which has to be resolved.
    Name(HostName),
    /// An address that the client wrote itself.
    Address(IpAddr),
}

impl Host {
    /// Parses a name or an address; an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// The text is neither. Addresses have one spelling: four plain numbers, or RFC 4291 without a
    /// zone.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').unwrap_or("");
            return parse_ipv6(inner).map(|address| Host::from(IpAddr::from(address)));
        }
        if text.contains(':') {
            return parse_ipv6(text).map(|address| Host::from(IpAddr::from(address)));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        HostName::parse(text).map(Host::Name)
    }

    /// Parses `host:port`, the port included (RFC 9110, section 7.2, without its default).
    ///
    /// # Errors
    /// The host or the port is missing or invalid.
    pub fn parse_with_port(text: &str) -> Result<(Host, u16), HostError> {
        let (host, port) = split_port(text)?;
        let missing = || HostError::new("it has no port", "write `host:port`");
        Ok((Host::parse(host)?, port.ok_or_else(missing)?))
    }

    /// Parses `host` or `host:port`.
    ///
    /// # Errors
    /// The host or the port is invalid.
    pub fn parse_with_optional_port(text: &str) -> Result<(Host, Option<u16>), HostError> {
        let (host, port) = split_port(text)?;
        Ok((Host::parse(host)?, port))
    }

    /// Returns the name, unless it is an address.
    #[must_use]
    pub fn as_name(&self) -> Option<&HostName> {
        match self {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }

    /// Returns `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Host::Name(name) => format!("{name}:{port}"),
            Host::Address(address) => std::net::SocketAddr::new(*address, port).to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(f),
            Host::Address(address) => address.fmt(f),
        }
    }
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Host {
        Host::Name(name)
    }
}

impl From<IpAddr> for Host {
    /// An IPv4 address inside an IPv6 address is the IPv4 address, as rules spell it.
    fn from(address: IpAddr) -> Host {
        Host::Address(address.to_canonical())
    }
}

/// Splits `host:port`, `[v6]:port` and the two without a port. An IPv6 address without brackets has
/// no port.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((_, after)) = rest.split_once(']') else {
            return Err(HostError::new(
                "its bracket is not closed",
                "write `[::1]:5432`",
            ));
        };
        let host = &text[..text.len() - after.len()];
        return match after.strip_prefix(':') {
            None if after.is_empty() => Ok((host, None)),
            None => Err(HostError::new(
                "characters follow the bracket",
                "write `[::1]:5432`",
            )),
            Some(port) => Ok((host, Some(parse_port(port)?))),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(parse_port(port)?))),
        None => Ok((text, None)),
    }
}

/// `true` if the first name is below the second, at any depth.
pub(crate) fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

pub(crate) fn parse_ipv6(text: &str) -> Result<Ipv6Addr, HostError> {
    text.parse::<Ipv6Addr>().map_err(|_| {
        HostError::new(
            format!("`{}` is not an IPv6 address", text.escape_debug()),
            "write `[::1]:5432`, without a zone",
        )
    })
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
            format!("`{}` is not a port", text.escape_debug()),
            "a port is a number from 1 to 65535; leave it out for every port",
        )),
    }
}

/// Returns the text in lower case and, if it is international, in its ASCII form.
fn fold(text: &str) -> Result<String, HostError> {
    if text.len() > MAX_TEXT {
        return Err(too_long());
    }
    let lower = text.to_ascii_lowercase();
    let punycode = lower.split('.').any(|label| label.starts_with("xn--"));
    if lower.is_ascii() && !punycode {
        return Ok(lower);
    }
    // `check_labels` refuses other characters than letters, digits, hyphens and underscores afterwards,
    // and the length. Hyphens in the third and fourth place occur in real names.
    let folded = Uts46::new().to_ascii(
        text.as_bytes(),
        AsciiDenyList::EMPTY,
        Hyphens::Allow,
        DnsLength::Ignore,
    );
    let not_international = |_| {
        HostError::new(
            "it is not a valid international name",
            "write it as a browser shows it, or in its ASCII form `xn--…`",
        )
    };
    folded
        .map(|name| name.to_ascii_lowercase())
        .map_err(not_international)
}

fn check_labels(name: &str) -> Result<(), HostError> {
    if name.len() > MAX_NAME {
        return Err(too_long());
    }
    let mut last = "";
    for label in name.split('.') {
        let fits = (1..=MAX_LABEL).contains(&label.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !fits || !label.chars().all(plain) || label.starts_with('-') || label.ends_with('-') {
            return Err(HostError::new(
                format!("`{}` is not a part of a host's name", label.escape_debug()),
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
        return Err(HostError::new(
            "it is an address in an unusual spelling",
            "write four plain numbers and a port: `127.0.0.1:5432`",
        ));
    }
    Ok(())
}

fn too_long() -> HostError {
    let why = format!("it is longer than {MAX_NAME} characters");
    HostError::new(why, "no host has such a name")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_are_read_or_refused() {
        for (text, read) in [
            ("example.com", Some("example.com")),
            ("EXAMPLE.com.", Some("example.com")),
            ("a_b.example.com", Some("a_b.example.com")),
            ("r3---sn-a.example.com", Some("r3---sn-a.example.com")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("BÜCHER。example", Some("xn--bcher-kva.example")),
            ("XN--BCHER-KVA.example", Some("xn--bcher-kva.example")),
            ("exam\u{ad}ple.com", Some("example.com")),
            ("аpple.com", Some("xn--pple-43d.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("localhost", Some("localhost")),
            ("", None),
            (".", None),
            ("a..b", None),
            ("example.com..", None),
            ("127.1", None),
            ("127.0.0.01", None),
            ("0x7f.0.0.1", None),
            ("0x7f000001", None),
            ("0x", None),
            ("2130706433", None),
            ("１２７.0.0.1", None),
            ("[::1", None),
            ("[]", None),
            ("[127.0.0.1]", None),
            ("fe80::1%eth0", None),
            ("a\0.com", None),
            ("a\n.com", None),
            ("user@example.com", None),
            ("exa／mple.com", None),
            ("xn--a.com", None),
            ("xn--.com", None),
            ("-a.com", None),
        ] {
            let host = Host::parse(text).ok().map(|host| host.to_string());
            assert_eq!(host.as_deref(), read, "{text:?}");
        }
        assert!(Host::parse(&format!("{}.com", "a".repeat(64))).is_err());
        assert!(Host::parse(&["a"; 128].join(".")).is_err());
        assert!(Host::parse(&"é".repeat(100_000)).is_err());
    }

    #[test]
    fn ports_are_split_off() {
        let split = |text: &str| {
            let (host, port) = Host::parse_with_optional_port(text).ok()?;
            Some((host.to_string(), port))
        };
        for (text, read) in [
            ("a.com:80", Some(("a.com", Some(80)))),
            ("a.com", Some(("a.com", None))),
            ("[::1]:80", Some(("::1", Some(80)))),
            ("[::1]", Some(("::1", None))),
            ("::1", Some(("::1", None))),
            ("1.2.3.4:5", Some(("1.2.3.4", Some(5)))),
            ("a.com:", None),
            ("a.com:0", None),
            ("a.com:080", None),
            ("a.com:+80", None),
            ("a.com:65536", None),
            ("[::1]80", None),
            ("a:80:80", None),
            (":80", None),
            ("user@a.com:80", None),
        ] {
            let read = read.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(split(text), read, "{text:?}");
        }
        assert!(Host::parse_with_port("a.com").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_host_that_is_shown_is_read_again(text in "\\PC{0,40}|[a-z0-9.\\-_:\\[\\]]{0,30}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
                prop_assert_eq!(Host::parse_with_port(&host.with_port(80)), Ok((host, 80)));
            }
        }
    }
}
