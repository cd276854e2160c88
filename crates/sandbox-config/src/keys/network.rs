//! `network`: which hosts commands may reach.

use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{HOST, ValueShape};

/// `network: true`, or the hosts that may be reached.
pub(crate) const NETWORK_SHAPE: ValueShape = OneOf(&[Bool, Section(&NETWORK)]);

key_table! {
    pub(crate) static NETWORK = "network", "`network` has";
    keys {
        /// Hosts that commands may reach: `host`, `*.host` for the names below it, `host:port`. No
        /// mechanism can enforce such a list yet: commands of a project with one are refused.
        allow: List(&Like(&HOST)), required;
    }
    foreign {
        "allowedDomains" | "allowed_domains" | "hosts" => "did you mean `allow:`?",
        "deny" | "deniedDomains" => "forge lists the hosts that commands may reach: `allow:`",
        "enabled" | "mode" => "write `network: true` or `network: false`",
    }
    example "\
network:
  allow: [\"example.com:443\", \"*.rust-lang.org\"]
";
}
