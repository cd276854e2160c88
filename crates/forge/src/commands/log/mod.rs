//! `forge log list|show|verify|export`: the kept runs, and their decisions.
//!
//! Records hold text of models, so all of it is escaped for a terminal. Logs are read line by line,
//! and an unreadable line is shown as such, never skipped.

mod calls;
mod export;
mod list;
pub(crate) mod refused;
mod run_usage;
mod show;
mod since;
pub(crate) mod summary;
mod verify;

use crate::cli::{LogAction, LogArgs};
use crate::commands::prelude::*;
use crate::setup;
use crate::state::stored_runs::{StoredRun, StoredRuns};

pub(crate) fn run(args: &LogArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let state = ambient.state_dir()?;
    let runs = StoredRuns::read(state)?;
    let project = setup::project_dir(ambient);
    match args.action.as_ref().unwrap_or(&LogAction::DEFAULT) {
        LogAction::List {
            worker,
            since,
            all,
            limit,
        } => {
            let project = match all {
                true => None,
                false => project.ok(),
            };
            let wanted = list::RunFilter {
                worker: worker.as_deref(),
                since_ms: since.as_deref().map(since::parse).transpose()?,
                project: project.as_deref(),
                limit: *limit,
            };
            list::list(&ambient.global, &runs, &wanted, ambient.layout())
        }
        LogAction::Show {
            run,
            selection,
            follow,
        } => show::show(
            &ambient.global,
            runs.find(run, &project?)?,
            selection,
            *follow,
        ),
        LogAction::Verify { runs: names, all } => {
            let (chosen, whose) = match (names.as_slice(), project) {
                ([], Ok(project)) if !all => (runs.of_project(&project).collect(), "this project"),
                ([], _) => (runs.newest_first().collect(), "all projects"),
                (names, project) => {
                    let project = project?;
                    let found = names.iter().map(|name| runs.find(name, &project));
                    (found.collect::<Result<Vec<&StoredRun>, CliError>>()?, "")
                }
            };
            verify::verify(&ambient.global, &chosen, whose)
        }
        LogAction::Export { .. } if ambient.global.json => Err(CliError::usage(
            "`forge log export` has forms of its own: --format csv, --format otel",
        )
        .hint("`forge log show --json` prints a run as JSON")),
        LogAction::Export {
            run,
            format,
            selection,
        } => export::export(runs.find(run, &project?)?, *format, selection),
    }
}

/// A log, or the terminal, failed.
fn unreadable(run: &StoredRun, error: &std::io::Error) -> CliError {
    CliError::negative(
        "log.unreadable",
        format!("cannot read the log of {}: {error}", run.shown()),
    )
}
