//! A summary of a run, counted from its log: requested tools, runners, decisions, policy events,
//! artifacts and durations. `run.json` stores it; `forge log show` counts anew, so that a killed
//! run has one as well.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forge_tools::escape_controls;
use serde_json::{Value, json};

use super::calls::{CallReader, LogItem, LoggedCall, list, text};
use crate::output::escape::shortened;
use crate::run_view;
use crate::state::stored_runs::StoredRun;

/// Files that are listed; more are counted.
const MAX_ARTIFACTS: usize = 500;
/// Most listed policy events.
const MAX_EVENTS: usize = 200;
/// Different names of tools, reasons and answers that are counted apart.
const MAX_KINDS: usize = 64;
/// Longest detail of a policy event, in characters; the log has the whole.
const MAX_DETAIL_CHARS: usize = 500;
/// Files that a person is shown.
const MAX_SHOWN: usize = 50;

/// Counts calls.
#[derive(Debug, Default)]
pub(crate) struct CallSummary {
    tools: CallTotals,
    runners: CallTotals,
    why_there: CallTotals,
    verdicts: CallTotals,
    answers: CallTotals,
    events: Vec<Value>,
    events_left_out: u64,
    artifacts: Vec<Value>,
    artifacts_left_out: u64,
    calls: u64,
    failed: u64,
    duration_us: u64,
    content_bytes: u64,
}

/// Number of calls for each key.
#[derive(Debug, Default)]
struct CallTotals(BTreeMap<String, u64>);

impl CallTotals {
    fn add(&mut self, what: String) {
        let known = self.0.len() < MAX_KINDS || self.0.contains_key(&what);
        let what = if known { what } else { "others".to_owned() };
        *self.0.entry(what).or_default() += 1;
    }

    fn shown(&self) -> String {
        let each = self.0.iter().map(|(what, count)| format!("{what} {count}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl CallSummary {
    /// Of everything that a run's log says; none where it cannot be read.
    pub(crate) fn of(run: &StoredRun) -> Option<Self> {
        let mut summary = CallSummary::default();
        let mut calls = CallReader::new(run).ok()?;
        while let Some(item) = calls.next(false).ok()? {
            if let LogItem::Call(call) = item {
                summary.add(&call);
            }
        }
        calls.rest().for_each(|call| summary.add(&call));
        Some(summary)
    }

    /// One more call.
    pub(super) fn add(&mut self, call: &LoggedCall) {
        let (decided, came) = (call.decided(), call.came());
        self.calls += 1;
        self.tools.add(call.tool());
        self.verdicts.add(match decided["verdict"].as_str() {
            Some(verdict) => verdict.to_owned(),
            None => "undecided".to_owned(),
        });
        if !decided["answer"].is_null() {
            let (answer, by) = (text(&decided["answer"]), text(&decided["by"]));
            let answer = match answer.as_str() {
                // The reason, not a person.
                "unanswered" => format!("{answer}: {by}"),
                _ => format!("{answer} by {by}"),
            };
            self.answers.add(shortened(answer, MAX_DETAIL_CHARS));
        }
        if !decided["runner"].is_null() {
            let why = shortened(text(&decided["runner"]), MAX_DETAIL_CHARS);
            self.why_there.add(why);
        }
        match came["runner"].as_str() {
            Some(runner) => self.runners.add(runner.to_owned()),
            None => self.runners.add("no result".to_owned()),
        }
        self.failed += u64::from(call.is_failed() != Some(false));
        self.duration_us = self.duration_us.saturating_add(call.duration_us());
        let bytes = came["content_bytes"].as_u64().unwrap_or_default();
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        for event in list(&came["events"]) {
            if event["event"].is_null() || self.events.len() == MAX_EVENTS {
                self.events_left_out += event["cut_items"].as_u64().unwrap_or(1);
                continue;
            }
            let detail = shortened(text(&event["detail"]), MAX_DETAIL_CHARS);
            let what = json!({ "event": event["event"], "detail": detail });
            self.events.push(of_call(call, what));
        }
        for artifact in list(&came["artifacts"]) {
            if artifact["path"].is_null() || self.artifacts.len() == MAX_ARTIFACTS {
                self.artifacts_left_out += artifact["cut_items"].as_u64().unwrap_or(1);
                continue;
            }
            self.artifacts.push(of_call(call, artifact.clone()));
        }
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "requested": { "calls": self.calls, "tools": self.tools.0 },
            "runners": { "chosen": self.runners.0, "why": self.why_there.0 },
            "decisions": { "verdicts": self.verdicts.0, "answers": self.answers.0 },
            "events": self.events,
            "events_left_out": self.events_left_out,
            "artifacts": self.artifacts,
            "artifacts_left_out": self.artifacts_left_out,
            "metrics": {
                "calls": self.calls,
                "failed": self.failed,
                "duration_us": self.duration_us,
                "content_bytes": self.content_bytes,
            },
        })
    }

    /// For a person; nothing where nothing was called.
    pub(super) fn shown(&self) -> Option<String> {
        if self.calls == 0 {
            return None;
        }
        let mut shown = String::new();
        let mut row = |label: &str, what: &str| {
            if !what.is_empty() {
                let _ = writeln!(shown, "{label:<10}{}", escape_controls(what));
            }
        };
        row("requested", &self.tools.shown());
        row("ran", &self.runners.shown());
        row("decided", &self.verdicts.shown());
        row("answered", &self.answers.shown());
        for artifact in self.artifacts.iter().take(MAX_SHOWN) {
            let mut what = format!("{} {}", text(&artifact["effect"]), text(&artifact["path"]));
            if let Some(bytes) = artifact["bytes"].as_u64() {
                let _ = write!(what, "  {}", run_view::count(bytes, "byte"));
            }
            let _ = write!(what, "  by {}", text(&artifact["tool"]));
            if let Some(worker) = artifact["worker"].as_str() {
                let _ = write!(what, " of {worker}");
            }
            let _ = write!(what, " (line {})", artifact["call"]);
            row("file", &what);
        }
        let listed = self.artifacts.len().min(MAX_SHOWN);
        let more = (self.artifacts.len() - listed) as u64 + self.artifacts_left_out;
        if more > 0 {
            row("file", &format!("{more} more"));
        }
        Some(shown.trim_end().to_owned())
    }
}

/// Adds the call to a result.
fn of_call(call: &LoggedCall, mut what: Value) -> Value {
    if let Value::Object(fields) = &mut what {
        fields.insert("call".to_owned(), json!(call.seq()));
        fields.insert("worker".to_owned(), json!(call.workers().last()));
        fields.insert("tool".to_owned(), json!(call.tool()));
    }
    what
}
