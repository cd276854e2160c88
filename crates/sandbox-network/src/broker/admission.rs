//! Admission of clients. A client has a place among the broker's connections, or waits a bounded time
//! for one, or is refused in the words of its protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connect::Admission;
use super::context::ServiceContext;
use super::credential::{self, CredentialServer, KeylessRequests};
use super::fair_semaphore::FairPermit;
use super::inbound::{self, InboundPort};
use super::record::{Protocol, Refusal};
use super::{forwarder, proxy, resolver, tunnel};

/// Time for a client without a place to send its request and to read the refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The role of the listener at which a client arrived.
#[derive(Clone)]
pub(super) enum ListenerRole {
    Resolver,
    Proxy,
    Forwarder,
    Credential(Arc<CredentialServer>),
    Inbound(Arc<InboundPort>),
}

/// Serves a client in a task of its own, or refuses it.
pub(super) fn admit(state: &Arc<ServiceContext>, client: TcpStream, role: ListenerRole) {
    let own = Arc::clone(state);
    let shared = &state.shared;
    if let Some(place) = shared.connections.try_acquire(state.id) {
        state.spawn(async move {
            let _place = place;
            serve(&own, client, &role, Admission::Granted).await;
        });
    } else if let Some(waiting) = shared.waiting.try_acquire(state.id) {
        state.waited.fetch_add(1, Ordering::Relaxed);
        state.spawn(async move {
            let Some(place) = wait_for_place(&own, client, &role).await else {
                return drop(waiting);
            };
            drop(waiting);
            let (client, _place) = place;
            serve(&own, client, &role, Admission::Granted).await;
        });
    } else if let Some(refusing) = shared.refusing.try_acquire(state.id) {
        state.spawn(async move {
            let _refusing = refusing;
            refuse(&own, client, &role).await;
        });
    } else {
        let protocol = match role {
            ListenerRole::Resolver => Protocol::Dns,
            ListenerRole::Proxy => Protocol::Connect,
            ListenerRole::Forwarder => Protocol::Transparent,
            ListenerRole::Credential(_) => Protocol::Credential,
            ListenerRole::Inbound(_) => Protocol::Inbound,
        };
        state.refuse(String::new(), 0, protocol, Refusal::TooManyConnections);
        tunnel::reset(&client);
    }
}

/// Waits for a place. Refuses the client if there is none in time, and returns `None`.
async fn wait_for_place(
    state: &Arc<ServiceContext>,
    client: TcpStream,
    role: &ListenerRole,
) -> Option<(TcpStream, FairPermit)> {
    let shared = &state.shared;
    let place = shared.connections.acquire(state.id);
    let place = tokio::select! {
        () = state.stopped() => return None,
        place = timeout(shared.options.limits.place_timeout, place) => place,
    };
    match place {
        Ok(Some(place)) => Some((client, place)),
        Ok(None) | Err(_) => {
            refuse(state, client, role).await;
            None
        }
    }
}

async fn refuse(state: &Arc<ServiceContext>, client: TcpStream, role: &ListenerRole) {
    let refused = serve(state, client, role, Admission::Refused);
    // A client that says nothing in this time is cut off.
    let _ = timeout(REFUSAL_TIMEOUT, refused).await;
}

async fn serve(
    state: &Arc<ServiceContext>,
    client: TcpStream,
    role: &ListenerRole,
    admission: Admission,
) {
    // Small messages are passed on at once, as the client and the server sent them.
    let _ = client.set_nodelay(true);
    match role {
        ListenerRole::Resolver if admission == Admission::Refused => {
            let reason = Refusal::TooManyConnections;
            state.refuse(String::new(), 0, Protocol::Dns, reason);
        }
        ListenerRole::Resolver => resolver::serve_tcp(state, client).await,
        ListenerRole::Proxy => proxy::serve(state, client, admission).await,
        ListenerRole::Forwarder => forwarder::serve(state, client, admission).await,
        ListenerRole::Credential(server) => {
            let keyless = KeylessRequests::Refused;
            credential::serve(state, Arc::clone(server), client, admission, keyless).await;
        }
        ListenerRole::Inbound(target) => inbound::serve(state, client, target, admission).await,
    }
}
