//! `forge check`: the project file and every worker, what each would hold, and
//! nothing run.

use std::fmt::Write as _;
use std::io::Write as _;

use sandbox_config::{Delegates, Grant, Project, WithoutFile, Worker};
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::cli::{Check, Global};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::stderr::say;

pub(crate) fn run(global: &Global, _: &Check, ambient: &Ambient) -> Result<Exit, Failure> {
    let project = gather::project(global, ambient, None, WithoutFile::DefaultZones)?;
    let workers = project.workers()?;
    let findings = project.check();
    let calls = calls_that_escalate(&project, &workers);
    let text = if global.json {
        as_json(&project, &workers, &calls).to_string()
    } else {
        as_text(&project, &workers)
    };
    writeln!(std::io::stdout().lock(), "{}", text.trim_end())
        .map_err(|error| Failure::new(Exit::Negative, "stdout", error.to_string()))?;
    if !global.quiet {
        report(&findings, &calls);
    }
    let bad =
        findings.iter().any(|finding| finding.is_error()) || calls.iter().any(|call| call.listed);
    Ok(if bad { Exit::Negative } else { Exit::Done })
}

fn report(findings: &[sandbox_config::Diagnostic], calls: &[Call]) {
    for finding in findings {
        say(finding);
    }
    for call in calls {
        let level = if call.listed { "error" } else { "warning" };
        say(format_args!(
            "{level}[worker.exceeds_parent]: '{}' may call '{}', which asks for more: {}\n  = help: \
             the call is refused when it is made",
            call.from, call.to, call.why
        ));
    }
}

/// A call that the delegation lists allow and the grants refuse.
struct Call {
    from: String,
    to: String,
    why: String,
    /// Whether the list names it; `*` names nobody in particular.
    listed: bool,
}

fn calls_that_escalate(project: &Project, workers: &[Worker]) -> Vec<Call> {
    let mut calls = Vec::new();
    for from in workers {
        let Ok(grant) = held(project, from) else {
            continue;
        };
        for to in workers {
            if to.name() == from.name() || !from.delegates().allows(to.name()) {
                continue;
            }
            if let Err(escalation) = grant.child(to.declaration()) {
                calls.push(Call {
                    from: from.name().to_owned(),
                    to: to.name().to_owned(),
                    why: escalation.to_string(),
                    listed: matches!(from.delegates(), Delegates::Listed(_)),
                });
            }
        }
    }
    calls
}

/// What a worker holds at most: as the entry, or called by somebody with everything.
fn held(project: &Project, worker: &Worker) -> Result<Grant, sandbox_config::Escalation> {
    if worker.name() == project.entry() {
        project.entry_grant(worker)
    } else {
        project.ceiling().child(worker.declaration())
    }
}

fn as_text(project: &Project, workers: &[Worker]) -> String {
    let mut text = String::new();
    let file = project
        .file()
        .map_or("no project file, defaults".to_owned(), |file| {
            file.display().to_string()
        });
    let _ = writeln!(text, "project {} ({file})", project.name());
    for mount in project.ceiling().mounts() {
        let _ = writeln!(
            text,
            "  {:<14} {}  {}",
            mount.target(),
            mount.mode(),
            mount.host().display()
        );
    }
    let _ = writeln!(text, "  network        {}", project.ceiling().network());
    for worker in workers {
        let mark = if worker.name() == project.entry() {
            " (entry)"
        } else {
            ""
        };
        let _ = writeln!(text, "worker {}{mark}", worker.name());
        match held(project, worker) {
            Ok(grant) => {
                for mount in grant.mounts() {
                    let passed = if mount.usable() {
                        ""
                    } else {
                        "  held, not used"
                    };
                    let _ = writeln!(text, "  {:<14} {}{passed}", mount.target(), mount.mode());
                }
                if grant.mounts().next().is_none() {
                    let _ = writeln!(text, "  no files");
                }
                if let Some(rules) = grant.shell() {
                    let _ = writeln!(text, "  shell          {} rules", rules.rules().count());
                }
            }
            Err(escalation) => {
                let _ = writeln!(text, "  refused: {escalation}");
            }
        }
        match worker.delegates() {
            Delegates::None => {}
            Delegates::All => {
                let _ = writeln!(text, "  calls          any worker");
            }
            Delegates::Listed(names) => {
                let _ = writeln!(text, "  calls          {}", names.join(", "));
            }
        }
    }
    text
}

fn as_json(project: &Project, workers: &[Worker], calls: &[Call]) -> Value {
    let mounts = |grant: &Grant| -> Vec<Value> {
        grant
            .mounts()
            .map(|mount| {
                json!({
                    "path": mount.target(),
                    "mode": mount.mode().to_string(),
                    "host": mount.host(),
                    "usable": mount.usable(),
                })
            })
            .collect()
    };
    json!({
        "project": project.name(),
        "file": project.file(),
        "mounts": mounts(project.ceiling()),
        "network": project.ceiling().network().to_string(),
        "workers": workers.iter().map(|worker| json!({
            "name": worker.name(),
            "entry": worker.name() == project.entry(),
            "mounts": held(project, worker).map(|grant| mounts(&grant)).unwrap_or_default(),
        })).collect::<Vec<_>>(),
        "findings": project.check().iter().map(sandbox_config::Diagnostic::to_json).collect::<Vec<_>>(),
        "calls_refused": calls.iter().map(|call| json!({
            "from": call.from, "to": call.to, "why": call.why,
        })).collect::<Vec<_>>(),
    })
}
