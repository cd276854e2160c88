//! The server that a key is for.

use std::fmt;

use sandbox_network::Host;

/// The base URL of a server that a key is for: by HTTPS, or by plain HTTP on the loopback.
///
/// ```
/// use sandbox_config::ServerUrl;
/// let url = ServerUrl::parse("https://api.example.com/v1").unwrap();
/// assert_eq!((url.port(), url.path()), (443, "/v1"));
/// assert!(ServerUrl::parse("http://127.0.0.1:8080").is_ok());
/// // The key would be readable on the way.
/// assert!(ServerUrl::parse("http://example.com").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    host: Host,
    port: u16,
    is_https: bool,
    path: String,
}

impl ServerUrl {
    /// Parses a base URL. It has no user name, no query and no fragment.
    ///
    /// # Errors
    /// The text is not one, or it names another host without TLS; with the reason, which does not
    /// repeat the text.
    pub fn parse(text: &str) -> Result<ServerUrl, &'static str> {
        let (is_https, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err("it is not an https URL"),
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
        if authority.contains('@') || !rest.bytes().all(is_plain) {
            return Err("it has more than a host and a path");
        }
        let named = Host::parse_with_optional_port(authority);
        let (host, port) = named.map_err(|_| "it does not name a valid host")?;
        let is_loopback = match &host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name.is_localhost(),
        };
        if !is_https && !is_loopback {
            return Err("it is neither https nor on the loopback");
        }
        Ok(ServerUrl {
            host,
            port: port.unwrap_or(if is_https { 443 } else { 80 }),
            is_https,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    sandbox_names::getters! {
        /// Returns the host.
        pub host: &Host = &host;
        /// Returns the port.
        pub port: u16 = port;
        /// Returns `true` if it is reached by HTTPS.
        pub is_https: bool = is_https;
        /// Returns the path, without a `/` at its end.
        pub path: &str = &path;
    }
}

/// Returns `true` for `https://`, a host name in lower case and maybe a port. A name with other letters
/// is in its ASCII form, as a browser shows it where it could be mistaken for another one.
///
/// ```
/// use sandbox_config::is_origin;
/// assert!(is_origin("https://login.example.com") && is_origin("https://example.com:8443"));
/// assert!(!is_origin("https://example.com/") && !is_origin("http://example.com"));
/// ```
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    rest.is_some_and(|rest| !rest.ends_with(':') && rest.bytes().all(is_plain))
        && ServerUrl::parse(text).is_ok_and(|url| url.port() > 0)
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(
            f,
            "{scheme}://{}{}",
            self.host.with_port(self.port),
            self.path
        )
    }
}
