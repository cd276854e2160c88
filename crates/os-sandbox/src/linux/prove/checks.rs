//! Meaning of each check of the probe, and its expected result under a plan. `launcher/probe.rs`
//! runs the checks; `launcher/wire.rs` lists them, and a new one does not build before it has its
//! line here.

use super::super::wire::{self, ProbeCheck};
use crate::plan::Plan;
use crate::policy::{Network, UnixSockets};
use crate::promise::{Promise, PromiseState};
use crate::proof::{Expected, Observation, ProofCheck};

/// Returns the action that a check tries, in words that follow "it could".
pub(super) fn name(one: ProbeCheck) -> &'static str {
    match one {
        ProbeCheck::Descriptors => "see a descriptor not meant for it",
        ProbeCheck::ReadOutside => "read a file outside",
        ProbeCheck::ListOutside => "list a directory outside",
        ProbeCheck::WriteOutside => "write to a file outside",
        ProbeCheck::CreateOutside => "create a file outside",
        ProbeCheck::TruncateOutside => "empty a file outside",
        ProbeCheck::DeleteOutside => "delete a file outside",
        ProbeCheck::ExecuteOutside => "start a program outside",
        ProbeCheck::WriteReadOnly => "write in a read-only mount",
        ProbeCheck::WriteNarrower => "write in a read-only part of a mount",
        ProbeCheck::WriteMount => "write in a writable mount",
        ProbeCheck::WriteTmp => "write in TMPDIR",
        ProbeCheck::StartProgram => "start a program",
        ProbeCheck::KernelSetting => "open a kernel setting for writing",
        ProbeCheck::SysSetting => "open a file of /sys for writing",
        ProbeCheck::Sysrq => "open /proc/sysrq-trigger",
        ProbeCheck::SetId => "set a set-id bit",
        ProbeCheck::Inet => "make an internet socket",
        ProbeCheck::Inet6 => "make an IPv6 socket",
        ProbeCheck::Mptcp => "make a multipath TCP socket",
        ProbeCheck::Vsock => "make a socket to the hypervisor",
        ProbeCheck::Netlink => "make a netlink socket",
        ProbeCheck::Connect => "connect to its caller's loopback",
        ProbeCheck::Unix => "make a local socket",
        ProbeCheck::UnixPair => "make a pair of datagram sockets",
        ProbeCheck::NamedSocket => "connect to a named socket",
        ProbeCheck::OtherSocket => "connect to a socket that is not named",
        ProbeCheck::Signal => "signal its caller",
        ProbeCheck::Memory => "read its caller's memory",
        ProbeCheck::Environ => "read its caller's environment",
        ProbeCheck::Variables => "see a variable not meant for it",
        ProbeCheck::TerminalInput => "push terminal input",
        ProbeCheck::IoUring => "set up io_uring",
        ProbeCheck::UserNamespace => "make a user namespace",
        ProbeCheck::Mount => "mount a file system",
        ProbeCheck::KernelPrograms => "use bpf, perf or keyrings",
        ProbeCheck::Capabilities => "keep capabilities",
        ProbeCheck::NewPrivileges => "gain privileges",
        ProbeCheck::ProtectedName => "change a protected name",
        ProbeCheck::MoveProtected => "move a protected name away",
        ProbeCheck::HiddenName => "read a hidden file",
        ProbeCheck::HiddenDirectory => "list a hidden directory",
        ProbeCheck::Metadata => "change a mode outside",
        ProbeCheck::Process => "see its caller in /proc",
        ProbeCheck::Survivor => "leave a process behind",
    }
}

pub(super) fn promise(one: ProbeCheck) -> Promise {
    match one {
        ProbeCheck::Descriptors => Promise::Descriptors,
        ProbeCheck::ReadOutside | ProbeCheck::ListOutside => Promise::ReadOutside,
        ProbeCheck::WriteOutside
        | ProbeCheck::CreateOutside
        | ProbeCheck::TruncateOutside
        | ProbeCheck::DeleteOutside
        | ProbeCheck::WriteReadOnly
        | ProbeCheck::WriteMount
        | ProbeCheck::WriteTmp => Promise::WriteOutside,
        ProbeCheck::ExecuteOutside | ProbeCheck::StartProgram => Promise::ExecuteOutside,
        ProbeCheck::WriteNarrower => Promise::NarrowerInside,
        ProbeCheck::KernelSetting | ProbeCheck::SysSetting | ProbeCheck::Sysrq => {
            Promise::KernelSettings
        }
        ProbeCheck::SetId => Promise::SetIdBits,
        ProbeCheck::Inet
        | ProbeCheck::Inet6
        | ProbeCheck::Mptcp
        | ProbeCheck::Vsock
        | ProbeCheck::Netlink
        | ProbeCheck::Connect => Promise::Network,
        ProbeCheck::Unix
        | ProbeCheck::UnixPair
        | ProbeCheck::NamedSocket
        | ProbeCheck::OtherSocket => Promise::UnixSockets,
        ProbeCheck::Signal => Promise::Signals,
        ProbeCheck::Memory | ProbeCheck::Environ => Promise::Tracing,
        ProbeCheck::Variables => Promise::Environment,
        ProbeCheck::TerminalInput => Promise::Terminal,
        ProbeCheck::IoUring
        | ProbeCheck::UserNamespace
        | ProbeCheck::Mount
        | ProbeCheck::KernelPrograms
        | ProbeCheck::Capabilities
        | ProbeCheck::NewPrivileges => Promise::KernelSurface,
        ProbeCheck::ProtectedName | ProbeCheck::MoveProtected => Promise::ProtectedNames,
        ProbeCheck::HiddenName | ProbeCheck::HiddenDirectory => Promise::HiddenNames,
        ProbeCheck::Metadata => Promise::Metadata,
        ProbeCheck::Process => Promise::ProcessList,
        ProbeCheck::Survivor => Promise::Survivors,
    }
}

/// Returns the expected result under this plan; `None` if the policy says nothing about it.
pub(super) fn expected(one: ProbeCheck, plan: &Plan) -> Option<Expected> {
    let policy = plan.policy();
    match one {
        ProbeCheck::WriteMount | ProbeCheck::WriteTmp | ProbeCheck::StartProgram => {
            Some(Expected::Allowed)
        }
        // A socket without any peer, because it is alone in its namespace, is nevertheless a
        // socket.
        ProbeCheck::Inet => match policy.network() {
            Network::Denied if !plan.has_loopback() => promised(one, plan),
            Network::Denied | Network::Loopback | Network::Hosts(_) => {
                Some(match promised(one, plan)? {
                    Expected::Refused | Expected::Allowed => Expected::Allowed,
                    Expected::Listed => Expected::Listed,
                })
            }
            Network::Unrestricted => Some(Expected::Allowed),
        },
        ProbeCheck::Inet6 => match policy.network() {
            Network::Denied if !plan.has_loopback() => promised(one, plan),
            // A kernel may lack them.
            Network::Denied | Network::Loopback | Network::Hosts(_) | Network::Unrestricted => None,
        },
        ProbeCheck::Unix => match policy.unix_sockets() {
            UnixSockets::Closed => promised(one, plan),
            // Without a connector all are closed, and the promise is listed.
            UnixSockets::Named(_) if plan.connects().is_empty() => promised(one, plan),
            UnixSockets::Named(_) | UnixSockets::Own | UnixSockets::Open => Some(Expected::Allowed),
        },
        ProbeCheck::UnixPair if policy.unix_sockets() == &UnixSockets::Own => {
            Some(Expected::Allowed)
        }
        ProbeCheck::NamedSocket => (!plan.connects().is_empty()).then_some(Expected::Allowed),
        ProbeCheck::OtherSocket
            if plan.connects().is_empty() && policy.unix_sockets() != &UnixSockets::Own =>
        {
            None
        }
        ProbeCheck::Descriptors
        | ProbeCheck::ReadOutside
        | ProbeCheck::ListOutside
        | ProbeCheck::WriteOutside
        | ProbeCheck::CreateOutside
        | ProbeCheck::TruncateOutside
        | ProbeCheck::DeleteOutside
        | ProbeCheck::ExecuteOutside
        | ProbeCheck::WriteReadOnly
        | ProbeCheck::WriteNarrower
        | ProbeCheck::KernelSetting
        | ProbeCheck::SysSetting
        | ProbeCheck::Sysrq
        | ProbeCheck::SetId
        | ProbeCheck::Mptcp
        | ProbeCheck::Vsock
        | ProbeCheck::Netlink
        | ProbeCheck::Connect
        | ProbeCheck::UnixPair
        | ProbeCheck::OtherSocket
        | ProbeCheck::Signal
        | ProbeCheck::Memory
        | ProbeCheck::Environ
        | ProbeCheck::Variables
        | ProbeCheck::TerminalInput
        | ProbeCheck::IoUring
        | ProbeCheck::UserNamespace
        | ProbeCheck::Mount
        | ProbeCheck::KernelPrograms
        | ProbeCheck::Capabilities
        | ProbeCheck::NewPrivileges
        | ProbeCheck::ProtectedName
        | ProbeCheck::MoveProtected
        | ProbeCheck::HiddenName
        | ProbeCheck::HiddenDirectory
        | ProbeCheck::Metadata
        | ProbeCheck::Process
        | ProbeCheck::Survivor => promised(one, plan),
    }
}

fn promised(one: ProbeCheck, plan: &Plan) -> Option<Expected> {
    let promise = promise(one);
    let entry = plan
        .entries()
        .iter()
        .find(|entry| entry.promise == promise)?;
    // The gap about names concerns absent ones; the probe's names exist.
    let held =
        matches!(promise, Promise::ProtectedNames | Promise::HiddenNames) && !entry.by.is_empty();
    Some(match entry.state {
        PromiseState::Enforced | PromiseState::Detected => Expected::Refused,
        PromiseState::Degraded if held => Expected::Refused,
        PromiseState::Degraded | PromiseState::Absent => Expected::Listed,
    })
}

/// Converts an answer of the launcher into a check; `None` for an unknown number.
pub(super) fn check(plan: &Plan, number: i32, outcome: i32) -> Option<(ProbeCheck, ProofCheck)> {
    let one = ProbeCheck::ALL
        .into_iter()
        .find(|one| *one as i32 == number)?;
    let seen = match u8::try_from(outcome).ok()? {
        wire::OUTCOME_THROUGH => Observation::Worked,
        wire::OUTCOME_REFUSED => Observation::Refused,
        wire::OUTCOME_UNCLEAR => Observation::Unclear,
        _ => return None,
    };
    let expected = expected(one, plan)?;
    Some((
        one,
        ProofCheck::new(name(one), promise(one), expected, seen),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::plan::Requirement;
    use crate::policy::Policy;
    use crate::support::{HostSpec, Support};

    fn plan(landlock_abi: u32) -> Plan {
        let host = HostSpec {
            landlock_abi,
            seccomp: true,
            ..HostSpec::default()
        };
        let policy = Policy::builder().build().unwrap();
        let support = Support::assume(host);
        Plan::with_mechanism(
            &policy,
            &support,
            Requirement::BestEffort,
            Backend::Landlock,
        )
        .unwrap()
    }

    #[test]
    fn an_answer_can_speak_against_the_plan() {
        let of = |abi: u32, one: ProbeCheck, outcome: u8| {
            let (_, check) = check(&plan(abi), one as i32, outcome.into()).unwrap();
            (check.expected, check.ok)
        };
        let through = wire::OUTCOME_THROUGH;
        let refused = wire::OUTCOME_REFUSED;
        assert_eq!(
            of(7, ProbeCheck::ReadOutside, through),
            (Expected::Refused, false)
        );
        assert_eq!(
            of(7, ProbeCheck::ReadOutside, refused),
            (Expected::Refused, true)
        );
        assert_eq!(
            of(7, ProbeCheck::WriteTmp, refused),
            (Expected::Allowed, false)
        );
        assert_eq!(of(5, ProbeCheck::Signal, through), (Expected::Listed, true));
        assert_eq!(
            of(6, ProbeCheck::Signal, through),
            (Expected::Refused, false)
        );
        let unclear = wire::OUTCOME_UNCLEAR;
        assert_eq!(
            of(5, ProbeCheck::Signal, unclear),
            (Expected::Listed, false)
        );
        // Neither a check nor an outcome that the crate knows.
        assert!(check(&plan(7), 999, through.into()).is_none());
        assert!(check(&plan(7), ProbeCheck::ReadOutside as i32, 9).is_none());
    }

    #[test]
    fn each_try_is_listed_once_and_fits() {
        let mut bits = 0u64;
        let mut names = std::collections::BTreeSet::new();
        for one in ProbeCheck::ALL {
            assert_eq!(bits & (1 << one as u8), 0, "{one:?}");
            bits |= 1 << one as u8;
            assert!(names.insert(name(one)), "{one:?}");
        }
    }
}
