//! From a grant to a toolbox: the only place where a grant becomes files and processes.

use std::sync::Arc;
use std::time::Duration;

use file_sandbox::{FileSandbox, Mount};
use forge_tools::{
    ApprovedCall, Approver, BoxFuture, CallFailure, CallRunner, Caller, CommandRunner, CommandSpec,
    FailureCode, Processes, ProgramList, Recorder, Redactor, Reply, RunAnswers, RunningCommand,
    Tool, Toolbox, ToolboxBuilder, tools, with_asked_ports,
};
use os_sandbox::{
    Backend, HostSpec, Network, ParentProxySetting, Plan, PlanError, Policy, Rank, Requirement,
    Support,
};
use sandbox_config::{ExecutionMode, Grant, GrantError, MountOpener, ShellRules};

use crate::confinement::OsSandbox;
use crate::docker::{ContainerSource, NodeContainers, WorkerNodes};
use crate::gate::{GrantGate, IsolationAvailability};
use crate::repositories::{RepositoriesUnavailable, RepositorySource};

/// The isolation of calls.
///
/// ```
/// use forge_runtime::{Isolation, OsSandbox};
/// let isolation = Isolation::from(OsSandbox::when_needed());
/// # let _ = isolation;
/// ```
#[derive(Debug, Clone)]
pub struct Isolation {
    /// The confinement of commands on this host.
    pub os: OsSandbox,
    /// The source of containers.
    pub docker: ContainerSource,
    /// Access to repositories, under this sandbox.
    pub repositories: RepositorySource,
    /// The proxy through which commands on this host reach named hosts. A weaker promise than
    /// without: only a person asks for it.
    pub parent_proxy: Option<ParentProxySetting>,
}

impl From<OsSandbox> for Isolation {
    /// Without containers, repositories and a parent proxy.
    fn from(os: OsSandbox) -> Self {
        Isolation {
            os,
            docker: ContainerSource::default(),
            repositories: RepositorySource::default(),
            parent_proxy: None,
        }
    }
}

/// A toolbox, with its plan and its warnings for a person.
///
/// See [`equip`].
///
/// ```
/// fn warnings(equipped: &forge_runtime::WorkerEquipment) -> &[String] {
///     &equipped.warnings
/// }
/// ```
#[derive(Clone)]
pub struct WorkerEquipment {
    /// The tools.
    pub toolbox: Toolbox,
    /// The confinement of commands, if the worker can run any.
    pub plan: Option<Plan>,
    /// For people, at most one of each.
    pub warnings: Vec<String>,
}

/// Why a worker could not be equipped.
///
/// ```
/// fn is_isolation(error: &forge_runtime::EquipError) -> bool {
///     matches!(error, forge_runtime::EquipError::Isolation { .. })
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum EquipError {
    /// The policy requires an OS sandbox, and no mechanism of this host can enforce it.
    #[error("OS sandbox required but unavailable: {reason}")]
    Isolation {
        /// The missing prerequisite.
        reason: String,
        /// The remediation.
        hint: Option<String>,
    },
    /// A call requires a container, and none could be started.
    #[error("cannot start a container: {reason}")]
    Container {
        /// Why.
        reason: String,
        /// The remediation.
        hint: Option<String>,
    },
    /// The grant's directories could not be opened, or make no policy.
    #[error("{0}")]
    Grant(#[from] GrantError),
    /// The grant names a repository, and none can be reached.
    #[error("{0}")]
    Repositories(#[from] RepositoriesUnavailable),
    /// Two tools of one name.
    #[error("{0}")]
    Tools(#[from] forge_tools::ToolboxError),
}

/// Parts of a worker's equipment that do not come from its grant.
#[derive(Default)]
pub struct Extras {
    /// Workers to call, offered after the built-in tools.
    pub tools: Vec<Box<dyn Tool>>,
    /// Copies that its caller hands over.
    pub handed_over: Option<Mount>,
    /// Approvals for the rest of the run.
    pub answers: Arc<RunAnswers>,
    /// Opener of the mounted directories; `None` if they are on the host.
    pub open: Option<Arc<MountOpener>>,
}

/// Turns `grant` into a toolbox, with the extras from the worker's caller. One `redactor` for all
/// toolboxes of a run.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// use std::sync::Arc;
/// use forge_runtime::{Extras, Isolation, OsSandbox, equip};
/// use forge_tools::{Caller, NoRecord, NoApprover};
///
/// // Nothing is held, so nothing is offered.
/// let equipped = equip(
///     &sandbox_config::Grant::empty(),
///     Caller::new("pure"),
///     &Isolation::from(OsSandbox::Off),
///     Arc::new(NoApprover::because("this is an example")),
///     Arc::new(NoRecord),
///     Arc::default(),
///     Extras::default(),
/// )
/// .unwrap();
/// assert_eq!(equipped.toolbox.specs().count(), 0);
/// ```
///
/// # Errors
///
/// A required OS sandbox is missing, a directory of the grant cannot be opened, or
/// two tools have one name.
pub fn equip(
    grant: &Grant,
    caller: Caller,
    isolation: &Isolation,
    approver: Arc<dyn Approver>,
    recorder: Arc<dyn Recorder>,
    redactor: Arc<Redactor>,
    extras: Extras,
) -> Result<WorkerEquipment, EquipError> {
    let mut warnings = staged_mounts(grant);
    let files = match &extras.open {
        None => grant.files_beside(cap_std::ambient_authority(), extras.handed_over)?,
        Some(open) => grant.files_of(&**open, extras.handed_over)?,
    };
    // A command sees the host, and with it other files than the tools.
    let on_host = extras.open.is_none();
    let runs_commands = grant.shell().is_some() && on_host;
    let worker = WorkerSetup {
        grant,
        runs_commands,
        on_host,
        hosts: HostAccess {
            parent_proxy: isolation.parent_proxy.as_ref(),
            asks: approver.shows(),
        },
    };
    let (site, availability) = ExecutionSite::choose(&worker, isolation, &mut warnings)?;
    let builder = Toolbox::builder()
        .caller(caller)
        .gate(GrantGate::new(grant.clone()).with_availability(availability))
        .timeout(seconds(grant, grant.limits().timeout_s_default()))
        .max_write_bytes(grant.limits().max_file_write_bytes())
        .shared_approver(approver)
        .shared_recorder(recorder)
        .shared_redactor(redactor)
        .shared_answers(extras.answers);
    let writable = files
        .as_ref()
        .map(|files| files.writable_roots())
        .unwrap_or_default();
    let (mut builder, processes, plan) =
        site.apply(&worker, files.as_ref(), builder, &mut warnings)?;
    if let Some(files) = files {
        builder = builder.files(files);
    }
    if let Some(processes) = processes.filter(|_| runs_commands) {
        builder = builder.processes(set_up_commands(processes, grant, writable));
    }
    let git = isolation.repositories.tools(grant, &isolation.os)?;
    for tool in git.into_iter().chain(extras.tools) {
        builder = builder.boxed_tool(tool);
    }
    Ok(WorkerEquipment {
        toolbox: builder.build()?,
        plan,
        warnings,
    })
}

/// Returns a warning for each mount whose changes wait for a review: its files are read-only here.
fn staged_mounts(grant: &Grant) -> Vec<String> {
    let staged = grant
        .mounts()
        .filter(|mount| mount.usable() && mount.is_staged());
    let read_only = |mount: &sandbox_config::Mount| {
        format!(
            "{} is `mode: staged`, so it is read-only here: `forge run` and `forge exec` keep changes \
             for a review",
            mount.target()
        )
    };
    staged.map(read_only).collect()
}

/// Applies the grant's settings of commands.
fn set_up_commands(processes: Processes, grant: &Grant, writable: Vec<String>) -> Processes {
    let has_network = *grant.network() != sandbox_config::NetworkAccess::Denied;
    let processes = processes
        .programs(programs(grant))
        .askable_hosts(grant.askable_hosts().clone())
        .notes(writable, has_network)
        .default_timeout(seconds(grant, grant.limits().timeout_s_default()))
        .max_timeout(seconds(grant, grant.limits().timeout_s_max()));
    match grant.environment().session() {
        true => processes.session(),
        false => processes,
    }
}

/// Returns the time limit of one call: at most that of the run, also if the run is otherwise
/// unlimited (as for an MCP client).
fn seconds(grant: &Grant, limit: u64) -> Duration {
    Duration::from_secs(limit.min(grant.limits().max_wall_s().unwrap_or(u64::MAX)))
}

/// The facts about a worker that decide where its calls run.
struct WorkerSetup<'a> {
    grant: &'a Grant,
    /// `true` if it can run commands.
    runs_commands: bool,
    on_host: bool,
    /// The hosts that its commands can reach beside those of the grant.
    hosts: HostAccess<'a>,
}

impl WorkerSetup<'_> {
    /// Plans the confinement on this host.
    fn plan(
        &self,
        isolation: &Isolation,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Plan>, EquipError> {
        match self.runs_commands || self.grant.require_os_sandbox() {
            true => confine(self.grant, isolation, &self.hosts, warnings).map(Some),
            false => Ok(None),
        }
    }
}

/// The place where a worker's calls run if they do not run in this process.
enum ExecutionSite {
    /// On this host; with a plan if the worker can run commands.
    ThisHost(Option<Plan>),
    /// In containers.
    Docker(NodeContainers),
    /// In containers, which are unavailable.
    NoRunner,
}

impl ExecutionSite {
    /// Chooses the site by the table that also decides single calls, from the facts known now.
    fn choose(
        worker: &WorkerSetup<'_>,
        isolation: &Isolation,
        warnings: &mut Vec<String>,
    ) -> Result<(Self, IsolationAvailability), EquipError> {
        let execution = worker.grant.execution();
        let mode = execution.mode();
        let tries_docker = match mode {
            ExecutionMode::LocalOnly => false,
            ExecutionMode::PreferLocal | ExecutionMode::PreferDocker => worker.runs_commands,
            ExecutionMode::DockerRequired => worker.on_host,
        };
        if !tries_docker {
            let plan = worker.plan(isolation, warnings)?;
            return Ok((
                ExecutionSite::ThisHost(plan),
                IsolationAvailability::default(),
            ));
        }
        let mut local_warnings = Vec::new();
        let planned = (mode == ExecutionMode::PreferLocal)
            .then(|| worker.plan(isolation, &mut local_warnings));
        let is_confined = match &planned {
            Some(Ok(Some(plan))) => plan.backend() != Backend::None,
            _ => false,
        };
        let docker = match execution.without_docker() {
            // The table says it in its own words.
            Some(why) => Err(why.to_owned()),
            None if is_confined && execution.uses_os() => Err("it was not looked for".to_owned()),
            None => isolation.docker.probe(execution.docker()).map_err(|why| {
                let text = why.with_remediation();
                warnings.push(format!("no container can be started: {text}"));
                text
            }),
        };
        let availability = IsolationAvailability {
            os: (docker.is_ok() && mode == ExecutionMode::PreferLocal).then_some(false),
            docker: docker.as_ref().map(drop).map_err(Clone::clone),
        };
        let site = match docker {
            Ok(containers) => ExecutionSite::Docker(containers),
            Err(_) if mode == ExecutionMode::DockerRequired => ExecutionSite::NoRunner,
            Err(_) => {
                warnings.extend(local_warnings);
                ExecutionSite::ThisHost(match planned {
                    Some(plan) => plan?,
                    None => worker.plan(isolation, warnings)?,
                })
            }
        };
        Ok((site, availability))
    }

    /// Makes the calls of a toolbox run here. Returns the runner of commands, and its plan.
    fn apply(
        self,
        worker: &WorkerSetup<'_>,
        files: Option<&FileSandbox>,
        mut builder: ToolboxBuilder,
        warnings: &mut Vec<String>,
    ) -> Result<(ToolboxBuilder, Option<Processes>, Option<Plan>), EquipError> {
        let grant = worker.grant;
        Ok(match self {
            ExecutionSite::ThisHost(plan) => (builder, plan.clone().map(Processes::new), plan),
            ExecutionSite::Docker(docker) => {
                let nodes =
                    WorkerNodes::of(&docker, grant, files, worker.runs_commands, &worker.hosts)?;
                nodes.check_reuse()?;
                warnings.extend(describe_parent_proxy(nodes.plan().policy()));
                if grant.execution().mode() == ExecutionMode::DockerRequired {
                    builder = nodes.files(builder);
                }
                (builder, Some(nodes.processes()), Some(nodes.plan().clone()))
            }
            ExecutionSite::NoRunner => {
                let processes = Processes::started_by(NoRunner, grant.policy()?);
                (builder.runner(NoRunner), Some(processes), None)
            }
        })
    }
}

/// Runner for calls that must run in containers while none are available. The gate refuses such
/// calls before; this runner does not execute them in any case.
#[derive(Debug)]
struct NoRunner;

impl NoRunner {
    fn refused() -> CallFailure {
        FailureCode::IsolationUnavailable
            .failure("The isolation that this call needs is not available; nothing was done.")
    }
}

impl CallRunner for NoRunner {
    fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>> {
        // Calls of a called worker are placed one by one, `read_output` reads from this process,
        // and forge itself talks to repositories.
        let name = &call.spec().name;
        match name == "read_output" || !tools::names().contains(name) {
            true => call.run(),
            false => Box::pin(async { Err(NoRunner::refused()) }),
        }
    }
}

impl CommandRunner for NoRunner {
    fn place(&self) -> &'static str {
        "docker"
    }

    fn is_confined(&self) -> bool {
        true
    }

    fn start(&self, _: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure> {
        Err(NoRunner::refused())
    }
}

/// Returns the remark about hosts that are reached through a parent proxy.
///
/// ```
/// use os_sandbox::{NamedHosts, Network, ParentProxySetting, Policy};
/// let hosts = Network::Hosts(NamedHosts::new(["example.com"]).port(443));
/// let policy = Policy::builder().network(hosts).build()?;
/// assert_eq!(forge_runtime::describe_parent_proxy(&policy), None);
/// let url = "http://me:secret@proxy.example.org:3128";
/// let parent = ParentProxySetting::new("proxy.example.org:3128", url, "");
/// let told = forge_runtime::describe_parent_proxy(&policy.with_parent_proxy(parent)).unwrap();
/// assert!(told.contains("proxy.example.org:3128") && !told.contains("secret"));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
pub fn describe_parent_proxy(policy: &Policy) -> Option<String> {
    let Network::Hosts(hosts) = policy.network() else {
        return None;
    };
    let address = hosts.parent()?.address();
    Some(format!(
        "hosts are reached through the parent proxy {address}, which resolves their names: private \
         addresses behind them are not refused"
    ))
}

/// The facts about named hosts that are not part of a grant.
pub(crate) struct HostAccess<'a> {
    /// The proxy outside through which hosts are reached.
    pub(crate) parent_proxy: Option<&'a ParentProxySetting>,
    /// `true` if a person may be asked about other hosts.
    pub(crate) asks: bool,
}

impl HostAccess<'_> {
    /// Returns the policy of a grant with these facts.
    pub(crate) fn apply(&self, policy: Policy) -> Policy {
        let policy = match self.asks {
            true => with_asked_ports(policy),
            false => policy,
        };
        match self.parent_proxy {
            Some(parent) => policy.with_parent_proxy(parent.clone()),
            None => policy,
        }
    }
}

fn confine(
    grant: &Grant,
    isolation: &Isolation,
    hosts: &HostAccess<'_>,
    warnings: &mut Vec<String>,
) -> Result<Plan, EquipError> {
    let policy = hosts.apply(grant.policy()?);
    let Some(support) = isolation.os.support() else {
        if grant.require_os_sandbox() {
            return Err(EquipError::Isolation {
                reason: "the project requires it, and --no-os-sandbox turns it off".to_owned(),
                hint: None,
            });
        }
        warnings.push("OS sandbox turned off, application-level only".to_owned());
        return unconfined(&policy);
    };
    let planned = Plan::new(&policy, support, grant.requirement());
    let missing = match planned {
        Ok(plan) => {
            warnings.extend(plan.fallback());
            warnings.extend(describe_parent_proxy(plan.policy()));
            return Ok(plan);
        }
        Err(error) => error,
    };
    // Without confinement a list of hosts would turn into every host, and a published port into a
    // command that is not confined where one without the port is.
    let list_of_hosts = hosts_not_kept(&policy, &missing);
    let names_network =
        matches!(policy.network(), Network::Hosts(_)) || !policy.published_ports().is_empty();
    if grant.require_os_sandbox() || names_network {
        return Err(EquipError::Isolation {
            reason: missing.to_string(),
            hint: Some(list_of_hosts.map_or_else(|| missing.hint(), str::to_owned)),
        });
    }
    warnings.push("OS sandbox unavailable, application-level only".to_owned());
    unconfined(&policy)
}

/// Returns `shell.allow` and `shell.deny` of all levels from the project down.
///
/// ```
/// let grant = sandbox_config::Grant::empty();
/// assert!(forge_runtime::programs(&grant).is_empty());
/// ```
pub fn programs(grant: &Grant) -> Vec<ProgramList> {
    let lists = grant.shell().into_iter().flat_map(ShellRules::programs);
    lists
        .map(|programs| ProgramList {
            allow: programs.allow().map(<[String]>::to_vec),
            deny: programs.deny().to_vec(),
            allow_at: programs.allow_at().map(ToString::to_string),
            deny_at: programs.deny_at().map(ToString::to_string),
        })
        .collect()
}

const PORTS_NOT_PUBLISHED: &str = "let commands run on this host with namespaces, or install bubblewrap \
    (`forge doctor` says what is missing), or publish no port: for one run \
    `-c network.loopback_in=[]`";

/// Returns the remediation for a plan with a list of hosts or published ports that failed because a
/// boundary is open, that of the network or another one; `None` of other plans, and if only an overlay
/// is missing.
///
/// ```
/// use os_sandbox::{HostSpec, NamedHosts, Network, Plan, Policy, Requirement, Support};
/// // Landlock 5 keeps the list, and no signals.
/// let refused = |network: Network| {
///     let policy = Policy::builder().network(network).build().unwrap();
///     let host = HostSpec { landlock_abi: 5, seccomp: true, connector: true, ..HostSpec::default() };
///     let host = Support::assume(host);
///     let error = Plan::new(&policy, &host, Requirement::Enforce).err()?;
///     forge_runtime::hosts_not_kept(&policy, &error)
/// };
/// assert!(refused(Network::Hosts(NamedHosts::new(["example.com"]))).unwrap().contains("network: false"));
/// assert_eq!(refused(Network::Denied), None);
/// ```
pub fn hosts_not_kept(policy: &os_sandbox::Policy, error: &PlanError) -> Option<&'static str> {
    let of_network = |gap: &os_sandbox::Entry| gap.promise == os_sandbox::Promise::Network;
    if !policy.published_ports().is_empty() && error.gaps().iter().any(of_network) {
        return Some(PORTS_NOT_PUBLISHED);
    }
    let listed = matches!(policy.network(), Network::Hosts(_));
    // Without the list, changes would not be kept apart either.
    let of_list = |gap: &os_sandbox::Entry| {
        gap.promise.rank() == Rank::Boundary && gap.promise != os_sandbox::Promise::OverlayWrites
    };
    if !listed || !error.gaps().iter().any(of_list) {
        return None;
    }
    Some(match error.backend() {
        Backend::Docker => {
            "use an engine of this machine, which is reached by its local socket, let commands run \
             on this host (`execution.mode: local_only`), choose `network: false` or \
             `network: true`, or for one run `-c network=false`"
        }
        Backend::Seatbelt => {
            "macOS holds no command to the hosts in `network.allow`: choose `network: false` or \
             `network: true`, or for one run `-c network=false`"
        }
        _ => {
            "nothing here holds a command to the hosts in `network.allow`: install bubblewrap, \
             choose `network: false` or `network: true`, or for one run `-c network=false`"
        }
    })
}

/// Returns a plan that enforces nothing and reports so: a person is asked about every command under
/// it (see the gate).
fn unconfined(policy: &os_sandbox::Policy) -> Result<Plan, EquipError> {
    Plan::with_mechanism(
        policy,
        &Support::assume(HostSpec::default()),
        Requirement::BestEffort,
        Backend::None,
    )
    .map_err(|error| EquipError::Isolation {
        reason: error.to_string(),
        hint: Some(error.hint()),
    })
}
