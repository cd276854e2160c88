//! `forge log verify [RUN]`: verifies the audit logs.

use forge_tools::audit::{Integrity, VerificationReport};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::exit::{CliError, ExitKind};
use crate::output::stdout::print_line;
use crate::run_view;
use crate::state::stored_runs::StoredRun;

/// One log and the verdict about it.
struct LogVerdict {
    word: &'static str,
    text: String,
    holds: bool,
}

/// Verifies the logs of runs. With `is_summary` whole ones are counted, and not printed.
pub(super) fn verify(
    global: &Global,
    runs: &[&StoredRun],
    is_summary: bool,
) -> Result<ExitKind, CliError> {
    let mut rows: Vec<Value> = Vec::new();
    let mut whole = 0;
    for run in runs {
        // Asked first: a run that ends meanwhile is sealed when it is read.
        let locked = run.is_locked();
        // An unreadable log does not hide the others.
        let verified = run.verified();
        let finding = match &verified {
            Ok(verified) => finding(run, locked, verified),
            Err(error) => LogVerdict {
                word: "unreadable",
                text: format!("cannot be read: {error}"),
                holds: false,
            },
        };
        whole += usize::from(finding.holds);
        if global.json {
            let verified = verified.ok();
            rows.push(json!({
                "run": run.name,
                "integrity": finding.word,
                "detail": finding.text,
                "lines": verified.as_ref().map(|verified| verified.lines),
                "head": verified.as_ref().map(|verified| &verified.head),
            }));
        } else if !(is_summary && finding.holds) {
            print_line(format_args!("{}: {}", run.shown(), finding.text))?;
        }
    }
    if global.json {
        print_line(json!({ "runs": rows }))?;
    } else if is_summary {
        let logs = run_view::count(runs.len() as u64, "log");
        print_line(format_args!("{logs} of all projects, {whole} whole"))?;
    }
    Ok(if whole == runs.len() {
        ExitKind::Done
    } else {
        ExitKind::Negative
    })
}

fn finding(run: &StoredRun, locked: bool, verified: &VerificationReport) -> LogVerdict {
    let lines = verified.lines;
    let noted = run.noted_head();
    let (word, text) = match (&verified.integrity, noted) {
        (Integrity::Whole, Some(noted)) if noted != verified.head => (
            "rewritten",
            format!(
                "whole, but not the log that run.json was written after: its seal was {}",
                forge_tools::escape_controls(&noted)
            ),
        ),
        (Integrity::Whole, _) => (
            "whole",
            format!("whole, {lines} lines, head {}", verified.head),
        ),
        // Any reader of the file can lock it, so a lock proves nothing about its end.
        (Integrity::Unsealed | Integrity::Torn { .. }, None) if locked => (
            "open",
            format!(
                "not sealed, and a program holds its lock, as while a run goes on: {lines} lines \
                 hold, and nothing says that they are all"
            ),
        ),
        (Integrity::Unsealed, Some(_)) => (
            "unsealed",
            "the end was cut off: the run had sealed its log".to_owned(),
        ),
        (found @ Integrity::Unsealed, None) => ("unsealed", format!("{found} ({lines} lines)")),
        (found @ Integrity::Torn { .. }, _) => ("torn", found.to_string()),
        (found @ Integrity::Broken(_), _) => ("broken", found.to_string()),
    };
    LogVerdict {
        word,
        text,
        holds: word == "whole",
    }
}
