//! Keys that stay outside. A client speaks plain HTTP to a listener in its own network and shows a
//! placeholder; the broker puts the key in its place and sends the request to the one server that
//! the key is for. No client sees the key.

mod listener;
mod tls;

use std::fmt;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::host::Host;

pub(super) use listener::serve;
pub(super) use tls::UpstreamTls;

/// Headers in which services expect keys. A client's own are never passed on, so that it cannot use
/// the server with an account of somebody else.
const KEY_HEADERS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Headers that say where a message goes and where it ends.
const OF_A_MESSAGE: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Parameters of a query in which services accept keys.
const KEY_PARAMETERS: [&str; 5] = ["access_token", "api-key", "api_key", "apikey", "key"];

/// A key that a server expects in a header, and the text that clients show in its place.
///
/// ```
/// use sandbox_network::HeaderCredential;
/// let credential = HeaderCredential::new("authorization", "sk-placeholder", "sk-real")?;
/// assert!(!format!("{credential:?}").contains("sk-real"));
/// # Ok::<(), sandbox_network::InvalidCredential>(())
/// ```
#[derive(Clone)]
pub struct HeaderCredential {
    header: HeaderName,
    placeholder: HeaderValue,
    /// As the header has it.
    value: HeaderValue,
    key: String,
}

/// A credential or a server that cannot be used, with the reason. It does not repeat a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCredential(&'static str);

impl HeaderCredential {
    /// Returns a key with its header and placeholder. In `authorization` both follow `Bearer`.
    ///
    /// # Errors
    /// One of them is empty or cannot be sent in a header, or they are the same.
    pub fn new(
        header: &str,
        placeholder: &str,
        key: &str,
    ) -> Result<HeaderCredential, InvalidCredential> {
        let header = HeaderName::from_bytes(header.as_bytes());
        let header = header.map_err(|_| InvalidCredential("the header's name is not valid"))?;
        if OF_A_MESSAGE.contains(&header) {
            return Err(InvalidCredential("the header is not one for keys"));
        }
        if [placeholder, key]
            .iter()
            .any(|text| text.trim().is_empty() || text.trim() != *text)
        {
            return Err(InvalidCredential(
                "the key is empty or begins or ends with a space",
            ));
        }
        if placeholder == key {
            return Err(InvalidCredential("the key is its own placeholder"));
        }
        let value = |text: &str| match header == header::AUTHORIZATION {
            true => HeaderValue::from_str(&format!("Bearer {text}")),
            false => HeaderValue::from_str(text),
        };
        let mut with_key = value(key)
            .map_err(|_| InvalidCredential("the key has characters that no header has"))?;
        with_key.set_sensitive(true);
        let placeholder = value(placeholder);
        let placeholder =
            placeholder.map_err(|_| InvalidCredential("the placeholder is not valid"))?;
        Ok(HeaderCredential {
            placeholder,
            value: with_key,
            key: key.to_owned(),
            header,
        })
    }

    /// `true` if a header contains the key.
    fn is_in(&self, value: &HeaderValue) -> bool {
        let key = self.key.as_bytes();
        value.as_bytes().windows(key.len()).any(|part| part == key)
    }
}

impl fmt::Debug for HeaderCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderCredential")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// The one server that some keys are for.
///
/// ```
/// use sandbox_network::{HeaderCredential, CredentialServer, Host};
/// let host = Host::parse("api.example.com")?;
/// let server = CredentialServer::https(host, 443)
///     .with(HeaderCredential::new("x-api-key", "placeholder", "key")?);
/// // Without TLS a key goes to the host's own loopback only.
/// assert!(CredentialServer::loopback_http(Host::parse("example.com")?, 80).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CredentialServer {
    host: Host,
    port: u16,
    /// `None` on the loopback.
    tls: Option<UpstreamTls>,
    credentials: Vec<HeaderCredential>,
}

impl CredentialServer {
    /// Returns a server that is reached by HTTPS. Its certificate is checked as the system does.
    #[must_use]
    pub fn https(host: Host, port: u16) -> CredentialServer {
        CredentialServer {
            tls: Some(UpstreamTls::new(&host)),
            host,
            port,
            credentials: Vec::new(),
        }
    }

    /// Returns a server on the host's loopback, which is reached by plain HTTP.
    ///
    /// # Errors
    /// The host is not the loopback.
    pub fn loopback_http(host: Host, port: u16) -> Result<CredentialServer, InvalidCredential> {
        let is_loopback = match &host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name.as_str() == "localhost",
        };
        if !is_loopback {
            return Err(InvalidCredential("a key leaves this host by HTTPS only"));
        }
        Ok(CredentialServer {
            host,
            port,
            tls: None,
            credentials: Vec::new(),
        })
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, credential: HeaderCredential) -> CredentialServer {
        self.credentials.push(credential);
        self
    }

    /// Replaces the placeholders of a request by the keys, and removes every other key. `false` if the
    /// request shows no placeholder, or a key of its own in the place of one.
    fn replace_placeholders(&self, headers: &mut HeaderMap) -> bool {
        let mut shown = Vec::new();
        for name in self.credentials.iter().map(|one| &one.header) {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => continue,
                (Some(value), None) => {
                    let of_header = |one: &&HeaderCredential| one.header == *name;
                    let mut known = self.credentials.iter().filter(of_header);
                    match known.find(|one| one.placeholder == *value) {
                        Some(found) => shown.push((name.clone(), found.value.clone())),
                        None => return false,
                    }
                }
                (Some(_), Some(_)) => return false,
            }
        }
        for name in &KEY_HEADERS {
            headers.remove(name);
        }
        let is_shown = !shown.is_empty();
        for (name, value) in shown {
            headers.insert(name, value);
        }
        is_shown
    }

    /// `true` if a request has a header in which this server or others expect keys.
    fn has_key_header(&self, headers: &HeaderMap) -> bool {
        let own = self.credentials.iter().map(|one| &one.header);
        let usual = KEY_HEADERS;
        let mut names = own.chain(&usual);
        names.any(|name| headers.contains_key(name))
    }

    /// Removes the headers of an answer that contain a key.
    fn remove_keys(&self, headers: &mut HeaderMap) {
        let has_key = |value: &HeaderValue| self.credentials.iter().any(|one| one.is_in(value));
        let names: Vec<HeaderName> = headers
            .iter()
            .filter(|(_, value)| has_key(value))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            headers.remove(name);
        }
    }
}

/// A listener in a command's network, and the server behind it.
#[derive(Debug)]
pub struct CredentialListener {
    /// The listener.
    pub listener: std::net::TcpListener,
    /// The server and its keys.
    pub server: Arc<CredentialServer>,
}

/// `true` if a query has a parameter for keys.
fn has_key_parameter(query: &str) -> bool {
    query.split(['&', ';']).any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        let name: Vec<u8> = percent_decode_str(name).collect();
        KEY_PARAMETERS
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> CredentialServer {
        let host = Host::parse("api.example.com").unwrap();
        let key = |header, name: &str| {
            HeaderCredential::new(
                header,
                &format!("{name}-placeholder"),
                &format!("{name}-real"),
            )
            .unwrap()
        };
        CredentialServer::https(host, 443)
            .with(key("x-api-key", "a"))
            .with(key("authorization", "b"))
            .with(key("authorization", "c"))
    }

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_placeholder_becomes_its_key_and_nothing_else_does() {
        let server = server();
        for (list, sent) in [
            (
                &[("x-api-key", "a-placeholder")][..],
                &[("x-api-key", "a-real")][..],
            ),
            (
                &[("authorization", "Bearer c-placeholder")],
                &[("authorization", "Bearer c-real")],
            ),
            (
                &[
                    ("x-api-key", "a-placeholder"),
                    ("authorization", "Bearer b-placeholder"),
                ],
                &[("x-api-key", "a-real"), ("authorization", "Bearer b-real")],
            ),
            // Keys of the client's own are removed.
            (
                &[
                    ("x-api-key", "a-placeholder"),
                    ("x-goog-api-key", "mine"),
                    ("cookie", "mine"),
                ],
                &[("x-api-key", "a-real")],
            ),
        ] {
            let mut all = headers(list);
            assert!(server.replace_placeholders(&mut all), "{list:?}");
            assert_eq!(all, headers(sent));
        }
        for list in [
            &[][..],
            &[("x-api-key", "mine")],
            &[
                ("x-api-key", "a-placeholder "),
                ("x-api-key", "a-placeholder"),
            ],
            &[
                ("x-api-key", "a-placeholder"),
                ("authorization", "Bearer mine"),
            ],
            &[("authorization", "b-placeholder")],
            &[("authorization", "Bearer a-placeholder")],
            &[("x-goog-api-key", "a-placeholder")],
        ] {
            assert!(!server.replace_placeholders(&mut headers(list)), "{list:?}");
        }
    }

    #[test]
    fn answers_lose_headers_with_a_key() {
        let mut all = headers(&[("x-echo", "got a-real!"), ("x-other", "a-placeholder")]);
        server().remove_keys(&mut all);
        assert_eq!(all, headers(&[("x-other", "a-placeholder")]));
    }

    #[test]
    fn keys_in_a_query_are_found() {
        for query in [
            "key=1",
            "beta=true&KEY=1",
            "%6bey=1",
            "a;api_key",
            "access%5Ftoken=1",
        ] {
            assert!(has_key_parameter(query), "{query}");
        }
        for query in ["", "beta=true", "a=key", "keys=1", "%=1&%6=1&%é=1"] {
            assert!(!has_key_parameter(query), "{query}");
        }
    }

    #[test]
    fn only_keys_that_a_header_can_have_are_taken() {
        for (header, placeholder, key) in [
            ("x api", "p", "k"),
            ("host", "p", "k"),
            ("x-api-key", "p", "p"),
            ("x-api-key", "p", "k\nHost: evil"),
            ("x-api-key", "p", " k"),
            ("x-api-key", "", "k"),
        ] {
            let error = HeaderCredential::new(header, placeholder, key).unwrap_err();
            assert!(!error.to_string().contains("evil"));
        }
    }

    #[test]
    fn without_tls_a_key_stays_on_this_host() {
        for (host, ok) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("localhost", true),
            ("10.0.0.1", false),
        ] {
            let server = CredentialServer::loopback_http(Host::parse(host).unwrap(), 1);
            assert_eq!(server.is_ok(), ok, "{host}");
        }
    }
}
