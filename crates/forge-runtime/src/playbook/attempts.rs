//! Attempts: calls of a hostile playbook, and the layer that stopped each of them, read from the
//! real results.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

/// A forbidden call of a playbook.
///
/// ```
/// fn held(attempt: &forge_runtime::AttackAttempt) -> bool {
///     attempt.stopped
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttackAttempt {
    /// The worker.
    pub worker: String,
    /// Description of the attempt.
    pub what: String,
    /// `true` if it was stopped.
    pub stopped: bool,
    /// The layer that stopped it.
    pub layer: String,
    /// The rule or mechanism.
    pub rule: String,
}

/// The attempts of a run, shared between the run and its printer.
///
/// ```
/// let attempts = forge_runtime::AttackAttempts::default();
/// assert!(attempts.list().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct AttackAttempts {
    /// Each with the line of its turn in the playbook.
    list: Arc<Mutex<Vec<(u64, AttackAttempt)>>>,
    /// By the worker and the line of each list of turns.
    last_turns: Arc<Mutex<BTreeMap<(String, u64), LastTurn>>>,
}

/// The last turn of a list that was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LastTurn {
    /// From 1.
    number: usize,
    /// `true` if no call leads to the next one.
    is_early: bool,
}

impl AttackAttempts {
    /// Returns the attempts so far, in the order of the playbook: workers that run side by side
    /// reach theirs in any order.
    pub fn list(&self) -> Vec<AttackAttempt> {
        let mut list = self.lock().clone();
        list.sort_by_key(|(line, _)| *line);
        list.into_iter().map(|(_, attempt)| attempt).collect()
    }

    /// Describes the turns behind an answer, which no model is asked for.
    pub fn unplayed(&self) -> Option<String> {
        let turns = self.lock_turns();
        let ((worker, _), LastTurn { number, .. }) =
            turns.iter().find(|(_, last)| last.is_early)?;
        Some(format!(
            "turn {} of worker `{worker}` was not played: turn {number} has no call, so it is the answer",
            number + 1
        ))
    }

    /// Records a turn of the list at `line`; `is_early` if no call leads to the next one.
    pub(crate) fn played(&self, worker: &str, line: u64, number: usize, is_early: bool) {
        let mut turns = self.lock_turns();
        let last = turns.entry((worker.to_owned(), line)).or_default();
        *last = LastTurn { number, is_early }.max(*last);
    }

    fn lock_turns(&self) -> MutexGuard<'_, BTreeMap<(String, u64), LastTurn>> {
        self.last_turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, line: u64, attempt: AttackAttempt) {
        self.lock().push((line, attempt));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, AttackAttempt)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for AttackAttempts {
    /// A table, one attempt a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list();
        let rows: Vec<[&str; 3]> = std::iter::once(["attempt", "stopped by", "rule or mechanism"])
            .chain(list.iter().map(|attempt| {
                let layer = if attempt.stopped {
                    attempt.layer.as_str()
                } else {
                    "NOTHING"
                };
                [attempt.what.as_str(), layer, attempt.rule.as_str()]
            }))
            .collect();
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let (first, second) = (width(0), width(1));
        for [what, layer, rule] in rows {
            writeln!(f, "{what:<first$} | {layer:<second$} | {rule}")?;
        }
        Ok(())
    }
}

/// Returns the layer that stopped a call, and its rule or mechanism, from the call's result.
///
/// `promise` names the promise that the operating system was to enforce, for a command that ran and
/// failed inside.
pub(crate) fn stopped_by(detail: &Value, promise: Option<&str>) -> (String, String) {
    if let Some(code) = detail["error"]["code"].as_str() {
        let layer = match code {
            "BLOCKED" => "rule",
            "DENIED" => "person",
            "APPROVAL_REQUIRED" => "approval",
            "UNKNOWN_TOOL" => "tool list",
            "INVALID_ARGUMENTS" => "schema",
            "PERMISSION_ESCALATION" => "grant",
            "LIMIT" | "TIME_LIMIT" => "limit",
            _ => "file sandbox",
        };
        return (layer.to_owned(), rule_of(detail, code));
    }
    match promise {
        Some(promise) => ("OS sandbox".to_owned(), mechanism_of(detail, promise)),
        None => ("OS sandbox".to_owned(), backend_of(detail)),
    }
}

/// A rule that decided, with its place; otherwise the refusal's own code.
fn rule_of(detail: &Value, code: &str) -> String {
    if !matches!(code, "BLOCKED" | "DENIED" | "APPROVAL_REQUIRED") {
        return code.to_owned();
    }
    let reason = &detail["decision"]["reasons"][0];
    match (reason["rule"].as_str(), reason["origin"].as_str()) {
        (Some(rule), Some(origin)) => format!("`{rule}` ({origin})"),
        (Some(rule), None) => format!("`{rule}`"),
        (None, _) => reason["text"].as_str().unwrap_or(code).to_owned(),
    }
}

fn mechanism_of(detail: &Value, promise: &str) -> String {
    let entry = detail["enforcement"]["promises"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|entry| entry["promise"] == promise);
    let Some(entry) = entry else {
        return format!("{promise}: not in the receipt");
    };
    let mechanisms: Vec<&str> = entry["by"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    format!(
        "{promise}: {} ({})",
        entry["state"].as_str().unwrap_or("unknown"),
        mechanisms.join(" + ")
    )
}

fn backend_of(detail: &Value) -> String {
    detail["enforcement"]["backend"]
        .as_str()
        .unwrap_or("no receipt")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn layers() {
        for (detail, promise, expected) in [
            (
                json!({"error": {"code": "OUTSIDE_SANDBOX"}, "decision": {"reasons": [{"text": "x"}]}}),
                None,
                ("file sandbox", "OUTSIDE_SANDBOX"),
            ),
            (
                json!({"error": {"code": "BLOCKED"}, "decision": {"reasons": [
                    {"text": "no rule", "rule": "default", "origin": "a.yaml:3"}]}}),
                None,
                ("rule", "`default` (a.yaml:3)"),
            ),
            (
                json!({"error": null, "enforcement": {"backend": "bubblewrap", "promises": [
                    {"promise": "network", "state": "enforced", "by": ["bubblewrap", "seccomp"]}]}}),
                Some("network"),
                ("OS sandbox", "network: enforced (bubblewrap + seccomp)"),
            ),
            (
                json!({"enforcement": {"backend": "landlock", "promises": []}}),
                Some("network"),
                ("OS sandbox", "network: not in the receipt"),
            ),
        ] {
            let (layer, rule) = stopped_by(&detail, promise);
            assert_eq!((layer.as_str(), rule.as_str()), expected);
        }
    }
}
