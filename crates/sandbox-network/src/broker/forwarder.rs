//! The entry for clients that know no proxy. The address to which a client connected tells the name,
//! if it is a synthetic one, or is the host itself.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::connect::{Admission, connect};
use super::context::ServiceContext;
use super::names::AddressMeaning;
use super::record::{Protocol, Refusal};
use super::{credential, lock, tunnel};
use crate::host::Host;

/// Serves one connection. A refused client sees a reset.
pub(super) async fn serve(state: &Arc<ServiceContext>, client: TcpStream, admission: Admission) {
    let Ok(destination) = client.local_addr() else {
        return;
    };
    // A socket for both families shows IPv4 addresses inside IPv6 ones.
    let address = destination.ip().to_canonical();
    let port = destination.port();
    let meaning = lock(&state.names).meaning(address);
    let host = match meaning {
        AddressMeaning::Name(name) => Host::Name(name),
        AddressMeaning::Literal => Host::Address(address),
        AddressMeaning::Unassigned => {
            let reason = Refusal::UnassignedAddress;
            state.refuse(address.to_string(), port, Protocol::Transparent, reason);
            return tunnel::reset(&client);
        }
    };
    if let Some(server) = state.terminated(&host, port) {
        return credential::serve_terminated(state, server, client, admission).await;
    }
    match connect(state, admission, &host, port, Protocol::Transparent).await {
        Ok(mut upstream) => tunnel::run(state, &client, &mut upstream, &host).await,
        Err(_) => tunnel::reset(&client),
    }
}
