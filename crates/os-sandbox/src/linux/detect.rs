//! Detects the mechanisms that work here by running them: a confined process, once under each
//! mechanism, attempts forbidden operations.

mod advice;
pub(super) mod cache;

use super::cgroup;
use super::landlock::private::ScratchDir;
use super::prove::{ProbeScope, prove};
use super::start::launch::{SpawnFrom, launch};
use super::start::message;
use super::start::running::{RunResources, Running};
use super::start::{ProbeSpec, begin};
use super::wire;
use crate::access::Access;
use crate::backend::Backend;
use crate::command::Command;
use crate::error::Error;
use crate::plan::{Plan, PlanError, Requirement};
use crate::policy::Policy;
use crate::process::Process as _;
use crate::promise::Promise;
use crate::proof::{Observation, ProofCheck};
use crate::sandbox::{Directories, Sandbox};
use crate::streams::Stdio;
use crate::support::{Availability, Bubblewrap, ConnectorSupport, Landlock, Support, UNTRIED};
use advice::HostEnvironment;
use cache::{ProbeCache, ProbeResults};
use landlock::{AccessFs, Erratum, LandlockStatus, Ruleset, RulesetAttr};
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::Permissions;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Paths of a trusted bubblewrap. Not PATH: the writer of PATH would choose the sandbox. The
/// system's own first, because distributions make exceptions (AppArmor) for exactly that one.
pub(super) const BWRAP: [&str; 4] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

const WITHIN: Duration = Duration::from_secs(20);
const VERSION_WITHIN_MS: u16 = 5_000;
const MAX_VERSION_BYTES: usize = 256;

/// Detects mechanisms, relying on probes that passed in an earlier process of this boot, and caches
/// those that pass now.
pub(crate) fn detect() -> Support {
    if let Some(support) = detect_from_cache() {
        return support;
    }
    let report = match report() {
        Ok(report) => report,
        Err(error) => return nothing(&error),
    };
    let Some(cache) = ProbeCache::open(&report) else {
        return look(&ProbeResults::default(), report);
    };
    let support = look(&cache.read(), report);
    cache.write(&ProbeResults::of(&support));
    support
}

/// Answers without starting a process, if an earlier process of this boot has seen probes pass.
fn detect_from_cache() -> Option<Support> {
    // Why: the launcher reports three facts. The kernel tells Landlock's version and errata here as
    // well. The third, that filters work, depends on the kernel alone if no outer filter applies,
    // and an entry exists only if a launcher of this boot has installed a filter. The key of the
    // cache does not distinguish outer filters.
    if has_outer_filter() {
        return None;
    }
    let (abi, errata) = query_landlock()?;
    let report = Report {
        landlock: Ok(abi),
        errata,
        filters: true,
    };
    let cache = ProbeCache::open(&report)?;
    let known = cache.read();
    if !known.has_passed() {
        return None;
    }
    let support = look(&known, report);
    cache.write(&ProbeResults::of(&support));
    Some(support)
}

/// Returns `true` if a system call filter applies to this process, or if that is unknown.
fn has_outer_filter() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_none_or(|mode| mode.trim() != "0")
}

/// Asks the kernel for its Landlock version and errata. `None` without a clear answer; the launcher
/// then determines the reason.
fn query_landlock() -> Option<(u32, u32)> {
    // Why: the crate tells the version only to a thread that restricts itself, and a domain is the
    // thread's own. So a thread does, which has nothing else to do and ends.
    let asked = std::thread::Builder::new()
        .name("landlock-version".to_owned())
        .spawn(|| {
            let ruleset = Ruleset::default().handle_access(AccessFs::Execute).ok()?;
            Some(ruleset.create().ok()?.restrict_self().ok()?.landlock)
        });
    let LandlockStatus::Available {
        effective_abi,
        kernel_abi,
    } = asked.ok()?.join().ok()??
    else {
        return None;
    };
    let abi = u32::try_from(kernel_abi.unwrap_or(effective_abi as i32)).ok()?;
    Some((abi, Erratum::current().bits()))
}

/// Detects mechanisms without the cache.
pub(crate) fn detect_fresh() -> Support {
    match report() {
        Ok(report) => look(&ProbeResults::default(), report),
        Err(error) => nothing(&error),
    }
}

fn look(known: &ProbeResults, report: Report) -> Support {
    let Report {
        landlock,
        errata,
        filters,
    } = report;
    let abi = landlock.unwrap_or(0);
    let mut support = Support {
        launcher: Availability::Works(()),
        seccomp: Availability::Works(()),
        landlock: Availability::Works(Landlock { abi, errata }),
        pins: Availability::missing("there is no bubblewrap", ""),
        connector: no_connector(),
        machine_bytes: machine_bytes(),
        ..Support::without_mechanisms("not looked for yet", "")
    };
    [support.memory_group, support.process_group] = cgroup::find();
    // If a confined process has passed before, a start reveals a failure.
    if !known.has_passed()
        && let Err(reason) = enter(&support)
    {
        for group in [&mut support.memory_group, &mut support.process_group] {
            if group.found().is_some() {
                *group = Availability::missing(&reason, "");
            }
        }
    }
    if !filters {
        support.seccomp = Availability::missing(
            "system call filters cannot be installed",
            "a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids seccomp(2)",
        );
    }
    if let Err(errno) = landlock {
        let (reason, how) = HostEnvironment::look().landlock(errno);
        support.landlock = Availability::missing(reason, &how);
    } else if !known.landlock
        && let Err(unproven) = probe(&support, Backend::Landlock)
    {
        let reason = format!("a probe was not confined: {}", unproven.reason());
        support.landlock = Availability::missing(reason, "");
    }
    support.namespaces = namespaces(&support, known);
    (support.bubblewrap, support.pins) = bubblewrap(&support, known);
    find_connectors(&mut support, known);
    support
}

/// Tests the connector with each mechanism that works, unless it has passed before.
fn find_connectors(support: &mut Support, known: &ProbeResults) {
    if !support.seccomp() {
        return;
    }
    let connects = |known: bool, support: &Support, backend: Backend| match known {
        true => Availability::Works(()),
        false => connector(support, backend),
    };
    for backend in Backend::AUTOMATIC {
        if backend.properties().connector.is_some() && backend.works_on(support) {
            let known = known.connectors.contains(&backend);
            support
                .connector
                .set(backend, connects(known, support, backend));
        }
    }
}

fn no_connector() -> ConnectorSupport {
    ConnectorSupport::all(|| Availability::missing(format!("{UNTRIED} the mechanism"), ""))
}

/// Tests the connector against a real listener. Named sockets need a filter that asks, and an outer
/// process that may read the target's memory and take its descriptors.
fn connector(support: &Support, backend: Backend) -> Availability<()> {
    let mut with = support.clone();
    with.connector.set(backend, Availability::Works(()));
    let tried = || -> Result<(), String> {
        let scratch = ScratchDir::create_for_probe().map_err(|error| error.to_string())?;
        let path = scratch.home().join("named");
        let _listener = UnixListener::bind(&path)
            // The umask may have removed permissions.
            .and_then(|made| {
                std::fs::set_permissions(&path, Permissions::from_mode(0o700)).map(|()| made)
            })
            .map_err(|error| error.to_string())?;
        let policy = Policy::builder().unix_socket(path).build();
        let policy = policy.map_err(|error| error.to_string())?;
        not_held(&policy, &with, backend, Some(Promise::UnixSockets)).map_err(Unproven::reason)
    };
    match tried() {
        Ok(()) => Availability::Works(()),
        Err(reason) => Availability::missing(
            &match reason.strip_prefix("it could not ") {
                Some(what) => format!("a command that tried could not {what}"),
                None => reason,
            },
            "Linux 5.9 or later, no outer filter that asks as well or hides openat2, and a \
             kernel.yama.ptrace_scope of at most 1 (with bubblewrap 2)",
        ),
    }
}

fn nothing(error: &Error) -> Support {
    Support {
        launcher: Availability::missing(error.to_string(), error.hint().unwrap_or_default()),
        connector: no_connector(),
        machine_bytes: machine_bytes(),
        ..Support::without_mechanisms(&format!("{UNTRIED} the launcher"), "")
    }
}

/// The kernel as the launcher sees it.
#[derive(Debug)]
pub(super) struct Report {
    /// The version, or the errno of the question.
    landlock: Result<u32, i32>,
    errata: u32,
    filters: bool,
}

fn report() -> Result<Report, Error> {
    let mut running = Running::new(
        launch(false, false, SpawnFrom::DedicatedThread)?.job(&[message::report()])?,
        RunResources::default(),
        None,
    );
    let record = running.first(WITHIN)?;
    if record.kind == wire::RECORD_FAILED {
        let errno = std::io::Error::from_raw_os_error(record.b);
        return Err(Error::io("the launcher could not get ready", errno));
    }
    if record.kind != wire::RECORD_REPORT {
        return Err(Error::new(
            crate::error::ErrorKind::Enforcement,
            format!("the launcher answered with record {}", record.kind),
        ));
    }
    Ok(Report {
        landlock: match u32::try_from(record.a) {
            Ok(version) if version > 0 => Ok(version),
            _ => Err(record.a.saturating_neg()),
        },
        errata: u32::try_from(record.b).unwrap_or(0),
        filters: record.c == 1,
    })
}

/// Checks that a process may enter the groups that were found, by starting one that enters.
fn enter(support: &Support) -> Result<(), String> {
    if !support.memory_cgroup() && !support.process_cgroup() {
        return Ok(());
    }
    let policy = Policy::builder()
        .build()
        .map_err(|error| error.to_string())?;
    let plan = Plan::with_mechanism(&policy, support, Requirement::BestEffort, Backend::None)
        .map_err(|error| error.to_string())?;
    let command = Command::new(&Sandbox::open(plan, probing()), "probe")
        .stdout(Stdio::Null)
        .stderr(Stdio::Null)
        .timeout(WITHIN);
    let mut nothing = ProbeSpec {
        pid: 0,
        strings: vec![Vec::new(); wire::PROBE_STRINGS],
    };
    nothing.strings[wire::PROBE_ASKED] = b"0".to_vec();
    let (mut running, _, _) = begin(&command, Some(nothing)).map_err(|error| error.to_string())?;
    running.wait().map_err(|error| error.to_string())?;
    Ok(())
}

/// Returns the memory of the machine (proc_meminfo(5)).
fn machine_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Detects namespaces that the launcher makes.
fn namespaces(support: &Support, known: &ProbeResults) -> Availability<()> {
    if known.namespaces {
        return Availability::Works(());
    }
    let mut with = support.clone();
    with.namespaces = Availability::Works(());
    match probe(&with, Backend::Namespaces) {
        Ok(()) => Availability::Works(()),
        Err(Unproven::Shortage(reason)) => Availability::untried(reason),
        Err(Unproven::Fails(said)) => {
            let how = HostEnvironment::look().own_namespaces(&said);
            Availability::missing(&said, &how)
        }
    }
}

/// Detects bubblewrap, and its support for mounts inside mounts by descriptor.
fn bubblewrap(
    support: &Support,
    known: &ProbeResults,
) -> (Availability<Bubblewrap>, Availability<()>) {
    let none = |finding| (finding, Availability::missing("there is no bubblewrap", ""));
    let Some(path) = BWRAP.iter().map(Path::new).find(|path| path.is_file()) else {
        let how = HostEnvironment::look().not_installed();
        return none(Availability::missing("bwrap is not installed", &how));
    };
    let mode = std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    if mode & 0o6000 != 0 {
        return none(Availability::missing(
            format!(
                "{} is set-user-id, which is not used (CVE-2026-41163)",
                path.display()
            ),
            HostEnvironment::look().set_id(path),
        ));
    }
    let mut with = support.clone();
    with.pins = Availability::Works(());
    // With pins nothing depends on the version.
    if let (Some(version), true) = (&known.bubblewrap, known.pins) {
        let found = Bubblewrap {
            path: path.to_owned(),
            version: version.clone(),
        };
        return (Availability::Works(found), with.pins);
    }
    let version = version(path);
    with.bubblewrap = Availability::Works(Bubblewrap {
        path: path.to_owned(),
        version: version.clone(),
    });
    let Err(reason) = probe(&with, Backend::Bubblewrap) else {
        return (with.bubblewrap, with.pins);
    };
    let reason = match reason {
        Unproven::Shortage(reason) => return none(Availability::untried(reason)),
        Unproven::Fails(reason) => reason,
    };
    // Once more without the steps that need a user namespace within bubblewrap's.
    with.pins = Availability::missing(&reason, advice::pins(&reason));
    if known.bubblewrap.is_some() {
        return (with.bubblewrap, with.pins);
    }
    match probe(&with, Backend::Bubblewrap) {
        Ok(()) => (with.bubblewrap, with.pins),
        Err(Unproven::Shortage(reason)) => none(Availability::untried(reason)),
        Err(Unproven::Fails(said)) => {
            let (reason, how) = HostEnvironment::look().bubblewrap(path, &version, &said);
            none(Availability::missing(&reason, &how))
        }
    }
}

fn version(path: &Path) -> String {
    let text = first_words(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace()
        .last()
        .unwrap_or("unknown")
        .to_owned()
}

/// Returns the first output of a program; does not wait for its end.
fn first_words(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut process = std::process::Command::new(path)
        .arg("--version")
        .env_clear()
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let mut words = vec![0; MAX_VERSION_BYTES];
    let mut got = 0;
    if let Some(mut out) = process.stdout.take() {
        let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, VERSION_WITHIN_MS) == Ok(1) {
            got = out.read(&mut words)?;
        }
    }
    // Fails only if the process has ended.
    let _ = process.kill();
    process.wait()?;
    words.truncate(got);
    Ok(words)
}

/// The reason why a mechanism has not passed its probe.
pub(super) enum Unproven {
    /// It does not work, or does not confine.
    Fails(String),
    /// There were too few processes, descriptors or too little memory to try it.
    Shortage(String),
}

impl Unproven {
    pub(super) fn reason(self) -> String {
        match self {
            Unproven::Fails(reason) | Unproven::Shortage(reason) => reason,
        }
    }
}

impl From<Error> for Unproven {
    fn from(error: Error) -> Unproven {
        let reason = error.to_string();
        match error.is_shortage() || error.is_no_space() && may_have_namespaces() {
            true => Unproven::Shortage(reason),
            false => Unproven::Fails(reason),
        }
    }
}

/// Returns `true` if ENOSPC means that others have all namespaces that there may be (namespaces(7)),
/// and not that the system forbids them.
fn may_have_namespaces() -> bool {
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .iter()
        .all(|kind| {
            let path = format!("/proc/sys/user/max_{kind}_namespaces");
            std::fs::read_to_string(path).is_ok_and(|most| most.trim() != "0")
        })
}

impl From<PlanError> for Unproven {
    fn from(error: PlanError) -> Unproven {
        Unproven::Fails(error.to_string())
    }
}

/// Runs the probe under a mechanism. The error is an operation that it could perform, or the reason
/// why it did not run.
pub(super) fn probe(support: &Support, backend: Backend) -> Result<(), Unproven> {
    let scratch = ScratchDir::create_for_probe()?;
    let mut policy = Policy::builder().mount(scratch.tmp(), "/probe", Access::ALL);
    if backend.has_mount_layer() {
        policy = policy.protect("kept");
    }
    if backend.has_own_root() {
        policy = policy.hide("unseen").hide("closed");
    }
    let policy = policy.build()?;
    prepare(&scratch.tmp()).map_err(|error| Error::io("the files of a probe", error))?;
    not_held(&policy, support, backend, None)
}

/// Checks a plan by a probe. The error is an operation that a command could perform and must not.
/// One promise allows no doubt: an unclear result counts against it.
fn not_held(
    policy: &Policy,
    support: &Support,
    backend: Backend,
    sure: Option<Promise>,
) -> Result<(), Unproven> {
    let plan = Plan::with_mechanism(policy, support, Requirement::BestEffort, backend)?;
    let (checks, _) = prove(&Sandbox::open(plan, probing()), ProbeScope::Scratch)?;
    let could: Vec<String> = checks
        .iter()
        .filter_map(|check| match check.seen {
            Observation::Unclear if Some(check.promise) == sure => {
                Some(format!("not {}", check.name))
            }
            Observation::Unclear | Observation::Refused | Observation::Worked => wrong(check),
        })
        .collect();
    if could.is_empty() {
        Ok(())
    } else {
        Err(Unproven::Fails(format!("it could {}", could.join(", "))))
    }
}

/// Returns the directories of a probe. Why the user's: a probe creates no placeholder, and a failed
/// probe clears the cache.
fn probing() -> Directories {
    Directories::user()
}

/// Creates the files that the probe uses.
fn prepare(mount: &Path) -> std::io::Result<()> {
    std::fs::write(mount.join("unseen"), "a secret")?;
    for name in ["kept", "closed"] {
        std::fs::create_dir(mount.join(name))?;
    }
    Ok(())
}

/// Returns the result that disproves a mechanism. Unclear results do not.
fn wrong(check: &ProofCheck) -> Option<String> {
    match (check.ok, check.seen) {
        (true, _) | (false, Observation::Unclear) => None,
        (false, Observation::Worked) => Some(check.name.to_owned()),
        (false, Observation::Refused) => Some(format!("not {}", check.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_shortage_is_told_from_what_the_host_lacks() {
        let said = |text: &str| Unproven::from(ErrorKind::Enforcement.error(text));
        for (unproven, is_shortage) in [
            (
                said("bwrap: Creating new namespace failed: Resource temporarily unavailable"),
                true,
            ),
            (said("bwrap: Can't fork: Cannot allocate memory"), true),
            (
                said(
                    "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
                ),
                may_have_namespaces(),
            ),
            (said("bwrap: No permissions to create new namespace"), false),
            (said("it could read a hidden file"), false),
            (
                Error::io("x", std::io::Error::from_raw_os_error(11)).into(),
                true,
            ),
            (
                Error::io("x", std::io::Error::from_raw_os_error(24)).into(),
                true,
            ),
            (
                Error::io("x", std::io::Error::from_raw_os_error(1)).into(),
                false,
            ),
        ] {
            let found = matches!(unproven, Unproven::Shortage(_));
            assert_eq!(found, is_shortage, "{}", unproven.reason());
        }
    }

    #[test]
    fn no_weaker_mechanism_stands_in_for_one_that_was_not_tried() {
        let mut support = Support::assume(crate::HostSpec {
            landlock_abi: 7,
            seccomp: true,
            ..Default::default()
        });
        let policy = Policy::builder()
            .mount("/tmp", "/w", Access::ALL)
            .protect(".envrc");
        let policy = policy.build().unwrap();
        let plan = |support: &Support, requirement| Plan::new(&policy, support, requirement);
        assert!(plan(&support, Requirement::Enforce).is_ok());
        for of_bubblewrap in [false, true] {
            let mut short = support.clone();
            match of_bubblewrap {
                true => short.bubblewrap = Availability::untried("x".to_owned()),
                false => short.namespaces = Availability::untried("x".to_owned()),
            }
            let refused = plan(&short, Requirement::Enforce).unwrap_err();
            assert!(
                refused.to_string().contains("could not be tried"),
                "{refused}"
            );
            assert!(
                refused.hint().contains("try again when"),
                "{}",
                refused.hint()
            );
            let asked =
                Plan::with_mechanism(&policy, &short, Requirement::Enforce, Backend::Landlock);
            assert!(asked.is_ok() && plan(&short, Requirement::BestEffort).is_ok());
        }
        support.namespaces = Availability::Works(());
        support.bubblewrap = Availability::untried("x".to_owned());
        assert!(plan(&support, Requirement::Enforce).is_ok());
    }
}
