//! Which promises Seatbelt keeps, and which not, with the reason: the table of `plan.rs` for
//! macOS. It says what the profile and the start are written to do; that the kernel does it is
//! found out by the tests that run on macOS.

use super::pattern;
use crate::plan::CoverageEntries;
use crate::policy::{Network, Pattern, Policy, Survivors, UnixSockets};
use crate::promise::{Enforcer, Entry, Promise, PromiseState};

pub(crate) fn evaluate(policy: &Policy) -> Vec<Entry> {
    let mut out = CoverageEntries::default();
    let mut push = |promise, state, by: &[Enforcer], reason: &str| {
        out.push(promise, state, by, reason);
    };
    let kept = PromiseState::Enforced;
    let seatbelt = [Enforcer::Seatbelt];
    let launcher = [Enforcer::Launcher];
    push(Promise::ReadOutside, kept, &seatbelt, "");
    push(Promise::WriteOutside, kept, &seatbelt, "");
    push(Promise::ExecuteOutside, kept, &seatbelt, "");
    if let Some(covering) = policy.covering() {
        let reason = crate::plan::cannot_cover(covering);
        push(Promise::NarrowerInside, PromiseState::Absent, &[], &reason);
    } else if policy.narrowed().at_all {
        push(Promise::NarrowerInside, kept, &seatbelt, "");
    }
    push(Promise::KernelSettings, kept, &seatbelt, "");
    push(Promise::SetIdBits, kept, &seatbelt, "");
    match policy.network() {
        Network::Denied => push(Promise::Network, kept, &seatbelt, ""),
        Network::Loopback => push(
            Promise::Network,
            PromiseState::Degraded,
            &seatbelt,
            "the host's own loopback, shared with every server on it",
        ),
        Network::Hosts(_) => push(
            Promise::Network,
            PromiseState::Absent,
            &[],
            crate::plan::NO_HOSTS,
        ),
        Network::Unrestricted => {}
    }
    match policy.unix_sockets() {
        UnixSockets::Closed | UnixSockets::Own => push(Promise::UnixSockets, kept, &seatbelt, ""),
        UnixSockets::Named(paths) => {
            let but = crate::plan::but(paths);
            push(Promise::UnixSockets, kept, &seatbelt, &but);
        }
        UnixSockets::Open => {}
    }
    push(Promise::Descriptors, kept, &launcher, "");
    push(Promise::Environment, kept, &launcher, "");
    push(Promise::Signals, kept, &seatbelt, "");
    push(Promise::Tracing, kept, &seatbelt, "");
    push(Promise::Terminal, kept, &seatbelt, "");
    push(
        Promise::KernelSurface,
        kept,
        &seatbelt,
        "services, drivers and mounts by list; system calls are not filtered",
    );
    match policy.survivors() {
        Survivors::Ended => push(
            Promise::Survivors,
            PromiseState::Degraded,
            &launcher,
            "the process group is ended; what leaves it by setsid stays, and everything stays if \
             the caller is killed",
        ),
        Survivors::Left => push(
            Promise::Survivors,
            PromiseState::Absent,
            &[],
            "left by request",
        ),
    }

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
        match (!any, movable) {
            (true, _) => {}
            (false, false) => push(promise, kept, &seatbelt, ""),
            (false, true) => push(
                promise,
                PromiseState::Degraded,
                &seatbelt,
                "a directory that an inner * stands for can be made elsewhere and moved into place",
            ),
        }
    }
    push(Promise::Metadata, kept, &seatbelt, "");
    push(
        Promise::ProcessList,
        PromiseState::Degraded,
        &seatbelt,
        "there is no list, but each process can be asked for by its number",
    );
    push(Promise::Devices, kept, &seatbelt, "");
    if policy.limits().memory_bytes.is_some() {
        push(
            Promise::MemoryLimit,
            PromiseState::Absent,
            &[],
            "macOS limits no tree, and no private memory of a process",
        );
    }
    if policy.limits().processes.is_some() {
        push(
            Promise::ProcessLimit,
            PromiseState::Absent,
            &[],
            "macOS counts the processes of the whole user",
        );
    }
    out.into_entries()
}
