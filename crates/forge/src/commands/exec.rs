//! `forge exec`: one command, confined as the project says. The exit code is the
//! command's own.

mod ask_hosts;
mod command_builder;
mod container;
pub(crate) mod denials;
mod end_report;
mod exec_log;
mod identity;
mod identity_files;
mod json_report;
mod missing;
pub(crate) mod proposals;
mod receipt;
mod session_summary;
mod touched;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use file_sandbox::cap_std;
use forge_runtime::{NodeContainers, describe_parent_proxy, hosts_not_kept};
use os_sandbox::{
    Backend, Child, Error, ErrorKind, HostSpec, Network, ParentProxySetting, Plan, PlanError,
    Policy, Requirement, Support,
};
use rustix::fs::OFlags;
use sandbox_config::{
    ExecutionMode, ExtraDirs, Grant, Project, Risk, RunnerAvailability, RunnerChoice, RunnerKind,
    SharedState,
};

use crate::ambient::Ambient;
use crate::cli::{ExecArgs, Global, MechanismName, ReviewLayer, TraceReport};
use crate::commands::review_subject::ReviewSubject;
use crate::commands::reviewed::{self, ReviewedRun};
use crate::exit::{CliError, ExitKind};
use crate::output::stderr;
use crate::setup;
use crate::setup::presets::ActivePresets;
use crate::setup::{engine, parent_proxy, presets};
use crate::signals::{Interrupts, KillOnSignal};
use crate::terminal::{HeldStops, Relay};
use ask_hosts::CommandHostQuestions;
use command_builder::{CommandBuilder, unset};
use end_report::{CommandEnd, describe_limit, notes, print_quarantined};
use exec_log::{ExecLog, ExecOutcome};
use identity::CommitterQuestion;
use json_report::{CapturedOutput, as_json, as_text, report};
use missing::MissingProgram;
use receipt::Receipt;

const GAPS_REFUSE: &str = "without `require: guards` these gaps are listed and do not refuse";
const IN_A_COPY: &str = "or make the changes in a copy of the project: --review=copy";
const CHANGES_AT_ONCE: &str = "without `--review`, `sandbox.review: true` and `mode: staged` it changes \
                               the project at once";

pub(crate) fn run(
    global: &Global,
    args: &ExecArgs,
    ambient: &Ambient,
) -> Result<ExitKind, CliError> {
    check_trace(args)?;
    let committer = caller_directory(global).map(|here| CommitterQuestion::ask(here, ambient));
    // Any failure before the command runs is 125, a mistake in the configuration included.
    let refused = |failure: CliError| failure.exits(ExitKind::ExecRefused);
    let (project, presets) = presets::load_project(global, args, ambient).map_err(refused)?;
    ask_hosts::check(args, global, ambient)?;
    let stops = HeldStops::install().map_err(|error| signals(&error))?;
    // Opened first: a command that cannot be recorded does not run.
    let mut kept = ExecLog::open(&project, args, ambient).map_err(refused)?;
    let prepared = caller_directory(global)
        .and_then(|here| prepare(args, &project, presets.as_ref(), &kept, ambient, &here));
    let (place, runner) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            kept.refused(&failure).map_err(refused)?;
            return Err(refused(failure));
        }
    };
    let described = presets.as_ref().map(|presets| match &place {
        ExecSite::Here(plan, _) => presets.describe(Some(plan)),
        ExecSite::Container(_) => presets.describe(None),
    });
    let review = match &place {
        ExecSite::Here(_, context) => context.review.as_ref().map(reviewed::describe),
        ExecSite::Container(_) => None,
    };
    let described = described.into_iter().chain(review);
    kept.allowed(runner, args.no_os_sandbox, described)
        .map_err(refused)?;
    match place {
        ExecSite::Here(first, mut of) => {
            let review = of.review.take();
            let again = || plan(args, &of.grant, &of.policy, of.layer);
            let start = PlannedStart {
                plan: first,
                again: &again,
                directory: of.directory.clone(),
                committer: committer?,
                review,
                presets: presets.as_ref(),
                stops,
            };
            let asking = || CommandHostQuestions::new(args, &project, &of.grant, ambient, &kept);
            let questions = args.ask_hosts.then(asking).transpose()?;
            execute(global, args, start, ambient, kept, questions)
        }
        ExecSite::Container(context) => match not_in_container(args, presets.as_ref()) {
            None => container::execute(global, args, &context, kept),
            Some(failure) => {
                kept.refused(&failure).map_err(refused)?;
                Err(refused(failure))
            }
        },
    }
}

fn signals(error: &std::io::Error) -> CliError {
    CliError::new(ExitKind::ExecRefused, "signals", error.to_string())
}

/// Refuses options that contradict each other.
fn check_trace(args: &ExecArgs) -> Result<(), CliError> {
    if args.full && args.trace == Some(TraceReport::Off) {
        return Err(
            CliError::usage("`--trace=off` reports nothing, and `--full` asks for more")
                .hint("leave out one of them"),
        );
    }
    Ok(())
}

/// Returns the refusal of an option that containers do not support.
fn not_in_container(args: &ExecArgs, presets: Option<&ActivePresets>) -> Option<CliError> {
    if args.ask_hosts {
        return Some(ask_hosts::not_in_container());
    }
    let failure = CliError::new(
        ExitKind::ExecRefused,
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

/// The place of execution.
enum ExecSite {
    /// On this host, under this plan, with the inputs of another plan.
    Here(Plan, Box<LocalContext>),
    /// In a container.
    Container(Box<ContainerContext>),
}

/// The engine for a command, its rights, and its working directory inside.
struct ContainerContext {
    containers: NodeContainers,
    grant: Grant,
    directory: String,
    parent_proxy: Option<ParentProxySetting>,
}

/// The rights of a command on this host, and its working directory.
struct LocalContext {
    grant: Grant,
    policy: Policy,
    directory: String,
    /// `None`: changes are made at once.
    layer: Option<ReviewLayer>,
    review: Option<ReviewedRun>,
}

/// A command that is about to start, and how to plan it once more.
struct PlannedStart<'a> {
    plan: Plan,
    again: &'a dyn Fn() -> Result<Plan, CliError>,
    directory: String,
    committer: CommitterQuestion,
    review: Option<ReviewedRun>,
    presets: Option<&'a ActivePresets>,
    stops: HeldStops,
}

/// Returns the caller's directory by the kernel's name for it.
fn caller_directory(global: &Global) -> Result<PathBuf, CliError> {
    let start = global.directory.as_deref().unwrap_or(Path::new("."));
    start.canonicalize().map_err(|error| {
        let text = format!("{}: {error}", start.display());
        CliError::new(ExitKind::ExecRefused, "exec", text)
    })
}

/// Returns the path inside the sandbox of the caller's working directory.
fn directory_inside(policy: &Policy, here: &Path) -> Result<String, CliError> {
    policy.directory_inside(here).ok_or_else(|| {
        let shown: Vec<String> = policy
            .mounts()
            .iter()
            .filter(|mount| !mount.access().is_none())
            .map(|mount| mount.host().display().to_string())
            .collect();
        let shown = match shown.as_slice() {
            [] => "the project shows commands no directory".to_owned(),
            [one] => format!("the project shows {one}: go there, or name it with -C"),
            several => format!(
                "the project shows {}: go to one of them, or name it with -C",
                several.join(", ")
            ),
        };
        CliError::new(
            ExitKind::ExecRefused,
            "mount.unavailable",
            format!(
                "the command cannot start here: {} is in no directory that the project shows",
                here.display()
            ),
        )
        .hint(shown)
    })
}

/// Returns the place of execution and its confinement.
fn prepare(
    args: &ExecArgs,
    project: &Project,
    presets: Option<&ActivePresets>,
    log: &ExecLog,
    ambient: &Ambient,
    here: &Path,
) -> Result<(ExecSite, String), CliError> {
    let grant = log.dir().mount_in_run(command_grant(args, project)?)?;
    let unavailable =
        |error: String| CliError::new(ExitKind::ExecRefused, "mount.unavailable", error);
    let staged = grant
        .staged_dirs()
        .map_err(|error| unavailable(error.for_person()))?;
    let grant = grant.staged_in_overlays();
    let policy = grant
        .policy_with_dirs(&extra_dirs(args, project, presets))
        .map_err(|error| unavailable(error.to_string()))?
        .at_host_paths()
        .map_err(|error| unavailable(error.to_string()))?;
    let policy = match args.ask_hosts {
        true => ask_hosts::asking_policy(policy, grant.askable_hosts())?,
        false => policy,
    };
    let policy = match args.parent_proxy {
        true => parent_proxy::through_parent(policy, ambient)?,
        false => policy,
    };
    let policy = match presets {
        Some(presets) => presets.complete_policy(policy)?,
        None => policy,
    };
    let reviews_all = args.review.is_some() || grant.confinement().reviews_changes();
    let is_reviewed = |host: &Path| match reviews_all {
        true => !presets.is_some_and(|presets| presets.has_dir(host)),
        false => staged.iter().any(|dir| host.starts_with(dir)),
    };
    let of_project = (reviews_all || !staged.is_empty()).then_some(ReviewLayer::Overlay);
    let layer = args.review.or(of_project);
    let directory = directory_inside(&policy, here)?;
    let (policy, review) = match layer {
        Some(layer) => {
            if !reviews_all {
                reviewed::check_staged(&policy, &staged)?;
            }
            let subject = ReviewSubject {
                run: log.dir().name(),
                project,
                command: log.words(),
                limits: *grant.limits(),
            };
            reviewed::prepare(policy, layer, is_reviewed, subject, ambient)?
        }
        None => (policy, None),
    };
    let execution = grant.execution();
    let planned = match execution.mode() {
        ExecutionMode::LocalOnly | ExecutionMode::PreferLocal => {
            Some(plan(args, &grant, &policy, layer))
        }
        ExecutionMode::PreferDocker | ExecutionMode::DockerRequired => None,
    };
    // A named mechanism is one of this host.
    let enough = planned.as_ref().is_some_and(Result::is_ok) || args.mechanism.is_some();
    let containers = find_containers(&grant, enough, ambient);
    let os = match &planned {
        Some(plan) => plan.is_ok() && !args.no_os_sandbox,
        None => !args.no_os_sandbox,
    };
    // No question is asked: `--no-os-sandbox` is the answer.
    let usable = RunnerAvailability {
        os,
        docker: containers.is_ok(),
        interactive: args.no_os_sandbox,
    };
    let why_not = containers.as_ref().err().map_or("", |(why, _)| why);
    let (choice, why) = execution.select_knowing(Risk::Exec, usable, why_not);
    let hint = containers
        .as_ref()
        .err()
        .and_then(|(_, hint)| hint.as_deref());
    let nowhere = || no_runner(execution.mode(), hint, &why);
    match choice {
        RunnerChoice::Run(RunnerKind::Docker) if review.is_some() => Err(not_reviewed_there()),
        RunnerChoice::Run(RunnerKind::Docker) => match &containers {
            Ok(containers) => {
                if args.worker.is_none() && !project.personal_dirs().is_empty() {
                    stderr::print(
                        "warning: directories of your own rules (`forge allow --list`) are for \
                         commands on this host, not in a container",
                    );
                }
                let of_mounts = grant
                    .policy()
                    .map_err(|error| unavailable(error.to_string()))?;
                let context = ContainerContext {
                    containers: containers.clone(),
                    directory: directory_inside(&of_mounts, here)?,
                    parent_proxy: match policy.network() {
                        Network::Hosts(hosts) => hosts.parent().cloned(),
                        _ => None,
                    },
                    grant,
                };
                Ok((ExecSite::Container(Box::new(context)), why))
            }
            Err(_) => Err(nowhere()),
        },
        RunnerChoice::Run(RunnerKind::Local) | RunnerChoice::Confirm(RunnerKind::Local) => {
            let plan = planned.unwrap_or_else(|| plan(args, &grant, &policy, layer))?;
            presets.map_or(Ok(()), |presets| presets.check(&plan))?;
            let held = LocalContext {
                grant,
                policy,
                directory,
                layer,
                review,
            };
            Ok((ExecSite::Here(plan, Box::new(held)), why))
        }
        RunnerChoice::Confirm(RunnerKind::Docker) => Err(nowhere()),
        // The missing sandbox is the reason, in its own words.
        RunnerChoice::Refuse => match planned {
            Some(Err(refused)) if execution.without_docker().is_some() => Err(refused),
            Some(_) | None => Err(nowhere()),
        },
    }
}

/// Returns the refusal of `--review` in a container.
fn not_reviewed_there() -> CliError {
    CliError::new(
        ExitKind::ExecRefused,
        "isolation.unavailable",
        "--review keeps changes of a command on this host apart, not in a container",
    )
    .hint("run it on this host: --runner local")
}

/// Returns the directories of the command beside the project's mounts: those of its presets, and
/// those of the person's rules.
fn extra_dirs(args: &ExecArgs, project: &Project, presets: Option<&ActivePresets>) -> ExtraDirs {
    let mut dirs = presets.map_or_else(ExtraDirs::default, |presets| presets.dirs().clone());
    // The directories of a worker are those that it holds.
    let own = match args.worker {
        Some(_) => &[],
        None => project.personal_dirs(),
    };
    for one in own {
        let is_known = dirs.state.iter().any(|state| state.host == one.host);
        if !is_known {
            dirs.state.push(SharedState {
                writable: one.writable && !args.rights.read_only,
                ..one.clone()
            });
        }
    }
    dirs
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
        None => engine::docker(ambient)
            .probe(execution.docker())
            .map_err(|error| (error.to_string(), error.remediation().map(str::to_owned))),
    }
}

fn no_runner(mode: ExecutionMode, hint: Option<&str>, why: &str) -> CliError {
    let hint = hint.unwrap_or("run `forge doctor --docker`");
    let hint = match mode {
        // A hint does not contradict the project's requirements.
        ExecutionMode::DockerRequired => hint.to_owned(),
        ExecutionMode::LocalOnly | ExecutionMode::PreferLocal | ExecutionMode::PreferDocker => {
            format!("{hint}\nto run it here, under the OS sandbox: -c execution.mode=prefer_local")
        }
    };
    CliError::new(
        ExitKind::ExecRefused,
        "isolation.unavailable",
        format!("no runner is available for the command: {why}"),
    )
    .hint(hint)
}

fn plan(
    args: &ExecArgs,
    grant: &Grant,
    policy: &Policy,
    layer: Option<ReviewLayer>,
) -> Result<Plan, CliError> {
    if args.no_os_sandbox {
        if grant.require_os_sandbox() {
            return Err(CliError::new(
                ExitKind::ExecRefused,
                "isolation.unavailable",
                "the project requires an OS sandbox, and --no-os-sandbox turns it off",
            ));
        }
        warn_unconfined();
        let nothing = Support::assume(HostSpec::default());
        return Plan::with_mechanism(policy, &nothing, Requirement::BestEffort, Backend::None)
            .map_err(|error| refused(&error, false));
    }
    let support = setup::host_support();
    let plan = match args.mechanism {
        None => Plan::new(policy, &support, grant.requirement()),
        Some(name) => {
            let backend = match name {
                MechanismName::Namespaces => Backend::Namespaces,
                MechanismName::Bubblewrap => Backend::Bubblewrap,
                MechanismName::Landlock => Backend::Landlock,
            };
            Plan::with_mechanism(policy, &support, grant.requirement(), backend)
        }
    };
    let plan = plan.map_err(|error| match hosts_not_kept(policy, &error) {
        Some(hint) => isolation(&error, hint.to_owned()),
        None if grant.confinement().requires_guards() => hinted(&error, &[GAPS_REFUSE]),
        None if layer.is_some() => hinted(&error, &[IN_A_COPY, CHANGES_AT_ONCE]),
        None => refused(&error, !grant.require_os_sandbox()),
    })?;
    match (layer, plan.backend()) {
        (None | Some(ReviewLayer::Overlay), _)
        | (Some(ReviewLayer::Copy), Backend::Namespaces | Backend::Bubblewrap) => Ok(plan),
        (Some(ReviewLayer::Copy), other) => Err(CliError::new(
            ExitKind::ExecRefused,
            "isolation.unavailable",
            format!("{other} cannot show a copy at the path of the project"),
        )
        .hint("namespaces and bubblewrap can: `forge doctor` says why they do not work here")),
    }
}

fn hinted(error: &PlanError, more: &[&str]) -> CliError {
    let hint = error.hint();
    let hints: Vec<&str> = [hint.as_str()]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    isolation(error, hints.join("\n").trim_start().to_owned())
}

fn warn_unconfined() {
    stderr::print("warning: no OS sandbox: the command can do whatever you can");
}

fn refused(error: &PlanError, may_be_turned_off: bool) -> CliError {
    let mut hint = error.hint();
    if may_be_turned_off {
        hint.push_str("\nor run it without any confinement: forge exec --no-os-sandbox -- …");
    }
    isolation(error, hint)
}

fn isolation(error: &PlanError, hint: String) -> CliError {
    CliError::new(
        ExitKind::ExecRefused,
        "isolation.unavailable",
        format!("OS sandbox required but unavailable: {error}"),
    )
    .hint(hint)
}

fn execute(
    global: &Global,
    args: &ExecArgs,
    start: PlannedStart<'_>,
    ambient: &Ambient,
    kept: ExecLog,
    questions: Option<CommandHostQuestions>,
) -> Result<ExitKind, CliError> {
    let mut kept = Some(kept);
    let outcome = run_it(global, args, start, ambient, &mut kept, questions.as_ref());
    // It did not get so far as to have ended.
    if let (Err(failure), Some(kept)) = (&outcome, kept) {
        kept.not_started(failure)?;
    }
    outcome
}

fn run_it(
    global: &Global,
    args: &ExecArgs,
    start: PlannedStart<'_>,
    ambient: &Ambient,
    kept: &mut Option<ExecLog>,
    questions: Option<&CommandHostQuestions>,
) -> Result<ExitKind, CliError> {
    let PlannedStart {
        mut plan,
        again,
        directory,
        committer,
        mut review,
        presets,
        stops: held,
    } = start;
    let Some((program, rest)) = args.command.split_first() else {
        return Err(CliError::usage("missing command"));
    };
    let here = caller_directory(global)?;
    let command = CommandBuilder {
        global,
        args,
        program,
        arguments: rest,
        committer: unset(committer.answer(), plan.policy()),
        directory,
        questions,
        presets,
    };
    let mut receipt = args.receipt.as_deref().map(Receipt::open).transpose()?;
    // Without a terminal Ctrl-C cannot be typed, and a signal concerns forge and the command.
    let interrupts = match ambient.any_terminal {
        true => Interrupts::OfCommand,
        false => Interrupts::Stop,
    };
    let stops = KillOnSignal::listen(interrupts).map_err(|error| signals(&error))?;
    if let Some(presets) = presets.filter(|_| !(global.quiet || global.json)) {
        presets.print(&plan);
    }
    let mut child = match command.build(&plan).spawn() {
        // The cached detection was invalidated, so the plan is made again.
        Err(error) if error.kind() == ErrorKind::Enforcement && !args.no_os_sandbox => {
            plan = again()?;
            command.build(&plan).spawn()
        }
        started => started,
    }
    .map_err(|error| {
        // Landlock alone refuses an interpreter that is not seen instead of hiding it.
        let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotExecutable);
        let find = || MissingProgram::find(program, &here, plan.policy(), ambient);
        let missing = is_missing.then(find).flatten();
        if let (Some(log), Some(missing)) = (kept.as_mut(), &missing) {
            log.not_shown(missing);
        }
        let failure = start_error(&error, program, missing, ambient);
        match error.kind() {
            ErrorKind::Enforcement if review.as_ref().is_some_and(reviewed::is_overlay) => {
                let hint = failure
                    .hint_text()
                    .map(|hint| format!("{hint}\n{IN_A_COPY}"));
                failure.hint(hint.unwrap_or_else(|| IN_A_COPY.to_owned()))
            }
            _ => failure,
        }
    })?;
    let quiet = global.quiet || global.json;
    let of_review = review.as_ref().map(reviewed::plan_json);
    let text = |child: &Child| as_text(child.enforcement(), presets, &plan, of_review.as_ref());
    if let Some(review) = &mut review {
        let killer = child.killer().map_err(|error| not_started(&error))?;
        reviewed::started(review, move || killer.kill())?;
        if !quiet {
            reviewed::print_start(review);
        }
    }
    if !quiet {
        for port in plan.published_ports() {
            stderr::print(format!(
                "http://127.0.0.1:{port} is the command's port {port}"
            ));
        }
        if let Some(told) = describe_parent_proxy(plan.policy()) {
            stderr::print(format!("warning: {told}"));
        }
        notes(plan.entries(), child.enforcement());
    }
    if let Some(receipt) = &mut receipt {
        // Written as soon as it is true, so that a command that never ends has one.
        receipt.write(text(&child))?;
    }
    stops.command(child.killer().map_err(|error| not_started(&error))?);
    let started = child.enforcement().promises.clone();
    let mut printed = CapturedOutput::new(plan.policy().limits());
    let terminal = child.terminal.take();
    let relay = terminal.map(|side| Relay::start(side, held)).transpose();
    let relay = relay
        .map_err(|error| CliError::new(ExitKind::ExecRefused, "terminal", error.to_string()))?;
    let ended = match global.json {
        true => child.wait_streaming(|stream, bytes| printed.push(stream, bytes)),
        false => child.wait(),
    }
    .map_err(|error| not_started(&error));
    let withheld = relay.and_then(Relay::finish).filter(|_| !quiet);
    withheld.into_iter().for_each(stderr::print);
    if let Some(receipt) = &mut receipt {
        receipt.write(text(&child))?;
        receipt.check()?;
    }
    if !global.json {
        // The quarantine of a copy is not one of the project.
        print_quarantined(&child, !quiet && review.is_none());
    }
    if !quiet {
        notes(&started, child.enforcement());
    }
    // Listed even if the command's end is not known: it may have changed something.
    let changes = review.map(|run| reviewed::end(run, false));
    let of_command = child.exceeded().as_ref().map(describe_limit);
    let of_changes = || reviewed::exceeded(changes.as_ref()?.as_ref().ok()?).map(str::to_owned);
    let exceeded = of_command.or_else(of_changes);
    let exit = close_log(kept.take(), ended, &child, exceeded.clone())?;
    let changes = changes.transpose()?;
    let code = u8::try_from(exit.code()).unwrap_or(255);
    if global.json {
        let enforcement = as_json(child.enforcement(), presets, &plan, of_review.as_ref());
        let facts = changes.as_ref().map(reviewed::to_json);
        report(&exit, exceeded, &printed, enforcement, facts)?;
    } else {
        let end = CommandEnd {
            child: &child,
            policy: plan.policy(),
            args,
            presets,
            program,
            here: &here,
            is_success: exit.success(),
        };
        end.print(quiet, ambient);
        if let Some(changes) = &changes {
            if !exit.success() && !quiet {
                reviewed::print_foreign(changes);
            }
            reviewed::show(global, ambient, changes, Some(&stops));
        }
    }
    if let Some(code) = stops.exit_code() {
        return Ok(ExitKind::Command(code));
    }
    if args.fail_on_quarantine && !child.quarantined().is_empty() {
        return Ok(ExitKind::Quarantined);
    }
    Ok(ExitKind::Command(code))
}

fn start_error(
    error: &Error,
    program: &OsStr,
    missing: Option<MissingProgram>,
    ambient: &Ambient,
) -> CliError {
    let failure = not_started(error);
    let hint = missing.map(|missing| missing.hint(ambient));
    let preset = match error.kind() {
        ErrorKind::NotFound => presets::advice(program, ambient),
        _ => None,
    };
    let hints: Vec<String> = hint.into_iter().chain(preset).collect();
    match hints.as_slice() {
        [] => failure,
        hints => failure.hint(hints.join("\n")),
    }
}

/// Records the end of the command, and returns it.
fn close_log(
    log: Option<ExecLog>,
    ended: Result<os_sandbox::Exit, CliError>,
    child: &Child,
    exceeded: Option<String>,
) -> Result<os_sandbox::Exit, CliError> {
    match (ended, log) {
        (ended, None) => ended,
        (Ok(exit), Some(log)) => {
            log.ended(&ExecOutcome {
                exit: &exit,
                exceeded,
                enforcement: child.enforcement(),
            })?;
            Ok(exit)
        }
        (Err(failure), Some(log)) => {
            log.failed(&failure, child.enforcement())?;
            Err(failure)
        }
    }
}

/// Opens a file that we write in a person's name, without following a link out of here.
pub(crate) fn open_plain(file: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let here = std::env::current_dir()?;
    let below = if file.is_relative() {
        Some(file)
    } else {
        file.strip_prefix(&here).ok()
    };
    let climbs = |path: &&Path| path.components().any(|part| part == Component::ParentDir);
    let opened = match below.filter(|path| !climbs(path)) {
        Some(below) => {
            let mut options = cap_std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags);
            cap_std::fs::Dir::open_ambient_dir(&here, cap_std::ambient_authority())?
                .open_with(below, &options)?
                .into_std()
        }
        None => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(flags)
            .open(file)?,
    };
    if !opened.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    Ok(opened)
}

fn not_started(error: &Error) -> CliError {
    let code = match error.kind() {
        ErrorKind::Unguarded => "guards.incomplete",
        _ => "exec",
    };
    let failure = CliError::new(
        ExitKind::Command(error.exit_code()),
        code,
        error.to_string(),
    );
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
