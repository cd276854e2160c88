//! The system calls that enter a network namespace and make addresses and sockets in it, a part of
//! `sys/`: setns(2), ioctl_nsfs(2), rtnetlink(7), bind(2).

use super::{
    EPROTO, Errno, IoVec, MsgHdr, O_CLOEXEC, Result, attempts, close, done, fd, nr, raw, read,
};

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const SOL_SOCKET: i32 = 1;
/// The index of the loopback device, the first of every namespace.
const LOOPBACK: u32 = 1;
const BACKLOG: i32 = 1024;
/// Longest path of a local socket, without its NUL (unix(7)).
pub const MAX_SOCKET_PATH: usize = 107;

/// An IPv4 or IPv6 address. An IPv4 address uses the first four bytes.
#[derive(Clone, Copy)]
pub struct SocketIp {
    pub is_v6: bool,
    pub bytes: [u8; 16],
}

impl SocketIp {
    fn family(&self) -> u8 {
        if self.is_v6 { AF_INET6 } else { AF_INET }
    }

    fn octets(&self) -> &[u8] {
        if self.is_v6 {
            &self.bytes
        } else {
            &self.bytes[..4]
        }
    }
}

/// Enters a network namespace with every capability in it. The caller needs the user that made the
/// namespace, and one thread.
pub fn enter_network(namespace: i32) -> Result<()> {
    const NS_GET_USERNS: usize = 0xb701;
    const NEWUSER: usize = 0x1000_0000;
    const NEWNET: usize = 0x4000_0000;
    let owner = raw(nr::IOCTL, [fd(namespace), NS_GET_USERNS])? as i32;
    raw(nr::SETNS, [fd(owner), NEWUSER])?;
    close(owner);
    done(nr::SETNS, [fd(namespace), NEWNET])
}

/// Gives the loopback device an address. For IPv4, all addresses of the prefix become local.
pub fn add_address(address: &SocketIp, prefix: u8) -> Result<()> {
    const RTM_NEWADDR: u16 = 20;
    const IFA_LOCAL: u16 = 2;
    const IFA_F_NODAD: u8 = 2;
    // Otherwise an IPv6 address is tentative until a thread of the kernel has come to it, and
    // connections to it fail (RFC 4862, section 5.4).
    let flags = if address.is_v6 { IFA_F_NODAD } else { 0 };
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut request = RouteRequest::new(RTM_NEWADDR);
    request.push(&[address.family(), prefix, flags, 0]);
    request.push(&LOOPBACK.to_ne_bytes());
    request.attribute(IFA_LOCAL, address.octets());
    request.send()?;
    if !address.is_v6 {
        return Ok(());
    }
    // Why: the kernel makes the route of an IPv6 address later, in a thread of its own
    // (addrconf_dad_work), and until then the address cannot be reached (ENETUNREACH).
    match add_local_route(address, 128) {
        Err(super::EEXIST) => Ok(()),
        made => made,
    }
}

/// Makes all addresses of a prefix local (`ip route add local PREFIX dev lo`).
pub fn add_local_route(address: &SocketIp, prefix: u8) -> Result<()> {
    const RTM_NEWROUTE: u16 = 24;
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_BOOT: u8 = 3;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    // struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type,
    // flags.
    let mut request = RouteRequest::new(RTM_NEWROUTE);
    request.push(&[address.family(), prefix, 0, 0]);
    request.push(&[TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL]);
    request.push(&[0; 4]);
    request.attribute(RTA_DST, address.octets());
    request.attribute(RTA_OIF, &LOOPBACK.to_ne_bytes());
    request.send()
}

/// Makes a socket that is bound to an address and port: a listener for TCP, or a socket for UDP.
pub fn bound(address: &SocketIp, port: u16, is_stream: bool) -> Result<i32> {
    const SOCK_STREAM: i32 = 1;
    const SOCK_DGRAM: i32 = 2;
    const SO_REUSEADDR: i32 = 2;
    const IPPROTO_IPV6: i32 = 41;
    const IPV6_V6ONLY: i32 = 26;
    let kind = if is_stream { SOCK_STREAM } else { SOCK_DGRAM };
    let socket = attempts::socket(i32::from(address.family()), kind | O_CLOEXEC, 0)?;
    let made = (|| {
        if is_stream {
            enable(socket, SOL_SOCKET, SO_REUSEADDR)?;
        }
        if address.is_v6 {
            enable(socket, IPPROTO_IPV6, IPV6_V6ONLY)?;
        }
        // struct sockaddr_in: family, port, address; struct sockaddr_in6: family, port, flow,
        // address, scope.
        let mut name = [0u8; 28];
        name[..2].copy_from_slice(&u16::from(address.family()).to_ne_bytes());
        name[2..4].copy_from_slice(&port.to_be_bytes());
        let (start, bytes) = if address.is_v6 { (8, 28) } else { (4, 16) };
        name[start..start + address.octets().len()].copy_from_slice(address.octets());
        let at = name.as_ptr() as usize;
        raw(nr::BIND, [fd(socket), at, bytes])?;
        match is_stream {
            true => done(nr::LISTEN, [fd(socket), fd(BACKLOG)]),
            false => Ok(()),
        }
    })();
    match made {
        Ok(()) => Ok(socket),
        Err(errno) => {
            close(socket);
            Err(errno)
        }
    }
}

/// Makes a TCP socket without an address.
pub fn unbound(is_v6: bool) -> Result<i32> {
    const SOCK_STREAM: i32 = 1;
    let family = if is_v6 { AF_INET6 } else { AF_INET };
    attempts::socket(i32::from(family), SOCK_STREAM | O_CLOEXEC, 0)
}

fn enable(socket: i32, level: i32, name: i32) -> Result<()> {
    let on: i32 = 1;
    let at = &raw const on as usize;
    done(nr::SETSOCKOPT, [fd(socket), fd(level), fd(name), at, 4])
}

/// Connects a new socket to the local socket at a path.
pub fn connect_local(path: super::CStr<'_>) -> Result<i32> {
    const AF_UNIX: u16 = 1;
    const SOCK_STREAM: i32 = 1;
    // struct sockaddr_un: family, path.
    let mut name = [0u8; 2 + MAX_SOCKET_PATH + 1];
    let end = 2 + path.bytes().len();
    name[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
    name.get_mut(2..end)
        .ok_or(super::EINVAL)?
        .copy_from_slice(path.bytes());
    let socket = attempts::socket(i32::from(AF_UNIX), SOCK_STREAM | O_CLOEXEC, 0)?;
    match super::notify::connect(socket, &name[..=end]) {
        Ok(()) => Ok(socket),
        Err(errno) => {
            close(socket);
            Err(errno)
        }
    }
}

/// Ends the stream of a socket in the direction away from this process.
pub fn end_sending(socket: i32) -> Result<()> {
    const SHUT_WR: usize = 1;
    done(nr::SHUTDOWN, [fd(socket), SHUT_WR])
}

/// Brings up the loopback device of this process's network namespace. The kernel then gives it
/// 127.0.0.1 and ::1.
pub fn enable_loopback() -> Result<()> {
    const SOCK_DGRAM: i32 = 2;
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP: u8 = 1;
    // struct ifreq of netdevice(7): the name, then the flags.
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16] = IFF_UP;
    let socket = attempts::socket(AF_INET.into(), SOCK_DGRAM | O_CLOEXEC, 0)?;
    let at = request.as_ptr() as usize;
    let set = raw(nr::IOCTL, [fd(socket), SIOCSIFFLAGS, at]);
    close(socket);
    set.map(drop)
}

/// Sends bytes with a descriptor.
pub fn send_with_descriptor(socket: i32, bytes: &[u8], number: i32) -> Result<()> {
    const HEADER_AND_ONE: u64 = 20;
    send_with_rights(socket, bytes, HEADER_AND_ONE, u64::from(number as u32))
}

/// Sends bytes with two descriptors.
pub fn send_with_descriptors(socket: i32, bytes: &[u8], numbers: [i32; 2]) -> Result<()> {
    const HEADER_AND_TWO: u64 = 24;
    let [first, second] = numbers.map(i32::to_ne_bytes);
    let mut both = [0; 8];
    both[..4].copy_from_slice(&first);
    both[4..].copy_from_slice(&second);
    send_with_rights(socket, bytes, HEADER_AND_TWO, u64::from_ne_bytes(both))
}

/// `length`: that of a control message with `numbers`, one or two descriptors (cmsg(3)).
fn send_with_rights(socket: i32, bytes: &[u8], length: u64, numbers: u64) -> Result<()> {
    const SCM_RIGHTS: u64 = 1;
    send_message(
        socket,
        bytes,
        &mut [length, SOL_SOCKET as u64 | SCM_RIGHTS << 32, numbers],
    )
}

/// Sends one packet.
pub fn send(socket: i32, bytes: &[u8]) -> Result<()> {
    send_message(socket, bytes, &mut [])
}

fn send_message(socket: i32, bytes: &[u8], control: &mut [u64]) -> Result<()> {
    const MSG_NOSIGNAL: i32 = 0x4000;
    let mut iov = IoVec {
        base: bytes.as_ptr() as usize,
        len: bytes.len(),
    };
    let message = MsgHdr::new(&mut iov, control);
    let at = &raw const message as usize;
    loop {
        match raw(nr::SENDMSG, [fd(socket), at, fd(MSG_NOSIGNAL)]) {
            Err(super::EINTR) => {}
            Ok(sent) if sent == bytes.len() => return Ok(()),
            // The descriptor went with the first byte.
            Ok(_) => return Err(EPROTO),
            Err(errno) => return Err(errno),
        }
    }
}

/// One message to the kernel's routing tables, and room for it.
struct RouteRequest {
    bytes: [u8; 96],
    length: usize,
}

impl RouteRequest {
    const HEADER_BYTES: usize = 16;

    fn new(kind: u16) -> RouteRequest {
        const REQUEST_AND_ACK_AND_CREATE: u16 = 1 | 4 | 0x400;
        let mut request = RouteRequest {
            bytes: [0; 96],
            length: Self::HEADER_BYTES,
        };
        // struct nlmsghdr: length, type, flags, sequence number, port.
        request.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        request.bytes[6..8].copy_from_slice(&REQUEST_AND_ACK_AND_CREATE.to_ne_bytes());
        request
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The values are multiples of four bytes, so no attribute needs padding.
    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.push(&(4 + value.len() as u16).to_ne_bytes());
        self.push(&kind.to_ne_bytes());
        self.push(value);
    }

    /// Sends the request and reads the kernel's answer.
    fn send(mut self) -> Result<()> {
        const AF_NETLINK: i32 = 16;
        const SOCK_RAW: i32 = 3;
        const NLMSG_ERROR: u16 = 2;
        let length = self.length as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = attempts::socket(AF_NETLINK, SOCK_RAW | O_CLOEXEC, 0)?;
        let mut answer = [0u8; 256];
        let got = super::write(socket, &self.bytes[..self.length])
            .and_then(|_| read(socket, &mut answer));
        close(socket);
        // struct nlmsgerr after the header: the errno, negative, and the request.
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        if got? < 20 || kind != NLMSG_ERROR {
            return Err(EPROTO);
        }
        let errno = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        match errno {
            0 => Ok(()),
            negative => Err(Errno::wrapping_neg(negative)),
        }
    }
}
