//! Addresses of this machine. A name must not reach the machine's own services by way of a public
//! address of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use crate::address::AddressClass;

/// Any port: nothing is sent to it.
const PORT: u16 = 9;

/// Returns the class of an address. A public address of this machine is not public.
pub(in crate::broker) fn class_of(address: IpAddr) -> AddressClass {
    match AddressClass::of(address) {
        // An address that cannot be told from this machine's is taken for one.
        AddressClass::Public if is_own(address).unwrap_or(true) => AddressClass::ThisMachine,
        class => class,
    }
}

/// `true` if a network interface of this machine has the address.
fn is_own(address: IpAddr) -> io::Result<bool> {
    if !can_bind(address)? {
        return Ok(false);
    }
    // No machine has the address for examples, except with the setting `ip_nonlocal_bind`, with which
    // every address can be bound.
    let (example, any): (IpAddr, IpAddr) = match address {
        IpAddr::V4(_) => ([192, 0, 2, 1].into(), Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(_) => (
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
            Ipv6Addr::UNSPECIFIED.into(),
        ),
    };
    if !can_bind(example)? {
        return Ok(true);
    }
    // The system sends from the address itself if it is its own.
    let socket = UdpSocket::bind((any, 0))?;
    Ok(socket.connect((address, PORT)).is_ok() && socket.local_addr()?.ip() == address)
}

/// `true` if a socket can have the address.
fn can_bind(address: IpAddr) -> io::Result<bool> {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_told_from_others() {
        for (address, own) in [
            ("127.0.0.1", true),
            ("1.1.1.1", false),
            ("93.184.216.34", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_own(address).unwrap(), own, "{address}");
        }
        let class = |text: &str| class_of(text.parse().unwrap());
        assert_eq!(class("127.0.0.1"), AddressClass::Loopback);
        assert_eq!(class("1.1.1.1"), AddressClass::Public);
    }
}
