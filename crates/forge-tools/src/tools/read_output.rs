//! `read_output`: reads on in a result that was too long to be shown whole.

use super::prelude::*;
use crate::call_result::FailureCode;
use crate::output_store::byte_at;

/// Characters given back unless the call says otherwise.
const DEFAULT_MAX_CHARS: u32 = 200_000;

arguments! {
    /// The arguments of `read_output`.
    struct ReadOutput {
        output_id: String = "As the cut result names it.", alias("outputId");
        offset: usize = "Characters to skip first.", default(0);
        max_chars: Option<u64> = "Most characters to return.",
            between(1, DEFAULT_MAX_CHARS.into()).default(DEFAULT_MAX_CHARS).alias("maxChars");
    }
}

/// The `read_output` tool.
pub fn read_output() -> Box<dyn Tool> {
    // Text only, as with read_file.
    Spec::looks(
        "read_output",
        "Read more of a cut result, by its output_id. Kept for an hour.",
    )
    .aliases(&["readOutput"])
    .tool::<ReadOutput>()
}

impl Invocation for ReadOutput {
    /// It has no intents: its text was the worker's already.
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move { self.read(&context) })
    }
}

impl ReadOutput {
    fn read(&self, context: &ToolContext) -> Result<Reply, CallFailure> {
        let id = self.output_id.as_str();
        let Some(text) = context.outputs.get(id) else {
            let shown = crate::escape_controls(&id.chars().take(64).collect::<String>());
            return Err(FailureCode::UnknownOutput.failure(format!("There is no kept result `{shown}`, or no longer."))
            .hint(
                "A result is kept for an hour, and for the worker that got it. Make the call again, \
                 or ask for less at once.",
            ));
        };
        let offset = self.offset;
        let max = self.max_chars.unwrap_or(DEFAULT_MAX_CHARS.into());
        let max = usize::try_from(max).map_or(usize::MAX, |max| max.min(context.outputs.page()));
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
}
