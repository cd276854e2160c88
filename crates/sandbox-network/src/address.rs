//! Classes of addresses. [`AddressClass::of`] tells addresses of the public internet from those of
//! the machine, its network and the cloud that it runs in, which a public name must not lead to.
//! An address that is not in the table and not in the space of global unicast is reserved.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
///
/// ```
/// use sandbox_network::AddressClass;
/// let class = |text: &str| AddressClass::of(text.parse().unwrap());
/// assert_eq!(class("93.184.216.34"), AddressClass::Public);
/// assert_eq!(class("169.254.169.254"), AddressClass::Metadata);
/// // The loopback in the prefix of NAT64.
/// assert_eq!(class("64:ff9b::7f00:1"), AddressClass::Loopback);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// An address of the public internet.
    Public,
    /// The loopback of this machine.
    Loopback,
    /// A public address of this machine. A broker tells it; [`AddressClass::of`] does not.
    ThisMachine,
    /// A neighbour on the same link.
    LinkLocal,
    /// A service of a cloud that hands out the credentials of the machine.
    Metadata,
    /// A private network.
    Private,
    /// A network of an internet provider behind its address translation.
    Shared,
    /// A prefix of a transition mechanism whose target cannot be checked.
    Transition,
    /// A group of hosts.
    Multicast,
    /// All hosts of a link.
    Broadcast,
    /// No address; systems connect it to the loopback.
    Unspecified,
    /// An address for examples.
    Documentation,
    /// An address for tests of equipment.
    Benchmarking,
    /// An address without a use that a client could have.
    Reserved,
}

/// A row: network, length of its prefix, class.
type V4Row = (Ipv4Addr, u32, AddressClass);
type V6Row = (Ipv6Addr, u32, AddressClass);

use AddressClass::{
    Benchmarking, Broadcast, Documentation, LinkLocal, Loopback, Metadata, Multicast, Private,
    Public, Reserved, Shared, ThisMachine, Transition, Unspecified,
};

/// The first row that contains an address decides.
const V4: &[V4Row] = &[
    // Services of clouds: most of them, ECS tasks, Azure, Alibaba, Oracle.
    (v4(169, 254, 169, 254), 32, Metadata),
    (v4(169, 254, 170, 2), 32, Metadata),
    (v4(168, 63, 129, 16), 32, Metadata),
    (v4(100, 100, 100, 200), 32, Metadata),
    (v4(192, 0, 0, 192), 32, Metadata),
    (v4(0, 0, 0, 0), 8, Unspecified), // RFC 791, 3.2; RFC 1122, 3.2.1.3
    (v4(10, 0, 0, 0), 8, Private),    // RFC 1918
    (v4(100, 64, 0, 0), 10, Shared),  // RFC 6598
    (v4(127, 0, 0, 0), 8, Loopback),  // RFC 1122, 3.2.1.3
    (v4(169, 254, 0, 0), 16, LinkLocal), // RFC 3927
    (v4(172, 16, 0, 0), 12, Private), // RFC 1918
    (v4(192, 0, 0, 0), 24, Reserved), // RFC 6890, 2.1
    (v4(192, 0, 2, 0), 24, Documentation), // RFC 5737
    (v4(192, 88, 99, 0), 24, Transition), // RFC 7526 (6to4 relays)
    (v4(192, 168, 0, 0), 16, Private), // RFC 1918
    (v4(198, 18, 0, 0), 15, Benchmarking), // RFC 2544; also the synthetic addresses
    (v4(198, 51, 100, 0), 24, Documentation), // RFC 5737
    (v4(203, 0, 113, 0), 24, Documentation), // RFC 5737
    (v4(224, 0, 0, 0), 4, Multicast), // RFC 5771
    (v4(255, 255, 255, 255), 32, Broadcast), // RFC 919
    (v4(240, 0, 0, 0), 4, Reserved),  // RFC 1112, 4
];

/// The first row that contains an address decides. [`embedded_v4`] comes before.
const V6: &[V6Row] = &[
    (v6(0xfd00, 0xec2, 0, 0x254), 128, Metadata), // Amazon EC2
    (v6(0xfd20, 0xce, 0, 0x254), 128, Metadata),  // Google Compute Engine
    (v6(0, 0, 0, 0), 128, Unspecified),           // RFC 4291, 2.5.2
    (v6(0, 0, 0, 1), 128, Loopback),              // RFC 4291, 2.5.3
    (v6(0x64, 0xff9b, 1, 0), 48, Transition),     // RFC 8215 (NAT64 of a local prefix)
    (v6(0x100, 0, 0, 0), 64, Reserved),           // RFC 6666 (discard)
    (v6(0x2001, 0, 0, 0), 32, Transition),        // RFC 4380 (Teredo)
    (v6(0x2001, 2, 0, 0), 48, Benchmarking),      // RFC 5180
    (v6(0x2001, 0xdb8, 0, 0), 32, Documentation), // RFC 3849
    (v6(0x2001, 0, 0, 0), 23, Reserved),          // RFC 2928 (protocol assignments, ORCHID)
    (v6(0x3fff, 0, 0, 0), 20, Documentation),     // RFC 9637
    (v6(0x5f00, 0, 0, 0), 16, Reserved),          // RFC 9602 (segment routing)
    (v6(0xfc00, 0, 0, 0), 7, Private),            // RFC 4193
    (v6(0xfe80, 0, 0, 0), 10, LinkLocal),         // RFC 4291, 2.5.6
    (v6(0xfec0, 0, 0, 0), 10, Private),           // RFC 3879 (site-local)
    (v6(0xff00, 0, 0, 0), 8, Multicast),          // RFC 4291, 2.7
    (v6(0x2000, 0, 0, 0), 3, Public),             // RFC 4291, 2.4 (global unicast in use)
];

impl AddressClass {
    /// Returns the class of an address. An IPv4 address inside an IPv6 address has its own class,
    /// except that a translator's address for a public one is not public itself.
    #[must_use]
    pub fn of(address: IpAddr) -> AddressClass {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match embedded_v4(address) {
                Some(embedded) => match of_v4(embedded) {
                    // The system connects a mapped address as the IPv4 address itself. With any
                    // other form, a translator on the way decides where packets go.
                    Public if address.to_ipv4_mapped().is_none() => Transition,
                    class => class,
                },
                None => of_v6(address),
            },
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Public => "a public address",
            Loopback => "a loopback address",
            ThisMachine => "an address of this machine",
            LinkLocal => "a link-local address",
            Metadata => "the metadata service of a cloud",
            Private => "a private address",
            Shared => "an address behind a provider's address translation",
            Transition => "an address of a transition mechanism",
            Multicast => "a multicast address",
            Broadcast => "the broadcast address",
            Unspecified => "the unspecified address",
            Documentation => "an address for documentation",
            Benchmarking => "an address for benchmarks",
            Reserved => "a reserved address",
        })
    }
}

/// Returns `true` if the address belongs to the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    AddressClass::of(address) == Public
}

/// Returns the IPv4 address to which a translator or the system sends packets for an IPv6 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let low = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // RFC 4291, 2.5.5.2: IPv4-mapped.
        [0, 0, 0, 0, 0, 0xffff, high, last] => Some(low(high, last)),
        // RFC 2765, 2.1: IPv4-translated, obsolete.
        [0, 0, 0, 0, 0xffff, 0, high, last] => Some(low(high, last)),
        // RFC 6052, 2.1: NAT64, well-known prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, high, last] => Some(low(high, last)),
        // RFC 3056: 6to4.
        [0x2002, high, last, ..] => Some(low(high, last)),
        // RFC 4291, 2.5.5.1: IPv4-compatible, obsolete.
        [0, 0, 0, 0, 0, 0, high, last] if high != 0 => Some(low(high, last)),
        _ => None,
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let row = V4.iter().find(|(network, prefix, _)| {
        let mask = u32::MAX << (32 - prefix);
        u32::from(address) & mask == u32::from(*network)
    });
    row.map_or(Public, |(.., class)| *class)
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    let row = V6.iter().find(|(network, prefix, _)| {
        let mask = u128::MAX << (128 - prefix);
        u128::from(address) & mask == u128::from(*network)
    });
    row.map_or(Reserved, |(.., class)| *class)
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// Three parts from the left and the last one.
const fn v6(first: u16, second: u16, third: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(first, second, third, 0, 0, 0, 0, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_class() {
        for (text, class) in [
            ("1.1.1.1", Public),
            ("93.184.216.34", Public),
            ("172.15.255.255", Public),
            ("172.32.0.0", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("198.17.255.255", Public),
            ("198.20.0.0", Public),
            ("223.255.255.255", Public),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("10.255.255.255", Private),
            ("100.64.0.1", Shared),
            ("100.100.100.200", Metadata),
            ("127.0.0.1", Loopback),
            ("127.255.255.255", Loopback),
            ("168.63.129.16", Metadata),
            ("169.254.1.1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("169.254.170.2", Metadata),
            ("172.16.0.0", Private),
            ("172.31.255.255", Private),
            ("192.0.0.1", Reserved),
            ("192.0.0.192", Metadata),
            ("192.0.2.1", Documentation),
            ("192.88.99.1", Transition),
            ("192.168.0.1", Private),
            ("198.18.0.1", Benchmarking),
            ("198.19.255.255", Benchmarking),
            ("198.51.100.1", Documentation),
            ("203.0.113.1", Documentation),
            ("224.0.0.1", Multicast),
            ("239.255.255.255", Multicast),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Broadcast),
            ("2606:4700::1111", Public),
            ("2001:4860:4860::8888", Public),
            ("2001:200::1", Public),
            ("::", Unspecified),
            ("::1", Loopback),
            ("::2", Reserved),
            ("::ffff:1.1.1.1", Public),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", Metadata),
            ("::ffff:0:10.0.0.1", Private),
            ("::127.0.0.1", Loopback),
            ("::10.0.0.1", Private),
            ("::1.1.1.1", Transition),
            ("::ffff:0:1.1.1.1", Transition),
            ("64:ff9b::1.1.1.1", Transition),
            ("64:ff9b::10.0.0.1", Private),
            ("64:ff9b::169.254.169.254", Metadata),
            ("64:ff9b:1::1.1.1.1", Transition),
            ("64:ff9b:0:1::1.1.1.1", Reserved),
            ("2002:0a00:0001::1", Private),
            ("2002:7f00:0001::1", Loopback),
            ("2002:c0a8:0101::1", Private),
            ("2002:0101:0101::1", Transition),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Transition),
            ("2001:2::1", Benchmarking),
            ("2001:20::1", Reserved),
            ("2001:db8::1", Documentation),
            ("3fff::1", Documentation),
            ("5f00::1", Reserved),
            ("100::1", Reserved),
            ("4000::1", Reserved),
            ("fc00::1", Private),
            ("fd98:18::1", Private),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("fe80::1", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(AddressClass::of(address), class, "{text}");
            assert_eq!(is_public(address), class == Public, "{text}");
        }
    }

    #[test]
    fn the_networks_of_the_table_have_no_bits_outside_their_prefix() {
        for (network, prefix, _) in V4 {
            let mask = u32::MAX << (32 - prefix);
            assert_eq!(u32::from(*network) & !mask, 0, "{network}/{prefix}");
        }
        for (network, prefix, _) in V6 {
            let mask = u128::MAX << (128 - prefix);
            assert_eq!(u128::from(*network) & !mask, 0, "{network}/{prefix}");
        }
    }
}
