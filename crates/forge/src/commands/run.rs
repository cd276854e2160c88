//! `forge run`: a worker, and the workers that it calls, driven by a model.

use std::io::Write as _;
use std::path::{Component, Path};
use std::sync::Arc;

use forge_runtime::{Attempts, End, Model as _, Playbook, RunReport, Scripted, Session};
use sandbox_config::{Project, Worker};
use serde_json::json;

use crate::ambient::Ambient;
use crate::bounded::read_text;
use crate::cli::{Global, Run};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::run_dir::{self, RunDir};
use crate::show::Watcher;
use crate::stderr::say;
use crate::subject::{Chosen, chosen};

/// A playbook above this is refused when it is parsed; no need to read more.
const MAX_PLAYBOOK_BYTES: u64 = 2 * 1024 * 1024;

pub(crate) fn run(global: &Global, args: &Run, ambient: &Ambient) -> Result<Exit, Failure> {
    let Chosen {
        project,
        worker,
        grant,
        workers,
    } = chosen(global, args, ambient)?;
    let model = model(args, ambient, &project, &worker)?;
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
    tell(global, &report, &attempts, kept.path())?;
    conclude(&report)
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

/// The flag, else the worker's own, else the project's.
fn model(
    args: &Run,
    ambient: &Ambient,
    project: &Project,
    worker: &Worker,
) -> Result<Scripted, Failure> {
    // A file named on the command line or in the environment is found from here, one
    // named in a project from the project.
    let here = Path::new(".");
    let (named, base) = if let Some(model) = &args.model {
        (model.as_str(), here)
    } else if let Some(model) = ambient.var("FORGE_MODEL") {
        (model, here)
    } else if let Some(model) = worker.model().or_else(|| project.model()) {
        (model, project.dir())
    } else {
        return Err(
            Failure::new(Exit::Usage, "model.missing", "no model is configured")
                .hint("set `model:` in the project file, or pass --model scripted:FILE"),
        );
    };
    let Some(file) = named.strip_prefix("scripted:") else {
        return Err(Failure::new(
            Exit::Usage,
            "model.unknown",
            format!("the model `{named}` is not one that this forge can run"),
        )
        .hint("scripted:FILE plays a playbook; live providers are not in this version yet"));
    };
    // A file that came with a repository does not point forge at the person's others.
    let climbs = Path::new(file)
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
    if base != here && climbs {
        return Err(Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("the project's playbook `{file}` is not inside the project"),
        )
        .hint("name it yourself with --model if you want it"));
    }
    let path = base.join(file);
    let text = read_text(&path, MAX_PLAYBOOK_BYTES).map_err(|error| {
        Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("cannot read the playbook {}: {error}", path.display()),
        )
    })?;
    let playbook = Playbook::parse(&text).map_err(|error| {
        Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("{}: {error}", path.display()),
        )
    })?;
    Ok(Scripted::new(file, playbook))
}

fn tell(
    global: &Global,
    report: &RunReport,
    attempts: &Attempts,
    kept: &Path,
) -> Result<(), Failure> {
    if !attempts.list().is_empty() && !global.quiet {
        say(format_args!("\n{attempts}"));
    }
    if !global.quiet {
        say(format_args!(
            "{} turns, {} calls; kept in {}",
            report.turns,
            report.calls,
            kept.display()
        ));
    }
    let mut out = std::io::stdout().lock();
    let written = if global.json {
        writeln!(
            out,
            "{}",
            json!({"report": report, "attempts": attempts.list(), "run": kept})
        )
    } else if let End::Answered { answer } = &report.end {
        writeln!(out, "{}", answer.trim_end())
    } else {
        Ok(())
    };
    written.map_err(Failure::stdout)
}

fn conclude(report: &RunReport) -> Result<Exit, Failure> {
    match &report.end {
        End::Answered { .. } if report.unanswered.is_empty() => Ok(Exit::Done),
        End::Answered { .. } => Err(Failure::new(
            Exit::Unanswered,
            "approval.unanswered",
            format!(
                "calls needed an approval that nobody could give: {}",
                report.unanswered.join(", ")
            ),
        )
        .hint("run it in a terminal, pre-approve them in the project file, or pass --approve all")),
        End::NotEquipped {
            reason,
            hint,
            isolation,
        } => {
            let (exit, code) = if *isolation {
                (Exit::Isolation, "isolation.unavailable")
            } else {
                (Exit::Negative, "mount.unavailable")
            };
            let failure = Failure::new(exit, code, reason.clone());
            Err(match hint {
                Some(hint) => failure.hint(hint.clone()),
                None => failure,
            })
        }
        end if end.is_limit() => {
            let failure = Failure::new(Exit::Limit, "limit", end.to_string());
            Err(match end.limit_key() {
                Some(key) => {
                    failure.hint(format!("`{key}` sets it, in the project and the worker"))
                }
                None => failure,
            })
        }
        end => Err(Failure::new(Exit::Negative, "run.failed", end.to_string())),
    }
}
