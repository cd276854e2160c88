//! The confinement of a command by its plan: flags of the launcher, ruleset, and filter of system
//! calls.

use super::super::landlock::ruleset::{self, LandlockRuleset};
use super::super::wire;
use super::message::Run;
use super::observe::observed_calls;
use super::places::CommandPlaces;
use super::sockets;
use crate::backend::Starter;
use crate::command::{Command, Session};
use crate::error::{Error, ErrorKind};
use crate::plan::Plan;
use crate::policy::{Network, UnixSockets};
use crate::seccomp::{self, Arch, InternetSocketRule, UnixSocketRule};
use nix::unistd::geteuid;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sets the confinement of the plan's mechanism. Returns the ruleset.
pub(super) fn confine(
    command: &Command,
    places: &CommandPlaces,
    run: &mut Run,
) -> Result<Option<Arc<LandlockRuleset>>, Error> {
    let plan = command.plan();
    let (policy, backend) = (plan.policy(), plan.backend());
    let abi = plan.support().landlock_abi();
    let mut ruleset = None;
    if !backend.properties().confines {
        run.flags |= wire::FLAG_UNCONFINED;
    } else {
        if plan.support().seccomp() {
            run.filter = filter(command)?;
        }
        if abi > 0 {
            ruleset = Some(rules(command, places)?);
            run.flags |= wire::FLAG_RULESET;
        }
    }
    if plan.support().own_container {
        run.flags |= wire::FLAG_VICTIM;
    }
    if backend.has_own_root() {
        in_own_root(plan, places, run);
    } else if backend.has_mount_layer() {
        run.flags |= wire::FLAG_DEVICE_LINKS;
        if abi > 0 {
            run.rules = ruleset::inside_birdcage(policy, abi);
        }
        // birdcage's own process is the first of its namespace; it ends with ours.
        if abi >= 6 {
            run.flags |= wire::FLAG_SCOPE;
        }
    } else if policy.leaves() {
        run.flags |= wire::FLAG_ALONE;
    } else if backend.properties().confines && abi >= 6 {
        run.flags |= wire::FLAG_SCOPE;
    }
    Ok(ruleset)
}

/// The launcher is the first process of the command's namespaces.
fn in_own_root(plan: &Plan, places: &CommandPlaces, run: &mut Run) {
    let (policy, abi) = (plan.policy(), plan.support().landlock_abi());
    run.flags |= wire::FLAG_PID1;
    if plan.backend().properties().starter == Starter::Launcher {
        run.flags |= wire::FLAG_OWN_MOUNTS;
    }
    if plan.has_unreachable_hosts() {
        run.flags |= wire::FLAG_COUNT_UNREACHABLE;
    }
    if places.has_nested_mounts(policy) {
        run.flags |= wire::FLAG_PARTS;
    }
    if abi > 0 {
        run.rules = ruleset::inside(policy, &places.mounts, abi, places.links);
    }
}

fn rules(command: &Command, places: &CommandPlaces) -> Result<Arc<LandlockRuleset>, Error> {
    let plan = command.plan();
    let private = places.private.as_deref();
    let [home, tmp, work] = match private {
        Some(private) => [private.home(), private.tmp(), private.work()].map(Some),
        None => [None, None, None],
    };
    let own: Vec<&Path> = [&home, &tmp]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let listed: Vec<&Path> = work
        .iter()
        .filter(|_| places.links)
        .map(PathBuf::as_path)
        .collect();
    let image = match plan.support().own_container && !plan.backend().has_mount_layer() {
        true => Some(ruleset::image(plan.policy())?),
        false => None,
    };
    let wanted = ruleset::RulesetSpec {
        policy: plan.policy(),
        abi: plan.support().landlock_abi(),
        mounts: &places.mounts,
        private: &own,
        listed: &listed,
        host_etc: private.is_some(),
        host_proc: !plan.backend().has_mount_layer(),
        own_loopback: plan.has_loopback(),
        image: image.as_deref(),
    };
    match private {
        // The launcher adds a rule for the terminal, which the next command does not have.
        Some(private) if wanted.host_proc && command.session != Session::Terminal => {
            private.rules(&wanted)
        }
        // The first process inside adds further rules, so it needs a separate ruleset.
        _ => LandlockRuleset::build(&wanted).map(Arc::new),
    }
}

fn filter(command: &Command) -> Result<Vec<u8>, Error> {
    let plan = command.plan();
    let policy = plan.policy();
    let none = || ErrorKind::Enforcement.error("no filter for this machine");
    let wanted = seccomp::FilterSpec {
        arch: Arch::native().ok_or_else(none)?,
        internet: internet_rule(plan),
        unix: match policy.unix_sockets() {
            UnixSockets::Closed => UnixSocketRule::Deny,
            UnixSockets::Own if sockets::in_system(policy).is_some() => UnixSocketRule::Deny,
            // Never more than the policy asked for: sockets without a connector are closed.
            UnixSockets::Named(_) if plan.connects().is_empty() => UnixSocketRule::Deny,
            UnixSockets::Named(_) => UnixSocketRule::Notify,
            UnixSockets::Own | UnixSockets::Open => UnixSocketRule::Allow,
        },
        // A container of our own has no files of others.
        freeze_metadata: plan.backend().shares_host()
            && geteuid().is_root()
            && !plan.support().own_container,
        shared_host: plan.backend().shares_host(),
        shared_group: command.session == Session::Inherit && plan.support().landlock_abi() < 6,
        tracing: plan.allows_own_tracing(),
        ask_modes: plan.judges_modes(),
        watches: plan.watch_rule(),
        supervisor_is_first: plan.backend().has_own_root(),
        observed: observed_calls(plan, command.reports),
    };
    command.sandbox.pool().filter(wanted).ok_or_else(none)
}

/// Returns the rule for internet sockets.
pub(super) fn internet_rule(plan: &Plan) -> InternetSocketRule {
    match plan.policy().network() {
        Network::Denied | Network::Loopback | Network::Hosts(_) if plan.has_loopback() => {
            // Inside its own namespace only.
            InternetSocketRule::Allow
        }
        Network::Hosts(_) if plan.needs_proxy_variables() => InternetSocketRule::Notify,
        Network::Denied | Network::Loopback | Network::Hosts(_) => InternetSocketRule::Deny,
        Network::Unrestricted => InternetSocketRule::Allow,
    }
}
