//! The hosts that a command may reach.

use super::Policy;
use crate::error::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// Bound on the published ports of a policy.
pub const MAX_PUBLISHED_PORTS: usize = 16;
/// The first port that is published. The ones below need a privilege (ip(7)).
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// The network of a command. A stricter value is always the safe choice.
///
/// ```
/// use os_sandbox::{Network, Policy};
///
/// assert_eq!(Policy::builder().build()?.network(), &Network::Denied);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Network {
    /// No other host. With a network namespace (namespaces, bubblewrap, Docker) a command and its children have
    /// a loopback interface of their own. Without one the command cannot make an internet socket,
    /// and connects fail with "Network is unreachable".
    #[default]
    Denied,
    /// As `Denied`, but a host without network namespaces is refused.
    Loopback,
    /// As `Loopback`, and the hosts that a proxy of the caller connects
    /// ([`HostProxy`](crate::HostProxy)). Under Landlock alone it has no loopback, and a process
    /// outside connects the command to the proxy. Mechanisms that have neither a network namespace
    /// nor that process cannot keep the promise, so it is a gap there.
    Hosts(NamedHosts),
    /// Every host that the caller can reach, over TCP and UDP.
    Unrestricted,
}

impl Network {
    /// Checks the list of hosts, and that the command can listen on each published port.
    pub(super) fn check(&self, published: &BTreeSet<u16>) -> Result<(), Error> {
        if published.len() > MAX_PUBLISHED_PORTS {
            let text = format!("more than {MAX_PUBLISHED_PORTS} published ports");
            return Err(ErrorKind::Limit.error(text));
        }
        let unprivileged = |port: u16| match port < FIRST_UNPRIVILEGED_PORT {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "invalid published port {port}: it is below {FIRST_UNPRIVILEGED_PORT}"
            ))),
        };
        published.iter().copied().try_for_each(unprivileged)?;
        match self {
            Network::Denied | Network::Loopback => Ok(()),
            Network::Hosts(hosts) => {
                hosts.check()?;
                match published.iter().find(|port| hosts.listens_on(**port)) {
                    None => Ok(()),
                    Some(port) => Err(Error::invalid(format!(
                        "port {port} is published, and the command cannot listen on it: it is a port \
                         of a named host; publish another one"
                    ))),
                }
            }
            Network::Unrestricted if published.is_empty() => Ok(()),
            Network::Unrestricted => Err(Error::invalid(
                "ports are published, and the command is in the host's own network",
            )),
        }
    }
}

/// The hosts that a command may reach by name. The proxy of the caller decides about each
/// connection; the list says where the command's network namespace takes connections for it.
///
/// A command reaches the proxy in two ways. It can use the HTTP and SOCKS proxy at
/// [`NamedHosts::PROXY`], which the proxy variables name. Or it asks the resolver of its namespace,
/// which answers a name with an address of [`NamedHosts::NAMES_V4`] or [`NamedHosts::NAMES_V6`],
/// and connects to it on one of the ports.
///
/// Under Landlock alone nothing resolves names, and the proxy variables name a port of the host's
/// loopback, with a password. The named addresses of the loopback are connected as they are.
///
/// ```
/// use os_sandbox::{NamedHosts, Network, Policy};
///
/// let hosts = NamedHosts::new(["example.com:443"]).port(443);
/// let policy = Policy::builder().network(Network::Hosts(hosts)).build()?;
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NamedHosts {
    patterns: Vec<String>,
    denied: Vec<String>,
    ports: BTreeSet<u16>,
    addresses: BTreeSet<SocketAddr>,
    /// Of this host, as is the parent, whose URL may contain credentials: neither is serialised.
    #[serde(skip)]
    services: BTreeSet<u16>,
    #[serde(skip)]
    parent: Option<ParentProxySetting>,
}

/// A proxy outside, such as a company's, through which the hosts' proxy reaches names. It resolves
/// them, so nothing here knows their addresses.
///
/// ```
/// use os_sandbox::ParentProxySetting;
/// let url = "http://me:secret@proxy.example.com:3128";
/// let parent = ParentProxySetting::new("proxy.example.com:3128", url, "localhost");
/// assert!(!format!("{parent:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ParentProxySetting {
    address: String,
    url: String,
    exceptions: String,
}

impl ParentProxySetting {
    /// Returns a setting: the address that plans and receipts show, the URL, which may contain
    /// credentials, and the hosts that are reached directly, as in `NO_PROXY`.
    pub fn new(
        address: impl Into<String>,
        url: impl Into<String>,
        exceptions: impl Into<String>,
    ) -> ParentProxySetting {
        ParentProxySetting {
            address: address.into(),
            url: url.into(),
            exceptions: exceptions.into(),
        }
    }

    sandbox_names::getters! {
        /// Returns the address without credentials.
        pub address: &str = &address;
        /// Returns the URL, with its credentials.
        pub url: &str = &url;
        /// Returns the hosts that are reached directly.
        pub exceptions: &str = &exceptions;
    }
}

impl Policy {
    /// Returns this policy with a proxy outside for its named hosts. A policy without named hosts
    /// stays as it is.
    ///
    /// ```
    /// use os_sandbox::{NamedHosts, Network, ParentProxySetting, Policy};
    /// let hosts = NamedHosts::new(["example.com"]).port(443);
    /// let policy = Policy::builder().network(Network::Hosts(hosts)).build()?;
    /// let parent = ParentProxySetting::new("proxy.example.com:3128", "proxy.example.com:3128", "");
    /// let policy = policy.with_parent_proxy(parent);
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn with_parent_proxy(mut self, parent: ParentProxySetting) -> Policy {
        if let Network::Hosts(hosts) = &mut self.network {
            hosts.parent = Some(parent);
        }
        self
    }
}

sandbox_names::debug!(ParentProxySetting {
    address,
    exceptions
});

impl NamedHosts {
    /// The address of the HTTP and SOCKS proxy in the command's network namespace.
    pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 3128);
    /// The addresses that the resolver gives to names (RFC 2544), and the length of their prefix.
    pub const NAMES_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
    /// As `NAMES_V4`, for IPv6: a unique local prefix (RFC 4193).
    pub const NAMES_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd98, 0x18, 0, 0, 0, 0, 0, 0), 64);
    /// The port of the resolver in that namespace.
    pub(crate) const RESOLVER_PORT: u16 = 53;
    /// Bound on the ports.
    pub const MAX_PORTS: usize = 32;
    /// Bound on the addresses.
    pub const MAX_ADDRESSES: usize = 16;
    /// Bound on the services.
    pub const MAX_SERVICES: usize = 8;

    /// Returns a list with the patterns that plans and receipts show.
    #[must_use]
    pub fn new<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> NamedHosts {
        NamedHosts {
            patterns: patterns.into_iter().map(Into::into).collect(),
            ..NamedHosts::default()
        }
    }

    /// Adds a pattern of hosts that the proxy refuses although another pattern names them.
    #[must_use]
    pub fn deny(mut self, pattern: impl Into<String>) -> NamedHosts {
        self.denied.push(pattern.into());
        self
    }

    /// Adds a TCP port on which the command can connect to the addresses of names. The command
    /// cannot listen on that port. On 53 and 3128, the ports of the resolver and the proxy, names
    /// are reached by the proxy only.
    #[must_use]
    pub fn port(mut self, port: u16) -> NamedHosts {
        self.ports.insert(port);
        self
    }

    /// Adds an address of the host's network that the command can connect to as it is.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> NamedHosts {
        self.addresses.insert(address);
        self
    }

    /// Adds a service of the caller on a free port of the command's own 127.0.0.1, and returns the
    /// port. The [`HostProxy`](crate::HostProxy) of the command serves it. Without a network
    /// namespace of the command nothing serves it.
    ///
    /// ```
    /// use os_sandbox::NamedHosts;
    /// let mut hosts = NamedHosts::new(["example.com"]).port(443);
    /// assert_ne!(hosts.add_service(), hosts.add_service());
    /// ```
    pub fn add_service(&mut self) -> u16 {
        let is_free = |port: &u16| {
            let mut addresses = self.addresses.iter();
            !self.ports.contains(port)
                && !self.services.contains(port)
                && addresses.all(|address| address.port() != *port)
        };
        // Bounds leave some free: `Policy` checks them.
        let mut free = (Self::PROXY.port() + 1..=u16::MAX).filter(is_free);
        let port = free.next().unwrap_or(u16::MAX);
        self.services.insert(port);
        port
    }

    /// Returns the addresses of the services in the command's network namespace.
    pub fn services(&self) -> impl Iterator<Item = SocketAddrV4> {
        let ports = self.services.iter();
        ports.map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port))
    }

    /// Reaches names through a proxy outside. Addresses behind names are not checked then, and plans
    /// and receipts say so.
    #[must_use]
    pub fn parent_proxy(mut self, parent: ParentProxySetting) -> NamedHosts {
        self.parent = Some(parent);
        self
    }

    sandbox_names::getters! {
        /// Returns the proxy outside.
        pub parent: Option<&ParentProxySetting> = parent.as_ref();
        /// Returns the patterns that plans and receipts show.
        pub patterns: &[String] = &patterns;
        /// Returns the patterns of refused hosts.
        pub denied: &[String] = &denied;
        /// Returns the ports.
        pub ports: impl Iterator<Item = u16> = ports.iter().copied();
    }

    /// Returns the ports on which the command can connect to the addresses of names.
    pub(crate) fn forwarded_ports(&self) -> impl Iterator<Item = u16> {
        self.ports().filter(|port| !Self::is_taken(*port))
    }

    /// Returns `true` for the ports of the resolver and the proxy. On those, hosts are reached by
    /// the proxy only.
    pub(crate) fn is_taken(port: u16) -> bool {
        port == Self::RESOLVER_PORT || port == Self::PROXY.port()
    }

    /// Returns `true` if the proxy has a listener on a port in the command's network.
    fn listens_on(&self, port: u16) -> bool {
        Self::is_taken(port)
            || self.ports.contains(&port)
            || self.addresses.iter().any(|address| address.port() == port)
            || self.services.contains(&port)
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }

    /// Describes the list, for the remark of a plan.
    pub(crate) fn describe(&self) -> String {
        let mut list = self.patterns.join(", ");
        if !self.denied.is_empty() {
            list = format!("{list}, without {}", self.denied.join(", "));
        }
        match &self.parent {
            None => list,
            Some(parent) => format!(
                "{list}; through the parent proxy {}, which resolves names, so private addresses \
                 behind them are not refused",
                parent.address
            ),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let bounds = [
            (self.ports.len(), Self::MAX_PORTS, "ports"),
            (self.addresses.len(), Self::MAX_ADDRESSES, "addresses"),
            (self.services.len(), Self::MAX_SERVICES, "services"),
        ];
        match bounds.into_iter().find(|(count, most, _)| count > most) {
            Some((_, most, of)) => {
                Err(ErrorKind::Limit.error(format!("named hosts with more than {most} {of}")))
            }
            None => Ok(()),
        }
    }
}
