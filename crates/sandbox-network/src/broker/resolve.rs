//! Resolution of names, outside of the confined network, on a bounded pool of threads.

mod hosts_file;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::context::ServiceContext;
use super::lock;
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
///
/// A name is looked up as it is: the machine's list of domains to search adds nothing to it. Names of
/// the machine's hosts file are found first.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        let listed = hosts_file::addresses_of(name)?;
        if !listed.is_empty() {
            return Ok(listed);
        }
        // A final dot keeps the list of domains out, and in glibc the hosts file too.
        let absolute = format!("{name}.");
        let addresses = (absolute.as_str(), 0).to_socket_addrs()?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// The resolutions of a service. Connections to one name at once share one.
#[derive(Default)]
pub(super) struct Resolutions {
    open: Mutex<HashMap<HostName, watch::Sender<Option<ResolverAnswer>>>>,
}

type ResolverAnswer = Result<Vec<IpAddr>, Refusal>;

/// Resolves a name once. Equal answers are merged.
pub(super) async fn resolve(state: &Arc<ServiceContext>, name: &HostName) -> ResolverAnswer {
    let mut answer = join(state, name);
    let answer = answer.wait_for(Option::is_some).await;
    // The resolution ends without an answer only with the service.
    let answer = answer.ok().and_then(|answer| answer.clone());
    answer.unwrap_or_else(|| Err(unresolved("the resolver failed")))
}

/// Returns the receiver of an answer. Begins a resolution if none of the name is open.
fn join(state: &Arc<ServiceContext>, name: &HostName) -> watch::Receiver<Option<ResolverAnswer>> {
    let mut open = lock(&state.resolutions.open);
    if let Some(sender) = open.get(name) {
        return sender.subscribe();
    }
    let (sender, receiver) = watch::channel(None);
    open.insert(name.clone(), sender.clone());
    drop(open);
    let (own, name) = (Arc::clone(state), name.clone());
    state.spawn(async move {
        let resolution = resolve_alone(&own, &name);
        tokio::pin!(resolution);
        loop {
            tokio::select! {
                answer = &mut resolution => {
                    lock(&own.resolutions.open).remove(&name);
                    sender.send_replace(Some(answer));
                    return;
                }
                () = sender.closed() => {
                    // Its clients have gone. Another one may have come since.
                    let mut open = lock(&own.resolutions.open);
                    if sender.receiver_count() == 0 {
                        open.remove(&name);
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// Waits for a thread and resolves a name, both within the time limit.
async fn resolve_alone(state: &ServiceContext, name: &HostName) -> ResolverAnswer {
    let shared = &state.shared;
    let limit = shared.options.limits.resolve_timeout;
    let deadline = Instant::now() + limit;
    let permit = timeout_at(deadline, shared.resolutions.acquire(state.id))
        .await
        .map_err(|_| unresolved("too many names are being resolved"))?
        .ok_or_else(|| unresolved("the resolver failed"))?;
    let resolver = Arc::clone(&shared.options.resolve);
    let own = name.clone();
    // The permit goes along: a call that is no longer waited for still occupies its thread.
    let call = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        resolver.resolve(&own)
    });
    let answer = timeout_at(deadline, call)
        .await
        .map_err(|_| unresolved(&format!("no answer within {} s", limit.as_secs())))?
        .map_err(|_| unresolved("the resolver failed"))?
        .map_err(|error| unresolved(&error.to_string()))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in answer.into_iter().take(MAX_ADDRESSES) {
        // The system connects an IPv4-mapped address as IPv4, so it is judged and denied as such.
        let address = address.to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(unresolved("it has no address"));
    }
    Ok(addresses)
}

fn unresolved(why: &str) -> Refusal {
    Refusal::Unresolved(why.to_owned())
}
