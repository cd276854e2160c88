//! The proxy of the caller, which connects commands with the hosts that their policy names.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// A proxy that decides about the connections of commands and makes them
/// ([`Network::Hosts`](crate::Network::Hosts)), and connects clients with the ports that a command
/// publishes ([`PolicyBuilder::publish_port`](crate::PolicyBuilder::publish_port)). It runs in the
/// calling process: a command's only way to another host are the sockets that it gets here.
pub trait HostProxy: fmt::Debug + Send + Sync {
    /// Starts to serve one command. The call must not wait for connections.
    ///
    /// # Errors
    /// If the sockets cannot be served. The command is not started then.
    fn serve(&self, sockets: ProxySockets) -> std::io::Result<Box<dyn ProxySession>>;

    /// Returns `true` if the proxy publishes ports while the command runs, which gets
    /// [`ProxySockets::on_request`] then.
    fn publishes_later(&self) -> bool {
        false
    }
}

/// The hosts(5) and resolv.conf(5) of a command with named hosts, by their paths. Each name but its own
/// goes to the resolver, those of the host's hosts(5) too, which the proxy's side reads.
pub const NAME_FILES: [(&str, &str); 2] = [
    ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("/etc/resolv.conf", "nameserver 127.0.0.53\n"),
];

/// The service of one command. Dropping it ends every connection.
pub trait ProxySession: fmt::Debug + Send + Sync {
    /// Ends every connection, and returns the contacts.
    fn finish(self: Box<Self>) -> Contacts;
}

/// The sockets on which a command's connections arrive. They are in its network namespace. Where it
/// has none, one listener is on the host's loopback, and other programs can connect to it too:
/// it comes with a password.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ProxySockets {
    /// For questions to the resolver (RFC 1035).
    pub resolvers: Vec<UdpSocket>,
    /// For the same questions over TCP.
    pub resolver_listeners: Vec<TcpListener>,
    /// For HTTP and SOCKS requests.
    pub proxies: Vec<TcpListener>,
    /// For connections to addresses that the resolver gave to names, and to addresses that the
    /// policy names. The local address of a connection is the one that the command asked for.
    pub forwarders: Vec<TcpListener>,
    /// For connections to [`NamedHosts::services`](crate::NamedHosts::services).
    pub services: Vec<TcpListener>,
    /// The ports of the command's loopback that clients of the host's are connected to.
    pub published: Vec<PublishedPort>,
    /// Sockets for ports that are published while the command runs. `None` unless the proxy
    /// [asks for them](HostProxy::publishes_later) and the command has a network namespace.
    pub on_request: Option<Arc<dyn CommandSockets>>,
    /// The password that clients of `proxies` must give, with any user name (RFC 7617, RFC 1929).
    /// `None` where only the command can reach them.
    pub password: Option<ProxyPassword>,
}

/// A port of a command's loopback that is published on the host's.
#[derive(Debug)]
pub struct PublishedPort {
    /// The port, inside and outside.
    pub port: u16,
    /// Listeners on 127.0.0.1 and, if the host has IPv6, ::1.
    pub listeners: Vec<TcpListener>,
    /// The sockets that are connected to the port inside.
    pub sockets: Arc<dyn CommandSockets>,
}

/// Listens on a port of both addresses of this machine's loopback, and of no other.
///
/// # Errors
/// Another program uses the port, or the system does not give it.
pub fn listen_on_loopback(port: u16) -> Result<Vec<TcpListener>, Error> {
    let mut listeners = Vec::new();
    for ip in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        let address = SocketAddr::new(ip, port);
        match TcpListener::bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_without_ipv6(ip, &error) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let text = format!(
                    "cannot publish port {port} of the command: another program of this machine \
                     uses {address}"
                );
                return Err(ErrorKind::PortInUse.error(text).with_hint(format!(
                    "end that program (`ss -ltnp 'sport = :{port}'` shows it), or publish another port"
                )));
            }
            Err(error) => {
                let doing = format!("cannot publish port {port} of the command on {address}");
                return Err(Error::io(doing, error));
            }
        }
    }
    Ok(listeners)
}

fn is_without_ipv6(ip: IpAddr, error: &io::Error) -> bool {
    /// EAFNOSUPPORT of Linux and of macOS.
    const NO_FAMILY: [i32; 2] = [97, 47];
    let errno = error.raw_os_error();
    let has_none = errno.is_some_and(|errno| NO_FAMILY.contains(&errno));
    ip.is_ipv6() && (has_none || error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Makes sockets in a command's network namespace, from outside and for as long as the command runs.
pub trait CommandSockets: fmt::Debug + Send + Sync {
    /// Makes a TCP socket that is neither bound nor connected. Another process makes it, so the call
    /// waits for a moment.
    ///
    /// # Errors
    /// The command has ended, or the system does not give it the socket.
    fn make_socket(&self, is_v6: bool) -> std::io::Result<OwnedFd>;
}

/// The password of a command's proxy: random letters and digits.
///
/// ```
/// let sockets = os_sandbox::ProxySockets::default();
/// assert!(sockets.password.is_none());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyPassword(String);

impl ProxyPassword {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "proxies are Linux's")
    )]
    pub(crate) fn new(text: String) -> ProxyPassword {
        ProxyPassword(text)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProxyPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyPassword")
    }
}

/// The attempts of one command to reach hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contacts {
    /// The first attempts, in the order of their beginning.
    pub listed: Vec<Contact>,
    /// The number of further ones.
    pub more: u64,
    /// All connections, those that are not listed too.
    pub totals: Vec<ContactTotal>,
}

/// The connections that one rule, answer or published port allowed, in figures. A command cannot make
/// a list of them long.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContactTotal {
    /// The kind of the connections: to a host, or of a client outside.
    pub kind: ContactKind,
    /// The pattern that allowed them; of clients outside, the published port.
    pub rule: String,
    /// The number of the connections.
    pub connections: u64,
    /// Bytes from the command.
    pub sent: u64,
    /// Bytes to the command.
    pub received: u64,
}

/// One attempt to reach a host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Contact {
    /// The kind of the attempt.
    pub kind: ContactKind,
    /// The name, or the address if the command used one. Of a request that names no host, its
    /// text.
    pub host: String,
    /// The TCP port; 0 if the attempt has none.
    pub port: u16,
    /// The address of the connection; of a refusal because no pattern names the address of a host,
    /// that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Bytes from the command to the host.
    pub sent: u64,
    /// Bytes from the host to the command.
    pub received: u64,
    /// The pattern that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The outcome.
    pub outcome: ContactOutcome,
    /// The reason of a refusal or failure; of a connection that no pattern of the policy allows, the
    /// answer that allowed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kind of a [`Contact`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContactKind {
    /// A question to the resolver.
    Lookup,
    /// A connection to a host.
    Connection,
    /// A connection of a client outside to a published port. The host is the address of the host's
    /// loopback that the client used, and the address is the one inside.
    Inbound,
    /// A request to the proxy or the resolver that is not valid.
    Request,
}

impl ContactKind {
    /// Returns `true` for an attempt of the command to reach a host.
    #[must_use]
    pub fn is_of_host(self) -> bool {
        match self {
            ContactKind::Lookup | ContactKind::Connection => true,
            ContactKind::Inbound | ContactKind::Request => false,
        }
    }
}

/// The outcome of a [`Contact`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContactOutcome {
    /// The proxy connected the command.
    Connected,
    /// The proxy refused.
    Refused,
    /// The rules allow the host, and it could not be reached.
    Failed,
}
