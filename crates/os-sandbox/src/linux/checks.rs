//! What each try of the probe is about, and what it must come to under a plan. The tries
//! themselves are `launcher/probe.rs`; their list is `launcher/wire.rs`, and one that is added there
//! does not build before it has its line here.

use super::wire::{self, Try};
use crate::plan::Plan;
use crate::policy::{Network, UnixSockets};
use crate::promise::{Promise, State};
use crate::proof::{Check, Expected, Seen};

/// What is tried, in words that follow "it could".
pub(super) fn name(one: Try) -> &'static str {
    match one {
        Try::Descriptors => "see a descriptor not meant for it",
        Try::ReadOutside => "read a file outside",
        Try::ListOutside => "list a directory outside",
        Try::WriteOutside => "write to a file outside",
        Try::CreateOutside => "create a file outside",
        Try::TruncateOutside => "empty a file outside",
        Try::DeleteOutside => "delete a file outside",
        Try::ExecuteOutside => "start a program outside",
        Try::WriteReadOnly => "write in a read-only mount",
        Try::WriteNarrower => "write in a read-only part of a mount",
        Try::WriteMount => "write in a writable mount",
        Try::WriteTmp => "write in TMPDIR",
        Try::StartProgram => "start a program",
        Try::KernelSetting => "open a kernel setting for writing",
        Try::SysSetting => "open a file of /sys for writing",
        Try::Sysrq => "open /proc/sysrq-trigger",
        Try::SetId => "set a set-id bit",
        Try::Inet => "make an internet socket",
        Try::Inet6 => "make an IPv6 socket",
        Try::Mptcp => "make a multipath TCP socket",
        Try::Vsock => "make a socket to the hypervisor",
        Try::Netlink => "make a netlink socket",
        Try::Connect => "connect to its caller's loopback",
        Try::Unix => "make a local socket",
        Try::UnixPair => "make a pair of datagram sockets",
        Try::NamedSocket => "connect to a named socket",
        Try::OtherSocket => "connect to a socket that is not named",
        Try::Signal => "signal its caller",
        Try::Memory => "read its caller's memory",
        Try::Environ => "read its caller's environment",
        Try::Variables => "see a variable not meant for it",
        Try::TerminalInput => "push terminal input",
        Try::IoUring => "set up io_uring",
        Try::UserNamespace => "make a user namespace",
        Try::Mount => "mount a file system",
        Try::KernelPrograms => "use bpf, perf or keyrings",
        Try::Capabilities => "keep capabilities",
        Try::NewPrivileges => "gain privileges",
        Try::ProtectedName => "change a protected name",
        Try::MoveProtected => "move a protected name away",
        Try::HiddenName => "read a hidden file",
        Try::HiddenDirectory => "list a hidden directory",
        Try::Metadata => "change a mode outside",
        Try::Process => "see its caller in /proc",
        Try::Survivor => "leave a process behind",
    }
}

pub(super) fn promise(one: Try) -> Promise {
    match one {
        Try::Descriptors => Promise::Descriptors,
        Try::ReadOutside | Try::ListOutside => Promise::ReadOutside,
        Try::WriteOutside
        | Try::CreateOutside
        | Try::TruncateOutside
        | Try::DeleteOutside
        | Try::WriteReadOnly
        | Try::WriteMount
        | Try::WriteTmp => Promise::WriteOutside,
        Try::ExecuteOutside | Try::StartProgram => Promise::ExecuteOutside,
        Try::WriteNarrower => Promise::NarrowerInside,
        Try::KernelSetting | Try::SysSetting | Try::Sysrq => Promise::KernelSettings,
        Try::SetId => Promise::SetIdBits,
        Try::Inet | Try::Inet6 | Try::Mptcp | Try::Vsock | Try::Netlink | Try::Connect => {
            Promise::Network
        }
        Try::Unix | Try::UnixPair | Try::NamedSocket | Try::OtherSocket => Promise::UnixSockets,
        Try::Signal => Promise::Signals,
        Try::Memory | Try::Environ => Promise::Tracing,
        Try::Variables => Promise::Environment,
        Try::TerminalInput => Promise::Terminal,
        Try::IoUring
        | Try::UserNamespace
        | Try::Mount
        | Try::KernelPrograms
        | Try::Capabilities
        | Try::NewPrivileges => Promise::KernelSurface,
        Try::ProtectedName | Try::MoveProtected => Promise::ProtectedNames,
        Try::HiddenName | Try::HiddenDirectory => Promise::HiddenNames,
        Try::Metadata => Promise::Metadata,
        Try::Process => Promise::ProcessList,
        Try::Survivor => Promise::Survivors,
    }
}

/// What must come of it under this plan; `None` if the policy says nothing about it.
pub(super) fn expected(one: Try, plan: &Plan) -> Option<Expected> {
    let policy = plan.policy();
    match one {
        Try::WriteMount | Try::WriteTmp | Try::StartProgram => Some(Expected::Allowed),
        // A socket that talks to nobody, because it is alone in its namespace, is one all the same.
        Try::Inet => match policy.network() {
            Network::Denied if !plan.has_loopback() => promised(one, plan),
            Network::Denied | Network::Loopback => Some(match promised(one, plan)? {
                Expected::Refused | Expected::Allowed => Expected::Allowed,
                Expected::Listed => Expected::Listed,
            }),
            Network::Unrestricted => Some(Expected::Allowed),
            Network::Hosts(_) => None,
        },
        Try::Inet6 => match policy.network() {
            Network::Denied if !plan.has_loopback() => promised(one, plan),
            // A kernel may have none.
            Network::Denied | Network::Loopback | Network::Hosts(_) | Network::Unrestricted => None,
        },
        Try::Unix => match policy.unix_sockets() {
            UnixSockets::Closed => promised(one, plan),
            // Without a connector all are closed, and the promise is listed.
            UnixSockets::Named(_) if plan.connects().is_empty() => promised(one, plan),
            UnixSockets::Named(_) | UnixSockets::Own | UnixSockets::Open => Some(Expected::Allowed),
        },
        Try::UnixPair if policy.unix_sockets() == &UnixSockets::Own => Some(Expected::Allowed),
        Try::NamedSocket => (!plan.connects().is_empty()).then_some(Expected::Allowed),
        Try::OtherSocket
            if plan.connects().is_empty() && policy.unix_sockets() != &UnixSockets::Own =>
        {
            None
        }
        Try::Descriptors
        | Try::ReadOutside
        | Try::ListOutside
        | Try::WriteOutside
        | Try::CreateOutside
        | Try::TruncateOutside
        | Try::DeleteOutside
        | Try::ExecuteOutside
        | Try::WriteReadOnly
        | Try::WriteNarrower
        | Try::KernelSetting
        | Try::SysSetting
        | Try::Sysrq
        | Try::SetId
        | Try::Mptcp
        | Try::Vsock
        | Try::Netlink
        | Try::Connect
        | Try::UnixPair
        | Try::OtherSocket
        | Try::Signal
        | Try::Memory
        | Try::Environ
        | Try::Variables
        | Try::TerminalInput
        | Try::IoUring
        | Try::UserNamespace
        | Try::Mount
        | Try::KernelPrograms
        | Try::Capabilities
        | Try::NewPrivileges
        | Try::ProtectedName
        | Try::MoveProtected
        | Try::HiddenName
        | Try::HiddenDirectory
        | Try::Metadata
        | Try::Process
        | Try::Survivor => promised(one, plan),
    }
}

fn promised(one: Try, plan: &Plan) -> Option<Expected> {
    let promise = promise(one);
    let entry = plan
        .entries()
        .iter()
        .find(|entry| entry.promise == promise)?;
    // What is open about names is those that are not there yet; the probe's are.
    let held =
        matches!(promise, Promise::ProtectedNames | Promise::HiddenNames) && !entry.by.is_empty();
    Some(match entry.state {
        State::Enforced | State::Detected => Expected::Refused,
        State::Degraded if held => Expected::Refused,
        State::Degraded | State::Absent => Expected::Listed,
    })
}

/// One answer of the launcher as a check; `None` if it is not one of ours.
pub(super) fn check(plan: &Plan, number: i32, outcome: i32) -> Option<(Try, Check)> {
    let one = Try::ALL.into_iter().find(|one| *one as i32 == number)?;
    let seen = match u8::try_from(outcome).ok()? {
        wire::OUTCOME_THROUGH => Seen::Worked,
        wire::OUTCOME_REFUSED => Seen::Refused,
        wire::OUTCOME_UNCLEAR => Seen::Unclear,
        _ => return None,
    };
    let expected = expected(one, plan)?;
    Some((one, Check::new(name(one), promise(one), expected, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Backend, Requirement};
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
        let of = |abi: u32, one: Try, outcome: u8| {
            let (_, check) = check(&plan(abi), one as i32, outcome.into()).unwrap();
            (check.expected, check.ok)
        };
        let through = wire::OUTCOME_THROUGH;
        let refused = wire::OUTCOME_REFUSED;
        assert_eq!(of(7, Try::ReadOutside, through), (Expected::Refused, false));
        assert_eq!(of(7, Try::ReadOutside, refused), (Expected::Refused, true));
        assert_eq!(of(7, Try::WriteTmp, refused), (Expected::Allowed, false));
        assert_eq!(of(5, Try::Signal, through), (Expected::Listed, true));
        assert_eq!(of(6, Try::Signal, through), (Expected::Refused, false));
        let unclear = wire::OUTCOME_UNCLEAR;
        assert_eq!(of(5, Try::Signal, unclear), (Expected::Listed, false));
        // Neither a try nor an outcome that we know.
        assert!(check(&plan(7), 999, through.into()).is_none());
        assert!(check(&plan(7), Try::ReadOutside as i32, 9).is_none());
    }

    #[test]
    fn each_try_is_listed_once_and_fits() {
        let mut bits = 0u64;
        let mut names = std::collections::BTreeSet::new();
        for one in Try::ALL {
            assert_eq!(bits & (1 << one as u8), 0, "{one:?}");
            bits |= 1 << one as u8;
            assert!(names.insert(name(one)), "{one:?}");
        }
    }
}
