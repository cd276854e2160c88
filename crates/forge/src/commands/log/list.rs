//! `forge log list`: the runs, the newest first.

use std::time::{Duration, UNIX_EPOCH};

use forge_tools::{escape_controls, rfc3339};
use serde_json::{Value, json};

use super::calls::{Calls, Item, text};
use super::{put, since, unreadable};
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::runs::{Run, Runs};

/// What a run came to.
struct Came {
    outcome: String,
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
    for run in wanted {
        let came = came(run)?;
        let at = rfc3339(UNIX_EPOCH + Duration::from_secs(run.seconds.min(253_402_300_799)));
        if global.json {
            rows.push(json!({
                "run": run.name,
                "worker": run.worker,
                "at": at,
                "outcome": came.outcome,
                "calls": came.calls,
                "failed": came.failed,
                "denied": came.denied,
            }));
        } else {
            put(format_args!(
                "{at}  {}  {}: {}, {} failed, {} denied",
                run.shown(),
                escape_controls(&came.outcome),
                counted(came.calls, "call"),
                came.failed,
                came.denied,
            ))?;
        }
    }
    if global.json {
        put(json!({ "runs": rows }))?;
    }
    Ok(Exit::Done)
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// From the end of its log; of one that has no end, by counting.
fn came(run: &Run) -> Result<Came, Failure> {
    if let Some(end) = run.end() {
        let count = |name: &str| end[name].as_u64().unwrap_or_default();
        return Ok(Came {
            outcome: text(&end["outcome"]),
            calls: count("calls"),
            failed: count("failed"),
            denied: count("denied"),
        });
    }
    let mut came = Came {
        outcome: if run.is_locked() {
            "running"
        } else {
            "not finished"
        }
        .to_owned(),
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
            Item::Note(_) => {}
        }
    }
    came.calls += u64::try_from(calls.rest().count()).unwrap_or(u64::MAX);
    Ok(came)
}
