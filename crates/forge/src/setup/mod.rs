//! The common setup of several commands: the sources of the configuration, the project, a worker
//! and its grant, the approver.

pub(crate) mod authorities;
pub(crate) mod command_dir;
pub(crate) mod contact_patterns;
pub(crate) mod engine;
pub(crate) mod home_dir;
pub(crate) mod host_programs;
pub(crate) mod host_rules;
pub(crate) mod keys;
pub(crate) mod offered_tools;
pub(crate) mod parent_proxy;
pub(crate) mod presets;
pub(crate) mod program_dirs;
pub(crate) mod provider_client;
pub(crate) mod repositories;
mod running_commands;
pub(crate) mod start_dir;
pub(crate) mod target;

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forge_runtime::{EquipError, Extras, Isolation, OsSandbox, RepositorySource, equip};
use forge_tools::{
    Approver, AutoApprove, Caller, HostApprover, NoApprover, NoRecord, Recorder, Toolbox,
};
use os_sandbox::{
    Directories, Entry, NamedHosts, Network, Plan, Policy, Promise, Requirement, Support, Survivors,
};
use sandbox_config::{
    ConfigChoice, DiagnosticCode, Grant, NetworkAccess, PresetRights, PrivilegedSetting, Project,
    Sources, TrustedSettings, WithoutDirectories, Worker, load,
};
use sandbox_names::hex;
use sandbox_network::Host;
use sha2::{Digest as _, Sha256};

use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::{ApprovalFlags, ApproveAll, ApproverName, Global};
use crate::commands::project::trust;
use crate::exit::{CliError, ExitKind};
use crate::output::escape::shell_word;
use crate::output::prompt::TerminalApprover;
use crate::output::stderr;
use crate::queue::{Queue, WhenUnattended};
use crate::setup::host_programs::HostPrograms;
use crate::setup::host_rules::host_rule_writer;
use crate::setup::running_commands::WriterSearch;
use crate::signals::stop_signal;
use crate::state::trust_store::TrustStore;

/// Time limit for the end of abandoned work.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Time limit for the end of commands after their callers have ended.
pub(crate) const SETTLED_WITHIN: Duration = Duration::from_secs(45);

/// Returns the mechanisms of this host, with the probes that the user's cache lists as passed.
pub(crate) fn host_support() -> Support {
    Support::detect_cached(&Directories::user())
}

/// The way in which commands on a host are held to a list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedHostAccess {
    /// Every program reaches them.
    EveryProgram,
    /// Programs that use the proxy variables reach them.
    ByProxyVariables,
    /// Every command is refused.
    Refused,
}

/// Returns the way in which commands on this host can be held to a list of hosts.
pub(crate) fn named_host_access(support: &Support) -> NamedHostAccess {
    let hosts = Network::Hosts(NamedHosts::new(["example.com:443"]).port(443));
    let policy = Policy::builder().network(hosts).build();
    let plan = policy.map(|policy| Plan::new(&policy, support, Requirement::Enforce));
    match plan {
        Ok(Ok(plan)) if plan.needs_proxy_variables() => NamedHostAccess::ByProxyVariables,
        Ok(Ok(_)) => NamedHostAccess::EveryProgram,
        Ok(Err(_)) | Err(_) => NamedHostAccess::Refused,
    }
}

/// Returns a sentence about the list of hosts and the published ports of a grant, unless every
/// program reaches them on this host: every command is refused, or only programs that use a proxy
/// reach them.
pub(crate) fn host_list_remark(grant: &Grant) -> Option<String> {
    let publishes = !grant.published_ports().is_empty();
    if !publishes && !matches!(grant.network(), NetworkAccess::Hosts(_)) {
        return None;
    }
    let policy = grant.policy_as_written().ok()?;
    match Plan::new(&policy, &host_support(), grant.requirement()) {
        Ok(plan) => plan
            .needs_proxy_variables()
            .then(|| PROXY_VARIABLES_ONLY.to_owned()),
        Err(error) => {
            let reason = forge_runtime::hosts_not_kept(&policy, &error)?;
            Some(format!("every command is refused: {reason}"))
        }
    }
}

/// Returns a sentence about `sandbox.survivors: left` of a grant, if commands of this host end with
/// all their processes anyway.
pub(crate) fn survivors_remark(grant: &Grant) -> Option<String> {
    let policy = grant.policy_as_written().ok()?;
    let plan = Plan::new(&policy, &host_support(), grant.requirement()).ok()?;
    ends_survivors(&plan)
}

/// Returns the sentence of [`survivors_remark`] for a planned command.
pub(crate) fn ends_survivors(plan: &Plan) -> Option<String> {
    let ended = |entry: &&Entry| entry.promise == Promise::Survivors && !entry.is_gap();
    let is_left = plan.policy().survivors() == Survivors::Left;
    plan.entries().iter().find(ended).filter(|_| is_left)?;
    Some(format!(
        "`sandbox.survivors: left` has no effect with {}: every process ends with its command",
        plan.backend()
    ))
}

/// The remark about named hosts under Landlock alone.
const PROXY_VARIABLES_ONLY: &str = "without namespaces only programs that use the proxy variables \
                                    reach the named hosts; forge connects them";

/// Returns what makes a host that the grant allows by name reachable on this host, or what does not.
/// `None` if the grant does not name it and no person may be asked about it.
pub(crate) fn host_note(grant: &Grant, name: &str, port: u16) -> Option<String> {
    let NetworkAccess::Hosts(rules) = grant.network() else {
        return None;
    };
    let remark = host_list_remark(grant);
    let is_by_proxy = remark.as_deref() == Some(PROXY_VARIABLES_ONLY);
    if remark.is_some() && !is_by_proxy {
        return remark;
    }
    if !grant.network().allows(name, port) {
        let host = Host::parse(name).ok()?;
        let is_asked = grant.askable_hosts().contains(&host, port);
        return is_asked.then(|| {
            "a command that reaches for it asks a person who can answer; `forge exec` does with \
             --ask-hosts"
                .to_owned()
        });
    }
    if is_by_proxy {
        return remark;
    }
    let is_address = name.parse::<IpAddr>().is_ok() || name == "localhost";
    Some(match is_address || rules.ports().contains(&port) {
        true => "commands reach the named hosts only; forge connects them".to_owned(),
        false => format!(
            "only programs that use the proxy variables reach port {port}; a pattern with the \
             port is for all programs: `{name}:{port}`"
        ),
    })
}

/// Loads the project that the flags and the working directory name.
pub(crate) fn project(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
) -> Result<Project, CliError> {
    project_with_presets(
        ambient,
        start,
        without_directories,
        &PresetRights::default(),
    )
}

/// Loads the project with the rights of presets beside its own.
pub(crate) fn project_with_presets(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
    presets: &PresetRights,
) -> Result<Project, CliError> {
    let load = |start| silently(ambient, start, without_directories, presets);
    let project = match load(start.clone()) {
        Err(failure)
            if failure.is_untrusted()
                && ambient.reason_not_to_ask(ambient.global.no_input).is_none() =>
        {
            if !trust::ask_now(ambient, start.clone(), without_directories)? {
                return Err(failure);
            }
            load(start)?
        }
        loaded => loaded?,
    };
    trust_empty_directories(&project, ambient)?;
    if !ambient.global.quiet {
        warn(&project, ambient);
    }
    Ok(project)
}

/// Remembers directories that were empty: files that workers write there later need no trust.
fn trust_empty_directories(project: &Project, ambient: &Ambient) -> Result<(), CliError> {
    let new = project
        .empty_places()
        .iter()
        .filter(|key| !key.is_trusted());
    let new: Vec<String> = new.map(|key| key.hash().to_owned()).collect();
    match &ambient.state {
        Some(state) if !new.is_empty() => {
            TrustStore::in_state(state).change(|known| known.extend(new))
        }
        _ => Ok(()),
    }
}

/// Loads the project; the caller prints the warnings.
pub(crate) fn project_silently(
    ambient: &Ambient,
    without_directories: WithoutDirectories,
) -> Result<Project, CliError> {
    let no_presets = PresetRights::default();
    silently(ambient, None, without_directories, &no_presets)
}

/// Loads the project without the restrictions of the user's file; `None` without such a file. For
/// explanations.
pub(crate) fn project_alone(
    ambient: &Ambient,
    presets: PresetRights,
) -> Result<Option<Project>, CliError> {
    if !ambient.user_file.as_deref().is_some_and(Path::exists) {
        return Ok(None);
    }
    let trust = trust(ambient)?;
    let mut sources = sources(ambient, None, WithoutDirectories::DefaultZones, trust)?;
    sources.user_file = None;
    sources.presets = presets;
    Ok(Some(load(&sources)?))
}

/// Describes the tools of a directory without a project file, for those who expect its files there.
pub(crate) fn describe_missing_project(ambient: &Ambient) -> Option<String> {
    let project = project_silently(ambient, WithoutDirectories::DefaultZones).ok()?;
    let how = match home_dir::describe(project.dir(), ambient.home.as_deref()) {
        Some(_) => "go to a project, or name it: -C DIR",
        None => "`forge init` writes one",
    };
    project.file().is_none().then(|| {
        format!(
            "this directory has no project file: tools see two empty directories below .sandbox, \
             and not its files; {how}"
        )
    })
}

/// Returns the directory of the project, even if it cannot be loaded.
pub(crate) fn project_dir(ambient: &Ambient) -> Result<PathBuf, CliError> {
    Ok(sandbox_config::project_dir(&place(ambient)?)?)
}

/// Returns the file of the project, even if it cannot be loaded.
pub(crate) fn project_file(ambient: &Ambient) -> Result<Option<PathBuf>, CliError> {
    Ok(sandbox_config::project_file(&place(ambient)?)?)
}

fn place(ambient: &Ambient) -> Result<Sources, CliError> {
    let trust = TrustedSettings::Store(BTreeSet::new());
    sources(ambient, None, WithoutDirectories::DefaultZones, trust)
}

/// Loads the project, or its directory as one without a file if the file has mistakes.
pub(crate) fn project_or_directory(
    ambient: &Ambient,
    without_directories: WithoutDirectories,
) -> Result<Project, CliError> {
    let failure = match project(ambient, None, without_directories) {
        Err(failure) if failure.is_of_file() => failure,
        loaded => return loaded,
    };
    let mut sources = sources(ambient, None, without_directories, trust(ambient)?)?;
    sources.start = sandbox_config::project_dir(&sources)?;
    sources.choice = ConfigChoice::None;
    let Ok(project) = load(&sources) else {
        return Err(failure);
    };
    stderr::print(format_args!(
        "warning: the project file has mistakes, so this is about {} as if there were none: forge check",
        crate::output::escape::escape_path(project.dir())
    ));
    Ok(project)
}

fn trust(ambient: &Ambient) -> Result<TrustedSettings, CliError> {
    Ok(match (&ambient.state, ambient.global.trust) {
        (_, true) => TrustedSettings::Given,
        (Some(state), false) => TrustedSettings::Store(TrustStore::in_state(state).read()?),
        (None, false) => TrustedSettings::Store(BTreeSet::new()),
    })
}

/// Loads the project with the rights of presets beside its own, without questions and warnings.
pub(crate) fn silently(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
    presets: &PresetRights,
) -> Result<Project, CliError> {
    let trust = trust(ambient)?;
    let mut sources = sources(ambient, start, without_directories, trust)?;
    sources.presets = presets.clone();
    load(&sources).map_err(|problems| home_dir::explain(problems, &sources))
}

/// Loads the project with the given trust, and without warnings.
pub(crate) fn project_trusting(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
    trust: TrustedSettings,
) -> Result<Project, CliError> {
    Ok(load(&sources(ambient, start, without_directories, trust)?)?)
}

fn sources(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
    trust: TrustedSettings,
) -> Result<Sources, CliError> {
    let mut overrides = Vec::new();
    for pair in &ambient.global.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CliError::usage(format!("-c {pair}: expected KEY=VALUE")));
        };
        overrides.push((key.to_owned(), value.to_owned()));
    }
    if let Some(root) = &ambient.global.sandbox_root {
        // Always a string: `--sandbox-root 1` is a directory.
        overrides.push(("sandbox.root".to_owned(), json!(root).to_string()));
    }
    let base = ambient
        .global
        .directory
        .clone()
        .unwrap_or_else(|| PathBuf::from("."));
    let start = match start {
        Some(start) => base.join(start),
        None => base,
    };
    let named = ambient
        .global
        .config
        .clone()
        .or_else(|| ambient.path("FORGE_CONFIG"));
    let choice = match (ambient.global.no_config, named) {
        (true, _) => ConfigChoice::None,
        (false, Some(file)) => ConfigChoice::File(file),
        (false, None) => ConfigChoice::Discover,
    };
    let mut sources = Sources::new(start);
    sources.choice = choice;
    sources.overrides = overrides;
    sources.env = ambient.env.clone();
    sources.home = ambient.home.clone();
    sources.user_file = ambient.user_file.clone();
    sources.personal_rules = ambient.personal_rules();
    sources.without_directories = without_directories;
    sources.trust = trust;
    let of_git = forge_git::tools::NAMES.map(str::to_owned);
    sources.known_tools = Some([forge_tools::tools::names(), of_git.to_vec()].concat());
    sources.schema_check = Some(forge_runtime::schema_mistakes);
    sources.repository_check = Some(repositories::address);
    sources.writer_check = Some(Arc::new(WriterSearch::new(ambient)));
    sources.out_of_reach = ambient.out_of_reach();
    sources.own_presets = presets::own_directory(ambient);
    Ok(sources)
}

/// Warns of untrusted settings: in full the first time, then in one line.
fn warn(project: &Project, ambient: &Ambient) {
    let ignored: Vec<&PrivilegedSetting> = project
        .privileged_settings()
        .iter()
        .filter(|key| !key.is_trusted())
        .collect();
    let briefly =
        !ignored.is_empty() && ambient.global.verbose == 0 && were_warned_of(&ignored, ambient);
    for warning in project.warnings() {
        if !(briefly && warning.code() == DiagnosticCode::Untrusted) {
            stderr::print(crate::output::escape::escape_lines(&warning.to_string()));
        }
    }
    if briefly {
        let keys: Vec<&str> = ignored.iter().map(|key| key.key()).collect();
        let keys = crate::output::escape::escape(&keys.join(", "));
        stderr::print(format_args!(
            "warning: you have not agreed to {keys}: see `forge trust`"
        ));
    }
}

/// `true` if the person was warned of exactly these keys before. With an unreadable store every
/// warning is repeated.
fn were_warned_of(keys: &[&PrivilegedSetting], ambient: &Ambient) -> bool {
    let Some(state) = &ambient.state else {
        return false;
    };
    let mut hash = Sha256::new();
    for key in keys {
        hash.update(key.hash());
    }
    let hash = hex(hash.finalize());
    let store = TrustStore::of_warnings(state);
    if store.read().is_ok_and(|told| told.contains(&hash)) {
        return true;
    }
    let _ = store.change(|told| {
        told.insert(hash);
    });
    false
}

/// Returns a worker and its grant: the named one, else the entry worker, else (in a project without
/// one) no worker and the whole ceiling.
pub(crate) fn tool_owner(
    project: &Project,
    name: Option<&str>,
) -> Result<(Option<Worker>, Grant), CliError> {
    let worker = match name {
        Some(name) => Some(project.worker(name)?),
        None => project
            .workers()?
            .into_iter()
            .find(|worker| worker.name() == project.entry()),
    };
    match worker {
        Some(worker) => {
            let grant = entry_grant(project, &worker)?;
            Ok((Some(worker), grant))
        }
        None => Ok((None, project.ceiling().clone())),
    }
}

/// Returns the grant of an entry worker.
pub(crate) fn entry_grant(project: &Project, worker: &Worker) -> Result<Grant, CliError> {
    project
        .entry_grant(worker)
        .map_err(|escalation| CliError::misuse("worker.exceeds_parent", escalation.for_person()))
}

/// Returns the approver, and the confinement of commands.
pub(crate) fn approver(
    approval: &ApprovalFlags,
    ambient: &Ambient,
    project: &Project,
) -> Arc<dyn Approver> {
    let all = match approval.approve {
        Some(ApproveAll::All) => true,
        None => approval.yes,
    };
    if all {
        return Arc::new(if approval.no_os_sandbox {
            AutoApprove::even_unconfined()
        } else {
            AutoApprove::confined()
        });
    }
    let approval_timeout = approval_timeout(project);
    let queue = |absent| {
        let place = ambient.queue(project.dir());
        Arc::new(Queue::new(
            place,
            approval_timeout,
            absent,
            ambient.global.quiet,
        ))
    };
    match approval.approver {
        Some(ApproverName::Host) => return Arc::new(HostApprover),
        Some(ApproverName::Queue) => return queue(WhenUnattended::Wait),
        None => {}
    }
    match ambient.reason_not_to_ask(ambient.global.no_input) {
        Some(reason) if ambient.no_questions(ambient.global.no_input) => {
            Arc::new(NoApprover::because(reason))
        }
        // An approver that watches the queue is there on purpose.
        Some(reason) => queue(WhenUnattended::Refuse(format!(
            "{reason}, and nobody watches with `forge approve --watch`"
        ))),
        None => {
            let command = (!ambient.global.quiet).then(|| command_for(project.dir(), "allow"));
            Arc::new(TerminalApprover::new(
                approval_timeout,
                ambient.colour,
                command,
                host_rule_writer(project, ambient),
            ))
        }
    }
}

/// Fails if no person can be asked. `subject` follows "asked".
pub(crate) fn require_person(ambient: &Ambient, subject: &str, hint: &str) -> Result<(), CliError> {
    match ambient.reason_not_to_ask(ambient.global.no_input) {
        None => Ok(()),
        Some(reason) => {
            let text = format!("nobody can be asked{subject}: {reason}");
            let error = CliError::new(ExitKind::Unanswered, "approval.unanswered", text);
            Err(error.hint(hint))
        }
    }
}

/// Longer than any name, number or list of numbers.
const MAX_ANSWER_BYTES: u64 = 1_024;

/// Asks a person, and reads a line from standard input; empty at its end. `?` prints the explanation
/// of the answers, and the question again.
pub(crate) fn ask_line(question: &str, explanation: &str) -> Result<String, CliError> {
    loop {
        let answer = read_answer(question)?;
        if answer != "?" {
            return Ok(answer);
        }
        stderr::print(explanation);
    }
}

fn read_answer(question: &str) -> Result<String, CliError> {
    let failed = |error: std::io::Error| CliError::negative("terminal", error.to_string());
    let mut screen = std::io::stderr().lock();
    let written = write!(screen, "{question}").and_then(|()| screen.flush());
    written.map_err(failed)?;
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(MAX_ANSWER_BYTES);
    input.read_line(&mut line).map_err(failed)?;
    if input.limit() == 0 {
        return Err(CliError::negative("terminal", "the answer is too long"));
    }
    Ok(line.trim().to_owned())
}

/// Returns a command of forge for this project, as it is typed here.
pub(crate) fn command_for(project: &Path, command: &str) -> String {
    let real = |path: &Path| path.canonicalize().ok();
    let here = std::env::current_dir().ok().and_then(|here| real(&here));
    let is_inside = here
        .zip(real(project))
        .is_some_and(|(here, project)| here.starts_with(project));
    match is_inside {
        true => format!("forge {command}"),
        false => {
            let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
            let project = shell_word(&project.to_string_lossy());
            format!("forge -C {project} {command}")
        }
    }
}

/// Returns the time limit of a question.
pub(crate) fn approval_timeout(project: &Project) -> Duration {
    Duration::from_secs(project.ceiling().approval().timeout_s())
}

/// Returns the confinement of commands and the source of containers.
pub(crate) fn isolation(
    no_os_sandbox: bool,
    parent_proxy: bool,
    programs: &HostPrograms,
    ambient: &Ambient,
) -> Result<Isolation, CliError> {
    Ok(Isolation {
        os: match no_os_sandbox {
            true => OsSandbox::Off,
            false => OsSandbox::when_needed(),
        },
        docker: engine::docker(ambient, programs),
        // A project says which.
        repositories: RepositorySource::default(),
        parent_proxy: match parent_proxy {
            true => Some(parent_proxy::from_environment(ambient)?),
            false => None,
        },
    })
}

/// The toolbox of `grant`, which is of `project`, alone: no workers to call.
pub(crate) fn toolbox(
    ambient: &Ambient,
    project: &Project,
    grant: &Grant,
    caller: Caller,
    isolation: &Isolation,
    approver: Arc<dyn Approver>,
    recorder: Option<Arc<dyn Recorder>>,
) -> Result<Toolbox, CliError> {
    let recorder = recorder.unwrap_or_else(|| Arc::new(NoRecord));
    let isolation = Isolation {
        repositories: repositories::repositories(project, ambient)?,
        ..isolation.clone()
    };
    let equipped = equip(
        grant,
        caller,
        &isolation,
        approver,
        recorder,
        ambient.redactor(&repositories::secrets_of(project, ambient)),
        Extras::default(),
    )
    .map_err(not_equipped)?;
    print_warnings(&ambient.global, &equipped.warnings);
    Ok(equipped.toolbox)
}

/// Prints the warnings about a worker's setup.
pub(crate) fn print_warnings(global: &Global, warnings: &[String]) {
    for warning in warnings.iter().filter(|_| !global.quiet) {
        stderr::print(format_args!(
            "warning: {}",
            crate::output::escape::escape_lines(warning)
        ));
    }
}

pub(crate) fn not_equipped(error: EquipError) -> CliError {
    let message = error.to_string();
    match error {
        EquipError::Isolation { hint, .. } | EquipError::Container { hint, .. } => {
            let failure = CliError::new(ExitKind::Isolation, "isolation.unavailable", message);
            failure.maybe_hint(hint)
        }
        EquipError::Grant(error) => CliError::negative("mount.unavailable", error.for_person()),
        EquipError::Repositories(none) => {
            let failure = CliError::negative("git", message);
            failure.maybe_hint(none.hint)
        }
        EquipError::Tools(_) => CliError::misuse("config.tool_name", message),
    }
}

/// Runs `work` until it ends or forge is told to stop.
pub(crate) fn until_stopped<F: Future>(work: F) -> Result<F::Output, CliError> {
    block_on(async {
        tokio::select! {
            // Listens before the work begins, which may not wait for anything for a while.
            biased;
            failure = stop_signal() => Err(failure),
            output = work => Ok(output),
        }
    })?
}

/// Runs `work` to its end. On a signal `stop` is called, which ends it soon; then the result
/// carries the signal as well.
pub(crate) fn run_until_stopped<F: Future>(
    work: F,
    stop: impl FnOnce(),
) -> Result<(F::Output, Option<CliError>), CliError> {
    block_on(async {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            // Listens before the work begins, which may not wait for anything for a while.
            biased;
            failure = stop_signal() => {
                stop();
                (work.await, Some(failure))
            }
            output = &mut work => (output, None),
        }
    })
}

/// Runs one future to its end on a runtime of our own.
fn block_on<F: Future>(work: F) -> Result<F::Output, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::negative("runtime", error.to_string()))?;
    let output = runtime.block_on(work);
    // Calls still under way are dropped here, and record themselves. A blocking read
    // of the terminal must not hold up our exit.
    runtime.shutdown_timeout(SHUTDOWN);
    let settled = forge_tools::settle_calls(SETTLED_WITHIN);
    stderr::print_few("quarantined", &settled.quarantined, "forge quarantine list");
    if settled.unended > 0 {
        let (count, limit) = (settled.unended, SETTLED_WITHIN.as_secs());
        stderr::print(format!(
            "warning: {count} commands did not end within {limit} seconds; the names that they \
             created are not quarantined"
        ));
    }
    Ok(output)
}
