//! The choice of a worker if the command line names none and the entry worker is missing: at a
//! terminal the others are offered, elsewhere it is a mistake as before.

use sandbox_config::{DiagnosticCode, Diagnostics, Project, Worker};

use crate::commands::prelude::*;
use crate::setup;

/// The entry worker, or the one that is chosen in its place.
pub(crate) fn entry(project: &Project, ambient: &Ambient) -> Result<Worker, CliError> {
    let missing = match project.worker(project.entry()) {
        Ok(worker) => return Ok(worker),
        Err(mistakes) => mistakes,
    };
    let others = project.workers()?;
    if !is_missing(&missing)
        || others.is_empty()
        || ambient.reason_not_to_ask(ambient.global.no_input).is_some()
    {
        return Err(missing.into());
    }
    stderr::print(format_args!(
        "Unknown worker `{}`; the others are:",
        escape(project.entry())
    ));
    for (index, worker) in others.iter().enumerate() {
        let about = worker.description().unwrap_or("");
        let (name, about) = (escape(worker.name()), escape(about));
        stderr::print(format_args!("{:>4}  {name}  {about}", index + 1));
    }
    let explanation = "A number or a name of the list above; Enter: nothing runs.";
    let line = setup::ask_line("Which one? Its number or name; Enter: none\n", explanation).ok();
    let chosen = line.and_then(|line| pick(&others, &line));
    chosen.ok_or_else(|| missing.into())
}

fn is_missing(mistakes: &Diagnostics) -> bool {
    mistakes
        .iter()
        .all(|one| one.code() == DiagnosticCode::UnknownWorker)
}

fn pick(others: &[Worker], word: &str) -> Option<Worker> {
    let by_number = word
        .parse::<usize>()
        .ok()
        .and_then(|number| others.get(number.checked_sub(1)?));
    let by_name = || others.iter().find(|worker| worker.name() == word);
    by_number.or_else(by_name).cloned()
}
