//! The table of synthetic addresses. Each name that a program resolves has addresses of its own, by
//! which a connection tells its name. The table only grows: an address never changes its name.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::HostName;

/// Tables of this size that all services of a broker fill together.
const FULL_TABLES: usize = 4;
/// The most names. 198.18.0.0/15 has twice as many addresses.
pub(super) const MAX_NAMES: usize = 65_536;
/// 198.18.1.0: the first addresses are left to whoever sets up the network.
const FIRST_V4: u32 = 0xC612_0100;
/// fd98:18::100, of the network fd98:18::/64.
const FIRST_V6: u128 = 0xfd98_0018_0000_0000_0000_0000_0000_0100;

/// Names with their numbers, of one service: a program neither fills another one's table nor reads
/// from it.
#[derive(Debug)]
pub(super) struct SyntheticNames {
    names: Vec<HostName>,
    numbers: HashMap<HostName, u32>,
    limit: usize,
    /// Names in the tables of all services.
    total: Arc<AtomicUsize>,
}

impl Drop for SyntheticNames {
    fn drop(&mut self) {
        self.total.fetch_sub(self.names.len(), Ordering::Relaxed);
    }
}

/// The meaning of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressMeaning {
    /// The synthetic address of a name.
    Name(HostName),
    /// A synthetic address that no name has.
    Unassigned,
    /// Any other address.
    Literal,
}

/// `true` if the address is in a network of synthetic addresses.
pub(super) fn is_synthetic(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => u32::from(address) >> 17 == FIRST_V4 >> 17,
        IpAddr::V6(address) => u128::from(address) >> 64 == FIRST_V6 >> 64,
    }
}

impl SyntheticNames {
    /// Returns an empty table with a limit of its own, and one for all tables with the same total.
    pub(super) fn new(limit: usize, total: Arc<AtomicUsize>) -> SyntheticNames {
        SyntheticNames {
            names: Vec::new(),
            numbers: HashMap::new(),
            limit: limit.min(MAX_NAMES),
            total,
        }
    }

    /// Returns the addresses of a name. `None` if the table is full.
    pub(super) fn assign(&mut self, name: &HostName) -> Option<(Ipv4Addr, Ipv6Addr)> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.names.len()).ok()?;
                if self.names.len() >= self.limit {
                    return None;
                }
                let most = self.limit.saturating_mul(FULL_TABLES);
                let more = |total| (total < most).then_some(total + 1);
                let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
                self.total.fetch_update(set, read, more).ok()?;
                self.names.push(name.clone());
                self.numbers.insert(name.clone(), number);
                number
            }
        };
        let v4 = Ipv4Addr::from(FIRST_V4 + number);
        let v6 = Ipv6Addr::from(FIRST_V6 + u128::from(number));
        Some((v4, v6))
    }

    /// Returns the meaning of an address.
    pub(super) fn meaning(&self, address: IpAddr) -> AddressMeaning {
        if !is_synthetic(address) {
            return AddressMeaning::Literal;
        }
        let number = match address {
            IpAddr::V4(address) => u32::from(address).checked_sub(FIRST_V4).map(u128::from),
            IpAddr::V6(address) => u128::from(address).checked_sub(FIRST_V6),
        };
        let name = number
            .and_then(|number| usize::try_from(number).ok())
            .and_then(|number| self.names.get(number));
        match name {
            Some(name) => AddressMeaning::Name(name.clone()),
            None => AddressMeaning::Unassigned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> HostName {
        HostName::parse(&format!("h{number}.example.com")).unwrap()
    }

    #[test]
    fn every_name_has_its_own_addresses() {
        let mut names = SyntheticNames::new(usize::MAX, Arc::default());
        for number in 0..MAX_NAMES {
            let (v4, v6) = names.assign(&name(number)).unwrap();
            let own = AddressMeaning::Name(name(number));
            assert_eq!(names.meaning(v4.into()), own);
            assert_eq!(names.meaning(v6.into()), own);
        }
        assert_eq!(names.assign(&name(MAX_NAMES)), None, "the table is full");
        let first = names.assign(&name(0)).unwrap();
        assert_eq!(first.0, Ipv4Addr::new(198, 18, 1, 0));
        assert_eq!(first.1, "fd98:18::100".parse::<Ipv6Addr>().unwrap());
        let last = names.assign(&name(MAX_NAMES - 1)).unwrap();
        assert_eq!(last.0, Ipv4Addr::new(198, 19, 0, 255));
    }

    #[test]
    fn all_tables_together_are_bounded_and_a_dropped_one_counts_no_more() {
        let total = Arc::default();
        let table = || SyntheticNames::new(2, Arc::clone(&total));
        let mut full: Vec<_> = (0..FULL_TABLES).map(|_| table()).collect();
        for names in &mut full {
            assert!(names.assign(&name(0)).is_some() && names.assign(&name(1)).is_some());
            assert_eq!(names.assign(&name(2)), None);
        }
        let mut next = table();
        assert_eq!(next.assign(&name(0)), None);
        full.pop();
        assert!(next.assign(&name(0)).is_some() && next.assign(&name(1)).is_some());
    }

    #[test]
    fn other_addresses_are_literal_or_unassigned() {
        let mut names = SyntheticNames::new(1, Arc::default());
        names.assign(&name(0)).unwrap();
        assert_eq!(names.assign(&name(1)), None);
        for (address, meaning) in [
            ("198.18.0.0", AddressMeaning::Unassigned),
            ("198.18.1.0", AddressMeaning::Name(name(0))),
            ("198.18.1.1", AddressMeaning::Unassigned),
            ("198.19.255.255", AddressMeaning::Unassigned),
            ("198.17.255.255", AddressMeaning::Literal),
            ("198.20.0.0", AddressMeaning::Literal),
            ("127.0.0.1", AddressMeaning::Literal),
            ("fd98:18::100", AddressMeaning::Name(name(0))),
            ("fd98:18::101", AddressMeaning::Unassigned),
            ("fd98:18::", AddressMeaning::Unassigned),
            ("fd98:18::ffff:ffff:ffff:ffff", AddressMeaning::Unassigned),
            ("fd98:18:0:1::100", AddressMeaning::Literal),
            ("::1", AddressMeaning::Literal),
        ] {
            assert_eq!(
                names.meaning(address.parse().unwrap()),
                meaning,
                "{address}"
            );
        }
    }
}
