//! The promises that Seatbelt keeps, and the reasons for those that it does not: the table of
//! `plan.rs` for macOS. It describes the intent of the profile and of the start. The tests that run
//! on macOS check the kernel.

use super::pattern;
use crate::plan::{
    CoverageEntries, NO_HOSTS, NO_PUBLISHED_PORTS, but, cannot_cover, overlay_names,
};
use crate::policy::{Network, Pattern, Policy, Survivors, UnixSockets};
use crate::promise::Enforcer::{Launcher, Seatbelt};
use crate::promise::{Entry, Promise, PromiseState};

pub(crate) fn evaluate(policy: &Policy) -> Vec<Entry> {
    let mut out = CoverageEntries::default();
    files(&mut out, policy);
    if !overlay_names(policy).is_empty() {
        out.absent(
            Promise::OverlayWrites,
            "macOS has no overlay mounts; the command would change the directory itself",
        );
    }
    sockets(&mut out, policy);
    processes(&mut out, policy);
    names(&mut out, policy);
    out.kept(Promise::Metadata, &[Seatbelt]);
    out.push(
        Promise::ProcessList,
        PromiseState::Degraded,
        &[Seatbelt],
        "there is no list, but each process can be asked for by its number",
    );
    out.kept(Promise::Devices, &[Seatbelt]);
    if policy.limits().memory_bytes.is_some() {
        out.absent(
            Promise::MemoryLimit,
            "macOS limits no tree, and no private memory of a process",
        );
    }
    if policy.limits().processes.is_some() {
        out.absent(
            Promise::ProcessLimit,
            "macOS counts the processes of the whole user",
        );
    }
    out.into_entries()
}

fn files(out: &mut CoverageEntries, policy: &Policy) {
    for promise in [
        Promise::ReadOutside,
        Promise::WriteOutside,
        Promise::ExecuteOutside,
    ] {
        out.kept(promise, &[Seatbelt]);
    }
    if let Some(covering) = policy.covering() {
        out.absent(Promise::NarrowerInside, &cannot_cover(covering));
    } else if policy.narrowed().at_all {
        out.kept(Promise::NarrowerInside, &[Seatbelt]);
    }
    out.kept(Promise::KernelSettings, &[Seatbelt]);
    out.kept(Promise::SetIdBits, &[Seatbelt]);
}

fn sockets(out: &mut CoverageEntries, policy: &Policy) {
    match policy.network() {
        _ if !policy.published_ports().is_empty() => {
            out.absent(Promise::Network, NO_PUBLISHED_PORTS);
        }
        Network::Denied => out.kept(Promise::Network, &[Seatbelt]),
        Network::Loopback => out.push(
            Promise::Network,
            PromiseState::Degraded,
            &[Seatbelt],
            "the host's own loopback, shared with every server on it",
        ),
        Network::Hosts(_) => out.absent(Promise::Network, NO_HOSTS),
        Network::Unrestricted => {}
    }
    match policy.unix_sockets() {
        UnixSockets::Closed | UnixSockets::Own => out.kept(Promise::UnixSockets, &[Seatbelt]),
        UnixSockets::Named(paths) => {
            let state = PromiseState::Enforced;
            out.push(Promise::UnixSockets, state, &[Seatbelt], &but(paths));
        }
        UnixSockets::Open => {}
    }
}

fn processes(out: &mut CoverageEntries, policy: &Policy) {
    out.kept(Promise::Descriptors, &[Launcher]);
    out.kept(Promise::Environment, &[Launcher]);
    for promise in [Promise::Signals, Promise::Tracing, Promise::Terminal] {
        out.kept(promise, &[Seatbelt]);
    }
    out.push(
        Promise::KernelSurface,
        PromiseState::Enforced,
        &[Seatbelt],
        "services, drivers and mounts by list; system calls are not filtered",
    );
    match policy.survivors() {
        Survivors::Ended => out.push(
            Promise::Survivors,
            PromiseState::Degraded,
            &[Launcher],
            "the process group is ended; what leaves it by setsid stays, and everything stays if \
             the caller is killed",
        ),
        Survivors::Left => out.absent(Promise::Survivors, "left by request"),
    }
}

fn names(out: &mut CoverageEntries, policy: &Policy) {
    let guards = || (0..policy.mounts().len()).map(|index| policy.guards_of(index));
    let guards = || guards().chain([policy.guards_of_all()]);
    let movable = |one: &Pattern| !pattern::above_by_any_name(one, 0).is_empty();
    for (promise, any, movable) in [
        (
            Promise::ProtectedNames,
            policy.protects_names(),
            guards().any(|one| one.protect.iter().any(movable)),
        ),
        (
            Promise::HiddenNames,
            policy.hides_names(),
            guards().any(|one| one.hide.iter().any(movable)),
        ),
    ] {
        match (any, movable) {
            (false, _) => {}
            (true, false) => out.kept(promise, &[Seatbelt]),
            (true, true) => out.push(
                promise,
                PromiseState::Degraded,
                &[Seatbelt],
                "a directory that an inner * stands for can be made elsewhere and moved into place",
            ),
        }
    }
}
