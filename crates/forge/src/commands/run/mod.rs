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
mod run_record;

use std::sync::Arc;

use forge_runtime::{Model as _, RunReport, Session};
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::{Global, RunArgs};
use crate::commands::log::summary::CallSummary;
use crate::exit::{CliError, ExitKind};
use crate::run_view::{RunWatcher, ViewOptions};
use crate::setup;
use crate::setup::repositories;
use crate::setup::target::{RunTarget, run_target, with_sentence_as_input};
use crate::signals::ExitOnSignal;
use crate::state::run_dir;
use event_output::EventOutput;
use resume::{PreviousRun, ResumeContext, ResumeState};
use run_record::{RunInput, RunRecord};

use refusal_counts::{RefusalCounter, counted};

pub(crate) fn run(
    global: &Global,
    args: &RunArgs,
    ambient: &Ambient,
) -> Result<ExitKind, CliError> {
    let args = &with_sentence_as_input(global, args);
    event_output::telling(global, |told| {
        let Some(name) = &args.resume else {
            return run_worker(global, args, ambient, None, told);
        };
        let earlier = match PreviousRun::find(global, ambient, name)? {
            ResumeState::Open(earlier) => *earlier,
            ResumeState::Answered(answered) => return answered.tell(global, args, ambient, told),
        };
        let (global, args) = earlier.as_then(global, args);
        run_worker(&global, &args, ambient, Some(earlier), told)
    })
}

fn run_worker(
    global: &Global,
    args: &RunArgs,
    ambient: &Ambient,
    earlier: Option<PreviousRun>,
    told: &mut EventOutput,
) -> Result<ExitKind, CliError> {
    let global = &flags::applied(global, args, ambient)?;
    answer_file::somewhere()?;
    let mut target = run_target(global, args, ambient)?;
    if args.dry_run {
        return plan::show(global, args, ambient, &target);
    }
    let kept_schema = earlier.as_ref().and_then(PreviousRun::answer_schema);
    let flag = args.answer.json_schema.as_deref();
    let answer_schema = flags::answer_schema(&target.worker, flag, kept_schema)?;
    let asked = RunInput {
        input: input::input(args)?,
        attached: attach::read(&args.attach, &target)?,
        answer_schema,
    };
    if let Some(file) = &args.answer.output_file {
        answer_file::check(file)?;
    }
    let (project, worker) = (&target.project, &target.worker);
    let models = model::choose(args, ambient, project, worker, &target.workers)?;
    let model = &models.entry;
    if !worker.runs_on(&model.name()) {
        return Err(CliError::new(
            ExitKind::Usage,
            "model.incompatible",
            format!(
                "the worker `{}` does not run on the model `{}`",
                worker.name(),
                model.name()
            ),
        )
        .hint(format!(
            "it names: {}",
            worker.compatible_models().join(", ")
        )));
    }
    let attempts = models.attempts;
    let mut record = recording::PlaybookRecording::begin(args.record.as_deref())?;

    let redactor =
        ambient.redactor(&[repositories::unseen(project, ambient), models.secrets].concat());
    let kept = match earlier {
        None => {
            let model = model.name();
            RunRecord::begin(args, ambient, &mut target, asked, &model, &redactor)?
        }
        Some(earlier) => {
            target.grant = earlier.dir().holds(target.grant.clone())?;
            let schema = asked.answer_schema;
            let basis = run_record::basis(&target, &model.name(), schema.as_ref(), &redactor);
            let upon = ResumeContext {
                basis,
                grant: &target.grant,
                answer_schema: schema,
            };
            earlier.take(global, args, upon, Arc::clone(&redactor))?
        }
    };
    let RunTarget {
        project,
        worker,
        grant,
        workers,
        alone: _,
    } = target;
    told.begins(
        worker.name(),
        &model.name(),
        &kept.input,
        kept.dir.path(),
        &redactor,
    );
    let look = ViewOptions {
        quiet: global.quiet || global.streams() && ambient.stdout_terminal,
        verbose: global.verbose > 0,
        colour: ambient.colour,
        supports_cursor: ambient.supports_cursor,
        answer_is_seen: ambient.stdout_terminal,
    };
    let (watcher, watching) = RunWatcher::start(look, &redactor, told.stream());
    let (tally, refusals) = RefusalCounter::before(watcher);
    let isolation = setup::isolation(args.approval.no_os_sandbox, ambient);
    let repositories = repositories::repositories(&project, ambient)?;
    let mut session = Session::builder(models.others).workers(workers);
    if let Some(own) = models.own {
        session = session.models(own);
    }
    if let Some(schema) = &kept.answer_schema {
        session = session.output_schema(schema.clone());
    }
    let session = session
        .max_depth(project.max_depth())
        .max_children(project.max_children())
        .os_sandbox(isolation.os)
        .docker(isolation.docker)
        .repositories(repositories)
        .approver(setup::approver(&args.approval, global, ambient, &project))
        .recorder(kept.recorder())
        .redactor(Arc::clone(&redactor))
        .observer(kept.observer(record.watching(Arc::new(tally), Arc::clone(&redactor))))
        .build();
    // A run that is stopped ends every command, and every open call gets its result.
    let stopper = session.clone();
    let work = session.resume(&worker, grant, kept.conversation.clone());
    let (report, stopped) = match setup::stopping(work, || stopper.cancel()) {
        Ok((report, stopped)) => (Some(report), stopped),
        Err(failure) => (None, Some(failure)),
    };
    let report = report.map(|report| redacted::report(report, &redactor));
    let after = ExitOnSignal::listen();
    told.attempts = attempts.list();
    let sealed = run_dir::seal(&kept.audit, &ending(report.as_ref()))?;
    kept.dir.finish(&json!({
        "worker": worker.name(),
        "report": report,
        "stopped": stopped.is_some(),
        "ephemeral": args.ephemeral,
        "attempts": attempts.list(),
        "audit": sealed,
        "summary": summary(&kept),
    }))?;
    record.finish()?;
    drop(after);
    drop(watching);
    kept.say_how_it_goes_on(global, report.as_ref());
    if let Some(report) = &report {
        let output = args.answer.output_file.as_deref();
        exit_status::tell(
            global,
            report,
            &attempts,
            kept.dir.path(),
            output,
            ambient.stdout_terminal,
        )?;
    }
    told.report = report;
    match (stopped, &told.report) {
        (None, Some(report)) => {
            exit_status::exit(report, &counted(&refusals), &args.answer.fail_on)
        }
        (Some(failure), _) => Err(failure),
        (None, None) => Ok(ExitKind::Negative),
    }
}

/// Returns the summary of the run's log.
fn summary(kept: &RunRecord) -> Option<serde_json::Value> {
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
