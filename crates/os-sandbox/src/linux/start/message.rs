//! Writes the messages to the launcher; the layout is `launcher/wire.rs`, the reader
//! `launcher/job.rs`.

use super::super::mount_layer::root::{OverlayStep, RootStep};
use super::super::wire;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One message to one stage of the launcher.
pub(crate) struct LauncherMessage<'a> {
    pub(crate) kind: u32,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<BorrowedFd<'a>>,
}

impl<'a> LauncherMessage<'a> {
    fn new(kind: u32, body: MessageBody, fds: Vec<BorrowedFd<'a>>) -> LauncherMessage<'a> {
        let body = body.0;
        LauncherMessage { kind, body, fds }
    }
}

/// Writes the parts of a body.
#[derive(Default)]
struct MessageBody(Vec<u8>);

impl MessageBody {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u32s(&mut self, words: impl IntoIterator<Item = u32>) {
        let words = words.into_iter().map(u32::to_ne_bytes);
        self.0.extend(words.flatten());
    }

    fn u64s(&mut self, words: impl IntoIterator<Item = u64>) {
        let words = words.into_iter().map(u64::to_ne_bytes);
        self.0.extend(words.flatten());
    }

    /// Appends strings with their NUL. Callers have refused strings with a NUL inside; should one
    /// reach this code, it is cut there, never shifted into the next.
    fn strings<S: AsRef<OsStr>>(&mut self, texts: impl IntoIterator<Item = S>) {
        for text in texts {
            let text = text.as_ref().as_bytes();
            self.bytes(text.split(|byte| *byte == 0).next().unwrap_or(text));
            self.0.push(0);
        }
    }
}

/// Inputs of the supervisor and its target.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) flags: u64,
    pub(crate) wall_ms: u64,
    pub(crate) grace_ms: u64,
    pub(crate) probe_pid: u64,
    pub(crate) filter: Vec<u8>,
    /// Resource, soft and hard.
    pub(crate) limits: Vec<(u64, u64, u64)>,
    /// Landlock rights for places that exist only inside.
    pub(crate) rules: Vec<(u64, Vec<u8>)>,
    pub(crate) directory: Vec<u8>,
    pub(crate) candidates: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) probes: Vec<Vec<u8>>,
    /// Mounts nearer to the root come first.
    pub(crate) pins: Vec<Pin>,
    /// Number of descriptors, at the end, that are files of control groups.
    pub(crate) groups: u64,
    pub(crate) watch_bytes: u64,
    pub(crate) watch_threads: u64,
    /// Places below which the supervisor makes calls; empty if the filter does not ask it.
    pub(crate) places: Vec<OsString>,
    /// Landlock rights for the command's terminal; 0 if another rule covers it.
    pub(crate) terminal_rights: u64,
}

/// A place that must be the root of a mount when the target starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// One of `wire::PIN_…`: the maker and the kind of the mount.
    pub(crate) how: u64,
    /// Device (major in the low half) and inode of the file that must be found there; zero for
    /// "any".
    pub(crate) identity: (u64, u64),
    pub(crate) path: Vec<u8>,
}

/// Makes the launcher become another program; `args` starts with the name. It inherits `fds` from
/// 3 on, and after them each of `files`, opened for reading.
pub(crate) fn exec<'a>(
    path: &OsStr,
    args: &[&OsStr],
    fds: Vec<BorrowedFd<'a>>,
    files: &[&'static str],
) -> LauncherMessage<'a> {
    let mut body = MessageBody::default();
    body.u32s([args.len(), 0, files.len()].map(|count| count as u32));
    body.strings([path]);
    body.strings(args);
    body.strings(files);
    LauncherMessage::new(wire::KIND_EXEC, body, fds)
}

/// Inputs of a connector.
pub(crate) struct ConnectJob<'a> {
    /// The name that the target uses, and the path of the socket.
    pub(crate) sockets: &'a [(PathBuf, PathBuf)],
    pub(crate) addresses: &'a [SocketAddr],
    pub(crate) places: &'a [OsString],
    /// Each flag with `true` if it is set.
    pub(crate) flags: [(bool, u32); 4],
}

impl ConnectJob<'_> {
    /// Makes the launcher split off the connector; `channel` is its end. `observed`: the inputs of its
    /// observer, and the file of reports.
    pub(crate) fn message<'a>(
        &self,
        channel: Option<BorrowedFd<'a>>,
        observed: Option<(&[u8], BorrowedFd<'a>)>,
    ) -> LauncherMessage<'a> {
        let observes = (observed.is_some(), wire::CONNECT_OBSERVE);
        let set = self.flags.into_iter().chain([observes]);
        let flags = set
            .filter(|(is_set, _)| *is_set)
            .fold(0, |all, (_, flag)| all | flag);
        let counts = [self.sockets.len(), self.places.len(), self.addresses.len()];
        let mut body = MessageBody::default();
        body.u32s([flags]);
        body.u32s(counts.map(|count| count as u32));
        for address in self.addresses {
            body.bytes(&encode_address(*address, 0));
        }
        for (name, real) in self.sockets {
            body.strings([name, real]);
        }
        body.strings(self.places);
        let mut fds: Vec<_> = channel.into_iter().collect();
        if let Some((calls, reports)) = observed {
            body.bytes(calls);
            fds.push(reports);
        }
        LauncherMessage::new(wire::KIND_CONNECT, body, fds)
    }
}

/// Returns the row of an address; `length` is that of a prefix, if the row names all addresses with
/// it.
pub(crate) fn encode_address(address: SocketAddr, length: u8) -> [u8; wire::ADDRESS_BYTES] {
    let mut bytes = [0; wire::ADDRESS_BYTES];
    bytes[1] = length;
    bytes[2..4].copy_from_slice(&address.port().to_ne_bytes());
    match address.ip() {
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => {
            bytes[0] = 1;
            bytes[4..20].copy_from_slice(&ip.octets());
        }
    }
    bytes
}

/// Tells the connector the configurations that the broker changes, and the channel for them.
pub(crate) fn configs<'a>(
    paths: &[PathBuf],
    channel: Option<BorrowedFd<'a>>,
) -> LauncherMessage<'a> {
    let mut body = MessageBody::default();
    body.strings(paths);
    LauncherMessage::new(wire::KIND_CONFIGS, body, channel.into_iter().collect())
}

/// Makes the launcher start a child in namespaces with this host name, which takes the next messages:
/// two with steps of its root directory, and the job.
pub(crate) fn namespaces(own_network: bool, host_name: &str) -> LauncherMessage<'static> {
    let flags = match own_network {
        true => wire::NAMESPACES_NETWORK,
        false => 0,
    };
    let mut body = MessageBody::default();
    body.u32s([flags]);
    body.strings([host_name]);
    LauncherMessage::new(wire::KIND_NAMESPACES, body, Vec::new())
}

/// Adds steps of the root directory.
pub(crate) fn root(steps: &[RootStep]) -> LauncherMessage<'static> {
    let mut body = MessageBody::default();
    for step in steps {
        root_step(&mut body, step);
    }
    LauncherMessage::new(wire::KIND_ROOT, body, Vec::new())
}

fn root_step(body: &mut MessageBody, step: &RootStep) {
    let (mut flags, mut of_mode, mut from) = (0, 0_u16, OsStr::new(""));
    let mut content: &[u8] = &[];
    let overlay;
    let (what, at) = match step {
        RootStep::Bind {
            from: host,
            at,
            writable,
            optional,
        } => {
            from = host.as_os_str();
            flags |= u8::from(*writable) * wire::ROOT_FLAG_WRITABLE;
            flags |= u8::from(*optional) * wire::ROOT_FLAG_OPTIONAL;
            (wire::ROOT_BIND, at.as_path())
        }
        RootStep::Copy { from: host, at } => {
            from = host.as_ref();
            (wire::ROOT_COPY, at.as_path())
        }
        RootStep::Write { text, at } => {
            content = text.as_bytes();
            (wire::ROOT_WRITE, at.as_path())
        }
        RootStep::Cover { text, at } => {
            content = text.as_bytes();
            (wire::ROOT_COVER, at.as_path())
        }
        RootStep::Processes => (wire::ROOT_PROCESSES, Path::new("/proc")),
        RootStep::Devices => (wire::ROOT_DEVICES, Path::new("/dev")),
        RootStep::Empty { at, mode } => {
            of_mode = *mode;
            (wire::ROOT_EMPTY, at.as_path())
        }
        RootStep::Directory { at, mode } => {
            of_mode = *mode;
            (wire::ROOT_DIRECTORY, at.as_path())
        }
        RootStep::Link { to, at } => {
            from = to.as_os_str();
            (wire::ROOT_LINK, at.as_path())
        }
        RootStep::Seal { at } => (wire::ROOT_SEAL, at.as_path()),
        RootStep::Overlay(step) => {
            from = step.lower.path.as_os_str();
            overlay = overlay_content(step);
            content = &overlay.0;
            (wire::ROOT_OVERLAY, step.at.as_path())
        }
    };
    body.bytes(&[what, flags]);
    body.bytes(&of_mode.to_ne_bytes());
    body.u32s([content.len() as u32]);
    body.strings([at.as_os_str(), from]);
    body.bytes(content);
}

/// Returns the identities of an overlay's directories, and the paths of the upper and the work
/// directory.
fn overlay_content(step: &OverlayStep) -> MessageBody {
    let mut content = MessageBody::default();
    for place in [&step.lower, &step.upper, &step.work] {
        content.u64s([place.identity.0, place.identity.1]);
    }
    content.strings([&step.upper.path, &step.work.path]);
    content
}

/// Asks for the kernel's features.
pub(crate) fn report() -> LauncherMessage<'static> {
    LauncherMessage::new(wire::KIND_REPORT, MessageBody::default(), Vec::new())
}

impl Run {
    pub(crate) fn message<'a>(&self, fds: Vec<BorrowedFd<'a>>) -> LauncherMessage<'a> {
        let mut words = [0u64; wire::RUN_WORDS];
        words[wire::WORD_FLAGS] = self.flags;
        words[wire::WORD_WALL_MS] = self.wall_ms;
        words[wire::WORD_GRACE_MS] = self.grace_ms;
        words[wire::WORD_PROBE_PID] = self.probe_pid;
        words[wire::WORD_FILTER_LEN] = (self.filter.len() / 8) as u64;
        words[wire::WORD_LIMITS] = self.limits.len() as u64;
        words[wire::WORD_RULES] = self.rules.len() as u64;
        words[wire::WORD_CANDIDATES] = self.candidates.len() as u64;
        words[wire::WORD_ARGS] = self.args.len() as u64;
        words[wire::WORD_ENV] = self.env.len() as u64;
        words[wire::WORD_PROBES] = self.probes.len() as u64;
        words[wire::WORD_PINS] = self.pins.len() as u64;
        words[wire::WORD_GROUPS] = self.groups;
        words[wire::WORD_WATCH_BYTES] = self.watch_bytes;
        words[wire::WORD_WATCH_THREADS] = self.watch_threads;
        words[wire::WORD_PLACES] = self.places.len() as u64;
        words[wire::WORD_TERMINAL] = self.terminal_rights;
        let mut body = MessageBody::default();
        body.u64s(words);
        body.bytes(&self.filter);
        for (resource, soft, hard) in &self.limits {
            body.u64s([*resource, *soft, *hard]);
        }
        body.u64s(self.rules.iter().map(|(rights, _)| *rights));
        for pin in &self.pins {
            body.u64s([pin.how, pin.identity.0, pin.identity.1]);
        }
        let lists = [&self.candidates, &self.args, &self.env];
        body.strings([OsStr::from_bytes(&self.directory)]);
        body.strings(
            lists
                .into_iter()
                .flatten()
                .map(|text| OsStr::from_bytes(text)),
        );
        body.strings(self.rules.iter().map(|(_, path)| OsStr::from_bytes(path)));
        body.strings(self.probes.iter().map(|path| OsStr::from_bytes(path)));
        body.strings(self.pins.iter().map(|pin| OsStr::from_bytes(&pin.path)));
        body.strings(&self.places);
        LauncherMessage::new(wire::KIND_RUN, body, fds)
    }
}
