//! The published ports of one command: listeners on the host's loopback, and the sockets in the
//! command's network namespace that the proxy of the caller connects to them.

use super::host_sockets::NamespaceSockets;
use crate::error::{Error, ErrorKind};
use crate::host_proxy::{CommandSockets, PublishedPort};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Errors of a host without IPv6: EADDRNOTAVAIL and EAFNOSUPPORT.
const NO_IPV6: [i32; 2] = [99, 97];

/// The listeners of each port.
pub(super) struct PortListeners(Vec<(u16, Vec<TcpListener>)>);

impl PortListeners {
    /// Listens on the ports. Other programs of the host can connect from then on, and wait for the
    /// command.
    pub(super) fn listen(ports: Vec<u16>) -> Result<PortListeners, Error> {
        let listeners = ports.into_iter().map(|port| Ok((port, listen(port)?)));
        listeners.collect::<Result<_, Error>>().map(PortListeners)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_published(self, sockets: RequestedSockets) -> Vec<PublishedPort> {
        let sockets: Arc<dyn CommandSockets> = Arc::new(sockets);
        let published = self.0.into_iter().map(|(port, listeners)| PublishedPort {
            port,
            listeners,
            sockets: Arc::clone(&sockets),
        });
        published.collect()
    }
}

/// Listens on both addresses of the loopback, and on no other.
fn listen(port: u16) -> Result<Vec<TcpListener>, Error> {
    let mut listeners = Vec::new();
    for ip in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        let address = SocketAddr::new(ip, port);
        match TcpListener::bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_without_ipv6(ip, &error) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let text = format!(
                    "cannot publish port {port} of the command: another program of this machine \
                     uses {address}"
                );
                return Err(Error::new(ErrorKind::PortInUse, text).with_hint(format!(
                    "end that program (`ss -ltnp 'sport = :{port}'` shows it), or publish another port"
                )));
            }
            Err(error) => {
                let doing = format!("cannot publish port {port} of the command on {address}");
                return Err(Error::io(doing, error));
            }
        }
    }
    Ok(listeners)
}

fn is_without_ipv6(ip: IpAddr, error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    ip.is_ipv6() && errno.is_some_and(|errno| NO_IPV6.contains(&errno))
}

/// The process that makes sockets on request. It ends when this is dropped.
pub(super) struct RequestedSockets(Mutex<NamespaceSockets>);

impl RequestedSockets {
    pub(super) fn new(sockets: NamespaceSockets) -> RequestedSockets {
        RequestedSockets(Mutex::new(sockets))
    }
}

impl CommandSockets for RequestedSockets {
    fn make_socket(&self, is_v6: bool) -> io::Result<OwnedFd> {
        let sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.request(is_v6).map_err(io::Error::other)
    }
}

impl fmt::Debug for RequestedSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestedSockets")
    }
}
