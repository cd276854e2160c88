//! The promises under the mechanisms of Linux and without a mechanism: one function for each group
//! of promises, and in each one promise after the other.

use super::entries::{Coverage, CoverageEntries};
use super::limits::limits;
use crate::access::Access;
use crate::backend::Backend;
use crate::policy::{Mount, Network, Policy, System, UnixSockets};
use crate::promise::Enforcer::{Birdcage, Bubblewrap, Landlock, Launcher, Namespaces, Seccomp};
use crate::promise::{Enforcer, Entry, Promise, PromiseState};
use crate::seccomp::WatchRule;
use crate::support::{Availability, Support};

/// Remark on a list of hosts without a network namespace.
const PROXY_ONLY: &str = "a program reaches them by the proxy variables and in no other way, and \
                          none can listen";

const NO_MECHANISM: &str = "no mechanism";

/// The launcher makes calls below at most 64 paths, of which some are not mounts.
const MAX_JUDGED_MOUNTS: usize = 32;

/// Returns every promise that the policy makes.
pub(super) fn evaluate(policy: &Policy, support: &Support, backend: Backend) -> Vec<Entry> {
    let confines = backend.properties().confines;
    let missing = |what: &str| match confines {
        true => what.to_owned(),
        false => NO_MECHANISM.to_owned(),
    };
    let evaluation = Evaluation {
        policy,
        support,
        backend,
        filtered: match confines && support.seccomp() {
            true => Ok(Seccomp),
            false => Err(missing("needs system call filters")),
        },
        layer: backend
            .properties()
            .layer
            .ok_or_else(|| missing("needs a mount layer, such as bubblewrap")),
    };
    let mut out = CoverageEntries::default();
    evaluation.files(&mut out);
    evaluation.narrower(&mut out);
    evaluation.overlays(&mut out);
    evaluation.kernel(&mut out);
    evaluation.network(&mut out);
    evaluation.sockets(&mut out);
    evaluation.processes(&mut out);
    evaluation.names(&mut out);
    evaluation.guards(&mut out);
    limits(&mut out, policy, support, backend);
    out.into_entries()
}

/// A policy on a host under one mechanism.
struct Evaluation<'a> {
    policy: &'a Policy,
    support: &'a Support,
    backend: Backend,
    /// The system call filter.
    filtered: Coverage,
    /// The mount layer.
    layer: Coverage,
}

impl Evaluation<'_> {
    fn is_birdcage(&self) -> bool {
        self.backend == Backend::Birdcage
    }

    /// Returns Landlock as the mechanism if it has this version, else the reason.
    fn landlock(&self, version: u32, kernel: &str) -> Coverage {
        let abi = self.support.landlock_abi();
        match self.backend.properties().confines {
            false => Err(NO_MECHANISM.to_owned()),
            true if abi >= version => Ok(Landlock),
            true => Err(format!(
                "needs Landlock ABI {version}, Linux {kernel}; this kernel has {abi}"
            )),
        }
    }

    /// Returns `true` if every mount gives this access, or none at all.
    fn all_give(&self, access: Access) -> bool {
        let mut mounts = self.policy.mounts().iter().map(Mount::access);
        mounts.all(|given| given.contains(access) || given.is_none())
    }

    fn files(&self, out: &mut CoverageEntries) {
        let readable = self.all_give(Access::READ);
        if readable {
            out.any(
                Promise::ReadOutside,
                &[&self.layer, &self.landlock(1, "5.13")],
            );
        } else {
            // A bind mount that can be written can be read.
            out.any(Promise::ReadOutside, &[&self.landlock(1, "5.13")]);
        }
        match watch_rule(self.policy, self.support, self.backend) {
            WatchRule::Allow => {}
            _ if self.filtered.is_err() => {
                out.remark("but a watch (inotify) tells names outside: nothing filters calls");
            }
            WatchRule::Notify => {}
            WatchRule::Deny => out.remark("nothing can be watched (inotify)"),
        }
        out.any(
            Promise::WriteOutside,
            &[&self.layer, &self.landlock(3, "6.2")],
        );
        if self.is_birdcage() && self.policy.mounts_inside_writable() {
            out.remark(
                "for the command; birdcage, raced by another command in the same directory while \
                 it starts, can leave an empty file outside",
            );
        } else if self.backend == Backend::Bubblewrap
            && self.policy.mounts_inside_writable()
            && self.support.makes_places_through_links()
        {
            out.remark(
                "for the command; bubblewrap before 0.12, raced by another command in the same \
                 directory while it starts, can leave an empty file outside (CVE-2026-87766)",
            );
        }
        if readable && (self.all_give(Access::EXECUTE) || self.is_birdcage()) {
            out.any(
                Promise::ExecuteOutside,
                &[&self.layer, &self.landlock(1, "5.13")],
            );
        } else {
            // bubblewrap's bind mount has no "readable, not executable" that bwrap could ask for.
            out.any(Promise::ExecuteOutside, &[&self.landlock(1, "5.13")]);
        }
    }

    fn narrower(&self, out: &mut CoverageEntries) {
        let narrowed = self.policy.narrowed();
        let mut mounts = self.policy.mounts().iter();
        let unreadable = mounts.any(|mount| !mount.access().contains(Access::READ));
        let promise = Promise::NarrowerInside;
        if let Some(covering) = self.policy.covering()
            && !self.backend.has_own_root()
        {
            out.absent(promise, &super::cannot_cover(covering));
        } else if self.is_birdcage() && narrowed.at_all && unreadable {
            out.absent(
                promise,
                "birdcage can take writing and starting programs from a part of a mount, not \
                 reading",
            );
        } else if narrowed.in_execution && !self.is_birdcage() {
            out.absent(
                promise,
                "nothing here forbids starting programs inside a larger mount that allows it; \
                 let the inner mount execute too",
            );
        } else if narrowed.in_reading {
            out.absent(
                promise,
                "nothing here forbids reading inside a larger mount that allows it, unless all \
                 access is; let the inner mount be read too",
            );
        } else if narrowed.at_all {
            out.any(promise, &[&self.layer]);
        }
    }

    fn overlays(&self, out: &mut CoverageEntries) {
        let names = super::overlay_names(self.policy);
        if !names.is_empty() && self.backend == Backend::Namespaces {
            out.kept(Promise::OverlayWrites, &[Namespaces]);
            out.remark(&format!("of {names}"));
        } else if !names.is_empty() {
            out.absent(Promise::OverlayWrites, super::NO_OVERLAY);
        }
    }

    fn kernel(&self, out: &mut CoverageEntries) {
        let rules = self.landlock(1, "5.13");
        if self.is_birdcage() && self.support.uid_zero {
            // Its /proc is a new one, and uid 0 owns the files below /proc/sys.
            let rules = rules
                .map_err(|reason| format!("birdcage leaves /proc/sys open to uid 0: {reason}"));
            out.any(Promise::KernelSettings, &[&rules]);
        } else {
            out.any(Promise::KernelSettings, &[&self.layer, &rules]);
        }
        out.any(Promise::SetIdBits, &[&self.filtered]);
    }

    fn network(&self, out: &mut CoverageEntries) {
        let (promise, filter) = (Promise::Network, self.filtered.is_ok());
        let published = self.policy.published_ports();
        // In a container, whoever started it publishes them.
        let around = self.support.shares_own_network(self.backend);
        if !(published.is_empty() || self.backend.publishes_ports() || around) {
            out.absent(promise, super::NO_PUBLISHED_PORTS);
            return;
        }
        match self.policy.network() {
            // VSOCK is not part of a network namespace, so the filter is needed in any case.
            Network::Denied if self.backend.has_mount_layer() && filter => {
                out.all(promise, &[&self.layer, &self.filtered]);
            }
            Network::Denied => {
                out.any(promise, &[&self.filtered]);
                if filter && !self.support.own_network {
                    out.remark(
                        "its own loopback is closed too, since it has no network of its own",
                    );
                }
            }
            Network::Loopback if self.is_birdcage() && filter => out.push(
                promise,
                PromiseState::Degraded,
                &[Birdcage, Seccomp],
                "all of it is closed: birdcage leaves its namespace's loopback down",
            ),
            Network::Loopback => {
                let layer = self.layer.clone();
                let layer =
                    layer.map_err(|_| "a loopback of its own needs a network namespace".to_owned());
                out.all(promise, &[&layer, &self.filtered]);
            }
            // The container has the sockets of its starter's proxy, and no other network.
            Network::Hosts(hosts) if around => {
                out.all(promise, &[&self.filtered]);
                if filter {
                    out.remark(&format!("but {}", hosts.describe()));
                }
            }
            Network::Hosts(hosts) => {
                let way = can_proxy(self.policy, self.support, self.backend);
                let is_filtered = way.is_ok() && filter;
                match self.backend.shares_host() {
                    true => out.all(promise, &[&way, &self.landlock(4, "6.7"), &self.filtered]),
                    false => out.all(promise, &[&way, &self.filtered]),
                }
                if is_filtered && self.backend.shares_host() {
                    out.remark(&format!("but {}; {PROXY_ONLY}", hosts.describe()));
                } else if is_filtered {
                    out.remark(&format!("but {}", hosts.describe()));
                }
            }
            Network::Unrestricted => {}
        }
        if !published.is_empty() && filter {
            out.remark_too(&super::published(published));
        }
    }

    fn sockets(&self, out: &mut CoverageEntries) {
        let (promise, filter) = (Promise::UnixSockets, self.filtered.is_ok());
        match self.policy.unix_sockets() {
            UnixSockets::Closed => out.any(promise, &[&self.filtered]),
            UnixSockets::Named(paths) => {
                let connector = match self.support.connector(self.backend) {
                    _ if !self.backend.properties().confines => Err(NO_MECHANISM.to_owned()),
                    Availability::Works(()) => Ok(Launcher),
                    Availability::Missing { reason, .. } => Err(format!(
                        "named sockets cannot be connected from outside: {reason}; all are closed"
                    )),
                };
                out.all(promise, &[&self.filtered, &connector]);
                if connector.is_ok() && filter {
                    out.remark(&super::but(paths));
                }
            }
            UnixSockets::Own => {
                out.all(promise, &[&self.layer, &self.filtered]);
                if filter {
                    out.remark(
                        "but its own; those of the host in its mounts are covered when it starts",
                    );
                }
            }
            UnixSockets::Open => {}
        }
    }

    fn processes(&self, out: &mut CoverageEntries) {
        let started = Ok(Launcher);
        if !self.backend.properties().confines && !self.support.launcher() {
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
        let signals = self.landlock(6, "6.12");
        out.any(Promise::Signals, &[&self.layer, &signals]);
        out.any(Promise::Tracing, &[&self.layer, &self.landlock(1, "5.13")]);
        if let Err(reason) = own_tracing(self.policy, self.support, self.backend) {
            out.remark(reason);
        }
        out.any(Promise::Terminal, &[&self.filtered]);
        out.any(Promise::KernelSurface, &[&self.filtered]);
        if self.backend.has_mount_layer() {
            out.all(Promise::Survivors, &[&self.layer, &started]);
        } else if self.policy.leaves() {
            out.absent(Promise::Survivors, "left by request");
        } else {
            out.all(Promise::Survivors, &[&signals, &started]);
        }
    }

    fn names(&self, out: &mut CoverageEntries) {
        let held: Result<&[Enforcer], _> = match &self.layer {
            Ok(Birdcage) => Ok(&[Birdcage]),
            Ok(Namespaces) => Ok(&[Namespaces]),
            Ok(_) if self.support.pins_by_descriptor() => Ok(&[Bubblewrap, Launcher]),
            Ok(_) => Ok(&[Bubblewrap]),
            Err(reason) => Err(reason),
        };
        let mut mounts = self.policy.mounts().iter();
        let writable = mounts.any(|mount| mount.access().contains(Access::WRITE));
        if self.policy.protects_names() {
            let (state, remark) = if writable {
                (PromiseState::Detected, super::protected_names(self.policy))
            } else {
                (PromiseState::Enforced, "")
            };
            if self.backend.shares_host() && writable && !self.policy.leaves() {
                let reason = "only after the end: new ones are moved to a quarantine, changed \
                              ones are told; needs a mount layer, such as bubblewrap, to be \
                              prevented";
                out.push(Promise::ProtectedNames, PromiseState::Degraded, &[], reason);
            } else {
                out.names(Promise::ProtectedNames, held, state, remark);
                if held.is_ok() && !super::overlay_names(self.policy).is_empty() {
                    out.remark_too(
                        "new ones in an overlay stay in its upper directory, and are judged when \
                         that is applied",
                    );
                }
            }
        }
        if self.policy.hides_names() && self.is_birdcage() {
            let reason = "birdcage covers nothing: what lies in a mount that is read can be read";
            out.absent(Promise::HiddenNames, reason);
        } else if self.policy.hides_names() {
            let state = PromiseState::Detected;
            out.names(Promise::HiddenNames, held, state, super::HIDDEN_AT_START);
        }
    }

    fn guards(&self, out: &mut CoverageEntries) {
        out.any(Promise::Metadata, &[&self.layer]);
        out.any(Promise::ProcessList, &[&self.layer]);
        if self.backend.has_mount_layer() {
            out.any(Promise::Devices, &[&self.layer]);
        } else {
            out.any(Promise::Devices, &[&self.landlock(5, "6.10")]);
        }
    }
}

/// Returns the enforcer that leads a command to the proxy of the caller and nowhere else: a mount
/// layer by a network namespace in which the proxy gets sockets, or, under Landlock alone, the launcher,
/// which connects for the command.
pub(super) fn can_proxy(policy: &Policy, support: &Support, backend: Backend) -> Coverage {
    match backend.properties().layer {
        Some(layer) if backend.has_own_root() => Ok(layer),
        None if backend.shares_host() && !support.own_container => {
            let without = |missing: String| {
                Err(format!(
                    "a list of hosts needs a network namespace{missing}"
                ))
            };
            let abi = support.landlock_abi();
            if abi < 4 {
                return without(format!(
                    ", or Landlock ABI 4, Linux 6.7; this kernel has {abi}"
                ));
            }
            if !support.seccomp() {
                return without(", or system call filters".to_owned());
            }
            if policy.unix_sockets() == &UnixSockets::Open {
                return without(" where all local sockets are open".to_owned());
            }
            if policy.leaves() {
                return without(" where processes may stay after the end".to_owned());
            }
            match support.connector(backend) {
                Availability::Works(()) => Ok(Launcher),
                Availability::Missing { reason, .. } => without(format!(
                    ", or a process outside that connects for the command: {reason}"
                )),
            }
        }
        Some(_) | None => Err(super::NO_HOSTS.to_owned()),
    }
}

/// Returns `Ok` if a command can trace processes of its own tree, else the reason. Landlock denies
/// it all other processes. The supervisor detaches processes that asked their parent to trace them:
/// without a supervisor that parent would be the caller.
pub(super) fn own_tracing(
    policy: &Policy,
    support: &Support,
    backend: Backend,
) -> Result<(), &'static str> {
    if let Some(reason) = backend.properties().no_tracing {
        return Err(reason);
    }
    if !backend.has_own_root() && !backend.shares_host() {
        // Another mechanism decides this, not the filter.
        return Ok(());
    }
    if support.landlock_abi() == 0 {
        return Err("debuggers do not work: they need Landlock, Linux 5.13");
    }
    match backend.shares_host() && policy.leaves() {
        true => Err("debuggers do not work: they need a supervisor"),
        false => Ok(()),
    }
}

/// Returns `true` if the supervisor or the connector changes modes for the command. Why: uid 0 owns
/// most of the system, and Landlock does not control modes.
pub(super) fn judges_modes(policy: &Policy, support: &Support, backend: Backend) -> bool {
    backend.shares_host()
        && support.uid_zero
        && !support.own_container
        && makes_calls(policy, support, backend)
}

/// Returns the rule for inotify_add_watch(2). Why: Landlock does not control it, and a watch of a
/// directory outside tells the names that others use there.
pub(super) fn watch_rule(policy: &Policy, support: &Support, backend: Backend) -> WatchRule {
    let sees_all = policy.system() == System::BroadRead || support.own_container;
    match backend.shares_host() && !sees_all {
        false => WatchRule::Allow,
        true if makes_calls(policy, support, backend) => WatchRule::Notify,
        true => WatchRule::Deny,
    }
}

/// Returns `true` if the supervisor or the connector can make calls for the command.
fn makes_calls(policy: &Policy, support: &Support, backend: Backend) -> bool {
    support.seccomp()
        && support.named_sockets(backend)
        && !policy.leaves()
        && policy.mounts().len() <= MAX_JUDGED_MOUNTS
}
