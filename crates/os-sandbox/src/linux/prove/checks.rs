//! Meaning of each check of the probe, and its expected result under a plan. `launcher/probe.rs`
//! runs the checks; `launcher/wire.rs` lists them, and a new one does not build before it has its
//! line here.

use super::super::wire::{self, ProbeCheck};
use crate::plan::Plan;
use crate::policy::{Network, UnixSockets};
use crate::promise::{Promise, PromiseState};
use crate::proof::{Expected, Observation, ProofCheck};

/// Returns the action that a check tries, in words that follow "it could", and the promise that it
/// is about.
fn meaning(one: ProbeCheck) -> (&'static str, Promise) {
    match one {
        ProbeCheck::Descriptors => ("see a descriptor not meant for it", Promise::Descriptors),
        ProbeCheck::ReadOutside => ("read a file outside", Promise::ReadOutside),
        ProbeCheck::ListOutside => ("list a directory outside", Promise::ReadOutside),
        ProbeCheck::WriteOutside => ("write to a file outside", Promise::WriteOutside),
        ProbeCheck::CreateOutside => ("create a file outside", Promise::WriteOutside),
        ProbeCheck::TruncateOutside => ("empty a file outside", Promise::WriteOutside),
        ProbeCheck::DeleteOutside => ("delete a file outside", Promise::WriteOutside),
        ProbeCheck::ExecuteOutside => ("start a program outside", Promise::ExecuteOutside),
        ProbeCheck::WriteReadOnly => ("write in a read-only mount", Promise::WriteOutside),
        ProbeCheck::WriteNarrower => (
            "write in a read-only part of a mount",
            Promise::NarrowerInside,
        ),
        ProbeCheck::WriteMount => ("write in a writable mount", Promise::WriteOutside),
        ProbeCheck::WriteTmp => ("write in TMPDIR", Promise::WriteOutside),
        ProbeCheck::StartProgram => ("start a program", Promise::ExecuteOutside),
        ProbeCheck::KernelSetting => ("open a kernel setting for writing", Promise::KernelSettings),
        ProbeCheck::SysSetting => ("open a file of /sys for writing", Promise::KernelSettings),
        ProbeCheck::Sysrq => ("open /proc/sysrq-trigger", Promise::KernelSettings),
        ProbeCheck::SetId => ("set a set-id bit", Promise::SetIdBits),
        ProbeCheck::Inet => ("make an internet socket", Promise::Network),
        ProbeCheck::Inet6 => ("make an IPv6 socket", Promise::Network),
        ProbeCheck::Mptcp => ("make a multipath TCP socket", Promise::Network),
        ProbeCheck::Vsock => ("make a socket to the hypervisor", Promise::Network),
        ProbeCheck::Netlink => ("make a netlink socket", Promise::Network),
        ProbeCheck::Connect => ("connect to its caller's loopback", Promise::Network),
        ProbeCheck::Unix => ("make a local socket", Promise::UnixSockets),
        ProbeCheck::UnixPair => ("make a pair of datagram sockets", Promise::UnixSockets),
        ProbeCheck::NamedSocket => ("connect to a named socket", Promise::UnixSockets),
        ProbeCheck::OtherSocket => (
            "connect to a socket that is not named",
            Promise::UnixSockets,
        ),
        ProbeCheck::Signal => ("signal its caller", Promise::Signals),
        ProbeCheck::Memory => ("read its caller's memory", Promise::Tracing),
        ProbeCheck::Environ => ("read its caller's environment", Promise::Tracing),
        ProbeCheck::Variables => ("see a variable not meant for it", Promise::Environment),
        ProbeCheck::TerminalInput => ("push terminal input", Promise::Terminal),
        ProbeCheck::IoUring => ("set up io_uring", Promise::KernelSurface),
        ProbeCheck::UserNamespace => ("make a user namespace", Promise::KernelSurface),
        ProbeCheck::Mount => ("mount a file system", Promise::KernelSurface),
        ProbeCheck::KernelPrograms => ("use bpf, perf or keyrings", Promise::KernelSurface),
        ProbeCheck::Capabilities => ("keep capabilities", Promise::KernelSurface),
        ProbeCheck::NewPrivileges => ("gain privileges", Promise::KernelSurface),
        ProbeCheck::ProtectedName => ("change a protected name", Promise::ProtectedNames),
        ProbeCheck::MoveProtected => ("move a protected name away", Promise::ProtectedNames),
        ProbeCheck::HiddenName => ("read a hidden file", Promise::HiddenNames),
        ProbeCheck::HiddenDirectory => ("list a hidden directory", Promise::HiddenNames),
        ProbeCheck::Metadata => ("change a mode outside", Promise::Metadata),
        ProbeCheck::Process => ("see its caller in /proc", Promise::ProcessList),
        ProbeCheck::Survivor => ("leave a process behind", Promise::Survivors),
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
        _ => promised(one, plan),
    }
}

fn promised(one: ProbeCheck, plan: &Plan) -> Option<Expected> {
    let (_, promise) = meaning(one);
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
    Some((one, proof_check(one, expected, seen)))
}

/// Returns the check with its result.
pub(super) fn proof_check(one: ProbeCheck, expected: Expected, seen: Observation) -> ProofCheck {
    let (name, promise) = meaning(one);
    ProofCheck::new(name, promise, expected, seen)
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
            assert!(names.insert(meaning(one).0), "{one:?}");
        }
    }
}
