//! Starts a checked command: compiles rules, filter and mounts, sends them, and waits for the
//! answer.

mod alone;
mod config_writer;
mod confinement;
mod failed;
pub(super) mod host_sockets;
pub(super) mod launch;
mod limits;
mod lookups;
mod loopback_proxy;
pub(super) mod message;
pub(super) mod observe;
mod places;
mod published_ports;
pub(super) mod running;
pub(super) mod sockets;
mod terminal_guard;
mod view;

use super::cgroup::CommandCgroup;
use super::git_audit::worktree;
use super::guards::after::Cleanup;
use super::guards::names::ScanResult;
use super::guards::state::PlaceholderLease;
use super::guards::sweep::PostRunScan;
use super::guards::{Guarded, RecordPlace, guard, look};
use super::host_mount::{HostMount, host_mounts};
use super::landlock::private::ScratchDir;
use super::landlock::ruleset::LandlockRuleset;
use super::mount_layer::inside_paths;
use super::mount_layer::users::own_files;
use super::{
    birdcage,
    mount_layer::bwrap::{self, BubblewrapArgs},
    mount_layer::root::{self, NestedMountMethod, RootStep},
    wire,
};
use crate::backend::{Backend, Starter};
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::findings::{Findings, StartNotes};
use crate::plan::Plan;
use crate::policy::{GitConfig, Network, UnixSockets};
use crate::process::StartedCommand;
use crate::promise::Promise;
use crate::streams::Pipes;
use crate::streams::streams;
use crate::support::Support;
use config_writer::ConfigWriter;
use confinement::confine;
use failed::failure;
use host_sockets::HostSockets;
use launch::{Launched, SpawnFrom, Starting, data, image, launch, send_message};
use limits::limit_tree;
use loopback_proxy::LoopbackProxy;
use message::Run;
use nix::libc::{ENOENT, ENOTDIR, ESTALE};
use nix::sys::stat::{SFlag, fstat};
use observe::DenialReports;
use places::CommandPlaces;
use running::{Record, RunResources, Running};
use sockets::ConnectorSpec;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use terminal_guard::TerminalGuard;

/// Time limit of a start: bubblewrap on a loaded machine, a program on a slow disk.
const START_WITHIN: Duration = Duration::from_secs(60);

/// Checks that run inside in place of a program; see `launcher/probe.rs`.
pub(crate) struct ProbeSpec {
    pub(crate) pid: u32,
    /// By the numbers of `launcher/wire.rs`; `begin` adds the one in TMPDIR.
    pub(crate) strings: Vec<Vec<u8>>,
}

pub(crate) fn start(command: Command) -> Result<StartedCommand, Error> {
    let mut attempts = 0;
    let (running, pipes, notes) = loop {
        attempts += 1;
        match begin(&command, None) {
            Err(error) if error.is_of_change() && attempts < START_ATTEMPTS => {
                std::thread::sleep(Duration::from_millis(attempts));
            }
            result => break result?,
        }
    };
    Ok(StartedCommand {
        process: Box::new(running),
        pipes,
        notes,
        container: None,
    })
}

/// Bound on the starts of one command. Protected and hidden names that other processes make and remove
/// meanwhile spoil a start: an editor, a test suite that makes repositories, another forge.
const START_ATTEMPTS: u64 = 16;

/// Starts a command, or a probe in its place.
pub(crate) fn begin(
    command: &Command,
    probe: Option<ProbeSpec>,
) -> Result<(Running, Pipes, StartNotes), Error> {
    let wall = command.wall();
    let backend = command.plan().backend();
    let mut starting = launch(
        takes_a_program(backend)?,
        probe.is_some(),
        starter(command.plan()),
    )?;
    let (streams, pipes) = streams(&command.stdio)?;
    refuse_streams(command.plan(), &streams)?;
    let terminal_guard = TerminalGuard::start(command.session, &streams)?;
    let hosts = HostSockets::start(command, probe.is_some())?;
    let (hosts, namespace_channel) = hosts.unzip();
    let proxy = hosts.as_ref().and_then(HostSockets::loopback);
    let mut prepared = Prepared::new(command, proxy, probe.is_some(), &mut starting)?;
    prepared.hand_over_network(namespace_channel.flatten());
    if let Some(refused) = command.plan().insists(&prepared.notes.degraded, false) {
        return Err(refused);
    }
    if let Some(probe) = probe {
        prepared.probe(probe);
    }
    let launched = prepared.launch(starting, command.plan(), &streams)?;
    // From here on only the target has its ends.
    drop(streams);
    prepared.namespace_channel = None;
    let notes = std::mem::take(&mut prepared.notes);
    let cleanup = prepared.take_cleanup();
    let mut running = Running::new(
        launched,
        RunResources {
            private: prepared.private.take(),
            group: prepared.group.take(),
            keep: keeps_resources(command.plan()),
            sandbox: Some(command.sandbox.clone()),
            proxied: None,
            reports: prepared.reports.take(),
            configs: prepared.configs.take().map(ConfigWriter::started),
        },
        wall.map(|wall| wall.saturating_add(command.grace.unwrap_or_default())),
    )
    .then(Some(cleanup));
    if prepared.run.flags & wire::FLAG_ALONE != 0 {
        running.unsupervised(wall, command.grace)?;
    }
    let first = running
        .first(START_WITHIN)
        .inspect_err(|error| forget(command, error))?;
    if first.kind == wire::RECORD_FAILED {
        return Err(failed_start(command, prepared.root(), first, hosts));
    }
    running.terminal_guarded_by(terminal_guard);
    if let Some(hosts) = hosts {
        running.proxied(hosts.serve()?);
    }
    Ok((running, pipes, notes))
}

/// Returns `true` if the launcher becomes another program on its way into the namespaces, which
/// prints its failures.
fn takes_a_program(backend: Backend) -> Result<bool, Error> {
    match backend.properties().starter {
        Starter::Launcher => Ok(false),
        Starter::Program => Ok(true),
        Starter::Engine | Starter::SandboxExec => {
            let what = format!("the launcher starts no command under {backend}");
            Err(ErrorKind::Unsupported.error(what))
        }
    }
}

/// Returns the error of a start that failed. Unless a tree changed, which says nothing about the
/// mechanism, support is detected again.
fn failed_start(
    command: &Command,
    root: &[RootStep],
    first: Record,
    hosts: Option<HostSockets<'_>>,
) -> Error {
    let of_network = hosts.filter(|_| first.a == wire::STAGE_NETWORK);
    let cause = of_network.and_then(|hosts| hosts.serve().err());
    let error = cause.unwrap_or_else(|| failure(command, root, first));
    let is_gone = matches!(first.b, ENOENT | ENOTDIR | ESTALE);
    if first.a == wire::STAGE_PIN || first.a == wire::STAGE_MOUNTS && is_gone {
        return error.of_change();
    }
    if error.kind() == ErrorKind::Enforcement {
        forget(command, &error);
    }
    error
}

/// Makes the next start detect the host's support again, unless the failure says nothing about it.
fn forget(command: &Command, error: &Error) {
    if !error.is_shortage() {
        Support::forget(command.sandbox.directories());
    }
}

/// Returns the thread that starts the launcher. bubblewrap ends with the thread that started it,
/// and a supervised start leaves enough work for the caller meanwhile. Without either, a second
/// thread only adds a handover.
fn starter(plan: &Plan) -> SpawnFrom {
    match plan.policy().leaves() && !plan.backend().has_mount_layer() {
        true => SpawnFrom::CallingThread,
        false => SpawnFrom::DedicatedThread,
    }
}

/// Returns `true` if the next command can have the private directory: only if no process can remain
/// in it, or if no process is confined to it anyway.
fn keeps_resources(plan: &Plan) -> bool {
    if plan.policy().leaves() {
        return false;
    }
    let alone = plan
        .entries()
        .iter()
        .any(|entry| entry.promise == Promise::Survivors && !entry.is_gap());
    alone || !plan.backend().properties().confines
}

/// Compiled inputs of one start.
struct Prepared {
    run: Run,
    ruleset: Option<Arc<LandlockRuleset>>,
    private: Option<Arc<ScratchDir>>,
    group: Option<CommandCgroup>,
    /// The files by which the target enters its group.
    doors: Vec<OwnedFd>,
    /// The steps that the launcher has got already.
    begun: Vec<RootStep>,
    outer: Option<Outer>,
    connector: Option<ConnectorSpec>,
    /// On it the supervisor sends its network namespace to the maker of sockets.
    namespace_channel: Option<UnixStream>,
    reports: Option<DenialReports>,
    /// The configurations that git may change.
    configs: Option<ConfigWriter>,
    notes: StartNotes,
    held: Option<PlaceholderLease>,
    sweep: Option<PostRunScan>,
    /// Names that killed commands had left.
    left: Findings,
}

/// Way of the launcher into the namespaces.
enum Outer {
    /// None: the launcher makes namespaces with this root directory, and stays itself. It has got a
    /// number of these steps already.
    Namespaces(Vec<RootStep>, usize),
    Bwrap {
        program: OsString,
        args: BubblewrapArgs,
    },
    Birdcage {
        program: OsString,
        job: OwnedFd,
    },
}

impl Prepared {
    fn take_cleanup(&mut self) -> Cleanup {
        let left = std::mem::take(&mut self.left);
        Cleanup::new(self.sweep.take(), self.held.take(), left)
    }

    /// `proxy`: the listener for named hosts that the connector connects the command to. The launcher
    /// gets the beginning of its job, so that it works in parallel.
    fn new(
        command: &Command,
        proxy: Option<&LoopbackProxy>,
        is_probe: bool,
        starting: &mut Starting,
    ) -> Result<Prepared, Error> {
        let plan = command.plan();
        let (policy, backend) = (plan.policy(), plan.backend());
        let mut mounts = host_mounts(policy)?;
        let remarks = worktree::show(policy, &mut mounts, backend.has_own_root());
        let remark_of = |remark| (Promise::WriteOutside, remark);
        let places = CommandPlaces::new(command, mounts, is_probe)?;
        let mut run = places.run(command, proxy);
        let addresses = proxy.map(LoopbackProxy::addresses).unwrap_or_default();
        let private = places.private.as_deref();
        let reports =
            DenialReports::new(plan, command.reports, &addresses, &places.mounts, private)?;
        let mut connector = places.connector(plan, addresses, reports.is_some(), &mut run)?;
        if let Some(connector) = &mut connector {
            connector.has_configs = backend.has_mount_layer()
                && policy.git_config() == GitConfig::Judged
                && reports.as_ref().is_some_and(DenialReports::sees_changes);
            starting.send(&connector.message(reports.as_ref()));
            connector.ours = None;
        }
        let begun = begin_root(plan, starting);
        let ruleset = confine(command, &places, &mut run)?;
        let group = limit_tree(&command.sandbox, &mut run)?;
        let doors = group.as_ref().map(CommandCgroup::doors).transpose()?;
        let doors = doors.unwrap_or_default();
        run.groups = doors.len() as u64;
        let mut prepared = Prepared {
            run,
            ruleset,
            private: places.private,
            group,
            doors,
            begun,
            outer: None,
            connector,
            namespace_channel: None,
            reports,
            configs: None,
            notes: StartNotes {
                degraded: Vec::new(),
                annotations: remarks.into_iter().map(remark_of).collect(),
                hidden: Vec::new(),
            },
            held: None,
            sweep: None,
            left: Findings::default(),
        };
        prepared.guard(command, places.mounts, is_probe)?;
        Ok(prepared)
    }

    /// Looks through the writable mounts, and composes the root directory from them.
    fn guard(
        &mut self,
        command: &Command,
        mounts: Vec<HostMount>,
        is_probe: bool,
    ) -> Result<(), Error> {
        let plan = command.plan();
        let (policy, backend) = (plan.policy(), plan.backend());
        let records = match is_probe || plan.support().own_container {
            true => RecordPlace::Nowhere,
            false => RecordPlace::StateDir(command.state_dir()),
        };
        if backend.has_mount_layer() {
            self.compose(plan, mounts, command.state_dir(), records)?;
        } else if backend.shares_host()
            && !policy.leaves()
            && PostRunScan::is_needed(policy, &mounts)
        {
            let guarded = look(policy, &mounts, records)?;
            self.notes.degraded.extend(guarded.notes);
            self.left = guarded.left;
            let scan = PostRunScan::new(policy, mounts, guarded.names, guarded.running, None)?;
            self.sweep = scan.map(PostRunScan::of_loose_names);
        }
        let remark = self.sweep.as_ref().and_then(PostRunScan::remark);
        self.notes.annotations.extend(remark);
        Ok(())
    }

    /// Makes the supervisor send its network namespace before the command starts.
    fn hand_over_network(&mut self, channel: Option<UnixStream>) {
        if channel.is_some() {
            self.run.flags |= wire::FLAG_SOCKETS;
        }
        self.namespace_channel = channel;
    }

    /// Returns the steps that the launcher takes by itself.
    fn root(&self) -> &[RootStep] {
        match &self.outer {
            Some(Outer::Namespaces(steps, _)) => steps,
            Some(Outer::Bwrap { .. } | Outer::Birdcage { .. }) | None => &[],
        }
    }

    /// Replaces the program by checks.
    fn probe(&mut self, probe: ProbeSpec) {
        let tmp = self
            .private
            .as_ref()
            .map_or_else(|| PathBuf::from(inside_paths::TMP), |private| private.tmp());
        self.run.flags |= wire::FLAG_PROBE;
        // A supervisor passes the answers on; the target's confinement is the same.
        self.run.flags &= !wire::FLAG_ALONE;
        self.run.probe_pid = probe.pid.into();
        self.run.probes = probe.strings;
        self.run.probes[wire::PROBE_TMP] = tmp.join("probe").into_os_string().into_vec();
    }

    fn compose(
        &mut self,
        plan: &Plan,
        mounts: Vec<HostMount>,
        state_dir: Option<&Path>,
        records: RecordPlace<'_>,
    ) -> Result<(), Error> {
        let policy = plan.policy();
        let Guarded {
            names,
            held,
            notes,
            remarks,
            hidden,
            programs,
            running,
            left,
        } = guard(policy, &mounts, state_dir, records)?;
        self.left = left;
        self.held = held;
        self.notes.degraded.extend(notes);
        self.notes.annotations.extend(remarks);
        self.notes.hidden = hidden;
        self.outer = Some(match &self.private {
            Some(private) => {
                let own = [private.home(), private.tmp()];
                let composed = birdcage::compose(policy, &mounts, &names, &own, &private.work())?;
                self.run.pins = composed.pins;
                let program = plan.support().birdcage().ok_or_else(|| gone("birdcage"))?;
                Outer::Birdcage {
                    program: program.as_os_str().to_owned(),
                    job: data("birdcage-job", &composed.job)?,
                }
            }
            None => self.own_root(plan, &mounts, &names, (&programs.0, &programs.1))?,
        });
        if let Some(reports) = &mut self.reports {
            reports.add_guarded(&mounts, &names);
        }
        if self.reports.is_some() && policy.git_config() == GitConfig::Judged {
            if self.connector.as_ref().is_some_and(|one| one.has_configs) {
                self.configs = ConfigWriter::start(&mounts, &names)?;
            }
            self.notes
                .annotations
                .extend(config_writer::beyond_bound(&names));
        }
        self.sweep = PostRunScan::new(policy, mounts, names, running, self.held.as_ref())?;
        Ok(())
    }

    fn own_root(
        &mut self,
        plan: &Plan,
        mounts: &[HostMount],
        names: &[ScanResult],
        programs: (&[HostMount], &[ScanResult]),
    ) -> Result<Outer, Error> {
        let policy = plan.policy();
        let begun = std::mem::take(&mut self.begun);
        let sent = begun.len();
        let is_native = plan.backend().properties().starter == Starter::Launcher;
        let inner = match is_native || plan.support().pins_by_descriptor() {
            true => NestedMountMethod::ByDescriptor,
            false => NestedMountMethod::ByPath,
        };
        let root = root::compose(begun, policy, mounts, names, programs, inner)?;
        let outer = if is_native {
            Outer::Namespaces(root.steps, sent)
        } else {
            let program = plan.support().bubblewrap();
            let program = program.ok_or_else(|| gone("bubblewrap"))?;
            Outer::Bwrap {
                program: program.path().as_os_str().to_owned(),
                args: bwrap::arguments(policy, &root, FD_OWN_FILES)?,
            }
        };
        self.run.pins = root.pins;
        Ok(outer)
    }

    fn launch(
        &self,
        starting: Starting,
        plan: &Plan,
        streams: &[OwnedFd; 3],
    ) -> Result<Launched, Error> {
        let mut fds: Vec<BorrowedFd<'_>> = streams.iter().map(AsFd::as_fd).collect();
        fds.extend(self.ruleset.as_ref().map(|rules| rules.as_fd()));
        fds.extend(self.connector.as_ref().map(|one| one.targets.as_fd()));
        fds.extend(self.namespace_channel.as_ref().map(AsFd::as_fd));
        // Last, and not read: the supervisor keeps it open until its end.
        fds.extend(self.held.as_ref().map(|held| held.lock().as_fd()));
        let record = self.sweep.as_ref().and_then(PostRunScan::lock);
        fds.extend(record.map(AsFd::as_fd));
        fds.extend(self.doors.iter().map(AsFd::as_fd));
        self.send_configs()?;
        let run = self.run.message(fds);
        let messages = match &self.outer {
            Some(Outer::Birdcage { program, job }) => {
                let argv = ["os-sandbox-birdcage"].map(OsStr::new);
                let fds = vec![job.as_fd(), image()?];
                vec![message::exec(program, &argv, fds, &[]), run]
            }
            Some(Outer::Namespaces(steps, sent)) => {
                vec![message::root(&steps[*sent..]), run]
            }
            Some(Outer::Bwrap { program, args }) => {
                let number = format!("{FD_ARGS}");
                let stage = format!("/proc/self/fd/{FD_IMAGE}");
                let argv = ["bwrap", "--args", &number, "--", &stage].map(OsStr::new);
                let mut fds = vec![args.args.as_fd(), image()?];
                fds.extend(args.own_files.iter().map(AsFd::as_fd));
                vec![message::exec(program, &argv, fds, &args.files), run]
            }
            None if plan.backend().has_mount_layer() => return Err(gone("mount layer")),
            None => vec![run],
        };
        starting.job(&messages)
    }

    /// Tells the connector the configurations, before the supervisor has the other end of its channel.
    fn send_configs(&self) -> Result<(), Error> {
        let Some(connector) = self.connector.as_ref().filter(|one| one.has_configs) else {
            return Ok(());
        };
        let configs = self.configs.as_ref();
        let paths = configs.map_or(&[][..], |configs| &configs.paths);
        let message = message::configs(paths, configs.and_then(ConfigWriter::observers));
        match send_message(&connector.targets, &message) {
            // The launcher has reported the reason.
            Err(error) if error.raw_os_error() == Some(nix::Error::EPIPE as i32) => Ok(()),
            sent => sent.map_err(|error| Error::io("could not serve git's configuration", error)),
        }
    }
}

/// Returns the steps of the root directory that do not depend on the command's mounts. A launcher that
/// takes them itself gets them, in its namespaces.
fn begin_root(plan: &Plan, starting: &mut Starting) -> Vec<RootStep> {
    let (policy, backend) = (plan.policy(), plan.backend());
    if !backend.has_own_root() {
        return Vec::new();
    }
    let is_native = backend.properties().starter == Starter::Launcher;
    if is_native {
        let own_network = policy.network() != &Network::Unrestricted;
        starting.send(&message::namespaces(own_network, policy.host_name()));
    }
    let steps = root::begin(policy, own_files(policy, plan.proxied_hosts().is_some()));
    if is_native {
        starting.send(&message::root(&steps));
    }
    steps
}

/// The launcher closes all descriptors from 3 on before it receives new ones, so these are the
/// numbers.
const FD_ARGS: i32 = 3;
const _: () = assert!(crate::birdcage::FD_JOB == 3 && crate::birdcage::FD_IMAGE == 4);
const FD_IMAGE: i32 = 4;
/// The first of our own files.
const FD_OWN_FILES: i32 = 5;

fn gone(what: &str) -> Error {
    ErrorKind::Enforcement.error(format!("the plan's {what} is gone"))
}

/// Refuses unsafe standard streams. A directory of the host is not a stream: it leads around every
/// mount (`openat(0, "..")`, as in CVE-2024-21626). A local socket that still accepts connects
/// would bypass the policy.
fn refuse_streams(plan: &Plan, streams: &[OwnedFd; 3]) -> Result<(), Error> {
    if !plan.backend().properties().confines {
        return Ok(());
    }
    let open = plan.policy().unix_sockets() == &UnixSockets::Open;
    for (stream, name) in streams.iter().zip(["input", "output", "error"]) {
        let stat = fstat(stream)
            .map_err(|errno| Error::io("could not look at the command's streams", errno.into()))?;
        if stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits() {
            return Err(Error::invalid(format!("standard {name} is a directory")));
        }
        let socket = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFSOCK.bits();
        if socket && !open && sockets::is_loose(stream) {
            return Err(Error::invalid(format!(
                "standard {name} is a local socket that could be connected, or sends datagrams"
            ))
            .with_hint("hand over a connected stream, a pipe, or a file"));
        }
    }
    Ok(())
}
