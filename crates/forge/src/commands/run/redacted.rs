//! The report of a run without secrets: a provider can repeat a key in its answer, and the report
//! goes into files, to programs and to the terminal.

use forge_runtime::{RunOutcome, RunReport};
use forge_tools::Redactor;
use serde_json::Value;

/// `report` with a placeholder for each secret.
pub(super) fn report(report: RunReport, redactor: &Redactor) -> RunReport {
    let plain = |text: String| redactor.redact(&text).into_owned();
    let all = |texts: Vec<String>| texts.into_iter().map(plain).collect();
    RunReport {
        end: end(report.end, redactor),
        unanswered: all(report.unanswered),
        ..report
    }
}

fn end(end: RunOutcome, redactor: &Redactor) -> RunOutcome {
    let plain = |text: String| redactor.redact(&text).into_owned();
    match end {
        RunOutcome::Answered { answer } => RunOutcome::Answered {
            answer: answered(answer, redactor),
        },
        RunOutcome::SchemaMismatch { answer, problems } => RunOutcome::SchemaMismatch {
            answer: answered(answer, redactor),
            problems: problems.into_iter().map(plain).collect(),
        },
        RunOutcome::Refused { text } => RunOutcome::Refused { text: plain(text) },
        RunOutcome::ModelFailed { reason, cause } => RunOutcome::ModelFailed {
            reason: plain(reason),
            cause,
        },
        RunOutcome::WrongModel { model } => RunOutcome::WrongModel {
            model: plain(model),
        },
        RunOutcome::NoPrices { model } => RunOutcome::NoPrices {
            model: plain(model),
        },
        RunOutcome::SetupFailed {
            reason,
            hint,
            isolation,
        } => RunOutcome::SetupFailed {
            reason: plain(reason),
            hint: hint.map(plain),
            isolation,
        },
        RunOutcome::MaxTokens
        | RunOutcome::TurnLimit { .. }
        | RunOutcome::CallLimit { .. }
        | RunOutcome::TokenLimit { .. }
        | RunOutcome::WallLimit { .. }
        | RunOutcome::WorkingLimit { .. }
        | RunOutcome::CostLimit { .. }
        | RunOutcome::ContextFull { .. }
        | RunOutcome::Cancelled
        | RunOutcome::Repeated { .. } => end,
    }
}

/// Redacts an answer. If it is JSON, each text is redacted without its escapes, as its reader sees
/// it; and it stays JSON.
fn answered(answer: String, redactor: &Redactor) -> String {
    let structured = match serde_json::from_str::<Value>(&answer) {
        Ok(value) if value.is_object() || value.is_array() => Some(value),
        Ok(_) | Err(_) => None,
    };
    let answer = match structured {
        None => answer,
        Some(value) => {
            let mut shown = value.clone();
            redactor.redact_json(&mut shown);
            if shown == value {
                answer
            } else {
                shown.to_string()
            }
        }
    };
    // Secrets outside of its texts: a number, for example.
    redactor.redact(&answer).into_owned()
}
