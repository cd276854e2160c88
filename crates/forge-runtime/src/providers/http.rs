//! The HTTP client with its restrictions: it follows no redirect with a key, reaches the loopback
//! through no proxy, and trusts no server about the length of an answer.

use std::error::Error;
use std::time::Duration;

use hyper::Uri;
use reqwest::Url;
use reqwest::redirect::Policy;

use super::settings::{ProviderError, ResponseLimits};

/// A client for this endpoint.
///
/// TLS is rustls with ring and the system's roots. Proxies of the environment are used for https,
/// where they only see a tunnel; plain http would show them the key, so it uses none, and neither
/// does the loopback. Redirects are not followed: none of these endpoints has them, and the key is
/// only sent to its endpoint.
pub(super) fn client(url: &Url, bounds: &ResponseLimits) -> Result<reqwest::Client, ProviderError> {
    // Ours unless the program has chosen one before.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_millis(bounds.connect_ms))
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true);
    if url.scheme() == "http" || is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No TLS will be spoken: the system's roots, a few hundred files, need not be read.
        builder = builder.tls_certs_only([]);
    } else {
        builder = builder.https_only(true);
        if !is_loopback(url) {
            check_proxies(|name| std::env::var_os(name))?;
        }
    }
    builder
        .build()
        .map_err(|error| ProviderError::Client(causes(&error)))
}

/// `true` if the server is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The variables that name a proxy for https, in the order in which they are looked at.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Checks the proxies of the environment. The client leaves out one that it cannot read, and would
/// connect without it.
fn check_proxies(
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<(), ProviderError> {
    for name in PROXY_VARIABLES {
        let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let why = match value.to_str().map(str::parse::<Uri>) {
            None => "it is not UTF-8".to_owned(),
            Some(Err(error)) => format!("it is not a URL ({error})"),
            Some(Ok(uri)) => match (uri.scheme_str(), uri.host()) {
                (Some("http" | "https") | None, Some(host)) if !host.is_empty() => {
                    let authority = uri
                        .authority()
                        .map_or("", hyper::http::uri::Authority::as_str);
                    if uri.port_u16().is_some() || authority.ends_with(host) {
                        continue;
                    }
                    "its port is not a number".to_owned()
                }
                (Some("http" | "https") | None, _) => "it names no host".to_owned(),
                (Some(other), _) => format!("its scheme is {other}, and must be http or https"),
            },
        };
        return Err(ProviderError::Proxy {
            variable: name,
            why,
        });
    }
    Ok(())
}

/// The reason why a request was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportFailure {
    /// The answer is not HTTP: an invalid length, invalid bytes in a header.
    NotHttp,
    /// A retry fails as well: a certificate that is not trusted, a server that does not speak TLS,
    /// a proxy that wants a password.
    Lasting,
    /// It may be gone at the next attempt.
    Passing,
}

/// Classifies an error of the client.
pub(super) fn problem(error: &reqwest::Error) -> TransportFailure {
    for error in chain(error) {
        // It spoke first, as servers of other protocols do.
        let spoke_first = error.to_string() == "received unexpected message from connection";
        if spoke_first || error.downcast_ref().is_some_and(hyper::Error::is_parse) {
            return TransportFailure::NotHttp;
        }
        let wants_password = error.to_string() == "proxy authorization required";
        if error.is::<rustls::Error>() || wants_password {
            return TransportFailure::Lasting;
        }
    }
    TransportFailure::Passing
}

/// Returns an error and its causes, the deepest last.
fn chain(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| {
        // The source of an I/O error skips the error that it wraps.
        let held = error.downcast_ref().and_then(std::io::Error::get_ref);
        held.map_or_else(|| error.source(), |held| Some(held as _))
    })
}

/// Returns `true` if the connection was refused at the address.
pub(super) fn is_refused(error: &reqwest::Error) -> bool {
    chain(error).any(|error| {
        let io = error.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

/// Describes an error of a request to `url` by its deepest cause, and by the part of the connection
/// that failed. Omits the rest of the URL, which may contain secrets.
pub(super) fn describe(error: &reqwest::Error, url: &Url) -> String {
    let texts = texts(error);
    let cause = causes(error);
    let begins = |start: &str| texts.iter().any(|text| text.starts_with(start));
    let host = url.host_str().unwrap_or_default();
    let server = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let proxy = (PROXY_VARIABLES.iter()).find(|name| std::env::var_os(name).is_some());
    match proxy {
        Some(name) if begins("tunnel error") || begins("proxy") => {
            format!("{server}: the proxy of the variable {name} does not connect: {cause}")
        }
        _ if begins("dns error") => {
            let cause = cause.trim_start_matches("failed to lookup address information: ");
            format!("{server}: its name cannot be resolved: {cause}")
        }
        _ if begins("received corrupt message") => {
            format!("{server}: the server speaks no TLS; is it http://{server}?")
        }
        _ if problem(error) == TransportFailure::NotHttp => {
            format!("{server}: the server speaks no HTTP ({cause}); is the base URL right?")
        }
        _ => format!("{server}: {cause}"),
    }
}

/// Returns the text of each cause of an error, the deepest last.
fn texts(error: &reqwest::Error) -> Vec<String> {
    let mut texts = Vec::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

/// Returns the deepest cause of an error; reqwest shows only the outermost.
pub(super) fn causes(error: &reqwest::Error) -> String {
    if let Some(deepest) = texts(error).pop() {
        return deepest;
    }
    let what = error.to_string();
    match error.url() {
        Some(url) => what.replace(&format!(" for url ({url})"), ""),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_of_the_environment() {
        let rows = [
            ("", true),
            ("http://proxy.example:3128", true),
            ("https://user:pass@proxy.example", true),
            ("proxy.example:3128", true),
            ("proxy.example", true),
            ("127.0.0.1:8080", true),
            ("http://[::1]:3128/", true),
            ("socks5://127.0.0.1:1080", false),
            ("ftp://proxy.example", false),
            ("http://", false),
            ("http://pro xy", false),
            ("http://proxy:port", false),
            (":3128", false),
            ("/path", false),
        ];
        for name in PROXY_VARIABLES {
            for (value, good) in rows {
                let checked = check_proxies(|asked| (asked == name).then(|| value.into()));
                assert_eq!(checked.is_ok(), good, "{name}={value}: {checked:?}");
                if let Err(error) = checked {
                    assert!(error.to_string().contains(name), "{error}");
                }
            }
        }
    }
}
