//! The limits of a whole tree, each with its mechanism.

use super::entries::CoverageEntries;
use crate::backend::Backend;
use crate::exceeded::EffectiveLimits;
use crate::policy::Policy;
use crate::promise::Enforcer::{self, Cgroup, Launcher, Rlimits};
use crate::promise::{Promise, PromiseState};
use crate::support::Support;

/// The one mechanism that enforces the limit on memory, so that a second one is not tighter than
/// the requested limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLimiter {
    /// The kernel, by the memory that the tree uses.
    Cgroup,
    /// The supervisor, which measures the memory of the tree periodically.
    Supervisor,
    /// The kernel, by the memory that each process reserves (`RLIMIT_DATA`).
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

/// Adds the limits of the whole tree. Without a control group the supervisor measures it
/// periodically.
pub(super) fn limits(
    out: &mut CoverageEntries,
    policy: &Policy,
    support: &Support,
    backend: Backend,
) {
    let bounds = EffectiveLimits::new(policy.limits(), support);
    let less =
        |effective: Option<u64>, requested: u64| support.launcher() && effective < Some(requested);
    if let Some(requested) = policy.limits().memory_bytes {
        memory(out, policy, support, backend);
        if less(bounds.memory_bytes, requested) {
            out.remark_too(LESS);
        }
    }
    if let Some(requested) = policy.limits().processes {
        processes(out, policy, support, backend);
        if less(bounds.processes, requested) {
            out.remark_too(LESS);
        }
    }
}

const LESS: &str = "less than was asked for, because the host has no more";

/// Returns the state of a limit that a control group enforces. An unconfined command could move
/// itself out.
fn by_group(backend: Backend) -> (PromiseState, &'static str) {
    match backend.properties().confines {
        false => (PromiseState::Degraded, "it could leave its group"),
        true => (PromiseState::Enforced, ""),
    }
}

/// Returns the state of a limit that the supervisor watches.
fn by_supervisor(backend: Backend) -> PromiseState {
    match backend.properties().confines {
        false => PromiseState::Degraded,
        true => PromiseState::Detected,
    }
}

fn memory(out: &mut CoverageEntries, policy: &Policy, support: &Support, backend: Backend) {
    let promise = Promise::MemoryLimit;
    if !support.launcher() {
        out.absent(promise, "no mechanism");
        return;
    }
    match MemoryLimiter::new(policy, support, backend) {
        MemoryLimiter::Cgroup => {
            let (state, reason) = by_group(backend);
            out.push(promise, state, &[Cgroup], reason);
        }
        MemoryLimiter::Supervisor => out.push(
            promise,
            by_supervisor(backend),
            &[Launcher],
            "what is used is counted ten times a second, and the tree is ended; in between it can \
             use more; a writable control group keeps it exactly",
        ),
        MemoryLimiter::EachProcess => out.push(
            promise,
            PromiseState::Degraded,
            &[Rlimits],
            "for each process, by what it reserves; what may be left is not watched",
        ),
    }
}

fn processes(out: &mut CoverageEntries, policy: &Policy, support: &Support, backend: Backend) {
    let promise = Promise::ProcessLimit;
    // Counted for a user within a user namespace, and never for uid 0.
    let counted = backend.has_mount_layer() && !support.uid_zero;
    if !support.launcher() {
        out.absent(promise, "no mechanism");
    } else if support.process_cgroup() {
        let (state, reason) = by_group(backend);
        let by: &[Enforcer] = if counted {
            &[Cgroup, Rlimits]
        } else {
            &[Cgroup]
        };
        out.push(promise, state, by, reason);
    } else if counted {
        out.kept(promise, &[Rlimits]);
    } else if is_supervised(policy, backend) {
        out.push(
            promise,
            by_supervisor(backend),
            &[Launcher],
            "looked at ten times a second, and ended; a writable control group keeps it exactly",
        );
    } else {
        out.absent(promise, "what may be left is not watched");
    }
}
