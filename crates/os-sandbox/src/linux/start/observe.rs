//! Reports of refused calls: the inputs of the launcher's observer (`launcher/connector/observe.rs`), and the
//! meaning of its records. The observer writes into a file in memory, which is read after the end, so a slow
//! broker never delays a command.

use super::super::guards::names::ScanResult;
use super::super::host_mount::HostMount;
use super::super::landlock::private::ScratchDir;
use super::super::landlock::ruleset::own_writable_places;
use super::super::mount_layer::{inside_paths, root::parents_of_mounts};
use super::super::wire;
use super::lookups::FailedLookups;
use super::message::encode_address;
use super::view::writable_places;
use crate::access::Access;
use crate::denials::{
    Denial, DenialReason, Denials, DeniedOperation, RefusedPath, judge_address, judge_path,
    shown_path,
};
use crate::error::Error;
use crate::escape::visible;
use crate::plan::Plan;
use crate::policy::{BROAD, DEVICES, ETC, NamedHosts, Network, PROGRAMS, Policy, System};
use crate::reports::{ReportLevel, Touched};
use crate::sandbox::Sandbox;
use crate::seccomp::{Arch, CallKind, CallRow, ObservedCalls};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bound on the file of reports: each has at most a path of 4096 bytes.
const MAX_BYTES: u64 = (wire::MAX_REPORTS + 2 * wire::MAX_LOOKUP_REPORTS + wire::MAX_TOUCHED)
    as u64
    * (4096 + wire::REPORT_HEAD_BYTES as u64);

/// The reports of one command.
#[derive(Debug)]
pub(crate) struct DenialReports {
    file: File,
    /// The observed calls, as the launcher reads them.
    observed: Vec<u8>,
    /// The command's paths are those of the policy, and not of the host.
    maps_paths: bool,
    /// The paths that a mount layer covers, as the command sees them.
    guarded: Vec<PathBuf>,
    calls: ObservedCalls,
}

/// Returns the calls that a filter reports for a plan.
pub(crate) fn observed_calls(plan: &Plan, level: ReportLevel) -> ObservedCalls {
    if level == ReportLevel::Off {
        return ObservedCalls::default();
    }
    let backend = plan.backend();
    // The connector is what observes.
    let observes = backend.reports_denials()
        && !plan.policy().leaves()
        && plan.support().seccomp()
        && plan.support().named_sockets(backend);
    ObservedCalls {
        changes: observes,
        // Landlock does not control modes.
        modes: observes && (backend.has_mount_layer() || plan.judges_modes()),
        connects: observes
            && plan.has_loopback()
            && (level == ReportLevel::Full || judge_address(plan.policy()).is_some()),
        // The files of an image are in no list.
        reads: observes
            && level == ReportLevel::Full
            && (backend.has_mount_layer() || !plan.support().own_container),
    }
}

impl DenialReports {
    /// Prepares the reports of one command. `None` if its filter reports nothing. `connected`: the
    /// addresses that the connector connects a command without a loopback to.
    pub(crate) fn new(
        plan: &Plan,
        level: ReportLevel,
        connected: &[SocketAddr],
        mounts: &[HostMount],
        private: Option<&ScratchDir>,
    ) -> Result<Option<DenialReports>, Error> {
        let calls = observed_calls(plan, level);
        let (Some(arch), true) = (Arch::native(), calls.any()) else {
            return Ok(None);
        };
        let file = memfd_create("os-sandbox-reports", MFdFlags::MFD_CLOEXEC)
            .map_err(|errno| Error::io("could not make a file in memory", errno.into()))?;
        let maps_paths = plan.backend().has_mount_layer();
        let mut flags = 0;
        if maps_paths {
            flags |= wire::OBSERVED_FOREIGN;
        }
        if plan.support().landlock_abi() > 0 {
            flags |= wire::OBSERVED_PROC_CLOSED;
        }
        let rows: Vec<_> = calls.rows(arch).collect();
        let addresses = addresses(plan, connected);
        let writable = writable(plan, mounts, private);
        let places = match calls.reads {
            true => {
                flags |= wire::OBSERVED_FULL;
                places(plan, mounts, private)
            }
            false => Vec::new(),
        };
        let closed = parents_of_mounts(mounts).filter(|_| maps_paths);
        let closed: Vec<&Path> = closed.collect();
        let counts = [rows.len(), addresses.len(), writable.len(), closed.len()];
        let counts = counts.map(|count| count as u32);
        let mut observed = Vec::new();
        for word in counts.into_iter().chain([flags, places.len() as u32]) {
            observed.extend_from_slice(&word.to_ne_bytes());
        }
        for (number, row) in rows {
            observed.extend_from_slice(&encode_call(number, &row));
        }
        for (address, length) in addresses {
            observed.extend_from_slice(&encode_address(address, length));
        }
        for path in writable.iter().map(PathBuf::as_path).chain(closed) {
            encode_path(&mut observed, path);
        }
        for (access, path) in places {
            observed.push(access);
            encode_path(&mut observed, &path);
        }
        Ok(Some(DenialReports {
            file: file.into(),
            observed,
            maps_paths,
            guarded: Vec::new(),
            calls,
        }))
    }

    sandbox_names::getters! {
        /// Returns `true` if the observer sees changes.
        pub(super) sees_changes: bool = calls.changes;
        /// Returns the end of the message to the observer.
        pub(crate) observed: &[u8] = &observed;
    }

    /// Adds the names below the mounts that a mount layer covers.
    pub(super) fn add_guarded(&mut self, mounts: &[HostMount], names: &[ScanResult]) {
        for (mount, names) in mounts.iter().zip(names) {
            let found = names.found.iter().map(|found| &found.below);
            let targets = names.targets.iter().map(|target| &target.below);
            let inside = Path::new(&mount.inside);
            self.guarded
                .extend(found.chain(targets).map(|below| inside.join(below)));
        }
    }

    /// Reads the reports and compares them with the policy.
    pub(crate) fn read(&self, sandbox: &Sandbox) -> Denials {
        let mut bytes = Vec::new();
        let mut start = &self.file;
        // The observer shares the position, which is at the end.
        let rewound = std::io::Seek::rewind(&mut start);
        let read = rewound.and_then(|()| start.take(MAX_BYTES).read_to_end(&mut bytes));
        let mut denials = Denials::default();
        if read.is_err() {
            denials.more = true;
            return denials;
        }
        let plan = sandbox.plan();
        let mut touched = self.calls.reads.then(Touched::default);
        let mut lookups = FailedLookups::default();
        let mut rest = &bytes[..];
        while let Some((report, after)) = DenialRecord::split(rest) {
            rest = after;
            match report.operation {
                wire::CALLS_OMITTED | wire::LOOKUPS_OMITTED => {
                    denials.more = true;
                    continue;
                }
                wire::CALL_READ | wire::CALL_EXECUTE | wire::CALL_FOUND => {
                    lookups.add(&report, denials.listed.len());
                    continue;
                }
                wire::TOUCHED_READ..=wire::TOUCHED_OMITTED => {
                    if let Some(touched) = &mut touched {
                        report.add_touched(touched, plan.policy(), self.maps_paths);
                    }
                    continue;
                }
                _ => {}
            }
            if let Some(denial) = report.judge(plan, self)
                && !denials.listed.contains(&denial)
            {
                denials.listed.push(denial);
            }
        }
        lookups.judge(plan, self.maps_paths, &mut denials);
        denials.touched = touched;
        denials
    }
}

impl AsFd for DenialReports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the paths below which the command may write, as the command sees them.
fn writable(plan: &Plan, mounts: &[HostMount], private: Option<&ScratchDir>) -> Vec<PathBuf> {
    let mut paths = match plan.backend().has_mount_layer() {
        true => mounts
            .iter()
            .filter(|mount| mount.access.contains(Access::WRITE))
            .map(|mount| PathBuf::from(&mount.inside))
            .collect(),
        false => writable_places(mounts, private),
    };
    if private.is_none() {
        paths.extend(own_writable_places(plan.policy()).map(PathBuf::from));
    }
    paths.extend(DEVICES.map(PathBuf::from));
    paths
}

/// Returns the places that the command sees whole, as it names them, and its rights below each.
/// Under a mount layer `/` stands for what is shown of other directories.
fn places(plan: &Plan, mounts: &[HostMount], private: Option<&ScratchDir>) -> Vec<(u8, PathBuf)> {
    const PROGRAM: Access = Access::READ.union(Access::EXECUTE);
    let has_mount_layer = plan.backend().has_mount_layer();
    let policy = plan.policy();
    let of_mount = |mount: &HostMount| match has_mount_layer {
        true => (mount.access, PathBuf::from(&mount.inside)),
        false => (mount.access, mount.host.clone()),
    };
    let mut places: Vec<(Access, PathBuf)> = mounts.iter().map(of_mount).collect();
    let mut add = |access: Access, paths: &[&str]| {
        for path in paths {
            places.push((access, PathBuf::from(path)));
            // Landlock's rules refer to files, and links lead elsewhere.
            let real = match has_mount_layer {
                true => None,
                false => Path::new(path).canonicalize().ok(),
            };
            if let Some(real) = real.filter(|real| real != Path::new(path)) {
                places.push((access, real));
            }
        }
    };
    if policy.system() != System::None {
        add(PROGRAM, &PROGRAMS);
        add(Access::READ, &ETC);
    }
    if policy.system() == System::BroadRead {
        add(Access::READ, &BROAD);
    }
    add(Access::READ, &DEVICES);
    match private {
        None => {
            add(Access::READ, &["/"]);
            add(Access::ALL, &OWN_DIRECTORIES);
        }
        Some(private) => {
            places.push((Access::ALL, private.home()));
            places.push((Access::ALL, private.tmp()));
            places.push((Access::READ, private.work()));
        }
    }
    for one in policy.programs() {
        let path = match has_mount_layer {
            true => one.shown_at(),
            false => one.host(),
        };
        places.push((PROGRAM, path.to_owned()));
    }
    let always = executes_everywhere(plan);
    let encode = |(access, path): (Access, PathBuf)| {
        let scope = match path.to_str() {
            Some("/") => 0,
            Some(path) if OWN_DIRECTORIES.contains(&path) => wire::PLACE_OWN,
            _ => wire::PLACE_WHOLE,
        };
        (encode_place(access.union(always), scope), path)
    };
    places.into_iter().map(encode).collect()
}

/// Returns the access to every place: a mount layer alone lets programs be executed everywhere.
fn executes_everywhere(plan: &Plan) -> Access {
    match plan.support().landlock_abi() {
        0 => Access::EXECUTE,
        _ => Access::NONE,
    }
}

/// Writable directories of the command alone, under a mount layer.
const OWN_DIRECTORIES: [&str; 3] = [inside_paths::TMP, inside_paths::HOME, "/dev/shm"];

/// Returns the length of a prefix that is one address.
fn whole(address: &SocketAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn encode_path(to: &mut Vec<u8>, path: &Path) {
    to.extend_from_slice(path.as_os_str().as_bytes());
    to.push(0);
}

/// As [`reachable`], for a command without a loopback too: the connector connects it to these
/// addresses, and refuses all others.
fn addresses(plan: &Plan, connected: &[SocketAddr]) -> Vec<(SocketAddr, u8)> {
    match plan.has_loopback() {
        true => reachable(plan.policy().network()),
        false => connected.iter().map(|one| (*one, whole(one))).collect(),
    }
}

/// Returns the addresses that a command may connect, with the length of their prefix; port 0 means
/// every port.
fn reachable(network: &Network) -> Vec<(SocketAddr, u8)> {
    let any = |address: IpAddr, length| (SocketAddr::new(address, 0), length);
    let mut out = vec![
        any(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        any(Ipv4Addr::UNSPECIFIED.into(), 32),
        any(Ipv6Addr::LOCALHOST.into(), 128),
        any(Ipv6Addr::UNSPECIFIED.into(), 128),
    ];
    let Network::Hosts(hosts) = network else {
        return out;
    };
    let ((v4, v4_length), (v6, v6_length)) = (NamedHosts::NAMES_V4, NamedHosts::NAMES_V6);
    for port in hosts.forwarded_ports() {
        out.push((SocketAddr::new(v4.into(), port), v4_length));
        out.push((SocketAddr::new(v6.into(), port), v6_length));
    }
    for address in hosts.addresses() {
        out.push((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    out
}

fn encode_call(number: u32, row: &CallRow) -> [u8; wire::OBSERVED_CALL_BYTES] {
    const NONE: u8 = 15;
    let operation = match row.kind {
        CallKind::Open => wire::CALL_OPEN,
        CallKind::Creat => wire::CALL_CREAT,
        CallKind::Execute => wire::CALL_EXECUTE,
        CallKind::Write => wire::CALL_WRITE,
        CallKind::Create => wire::CALL_CREATE,
        CallKind::Remove => wire::CALL_REMOVE,
        CallKind::Move => wire::CALL_MOVE,
        CallKind::Mode => wire::CALL_MODE,
        CallKind::Bind => wire::CALL_BIND,
        CallKind::Connect => wire::CALL_CONNECT,
        CallKind::Socket => wire::CALL_SOCKET,
    };
    let mut bytes = [NONE; wire::OBSERVED_CALL_BYTES];
    bytes[0..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4] = operation as u8;
    for (slot, paths) in bytes[5..7].iter_mut().zip(row.paths) {
        *slot = match paths {
            Some((at, path)) => at.unwrap_or(NONE) << 4 | path,
            None => NONE,
        };
    }
    bytes[7] = row.flags.unwrap_or(NONE);
    bytes
}

/// Returns the byte before a place.
fn encode_place(access: Access, scope: u8) -> u8 {
    let mut rights = wire::PLACE | scope;
    if access.contains(Access::READ) {
        rights |= wire::PLACE_READ;
    }
    if access.contains(Access::EXECUTE) {
        rights |= wire::PLACE_EXECUTE;
    }
    rights
}

/// One record of the observer.
pub(super) struct DenialRecord<'a> {
    pub(super) operation: u32,
    pub(super) state: u32,
    program: &'a [u8],
    pub(super) object: &'a [u8],
}

impl<'a> DenialRecord<'a> {
    /// Takes the next record. `None` at the end, and at a record that is cut off.
    fn split(bytes: &'a [u8]) -> Option<(DenialRecord<'a>, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(wire::REPORT_HEAD_BYTES)?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (object, rest) = rest.split_at_checked(word(8) as usize)?;
        let report = DenialRecord {
            operation: word(0),
            state: word(4),
            program: &head[12..],
            object,
        };
        Some((report, rest))
    }

    /// Returns the denial, or `None` if the policy allows the call.
    fn judge(&self, plan: &Plan, reports: &DenialReports) -> Option<Denial> {
        let (object, reason) = match self.operation {
            wire::CALL_CONNECT => (self.address()?.to_string(), judge_address(plan.policy())?),
            wire::CALL_CONNECT_LOCAL => {
                let path = visible(&String::from_utf8_lossy(self.object));
                (path, DenialReason::SocketNotNamed)
            }
            wire::CALL_SOCKET => self.family()?,
            _ => {
                let refused = RefusedPath {
                    path: Path::new(OsStr::from_bytes(self.object)),
                    is_fixed: self.state & (wire::STATE_READ_ONLY | wire::STATE_MOUNT) != 0,
                    is_absent: self.state & wire::STATE_ABSENT != 0,
                    is_name: wire::changes_name(self.operation),
                    guarded: &reports.guarded,
                };
                judge_path(plan.policy(), refused, reports.maps_paths)?
            }
        };
        // No call removes a directory with names in it, whatever the policy is: git tries at each stash.
        if self.operation == wire::CALL_REMOVE && matches!(reason, DenialReason::Holds { .. }) {
            return None;
        }
        Some(Denial {
            operation: self.denied()?,
            object,
            reason,
            program: self.program(),
        })
    }

    /// Returns the name of the program.
    pub(super) fn program(&self) -> String {
        let program = self
            .program
            .split(|byte| *byte == 0 || *byte == b'\n')
            .next();
        visible(&String::from_utf8_lossy(program.unwrap_or_default()))
    }

    /// Adds a touched object.
    fn add_touched(&self, touched: &mut Touched, policy: &Policy, maps_paths: bool) {
        let list = match self.operation {
            wire::TOUCHED_READ => &mut touched.read,
            wire::TOUCHED_WRITE => &mut touched.written,
            wire::TOUCHED_EXECUTE => &mut touched.executed,
            wire::TOUCHED_CONNECT => &mut touched.connected,
            _ => {
                touched.more = true;
                return;
            }
        };
        let path = Path::new(OsStr::from_bytes(self.object));
        let object = match (self.operation, self.address()) {
            (wire::TOUCHED_CONNECT, Some(address)) => address.to_string(),
            (wire::TOUCHED_CONNECT, None) => visible(&path.to_string_lossy()),
            _ => shown_path(policy, path, maps_paths),
        };
        list.push(object);
    }

    fn denied(&self) -> Option<DeniedOperation> {
        let exists = self.state & wire::STATE_EXISTS != 0;
        Some(match self.operation {
            wire::CALL_OPEN if !exists => DeniedOperation::Create,
            wire::CALL_OPEN | wire::CALL_WRITE => DeniedOperation::Write,
            wire::CALL_CREATE => DeniedOperation::Create,
            wire::CALL_REMOVE => DeniedOperation::Remove,
            wire::CALL_MOVE => DeniedOperation::Move,
            wire::CALL_MODE => DeniedOperation::ChangeMode,
            wire::CALL_BIND => DeniedOperation::Bind,
            wire::CALL_CONNECT | wire::CALL_CONNECT_LOCAL => DeniedOperation::Connect,
            wire::CALL_SOCKET => DeniedOperation::MakeSocket,
            _ => return None,
        })
    }

    fn address(&self) -> Option<SocketAddr> {
        let bytes: &[u8; wire::ADDRESS_BYTES] = self.object.try_into().ok()?;
        let port = u16::from_ne_bytes([bytes[2], bytes[3]]);
        let v6: [u8; 16] = bytes[4..].try_into().ok()?;
        let ip = match bytes[0] {
            0 => IpAddr::from([v6[0], v6[1], v6[2], v6[3]]),
            _ => IpAddr::from(v6),
        };
        Some(SocketAddr::new(ip, port))
    }

    fn family(&self) -> Option<(String, DenialReason)> {
        const AF_UNIX: u32 = 1;
        const AF_INET: u32 = 2;
        const AF_INET6: u32 = 10;
        let family = u32::from_ne_bytes(self.object.try_into().ok()?);
        let (name, reason) = match family {
            AF_UNIX => ("a local socket", DenialReason::LocalSocketsClosed),
            AF_INET => ("an IPv4 socket", DenialReason::NetworkOff),
            AF_INET6 => ("an IPv6 socket", DenialReason::NetworkOff),
            _ => return None,
        };
        Some((name.to_owned(), reason))
    }
}
