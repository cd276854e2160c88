//! The table: one promise after the other, and what keeps it under each mechanism.

use crate::access::Access;
use crate::backend::Backend;
use crate::exceeded::EffectiveLimits;
use crate::policy::{Network, Policy, UnixSockets};
use crate::promise::{Entry, Mechanism, Promise, PromiseState};
use crate::support::{Availability, Support};

/// The launcher changes modes below at most 64 places, of which some are no mounts.
const MAX_JUDGED_MOUNTS: usize = 32;

/// Every promise that the policy makes. Seatbelt's table stands beside its profile, that of
/// containers in a file of its own.
pub(super) fn evaluate(policy: &Policy, support: &Support, backend: Backend) -> Vec<Entry> {
    if backend == Backend::Seatbelt {
        return crate::seatbelt::evaluate(policy);
    }
    if backend == Backend::Docker {
        return super::container::evaluate(policy, support);
    }
    use Mechanism::{Birdcage, Bubblewrap, Landlock, Launcher, Seccomp};
    let abi = support.landlock_abi();
    let birdcage = backend == Backend::Birdcage;
    let mount_layer = backend.has_mount_layer();
    let rules = backend != Backend::None && abi > 0;
    let filter = backend != Backend::None && support.seccomp();
    let need = |version: u32, kernel: &str| {
        (rules && abi >= version)
            .then_some(Landlock)
            .ok_or_else(|| {
                if backend == Backend::None {
                    "no mechanism".to_owned()
                } else {
                    format!("needs Landlock ABI {version}, Linux {kernel}; this kernel has {abi}")
                }
            })
    };
    let filtered = filter.then_some(Seccomp).ok_or_else(|| match backend {
        Backend::None => "no mechanism".to_owned(),
        Backend::Bubblewrap
        | Backend::Birdcage
        | Backend::Docker
        | Backend::Landlock
        | Backend::Seatbelt => "needs system call filters".to_owned(),
    });
    let layer = match backend {
        Backend::Bubblewrap => Ok(Bubblewrap),
        Backend::Birdcage => Ok(Birdcage),
        Backend::None => Err("no mechanism".to_owned()),
        Backend::Docker | Backend::Landlock | Backend::Seatbelt => {
            Err("needs a mount layer, such as bubblewrap".to_owned())
        }
    };

    let mut out = CoverageEntries(Vec::new());
    let readable = policy
        .mounts()
        .iter()
        .all(|m| m.access().contains(Access::READ) || m.access().is_none());
    if readable {
        out.any(Promise::ReadOutside, &[&layer, &need(1, "5.13")]);
    } else {
        // A bind mount that can be written can be read.
        out.any(Promise::ReadOutside, &[&need(1, "5.13")]);
    }
    out.any(Promise::WriteOutside, &[&layer, &need(3, "6.2")]);
    if birdcage && policy.mounts_inside_writable() {
        out.remark(
            "for the command; birdcage, raced by another command in the same directory while it \
             starts, can leave an empty file outside",
        );
    } else if mount_layer && policy.mounts_inside_writable() && support.makes_places_through_links()
    {
        out.remark(
            "for the command; bubblewrap before 0.12, raced by another command in the same \
             directory while it starts, can leave an empty file outside (CVE-2026-87766)",
        );
    }
    let everywhere = policy
        .mounts()
        .iter()
        .all(|m| m.access().contains(Access::EXECUTE) || m.access().is_none());
    if readable && (everywhere || birdcage) {
        out.any(Promise::ExecuteOutside, &[&layer, &need(1, "5.13")]);
    } else {
        // bubblewrap's bind mount has no "readable, not executable" that bwrap could ask for.
        out.any(Promise::ExecuteOutside, &[&need(1, "5.13")]);
    }
    let narrowed = policy.narrowed();
    let unreadable = policy
        .mounts()
        .iter()
        .any(|m| !m.access().contains(Access::READ));
    if let Some(covering) = policy.covering()
        && backend != Backend::Bubblewrap
    {
        out.push(
            Promise::NarrowerInside,
            PromiseState::Absent,
            &[],
            &super::cannot_cover(covering),
        );
    } else if birdcage && narrowed.at_all && unreadable {
        out.push(
            Promise::NarrowerInside,
            PromiseState::Absent,
            &[],
            "birdcage can take writing and starting programs from a part of a mount, not reading",
        );
    } else if narrowed.in_execution && !birdcage {
        out.push(
            Promise::NarrowerInside,
            PromiseState::Absent,
            &[],
            "nothing here forbids starting programs inside a larger mount that allows it; \
             let the inner mount execute too",
        );
    } else if narrowed.in_reading {
        out.push(
            Promise::NarrowerInside,
            PromiseState::Absent,
            &[],
            "nothing here forbids reading inside a larger mount that allows it, unless all access \
             is; let the inner mount be read too",
        );
    } else if narrowed.at_all {
        out.any(Promise::NarrowerInside, &[&layer]);
    }
    if birdcage && support.uid_zero {
        // Its /proc is a whole new one, and uid 0 owns what lies below /proc/sys.
        let rules = need(1, "5.13")
            .map_err(|reason| format!("birdcage leaves /proc/sys open to uid 0: {reason}"));
        out.any(Promise::KernelSettings, &[&rules]);
    } else {
        out.any(Promise::KernelSettings, &[&layer, &need(1, "5.13")]);
    }
    out.any(Promise::SetIdBits, &[&filtered]);
    match policy.network() {
        // VSOCK is not part of a network namespace, so the filter is needed in any case.
        Network::Denied if mount_layer && filter => out.all(Promise::Network, &[&layer, &filtered]),
        Network::Denied => {
            out.any(Promise::Network, &[&filtered]);
            if filter && !support.own_network {
                out.remark("its own loopback is closed too, since it has no network of its own");
            }
        }
        Network::Loopback if birdcage && filter => out.push(
            Promise::Network,
            PromiseState::Degraded,
            &[Birdcage, Seccomp],
            "all of it is closed: birdcage leaves its namespace's loopback down",
        ),
        Network::Loopback => out.all(
            Promise::Network,
            &[
                &layer
                    .clone()
                    .map_err(|_| "a loopback of its own needs a network namespace".to_owned()),
                &filtered,
            ],
        ),
        Network::Hosts(_) => out.push(
            Promise::Network,
            PromiseState::Absent,
            &[],
            "no mechanism can enforce a list of hosts yet; turn the network off or on as a whole",
        ),
        Network::Unrestricted => {}
    }
    match policy.unix_sockets() {
        UnixSockets::Closed => out.any(Promise::UnixSockets, &[&filtered]),
        UnixSockets::Named(paths) => {
            let connector = match (backend, support.connector(backend)) {
                (Backend::None, _) => Err("no mechanism".to_owned()),
                (_, Availability::Works(())) => Ok(Launcher),
                (_, Availability::Missing { reason, .. }) => Err(format!(
                    "named sockets cannot be connected from outside: {reason}; all are closed"
                )),
            };
            out.all(Promise::UnixSockets, &[&filtered, &connector]);
            if connector.is_ok() && filter {
                let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
                out.remark(&format!("but {}", paths.join(", ")));
            }
        }
        UnixSockets::Own => {
            out.all(Promise::UnixSockets, &[&layer, &filtered]);
            if filter {
                out.remark(
                    "but its own; those of the host in its mounts are covered when it starts",
                );
            }
        }
        UnixSockets::Open => {}
    }
    let started = Ok(Launcher);
    if backend == Backend::None && !support.launcher() {
        out.push(
            Promise::Descriptors,
            PromiseState::Degraded,
            &[],
            "only what the caller marked close-on-exec",
        );
    } else {
        out.any(Promise::Descriptors, &[&started]);
    }
    out.any(Promise::Environment, &[&started]);
    out.any(Promise::Signals, &[&layer, &need(6, "6.12")]);
    out.any(Promise::Tracing, &[&layer, &need(1, "5.13")]);
    if let Err(reason) = own_tracing(policy, support, backend) {
        out.remark(reason);
    }
    out.any(Promise::Terminal, &[&filtered]);
    out.any(Promise::KernelSurface, &[&filtered]);
    if mount_layer {
        out.all(Promise::Survivors, &[&layer, &started]);
    } else {
        if policy.leaves() {
            out.push(
                Promise::Survivors,
                PromiseState::Absent,
                &[],
                "left by request",
            );
        } else {
            out.all(Promise::Survivors, &[&need(6, "6.12"), &started]);
        }
    }

    let held: Result<&[Mechanism], _> = match &layer {
        Ok(Birdcage) => Ok(&[Birdcage]),
        Ok(_) if support.pins_by_descriptor() => Ok(&[Bubblewrap, Launcher]),
        Ok(_) => Ok(&[Bubblewrap]),
        Err(reason) => Err(reason),
    };
    let writable = policy
        .mounts()
        .iter()
        .any(|mount| mount.access().contains(Access::WRITE));
    if policy.protects_names() {
        let (state, remark) = if writable {
            (PromiseState::Detected, super::protected_names(policy))
        } else {
            (PromiseState::Enforced, "")
        };
        if backend == Backend::Landlock && writable && !policy.leaves() {
            let reason = "only after the end: new ones are moved to a quarantine, changed ones \
                          are told; needs a mount layer, such as bubblewrap, to be prevented";
            out.push(Promise::ProtectedNames, PromiseState::Degraded, &[], reason);
        } else {
            out.names(Promise::ProtectedNames, held, state, remark);
        }
    }
    if policy.hides_names() && birdcage {
        let reason = "birdcage covers nothing: what lies in a mount that is read can be read";
        out.push(Promise::HiddenNames, PromiseState::Absent, &[], reason);
    } else if policy.hides_names() {
        out.names(
            Promise::HiddenNames,
            held,
            PromiseState::Detected,
            "those that are there at the start cannot be read; what appears while it runs is the \
             command's own, and what somebody else replaces meanwhile is told",
        );
    }
    out.any(Promise::Metadata, &[&layer]);
    out.any(Promise::ProcessList, &[&layer]);
    if mount_layer {
        out.any(Promise::Devices, &[&layer]);
    } else {
        out.any(Promise::Devices, &[&need(5, "6.10")]);
    }
    limits(&mut out, policy, support, backend);
    out.0
}

/// Why a command cannot trace processes of its own tree, where it cannot. Landlock keeps all others
/// closed to it, and the supervisor lets go what asks its parent to trace it: without one that
/// parent would be the caller.
pub(super) fn own_tracing(
    policy: &Policy,
    support: &Support,
    backend: Backend,
) -> Result<(), &'static str> {
    match backend {
        Backend::Bubblewrap | Backend::Landlock if support.landlock_abi() == 0 => {
            Err("debuggers do not work: they need Landlock, Linux 5.13")
        }
        Backend::Landlock if policy.leaves() => {
            Err("debuggers do not work: they need a supervisor")
        }
        Backend::Birdcage => Err("debuggers do not work: birdcage's own filter refuses ptrace"),
        Backend::Bubblewrap | Backend::Landlock => Ok(()),
        // Not this filter's to decide.
        Backend::Docker | Backend::Seatbelt | Backend::None => Ok(()),
    }
}

/// Returns `true` if the supervisor or the connector changes modes for the command. Why: uid 0 owns
/// most of the system, and Landlock does not control modes.
pub(super) fn judges_modes(policy: &Policy, support: &Support, backend: Backend) -> bool {
    backend == Backend::Landlock
        && support.uid_zero
        && !support.own_container
        && support.seccomp()
        && support.named_sockets(backend)
        && !policy.leaves()
        && policy.mounts().len() <= MAX_JUDGED_MOUNTS
}

/// The one mechanism that holds the limit on memory, so that no second one is tighter than the limit
/// that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLimiter {
    /// The kernel, by what the tree uses.
    Cgroup,
    /// The supervisor, which counts now and then what the tree uses.
    Supervisor,
    /// The kernel, by what each process reserves (`RLIMIT_DATA`).
    EachProcess,
}

impl MemoryLimiter {
    pub(super) fn new(policy: &Policy, support: &Support, backend: Backend) -> MemoryLimiter {
        if support.memory_cgroup() {
            MemoryLimiter::Cgroup
        } else if is_supervised(policy, backend) {
            MemoryLimiter::Supervisor
        } else {
            MemoryLimiter::EachProcess
        }
    }
}

/// Returns `true` if a supervisor watches the tree. A command that keeps background processes under
/// Landlock alone has none.
fn is_supervised(policy: &Policy, backend: Backend) -> bool {
    backend.has_mount_layer() || !policy.leaves()
}

/// Those of the whole tree. Without a control group the supervisor looks at it now and then.
fn limits(out: &mut CoverageEntries, policy: &Policy, support: &Support, backend: Backend) {
    use Mechanism::{Cgroup, Launcher, Rlimits};
    const LOOKS: &str =
        "looked at ten times a second, and ended; a writable control group keeps it exactly";
    const COUNTED: &str = "what is used is counted ten times a second, and the tree is ended; in \
                           between it can use more; a writable control group keeps it exactly";
    let confined = backend != Backend::None;
    // Who is not confined could move itself out.
    let state = if confined {
        PromiseState::Enforced
    } else {
        PromiseState::Degraded
    };
    let reason = if confined {
        ""
    } else {
        "it could leave its group"
    };
    let looks = if confined {
        PromiseState::Detected
    } else {
        PromiseState::Degraded
    };
    let watched = is_supervised(policy, backend);
    let bounds = EffectiveLimits::new(policy.limits(), support);
    if let Some(asked) = policy.limits().memory_bytes {
        let promise = Promise::MemoryLimit;
        if !support.launcher() {
            out.push(promise, PromiseState::Absent, &[], "no mechanism");
        } else {
            match MemoryLimiter::new(policy, support, backend) {
                MemoryLimiter::Cgroup => out.push(promise, state, &[Cgroup], reason),
                MemoryLimiter::Supervisor => out.push(promise, looks, &[Launcher], COUNTED),
                MemoryLimiter::EachProcess => out.push(
                    promise,
                    PromiseState::Degraded,
                    &[Rlimits],
                    "for each process, by what it reserves; what may be left is not watched",
                ),
            }
        }
        if support.launcher() && bounds.memory_bytes < Some(asked) {
            out.remark_too("less than was asked for, because the host has no more");
        }
    }
    if let Some(asked) = policy.limits().processes {
        let promise = Promise::ProcessLimit;
        // Counted for a user within a user namespace, and never for uid 0.
        let counted = backend.has_mount_layer() && !support.uid_zero;
        if !support.launcher() {
            out.push(promise, PromiseState::Absent, &[], "no mechanism");
        } else if support.process_cgroup() && counted {
            out.push(promise, state, &[Cgroup, Rlimits], reason);
        } else if support.process_cgroup() {
            out.push(promise, state, &[Cgroup], reason);
        } else if counted {
            out.push(promise, PromiseState::Enforced, &[Rlimits], "");
        } else if watched {
            out.push(promise, looks, &[Launcher], LOOKS);
        } else {
            out.push(
                promise,
                PromiseState::Absent,
                &[],
                "what may be left is not watched",
            );
        }
        if support.launcher() && bounds.processes < Some(asked) {
            out.remark_too("less than was asked for, because the host has no more");
        }
    }
}

struct CoverageEntries(Vec<Entry>);

type Coverage = Result<Mechanism, String>;

impl CoverageEntries {
    /// Enforced if one of them works; all that work are listed.
    fn any(&mut self, promise: Promise, kept: &[&Coverage]) {
        let by: Vec<Mechanism> = kept
            .iter()
            .filter_map(|one| one.as_ref().ok().copied())
            .collect();
        if by.is_empty() {
            let reason = kept.iter().rev().find_map(|one| one.as_ref().err());
            self.push(
                promise,
                PromiseState::Absent,
                &[],
                reason.map_or("", String::as_str),
            );
        } else {
            self.push(promise, PromiseState::Enforced, &by, "");
        }
    }

    /// Enforced only if all of them work.
    fn all(&mut self, promise: Promise, kept: &[&Coverage]) {
        match kept.iter().find_map(|one| one.as_ref().err()) {
            Some(reason) => self.push(promise, PromiseState::Absent, &[], reason),
            None => self.any(promise, kept),
        }
    }

    /// Something to know about the last entry that does not change its state.
    fn remark(&mut self, text: &str) {
        if let Some(entry) = self.0.last_mut() {
            entry.reason = Some(text.to_owned());
        }
    }

    /// The same for one that may have a reason already.
    fn remark_too(&mut self, text: &str) {
        let old = self.0.last().and_then(|entry| entry.reason.clone());
        let old = old.map(|old| format!("{old}; ")).unwrap_or_default();
        self.remark(&format!("{old}{text}"));
    }

    fn names(
        &mut self,
        promise: Promise,
        layer: Result<&[Mechanism], &String>,
        state: PromiseState,
        limit: &str,
    ) {
        match layer {
            Ok(by) => self.push(promise, state, by, limit),
            Err(reason) => self.push(promise, PromiseState::Absent, &[], reason),
        }
    }

    fn push(&mut self, promise: Promise, state: PromiseState, by: &[Mechanism], reason: &str) {
        self.0.push(Entry {
            promise,
            state,
            by: by.to_vec(),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
        });
    }
}
