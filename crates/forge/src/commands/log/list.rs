//! `forge log list`: the runs, the newest first.

use std::time::{Duration, UNIX_EPOCH};

use forge_tools::{escape_controls, rfc3339};
use serde_json::{Value, json};

use super::calls::{Calls, Item, text};
use super::told::Left;
use super::{put, since, unreadable};
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::runs::{Run, Runs};
use crate::show;
use crate::stderr::say;

/// What a run came to.
struct Came {
    outcome: String,
    /// How many programs worked on it, one after another.
    programs: u64,
    calls: u64,
    failed: u64,
    denied: u64,
}

pub(super) fn list(
    global: &Global,
    runs: &Runs,
    worker: Option<&str>,
    since: Option<&str>,
) -> Result<Exit, Failure> {
    let since_ms = since.map(since::parse).transpose()?;
    let wanted = runs
        .newest_first()
        .filter(|run| worker.is_none_or(|worker| run.worker == worker))
        .filter(|run| since_ms.is_none_or(|since| run.seconds.saturating_mul(1000) >= since));
    let mut rows = Vec::new();
    let mut all_read = true;
    for run in wanted {
        let left = Left::briefly(run);
        let came = match came(run) {
            Ok(came) => came,
            // The runs behind it are listed all the same.
            Err(failure) => {
                all_read = false;
                say(format_args!("warning: {}", failure.message()));
                Came::unreadable()
            }
        };
        let at = rfc3339(UNIX_EPOCH + Duration::from_secs(run.seconds.min(253_402_300_799)));
        if global.json {
            let mut row = json!({
                "run": run.name,
                "worker": run.worker,
                "at": at,
                "outcome": came.outcome,
                "calls": came.calls,
                "failed": came.failed,
                "denied": came.denied,
                "programs": came.programs,
            });
            for (name, value) in left.fields() {
                row[name] = value;
            }
            rows.push(row);
        } else {
            let more = left.shown().map(|left| format!("; {left}"));
            put(format_args!(
                "{at}  {}  {}: {}, {} failed, {} denied{}",
                run.shown(),
                escape_controls(&came.outcome),
                show::count(came.calls, "call"),
                came.failed,
                came.denied,
                more.unwrap_or_default(),
            ))?;
        }
    }
    if global.json {
        put(json!({ "runs": rows }))?;
    }
    Ok(if all_read { Exit::Done } else { Exit::Negative })
}

impl Came {
    fn unreadable() -> Self {
        Came {
            outcome: "unreadable".to_owned(),
            programs: 0,
            calls: 0,
            failed: 0,
            denied: 0,
        }
    }
}

/// From the end of its log; of one that has no end, or that several programs wrote, by counting.
fn came(run: &Run) -> Result<Came, Failure> {
    let end = run.end();
    if let Some(end) = &end {
        let count = |name: &str| end[name].as_u64().unwrap_or_default();
        // What stands there are the calls of the last program. It was the only one if there is
        // nothing before but the first line and two for each of them.
        let lines = count("calls").saturating_mul(2).saturating_add(1);
        if end["seq"].as_u64() == Some(lines) {
            return Ok(Came {
                outcome: text(&end["outcome"]),
                programs: 1,
                calls: count("calls"),
                failed: count("failed"),
                denied: count("denied"),
            });
        }
    }
    let outcome = match &end {
        Some(end) => text(&end["outcome"]),
        None if run.is_locked() => "running".to_owned(),
        None => "not finished".to_owned(),
    };
    let mut came = Came {
        outcome,
        programs: 1,
        calls: 0,
        failed: 0,
        denied: 0,
    };
    let mut calls = Calls::new(run).map_err(|error| unreadable(run, &error))?;
    while let Some(item) = calls.next(false).map_err(|error| unreadable(run, &error))? {
        match item {
            Item::Call(call) => {
                came.calls += 1;
                came.failed += u64::from(call.came()["ok"] == Value::Bool(false));
                came.denied += u64::from(call.is_denied());
            }
            Item::Broken(..) => came.outcome = "broken".to_owned(),
            Item::Note(note) => came.programs += u64::from(note["kind"] == "resumed"),
        }
    }
    came.calls += u64::try_from(calls.rest().count()).unwrap_or(u64::MAX);
    Ok(came)
}
