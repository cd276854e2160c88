//! Addresses of internet sockets: `struct sockaddr_in` (ip(7)) and `struct sockaddr_in6` (ipv6(7)),
//! and the rows of the broker that name some.

use crate::sys::notify::MAX_ADDRESS_BYTES;
use crate::wire;

pub const AF_INET: u16 = 2;
pub const AF_INET6: u16 = 10;
/// The first bytes of an IPv6 address that means an IPv4 address (RFC 4291, 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// Lengths that the kernel requires, and of those that it takes.
const MIN_V6_BYTES: usize = 24;
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;

/// An address and port.
pub struct InternetAddress {
    /// The family of the socket address. An IPv4 address in IPv6 has that of IPv6.
    pub family: u16,
    pub is_v6: bool,
    /// An IPv4 address uses the first four bytes.
    pub ip: [u8; 16],
    pub port: u16,
}

impl InternetAddress {
    /// Reads a socket address as the kernel does. `None` of other families, and if it is too short.
    pub fn parse(bytes: &[u8]) -> Option<InternetAddress> {
        let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        let octets = match family {
            AF_INET if bytes.len() >= V4_BYTES => &bytes[4..8],
            AF_INET6 if bytes.len() >= MIN_V6_BYTES => &bytes[8..24],
            _ => return None,
        };
        let mut ip = [0u8; 16];
        let octets = octets.strip_prefix(&MAPPED).unwrap_or(octets);
        ip[..octets.len()].copy_from_slice(octets);
        Some(InternetAddress {
            family,
            is_v6: octets.len() == 16,
            ip,
            port,
        })
    }

    /// Returns the row of this address, without a prefix.
    pub fn row(&self) -> [u8; wire::ADDRESS_BYTES] {
        let mut row = [0; wire::ADDRESS_BYTES];
        row[0] = self.is_v6.into();
        row[2..4].copy_from_slice(&self.port.to_ne_bytes());
        row[4..].copy_from_slice(&self.ip);
        row
    }

    /// Writes the socket address for its family, and returns its length.
    pub fn write(&self, to: &mut [u8; MAX_ADDRESS_BYTES]) -> usize {
        *to = [0; MAX_ADDRESS_BYTES];
        to[..2].copy_from_slice(&self.family.to_ne_bytes());
        to[2..4].copy_from_slice(&self.port.to_be_bytes());
        if self.family == AF_INET {
            to[4..8].copy_from_slice(&self.ip[..4]);
            return V4_BYTES;
        }
        match self.is_v6 {
            true => to[8..24].copy_from_slice(&self.ip),
            false => {
                to[8..20].copy_from_slice(&MAPPED);
                to[20..24].copy_from_slice(&self.ip[..4]);
            }
        }
        V6_BYTES
    }
}
