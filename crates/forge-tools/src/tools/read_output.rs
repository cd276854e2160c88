//! `read_output`: reads on in a result that was too long to be shown whole.

use crate::call::{CallFailure, FailureCode, Reply};
use crate::gate::Intent;
use crate::output_store::byte_at;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Characters given back unless the call says otherwise.
const DEFAULT_MAX_CHARS: i64 = 200_000;

/// Reads a kept result.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::read_output().spec().answers_to("readOutput"));
/// ```
#[derive(Debug)]
pub struct ReadOutput(Spec);

/// The `read_output` tool.
pub fn read_output() -> ReadOutput {
    // Text only, as with read_file.
    ReadOutput(
        Spec::looks(
            "read_output",
            "Read more of a cut result, by its output_id. Kept for an hour.",
        )
        .aliases(&["readOutput"])
        .params([
            Param::text("output_id", "As the cut result names it.")
                .alias("outputId")
                .required(),
            Param::integer("offset", "Characters to skip first.", 0, i64::MAX).default(0),
            Param::integer(
                "max_chars",
                "Most characters to return.",
                1,
                DEFAULT_MAX_CHARS,
            )
            .default(DEFAULT_MAX_CHARS)
            .alias("maxChars"),
        ]),
    )
}

impl Tool for ReadOutput {
    fn spec(&self) -> &Spec {
        &self.0
    }

    /// It has no intents: its text was the worker's already.
    fn intents(&self, _: &Arguments, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        Box::pin(async move { read(&args, &context) })
    }
}

fn read(args: &Arguments, context: &ToolContext) -> Result<Reply, CallFailure> {
    let id = args.text("output_id").unwrap_or_default();
    let Some(text) = context.outputs.get(id) else {
        let shown = crate::escape_controls(&id.chars().take(64).collect::<String>());
        return Err(CallFailure::new(
            FailureCode::UnknownOutput,
            format!("There is no kept result `{shown}`, or no longer."),
        )
        .hint(
            "A result is kept for an hour, and for the worker that got it. Make the call again, \
             or ask for less at once.",
        ));
    };
    let count = |given: Option<i64>, default: i64| {
        usize::try_from(given.unwrap_or(default)).unwrap_or(usize::MAX)
    };
    let offset = count(args.integer("offset"), 0);
    let max = count(args.integer("max_chars"), DEFAULT_MAX_CHARS).min(context.outputs.page());
    let rest = &text[byte_at(&text, offset)..];
    let end = byte_at(rest, max);
    let shown = &rest[..end];
    if end == rest.len() {
        return Ok(Reply::text(shown));
    }
    let next = offset.saturating_add(max);
    Ok(Reply::text(format!(
        "{shown}\n[cut here: characters {offset} to {next} of {}; continue with offset {next}]",
        text.chars().count()
    )))
}
