//! The HTTP client, and what it must not do: follow anybody anywhere with a key, speak to the
//! loopback through somebody else, or take a server at its word for how much is to come.

use std::time::Duration;

use reqwest::Url;
use reqwest::redirect::Policy;

use super::provider::{Bounds, ProviderError};

/// A client for this endpoint.
///
/// TLS is rustls with ring and the system's roots. Proxies of the environment are used for
/// https, where they see a tunnel only; over plain http they would see the key, so there they
/// are not, and never for the loopback. Redirects are answers like any other: none of these
/// endpoints has them, and a key goes nowhere but where it was meant to.
pub(super) fn client(url: &Url, bounds: &Bounds) -> Result<reqwest::Client, ProviderError> {
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
    }
    builder
        .build()
        .map_err(|error| ProviderError::Client(causes(&error)))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Whether there was an answer, but none of HTTP: a length that is none, bytes that no header
/// has. The same server would say the same again.
pub(super) fn is_no_http(error: &reqwest::Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let parse = error.downcast_ref().is_some_and(hyper::Error::is_parse);
        if parse {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error with its reasons; reqwest shows only the outermost. Without the URL, which people
/// know and which may hold what they would not show.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = next {
        let said = error.to_string();
        if !text.contains(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
        next = error.source();
    }
    if !text.is_empty() {
        return text;
    }
    let what = error.to_string();
    match error.url() {
        Some(url) => what.replace(&format!(" for url ({url})"), ""),
        None => what,
    }
}
