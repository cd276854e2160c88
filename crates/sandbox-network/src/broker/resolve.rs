//! Resolution of names, outside of the confined network, on a bounded pool of threads.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::time::timeout;

use super::Shared;
use super::record::Refusal;
use crate::host::HostName;

/// Addresses of one name that are looked at.
const MAX_ADDRESSES: usize = 64;

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// Returns the addresses of a name, the preferred ones first. It may block; the broker calls it
    /// on a thread of its own and stops waiting after a time limit.
    ///
    /// # Errors
    /// The name has no address, or no server answers.
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system, `getaddrinfo`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        let addresses = (name.as_str(), 0).to_socket_addrs()?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Resolves a name once. Equal answers are merged.
pub(super) async fn resolve(shared: &Shared, name: &HostName) -> Result<Vec<IpAddr>, Refusal> {
    let unresolved = |why: String| Refusal::Unresolved(why);
    let permit = Arc::clone(&shared.resolutions)
        .try_acquire_owned()
        .map_err(|_| unresolved("too many names are being resolved".to_owned()))?;
    let resolver = Arc::clone(&shared.options.resolve);
    let own = name.clone();
    // The permit goes along: a call that is no longer waited for still occupies its thread.
    let call = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        resolver.resolve(&own)
    });
    let limit = shared.options.limits.resolve_timeout;
    let answer = timeout(limit, call)
        .await
        .map_err(|_| unresolved(format!("no answer within {} s", limit.as_secs())))?
        .map_err(|_| unresolved("the resolver failed".to_owned()))?
        .map_err(|error| unresolved(error.to_string()))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in answer.into_iter().take(MAX_ADDRESSES) {
        // The system connects an IPv4-mapped address as IPv4, so it is judged and denied as such.
        let address = address.to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(unresolved("it has no address".to_owned()));
    }
    Ok(addresses)
}
