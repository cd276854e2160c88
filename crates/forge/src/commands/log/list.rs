//! `forge log list`: the runs, the newest first.

use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local};
use forge_tools::{escape_controls, rfc3339};

use super::calls::{CallReader, LogItem, text};
use super::run_usage::RunUsage;
use super::unreadable;
use crate::commands::prelude::*;
use crate::output::describe::{self, TextLayout, Tone};
use crate::output::escape::{escape, escape_path, shortened};
use crate::output::local_time::{local_time, recorded_time};
use crate::run_view;
use crate::state::run_dir::RunDescription;
use crate::state::stored_runs::{StoredRun, StoredRuns};

/// Longest command line in the list, in characters; `--json` has more of it.
const MAX_COMMAND_CHARS: usize = 60;

/// Longest outcome on a screen, in characters.
const MAX_OUTCOME_CHARS: usize = 24;

/// Typical width of all columns except the command.
const OTHER_COLUMNS: usize = 75;

/// Fewest characters of an id that a screen shows: the second, and the start of the rest.
const MIN_ID_CHARS: usize = 15;

/// The result of a run.
#[derive(Default)]
struct RunEnding {
    outcome: String,
    /// Number of programs that worked on it, one after another.
    programs: u64,
    calls: u64,
    failed: u64,
    denied: u64,
}

/// A filter of runs.
pub(super) struct RunFilter<'a> {
    pub(super) worker: Option<&'a str>,
    pub(super) since_ms: Option<u64>,
    /// `None` for those of all projects.
    pub(super) project: Option<&'a Path>,
    /// At most so many, the newest.
    pub(super) limit: usize,
}

impl RunFilter<'_> {
    /// `true` if worker and time of a run are those that are asked for.
    fn includes(&self, run: &StoredRun) -> bool {
        let at_ms = run.seconds.saturating_mul(1000);
        self.worker.is_none_or(|worker| run.worker == worker)
            && self.since_ms.is_none_or(|since| at_ms >= since)
    }

    fn is_of(&self, about: Option<&RunDescription>) -> bool {
        // One that does not say where it was is listed everywhere.
        match (self.project, about) {
            (Some(project), Some(about)) => about.project == project,
            (None, _) | (_, None) => true,
        }
    }
}

pub(super) fn list(
    global: &Global,
    runs: &StoredRuns,
    wanted: &RunFilter<'_>,
    layout: TextLayout,
) -> Result<ExitKind, CliError> {
    let mut objects = Vec::new();
    let mut rows = Vec::new();
    let (mut listed, mut elsewhere, mut left_out) = (0, 0_u64, 0_u64);
    let mut all_read = true;
    for run in runs.newest_first().filter(|run| wanted.includes(run)) {
        let about = run.about();
        if !wanted.is_of(about.as_ref()) {
            elsewhere += 1;
            continue;
        }
        if listed == wanted.limit {
            left_out += 1;
            continue;
        }
        listed += 1;
        let left = RunUsage::briefly(run);
        let came = match read_ending(run) {
            Ok(came) => came,
            // The runs behind it are listed all the same.
            Err(failure) => {
                all_read = false;
                stderr::print(format_args!("warning: {}", failure.message()));
                RunEnding::unreadable()
            }
        };
        match (global.json, layout.is_screen()) {
            (true, _) => objects.push(object(run, about.as_ref(), &came, &left)),
            (false, true) => {
                let (row, facts) = (row(run, runs, &came), facts(&came, &left));
                rows.push(screen_row(wanted, about.as_ref(), row, facts, layout));
            }
            (false, false) => print_line(line(run, about.as_ref(), wanted, &came, &left))?,
        }
    }
    if global.json {
        print_json(&json!({ "runs": objects, "left_out": left_out }))?;
    } else if !rows.is_empty() {
        let columns = ListColumns::of(layout);
        rows.insert(0, (Tone::Plain, columns.heading(wanted)));
        let table = describe::verdict_table(&rows, "", layout, columns.whole());
        print_line(table.trim_end())?;
    }
    if !global.json && !global.quiet {
        let is_empty = listed == 0 && left_out == 0;
        let elsewhere = if is_empty { elsewhere } else { 0 };
        print_omitted(wanted.limit, left_out, elsewhere);
    }
    Ok(match all_read {
        true => ExitKind::Done,
        false => ExitKind::Negative,
    })
}

/// Prints the numbers of unlisted runs: of older ones, and of those of other projects.
fn print_omitted(limit: usize, left_out: u64, elsewhere: u64) {
    if left_out > 0 {
        stderr::print(format_args!(
            "note: the newest {limit} of {} runs; pass --limit to see more",
            left_out.saturating_add(limit as u64)
        ));
    }
    if elsewhere > 0 {
        let runs = run_view::count(elsewhere, "run");
        stderr::print(format_args!(
            "note: no run of this project, {runs} of others: --all"
        ));
    }
}

/// The columns that fit a screen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListColumns {
    /// Outcome, id and worker.
    Few,
    /// With the start.
    Usual,
    /// With the command and the facts.
    All,
}

impl ListColumns {
    fn of(layout: TextLayout) -> ListColumns {
        match layout.width.unwrap_or(u16::MAX) {
            0..60 => ListColumns::Few,
            60..80 => ListColumns::Usual,
            80.. => ListColumns::All,
        }
    }

    fn heading(self, wanted: &RunFilter<'_>) -> Vec<String> {
        let columns = [
            ("OUTCOME", true),
            ("STARTED", self != ListColumns::Few),
            ("ID", true),
            ("WORKER", true),
            ("PROJECT", wanted.project.is_none()),
            ("COMMAND", self == ListColumns::All),
            ("CALLS", self == ListColumns::All),
        ];
        let shown = columns.iter().filter(|(_, is_shown)| *is_shown);
        shown.map(|(name, _)| (*name).to_owned()).collect()
    }

    /// Returns how many columns are not wrapped: a part of an id names no run.
    fn whole(self) -> usize {
        match self {
            ListColumns::Few => 2,
            ListColumns::Usual | ListColumns::All => 3,
        }
    }
}

/// Adds the project, the command line and the facts to the first cells of a run.
fn screen_row(
    wanted: &RunFilter<'_>,
    about: Option<&RunDescription>,
    (tone, mut cells): (Tone, Vec<String>),
    facts: String,
    layout: TextLayout,
) -> (Tone, Vec<String>) {
    let shown = ListColumns::of(layout);
    if shown == ListColumns::Few {
        // The start is a part of the id.
        cells.remove(1);
    }
    if wanted.project.is_none() {
        cells.push(about.map_or_else(String::new, project_name));
    }
    if shown != ListColumns::All {
        return (tone, cells);
    }
    let command = about.and_then(|about| about.command.as_deref());
    let columns = usize::from(layout.width.unwrap_or_default());
    let chars = columns
        .saturating_sub(OTHER_COLUMNS)
        .clamp(20, MAX_COMMAND_CHARS);
    let command = shortened(escape(command.unwrap_or("")), chars);
    cells.extend([command, facts]);
    (tone, cells)
}

fn began(run: &StoredRun) -> SystemTime {
    recorded_time(Duration::from_secs(run.seconds))
}

fn object(
    run: &StoredRun,
    about: Option<&RunDescription>,
    came: &RunEnding,
    left: &RunUsage,
) -> Value {
    let mut object = json!({
        "run": run.name,
        "worker": run.worker,
        "at": rfc3339(began(run)),
        "project": about.map(|about| about.project.to_string_lossy()),
        "command": about.and_then(|about| about.command.as_deref()),
        "outcome": came.outcome,
        "calls": came.calls,
        "failed": came.failed,
        "denied": came.denied,
        "programs": came.programs,
    });
    for (name, value) in left.fields() {
        object[name] = value;
    }
    object
}

/// Returns the first cells of a run: outcome, start, short id and worker.
fn row(run: &StoredRun, runs: &StoredRuns, came: &RunEnding) -> (Tone, Vec<String>) {
    let tone = match came.outcome.as_str() {
        "done" | "answered" | "exit code 0" => Tone::Good,
        "running" => Tone::Doubtful,
        outcome if outcome.starts_with("pushed") => Tone::Good,
        _ => Tone::Bad,
    };
    let at = DateTime::<Local>::from(began(run)).format("%Y-%m-%d %H:%M");
    let id = runs.short_id(run, MIN_ID_CHARS).to_owned();
    let outcome = came.brief(MAX_OUTCOME_CHARS);
    // The end of a run is recorded by the name that programs read: `model_failed`.
    let is_name = outcome.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let outcome = if is_name {
        outcome.replace('_', " ")
    } else {
        outcome
    };
    let cells = vec![outcome, at.to_string(), id, run.worker.clone()];
    (tone, cells)
}

/// The last part of the project's path: all of it fits no screen.
fn project_name(about: &RunDescription) -> String {
    let name = about.project.file_name();
    escape_path(name.map_or(&about.project, Path::new))
}

/// Returns the counts that are not zero, and the tokens and cost of the models.
fn facts(came: &RunEnding, left: &RunUsage) -> String {
    let mut facts = vec![run_view::count(came.calls, "call")];
    for (count, what) in [(came.failed, "failed"), (came.denied, "denied")] {
        facts.extend((count > 0).then(|| format!("{count} {what}")));
    }
    facts.extend(left.shown());
    facts.join(", ")
}

/// In the person's time, with its distance from UTC.
fn line(
    run: &StoredRun,
    about: Option<&RunDescription>,
    wanted: &RunFilter<'_>,
    came: &RunEnding,
    left: &RunUsage,
) -> String {
    let at = local_time(began(run));
    let mut line = format!("{at}  {}  ", run.shown());
    if let (Some(about), None) = (about, wanted.project) {
        line.push_str(&format!("{}  ", escape_path(&about.project)));
    }
    if let Some(command) = about.and_then(|about| about.command.as_deref()) {
        line.push_str(&format!(
            "{}  ",
            shortened(escape(command), MAX_COMMAND_CHARS)
        ));
    }
    line.push_str(&format!(
        "{}: {}, {} failed, {} denied",
        came.brief(MAX_COMMAND_CHARS),
        run_view::count(came.calls, "call"),
        came.failed,
        came.denied,
    ));
    if let Some(left) = left.shown() {
        line.push_str(&format!("; {left}"));
    }
    line
}

impl RunEnding {
    /// Returns the first line of the outcome, of at most this many characters.
    fn brief(&self, chars: usize) -> String {
        let first = self.outcome.lines().next().unwrap_or_default();
        shortened(escape_controls(first), chars)
    }

    fn unreadable() -> Self {
        RunEnding {
            outcome: "unreadable".to_owned(),
            ..RunEnding::default()
        }
    }
}

/// From the end of its log; of one that has no end, or that several programs wrote, by counting.
fn read_ending(run: &StoredRun) -> Result<RunEnding, CliError> {
    let end = run.end();
    let damage = match (&end, run.noted_head()) {
        (None, Some(_)) => Some("cut off"),
        (Some(end), Some(noted)) if end.head != noted => Some("rewritten"),
        (None | Some(_), _) => None,
    };
    let end = end.map(|end| end.line);
    if let (Some(end), None) = (&end, damage) {
        let count = |name: &str| end[name].as_u64().unwrap_or_default();
        // The counts are those of the last program. It was the only one if the log has exactly the
        // first line and two for each call before it.
        let lines = count("calls").saturating_mul(2).saturating_add(1);
        if end["seq"].as_u64() == Some(lines) {
            return Ok(RunEnding {
                outcome: text(&end["outcome"]),
                programs: 1,
                calls: count("calls"),
                failed: count("failed"),
                denied: count("denied"),
            });
        }
    }
    let outcome = match (damage, &end) {
        (Some(damage), _) => damage.to_owned(),
        (None, Some(end)) => text(&end["outcome"]),
        (None, None) if run.is_locked() => "running".to_owned(),
        (None, None) => "not finished".to_owned(),
    };
    let mut came = RunEnding {
        outcome,
        programs: 1,
        ..RunEnding::default()
    };
    let mut calls = CallReader::new(run).map_err(|error| unreadable(run, &error))?;
    while let Some(item) = calls.next(false).map_err(|error| unreadable(run, &error))? {
        match item {
            LogItem::Call(call) => {
                came.calls += 1;
                came.failed += u64::from(call.is_failed() == Some(true));
                came.denied += u64::from(call.is_denied());
            }
            LogItem::Broken(..) => came.outcome = "broken".to_owned(),
            LogItem::Note(note) => came.programs += u64::from(note["kind"] == "resumed"),
        }
    }
    came.calls += u64::try_from(calls.rest().count()).unwrap_or(u64::MAX);
    Ok(came)
}
