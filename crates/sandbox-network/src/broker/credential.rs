//! Keys that stay outside. A client shows a placeholder; the broker puts the key in its place and sends
//! the request to the one server that the key is for. No client sees the key. The client speaks plain
//! HTTP to a listener in its own network, or TLS to the server's own name: see [`TlsTermination`].

mod listener;
mod termination;
mod tls;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Response;
use hyper::ext::ReasonPhrase;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::host::Host;

pub(super) use listener::{KeylessRequests, serve};
pub use termination::TlsTermination;
pub(super) use termination::{TerminatedServer, serve_terminated};
pub(super) use tls::UpstreamTls;

/// Words of the names of headers in which services expect keys. A client's own are never passed on,
/// so that it cannot use the server with an account of somebody else.
const KEY_WORDS: [&str; 12] = [
    "apikey",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "passwd",
    "password",
    "pat",
    "secret",
    "token",
];

/// Words before `key` in such names. Other keys, as in `idempotency-key`, are not secrets.
const KEY_KINDS: [&str; 10] = [
    "access",
    "account",
    "api",
    "app",
    "application",
    "functions",
    "license",
    "service",
    "subscription",
    "user",
];

/// Headers that replace the method of a request, which is judged.
const METHOD_OVERRIDES: [&str; 3] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
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
const KEY_PARAMETERS: [&str; 24] = [
    "access_key",
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "client_secret",
    "deploy_token",
    "id_token",
    "job_token",
    "jwt",
    "key",
    "oauth_token",
    "password",
    "private_token",
    "refresh_token",
    "secret",
    "subscription-key",
    "token",
    "x-amz-credential",
    "x-amz-security-token",
    "x-goog-credential",
];

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
    placeholder: String,
    key: String,
}

/// A credential or a server that cannot be used, with the reason. It does not repeat a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCredential(&'static str);

impl HeaderCredential {
    /// Returns a key with its header and placeholder. In `authorization` both follow `Bearer` or `token`,
    /// or are the password of `Basic` (RFC 7617).
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
        if HeaderValue::from_str(key).is_err() {
            return Err(InvalidCredential(
                "the key has characters that no header has",
            ));
        }
        if HeaderValue::from_str(placeholder).is_err() {
            return Err(InvalidCredential("the placeholder is not valid"));
        }
        Ok(HeaderCredential {
            placeholder: placeholder.to_owned(),
            key: key.to_owned(),
            header,
        })
    }

    /// Returns the value of the header with the key, and the part of it that nobody else may see. `None`
    /// if the value of a client does not show the placeholder.
    fn replaced(&self, shown: &HeaderValue) -> Option<(HeaderValue, String)> {
        let shown = shown.to_str().ok()?;
        let (scheme, secret) = match self.header == header::AUTHORIZATION {
            false => ("", (shown == self.placeholder).then(|| self.key.clone())?),
            true => {
                let (scheme, shown) = shown.split_once(' ')?;
                (scheme, self.with_scheme(scheme, shown)?)
            }
        };
        let text = format!("{scheme} {secret}");
        let mut value = HeaderValue::from_str(text.trim_start()).ok()?;
        value.set_sensitive(true);
        Some((value, secret))
    }

    fn with_scheme(&self, scheme: &str, shown: &str) -> Option<String> {
        let is = |name: &str| scheme.eq_ignore_ascii_case(name);
        if is("bearer") || is("token") {
            return (shown == self.placeholder).then(|| self.key.clone());
        }
        if !is("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(shown).ok()?).ok()?;
        let (user, password) = decoded.split_once(':')?;
        let key = &self.key;
        (password == self.placeholder).then(|| STANDARD.encode(format!("{user}:{key}")))
    }
}

/// The texts that a request got in place of its placeholders.
type AddedSecrets = Vec<String>;

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
    /// Returns a server that is reached by HTTPS. Its certificate is checked by the authorities that the
    /// system has now.
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

    /// Replaces the system's judgement of certificates, for tests whose servers are local.
    #[doc(hidden)]
    #[must_use]
    pub fn trusting_for_tests(mut self, config: Arc<rustls::ClientConfig>) -> CredentialServer {
        self.tls = self.tls.map(|tls| tls.trusting_for_tests(config));
        self
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, credential: HeaderCredential) -> CredentialServer {
        self.credentials.push(credential);
        self
    }

    /// Replaces the placeholders of a request by the keys, and removes every other key. `None` if the
    /// request shows no placeholder, or a key of its own in the place of one.
    fn replace_placeholders(&self, headers: &mut HeaderMap) -> Option<AddedSecrets> {
        let mut shown = Vec::new();
        let mut secrets = Vec::new();
        for name in self.credentials.iter().map(|one| &one.header) {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => continue,
                (Some(value), None) => {
                    let of_header = |one: &&HeaderCredential| one.header == *name;
                    let mut known = self.credentials.iter().filter(of_header);
                    let (value, secret) = known.find_map(|one| one.replaced(value))?;
                    shown.push((name.clone(), value));
                    secrets.push(secret);
                }
                (Some(_), Some(_)) => return None,
            }
        }
        let keys = headers.iter().filter(is_key_header);
        for name in keys.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            headers.remove(name);
        }
        for (name, value) in shown {
            headers.insert(name, value);
        }
        (!secrets.is_empty()).then_some(secrets)
    }

    /// `true` if a request has a header in which this server or others expect keys.
    fn has_key_header(&self, headers: &HeaderMap) -> bool {
        let mut own = self.credentials.iter().map(|one| &one.header);
        own.any(|name| headers.contains_key(name))
            || headers.iter().any(|header| is_key_header(&header))
    }

    /// Removes keys from an answer before its body, as they are or as the request had them: headers
    /// with a key in their name or value, and the words behind the status, which say nothing more.
    fn remove_keys<B>(&self, answer: &mut Response<B>, added: &AddedSecrets) {
        answer.extensions_mut().remove::<ReasonPhrase>();
        let keys = self.credentials.iter().map(|one| &one.key).chain(added);
        let keys: Vec<&[u8]> = keys.map(String::as_bytes).collect();
        let is_in = |text: &[u8], key: &[u8]| {
            (text.windows(key.len())).any(|part| part.eq_ignore_ascii_case(key))
        };
        let has_key = |text: &[u8]| keys.iter().any(|key| is_in(text, key));
        let headers = answer.headers_mut();
        let told = (headers.iter())
            .filter(|(name, value)| has_key(value.as_bytes()) || has_key(name.as_str().as_bytes()));
        for name in told.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            headers.remove(name);
        }
    }
}

/// `true` for a header in which services expect keys, or that replaces the method. Some servers take
/// `_` for `-`, and some a key in the subprotocol of a WebSocket.
fn is_key_header((name, value): &(&HeaderName, &HeaderValue)) -> bool {
    let name = name.as_str().replace('_', "-");
    let is_key = |text: &str| {
        let words: Vec<&str> = text.split(['-', '.', ',', ' ']).collect();
        words.iter().any(|word| KEY_WORDS.contains(word))
            || (words.windows(2)).any(|pair| pair[1] == "key" && KEY_KINDS.contains(&pair[0]))
    };
    let is_subprotocol = name == "sec-websocket-protocol";
    is_key(&name)
        || METHOD_OVERRIDES.contains(&name.as_str())
        || is_subprotocol && is_key(&String::from_utf8_lossy(value.as_bytes()).to_lowercase())
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
                &[("x-api-key", "a-placeholder"), ("x_api_key", "of somebody")],
                &[("x-api-key", "a-real")],
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
            (
                &[("authorization", "token b-placeholder")],
                &[("authorization", "token b-real")],
            ),
            // me:c-placeholder, me:c-real
            (
                &[("authorization", "Basic bWU6Yy1wbGFjZWhvbGRlcg==")],
                &[("authorization", "Basic bWU6Yy1yZWFs")],
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
            assert!(server.replace_placeholders(&mut all).is_some(), "{list:?}");
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
            // c-placeholder:, me:c-placeholder , another scheme
            &[("authorization", "Basic Yy1wbGFjZWhvbGRlcjo=")],
            &[("authorization", "Basic bWU6Yy1wbGFjZWhvbGRlciA=")],
            &[("authorization", "Digest b-placeholder")],
        ] {
            let replaced = server.replace_placeholders(&mut headers(list));
            assert!(replaced.is_none(), "{list:?}");
        }
    }

    #[test]
    fn answers_lose_what_has_a_key_before_the_body() {
        let mut answer = Response::new(());
        *answer.headers_mut() = headers(&[
            ("x-echo", "got a-real!"),
            ("x-got-a-real", "in its name"),
            ("x-basic", "bWU6Yy1yZWFs"),
            ("x-other", "a-placeholder"),
        ]);
        let reason = ReasonPhrase::from_static(b"key is a-real");
        answer.extensions_mut().insert(reason);
        server().remove_keys(&mut answer, &vec!["bWU6Yy1yZWFs".to_owned()]);
        assert_eq!(*answer.headers(), headers(&[("x-other", "a-placeholder")]));
        assert!(answer.extensions().get::<ReasonPhrase>().is_none());
    }

    /// Keys of a client's own beside the placeholder, under the names that services have for them.
    #[test]
    fn no_header_has_another_account_or_another_method() {
        const SHOWN: (&str, &str) = ("x-api-key", "a-placeholder");
        for name in [
            "api-key",
            "apikey",
            "cookie",
            "dd-application-key",
            "deploy-token",
            "job-token",
            "ocp-apim-subscription-key",
            "private-token",
            "private_token",
            "proxy-authorization",
            "x-access-token",
            "x-amz-security-token",
            "x-auth-token",
            "x-functions-key",
            "x-goog-api-key",
            "x-http-method",
            "x-http-method-override",
            "x-method-override",
            "x-vault-token",
            "x_api_key",
        ] {
            let mut all = headers(&[SHOWN, (name, "mine")]);
            assert!(
                server().has_key_header(&headers(&[(name, "mine")])),
                "{name}"
            );
            assert!(server().replace_placeholders(&mut all).is_some());
            assert_eq!(all, headers(&[("x-api-key", "a-real")]), "{name}");
        }
        let subprotocol = |value| ("sec-websocket-protocol", value);
        let mut all = headers(&[SHOWN, subprotocol("realtime, openai-insecure-api-key.mine")]);
        assert!(server().replace_placeholders(&mut all).is_some());
        assert_eq!(all, headers(&[("x-api-key", "a-real")]));
        for (name, value) in [
            ("anthropic-beta", "oauth-2025-04-20"),
            ("idempotency-key", "a"),
            ("openai-organization", "a"),
            ("sec-websocket-key", "a"),
            subprotocol("realtime, openai-beta.realtime-v1"),
            ("x-author", "a"),
            ("x-tokens-left", "a"),
        ] {
            let mut all = headers(&[SHOWN, (name, value)]);
            assert!(server().replace_placeholders(&mut all).is_some());
            assert_eq!(all.get(name).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn keys_in_a_query_are_found() {
        for query in [
            "key=1",
            "beta=true&KEY=1",
            "%6bey=1",
            "a;api_key",
            "access%5Ftoken=1",
            "oauth_token=1",
            "private_token=1",
            "Job_Token=1",
            "X-Amz-Security-Token=1",
        ] {
            assert!(has_key_parameter(query), "{query}");
        }
        for query in [
            "",
            "beta=true",
            "a=key",
            "keys=1",
            "pageToken=1",
            "%=1&%6=1&%é=1",
        ] {
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
