//! `forge run`: a worker, and the workers that it calls, driven by a model.

mod conclude;
mod model;
mod record;
mod told;

use std::sync::Arc;

use forge_runtime::{Model as _, RunReport, Session};
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::{Global, Run};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::run_dir::{self, RunDir};
use crate::show::{Look, Watcher};
use crate::subject::{Chosen, chosen};
use told::Told;

pub(crate) fn run(global: &Global, args: &Run, ambient: &Ambient) -> Result<Exit, Failure> {
    told::telling(global, |told| go(global, args, ambient, told))
}

fn go(global: &Global, args: &Run, ambient: &Ambient, told: &mut Told) -> Result<Exit, Failure> {
    let Chosen {
        project,
        worker,
        grant,
        workers,
    } = chosen(global, args, ambient)?;
    let models = model::choose(args, ambient, &project, &worker, &workers)?;
    let model = &models.entry;
    if !worker.runs_on(&model.name()) {
        return Err(Failure::new(
            Exit::Usage,
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
    let mut record = record::Record::begin(args.record.as_deref())?;

    let kept = RunDir::create(&project, ambient, worker.name())?;
    let audit = Arc::new(kept.audit()?);
    let redactor = ambient.redactor(&[project.redacted(), &models.secrets].concat());
    let transcript = match project.keeps_transcripts() {
        true => Some(Arc::new(kept.transcript(Arc::clone(&redactor))?)),
        false => None,
    };
    let input = args.input.join(" ");
    told.begins(worker.name(), &model.name(), &input, kept.path(), &redactor);
    let look = Look {
        quiet: global.quiet || global.streams() && ambient.stdout_terminal,
        verbose: global.verbose > 0,
        colour: ambient.colour,
        moves: ambient.moves,
        answer_is_seen: ambient.stdout_terminal,
    };
    let (watcher, watching) = Watcher::start(look, &redactor, told.stream(), transcript);
    let mut session = Session::builder(models.others).workers(workers);
    if let Some(own) = models.own {
        session = session.models(own);
    }
    let session = session
        .max_depth(project.max_depth())
        .max_children(project.max_children())
        .os_sandbox(gather::os_sandbox(args.approval.no_os_sandbox))
        .approver(gather::approver(&args.approval, global, ambient, &project))
        .recorder(Arc::clone(&audit) as Arc<dyn forge_tools::Recorder>)
        .redactor(Arc::clone(&redactor))
        .observer(record.watching(watcher, redactor))
        .build();
    // Dropping the run ends every command it started.
    let outcome = gather::until_stopped(session.run(&worker, grant, &input));
    drop(watching);
    told.attempts = attempts.list();
    let sealed = run_dir::seal(&audit, &ending(outcome.as_ref().ok()))?;
    kept.finish(&json!({
        "worker": worker.name(),
        "report": outcome.as_ref().ok(),
        "stopped": outcome.is_err(),
        "attempts": attempts.list(),
        "audit": sealed,
    }))?;
    record.finish()?;
    let report = told.report.insert(outcome?);
    conclude::tell(global, report, &attempts, kept.path())?;
    conclude::exit(report)
}

/// What a run came to, in one word.
fn ending(report: Option<&RunReport>) -> String {
    let Some(report) = report else {
        return "stopped".to_owned();
    };
    let word = serde_json::to_value(&report.end)
        .ok()
        .and_then(|end| end.get("end")?.as_str().map(ToOwned::to_owned));
    word.unwrap_or_else(|| "ended".to_owned())
}
