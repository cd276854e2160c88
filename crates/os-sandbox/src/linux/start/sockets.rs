//! Named sockets of one start: the resolved paths, and the message to the process that connects to
//! them (`launcher/connector/`).

use super::super::host_mount::HostMount;
use super::super::wire;
use super::message::{self, LauncherMessage};
use super::observe::DenialReports;
use crate::access::Access;
use crate::error::Error;
use crate::policy::{PROGRAMS, Policy, System, check_not_kernel, refuse_writable};
use nix::sys::socket::sockopt::SockType;
use nix::sys::socket::{
    AddressFamily, SockType as Kind, SockaddrLike, SockaddrStorage, getpeername, getsockname,
    getsockopt,
};
use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Inputs of both halves of the launcher.
pub(crate) struct ConnectorSpec {
    /// The name that the target uses, and its resolved path without links.
    sockets: Vec<(PathBuf, PathBuf)>,
    internet: bool,
    /// Addresses that it connects TCP sockets to, if the command has no network of its own.
    addresses: Vec<SocketAddr>,
    /// Places below which the connector makes calls; `None` if the filter does not ask it.
    places: Option<Vec<OsString>>,
    /// Carries the target's listener; its end tells the supervisor that the connector is gone. `None`
    /// from the message on.
    pub(super) ours: Option<UnixStream>,
    pub(crate) targets: UnixStream,
    /// Configurations that the broker changes follow on the channel.
    pub(super) has_configs: bool,
}

impl ConnectorSpec {
    /// Resolves the sockets. With `internet` the connector also performs connects of internet
    /// sockets, as far as the policy allows them.
    pub(crate) fn new(
        paths: &[PathBuf],
        mounts: &[HostMount],
        internet: bool,
        places: Option<Vec<OsString>>,
    ) -> Result<ConnectorSpec, Error> {
        let mut sockets = Vec::with_capacity(paths.len());
        for path in paths {
            sockets.push((path.clone(), real(path, mounts)?));
        }
        let (ours, targets) = UnixStream::pair()
            .map_err(|error| Error::io("could not make the connector's channel", error))?;
        Ok(ConnectorSpec {
            sockets,
            internet,
            addresses: Vec::new(),
            places,
            ours: Some(ours),
            targets,
            has_configs: false,
        })
    }

    /// Sets the addresses that the connector connects TCP sockets to.
    pub(crate) fn with_addresses(self, addresses: Vec<SocketAddr>) -> ConnectorSpec {
        ConnectorSpec { addresses, ..self }
    }

    pub(crate) fn message<'a>(&'a self, reports: Option<&'a DenialReports>) -> LauncherMessage<'a> {
        let decides = !self.sockets.is_empty() || !self.addresses.is_empty();
        message::ConnectJob {
            sockets: &self.sockets,
            addresses: &self.addresses,
            places: self.places.as_deref().unwrap_or_default(),
            flags: [
                (self.internet, wire::CONNECT_INTERNET),
                (decides, wire::CONNECT_DECIDE),
                (self.places.is_some(), wire::CONNECT_PLACES),
                (self.has_configs, wire::CONNECT_CONFIGS),
            ],
        }
        .message(
            self.ours.as_ref().map(AsFd::as_fd),
            reports.map(|reports| (reports.observed(), reports.as_fd())),
        )
    }
}

/// Returns a socket of the host in a directory of the system that the command sees, among the sockets
/// that the kernel lists for this network namespace (`unix(7)`, `/proc/net/unix`).
pub(crate) fn in_system(policy: &Policy) -> Option<PathBuf> {
    /// A longer list counts as having one.
    const MAX_BYTES: u64 = 16 << 20;
    let mut list = Vec::new();
    let read = std::fs::File::open("/proc/net/unix")
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut list));
    if read.is_err() || list.len() as u64 == MAX_BYTES {
        return Some(PathBuf::from("/proc/net/unix"));
    }
    let shown: &[&str] = match policy.system() {
        System::None => &[],
        System::Minimal | System::BroadRead => &PROGRAMS,
    };
    let list = String::from_utf8_lossy(&list);
    let paths = list
        .lines()
        .filter_map(|line| Some(&line[line.find(" /")? + 1..]));
    paths
        .map(Path::new)
        .find(|path| shown.iter().any(|shown| path.starts_with(shown)))
        .map(Path::to_owned)
}

/// Returns `true` if an open socket is a local one that reaches peers other than its connected one.
/// In doubt `true`.
pub(crate) fn is_loose(socket: &OwnedFd) -> bool {
    let number = socket.as_raw_fd();
    match getsockname::<SockaddrStorage>(number) {
        Ok(name) if name.family() != Some(AddressFamily::Unix) => return false,
        Ok(_) | Err(_) => {}
    }
    let stream = matches!(
        getsockopt(socket, SockType),
        Ok(Kind::Stream | Kind::SeqPacket)
    );
    !stream || getpeername::<SockaddrStorage>(number).is_err()
}

/// Resolves the path of a socket. Links on the way are followed now, once, and never by the
/// connector. The socket itself may be created later. The command must not be able to write in any
/// directory on the way: a link that it left there in an earlier run would be followed.
fn real(path: &Path, mounts: &[HostMount]) -> Result<PathBuf, Error> {
    for on_the_way in path.ancestors() {
        if let Ok(place) = std::fs::canonicalize(on_the_way)
            && writable(&place, mounts)
        {
            return Err(refuse_writable(path));
        }
    }
    let failed = |error| {
        Error::io(
            format!(
                "could not find the directory of the socket {}",
                path.display()
            ),
            error,
        )
        .with_hint("the directory must exist when the command starts, the socket need not")
    };
    let real = match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == ErrorKind::NotFound => {
            std::fs::canonicalize(parent).map_err(failed)?.join(name)
        }
        (found, _, _) => found.map_err(failed)?,
    };
    check_not_kernel(&real)?;
    Ok(real)
}

fn writable(place: &Path, mounts: &[HostMount]) -> bool {
    mounts
        .iter()
        .filter(|mount| place.starts_with(&mount.host))
        .max_by_key(|mount| mount.host.as_os_str().len())
        .is_some_and(|mount| mount.access.contains(Access::WRITE))
}
