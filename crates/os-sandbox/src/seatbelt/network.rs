//! Rules for sockets. For connects, only a filter for the remote end has an effect: one for the
//! local end matches every address. Local sockets are matched by path, independently of the rules
//! for files.

use super::layout::SeatbeltLayout;
use super::text::{ProfileAction, ProfileText, named};
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
    text.section("network");
    let one = |filter: &str| vec![filter.to_owned()];
    match policy.network() {
        Network::Denied => {}
        Network::Loopback => {
            let servers = one("(local ip \"localhost:*\")");
            text.rule(
                ProfileAction::Allow,
                "network-bind network-inbound",
                &servers,
            );
            let remote = one("(remote ip \"localhost:*\")");
            text.rule(ProfileAction::Allow, "network-outbound", &remote);
        }
        Network::Hosts(_) => {
            if let Some(port) = proxy_port {
                let proxy = format!("(remote ip \"localhost:{port}\")");
                text.rule(ProfileAction::Allow, "network-outbound", &[proxy]);
            }
        }
        Network::Unrestricted => {
            let servers = one("(local ip \"*:*\")");
            text.rule(
                ProfileAction::Allow,
                "network-bind network-inbound",
                &servers,
            );
            let mut remote = one("(remote ip \"*:*\")");
            remote.extend(RESOLVER.map(str::to_owned));
            text.rule(ProfileAction::Allow, "network-outbound", &remote);
            text.rule(
                ProfileAction::Allow,
                "system-socket",
                &one("(socket-domain AF_ROUTE)"),
            );
            text.rule(
                ProfileAction::Allow,
                "mach-lookup",
                &named("global-name", &SERVICES),
            );
        }
    }

    text.section("local sockets");
    match policy.unix_sockets() {
        UnixSockets::Closed | UnixSockets::Own => {}
        UnixSockets::Named(_) => {
            text.rule(
                ProfileAction::Allow,
                "system-socket",
                &one("(socket-domain AF_UNIX)"),
            );
            let named: Vec<String> = layout
                .sockets
                .iter()
                .flat_map(|socket| socket.names())
                .map(|name| format!("(remote unix-socket (path-literal (param \"{name}\")))"))
                .collect();
            text.rule(ProfileAction::Allow, "network-outbound", &named);
        }
        UnixSockets::Open => {
            text.rule(
                ProfileAction::Allow,
                "system-socket",
                &one("(socket-domain AF_UNIX)"),
            );
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
            text.rule(ProfileAction::Allow, operation, &filters);
        } else if nested {
            text.rule(ProfileAction::Deny, operation, &filters);
        }
    }
}
