//! `--dry-run`: the workers and their rights, one block a worker, without a model, a key or a run
//! directory.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use file_sandbox::SandboxPath;
use forge_tools::Spec;
use sandbox_config::{DelegationNode, Mode, Operation, Verdict};

use crate::cli::RunArgs;
use crate::commands::prelude::*;
use crate::output::describe;
use crate::output::describe_git;
use crate::setup::offered_tools;
use crate::setup::target::RunTarget;

pub(super) fn show(
    args: &RunArgs,
    ambient: &Ambient,
    chosen: &RunTarget,
) -> Result<ExitKind, CliError> {
    let RunTarget {
        project, worker, ..
    } = chosen;
    if ambient.global.streams() {
        return Err(CliError::usage(
            "--dry-run has no events to stream; pass --json",
        ));
    }
    let replayed = args.replay.as_ref().map(|file| format!("scripted:{file}"));
    let typed = args.model.as_deref().or(replayed.as_deref());
    let typed = typed.or_else(|| ambient.var("FORGE_MODEL"));
    let tools = offered_tools::all_tools()?;
    let mut blocks = Vec::new();
    let mut objects = Vec::new();
    let branch = project.branch(worker.name());
    let mut add = |name: &str, caller: &str, grant: &sandbox_config::Grant| {
        let own = chosen.workers.iter().find(|one| one.name() == name);
        let model = typed
            .or_else(|| own.and_then(|one| one.model()))
            .or_else(|| project.model());
        let asks = asked(grant, &tools);
        let reviewed = reviewed_dirs(args, grant);
        blocks.push(block(name, caller, model, grant, &reviewed, &asks));
        objects.push(json!({
            "worker": name,
            "called_by": if caller.is_empty() { Value::Null } else { json!(caller) },
            "model": model,
            "grant": describe::grant_json(grant),
            "reviews_changes_in": reviewed,
            "asks": asks,
        }));
    };
    add(worker.name(), "", &chosen.grant);
    let mut seen = BTreeSet::new();
    if let Some(branch) = &branch {
        below(branch, worker.name(), &mut seen, &mut add);
    }
    let object = json!({"plan": objects, "calls_model": false});
    let text = format!("{}\ncalls model: no", blocks.join("\n"));
    print_result(&ambient.global, &object, &text)
}

/// Adds every called worker, once for each caller.
fn below<'b>(
    branch: &'b DelegationNode,
    caller: &'b str,
    seen: &mut BTreeSet<(&'b str, &'b str)>,
    add: &mut impl FnMut(&str, &str, &sandbox_config::Grant),
) {
    for call in branch.calls() {
        if call.standing().is_called() && seen.insert((caller, call.worker())) {
            add(call.worker(), caller, call.grant());
            below(call, call.worker(), seen, add);
        }
    }
}

fn block(
    name: &str,
    caller: &str,
    model: Option<&str>,
    grant: &sandbox_config::Grant,
    reviewed: &[&str],
    asks: &[String],
) -> String {
    let mut text = match caller {
        "" => format!("worker {}\n", escape(name)),
        caller => format!("worker {} (called by {})\n", escape(name), escape(caller)),
    };
    let _ = writeln!(
        text,
        "{}",
        describe::mount_table(grant, "  ", describe::TextLayout::default(), true).trim_end()
    );
    let asks = match asks {
        [] => "nothing".to_owned(),
        list => list.join(", "),
    };
    let mut rows = vec![
        ("model", model.unwrap_or("none").to_owned()),
        ("shell", describe::shell(grant)),
    ];
    rows.extend(describe::commands(grant));
    rows.extend(describe_git::repositories(grant));
    if !reviewed.is_empty() {
        let dirs = reviewed.join(", ");
        rows.push((
            "review",
            format!("changes in {dirs} are made in a copy, and wait: forge review"),
        ));
    }
    rows.push(("asked", asks));
    for (name, value) in rows {
        let _ = writeln!(text, "  {name}: {}", escape(&value));
    }
    text
}

/// Returns the directories in which changes wait for a person.
fn reviewed_dirs<'g>(args: &RunArgs, grant: &'g sandbox_config::Grant) -> Vec<&'g str> {
    let all = args.review || grant.confinement().reviews_changes();
    let is_reviewed = |mount: &&sandbox_config::Mount| {
        mount.mode() == Mode::ReadWrite && !mount.awaits_run() && (all || mount.is_staged())
    };
    grant
        .mounts()
        .filter(is_reviewed)
        .map(sandbox_config::Mount::target)
        .collect()
}

/// Returns the questions that are known before a call is made, each with the setting behind it.
fn asked(grant: &sandbox_config::Grant, tools: &[Spec]) -> Vec<String> {
    let mut list = Vec::new();
    for mount in grant.mounts().filter(|mount| mount.usable()) {
        let Ok(path) = SandboxPath::parse(mount.target()) else {
            continue;
        };
        for operation in Operation::ALL {
            let reads_only = mount.mode() == Mode::ReadOnly;
            if reads_only && operation != Operation::Read {
                continue;
            }
            let Some(judged) = offered_tools::judge_file(grant, tools, operation, &path) else {
                continue;
            };
            if judged.verdict == forge_tools::Verdict::Ask {
                let setting = judged
                    .deciding()
                    .first()
                    .map(|reason| match &reason.origin {
                        Some(origin) => format!(" ({origin})"),
                        None => format!(" ({})", reason.text),
                    });
                let word = operation_word(operation);
                let target = mount.target();
                list.push(format!("{word} in {target}{}", setting.unwrap_or_default()));
            }
        }
    }
    if let Some(shell) = grant.shell() {
        for (pattern, verdict, origin) in shell.rules() {
            if verdict == Verdict::Ask {
                list.push(format!("`{pattern}` ({origin})"));
            }
        }
    }
    list
}

fn operation_word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "reading",
        Operation::Write => "writing",
        Operation::Delete => "deleting",
    }
}
