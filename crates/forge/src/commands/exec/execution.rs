//! A command on this host from its start to its end.

use std::path::Path;

use forge_runtime::describe_parent_proxy;
use forge_tools::TemporaryPorts;
use os_sandbox::{Child, Error, ErrorKind, Plan};
use sandbox_config::Project;

use super::ask_hosts::CommandHostQuestions;
use super::command_builder::{CommandBuilder, unset};
use super::end_report::{CommandEnd, describe_limit, notes, print_quarantined};
use super::exec_log::{ExecLog, ExecOutcome};
use super::identity_files::Identity;
use super::json_report::{CapturedOutput, as_json, as_text, report};
use super::missing::{MissingProgram, is_installed};
use super::open_urls::UrlOpener;
use super::personal_git::PersonalGit;
use super::receipt::Receipt;
use super::site::LocalContext;
use super::{caller_directory, outside_repository, signals};
use crate::ambient::Ambient;
use crate::cli::ExecArgs;
use crate::commands::review_subject::IN_A_COPY;
use crate::commands::reviewed::{self, ReviewedRun};
use crate::exit::{CliError, ExitKind};
use crate::output::escape::escape_lines;
use crate::output::stderr;
use crate::setup::presets::ActivePresets;
use crate::setup::{self, presets};
use crate::signals::{Interrupts, KillOnSignal};
use crate::terminal::{HeldStops, Relay};

/// A command that is about to start.
pub(super) struct PlannedStart<'a> {
    pub(super) plan: Plan,
    pub(super) project: &'a Project,
    pub(super) of: &'a LocalContext,
    pub(super) committer: Identity,
    pub(super) git: Option<&'a PersonalGit>,
    pub(super) review: Option<ReviewedRun>,
    pub(super) presets: Option<&'a ActivePresets>,
    pub(super) stops: HeldStops,
}

pub(super) fn execute(
    args: &ExecArgs,
    start: PlannedStart<'_>,
    ambient: &Ambient,
    kept: ExecLog,
    questions: Option<CommandHostQuestions>,
) -> Result<ExitKind, CliError> {
    let mut kept = Some(kept);
    let outcome = run_it(args, start, ambient, &mut kept, questions.as_ref());
    // It did not get so far as to have ended.
    if let (Err(failure), Some(kept)) = (&outcome, kept) {
        kept.not_started(failure)?;
    }
    outcome
}

/// Starts the command, waits for it, and tells how it ended. The log is taken when the end is in it.
fn run_it(
    args: &ExecArgs,
    start: PlannedStart<'_>,
    ambient: &Ambient,
    kept: &mut Option<ExecLog>,
    questions: Option<&CommandHostQuestions>,
) -> Result<ExitKind, CliError> {
    let PlannedStart {
        mut plan,
        project,
        of,
        committer,
        git,
        presets,
        stops: held,
        mut review,
    } = start;
    let Some((program, rest)) = args.command.split_first() else {
        return Err(CliError::usage("missing command"));
    };
    let here = caller_directory(&ambient.global)?;
    let command = CommandBuilder {
        global: &ambient.global,
        args,
        program,
        arguments: rest,
        of_git: unset(
            committer
                .variables()
                .into_iter()
                .chain(git.map(PersonalGit::variable)),
            plan.policy(),
        ),
        directory: of.directory.clone(),
        questions,
        presets,
        ports: TemporaryPorts::default(),
    };
    let mut receipt = args.receipt.as_deref().map(Receipt::open).transpose()?;
    // Without a terminal Ctrl-C cannot be typed, and a signal concerns forge and the command.
    let interrupts = match ambient.any_terminal {
        true => Interrupts::OfCommand,
        false => Interrupts::Stop,
    };
    let stops = KillOnSignal::listen(interrupts).map_err(|error| signals(&error))?;
    let quiet = ambient.global.quiet || ambient.global.json;
    if let Some(presets) = presets.filter(|_| !quiet) {
        presets.print(&plan);
    }
    let spawned = match command.build(&plan).spawn() {
        // The cached detection was invalidated, so the plan is made again.
        Err(error) if error.kind() == ErrorKind::Enforcement && !args.no_os_sandbox => {
            plan = of.plan(args)?;
            command.build(&plan).spawn()
        }
        started => started,
    };
    let mut child = spawned.map_err(|error| {
        // Landlock alone refuses an interpreter that is not seen instead of hiding it.
        let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotExecutable);
        let find = || MissingProgram::find(program, &here, plan.policy(), ambient);
        let missing = is_missing.then(find).flatten();
        if let (Some(log), Some(missing)) = (kept.as_mut(), &missing) {
            log.not_shown(missing);
        }
        let in_overlay = review.as_ref().is_some_and(reviewed::is_overlay);
        let missing = missing.map(|missing| missing.hint(project, args.worker.is_some(), ambient));
        let missing = args.flag_of_value(program).or(missing);
        // The presets show its programs, if they are installed.
        let advice = match presets {
            None if is_installed(program, ambient) => presets::advice(program, ambient),
            None | Some(_) => None,
        };
        start_error(&error, missing, advice, in_overlay)
    })?;
    let of_review = review.as_ref().map(reviewed::plan_json);
    let text = |child: &Child| as_text(child.enforcement(), presets, &plan, of_review.as_ref());
    if let Some(review) = &mut review {
        let killer = child.killer().map_err(|error| not_started(&error))?;
        reviewed::started(review, move || killer.kill())?;
    }
    if !quiet {
        print_start(&plan, &child, review.as_ref(), &here);
        if ambient.global.verbose > 0 {
            stderr::print(escape_lines(&plan.to_string()));
        }
    }
    if let Some(receipt) = &mut receipt {
        // Written as soon as it is true, so that a command that never ends has one.
        receipt.write(text(&child))?;
    }
    stops.command(child.killer().map_err(|error| not_started(&error))?);
    let urls = presets.and_then(ActivePresets::urls).zip(kept.as_ref());
    let opener = urls.map(|(urls, log)| {
        let ports = command.ports.clone();
        UrlOpener::start(urls, ports, &plan, log.recorder(), ambient, quiet)
    });
    let opener = opener.transpose()?;
    let started = child.enforcement().promises.clone();
    let mut printed = CapturedOutput::new(plan.policy().limits());
    let (ended, withheld) = wait(
        &mut child,
        ambient.global.json.then_some(&mut printed),
        held,
    )?;
    withheld
        .filter(|_| !quiet)
        .into_iter()
        .for_each(stderr::print);
    let opened = opener.and_then(UrlOpener::finish);
    opened
        .filter(|_| !quiet)
        .into_iter()
        .for_each(stderr::print);
    if let Some(receipt) = &mut receipt {
        receipt.write(text(&child))?;
        receipt.check()?;
    }
    if !ambient.global.json {
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
    // Ctrl-C at the question about the changes keeps them, and says nothing about the command.
    let stopped = stops.exit_code();
    if ambient.global.json {
        let enforcement = as_json(child.enforcement(), presets, &plan, of_review.as_ref());
        let facts = changes.as_ref().map(reviewed::to_json);
        report(&exit, exceeded, &printed, enforcement, facts)?;
    } else {
        let end = CommandEnd {
            child: &child,
            policy: plan.policy(),
            args,
            project,
            presets,
            program,
            here: &here,
            is_success: exit.success(),
            is_own_exit: matches!(exit, os_sandbox::Exit::Code(_)) && child.exceeded().is_none(),
        };
        end.print(quiet, ambient);
        if let Some(changes) = &changes {
            if !exit.success() && !quiet {
                reviewed::print_foreign(changes);
            }
            reviewed::show(ambient, changes, Some(&stops));
        }
    }
    Ok(match stopped {
        Some(code) => ExitKind::Command(code),
        None if args.fail_on_quarantine && !child.quarantined().is_empty() => ExitKind::Quarantined,
        None => ExitKind::Command(u8::try_from(exit.code()).unwrap_or(255)),
    })
}

/// Prints the facts of a command that has started: its copies, its ports and its gaps.
fn print_start(plan: &Plan, child: &Child, review: Option<&ReviewedRun>, here: &Path) {
    if let Some(review) = review {
        reviewed::print_start(review);
    }
    for port in plan.published_ports() {
        stderr::print(format!(
            "http://127.0.0.1:{port} is the command's port {port}"
        ));
    }
    if let Some(told) = describe_parent_proxy(plan.policy()) {
        stderr::print(format!("warning: {told}"));
    }
    if let Some(told) = setup::ends_survivors(plan) {
        stderr::print(format!("warning: {told}"));
    }
    outside_repository::print(plan, here);
    notes(plan.entries(), child.enforcement());
}

/// Waits for the end of the command, with its terminal, and its output in `printed`. Returns also a
/// line about the sequences that the terminal withheld.
fn wait(
    child: &mut Child,
    printed: Option<&mut CapturedOutput>,
    held: HeldStops,
) -> Result<(Result<os_sandbox::Exit, CliError>, Option<String>), CliError> {
    let terminal = child.terminal.take();
    let relay = terminal.map(|side| Relay::start(side, held)).transpose();
    let relay = relay.map_err(|error| CliError::exec_refused("terminal", error.to_string()))?;
    let ended = match printed {
        Some(printed) => child.wait_streaming(|stream, bytes| printed.push(stream, bytes)),
        None => child.wait(),
    };
    let withheld = relay.and_then(Relay::finish);
    Ok((ended.map_err(|error| not_started(&error)), withheld))
}

/// Returns the failure to start a command. `missing`: the hint about a program that was not found;
/// `advice`: the preset of the program.
fn start_error(
    error: &Error,
    missing: Option<String>,
    advice: Option<String>,
    in_overlay: bool,
) -> CliError {
    let failure = not_started(error);
    // A hint about a missing program says more than the failure.
    let of_failure = failure.hint_text().map(str::to_owned);
    let hint = missing.or_else(|| of_failure.filter(|_| in_overlay));
    let more = match error.kind() {
        ErrorKind::NotFound => advice,
        ErrorKind::Enforcement if in_overlay => Some(IN_A_COPY.to_owned()),
        _ => None,
    };
    let hints: Vec<String> = hint.into_iter().chain(more).collect();
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
