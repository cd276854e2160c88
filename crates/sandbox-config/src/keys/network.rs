//! `network`: which hosts commands may reach.

use crate::syntax::key_table::shape::{HOST, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable};

/// `network: true`, or the hosts that may be reached.
pub(crate) const NETWORK_SHAPE: ValueShape =
    ValueShape::OneOf(&[ValueShape::Bool, ValueShape::Section(&NETWORK)]);

pub(crate) static NETWORK: KeyTable = KeyTable {
    id: "network",
    plural: "`network` has",
    may_be_blank: false,
    list: &[KeySpec::new(
        "allow",
        ValueShape::List(&ValueShape::Like(&HOST)),
        "Hosts that commands may reach: `host`, `*.host` for the names below it, `host:port`. No mechanism can enforce such a list yet: commands of a project with one are refused.",
    )
    .required()],
    foreign: &[
        ("allowedDomains", "did you mean `allow:`?"),
        ("allowed_domains", "did you mean `allow:`?"),
        ("hosts", "did you mean `allow:`?"),
        ("deny", "forge lists the hosts that commands may reach: `allow:`"),
        (
            "deniedDomains",
            "forge lists the hosts that commands may reach: `allow:`",
        ),
        ("enabled", "write `network: true` or `network: false`"),
        ("mode", "write `network: true` or `network: false`"),
    ],
};
