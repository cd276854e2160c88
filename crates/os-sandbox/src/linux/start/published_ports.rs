//! The published ports of one command: listeners on the host's loopback, and the sockets in the
//! command's network namespace that the proxy of the caller connects to them.

use crate::error::Error;
use crate::host_proxy::{CommandSockets, PublishedPort, listen_on_loopback};
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// The listeners of each port.
pub(super) struct PortListeners(Vec<(u16, Vec<TcpListener>)>);

impl PortListeners {
    /// Listens on the ports. Other programs of the host can connect from then on, and wait for the
    /// command.
    pub(super) fn listen(ports: Vec<u16>) -> Result<PortListeners, Error> {
        let listeners = ports
            .into_iter()
            .map(|port| Ok((port, listen_on_loopback(port)?)));
        listeners.collect::<Result<_, Error>>().map(PortListeners)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_published(self, sockets: &Arc<dyn CommandSockets>) -> Vec<PublishedPort> {
        let published = self.0.into_iter().map(|(port, listeners)| PublishedPort {
            port,
            listeners,
            sockets: Arc::clone(sockets),
        });
        published.collect()
    }
}

/// The process that makes sockets on request. It ends when this is dropped.
pub(super) struct RequestedSockets<P>(Mutex<P>);

/// A process that makes sockets in a command's network namespace.
pub(super) trait MakesSockets: Send {
    /// Has it make another one.
    fn request(&self, is_v6: bool) -> Result<OwnedFd, Error>;
}

impl<P: MakesSockets> RequestedSockets<P> {
    pub(super) fn new(process: P) -> RequestedSockets<P> {
        RequestedSockets(Mutex::new(process))
    }
}

impl<P: MakesSockets> CommandSockets for RequestedSockets<P> {
    fn make_socket(&self, is_v6: bool) -> io::Result<OwnedFd> {
        let sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.request(is_v6).map_err(io::Error::other)
    }
}

impl<P> fmt::Debug for RequestedSockets<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestedSockets")
    }
}
