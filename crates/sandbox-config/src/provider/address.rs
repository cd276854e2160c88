//! `base_url`, checked by its text alone. Only one reading of it may exist, so everything that a
//! URL may have and an endpoint does not need is refused: a password, a query, a fragment, dots.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A URL that can be an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EndpointUrl {
    /// Without a slash at its end.
    pub(crate) text: String,
    /// Any host on the way can read the traffic.
    pub(crate) is_open: bool,
}

/// Longer than any endpoint's.
const MAX_BYTES: usize = 1_024;

/// Parses it, or returns the mistake.
pub(crate) fn parse(text: &str) -> Result<EndpointUrl, &'static str> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 1024 bytes");
    }
    let (secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err("it does not begin with `https://` or `http://`"),
    };
    let (place, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if place.contains('@') {
        return Err("it holds a user or a password; keys are named by `api_key_env`");
    }
    let loopback = is_loopback(host(place)?);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~/+:=@-".contains(c);
    // `%2e%2e` is `..` to a server that decodes first, and a name to one that does not.
    if path.contains('%') {
        return Err("its path holds a percent sign");
    }
    if !path.chars().all(plain) {
        return Err("its path holds a character that endpoints do not have");
    }
    if path.split('/').any(|part| part == "." || part == "..") {
        return Err("its path holds dots");
    }
    Ok(EndpointUrl {
        text: text.trim_end_matches('/').to_owned(),
        is_open: !secure && !loopback,
    })
}

/// The host of `host:port`.
fn host(place: &str) -> Result<&str, &'static str> {
    const NO_HOST: &str = "it names no host";
    const NO_PORT: &str = "its port is not a number from 1 to 65535";
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or(NO_HOST)?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(NO_HOST);
            }
            let port = match behind {
                "" => None,
                behind => Some(behind.strip_prefix(':').ok_or(NO_PORT)?),
            };
            (host, port)
        }
        None => {
            let (host, port) = match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            };
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let begins = |c: char| c.is_ascii_alphanumeric();
            if !host.starts_with(begins) || !host.chars().all(fits) || host.contains("..") {
                return Err(NO_HOST);
            }
            (host, port)
        }
    };
    let digits = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    if port.is_some_and(|port| !digits(port) || !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err(NO_PORT);
    }
    Ok(host)
}

/// Only spellings that every resolver reads as this host: no shortened or octal addresses.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
        || host.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, open) in [
            ("https://api.example.com/v1", false),
            ("https://api.example.com:8443", false),
            ("https://[2001:db8::1]:8443/v1", false),
            ("http://127.0.0.1:11434/v1", false),
            ("http://127.8.9.1", false),
            ("http://localhost:8080/v1", false),
            ("http://LOCALHOST", false),
            ("http://[::1]:8080/v1", false),
            ("http://api.example.com/v1", true),
            ("http://localhost.example.com", true),
            ("http://127.1/v1", true),
            ("http://0x7f.0.0.1/v1", true),
            ("http://127.0.0.1.example.com", true),
            ("http://0.0.0.0:8080", true),
            ("http://[::ffff:127.0.0.1]/", true),
        ] {
            let address = parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            assert_eq!(address.is_open, open, "{text}");
            assert_eq!(address.text, text.trim_end_matches('/'));
        }
        for text in [
            "",
            "api.example.com",
            "ftp://example.com",
            "HTTPS://example.com",
            "https://",
            "https:///v1",
            "https://:443",
            "https://user:pass@example.com",
            "https://127.0.0.1@example.com/",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:+1",
            "https://example.com:",
            "https://[::1",
            "https://[localhost]/",
            "https://example.com/v1?key=1",
            "https://example.com/v1#x",
            "https://example.com/../v1",
            "https://example.com/%2e%2e/v1",
            "https://example.com/a/.%2E/v1",
            "https://example.com/a%2fb",
            "https://example.com/%252e/v1",
            "https://exa mple.com",
            "https://example.com\\@evil.com",
            "https://ex\u{e4}mple.com",
            "https://example.com\n",
            "https://-x.com",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
