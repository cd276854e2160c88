//! The checks of `forge doctor --git`, `--mcp` and `--model`: as JSON, and as the rows of a table.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::output::escape::escape_lines;

sandbox_names::word_enum! {
    /// The result of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum CheckState {
        Ok = "ok",
        /// A fact without a mistake.
        Note = "note",
        Warning = "warning",
        Failed = "failed",
    }
    pub(super) fn word
}

/// One thing that was looked at.
pub(super) struct DoctorCheck {
    pub(super) what: String,
    pub(super) state: CheckState,
    pub(super) detail: String,
    /// One command, or one thing to do.
    pub(super) hint: Option<String>,
}

/// Returns `true` if one of them failed.
pub(super) fn has_failed(checks: &[DoctorCheck]) -> bool {
    checks.iter().any(|check| check.state == CheckState::Failed)
}

/// Returns an object for each check, with the hint under this key.
pub(super) fn facts(checks: &[DoctorCheck], hint: &str) -> Vec<Value> {
    let facts = checks.iter().map(|check| {
        json!({
            "check": check.what,
            "state": check.state.word(),
            "detail": check.detail,
            (hint): check.hint,
        })
    });
    facts.collect()
}

/// Returns a row for each check, and one for each hint. The names have `width` columns, and further
/// lines of a detail begin with `indent`.
pub(super) fn table(checks: &[DoctorCheck], width: usize, indent: &str) -> String {
    let mut text = String::new();
    for check in checks {
        let (state, what) = (check.state.word(), &check.what);
        let detail = escape_lines(&check.detail).replace('\n', &format!("\n{indent}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{state:<8} {what:<width$} {detail}");
        if let Some(hint) = &check.hint {
            let _ = writeln!(text, "{:1$} try: {2}", "", width + 9, escape_lines(hint));
        }
    }
    text
}
