//! The report of a run without secrets: a provider can repeat a key in what it answers, and from
//! here it goes into files, to programs and to whoever reads along.

use forge_runtime::{End, RunReport};
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

fn end(end: End, redactor: &Redactor) -> End {
    let plain = |text: String| redactor.redact(&text).into_owned();
    match end {
        End::Answered { answer } => End::Answered {
            answer: answered(answer, redactor),
        },
        End::UnfitAnswer { answer, problems } => End::UnfitAnswer {
            answer: answered(answer, redactor),
            problems: problems.into_iter().map(plain).collect(),
        },
        End::Refused { text } => End::Refused { text: plain(text) },
        End::ModelFailed { reason, cause } => End::ModelFailed {
            reason: plain(reason),
            cause,
        },
        End::WrongModel { model } => End::WrongModel {
            model: plain(model),
        },
        End::NoPrices { model } => End::NoPrices {
            model: plain(model),
        },
        End::NotEquipped {
            reason,
            hint,
            isolation,
        } => End::NotEquipped {
            reason: plain(reason),
            hint: hint.map(plain),
            isolation,
        },
        End::OutOfTokens
        | End::TurnLimit { .. }
        | End::CallLimit { .. }
        | End::TokenLimit { .. }
        | End::WallLimit { .. }
        | End::WorkingLimit { .. }
        | End::CostLimit { .. }
        | End::ContextFull { .. }
        | End::Cancelled
        | End::Repeated { .. } => end,
    }
}

/// Of an answer that is JSON each text is looked at as who reads it will, without its escapes; and
/// it stays JSON.
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
    // What no text of it holds, a number, say.
    redactor.redact(&answer).into_owned()
}
