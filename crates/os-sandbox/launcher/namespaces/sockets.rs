//! Makes sockets in a command's network namespace for the broker, which accepts the command's
//! connections on them and decides by name which host each of them reaches. This process stays
//! outside of the command's namespaces: the first process inside hands it the network namespace,
//! waits, and starts the command once the sockets are there. A socket belongs to the namespace that
//! it was made in, whatever process owns it, so the command needs no helper inside.
//!
//! The process that made a user namespace has every capability in it, and so in the network
//! namespaces that belong to it (user_namespaces(7)): no privilege of the host is needed. In
//! bubblewrap's innermost user namespace the command itself has none.
//!
//! In a container an engine has made the namespace and started this process in it, before the
//! command's container joins.

use crate::sys::network::{self, SocketIp};
use crate::sys::{self, Errno};
use crate::wire;
use crate::{CONTROL, Failure, at, tell};

/// IPv6 may be switched off: EADDRNOTAVAIL, EAFNOSUPPORT, and of rtnetlink EOPNOTSUPP and EACCES.
const NO_IPV6: [Errno; 4] = [99, 97, 95, 13];

/// Serves one namespace, and returns once its sockets are at the broker, or the broker makes no more
/// requests.
pub fn serve(steps: &[u8], channel: i32) -> Result<(), Failure> {
    let failed = at(wire::STAGE_NETWORK);
    let mut byte = [0u8; 1];
    let mut received = [-1i32; wire::MAX_FDS];
    let count = sys::receive(channel, &mut byte, &mut received).map_err(&failed)?;
    if count != 1 {
        return Err(failed(sys::EPROTO));
    }
    network::enter_network(received[0]).map_err(&failed)?;
    make_sockets(steps)?;
    // The first process inside goes on.
    sys::write(channel, &byte).map_err(&failed)?;
    sys::close(channel);
    match serves_requests(steps) {
        true => serve_requests().map_err(&failed),
        false => Ok(()),
    }
}

fn serves_requests(steps: &[u8]) -> bool {
    let is_asked = |step: &[u8]| step[0] == wire::NETWORK_ON_REQUEST;
    steps.chunks_exact(wire::NETWORK_STEP_BYTES).any(is_asked)
}

/// Makes a socket for each request of the broker, until the broker closes the control socket. The
/// broker connects them to the loopback of this namespace.
fn serve_requests() -> Result<(), Errno> {
    tell(wire::RECORD_SOCKETS, 0, 0, 0);
    let mut request = [0u8; 1];
    while sys::read(CONTROL, &mut request)? == 1 {
        let made = match request[0] {
            wire::SOCKET_V4 => network::unbound(false),
            wire::SOCKET_V6 => network::unbound(true),
            _ => Err(sys::EPROTO),
        };
        let sent = made.and_then(|socket| {
            let sent = network::send_with_descriptor(CONTROL, &request, socket);
            sys::close(socket);
            sent
        });
        if let Err(errno) = sent {
            tell(wire::RECORD_FAILED, wire::STAGE_NETWORK, errno, 0);
        }
    }
    Ok(())
}

/// Makes the sockets in this process's own network namespace, and preserves the namespace until the
/// broker closes the control socket. The process is the only one of a container that shares its
/// network with the command's container.
pub fn serve_own(steps: &[u8]) -> Result<(), Failure> {
    let failed = at(wire::STAGE_NETWORK);
    make_sockets(steps)?;
    if serves_requests(steps) {
        return serve_requests().map_err(&failed);
    }
    network::end_sending(CONTROL).map_err(&failed)?;
    sys::read(CONTROL, &mut [0u8; 1]).map(drop).map_err(&failed)
}

fn make_sockets(steps: &[u8]) -> Result<(), Failure> {
    let failed = at(wire::STAGE_NETWORK);
    if steps.len() > wire::MAX_NETWORK_STEPS * wire::NETWORK_STEP_BYTES {
        return Err(failed(sys::EPROTO));
    }
    for (index, step) in steps.chunks_exact(wire::NETWORK_STEP_BYTES).enumerate() {
        let step = NetworkStep::parse(step);
        match step.take(index) {
            Err(errno) if step.address.is_v6 && NO_IPV6.contains(&errno) => {}
            other => other.map_err(&failed)?,
        }
    }
    Ok(())
}

/// Hands the network namespace of this process to the one outside, and waits for its sockets.
pub fn request(channel: i32) -> Result<(), Failure> {
    let failed = at(wire::STAGE_NETWORK);
    let path = sys::CStr::new(b"/proc/self/ns/net\0").ok_or(failed(sys::EINVAL))?;
    let namespace = sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC, 0).map_err(&failed)?;
    let mut byte = [0u8; 1];
    network::send_with_descriptor(channel, &byte, namespace).map_err(&failed)?;
    sys::close(namespace);
    let answered = sys::read(channel, &mut byte).map_err(&failed)?;
    sys::close(channel);
    match answered {
        // The process outside tells the broker why it failed.
        0 => Err(failed(sys::EPROTO)),
        _ => Ok(()),
    }
}

/// One step, as `wire.rs` describes it.
struct NetworkStep {
    what: u8,
    prefix: u8,
    port: u16,
    address: SocketIp,
}

impl NetworkStep {
    fn parse(bytes: &[u8]) -> NetworkStep {
        let mut address = [0u8; 16];
        address.copy_from_slice(&bytes[4..20]);
        NetworkStep {
            what: bytes[0] & !wire::NETWORK_V6,
            prefix: bytes[1],
            port: u16::from_ne_bytes([bytes[2], bytes[3]]),
            address: SocketIp {
                is_v6: bytes[0] & wire::NETWORK_V6 != 0,
                bytes: address,
            },
        }
    }

    fn take(&self, index: usize) -> Result<(), Errno> {
        let is_stream = match self.what {
            wire::NETWORK_ADDRESS => return network::add_address(&self.address, self.prefix),
            wire::NETWORK_ROUTE => return network::add_local_route(&self.address, self.prefix),
            wire::NETWORK_ON_REQUEST => return Ok(()),
            wire::NETWORK_DATAGRAM => false,
            wire::NETWORK_STREAM => true,
            _ => return Err(sys::EPROTO),
        };
        let socket = network::bound(&self.address, self.port, is_stream)?;
        let sent = network::send_with_descriptor(CONTROL, &[index as u8], socket);
        sys::close(socket);
        sent
    }
}
