//! The patterns of hosts and addresses that would lift the refusals of contacts.

use os_sandbox::{Contact, ContactOutcome};
use sandbox_network::{AddressClass, HostPattern};

/// Returns the pattern that would have let a refused contact pass. `None` of another outcome, and of
/// a refusal that another pattern would not lift.
pub(crate) fn pattern(contact: &Contact) -> Option<HostPattern> {
    let is_unnamed = contact.rule.is_none() && contact.address.is_none();
    let is_refused = contact.kind.is_of_host() && contact.outcome == ContactOutcome::Refused;
    (is_refused && is_unnamed)
        .then(|| pattern_of(&contact.host, contact.port))
        .flatten()
}

/// Returns the pattern of the address for which a contact was refused, and its name. `None` of another
/// refusal, and of an address of this machine, its link or its cloud.
pub(crate) fn pattern_of_address(contact: &Contact) -> Option<(HostPattern, String)> {
    use AddressClass::{Benchmarking, Documentation, Private, Reserved, Shared};
    let is_refused = contact.outcome == ContactOutcome::Refused;
    let address = contact.address.filter(|_| is_refused)?;
    let class = AddressClass::of(address);
    matches!(
        class,
        Private | Shared | Reserved | Documentation | Benchmarking
    )
    .then(|| pattern_of(&address.to_string(), contact.port))
    .flatten()
    .map(|pattern| (pattern, contact.host.clone()))
}

fn pattern_of(host: &str, port: u16) -> Option<HostPattern> {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let text = match port {
        0 => host,
        port => format!("{host}:{port}"),
    };
    HostPattern::parse(&text).ok()
}
