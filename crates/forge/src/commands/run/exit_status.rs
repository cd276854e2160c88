//! The result of a run: for the person, for programs, and as an exit code.

use std::io::Write as _;
use std::path::Path;

use forge_runtime::{Dollars, ModelFailure, RunOutcome, RunReport};

use crate::cli::{FailOn, RunArgs};
use crate::commands::prelude::*;
use crate::commands::run::answer_file;
use crate::commands::run::event_output::EventOutput;
use crate::commands::run::refusal_counts::Refusals;
use crate::output::escape::{escape_json, escape_lines, escape_path};
use crate::run_view;

/// Prints the answer, or the report; or puts the answer into a file.
pub(super) fn print_result(
    args: &RunArgs,
    ambient: &Ambient,
    report: &RunReport,
    told: &EventOutput,
    kept: &Path,
) -> Result<(), CliError> {
    let (global, attempts) = (&ambient.global, told.attempts.list());
    if !attempts.is_empty() && !global.quiet {
        let table = told.attempts.to_string();
        stderr::print(format_args!("\n{}", escape_lines(&table)));
    }
    if !global.quiet {
        let (used, kept) = (used(report), escape_path(kept));
        stderr::print(format_args!("{used}; kept in {kept}"));
    }
    let answer = match &report.end {
        RunOutcome::Answered { answer } => Some(format!("{}\n", answer.trim_end())),
        _ => None,
    };
    if let Some(answer) = answer.as_deref().filter(|_| !global.quiet) {
        warn_of(answer, report);
    }
    let output = args.answer.output_file.as_deref();
    let unwritten = match (output, &answer) {
        (Some(file), Some(answer)) => answer_file::write(file, answer).err(),
        (None, _) | (_, None) => None,
    };
    let unplayed = answer.as_ref().and_then(|_| told.attempts.unplayed());
    let unplayed = unplayed.map(|text| CliError::negative("run.failed", text));
    if global.streams() {
        // The last line of the stream reports it, with the exit code; and the writer of the lines
        // may hold standard output while the reader stands still.
        return unwritten.or(unplayed).map_or(Ok(()), Err);
    }
    let mut out = std::io::stdout().lock();
    let written = if global.json {
        let review = told.review.as_ref();
        let line = json!({"report": report, "attempts": attempts, "run": kept, "review": review});
        match ambient.stdout_terminal {
            true => writeln!(out, "{}", escape_json(&line.to_string())),
            false => writeln!(out, "{line}"),
        }
    } else if let Some(answer) = answer
        && (output.is_none() || unwritten.is_some())
    {
        // A model's answer is text on a terminal: it cannot move the cursor or type an answer.
        match ambient.stdout_terminal {
            true => write!(out, "{}", escape_lines(&answer)),
            false => write!(out, "{answer}"),
        }
    } else {
        Ok(())
    };
    written.map_err(CliError::stdout)?;
    unwritten.or(unplayed).map_or(Ok(()), Err)
}

fn warn_of(answer: &str, report: &RunReport) {
    if answer.trim().is_empty() {
        stderr::print("warning: the model ended with an empty answer");
    }
    if report.calls == 0 && is_call_as_text(answer) {
        stderr::print(
            "warning: the answer is a tool call as text, so nothing was done: \
             `forge doctor --model` tells whether the model makes calls",
        );
    }
}

/// Returns `true` for a text with a call of a tool, as models write it that make none.
fn is_call_as_text(answer: &str) -> bool {
    let has = |text: &str| answer.contains(text);
    has("\"name\"") && has("\"arguments\"") || has("<function=") || has("<tool_call>")
}

/// Describes turns, calls, tokens and cost.
fn used(report: &RunReport) -> String {
    let mut parts = vec![
        run_view::count(report.turns, "turn"),
        run_view::count(report.calls, "call"),
    ];
    if report.tokens > 0 {
        parts.push(run_view::tokens(report.tokens));
    }
    if report.cost_nano_usd > 0 {
        parts.push(Dollars(report.cost_nano_usd).to_string());
    }
    parts.join(", ")
}

/// Converts the end of a run: one exit code and one error code for each end.
pub(crate) fn exit(
    report: &RunReport,
    refusals: &Refusals,
    fail_on: &[FailOn],
    limit_hint: Option<&str>,
    can_ask: bool,
) -> Result<ExitKind, CliError> {
    let failed = |exit, code| CliError::new(exit, code, report.end.to_string());
    Err(match &report.end {
        RunOutcome::Answered { .. } => return answered(report, refusals, fail_on, can_ask),
        RunOutcome::SetupFailed {
            hint, isolation, ..
        } => {
            let failure = match isolation {
                true => failed(ExitKind::Isolation, "isolation.unavailable"),
                false => failed(ExitKind::Negative, "mount.unavailable"),
            };
            failure.maybe_hint(hint.as_deref())
        }
        RunOutcome::TurnLimit { .. }
        | RunOutcome::CallLimit { .. }
        | RunOutcome::TokenLimit { .. }
        | RunOutcome::WallLimit { .. }
        | RunOutcome::WorkingLimit { .. }
        | RunOutcome::CostLimit { .. }
        | RunOutcome::Repeated { .. } => {
            failed(ExitKind::Limit, "limit").maybe_hint(limit_hint)
        }
        RunOutcome::ContextFull { .. } => failed(ExitKind::Limit, "limit")
            .hint("`providers.NAME.context_tokens` says how much fits into the model"),
        RunOutcome::MaxTokens => failed(ExitKind::Negative, "model.out_of_tokens")
            .hint("`providers.NAME.max_tokens` says how long one answer may be"),
        RunOutcome::Refused { .. } => failed(ExitKind::Negative, "model.refused"),
        RunOutcome::SchemaMismatch { .. } => failed(ExitKind::Negative, "answer.unfit")
            .hint("`forge log show last` prints the answer; --json has it in the report"),
        RunOutcome::Cancelled => failed(ExitKind::Interrupted, "interrupted"),
        RunOutcome::NoPrices { .. } => failed(ExitKind::Usage, "model.no_prices").hint(
            "name them in your own file, `providers.NAME.prices`, or drop the limit on money",
        ),
        RunOutcome::WrongModel { .. } => failed(ExitKind::Usage, "model.incompatible"),
        RunOutcome::ModelFailed { cause, .. } => match cause {
            ModelFailure::Playbook => failed(ExitKind::Negative, "run.failed"),
            ModelFailure::Rejected => failed(ExitKind::Negative, "model.rejected").hint(
                "`forge doctor --model PROVIDER:MODEL` tells whether the model is there and makes calls",
            ),
            ModelFailure::Credentials => failed(ExitKind::Credentials, "model.credentials"),
            ModelFailure::Unreachable => failed(ExitKind::Unreachable, "model.unreachable"),
        },
    })
}

/// Converts an answer: a success unless calls had a result of `--fail-on`.
fn answered(
    report: &RunReport,
    refusals: &Refusals,
    fail_on: &[FailOn],
    can_ask: bool,
) -> Result<ExitKind, CliError> {
    let on = |what: FailOn, list: &[String]| fail_on.contains(&what) && !list.is_empty();
    let refused = |code, text: &str, list: &[String]| {
        CliError::new(
            ExitKind::Unanswered,
            code,
            format!("{text}: {}", list.join(", ")),
        )
    };
    if on(FailOn::Unanswered, &report.unanswered) {
        let text = "calls needed an approval that nobody could give";
        let failure = refused("approval.unanswered", text, &report.unanswered);
        // Why: a question can also be too long to be shown, or wait too long for its answer.
        return Err(failure.hint(match can_ask {
            true => {
                "`forge log show last` says why each was not answered; pre-approve them in the \
                 project file, or pass --approve all"
            }
            false => {
                "`forge log show last` says why nobody was asked; run it in a terminal (without CI set), \
                 pre-approve them in the project file, or pass --approve all; with --approver queue \
                 they wait for `forge approve`"
            }
        }));
    }
    if on(FailOn::Denied, &refusals.denied) {
        let text = "calls were refused by a person";
        return Err(refused("approval.denied", text, &refusals.denied));
    }
    if on(FailOn::Blocked, &refusals.blocked) {
        let text = "calls were blocked by a rule";
        return Err(refused("approval.blocked", text, &refusals.blocked));
    }
    Ok(ExitKind::Done)
}
