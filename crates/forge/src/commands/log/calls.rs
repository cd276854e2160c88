//! The calls of a log, one after another: joins the line of the decision and that of the result. In
//! bounded memory, however long the log is.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::BufReader;

use forge_tools::audit::{LineReader, LogPosition, RawLine};
use serde_json::Value;

use crate::cli::Selection;
use crate::commands::log::since;
use crate::exit::CliError;
use crate::state::stored_runs::StoredRun;

/// Bound on decisions that wait for their results; further ones are shown without it.
const MAX_WAITING: usize = 4096;

/// Something that a log says.
#[derive(Debug)]
pub(super) enum LogItem {
    /// A call, as far as it is known.
    Call(LoggedCall),
    /// The log began again, ended, was sealed.
    Note(Value),
    /// A line that cannot be read.
    Broken(LogPosition, &'static str),
}

/// A call: at least one of the two lines.
#[derive(Debug)]
pub(super) struct LoggedCall {
    pub(super) decision: Option<Value>,
    pub(super) execution: Option<Value>,
}

/// Reads a run's log.
pub(super) struct CallReader<'a> {
    run: &'a StoredRun,
    segment: u32,
    lines: Option<LineReader<BufReader<File>>>,
    line: u64,
    /// The last line is incomplete.
    torn: bool,
    /// `true` if a next file exists, and this one is read to its end for the last time.
    last_look: bool,
    waiting: BTreeMap<u64, Value>,
    /// Read, and not returned yet.
    ready: VecDeque<LogItem>,
}

impl<'a> CallReader<'a> {
    pub(super) fn new(run: &'a StoredRun) -> std::io::Result<Self> {
        let first = run.segment(0)?;
        Ok(CallReader {
            run,
            segment: 0,
            lines: first.map(|file| LineReader::new(BufReader::new(file))),
            line: 0,
            torn: false,
            last_look: false,
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
        })
    }

    /// Returns the next item; `None` at the present end. With `follow` more may come, so an
    /// incomplete line is not broken yet.
    pub(super) fn next(&mut self, follow: bool) -> std::io::Result<Option<LogItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.waiting.len() > MAX_WAITING
                && let Some((_, decision)) = self.waiting.pop_first()
            {
                return Ok(Some(LogItem::Call(LoggedCall::unanswered(decision))));
            }
            let Some(lines) = &mut self.lines else {
                return Ok(None);
            };
            let at = LogPosition {
                segment: self.segment,
                line: self.line + 1,
            };
            let read = match lines.next_line()? {
                None => None,
                Some(RawLine::Torn(_)) => {
                    self.torn = true;
                    continue;
                }
                Some(RawLine::TooLong(_)) => Some(Err("longer than any that we write")),
                Some(RawLine::Whole(bytes)) => Some(match serde_json::from_slice(bytes) {
                    Ok(value @ Value::Object(_)) => Ok(value),
                    Ok(_) | Err(_) => Err("no line of an audit log"),
                }),
            };
            let Some(read) = read else {
                if self.next_segment()? {
                    continue;
                }
                if self.torn && !follow {
                    self.torn = false;
                    return Ok(Some(LogItem::Broken(at, "the line is torn")));
                }
                return Ok(None);
            };
            self.torn = false;
            self.line += 1;
            let item = match read {
                Ok(value) => self.item(value, at),
                Err(why) => Some(LogItem::Broken(at, why)),
            };
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Returns the decisions without a result.
    pub(super) fn rest(self) -> impl Iterator<Item = LoggedCall> {
        self.waiting.into_values().map(LoggedCall::unanswered)
    }

    fn item(&mut self, value: Value, at: LogPosition) -> Option<LogItem> {
        match value["kind"].as_str() {
            Some("decision") => {
                let Some(seq) = value["seq"].as_u64() else {
                    return Some(LogItem::Broken(at, "a decision without a number"));
                };
                let before = self.waiting.insert(seq, value);
                before.map(|decision| LogItem::Call(LoggedCall::unanswered(decision)))
            }
            Some("execution") => {
                let decision = value["call"]
                    .as_u64()
                    .and_then(|call| self.waiting.remove(&call));
                Some(LogItem::Call(LoggedCall {
                    decision,
                    execution: Some(value),
                }))
            }
            Some("resumed" | "end") => {
                // The program that made these calls is gone: none of them gets a result any more.
                let open = std::mem::take(&mut self.waiting).into_values();
                let open = open.map(|decision| LogItem::Call(LoggedCall::unanswered(decision)));
                self.ready.extend(open);
                self.ready.push_back(LogItem::Note(value));
                None
            }
            Some("begin" | "seal") => Some(LogItem::Note(value)),
            Some(_) | None => Some(LogItem::Broken(at, "no line of an audit log")),
        }
    }

    /// Turns to the next file, once this one is read. It may have grown since its end was seen,
    /// but not any more once a next one exists.
    fn next_segment(&mut self) -> std::io::Result<bool> {
        if self.torn {
            return Ok(false);
        }
        let Some(file) = self.run.segment(self.segment + 1)? else {
            return Ok(false);
        };
        if !self.last_look {
            self.last_look = true;
            return Ok(true);
        }
        self.last_look = false;
        self.segment += 1;
        self.line = 0;
        self.lines = Some(LineReader::new(BufReader::new(file)));
        Ok(true)
    }
}

impl LoggedCall {
    /// A call of which no result is recorded.
    fn unanswered(decision: Value) -> Self {
        LoggedCall {
            decision: Some(decision),
            execution: None,
        }
    }

    fn asked(&self) -> &Value {
        self.decision.as_ref().unwrap_or(&Value::Null)
    }

    pub(super) fn decided(&self) -> &Value {
        &self.asked()["decision"]
    }

    pub(super) fn came(&self) -> &Value {
        self.execution.as_ref().unwrap_or(&Value::Null)
    }

    pub(super) fn at_ms(&self) -> u64 {
        let known = self.asked()["at_ms"].as_u64();
        known
            .or_else(|| self.came()["at_ms"].as_u64())
            .unwrap_or_default()
    }

    pub(super) fn duration_us(&self) -> u64 {
        self.came()["duration_us"].as_u64().unwrap_or_default()
    }

    /// The number of its first line.
    pub(super) fn seq(&self) -> u64 {
        let known = self.asked()["seq"].as_u64();
        known
            .or_else(|| self.came()["call"].as_u64())
            .unwrap_or_default()
    }

    pub(super) fn tool(&self) -> String {
        text(&self.asked()["tool"])
    }

    pub(super) fn arguments(&self) -> &Value {
        &self.asked()["arguments"]
    }

    /// The workers from the entry down.
    pub(super) fn workers(&self) -> Vec<String> {
        list(&self.asked()["workers"]).iter().map(text).collect()
    }

    /// Returns the exit code of its command, if that is not 0.
    fn failed_exit(&self) -> Option<i64> {
        self.came()["exit_code"].as_i64().filter(|code| *code != 0)
    }

    /// `true` if it or its command failed. `None` without a result.
    pub(super) fn is_failed(&self) -> Option<bool> {
        let ok = self.came()["ok"].as_bool()?;
        Some(!ok || self.failed_exit().is_some())
    }

    /// `ok`, the failure's code, the exit code of a command that failed, or that nothing is known.
    pub(super) fn outcome(&self) -> String {
        match (self.came()["ok"].as_bool(), &self.came()["code"]) {
            (Some(true), _) => match self.failed_exit() {
                Some(code) => format!("exit code {code}"),
                None => "ok".to_owned(),
            },
            (Some(false), code) => text(code),
            (None, _) => "no result".to_owned(),
        }
    }

    /// `true` if a rule, a person or a missing approver stopped it.
    pub(super) fn is_denied(&self) -> bool {
        let mut events = list(&self.came()["events"]).iter();
        events.any(|event| event["event"] == "denied")
    }

    /// The object for programs: both lines.
    pub(super) fn to_json(&self) -> Value {
        serde_json::json!({ "decision": self.decision, "execution": self.execution })
    }
}

/// Returns a text of a record; other values as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns a list of a record; an empty one for other values.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A filter of calls.
pub(super) struct CallFilter<'a> {
    selection: &'a Selection,
    since_ms: Option<u64>,
}

impl<'a> CallFilter<'a> {
    pub(super) fn new(selection: &'a Selection) -> Result<Self, CliError> {
        let since_ms = selection.since.as_deref().map(since::parse).transpose()?;
        Ok(CallFilter {
            selection,
            since_ms,
        })
    }

    /// `true` if the filter excludes any call.
    pub(super) fn only_some(&self) -> bool {
        let Selection {
            denied,
            since,
            tool,
            worker,
        } = self.selection;
        *denied || since.is_some() || tool.is_some() || worker.is_some()
    }

    pub(super) fn has(&self, call: &LoggedCall) -> bool {
        let Selection {
            denied,
            since: _,
            tool,
            worker,
        } = self.selection;
        (!denied || call.is_denied())
            && self.since_ms.is_none_or(|since| call.at_ms() >= since)
            && tool.as_ref().is_none_or(|tool| call.tool() == *tool)
            && worker
                .as_ref()
                .is_none_or(|worker| call.workers().last() == Some(worker))
    }
}
