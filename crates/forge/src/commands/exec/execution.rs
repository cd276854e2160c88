//! A command on this host from its start to its end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use forge_runtime::describe_parent_proxy;
use forge_tools::TemporaryPorts;
use os_sandbox::{Child, Entry, Error, ErrorKind, Plan, Session};
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
use super::{caller_directory, outside_repository, own_path, signals};
use crate::cli::ExecArgs;
use crate::commands::prelude::*;
use crate::commands::review_subject::IN_A_COPY;
use crate::commands::reviewed::{self, ReviewedChanges, ReviewedRun};
use crate::output::escape::escape_lines;
use crate::setup::host_programs::HostPrograms;
use crate::setup::presets::ActivePresets;
use crate::setup::{self, presets};
use crate::signals::{CommandSignals, interrupt_group, is_interrupted};
use crate::terminal::{self, HeldStops, Relay};

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
    let words = args.command.split_first();
    let (program, arguments) = words.ok_or_else(|| CliError::usage("missing command"))?;
    let of_git = start.committer.variables().into_iter();
    let of_git = of_git.chain(start.git.map(PersonalGit::variable));
    let mut of_person = unset(of_git, start.plan.policy());
    if args.worker.is_none() {
        of_person.extend(own_path::variables(start.plan.policy(), ambient));
    }
    let command = CommandBuilder {
        global: &ambient.global,
        args,
        program,
        arguments,
        of_person,
        directory: start.of.directory.clone(),
        questions,
        presets: start.presets,
        ports: TemporaryPorts::default(),
    };
    let stops = CommandSignals::listen(ambient.any_terminal).map_err(|error| signals(&error))?;
    let mut run = CommandRun {
        args,
        ambient,
        program,
        here: caller_directory(&ambient.global)?,
        project: start.project,
        presets: start.presets,
        plan: start.plan,
        of_review: start.review.as_ref().map(reviewed::plan_json),
        review: start.review,
        receipt: args.receipt.as_deref().map(Receipt::open).transpose()?,
    };
    let (held, spawned) = (terminal::hold_questions(), run.spawn(&command, start.of)?);
    let mut child = spawned.map_err(|error| run.start_failure(&error, kept.as_mut()))?;
    run.started(&child, kept.as_ref())?;
    let of_command = stops.command(&child, terminal::session(&run.plan));
    of_command.map_err(|error| not_started(&error))?;
    let opener = run.open_urls(&command, kept.as_ref())?;
    let at_start = child.enforcement().promises.clone();
    let mut printed = CapturedOutput::new(run.plan.policy().limits());
    let wanted = ambient.global.json.then_some(&mut printed);
    let (exit, withheld) = wait(&mut child, wanted, start.stops, held)?;
    let opened = opener.and_then(UrlOpener::finish);
    if !run.is_quiet() {
        withheld.into_iter().chain(opened).for_each(stderr::print);
    }
    let command = EndedCommand {
        exit,
        printed,
        at_start,
    };
    run.finish(&child, command, kept, &stops)
}

/// How a command ended.
struct EndedCommand {
    exit: Result<os_sandbox::Exit, CliError>,
    printed: CapturedOutput,
    /// The promises at its start.
    at_start: Vec<Entry>,
}

/// A command that was typed, and the facts of which its reports consist.
struct CommandRun<'a> {
    args: &'a ExecArgs,
    ambient: &'a Ambient,
    program: &'a OsStr,
    /// The caller's directory.
    here: PathBuf,
    project: &'a Project,
    presets: Option<&'a ActivePresets>,
    plan: Plan,
    /// Until the end of the command.
    review: Option<ReviewedRun>,
    /// The review, as a receipt shows it.
    of_review: Option<Value>,
    receipt: Option<Receipt<'a>>,
}

impl CommandRun<'_> {
    fn is_quiet(&self) -> bool {
        self.ambient.global.quiet || self.ambient.global.json
    }

    /// Starts the command; plans again if the remembered detection turned out to be wrong.
    fn spawn(
        &mut self,
        command: &CommandBuilder<'_>,
        of: &LocalContext,
    ) -> Result<Result<Child, Error>, CliError> {
        if let Some(presets) = self.presets.filter(|_| !self.is_quiet()) {
            presets.print(&self.plan);
        }
        self.note_another_program(command);
        let spawned = command.build(&self.plan).spawn();
        let is_wrong = |error: &Error| error.kind() == ErrorKind::Enforcement;
        if self.args.no_os_sandbox || !spawned.as_ref().is_err_and(is_wrong) {
            return Ok(spawned);
        }
        self.plan = of.plan(self.args)?;
        Ok(command.build(&self.plan).spawn())
    }

    /// Tells of a program that is not the one of the person's shell.
    fn note_another_program(&self, command: &CommandBuilder<'_>) {
        if self.is_quiet() || self.args.worker.is_some() {
            return;
        }
        let policy = self.plan.policy();
        let path = command.search_path(policy);
        if let Some(note) = own_path::note(self.program, &path, policy, self.ambient) {
            stderr::print(format_args!("note: {note}"));
        }
    }

    /// Returns the failure to start, with a hint.
    fn start_failure(&self, error: &Error, log: Option<&mut ExecLog>) -> CliError {
        let (program, ambient) = (self.program, self.ambient);
        // Landlock alone refuses an interpreter that is not seen instead of hiding it.
        let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotExecutable);
        let find = || MissingProgram::find(program, &self.here, self.plan.policy(), ambient);
        let missing = is_missing.then(find).flatten();
        if let (Some(log), Some(missing)) = (log, &missing) {
            log.not_shown(missing);
        }
        let in_overlay = self.review.as_ref().is_some_and(reviewed::is_overlay);
        let of_worker = self.args.worker.is_some();
        let missing = missing.map(|missing| missing.hint(self.project, of_worker, ambient));
        let missing = self.args.flag_of_value(program).or(missing);
        // The presets show its programs, if they are installed.
        let advice = match self.presets {
            None if is_installed(program, ambient) => presets::advice(program, ambient),
            None | Some(_) => None,
        };
        with_hints(error, missing, advice, in_overlay)
    }

    /// Counts the changes from now on, and prints the enforcement.
    fn started(&mut self, child: &Child, log: Option<&ExecLog>) -> Result<(), CliError> {
        if let Some(review) = &mut self.review {
            let killer = child.killer().map_err(|error| not_started(&error))?;
            reviewed::started(review, move || killer.kill())?;
        }
        if !self.is_quiet() {
            print_start(&self.plan, child, self.review.as_ref(), &self.here);
            if self.ambient.global.verbose > 0 {
                stderr::print(escape_lines(&self.plan.to_string()));
            }
        }
        // Written as soon as it is true, so that a command that never ends has one.
        self.write_receipt(child)?;
        log.into_iter().for_each(ExecLog::prepare_end);
        Ok(())
    }

    fn write_receipt(&mut self, child: &Child) -> Result<(), CliError> {
        let of_review = self.of_review.as_ref();
        let Some(receipt) = &mut self.receipt else {
            return Ok(());
        };
        let enforcement = child.enforcement();
        receipt.write(as_text(enforcement, self.presets, &self.plan, of_review))
    }

    fn open_urls(
        &self,
        command: &CommandBuilder<'_>,
        log: Option<&ExecLog>,
    ) -> Result<Option<UrlOpener>, CliError> {
        let urls = self.presets.and_then(ActivePresets::urls).zip(log);
        let opener = urls.map(|(urls, log)| {
            let (ports, quiet) = (command.ports.clone(), self.is_quiet());
            let programs = HostPrograms::of_project(self.ambient, self.project);
            let of_plan = (&self.plan, programs);
            UrlOpener::start(urls, ports, of_plan, log.recorder(), self.ambient, quiet)
        });
        opener.transpose()
    }

    /// Writes the receipt and the log, and prints the report.
    fn finish(
        mut self,
        child: &Child,
        command: EndedCommand,
        log: &mut Option<ExecLog>,
        stops: &CommandSignals,
    ) -> Result<ExitKind, CliError> {
        self.write_receipt(child)?;
        if let Some(receipt) = &self.receipt {
            receipt.check()?;
        }
        let is_json = self.ambient.global.json;
        if !is_json {
            // The quarantine of a copy is not one of the project.
            print_quarantined(child, !self.is_quiet() && self.review.is_none());
        }
        if !self.is_quiet() {
            notes(&command.at_start, child.enforcement());
        }
        // Listed even if the command's end is not known: it may have changed something.
        let changes = self.review.take().map(|run| reviewed::end(run, false));
        let of_command = child.exceeded().as_ref().map(describe_limit);
        let of_changes = || reviewed::exceeded(changes.as_ref()?.as_ref().ok()?).map(str::to_owned);
        let exceeded = of_command.or_else(of_changes);
        let exit = close_log(log.take(), command.exit, child, exceeded.clone())?;
        let changes = changes.transpose()?;
        // Ctrl-C at the question about the changes keeps them, and says nothing about the command.
        let stopped = stops.exit_kind(&exit);
        if is_json {
            let of_review = self.of_review.as_ref();
            let enforcement = as_json(child.enforcement(), self.presets, &self.plan, of_review);
            let facts = changes.as_ref().map(reviewed::to_json);
            report(&exit, exceeded, &command.printed, enforcement, facts)?;
        } else {
            self.print_end(child, &exit, changes.as_ref(), stops);
        }
        Ok(match stopped {
            Some(kind) => kind,
            None if self.args.fail_on_quarantine && !child.quarantined().is_empty() => {
                ExitKind::Quarantined
            }
            None if is_interrupted(&exit) => {
                if terminal::session(&self.plan) == Session::Terminal {
                    interrupt_group();
                }
                ExitKind::Interrupted
            }
            None => ExitKind::Command(u8::try_from(exit.code()).unwrap_or(255)),
        })
    }

    fn print_end(
        &self,
        child: &Child,
        exit: &os_sandbox::Exit,
        changes: Option<&ReviewedChanges>,
        stops: &CommandSignals,
    ) {
        let end = CommandEnd {
            child,
            policy: self.plan.policy(),
            args: self.args,
            project: self.project,
            presets: self.presets,
            program: self.program,
            here: &self.here,
            is_success: exit.success(),
            own_code: match exit {
                os_sandbox::Exit::Code(code) if child.exceeded().is_none() => Some(*code),
                _ => None,
            },
        };
        end.print(self.is_quiet(), self.ambient);
        if let Some(changes) = changes {
            if !exit.success() && !self.is_quiet() {
                reviewed::print_foreign(changes);
            }
            reviewed::show(self.ambient, changes, Some(stops));
        }
    }
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
    if let Some(inside) = plan.policy().directory_inside(here)
        && plan.backend().has_own_root()
        && Path::new(&inside) != here
    {
        let here = escape_path(here);
        stderr::print(format!(
            "note: the command finds {here} at {inside}; what it writes to {here} is its own, and \
             gone after it"
        ));
    }
    outside_repository::print(plan, here);
    notes(plan.entries(), child.enforcement());
}

/// Waits for the end of the command, with its terminal, and its output in `printed`. Returns also a
/// line about the sequences that the terminal withheld.
fn wait(
    child: &mut Child,
    printed: Option<&mut CapturedOutput>,
    stops: HeldStops,
    questions: MutexGuard<'_, ()>,
) -> Result<(Result<os_sandbox::Exit, CliError>, Option<String>), CliError> {
    let terminal = child.terminal.take();
    let has_keys = printed.is_none() && terminal::is_interactive();
    let relay = terminal.map(|side| Relay::start(side, has_keys, stops));
    let relay = relay.transpose();
    let relay = relay.map_err(|error| CliError::exec_refused("terminal", error.to_string()))?;
    drop(questions);
    let ended = match printed {
        Some(printed) => child.wait_streaming(|stream, bytes| printed.push(stream, bytes)),
        None => child.wait(),
    };
    let withheld = relay.and_then(Relay::finish);
    Ok((ended.map_err(|error| not_started(&error)), withheld))
}

/// Returns the failure to start a command. `missing`: the hint about a program that was not found;
/// `advice`: the preset of the program.
fn with_hints(
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
