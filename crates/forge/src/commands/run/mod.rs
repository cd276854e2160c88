//! `forge run`: a worker, and the workers that it calls, driven by a model.

mod answer_file;
mod attach;
pub(crate) mod choose_worker;
mod event_output;
mod exit_status;
mod flags;
mod input;
pub(crate) mod model;
mod plan;
mod recording;
mod redacted;
mod refusal_counts;
mod resume;
mod resume_hint;
mod run_record;

use std::sync::{Arc, Mutex};

use forge_runtime::{Model as _, Observer, RunOutcome, RunReport, Session};
use forge_tools::Redactor;
use sandbox_config::{Project, Worker};

use crate::cli::{Global, RunArgs};
use crate::commands::log::summary::CallSummary;
use crate::commands::prelude::*;
use crate::commands::reviewed::{self, ReviewedChanges, ReviewedRun};
use crate::run_view::{RunStart, RunWatcher, ViewGuard, ViewOptions};
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::setup::repositories;
use crate::setup::target::{RunTarget, run_target, with_sentence_as_input};
use crate::signals::ExitOnSignal;
use crate::state::run_dir;
use attach::NamedFiles;
use event_output::EventOutput;
use model::RunModels;
use recording::PlaybookRecording;
use resume::{PreviousRun, ResumeContext, ResumeState};
use run_record::{RunInput, RunRecord};

use refusal_counts::{RefusalCounter, Refusals, counted};

pub(crate) fn run(args: &RunArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let args = &with_sentence_as_input(&ambient.global, args);
    event_output::with_event_output(&ambient.global, |told| {
        let Some(name) = &args.resume else {
            return run_worker(args, ambient, None, told);
        };
        let earlier = match PreviousRun::find(ambient, name)? {
            ResumeState::Open(earlier) => *earlier,
            ResumeState::Answered(answered) => {
                return answered.print_answer(args, ambient, told);
            }
        };
        let (args, ambient) = earlier.with_original_flags(args, ambient);
        run_worker(&args, &ambient, Some(earlier), told)
    })
}

fn run_worker(
    args: &RunArgs,
    ambient: &Ambient,
    earlier: Option<PreviousRun>,
    told: &mut EventOutput,
) -> Result<ExitKind, CliError> {
    let ambient = &flags::applied(args, ambient)?;
    answer_file::check_stdout()?;
    let target = run_target(args, ambient)?;
    if args.dry_run {
        return plan::show(args, ambient, &target);
    }
    let mut run = StartedRun::start(args, ambient, target, earlier)?;
    let (observer, watching, refusals) = run.observe(ambient, told);
    let session = run.session(args, ambient, observer)?;
    let mut review = run.kept.review.take();
    if let Some(review) = &mut review {
        start_review(&ambient.global, review, &session)?;
    }
    // A run that is stopped ends every command, and every open call gets its result.
    let (target, conversation) = (&run.target, run.kept.conversation.clone());
    let work = session.resume(&target.worker, target.grant.clone(), conversation);
    let (report, stopped) = match setup::run_until_stopped(work, || session.cancel()) {
        Ok((report, stopped)) => (Some(report), stopped),
        Err(failure) => (None, Some(failure)),
    };
    let report = report.map(|report| redacted::report(report, &run.redactor));
    let after = ExitOnSignal::listen();
    told.attempts = run.models.attempts.clone();
    let goes_on = run.kept.can_go_on(report.as_ref());
    let changes = review.and_then(|review| end_review(review, goes_on));
    told.review = changes.as_ref().map(reviewed::to_json);
    let facts = json!({
        "worker": target.worker.name(),
        "report": report,
        "stopped": stopped.is_some(),
        "ephemeral": args.ephemeral,
        "attempts": told.attempts.list(),
        "review": told.review,
    });
    store_result(&run.kept, report.as_ref(), facts)?;
    run.recording.finish()?;
    drop(after);
    drop(watching);
    run.kept.print_resume_hint(args, ambient, report.as_ref());
    if let Some(report) = &report {
        exit_status::print_result(args, ambient, report, told, run.kept.dir.path())?;
    }
    if let Some(changes) = changes.as_ref().filter(|_| !ambient.global.quiet) {
        reviewed::show(ambient, changes, None);
    }
    told.report = report;
    let (Some(report), None) = (&told.report, &stopped) else {
        return stopped.map_or(Ok(ExitKind::Negative), Err);
    };
    let (changes, refusals) = (changes.as_ref(), counted(&refusals));
    exit_kind(args, ambient, report, changes, &refusals, &target.project)
}

/// Returns the exit status of a run that ended by itself.
fn exit_kind(
    args: &RunArgs,
    ambient: &Ambient,
    report: &RunReport,
    changes: Option<&ReviewedChanges>,
    refusals: &Refusals,
    project: &Project,
) -> Result<ExitKind, CliError> {
    if report.end == RunOutcome::Cancelled
        && let Some(exceeded) = changes.and_then(reviewed::exceeded)
    {
        let failure = CliError::new(ExitKind::Limit, "review.limit", exceeded);
        return Err(failure.hint("apply or discard the changes, or set a larger limit"));
    }
    let can_ask = ambient.reason_not_to_ask(ambient.global.no_input).is_none();
    let limit = resume_hint::describe_limit(&report.end, &args.limits, project);
    let fail_on = &args.answer.fail_on;
    exit_status::exit(report, refusals, fail_on, limit.as_deref(), can_ask)
}

/// Starts to watch the changes of a run, which is cancelled if they become too many.
fn start_review(
    global: &Global,
    review: &mut ReviewedRun,
    session: &Session,
) -> Result<(), CliError> {
    let stopper = session.clone();
    reviewed::started(review, move || stopper.cancel())?;
    if !global.quiet {
        reviewed::print_start(review);
    }
    Ok(())
}

/// Lists the changes of a run. The result is told even if they cannot be listed now.
fn end_review(review: ReviewedRun, goes_on: bool) -> Option<ReviewedChanges> {
    match reviewed::end(review, goes_on) {
        Ok(changes) => Some(changes),
        Err(failure) => {
            stderr::print_diagnostic(&format!("warning: {}", failure.message()));
            None
        }
    }
}

/// A run with its directory and models, before its first turn.
struct StartedRun {
    target: RunTarget,
    models: RunModels,
    kept: RunRecord,
    redactor: Arc<Redactor>,
    recording: PlaybookRecording,
}

impl StartedRun {
    /// Starts a new run, or resumes an earlier one with the rights of its own directory.
    fn start(
        args: &RunArgs,
        ambient: &Ambient,
        mut target: RunTarget,
        earlier: Option<PreviousRun>,
    ) -> Result<Self, CliError> {
        let asked = run_input(args, &ambient.global, &target, earlier.as_ref())?;
        if let Some(file) = &args.answer.output_file {
            answer_file::check(file)?;
        }
        let (project, worker) = (&target.project, &target.worker);
        let models = model::choose(args, ambient, project, worker, &target.workers)?;
        for warning in models.warnings.iter().filter(|_| !ambient.global.quiet) {
            stderr::print_diagnostic(&format!("warning: {warning}"));
        }
        let model = models.entry.name();
        check_model(worker, &model)?;
        let recording = PlaybookRecording::begin(args.record.as_deref())?;
        let secrets = [
            repositories::secrets_of(project, ambient),
            models.secrets.clone(),
        ];
        let redactor = ambient.redactor(&secrets.concat());
        let kept = match earlier {
            None => RunRecord::begin(args, ambient, &mut target, asked, &model, &redactor)?,
            Some(earlier) => {
                let dir = earlier.dir();
                target.grant = dir.mount_in_run(target.grant.clone())?;
                let mut review = None;
                if earlier.is_reviewed() {
                    let (grant, run) =
                        reviewed::resume_worker(&target.grant, &dir.name(), ambient)?;
                    (target.grant, review) = (grant, Some(run));
                }
                let schema = asked.answer_schema;
                let upon = ResumeContext {
                    basis: run_record::basis(&target, &model, schema.as_ref(), &redactor),
                    grant: &target.grant,
                    answer_schema: schema,
                };
                let taken = earlier.take(&ambient.global, args, upon, Arc::clone(&redactor))?;
                RunRecord { review, ..taken }
            }
        };
        Ok(StartedRun {
            target,
            models,
            kept,
            redactor,
            recording,
        })
    }

    /// Returns a session of the target's project, which this run records.
    fn session(
        &self,
        args: &RunArgs,
        ambient: &Ambient,
        observer: Arc<dyn Observer>,
    ) -> Result<Session, CliError> {
        let (project, models) = (&self.target.project, &self.models);
        let approval = &args.approval;
        let programs = HostPrograms::of_project(ambient, project);
        let (no_sandbox, proxy) = (approval.no_os_sandbox, approval.parent_proxy);
        let isolation = setup::isolation(no_sandbox, proxy, &programs, ambient)?;
        let repositories = repositories::repositories(project, ambient)?;
        let mut session = Session::builder(Arc::clone(&models.others));
        if let Some(own) = &models.own {
            session = session.models(own.clone());
        }
        let session = session
            .workers(self.target.workers.clone())
            .max_depth(project.max_depth())
            .max_children(project.max_children())
            .os_sandbox(isolation.os)
            .docker(isolation.docker)
            .parent_proxy(isolation.parent_proxy)
            .repositories(repositories)
            .approver(setup::approver(approval, ambient, project))
            .recorder(self.kept.recorder())
            .redactor(Arc::clone(&self.redactor))
            .observer(self.kept.observer(observer));
        Ok(self.kept.with_answer_schema(session).build())
    }

    /// Begins to show the run. Returns its observer, the view, and the refusals that it counts.
    fn observe(
        &mut self,
        ambient: &Ambient,
        told: &mut EventOutput,
    ) -> (Arc<dyn Observer>, ViewGuard, Arc<Mutex<Refusals>>) {
        let (kept, redactor) = (&self.kept, &self.redactor);
        let start = RunStart {
            worker: self.target.worker.name(),
            model: &self.models.entry.name(),
            input: &kept.input,
            run: kept.dir.path(),
        };
        told.begin(&start, redactor);
        let look = view_options(ambient);
        let (watcher, watching) = RunWatcher::start(look, redactor, told.stream());
        let (tally, refusals) = RefusalCounter::before(watcher);
        let observer = self
            .recording
            .watching(Arc::new(tally), Arc::clone(redactor));
        (observer, watching, refusals)
    }
}

fn view_options(ambient: &Ambient) -> ViewOptions {
    ViewOptions {
        quiet: ambient.global.quiet || ambient.global.streams() && ambient.stdout_terminal,
        verbose: ambient.global.verbose > 0,
        colour: ambient.colour,
        supports_cursor: ambient.supports_cursor,
        answer_is_seen: ambient.stdout_terminal,
    }
}

/// Seals the audit log, and writes the result beside it.
fn store_result(
    kept: &RunRecord,
    report: Option<&RunReport>,
    mut facts: Value,
) -> Result<(), CliError> {
    let sealed = run_dir::seal(&kept.audit, &ending(report))?;
    facts["audit"] = json!(sealed);
    facts["summary"] = json!(summary(kept));
    kept.dir.finish(&facts)
}

fn run_input(
    args: &RunArgs,
    global: &Global,
    target: &RunTarget,
    earlier: Option<&PreviousRun>,
) -> Result<RunInput, CliError> {
    let kept_schema = earlier.and_then(PreviousRun::answer_schema);
    let flag = args.answer.json_schema.as_deref();
    let mut files = NamedFiles::of(&target.grant);
    let answer_schema = flags::answer_schema(&target.worker, flag, kept_schema, &mut files)?;
    Ok(RunInput {
        input: input::input(args, global, &mut files)?,
        attached: attach::read(&args.attach, target, &mut files)?,
        answer_schema,
    })
}

fn check_model(worker: &Worker, model: &str) -> Result<(), CliError> {
    if worker.runs_on(model) {
        return Ok(());
    }
    Err(CliError::misuse(
        "model.incompatible",
        format!(
            "the worker `{}` does not run on the model `{model}`",
            worker.name(),
        ),
    )
    .hint(format!(
        "it names: {}",
        worker.compatible_models().join(", ")
    )))
}

/// Returns the summary of the run's log.
fn summary(kept: &RunRecord) -> Option<Value> {
    let run = crate::state::stored_runs::StoredRun::at(kept.dir.path())?;
    Some(CallSummary::of(&run)?.to_json())
}

/// Returns the result of a run in one word.
fn ending(report: Option<&RunReport>) -> String {
    let Some(report) = report else {
        return "stopped".to_owned();
    };
    let word = serde_json::to_value(&report.end)
        .ok()
        .and_then(|end| end.get("end")?.as_str().map(ToOwned::to_owned));
    word.unwrap_or_else(|| "ended".to_owned())
}
