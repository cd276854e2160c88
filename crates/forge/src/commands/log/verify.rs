//! `forge log verify [RUN]...`: verifies the audit logs.

use forge_tools::audit::{Integrity, VerificationReport};

use crate::commands::prelude::*;
use crate::run_view;
use crate::state::stored_runs::StoredRun;

/// The verdict about one log.
pub(super) struct LogVerdict {
    /// One word for programs.
    pub(super) word: &'static str,
    pub(super) text: String,
    pub(super) exit: ExitKind,
}

/// Verifies the logs of runs. All those of `whose` are counted, and whole ones are not printed.
pub(super) fn verify(
    global: &Global,
    runs: &[&StoredRun],
    whose: &str,
) -> Result<ExitKind, CliError> {
    let mut rows: Vec<Value> = Vec::new();
    let (mut whole, mut unsealed) = (0, 0);
    for run in runs {
        let (finding, verified) = judge(run);
        whole += usize::from(finding.exit == ExitKind::Done);
        unsealed += usize::from(finding.exit == ExitKind::Unsealed);
        if global.json {
            rows.push(json!({
                "run": run.name,
                "integrity": finding.word,
                "detail": finding.text,
                "lines": verified.as_ref().map(|verified| verified.lines),
                "head": verified.as_ref().map(|verified| &verified.head),
            }));
        } else if whose.is_empty() || finding.exit != ExitKind::Done {
            print_line(format_args!("{}: {}", run.shown(), finding.text))?;
        }
    }
    if global.json {
        print_json(&json!({ "runs": rows }))?;
    } else if !whose.is_empty() {
        let logs = run_view::count(runs.len() as u64, "log");
        let unfinished = match unsealed {
            0 => String::new(),
            _ => format!(", {unsealed} not finished"),
        };
        print_line(format_args!("{logs} of {whose}, {whole} whole{unfinished}"))?;
    }
    Ok(match runs.len() - whole {
        0 => ExitKind::Done,
        rest if rest == unsealed => ExitKind::Unsealed,
        _ => ExitKind::Negative,
    })
}

/// Verifies one log. An unreadable one has a verdict as well, so that it does not hide others.
pub(super) fn judge(run: &StoredRun) -> (LogVerdict, Option<VerificationReport>) {
    // Asked first: a run that ends meanwhile is sealed when it is read.
    let locked = run.is_locked();
    match run.verified() {
        Ok(verified) => (finding(run, locked, &verified), Some(verified)),
        Err(error) => {
            let verdict = LogVerdict {
                word: "unreadable",
                text: format!("cannot be read: {error}"),
                exit: ExitKind::Negative,
            };
            (verdict, None)
        }
    }
}

fn finding(run: &StoredRun, locked: bool, verified: &VerificationReport) -> LogVerdict {
    let lines = run_view::count(verified.lines, "line");
    let (word, exit, text) = match (&verified.integrity, run.noted_head()) {
        (Integrity::Whole, Some(noted)) if noted != verified.head => (
            "rewritten",
            ExitKind::Negative,
            format!(
                "whole, but not the log that run.json was written after: its seal was {}",
                forge_tools::escape_controls(&noted)
            ),
        ),
        (Integrity::Whole, _) => (
            "whole",
            ExitKind::Done,
            format!("whole, {lines}, head {}", verified.head),
        ),
        (Integrity::Broken(found), _) => ("broken", ExitKind::Negative, found.to_string()),
        (found @ (Integrity::Unsealed | Integrity::Torn { .. }), noted) => {
            let (word, torn) = match found {
                Integrity::Torn { at } => ("torn", format!("; {at} is torn")),
                _ => ("unsealed", String::new()),
            };
            let (word, exit, why) = match (noted, locked) {
                (Some(_), _) => (
                    word,
                    ExitKind::Negative,
                    "the end was cut off, although the run had sealed its log",
                ),
                // Any reader of the file can lock it, so a lock proves nothing about its end.
                (None, true) => (
                    "open",
                    ExitKind::Unsealed,
                    "not finished: a program holds its lock, as while a run goes on",
                ),
                (None, false) => (
                    word,
                    ExitKind::Unsealed,
                    "not finished: forge was killed, the disk was full, or the end was removed",
                ),
            };
            (word, exit, format!("{why} (unchanged: {lines}{torn})"))
        }
    };
    LogVerdict { word, text, exit }
}
