//! What a run came to: for the person, for programs, and as an exit code.

use std::io::Write as _;
use std::path::Path;

use forge_runtime::{Attempts, Dollars, End, RunReport};
use serde_json::json;

use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::show;
use crate::stderr::say;
use crate::visible::visible_path;

/// Prints the answer, or the report.
pub(crate) fn tell(
    global: &Global,
    report: &RunReport,
    attempts: &Attempts,
    kept: &Path,
) -> Result<(), Failure> {
    if !attempts.list().is_empty() && !global.quiet {
        say(format_args!("\n{attempts}"));
    }
    if !global.quiet {
        say(format_args!(
            "{}; kept in {}",
            used(report),
            visible_path(kept)
        ));
    }
    let mut out = std::io::stdout().lock();
    let written = if global.streams() {
        // The last line says it, with how forge ends.
        Ok(())
    } else if global.json {
        writeln!(
            out,
            "{}",
            json!({"report": report, "attempts": attempts.list(), "run": kept})
        )
    } else if let End::Answered { answer } = &report.end {
        writeln!(out, "{}", answer.trim_end())
    } else {
        Ok(())
    };
    written.map_err(Failure::stdout)
}

/// What it took.
fn used(report: &RunReport) -> String {
    let mut parts = vec![
        show::count(report.turns, "turn"),
        show::count(report.calls, "call"),
    ];
    if report.tokens > 0 {
        parts.push(show::tokens(report.tokens));
    }
    if report.cost_nano_usd > 0 {
        parts.push(Dollars(report.cost_nano_usd).to_string());
    }
    parts.join(", ")
}

/// How forge ends after it.
pub(crate) fn exit(report: &RunReport) -> Result<Exit, Failure> {
    match &report.end {
        End::Answered { .. } if report.unanswered.is_empty() => Ok(Exit::Done),
        End::Answered { .. } => Err(Failure::new(
            Exit::Unanswered,
            "approval.unanswered",
            format!(
                "calls needed an approval that nobody could give: {}",
                report.unanswered.join(", ")
            ),
        )
        .hint("run it in a terminal, pre-approve them in the project file, or pass --approve all")),
        End::NotEquipped {
            reason,
            hint,
            isolation,
        } => {
            let (exit, code) = if *isolation {
                (Exit::Isolation, "isolation.unavailable")
            } else {
                (Exit::Negative, "mount.unavailable")
            };
            let failure = Failure::new(exit, code, reason.clone());
            Err(match hint {
                Some(hint) => failure.hint(hint.clone()),
                None => failure,
            })
        }
        end if end.is_limit() => {
            let failure = Failure::new(Exit::Limit, "limit", end.to_string());
            Err(match end.limit_key() {
                Some(key) => {
                    failure.hint(format!("`{key}` sets it, in the project and the worker"))
                }
                None => failure,
            })
        }
        end => Err(Failure::new(Exit::Negative, "run.failed", end.to_string())),
    }
}
