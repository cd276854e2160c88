//! `forge run`: a worker, and the workers that it calls, driven by a model.

mod conclude;
mod model;

use std::sync::Arc;

use forge_runtime::{Model as _, RunReport, Session};
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::{Global, Run};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::run_dir::{self, RunDir};
use crate::show::Watcher;
use crate::subject::{Chosen, chosen};

pub(crate) fn run(global: &Global, args: &Run, ambient: &Ambient) -> Result<Exit, Failure> {
    let Chosen {
        project,
        worker,
        grant,
        workers,
    } = chosen(global, args, ambient)?;
    let model = model::choose(args, ambient, &project, &worker)?;
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
    let attempts = model.attempts();

    let kept = RunDir::create(&project, ambient, worker.name())?;
    let audit = Arc::new(kept.audit()?);
    let redactor = ambient.redactor(project.redacted());
    let transcript = match project.keeps_transcripts() {
        true => Some(Arc::new(kept.transcript(Arc::clone(&redactor))?)),
        false => None,
    };
    let session = Session::builder(model)
        .workers(workers)
        .max_depth(project.max_depth())
        .max_children(project.max_children())
        .os_sandbox(gather::os_sandbox(args.approval.no_os_sandbox))
        .approver(gather::approver(&args.approval, global, ambient, &project))
        .recorder(Arc::clone(&audit) as Arc<dyn forge_tools::Recorder>)
        .redactor(redactor)
        .observer(Arc::new(Watcher::new(global.quiet, transcript)))
        .build();
    let input = args.input.join(" ");
    // Dropping the run ends every command it started.
    let outcome = gather::until_stopped(session.run(&worker, grant, &input));
    let sealed = run_dir::seal(&audit, &ending(outcome.as_ref().ok()))?;
    kept.finish(&json!({
        "worker": worker.name(),
        "report": outcome.as_ref().ok(),
        "stopped": outcome.is_err(),
        "attempts": attempts.list(),
        "audit": sealed,
    }))?;
    let report = outcome?;
    conclude::tell(global, &report, &attempts, kept.path())?;
    conclude::exit(&report)
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
