//! The table for a container: namespaces, mounts, capabilities and a control group by the engine,
//! and a system call filter of this crate that the engine applies. No process of this crate runs
//! inside.

use super::entries::CoverageEntries;
use crate::access::Access;
use crate::exceeded::EffectiveLimits;
use crate::policy::{Network, Policy, UnixSockets};
use crate::promise::Enforcer::{Cgroup, Docker, Seccomp};
use crate::promise::{Entry, Promise, PromiseState};
use crate::support::{ContainerSupport, Support};

const UNFILTERED: &str = "the engine applies no system call filters";

/// Returns every promise that the policy makes.
pub(super) fn evaluate(policy: &Policy, support: &Support) -> Vec<Entry> {
    let mut out = CoverageEntries::default();
    let Some(containers) = &support.containers else {
        return Vec::new();
    };
    let filtered = containers.filters;
    files(&mut out, policy);
    if !super::overlay_names(policy).is_empty() {
        out.absent(Promise::OverlayWrites, super::NO_OVERLAY);
    }
    kernel(&mut out, containers);
    network(&mut out, policy, containers);
    for promise in [
        Promise::Descriptors,
        Promise::Environment,
        Promise::Signals,
        Promise::Tracing,
    ] {
        out.kept(promise, &[Docker]);
    }
    for promise in [Promise::Terminal, Promise::KernelSurface] {
        out.kept_if(filtered, promise, &[Docker, Seccomp], UNFILTERED);
    }
    out.push(
        Promise::Survivors,
        PromiseState::Detected,
        &[Docker],
        "if the caller is killed, what does not end with its input is ended by the next start",
    );

    names(&mut out, policy);
    for promise in [Promise::Metadata, Promise::ProcessList, Promise::Devices] {
        out.kept(promise, &[Docker]);
    }
    let bounds = EffectiveLimits::in_container(policy.limits(), containers);
    if bounds.memory_bytes.is_some() {
        out.kept_if(
            containers.limits_memory,
            Promise::MemoryLimit,
            &[Docker, Cgroup],
            "the engine cannot limit memory on its host",
        );
    }
    if bounds.processes.is_some() {
        out.kept_if(
            containers.limits_processes,
            Promise::ProcessLimit,
            &[Docker, Cgroup],
            "the engine cannot limit processes on its host",
        );
    }
    out.into_entries()
}

fn files(out: &mut CoverageEntries, policy: &Policy) {
    let has = |wanted: Access| {
        let mut mounts = policy.mounts().iter();
        mounts.all(|m| m.access().contains(wanted) || m.access().is_none())
    };
    let (readable, everywhere) = (has(Access::READ), has(Access::EXECUTE));

    out.kept_if(
        readable,
        Promise::ReadOutside,
        &[Docker],
        "a container's mount that can be written can be read; let it be read too, or confine the \
         command inside once more",
    );
    if readable && policy.mounts_inside_writable() {
        out.remark(
            "for the command; raced by another one in the same directory while it starts, an engine, \
             which goes by path, can be led elsewhere by a link; what stays changed is refused",
        );
    }
    out.kept(Promise::WriteOutside, &[Docker]);
    out.kept_if(
        readable && everywhere,
        Promise::ExecuteOutside,
        &[Docker],
        "what lies in a container's mount can be started; let it execute too, or confine the \
         command inside once more",
    );
    let narrowed = policy.narrowed();
    if narrowed.at_all {
        out.kept_if(
            !narrowed.in_execution && !narrowed.in_reading,
            Promise::NarrowerInside,
            &[Docker],
            "a container's mount takes writing away, or everything; let the inner mount be read \
             and execute too",
        );
    }
}

fn kernel(out: &mut CoverageEntries, containers: &ContainerSupport) {
    out.kept(Promise::KernelSettings, &[Docker]);
    let filtered = containers.filters;
    if filtered && containers.own_program {
        let reason = "but for the caller's own program, which confines what it starts";
        out.push(
            Promise::SetIdBits,
            PromiseState::Enforced,
            &[Seccomp],
            reason,
        );
    } else {
        out.kept_if(filtered, Promise::SetIdBits, &[Seccomp], UNFILTERED);
    }
}

fn network(out: &mut CoverageEntries, policy: &Policy, containers: &ContainerSupport) {
    let filtered = containers.filters;
    let published = policy.published_ports();
    match policy.network() {
        Network::Unrestricted => {}
        Network::Denied | Network::Loopback if !published.is_empty() => {
            match &containers.named_hosts {
                Err(reason) => out.absent(Promise::Network, reason),
                Ok(()) => {
                    out.kept_if(filtered, Promise::Network, &[Docker, Seccomp], UNFILTERED);
                }
            }
        }
        // VSOCK is not part of a network namespace.
        Network::Denied | Network::Loopback => {
            out.kept_if(filtered, Promise::Network, &[Docker, Seccomp], UNFILTERED);
        }
        Network::Hosts(hosts) => match &containers.named_hosts {
            Err(reason) => out.absent(Promise::Network, reason),
            Ok(()) => {
                out.kept_if(filtered, Promise::Network, &[Docker, Seccomp], UNFILTERED);
                if filtered {
                    out.remark(&format!("but {}", hosts.describe()));
                }
            }
        },
    }
    if !published.is_empty() && filtered && containers.named_hosts.is_ok() {
        out.remark_too(&super::published(published));
    }
    match policy.unix_sockets() {
        // The plan has closed the command's own sockets.
        UnixSockets::Closed | UnixSockets::Own => {
            out.kept_if(filtered, Promise::UnixSockets, &[Seccomp], UNFILTERED);
        }
        UnixSockets::Named(_) => out.absent(
            Promise::UnixSockets,
            "named sockets are not offered in a container; all are closed",
        ),
        UnixSockets::Open => {}
    }
}

fn names(out: &mut CoverageEntries, policy: &Policy) {
    let writable = policy
        .mounts()
        .iter()
        .any(|mount| mount.access().contains(Access::WRITE));
    if policy.protects_names() {
        if writable {
            out.push(
                Promise::ProtectedNames,
                PromiseState::Detected,
                &[Docker],
                super::protected_names(policy),
            );
        } else {
            out.kept(Promise::ProtectedNames, &[Docker]);
        }
    }
    if policy.hides_names() {
        out.push(
            Promise::HiddenNames,
            PromiseState::Detected,
            &[Docker],
            super::HIDDEN_AT_START,
        );
    }
}
