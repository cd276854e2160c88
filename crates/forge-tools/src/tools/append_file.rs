//! `append_file`: adds text at the end of a file.

use file_sandbox::{AppendOptions, ErrorKind};

use super::prelude::*;
use crate::change::{Artifact, FileChange, ReviewedState};
use crate::tool_context::changed_since_shown;

arguments! {
    /// The arguments of `append_file`.
    struct AppendFile {
        path: String = super::PATH;
        content: String = "The text to add; no line break is put before it.", of_a_file();
    }
}

/// The `append_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::changes(
        "append_file",
        "Add text at the end of a file, in its encoding and with its line ends, or create it.",
    )
    .aliases(&["appendFile"])
    .adds_only()
    .not_idempotent()
    .output([
        Field::flag("success"),
        Field::text("path"),
        Field::integer("chars"),
        Field::integer("bytes"),
    ])
    .tool::<AppendFile>()
}

impl Invocation for AppendFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        view.check_write_size(&path, super::bytes(&self.content))?;
        Ok(vec![Intent::Write(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(&self.path)?;
        let there = view.file_size(&path).unwrap_or(0);
        view.check_file_size(&path, there.saturating_add(super::bytes(&self.content)))?;
        view.check_addition(&path, &self.content)
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        view.addition(&self.path, &self.content)
            .into_iter()
            .collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(&self.path)?;
            let content = &self.content;
            let if_match = super::must_match(None, &context, &path)?;
            let options = AppendOptions::new().if_match(if_match);
            let is_new = context.seen(&path) == Some(ReviewedState::Missing);
            let written = files.append_text(&path, content, options.create_new(is_new));
            let written = written.map_err(|error| match error.kind() {
                ErrorKind::Exists if is_new => changed_since_shown(&path),
                ErrorKind::Stale => super::stale(error, &context, &path),
                _ => CallFailure::from(error),
            })?;
            let chars = content.chars().count();
            let shown = crate::escape_controls(path.asked());
            let text = format!(
                "Appended {chars} characters to {shown}, which now has {} bytes",
                written.bytes
            );
            Ok(Reply::text(text)
                .structured(json!({
                    "success": true,
                    "path": path.as_str(),
                    "chars": chars,
                    "bytes": written.bytes,
                }))
                .artifact(Artifact::written(
                    written.path.as_str(),
                    written.created,
                    written.bytes,
                    None,
                )))
        })
    }
}
