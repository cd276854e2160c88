//! Rules for sockets. For connects, only a filter for the remote end has an effect: one for the
//! local end matches every address. Local sockets are matched by path, independently of the rules
//! for files.

use super::layout::SeatbeltLayout;
use super::text::{ProfileText, named};
use crate::access::Access;
use crate::policy::{Network, Policy, UnixSockets};

/// Name resolution, the network's state, and the services that check certificates. Only allowed if
/// every host is reachable anyway: `trustd` fetches the URLs that a certificate names.
const SERVICES: [&str; 6] = [
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.networkd",
    "com.apple.ocspd",
    "com.apple.trustd",
    "com.apple.trustd.agent",
];

const RESOLVER: [&str; 2] = [
    "(remote unix-socket (path-literal \"/private/var/run/mDNSResponder\"))",
    "(remote unix-socket (path-literal \"/var/run/mDNSResponder\"))",
];

pub(super) fn write(
    text: &mut ProfileText,
    policy: &Policy,
    layout: &SeatbeltLayout,
    proxy_port: Option<u16>,
) {
    write_network(text, policy, proxy_port);
    write_local_sockets(text, policy, layout);
}

fn write_network(text: &mut ProfileText, policy: &Policy, proxy_port: Option<u16>) {
    text.section("network");
    match policy.network() {
        Network::Denied => {}
        Network::Loopback => {
            text.allow(
                "network-bind network-inbound",
                &["(local ip \"localhost:*\")"],
            );
            text.allow("network-outbound", &["(remote ip \"localhost:*\")"]);
        }
        Network::Hosts(_) => {
            if let Some(port) = proxy_port {
                let proxy = format!("(remote ip \"localhost:{port}\")");
                text.allow("network-outbound", &[proxy]);
            }
        }
        Network::Unrestricted => {
            text.allow("network-bind network-inbound", &["(local ip \"*:*\")"]);
            let [resolver, link] = RESOLVER;
            text.allow("network-outbound", &["(remote ip \"*:*\")", resolver, link]);
            text.allow("system-socket", &["(socket-domain AF_ROUTE)"]);
            text.allow("mach-lookup", &named("global-name", &SERVICES));
        }
    }
}

fn write_local_sockets(text: &mut ProfileText, policy: &Policy, layout: &SeatbeltLayout) {
    text.section("local sockets");
    match policy.unix_sockets() {
        UnixSockets::Closed | UnixSockets::Own => {}
        UnixSockets::Named(_) => {
            text.allow("system-socket", &["(socket-domain AF_UNIX)"]);
            let named: Vec<String> = layout
                .sockets
                .iter()
                .flat_map(|socket| socket.names())
                .map(|name| format!("(remote unix-socket (path-literal (param \"{name}\")))"))
                .collect();
            text.allow("network-outbound", &named);
        }
        UnixSockets::Open => {
            text.allow("system-socket", &["(socket-domain AF_UNIX)"]);
            for mount in &layout.mounts {
                let access = policy.mounts()[mount.index].access();
                let seen = access.contains(Access::READ) || access.contains(Access::WRITE);
                sockets(
                    text,
                    &mount.at.names(),
                    seen,
                    access.contains(Access::WRITE),
                    mount.nested,
                );
            }
            for place in &layout.private {
                sockets(text, &place.names(), true, true, false);
            }
        }
    }
}

/// Writes rules for connects to sockets below a directory, and for sockets made there. Writes a
/// denial only if a rule for a directory around it may allow them.
fn sockets(text: &mut ProfileText, names: &[String; 2], connect: bool, make: bool, nested: bool) {
    for (allowed, operation, end) in [
        (connect, "network-outbound", "remote"),
        (make, "network-bind", "local"),
    ] {
        let filters: Vec<String> = names
            .iter()
            .map(|name| format!("({end} unix-socket (subpath (param \"{name}\")))"))
            .collect();
        if allowed {
            text.allow(operation, &filters);
        } else if nested {
            text.deny(operation, &filters);
        }
    }
}
