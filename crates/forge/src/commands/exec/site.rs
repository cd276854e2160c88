//! The place of a command: this host under a plan, or a container.

use std::path::Path;

use forge_runtime::NodeContainers;
use os_sandbox::{NamedHosts, Network, ParentProxySetting, Plan, Policy};
use sandbox_config::{
    ExecutionMode, ExtraDirs, Grant, Project, Risk, RunnerAvailability, RunnerChoice, RunnerKind,
    SharedState,
};

use super::exec_log::ExecLog;
use super::personal_git::PersonalGit;
use super::planning::plan;
use super::{ask_hosts, directory_inside};
use crate::cli::{ExecArgs, ReviewLayer};
use crate::commands::prelude::*;
use crate::commands::review_subject::ReviewSubject;
use crate::commands::reviewed::{self, ReviewedRun};
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::setup::presets::ActivePresets;
use crate::setup::{engine, parent_proxy};

/// The place of execution.
pub(super) enum ExecSite {
    /// On this host, under this plan, with the inputs of another plan.
    Here(Plan, Box<LocalContext>),
    /// In a container.
    Container(Box<ContainerContext>),
}

/// The engine for a command, its rights, and its working directory inside.
pub(super) struct ContainerContext {
    pub(super) containers: NodeContainers,
    pub(super) grant: Grant,
    pub(super) directory: String,
    pub(super) parent_proxy: Option<ParentProxySetting>,
}

/// The rights of a command on this host, and its working directory.
pub(super) struct LocalContext {
    pub(super) grant: Grant,
    pub(super) policy: Policy,
    pub(super) directory: String,
    /// `None`: changes are made at once.
    pub(super) layer: Option<ReviewLayer>,
    pub(super) review: Option<ReviewedRun>,
}

/// A command that a person typed, and everything that has a say about its place.
pub(super) struct SiteRequest<'a> {
    pub(super) args: &'a ExecArgs,
    pub(super) project: &'a Project,
    pub(super) presets: Option<&'a ActivePresets>,
    pub(super) git: Option<&'a PersonalGit>,
    pub(super) log: &'a ExecLog,
    pub(super) ambient: &'a Ambient,
    /// The caller's directory.
    pub(super) here: &'a Path,
}

impl SiteRequest<'_> {
    /// Returns the place of execution and its confinement, and why it is that one.
    pub(super) fn choose(&self) -> Result<(ExecSite, String), CliError> {
        let local = self.local_context()?;
        let args = self.args;
        let execution = local.grant.execution();
        let mode = execution.mode();
        let planned = match mode {
            ExecutionMode::LocalOnly | ExecutionMode::PreferLocal => Some(local.plan(args)),
            ExecutionMode::PreferDocker | ExecutionMode::DockerRequired => None,
        };
        // A named mechanism is one of this host.
        let enough = planned.as_ref().is_some_and(Result::is_ok) || args.mechanism.is_some();
        let containers = find_containers(self.project, &local.grant, enough, self.ambient);
        // No question is asked: `--no-os-sandbox` is the answer.
        let usable = RunnerAvailability {
            os: !args.no_os_sandbox && !matches!(planned, Some(Err(_))),
            docker: containers.is_ok(),
            interactive: args.no_os_sandbox,
        };
        let why_not = containers.as_ref().err().map_or("", |(why, _)| why);
        let (choice, why) = execution.select_knowing(Risk::Exec, usable, why_not);
        let only_here = execution.without_docker().is_some();
        match (choice, containers) {
            (RunnerChoice::Run(RunnerKind::Docker), _) if local.review.is_some() => {
                Err(not_reviewed_there())
            }
            (RunnerChoice::Run(RunnerKind::Docker), Ok(containers)) => {
                let context = self.container_context(local, containers)?;
                Ok((ExecSite::Container(Box::new(context)), why))
            }
            (
                RunnerChoice::Run(RunnerKind::Local) | RunnerChoice::Confirm(RunnerKind::Local),
                _,
            ) => {
                let plan = planned.unwrap_or_else(|| local.plan(args))?;
                self.presets
                    .map_or(Ok(()), |presets| presets.check(&plan))?;
                Ok((ExecSite::Here(plan, Box::new(local)), why))
            }
            // The missing sandbox is the reason, in its own words.
            (RunnerChoice::Refuse, containers) => match planned {
                Some(Err(refused)) if only_here => Err(refused),
                Some(_) | None => Err(no_runner(mode, containers.err(), &why)),
            },
            (RunnerChoice::Run(_) | RunnerChoice::Confirm(_), containers) => {
                Err(no_runner(mode, containers.err(), &why))
            }
        }
    }

    /// Returns the rights of the command on this host, with the place of its changes.
    fn local_context(&self) -> Result<LocalContext, CliError> {
        let grant = self
            .log
            .dir()
            .mount_in_run(command_grant(self.args, self.project)?)?;
        let staged = grant
            .staged_dirs()
            .map_err(|error| unavailable(error.for_person()))?;
        let grant = grant.staged_in_overlays();
        let policy = self.policy(&grant)?;
        let directory = directory_inside(&policy, self.here)?;
        let reviews_all = self.args.review.is_some() || grant.confinement().reviews_changes();
        let is_reviewed = |host: &Path| match reviews_all {
            true => !self.presets.is_some_and(|presets| presets.has_dir(host)),
            false => staged.iter().any(|dir| host.starts_with(dir)),
        };
        let of_project = (reviews_all || !staged.is_empty()).then_some(ReviewLayer::Overlay);
        let layer = self.args.review.or(of_project);
        let (policy, review) = match layer {
            Some(layer) => {
                let subject = ReviewSubject {
                    run: self.log.dir().name(),
                    project: self.project,
                    command: self.log.words(),
                    limits: *grant.limits(),
                };
                reviewed::prepare(policy, layer, is_reviewed, subject, self.ambient)?
            }
            None => (policy, None),
        };
        Ok(LocalContext {
            grant,
            policy,
            directory,
            layer,
            review,
        })
    }

    /// Returns the directories of the command beside the project's mounts: those of its presets, of the
    /// person's settings of git, and of the person's rules.
    fn extra_dirs(&self) -> ExtraDirs {
        let mut dirs = self
            .presets
            .map_or_else(ExtraDirs::default, |presets| presets.dirs().clone());
        if let Some(urls) = self.presets.and_then(ActivePresets::urls) {
            dirs.state.push(SharedState {
                host: urls.dir().to_owned(),
                // Landlock lets a command write to a FIFO only where it may write. What it changes here,
                // it changes for itself.
                writable: true,
                executable: true,
                protect: Vec::new(),
            });
        }
        let authority = self.presets.and_then(ActivePresets::authority_dir);
        let settings = self.presets.and_then(ActivePresets::settings_dir);
        let git = self.git.map(PersonalGit::dir);
        let own = authority.into_iter().chain(settings).chain(git);
        dirs.state.extend(own.map(readable));
        // The directories of a worker are those that it holds.
        let own = match self.args.worker {
            Some(_) => &[],
            None => self.project.personal_dirs(),
        };
        for one in own {
            let is_known = dirs.state.iter().any(|state| state.host == one.host);
            if !is_known {
                dirs.state.push(SharedState {
                    writable: one.writable && !self.args.rights.read_only,
                    ..one.clone()
                });
            }
        }
        dirs
    }

    fn policy(&self, grant: &Grant) -> Result<Policy, CliError> {
        let mut policy = grant
            .policy_with_dirs(&self.extra_dirs())
            .map_err(|error| unavailable(error.for_person()))?
            .at_host_paths()
            .map_err(|error| unavailable(error.to_string()))?;
        // A resolver that answers makes the first refusal name the host.
        let is_off = matches!(policy.network(), Network::Denied | Network::Loopback);
        let names_hosts = is_off && self.presets.is_some_and(ActivePresets::has_registries);
        if self.args.ask_hosts {
            policy = ask_hosts::asking_policy(policy, grant.askable_hosts())?;
        } else if names_hosts {
            policy = ask_hosts::with_named_hosts(policy, NamedHosts::default())?;
        }
        if self.args.parent_proxy {
            policy = parent_proxy::through_parent(policy, self.ambient)?;
        }
        match self.presets {
            Some(presets) => presets.complete_policy(policy),
            None => Ok(policy),
        }
    }

    fn container_context(
        &self,
        local: LocalContext,
        containers: NodeContainers,
    ) -> Result<ContainerContext, CliError> {
        if self.args.worker.is_none() && !self.project.personal_dirs().is_empty() {
            stderr::print(
                "warning: directories of your own rules (`forge allow --list`) are for commands on \
                 this host, not in a container",
            );
        }
        let LocalContext { grant, policy, .. } = local;
        let of_mounts = grant
            .policy()
            .map_err(|error| unavailable(error.for_person()))?;
        Ok(ContainerContext {
            containers,
            directory: directory_inside(&of_mounts, self.here)?,
            parent_proxy: match policy.network() {
                Network::Hosts(hosts) => hosts.parent().cloned(),
                _ => None,
            },
            grant,
        })
    }
}

impl LocalContext {
    /// Plans the command, once more if the cached facts about this host were wrong.
    pub(super) fn plan(&self, args: &ExecArgs) -> Result<Plan, CliError> {
        plan(args, &self.grant, &self.policy, self.layer)
    }
}

fn unavailable(error: String) -> CliError {
    CliError::exec_refused("mount.unavailable", error)
}

/// Returns the refusal of an option that containers do not support.
pub(super) fn not_in_container(
    args: &ExecArgs,
    presets: Option<&ActivePresets>,
) -> Option<CliError> {
    if args.ask_hosts {
        return Some(ask_hosts::not_in_container());
    }
    let failure = CliError::exec_refused(
        "isolation.unavailable",
        "presets are for commands on this host, not in a container",
    );
    let hint = "run it on this host: --runner local";
    presets.map(|presets| {
        failure.hint(match presets.is_of_project() {
            true => format!("{hint}\nor without the presets of the project: -c sandbox.presets=[]"),
            false => hint.to_owned(),
        })
    })
}

/// Returns the refusal of `--review` in a container.
fn not_reviewed_there() -> CliError {
    CliError::exec_refused(
        "isolation.unavailable",
        "--review keeps changes of a command on this host apart, not in a container",
    )
    .hint("run it on this host: --runner local")
}

/// Returns a directory of forge's that the command reads.
fn readable(dir: &Path) -> SharedState {
    SharedState {
        host: dir.to_owned(),
        writable: false,
        executable: false,
        protect: Vec::new(),
    }
}

/// Returns the grant of the command.
fn command_grant(args: &ExecArgs, project: &Project) -> Result<Grant, CliError> {
    let grant: Grant = match &args.worker {
        // A person typed the command: without a worker it is the project's ceiling.
        None => project.ceiling().clone(),
        Some(name) => setup::entry_grant(project, &project.worker(name)?)?,
    };
    Ok(match args.rights.read_only {
        true => grant.read_only(),
        false => grant,
    })
}

/// Returns the container engine, or the reason for not using it and a hint. With `enough` it is
/// looked for only if the project requires it.
fn find_containers(
    project: &Project,
    grant: &Grant,
    enough: bool,
    ambient: &Ambient,
) -> Result<NodeContainers, (String, Option<String>)> {
    let execution = grant.execution();
    let unused = |why: &str| Err((why.to_owned(), None));
    match execution.without_docker() {
        Some(why) => unused(why),
        None if execution.mode() == ExecutionMode::LocalOnly => unused("it is not used"),
        None if enough && execution.uses_os() => unused("it was not looked for"),
        None => engine::docker(ambient, &HostPrograms::of_project(ambient, project))
            .probe(execution.docker())
            .map_err(|error| (error.to_string(), error.remediation().map(str::to_owned))),
    }
}

fn no_runner(
    mode: ExecutionMode,
    why_no_engine: Option<(String, Option<String>)>,
    why: &str,
) -> CliError {
    let hint = why_no_engine.and_then(|(_, hint)| hint);
    let hint = hint.unwrap_or_else(|| "run `forge doctor --docker`".to_owned());
    let hint = match mode {
        // A hint does not contradict the project's requirements.
        ExecutionMode::DockerRequired => hint,
        ExecutionMode::LocalOnly | ExecutionMode::PreferLocal | ExecutionMode::PreferDocker => {
            format!("{hint}\nto run it here, under the OS sandbox: -c execution.mode=prefer_local")
        }
    };
    CliError::exec_refused(
        "isolation.unavailable",
        format!("no runner is available for the command: {why}"),
    )
    .hint(hint)
}
