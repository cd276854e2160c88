//! The same table for a container: namespaces, mounts, capabilities and a control group by the
//! engine, and a system call filter of ours that it applies. Nothing of ours runs inside.

use crate::access::Access;
use crate::policy::{Network, Policy, UnixSockets};
use crate::promise::{Entry, Mechanism, Promise, PromiseState};
use crate::support::Support;

/// Every promise that the policy makes.
pub(super) fn evaluate(policy: &Policy, support: &Support) -> Vec<Entry> {
    use Mechanism::{Cgroup, Docker, Seccomp};
    let mut out = ContainerEntries(Vec::new());
    let Some(containers) = &support.containers else {
        return out.0;
    };
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
    out.kept(Promise::KernelSettings, &[Docker]);
    let filtered = containers.filters();
    let unfiltered = "the engine applies no system call filters";
    if filtered && containers.own_program() {
        let reason = "but for the caller's own program, which confines what it starts";
        out.push(
            Promise::SetIdBits,
            PromiseState::Enforced,
            &[Seccomp],
            reason,
        );
    } else {
        out.kept_if(filtered, Promise::SetIdBits, &[Seccomp], unfiltered);
    }
    match policy.network() {
        // VSOCK is not part of a network namespace.
        Network::Denied | Network::Loopback => {
            out.kept_if(filtered, Promise::Network, &[Docker, Seccomp], unfiltered);
        }
        Network::Hosts(_) => out.push(
            Promise::Network,
            PromiseState::Absent,
            &[],
            "no mechanism can enforce a list of hosts yet; turn the network off or on as a whole",
        ),
        Network::Unrestricted => {}
    }
    match policy.unix_sockets() {
        // The plan has closed those of its own.
        UnixSockets::Closed | UnixSockets::Own => {
            out.kept_if(filtered, Promise::UnixSockets, &[Seccomp], unfiltered);
        }
        UnixSockets::Named(_) => out.push(
            Promise::UnixSockets,
            PromiseState::Absent,
            &[],
            "named sockets are not offered in a container; all are closed",
        ),
        UnixSockets::Open => {}
    }
    for promise in [
        Promise::Descriptors,
        Promise::Environment,
        Promise::Signals,
        Promise::Tracing,
    ] {
        out.kept(promise, &[Docker]);
    }
    for promise in [Promise::Terminal, Promise::KernelSurface] {
        out.kept_if(filtered, promise, &[Docker, Seccomp], unfiltered);
    }
    out.push(
        Promise::Survivors,
        PromiseState::Detected,
        &[Docker],
        "if the caller is killed, what does not end with its input is ended by the next start",
    );

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
            "those that are there at the start cannot be read; what appears while it runs is the \
             command's own, and what somebody else replaces meanwhile is told",
        );
    }
    for promise in [Promise::Metadata, Promise::ProcessList, Promise::Devices] {
        out.kept(promise, &[Docker]);
    }
    let bounds = containers.bounds(policy.limits());
    if bounds.memory_bytes.is_some() {
        out.kept_if(
            containers.limits_memory(),
            Promise::MemoryLimit,
            &[Docker, Cgroup],
            "the engine cannot limit memory on its host",
        );
    }
    if bounds.processes.is_some() {
        out.kept_if(
            containers.limits_processes(),
            Promise::ProcessLimit,
            &[Docker, Cgroup],
            "the engine cannot limit processes on its host",
        );
    }
    out.0
}

struct ContainerEntries(Vec<Entry>);

impl ContainerEntries {
    fn kept(&mut self, promise: Promise, by: &[Mechanism]) {
        self.push(promise, PromiseState::Enforced, by, "");
    }

    fn kept_if(&mut self, kept: bool, promise: Promise, by: &[Mechanism], otherwise: &str) {
        if kept {
            self.kept(promise, by);
        } else {
            self.push(promise, PromiseState::Absent, &[], otherwise);
        }
    }

    /// Something to know about the last entry that does not change its state.
    fn remark(&mut self, text: &str) {
        if let Some(entry) = self.0.last_mut() {
            entry.reason = Some(text.to_owned());
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
