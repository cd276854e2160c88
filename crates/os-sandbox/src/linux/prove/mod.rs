//! The self-test: it creates decoys, and runs the probe in place of a command in exactly the plan's
//! confinement. Decoys are in a directory of our own, outside every mount; in the user's mounts the
//! test creates at most one file, under an unused name, and removes it again.

mod checks;

use super::guards::names::Held;
use super::guards::walk;
use super::host_mount::{HostMount, host_mounts};
use super::landlock::private::ScratchDir;
use super::start::launch::LAUNCHER;
use super::start::{ProbeSpec, begin};
use super::wire::{self, ProbeCheck};
use crate::access::Access;
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::findings::StartNotes;
use crate::plan::Plan;
use crate::policy::{MountPlacement, System};
use crate::process::Process as _;
use crate::proof::{Observation, ProofCheck};
use crate::sandbox::Sandbox;
use crate::scratch::{make, random};
use crate::streams::Stdio;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::io::{PipeReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of a probe.
const WITHIN: Duration = Duration::from_secs(20);
/// Time limit for the end of a pipe after all its holders were ended.
const GONE_WITHIN: Duration = Duration::from_secs(1);
/// First process number that the test asks about: in a pid namespace a small number can be another
/// process.
const FIRST_FOREIGN_PID: u32 = 64;
/// Files that only the kernel should write; the first that exists is tried.
const SYS: [&str; 3] = [
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/power/state",
    "/sys/kernel/profiling",
];
const SETTING: &str = "/proc/sys/kernel/core_pattern";
const PROGRAMS: [&str; 2] = ["/bin/true", "/usr/bin/true"];

/// Owner of the mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeScope {
    /// The user's: the test tries nothing that would leave a trace if it worked.
    UserMounts,
    /// Created for the probe.
    Scratch,
}

/// Runs the probe under the plan.
pub(crate) fn prove(
    sandbox: &Sandbox,
    whose: ProbeScope,
) -> Result<(Vec<ProofCheck>, StartNotes), Error> {
    let plan = sandbox.plan();
    if !plan.support().launcher() {
        return Err(ErrorKind::Unsupported.error("nothing can be proved without the launcher"));
    }
    let decoys = Decoys::lay_out(plan, whose)?;
    let command = Command::new(sandbox, "probe")
        .stderr(Stdio::Null)
        .timeout(WITHIN);
    let (mut running, pipes, notes) = begin(&command, Some(decoys.probe()))?;
    running.wait()?;
    let mut answered: Vec<(ProbeCheck, ProofCheck)> = running
        .records()
        .iter()
        .filter(|record| record.kind == wire::RECORD_PROBE)
        .filter_map(|record| checks::check(plan, record.a, record.b))
        .collect();
    let gone = pipes.1.map_or(Observation::Unclear, survivor);
    let mut out = Vec::new();
    for one in ProbeCheck::ALL.into_iter().filter(|one| decoys.asked(*one)) {
        let found = answered.iter().position(|(which, _)| *which == one);
        let seen = match found.map(|index| answered.swap_remove(index).1.seen) {
            // The launcher only reports that the survivor existed.
            Some(Observation::Worked) if one == ProbeCheck::Survivor => gone,
            Some(seen) => seen,
            None => Observation::Unclear,
        };
        if let Some(expected) = checks::expected(one, plan) {
            out.push(checks::proof_check(one, expected, seen));
        }
    }
    Ok((out, notes))
}

/// Returns the state of a process that had the pipe: one byte says that it ran, the end of the pipe
/// that it is gone.
fn survivor(mut pipe: PipeReader) -> Observation {
    let until = Instant::now() + GONE_WITHIN;
    let mut said = false;
    let mut bytes = [0u8; 64];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, wait) {
            Ok(0) => return Observation::Worked,
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(_) => return Observation::Unclear,
        }
        match pipe.read(&mut bytes) {
            Ok(0) if said => return Observation::Refused,
            Ok(0) | Err(_) => return Observation::Unclear,
            Ok(_) => said = true,
        }
    }
}

/// Decoys of the probe, removed after it.
struct Decoys {
    // Held until the end.
    _place: ScratchDir,
    _sockets: Vec<UnixListener>,
    _listener: Option<TcpListener>,
    made: CreatedFile,
    asked: u64,
    strings: Vec<Vec<u8>>,
    pid: u32,
}

/// The only file in a mount of the user's: removed after every result of the probe.
struct CreatedFile(Option<PathBuf>);

impl Drop for CreatedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file does not exist if the confinement worked.
            let _ = fs::remove_file(path);
        }
    }
}

impl Decoys {
    fn lay_out(plan: &Plan, whose: ProbeScope) -> Result<Decoys, Error> {
        let mounts = host_mounts(plan.policy())?;
        let place = outside(plan, &mounts)?;
        let mut decoys = Decoys {
            made: CreatedFile(None),
            _listener: None,
            _sockets: Vec::new(),
            asked: 0,
            strings: vec![Vec::new(); wire::PROBE_STRINGS],
            pid: std::process::id(),
            _place: place,
        };
        decoys.files_outside()?;
        decoys.mounts(plan, &mounts);
        decoys.names(plan, &mounts, whose);
        decoys.system(plan);
        decoys.processes(plan);
        decoys.sockets(plan, whose);
        for one in [
            ProbeCheck::Descriptors,
            ProbeCheck::WriteTmp,
            ProbeCheck::SetId,
            ProbeCheck::Sysrq,
            ProbeCheck::Inet,
            ProbeCheck::Inet6,
            ProbeCheck::Mptcp,
            ProbeCheck::Vsock,
            ProbeCheck::Netlink,
            ProbeCheck::Unix,
            ProbeCheck::UnixPair,
            ProbeCheck::Variables,
            ProbeCheck::TerminalInput,
            ProbeCheck::IoUring,
            ProbeCheck::UserNamespace,
            ProbeCheck::Mount,
            ProbeCheck::KernelPrograms,
            ProbeCheck::Capabilities,
            ProbeCheck::NewPrivileges,
            ProbeCheck::Survivor,
        ] {
            decoys.ask(one);
        }
        // The policy says nothing about the others, so the plan does not either.
        for one in ProbeCheck::ALL {
            if checks::expected(one, plan).is_none() {
                decoys.asked &= !(1 << one as u8);
            }
        }
        Ok(decoys)
    }

    fn ask(&mut self, one: ProbeCheck) {
        self.asked |= 1 << one as u8;
    }

    fn ask_with(&mut self, one: ProbeCheck, index: usize, path: &Path) {
        self.strings[index] = path.as_os_str().as_bytes().to_vec();
        self.ask(one);
    }

    fn asked(&self, one: ProbeCheck) -> bool {
        self.asked & (1 << one as u8) != 0
    }

    fn probe(&self) -> ProbeSpec {
        let mut strings = self.strings.clone();
        strings[wire::PROBE_ASKED] = self.asked.to_string().into_bytes();
        ProbeSpec {
            pid: self.pid,
            strings,
        }
    }

    fn files_outside(&mut self) -> Result<(), Error> {
        let failed = |error| Error::io("could not lay out decoys", error);
        let home = self._place.home();
        let file = |name: &str, mode: u32, bytes: &[u8]| {
            let path = home.join(name);
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&path)
                .and_then(|mut file| {
                    // The umask may have removed permissions, and a refusal must not come from
                    // that.
                    file.set_permissions(Permissions::from_mode(mode))?;
                    file.write_all(bytes)
                })
                .map(|()| path)
                .map_err(failed)
        };
        let secret = file("secret", 0o600, b"a decoy")?;
        let doomed = file("doomed", 0o600, b"")?;
        let program = file("program", 0o700, LAUNCHER)?;
        let directory = home.join("directory");
        make(&directory).map_err(failed)?;
        for one in [
            ProbeCheck::ReadOutside,
            ProbeCheck::WriteOutside,
            ProbeCheck::TruncateOutside,
            ProbeCheck::Metadata,
        ] {
            self.ask_with(one, wire::PROBE_SECRET, &secret);
        }
        let home = self._place.home();
        self.ask_with(ProbeCheck::ListOutside, wire::PROBE_DIRECTORY, &directory);
        self.ask_with(
            ProbeCheck::CreateOutside,
            wire::PROBE_NEW,
            &home.join("new"),
        );
        self.ask_with(ProbeCheck::DeleteOutside, wire::PROBE_DOOMED, &doomed);
        self.ask_with(ProbeCheck::ExecuteOutside, wire::PROBE_PROGRAM, &program);
        Ok(())
    }

    fn mounts(&mut self, plan: &Plan, mounts: &[HostMount]) {
        // A running program cannot be written to in any case, so it proves nothing.
        let telling = |mount: &&HostMount| {
            mount.is_dir || !fs::metadata(&mount.host).is_ok_and(|meta| meta.mode() & 0o111 != 0)
        };
        for mount in mounts.iter().filter(telling) {
            let inside = seen_at(plan, mount, Path::new(""));
            let writable = mount.access.contains(Access::WRITE);
            match (writable, mount.place) {
                (false, MountPlacement::NestedIn(_)) => {
                    self.ask_with(ProbeCheck::WriteNarrower, wire::PROBE_NARROWER, &inside);
                }
                (
                    false,
                    MountPlacement::Root
                    | MountPlacement::Named
                    | MountPlacement::InWork
                    | MountPlacement::Covers(_),
                ) => {
                    self.ask_with(ProbeCheck::WriteReadOnly, wire::PROBE_READ_ONLY, &inside);
                }
                (true, _) => {
                    let name = format!(".os-sandbox-probe-{:016x}", random());
                    let made = mount.host.join(&name);
                    // Only where the caller's own permissions, without privileges, suffice.
                    if self.made.0.is_none()
                        && mount.is_dir
                        && owned_with(&mount.host, 0o300)
                        && plan.policy().allows(&made, Access::WRITE)
                    {
                        let inside = seen_at(plan, mount, Path::new(&name));
                        self.ask_with(ProbeCheck::WriteMount, wire::PROBE_MADE, &inside);
                        self.made.0 = Some(made);
                    }
                }
            }
        }
    }

    /// One protected name, a hidden file and a hidden directory, if the policy has any and they
    /// exist.
    fn names(&mut self, plan: &Plan, mounts: &[HostMount], whose: ProbeScope) {
        let tries = [
            ProbeCheck::ProtectedName,
            ProbeCheck::HiddenName,
            ProbeCheck::HiddenDirectory,
        ];
        for mount in mounts {
            let wanted =
                |one: &ProbeCheck| !self.asked(*one) && checks::expected(*one, plan).is_some();
            if !tries.iter().any(wanted) {
                return;
            }
            for found in walk::find(plan.policy(), mount, Held::ByMounts).found {
                let (one, index, access, mode) = match (found.hide, found.is_dir) {
                    (true, false) => (
                        ProbeCheck::HiddenName,
                        wire::PROBE_HIDDEN,
                        Access::READ,
                        0o400,
                    ),
                    (true, true) => (
                        ProbeCheck::HiddenDirectory,
                        wire::PROBE_HIDDEN_DIRECTORY,
                        Access::READ,
                        0o500,
                    ),
                    (false, is_dir) => (
                        ProbeCheck::ProtectedName,
                        wire::PROBE_PROTECTED,
                        Access::WRITE,
                        if is_dir { 0o300 } else { 0o200 },
                    ),
                };
                let host = mount.host.join(&found.below);
                if self.asked(one)
                    || !owned_with(&host, mode)
                    || plan.policy().allows(&host, access)
                {
                    continue;
                }
                self.ask_with(one, index, &seen_at(plan, mount, &found.below));
                if one == ProbeCheck::ProtectedName && whose == ProbeScope::Scratch {
                    let elsewhere = seen_at(plan, mount, Path::new("elsewhere"));
                    self.ask_with(ProbeCheck::MoveProtected, wire::PROBE_ELSEWHERE, &elsewhere);
                }
            }
        }
    }

    /// Adds a listener of our own that the policy does not name. A named socket is connected only
    /// if it was created for the test; daemons of the user are left in peace.
    fn sockets(&mut self, plan: &Plan, whose: ProbeScope) {
        let other = self._place.home().join("socket");
        // A path too long for a socket: nothing to try.
        if let Ok(listener) = UnixListener::bind(&other) {
            // The umask may have removed permissions; if this fails, the check proves less.
            let _ = fs::set_permissions(&other, Permissions::from_mode(0o700));
            self._sockets.push(listener);
            self.ask_with(ProbeCheck::OtherSocket, wire::PROBE_OTHER_SOCKET, &other);
        }
        if let ([named, ..], ProbeScope::Scratch) = (plan.connects(), whose) {
            self.ask_with(ProbeCheck::NamedSocket, wire::PROBE_NAMED_SOCKET, named);
        }
    }

    fn system(&mut self, plan: &Plan) {
        self.ask_with(
            ProbeCheck::KernelSetting,
            wire::PROBE_SETTING,
            Path::new(SETTING),
        );
        if let Some(file) = SYS.iter().map(Path::new).find(|file| file.exists()) {
            self.ask_with(ProbeCheck::SysSetting, wire::PROBE_SYS, file);
        }
        match plan.policy().system() {
            System::None => {}
            System::Minimal | System::BroadRead => {
                if let Some(program) = PROGRAMS.iter().map(Path::new).find(|path| path.exists()) {
                    self.ask_with(ProbeCheck::StartProgram, wire::PROBE_START, program);
                }
            }
        }
        if checks::expected(ProbeCheck::Connect, plan).is_some()
            && let Ok(listener) = TcpListener::bind(("127.0.0.1", 0))
            && let Ok(address) = listener.local_addr()
        {
            self.strings[wire::PROBE_PORT] = address.port().to_string().into_bytes();
            self._listener = Some(listener);
            self.ask(ProbeCheck::Connect);
        }
    }

    fn processes(&mut self, plan: &Plan) {
        if plan.backend().has_mount_layer() && self.pid <= FIRST_FOREIGN_PID {
            return;
        }
        let own = |name: &str| PathBuf::from(format!("/proc/{}/{name}", self.pid));
        let (environ, status) = (own("environ"), own("status"));
        self.ask(ProbeCheck::Signal);
        self.ask(ProbeCheck::Memory);
        self.ask_with(ProbeCheck::Environ, wire::PROBE_ENVIRON, &environ);
        self.ask_with(ProbeCheck::Process, wire::PROBE_STATUS, &status);
    }
}

/// Creates a private directory that no mount and no system profile shows.
fn outside(plan: &Plan, mounts: &[HostMount]) -> Result<ScratchDir, Error> {
    let mut places = vec![std::env::temp_dir()];
    places.extend(["/var/tmp", "/dev/shm"].map(PathBuf::from));
    places.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    let mut last = None;
    for place in places {
        let Ok(place) = fs::canonicalize(place) else {
            continue;
        };
        let shown = mounts.iter().any(|mount| place.starts_with(&mount.host))
            || plan.policy().allows(&place, Access::READ);
        if shown {
            continue;
        }
        match ScratchDir::create_in(&place) {
            Ok(made) => return Ok(made),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        ErrorKind::Invalid
            .error("there is no temporary directory outside the mounts to lay decoys in")
            .with_hint("set TMPDIR to a directory that no mount shows")
    }))
}

/// Returns a path below a mount as the target names it.
fn seen_at(plan: &Plan, mount: &HostMount, below: &Path) -> PathBuf {
    let base = match plan.backend().shows_sandbox_paths() {
        true => PathBuf::from(&mount.inside),
        false => mount.host.clone(),
    };
    if below.as_os_str().is_empty() {
        base
    } else {
        base.join(below)
    }
}

/// Returns `true` if the caller owns the file with these permissions: then a refusal has another
/// cause.
fn owned_with(path: &Path, mode: u32) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.uid() == geteuid().as_raw() && meta.mode() & mode == mode)
}
