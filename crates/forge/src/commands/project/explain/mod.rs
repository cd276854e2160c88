//! `forge explain`: the decision, its rule, and the answer of every link of the chain from the
//! project down. It runs and makes nothing, and uses the code of the real decision: the chain of
//! the grant, the gate of the tools, the names of the file tools.

mod explanation;
mod target;
mod text;

use forge_tools::describe_refused_hosts;
use sandbox_config::{GrantChain, PresetRights, Project, WithoutDirectories, Worker};

use crate::cli::ExplainArgs;
use crate::commands::exec::denials::describe_grants;
use crate::commands::exec::proposals::RuleOffers;
use crate::commands::log::refused::{CUT_RECORD, RefusedAttempts};
use crate::commands::prelude::*;
use crate::commands::project::allow::exec_project;
use crate::commands::project::explain::explanation::Explanation;
use crate::commands::project::explain::target::ExplainTarget;
use crate::output::describe;
use crate::output::escape::{escape, shell_word};
use crate::setup;
use crate::setup::presets;

pub(crate) fn run(args: &ExplainArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    if let Some(run) = &args.from_run {
        return explain_run(run, ambient);
    }
    let Situation {
        project,
        presets,
        chain,
        last,
    } = Situation::of(args, ambient)?;
    let is_worker = last.is_some();
    let target = ExplainTarget::of(&ambient.global, &project, last, args)?;
    let mut explained = Explanation::of(&project, &chain, target)?;
    if let Some(alone) = setup::project_alone(ambient, presets)? {
        explained.under_own_file(&GrantChain::from_project(&alone), &project);
    }
    let typed = match project.file().is_none() && !is_worker && explained.kind == "path" {
        true => Some(explain_typed(args, ambient)?),
        false => None,
    };
    if ambient.global.json {
        let mut object = explained.as_json();
        if let Some(typed) = &typed {
            object["exec"] = typed.as_json();
        }
        print_json(&object)?;
    } else {
        let as_text = |one: &Explanation| one.as_text(ambient.global.verbose > 0, ambient.layout());
        let text = match &typed {
            None => as_text(&explained),
            Some(typed) => format!(
                "for workers, tools and MCP clients, without a project file:\n{}\n\
                 for commands of `forge exec`, which have the working directory:\n{}",
                as_text(&explained),
                as_text(typed)
            ),
        };
        print_line(text.trim_end())?;
    }
    Ok(ExitKind::Done)
}

/// Explains a path for commands that a person types in a directory without a project file.
fn explain_typed(args: &ExplainArgs, ambient: &Ambient) -> Result<Explanation, CliError> {
    let without_directories = WithoutDirectories::WholeDirectory;
    let project = setup::silently(ambient, None, without_directories, &PresetRights::default())?;
    let target = ExplainTarget::of(&ambient.global, &project, None, args)?;
    Explanation::of(&project, &GrantChain::from_project(&project), target)
}

/// Prints the refusals of a recorded run, and the grants that would let them pass.
fn explain_run(run: &str, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let state = ambient.state_dir()?;
    let refused = RefusedAttempts::of_run(state, run, &setup::project_dir(ambient)?)?;
    let denials = &refused.denials;
    let project = exec_project(ambient)?;
    let home = ambient.home.as_deref();
    let offers = RuleOffers::new(denials, &refused.of_workers, &project, home);
    if ambient.global.json {
        let hosts: Vec<String> = refused.hosts.iter().map(ToString::to_string).collect();
        let object = json!({
            "denials": denials,
            "hosts": hosts,
            "grants": offers.commands(&project),
            "without_grant": offers.without.len(),
            "cut": refused.is_cut,
        });
        print_json(&object)?;
        return Ok(ExitKind::Done);
    }
    let lines = denials.iter().map(|denial| format!("refused: {denial}"));
    let lines = lines.chain(describe_refused_hosts(&refused.contacts));
    let lines = lines.chain(refused.is_cut.then(|| CUT_RECORD.to_owned()));
    let mut lines: Vec<String> = lines.map(|line| escape(&line)).collect();
    match (lines.is_empty(), refused.denied_calls) {
        (true, 0) => lines.push("refused: nothing is recorded".to_owned()),
        (true, calls) => lines.push(format!(
            "no command was refused by the sandbox; {} stopped by rules: forge log show {} --denied",
            match calls {
                1 => "1 call was".to_owned(),
                _ => format!("{calls} calls were"),
            },
            shell_word(run)
        )),
        (false, _) => {}
    }
    if !denials.is_empty() {
        lines.extend(
            describe_grants(&offers, &project)
                .iter()
                .map(|line| escape(line)),
        );
    }
    let text = lines.join("\n");
    print_line(text)?;
    Ok(ExitKind::Done)
}

/// The rights that are explained, and their holder.
struct Situation {
    project: Project,
    /// The rights of presets, which count for typed commands alone.
    presets: PresetRights,
    chain: GrantChain,
    /// The last worker of the chain.
    last: Option<Worker>,
}

impl Situation {
    fn of(args: &ExplainArgs, ambient: &Ambient) -> Result<Situation, CliError> {
        let without_directories = WithoutDirectories::DefaultZones;
        let project = setup::project(ambient, None, without_directories)?;
        let read_only = |chain: GrantChain| match args.rights.read_only {
            true => chain.read_only("--read-only"),
            false => chain,
        };
        // Options for a typed command are not about the entry worker.
        if args.worker.is_some() || !args.rights.is_given() {
            let (chain, last) = lineage(&project, args)?;
            if last.is_some() {
                return Ok(Situation {
                    project,
                    presets: PresetRights::default(),
                    chain: read_only(chain),
                    last,
                });
            }
        }
        let presets = presets::rights_to_explain(&project, &args.rights, ambient)?;
        let project = setup::silently(ambient, None, without_directories, &presets)?;
        Ok(Situation {
            chain: read_only(GrantChain::from_project(&project)),
            last: None,
            project,
            presets,
        })
    }
}

/// Returns the chain to explain: `--as`, `--worker`, the entry worker, or the project's; and its
/// last worker.
fn lineage(
    project: &Project,
    args: &ExplainArgs,
) -> Result<(GrantChain, Option<Worker>), CliError> {
    let names: Vec<&str> = match (&args.chain, &args.worker) {
        (Some(chain), _) => chain.split('>').map(str::trim).collect(),
        (None, Some(worker)) => vec![worker],
        (None, None) => Vec::new(),
    };
    let top = GrantChain::from_project(project);
    let Some((first, rest)) = names.split_first() else {
        let workers = project.workers()?;
        let entry = workers
            .into_iter()
            .find(|worker| worker.name() == project.entry());
        return match entry {
            Some(entry) => Ok((top.entry(&entry).map_err(exceeds)?, Some(entry))),
            None => Ok((top, None)),
        };
    };
    let mut caller = project.worker(first)?;
    let mut lineage = top.entry(&caller).map_err(exceeds)?;
    let mut chain = vec![caller.name().to_owned()];
    for name in rest {
        let worker = project.worker(name)?;
        allowed(project, &caller, &worker, &chain)?;
        lineage = lineage.call(&worker).map_err(exceeds)?;
        chain.push(worker.name().to_owned());
        caller = worker;
    }
    Ok((lineage, Some(caller)))
}

fn exceeds(escalation: sandbox_config::Escalation) -> CliError {
    match escalation.diagnostics() {
        Some(diagnostics) => diagnostics.into(),
        None => CliError::misuse("worker.exceeds_parent", escalation.to_string()),
    }
}

/// The delegation rules that a call goes through before any right is looked at.
fn allowed(
    project: &Project,
    caller: &Worker,
    worker: &Worker,
    chain: &[String],
) -> Result<(), CliError> {
    let name = worker.name();
    let refuse = |code, message: String| {
        CliError::misuse(code, message).hint(format!(
            "{} ({}) may call: {}",
            caller.name(),
            caller.shown(),
            describe::delegates(caller)
        ))
    };
    if chain.iter().any(|above| above == name) {
        return Err(refuse(
            "worker.cycle",
            format!("'{name}' is at work above itself"),
        ));
    }
    if !caller.delegates().allows(name) {
        let message = format!("'{}' may not call '{name}'", caller.name());
        return Err(refuse("worker.not_delegated", message));
    }
    if u64::try_from(chain.len()).unwrap_or(u64::MAX) >= project.max_depth() {
        let message = format!(
            "'{name}' would be deeper than the limit of {}",
            project.max_depth()
        );
        return Err(refuse("worker.too_deep", message));
    }
    Ok(())
}
