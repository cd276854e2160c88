//! The directories of a command, and what follows from them alone.

use super::super::guards::state_place;
use super::super::host_mount::HostMount;
use super::super::landlock::private::ScratchDir;
use super::super::landlock::ruleset;
use super::super::mount_layer::inside_paths;
use super::super::wire;
use super::confinement::internet_rule;
use super::limits::limits;
use super::loopback_proxy::LoopbackProxy;
use super::message::Run;
use super::sockets::ConnectorSpec;
use super::view::{MountView, call_places};
use crate::command::{Command, Session};
use crate::error::Error;
use crate::plan::Plan;
use crate::policy::{DEFAULT_PATH, MountPlacement, Policy};
use crate::sandbox::Sandbox;
use crate::scratch::Scratch;
use crate::seccomp::InternetSocketRule;
use crate::seccomp::WatchRule;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The directories of a command.
pub(super) struct CommandPlaces {
    pub(super) mounts: Vec<HostMount>,
    /// Its home and temporary directories on this host, if it has no root directory of its own.
    pub(super) private: Option<Arc<ScratchDir>>,
    /// The private directory has links to the mounts: none of them is the root.
    pub(super) links: bool,
}

impl CommandPlaces {
    pub(super) fn new(
        command: &Command,
        mounts: Vec<HostMount>,
        is_probe: bool,
    ) -> Result<CommandPlaces, Error> {
        let plan = command.plan();
        let is_root = |mount: &HostMount| mount.place == MountPlacement::Root;
        let links = !mounts.iter().any(is_root);
        // birdcage shows every file at its path of the host.
        let private = match plan.backend().has_own_root() || plan.support().own_container {
            true => None,
            false => Some(private_dir(&command.sandbox, &mounts, links, is_probe)?),
        };
        Ok(CommandPlaces {
            mounts,
            private,
            links,
        })
    }

    /// Returns the program for the supervisor, its directory and its variables.
    pub(super) fn run(&self, command: &Command, proxy: Option<&LoopbackProxy>) -> Run {
        let plan = command.plan();
        let view = MountView {
            policy: plan.policy(),
            mounts: &self.mounts,
            private: self.private.as_deref(),
        };
        let (home, tmp) = match &self.private {
            Some(private) => (
                private.home().into_os_string(),
                private.tmp().into_os_string(),
            ),
            None => (inside_paths::HOME.into(), inside_paths::TMP.into()),
        };
        let url = proxy.map(LoopbackProxy::url);
        let variables = command.variables_with_proxy(&home, &tmp, url.as_deref());
        let path = variables
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or(DEFAULT_PATH.into());
        let mut run = Run {
            wall_ms: command.wall().map_or(0, milliseconds),
            grace_ms: command.grace.map_or(0, milliseconds),
            limits: limits(plan),
            directory: view
                .directory(command.cwd.as_deref())
                .into_os_string()
                .into_vec(),
            candidates: view.candidates(&command.program, &path),
            args: std::iter::once(&command.program)
                .chain(&command.args)
                .map(|arg| arg.as_bytes().to_vec())
                .collect(),
            env: variables
                .iter()
                .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
                .collect(),
            ..Run::default()
        };
        match command.session {
            Session::New => run.flags |= wire::FLAG_SETSID,
            Session::Inherit => {}
            Session::Terminal => {
                run.flags |= wire::FLAG_TERMINAL;
                if !plan.backend().has_own_root() {
                    run.terminal_rights = ruleset::terminal(plan.support().landlock_abi());
                }
            }
        }
        run
    }

    /// Returns the inputs of a connector, if the plan needs one: for sockets and addresses that are
    /// named, and for reports.
    pub(super) fn connector(
        &self,
        plan: &Plan,
        addresses: Vec<SocketAddr>,
        reports: bool,
        run: &mut Run,
    ) -> Result<Option<ConnectorSpec>, Error> {
        let asks = plan.judges_modes() || plan.watch_rule() == WatchRule::Notify;
        let places = asks.then(|| call_places(&self.mounts, self.private.as_deref()));
        if plan.connects().is_empty() && !reports && addresses.is_empty() {
            run.places = places.unwrap_or_default();
            return Ok(None);
        }
        run.flags |= wire::FLAG_CONNECT;
        let internet = internet_rule(plan) == InternetSocketRule::Allow;
        let spec = ConnectorSpec::new(plan.connects(), &self.mounts, internet, places)?;
        Ok(Some(spec.with_addresses(addresses)))
    }

    /// Returns `true` if a mount of the policy lies in another one.
    pub(super) fn has_nested_mounts(&self, policy: &Policy) -> bool {
        let of_policy = &self.mounts[..policy.mounts().len().min(self.mounts.len())];
        let is_in = |one: &HostMount, other: &HostMount| {
            one.host != other.host && one.host.starts_with(&other.host)
        };
        (of_policy.iter()).any(|one| of_policy.iter().any(|other| is_in(one, other)))
    }
}

fn private_dir(
    sandbox: &Sandbox,
    mounts: &[HostMount],
    links: bool,
    is_probe: bool,
) -> Result<Arc<ScratchDir>, Error> {
    let plan = sandbox.plan();
    let wanted: Vec<(String, PathBuf)> = plan
        .policy()
        .mounts()
        .iter()
        .zip(mounts)
        .filter(|_| links)
        .filter_map(|(mount, real)| Some((mount.in_work()?.to_owned(), real.host.clone())))
        .collect();
    let create = || match is_probe {
        // A probe leaves nothing in the home directory.
        true => Scratch::create_for_probe(),
        // Another command may have the temporary directory as a mount that it can write.
        false => Scratch::create_in_state(&state_place(sandbox.directories().state(), mounts)?),
    };
    if plan.policy().leaves() {
        sandbox.pool().share(&wanted, create)
    } else {
        sandbox.pool().take(&wanted, create)
    }
}

/// Converts a duration. Never 0, which would disable the limit.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}
