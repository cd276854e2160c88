//! `network`: which hosts commands may reach.

use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{HOST, LOOPBACK_ADDRESS, ValueShape};

/// `network: true`, or the hosts that may be reached.
pub(crate) const NETWORK_SHAPE: ValueShape = OneOf(&[Bool, Section(&NETWORK)]);

key_table! {
    pub(crate) static NETWORK = "network", "`network` has";
    keys {
        /// Hosts that commands may reach: `host`, `*.host` for the names below it, each with a port
        /// (`host:443`) or without; `address:port`, `localhost:port`. Without a port, programs that
        /// use the proxy of the variables reach every port, and all others reach 22, 80 and 443.
        /// forge resolves the names and connects; a name that leads to an address of this machine,
        /// of a private network or of a cloud's metadata service is refused. The list holds in
        /// namespaces and in containers of an engine on this machine. Under Landlock alone only
        /// programs that use the proxy of the variables reach a host. Elsewhere every command is
        /// refused. At most 32 ports and 16 addresses.
        allow: List(&Like(&HOST)), default("[]");
        /// Hosts, in the form of `allow`, that commands do not reach although `allow` names them.
        /// Alone it allows nothing. Workers inherit the list, and the lists of all levels add up.
        deny: List(&Like(&HOST)), default("[]");
        /// Services of this machine's loopback that commands reach under the same address:
        /// `127.0.0.1:5432`, `[::1]:5432`, or `localhost:5432` for both. In `allow` they mean the
        /// same.
        loopback_out: List(&Like(&LOOPBACK_ADDRESS)), default("[]");
        /// Ports of the command's own loopback that are published on this machine's: with `[8080]`,
        /// a browser outside reaches a server that the command starts on port 8080 at
        /// `http://127.0.0.1:8080`, and so does every other user of this machine. The command gets
        /// connections this way and makes none. It takes namespaces, bubblewrap, or containers of an
        /// engine on this machine with `docker.reuse: call`; elsewhere every command is refused. So is
        /// one if another program uses the port. At most 16 ports.
        loopback_in: List(&Port), default("[]");
    }
    foreign {
        "allowedDomains" | "allowed_domains" | "hosts" => "did you mean `allow:`?",
        "deniedDomains" | "denied_domains" => "did you mean `deny:`?",
        "loopback" => "did you mean `loopback_out:` or `loopback_in:`?",
        "allowLocalBinding" | "ports" | "publish" | "expose" => "did you mean `loopback_in:`?",
        "enabled" | "mode" => "write `network: true` or `network: false`",
    }
}
