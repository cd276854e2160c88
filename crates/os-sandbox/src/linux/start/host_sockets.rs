//! The sockets of one command for named hosts and published ports, which the caller's proxy serves:
//! a second launcher makes them in the command's network namespace (`launcher/namespaces/sockets.rs`),
//! or they are a listener on the host's loopback (`loopback_proxy.rs`).

use super::super::wire;
use super::launch::{Launched, SpawnFrom, launch, send_message};
use super::loopback_proxy::LoopbackProxy;
use super::message::LauncherMessage;
use super::published_ports::{MakesSockets, PortListeners, RequestedSockets};
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::host_proxy::{CommandSockets, HostProxy, ProxySession, ProxySockets};
use crate::policy::NamedHosts;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The addresses of the resolver. Programs without a resolv.conf ask the second one (resolver(3)).
const RESOLVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 53), Ipv4Addr::LOCALHOST];

/// The sockets of one command, and the proxy that serves them.
pub(super) struct HostSockets<'a> {
    source: SocketSource,
    listeners: PortListeners,
    /// The proxy publishes ports while the command runs.
    later: bool,
    /// `None` of checks, which make no connection to a host.
    proxy: Option<&'a dyn HostProxy>,
}

enum SocketSource {
    Namespace(NamespaceSockets),
    Loopback(LoopbackProxy),
}

/// The process that makes the sockets in a command's network namespace. Dropping it ends the process.
pub(super) struct NamespaceSockets {
    launched: Launched,
    steps: Vec<PlannedStep>,
    has_hosts: bool,
    /// The process stays, and makes sockets on request.
    stays: bool,
}

/// One step of the process.
#[derive(Clone, Copy)]
struct PlannedStep {
    what: u8,
    address: IpAddr,
    /// The port of a socket, or the length of a prefix.
    number: u16,
    /// `None` of an address or route.
    purpose: Option<Purpose>,
}

#[derive(Clone, Copy)]
enum Purpose {
    Resolver,
    Proxy,
    Forwarder,
    Service,
}

impl<'a> HostSockets<'a> {
    /// Prepares the sockets if the policy names hosts or publishes ports. The returned end of a
    /// channel belongs to the command's supervisor, which hands over its network namespace on it.
    pub(super) fn start(
        command: &'a Command,
        checks: bool,
    ) -> Result<Option<(HostSockets<'a>, Option<UnixStream>)>, Error> {
        let plan = command.plan();
        let hosts = plan.proxied_hosts();
        // Checks get no clients.
        let ports = plan.published_ports().filter(|_| !checks).collect();
        let listeners = PortListeners::listen(ports)?;
        let later = !checks && plan.can_publish_ports();
        let later = later && command.proxy().is_some_and(HostProxy::publishes_later);
        if hosts.is_none() && listeners.is_empty() && !later {
            return Ok(None);
        }
        let proxy = match checks {
            true => None,
            false => Some(required_proxy(command)?),
        };
        let (source, channel) = match hosts.filter(|_| plan.needs_proxy_variables()) {
            Some(hosts) => (SocketSource::Loopback(LoopbackProxy::listen(hosts)?), None),
            None => {
                let (sockets, channel) =
                    NamespaceSockets::start(hosts, later || !listeners.is_empty())?;
                (SocketSource::Namespace(sockets), Some(channel))
            }
        };
        let sockets = HostSockets {
            source,
            listeners,
            later,
            proxy,
        };
        Ok(Some((sockets, channel)))
    }

    /// Returns the listener on the host's loopback, if the command has no network namespace.
    pub(super) fn loopback(&self) -> Option<&LoopbackProxy> {
        match &self.source {
            SocketSource::Loopback(proxy) => Some(proxy),
            SocketSource::Namespace(_) => None,
        }
    }

    /// Waits for the sockets and has the proxy serve them.
    pub(super) fn serve(self) -> Result<Option<Box<dyn ProxySession>>, Error> {
        let sockets = match self.source {
            SocketSource::Namespace(mut made) if !made.stays => {
                let sockets = made.receive_all()?;
                made.launched
                    .process
                    .wait()
                    .map_err(|error| Error::io("could not wait for the launcher", error))?;
                sockets
            }
            SocketSource::Namespace(mut made) => {
                let mut sockets = made.receive_all()?;
                let requested: Arc<dyn CommandSockets> = Arc::new(RequestedSockets::new(made));
                sockets.published = self.listeners.into_published(&requested);
                sockets.on_request = self.later.then_some(requested);
                sockets
            }
            SocketSource::Loopback(proxy) => proxy.into_sockets(),
        };
        self.proxy.map(|proxy| serve(proxy, sockets)).transpose()
    }
}

impl NamespaceSockets {
    /// Starts the process. The returned end of the channel belongs to the command's supervisor.
    fn start(
        hosts: Option<&NamedHosts>,
        stays: bool,
    ) -> Result<(NamespaceSockets, UnixStream), Error> {
        let steps = steps(hosts, stays);
        let (ours, supervisors) = UnixStream::pair()
            .map_err(|error| Error::io("could not make a channel for sockets", error))?;
        let message = LauncherMessage {
            kind: wire::KIND_SOCKETS,
            body: steps.iter().flat_map(PlannedStep::encode).collect(),
            fds: vec![ours.as_fd()],
        };
        let launched = launch(false, false, SpawnFrom::DedicatedThread)?.job(&[message])?;
        let sockets = NamespaceSockets {
            launched,
            steps,
            has_hosts: hosts.is_some(),
            stays,
        };
        Ok((sockets, supervisors))
    }

    fn receive_all(&mut self) -> Result<ProxySockets, Error> {
        receive_all(
            &self.launched.control,
            &self.steps,
            self.has_hosts,
            self.stays,
        )
    }
}

impl MakesSockets for NamespaceSockets {
    fn request(&self, is_v6: bool) -> Result<OwnedFd, Error> {
        self.launched.control.request(is_v6)
    }
}

impl MakesSockets for UnixStream {
    fn request(&self, is_v6: bool) -> Result<OwnedFd, Error> {
        let kind = match is_v6 {
            true => wire::SOCKET_V6,
            false => wire::SOCKET_V4,
        };
        let mut control = self;
        std::io::Write::write_all(&mut control, &[kind])
            .map_err(|error| Error::io("could not ask for a socket", error))?;
        match receive(self)? {
            SocketMessage::Socket(answered, socket) if answered == kind => Ok(socket),
            SocketMessage::Failure(errno) => Err(not_made(errno)),
            SocketMessage::Socket(..) | SocketMessage::Complete | SocketMessage::End => {
                Err(unexpected())
            }
        }
    }
}

/// Has the launcher at the other end of `control` make the sockets of a command with named hosts or
/// published ports in its own network namespace, and the command's proxy serve them. The launcher,
/// which got the path of a local socket as its argument, stays in the namespace until `control` is
/// closed, and the session too if the command publishes ports.
///
/// # Errors
/// If the command names no hosts and publishes no ports, or has no proxy for them, a port is taken on
/// the host's loopback, the launcher does not make the sockets, or the proxy does not serve them.
pub fn serve_own_namespace(
    command: &Command,
    control: &UnixStream,
) -> Result<Box<dyn ProxySession>, Error> {
    let hosts = command.plan().proxied_hosts();
    let listeners = PortListeners::listen(command.plan().published_ports().collect())?;
    if hosts.is_none() && listeners.is_empty() {
        let text = "the policy names no hosts that a proxy connects, and publishes no ports";
        return Err(Error::invalid(text));
    }
    let proxy = required_proxy(command)?;
    let steps = steps(hosts, !listeners.is_empty());
    let message = LauncherMessage {
        kind: wire::KIND_OWN_SOCKETS,
        body: steps.iter().flat_map(PlannedStep::encode).collect(),
        fds: Vec::new(),
    };
    send_message(control, &message)
        .map_err(|error| Error::io("could not hand the job to the launcher", error))?;
    let stays = !listeners.is_empty();
    let mut sockets = receive_all(control, &steps, hosts.is_some(), stays)?;
    if stays {
        let control = control
            .try_clone()
            .map_err(|error| Error::io("could not keep a container's network", error))?;
        let requested: Arc<dyn CommandSockets> = Arc::new(RequestedSockets::new(control));
        sockets.published = listeners.into_published(&requested);
    }
    serve(proxy, sockets)
}

fn required_proxy(command: &Command) -> Result<&dyn HostProxy, Error> {
    command.proxy().ok_or_else(|| {
        let text = "the policy names hosts or publishes ports, and the sandbox has no proxy that \
                    connects them";
        Error::invalid(text).with_hint("open it with `Sandbox::with_host_proxy`")
    })
}

fn serve(proxy: &dyn HostProxy, sockets: ProxySockets) -> Result<Box<dyn ProxySession>, Error> {
    let failed = |error| Error::io("the proxy for named hosts could not start", error);
    proxy.serve(sockets).map_err(failed)
}

/// Receives the sockets of all steps. The process that makes them then `stays` for requests, or ends
/// its side.
fn receive_all(
    control: &UnixStream,
    steps: &[PlannedStep],
    has_hosts: bool,
    stays: bool,
) -> Result<ProxySockets, Error> {
    control
        .set_read_timeout(Some(super::START_WITHIN))
        .map_err(|error| Error::io("could not wait for sockets", error))?;
    let mut sockets = ProxySockets::default();
    loop {
        match receive(control)? {
            SocketMessage::Socket(index, socket) => {
                let step = steps.get(usize::from(index));
                step.ok_or_else(unexpected)?.add(socket, &mut sockets);
            }
            SocketMessage::Failure(errno) => return Err(not_made(errno)),
            SocketMessage::Complete if stays => break,
            SocketMessage::End if !stays => break,
            SocketMessage::Complete | SocketMessage::End => return Err(unexpected()),
        }
    }
    if has_hosts {
        check_sockets(&sockets)?;
    }
    Ok(sockets)
}

/// Refuses sockets without those that every command with named hosts has, whatever the kernel lacks.
fn check_sockets(sockets: &ProxySockets) -> Result<(), Error> {
    match sockets.proxies.is_empty() || sockets.resolvers.is_empty() {
        true => Err(unexpected()),
        false => Ok(()),
    }
}

fn not_made(errno: i32) -> Error {
    let text = "the sockets for named hosts or ports could not be made in the command's network";
    ErrorKind::Enforcement
        .error(text)
        .with_source(std::io::Error::from_raw_os_error(errno))
}

impl Drop for NamespaceSockets {
    fn drop(&mut self) {
        self.launched.end();
    }
}

fn unexpected() -> Error {
    ErrorKind::Enforcement.error("the launcher did not send the sockets for named hosts or ports")
}

impl PlannedStep {
    fn encode(&self) -> [u8; wire::NETWORK_STEP_BYTES] {
        let mut bytes = [0; wire::NETWORK_STEP_BYTES];
        let is_socket = self.purpose.is_some();
        bytes[0] = self.what;
        bytes[1] = if is_socket { 0 } else { self.number as u8 };
        if is_socket {
            bytes[2..4].copy_from_slice(&self.number.to_ne_bytes());
        }
        match self.address {
            IpAddr::V4(address) => bytes[4..8].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => {
                bytes[0] |= wire::NETWORK_V6;
                bytes[4..20].copy_from_slice(&address.octets());
            }
        }
        bytes
    }

    fn add(&self, socket: OwnedFd, to: &mut ProxySockets) {
        let is_stream = self.what == wire::NETWORK_STREAM;
        match self.purpose {
            Some(Purpose::Resolver) if is_stream => {
                to.resolver_listeners.push(TcpListener::from(socket));
            }
            Some(Purpose::Resolver) => to.resolvers.push(UdpSocket::from(socket)),
            Some(Purpose::Proxy) => to.proxies.push(TcpListener::from(socket)),
            Some(Purpose::Forwarder) => to.forwarders.push(TcpListener::from(socket)),
            Some(Purpose::Service) => to.services.push(TcpListener::from(socket)),
            None => {}
        }
    }
}

/// Returns the steps of a process that makes the sockets for named hosts, and other ones on request.
fn steps(hosts: Option<&NamedHosts>, on_request: bool) -> Vec<PlannedStep> {
    let mut steps = hosts.map(host_steps).unwrap_or_default();
    steps.extend(on_request.then_some(PlannedStep {
        what: wire::NETWORK_ON_REQUEST,
        address: Ipv4Addr::UNSPECIFIED.into(),
        number: 0,
        purpose: None,
    }));
    steps
}

fn host_steps(hosts: &NamedHosts) -> Vec<PlannedStep> {
    let ((v4, v4_length), (v6, v6_length)) = (NamedHosts::NAMES_V4, NamedHosts::NAMES_V6);
    let route = |what, address: IpAddr, length: u8| PlannedStep {
        what,
        address,
        number: length.into(),
        purpose: None,
    };
    let listener = |address: IpAddr, port, purpose| PlannedStep {
        what: wire::NETWORK_STREAM,
        address,
        number: port,
        purpose: Some(purpose),
    };
    let mut steps = vec![
        // All of the prefix becomes local. glibc asks for IPv4 addresses only if an interface has
        // one besides 127.0.0.1 (AI_ADDRCONFIG of getaddrinfo(3)).
        route(wire::NETWORK_ADDRESS, v4.into(), v4_length),
        route(wire::NETWORK_ADDRESS, v6.into(), 128),
        route(wire::NETWORK_ROUTE, v6.into(), v6_length),
    ];
    for address in RESOLVERS.map(IpAddr::V4) {
        let stream = listener(address, NamedHosts::RESOLVER_PORT, Purpose::Resolver);
        steps.push(stream);
        steps.push(PlannedStep {
            what: wire::NETWORK_DATAGRAM,
            ..stream
        });
    }
    let proxy = NamedHosts::PROXY;
    steps.push(listener((*proxy.ip()).into(), proxy.port(), Purpose::Proxy));
    for port in hosts.forwarded_ports() {
        for any in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            steps.push(listener(any, port, Purpose::Forwarder));
        }
    }
    let own: BTreeSet<IpAddr> = hosts.addresses().map(|address| address.ip()).collect();
    for ip in own.into_iter().filter(|ip| !ip.is_loopback()) {
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        steps.push(route(wire::NETWORK_ADDRESS, ip, whole));
    }
    for address in hosts.addresses() {
        let (ip, port) = (address.ip(), address.port());
        // The listener for all addresses takes this one too.
        if !NamedHosts::is_taken(port) && !hosts.ports().any(|listened| listened == port) {
            steps.push(listener(ip, port, Purpose::Forwarder));
        }
    }
    for service in hosts.services() {
        steps.push(listener(
            (*service.ip()).into(),
            service.port(),
            Purpose::Service,
        ));
    }
    debug_assert!(steps.len() <= wire::MAX_NETWORK_STEPS);
    steps
}

enum SocketMessage {
    /// The index of the step, and its socket.
    Socket(u8, OwnedFd),
    Failure(i32),
    /// All sockets of the steps are sent, and the process stays.
    Complete,
    End,
}

fn receive(control: &UnixStream) -> Result<SocketMessage, Error> {
    let failed = |error: std::io::Error| Error::io("could not receive sockets", error);
    let mut bytes = [0u8; wire::RECORD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut one = [IoSliceMut::new(&mut bytes[..1])];
        match recvmsg(control, &mut one, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map_err(|errno| failed(errno.into()))?,
        }
    };
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(unexpected());
    }
    if got.bytes == 0 {
        return Ok(SocketMessage::End);
    }
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    if let Some(socket) = socket {
        return Ok(SocketMessage::Socket(bytes[0], socket));
    }
    let mut control = control;
    std::io::Read::read_exact(&mut control, &mut bytes[1..]).map_err(failed)?;
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    Ok(match u32::from_ne_bytes(word(0)) {
        wire::RECORD_SOCKETS => SocketMessage::Complete,
        _ => SocketMessage::Failure(i32::from_ne_bytes(word(8))),
    })
}
