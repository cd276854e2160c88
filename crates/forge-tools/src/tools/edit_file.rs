//! `edit_file`: replaces a text in a file, and leaves every other byte alone.

use file_sandbox::{ContentHash, EditOptions, Replacement};

use super::prelude::*;
use crate::call_result::FailureCode;
use crate::change::{Artifact, FileChange};

arguments! {
    /// The arguments of `edit_file`.
    struct EditFile {
        path: String = super::PATH;
        old_text: String = "The text to replace, with its spaces.", of_a_file().alias("oldText");
        new_text: String = "What comes in its place.", of_a_file().alias("newText");
        replace_all: bool = "Replace it wherever it is.", alias("replaceAll");
        near_line: Option<usize> = "Of several places, the one nearest to this line.",
            between(1, i64::MAX).alias("nearLine");
        fuzzy: bool = "Find whole lines that differ in spaces or lookalike characters only.";
        if_match: Option<String> = super::IF_MATCH, alias("ifMatch");
    }
}

/// The `edit_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::changes(
        "edit_file",
        "Replace a text in a file. The old text must be there exactly once, unless \
             replace_all or near_line says otherwise; line endings do not matter for finding it.",
    )
    .aliases(&["editFile"])
    .not_idempotent()
    .output([
        Field::flag("success"),
        Field::text("path"),
        Field::integer("replaced"),
        Field::text("diff"),
        Field::flag("diff_cut"),
        Field::flag("fuzzy"),
    ])
    .tool::<EditFile>()
}

impl EditFile {
    fn replacement(&self) -> Replacement {
        Replacement::new(&self.old_text, &self.new_text)
            .all(self.replace_all)
            .near_line(self.near_line)
    }

    fn options(&self, if_match: Option<ContentHash>) -> EditOptions {
        EditOptions::new().fuzzy(self.fuzzy).if_match(if_match)
    }

    fn if_match(&self) -> Result<Option<ContentHash>, CallFailure> {
        super::if_match(self.if_match.as_deref())
    }
}

impl Invocation for EditFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        // Asked for by both, one of them would be ignored.
        if self.replace_all && self.near_line.is_some() {
            return Err(FailureCode::InvalidArguments.failure(
                "Cannot call edit_file: `replace_all` and `near_line` exclude each other.",
            ));
        }
        if self.old_text.is_empty() {
            return Err(FailureCode::InvalidArguments.failure("Cannot call edit_file: `old_text` is empty, so there is no place for the new text.")
            .hint("Take a text beside the place into both, or add to the end with append_file."));
        }
        let path = view.path(&self.path)?;
        view.check_write_size(&path, super::bytes(&self.new_text))?;
        // The answer shows the text around the change.
        Ok(vec![Intent::Read(path.clone()), Intent::Write(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(&self.path)?;
        view.check_there(&path)?;
        // The file has at least the bytes of the new text.
        view.check_file_size(&path, super::bytes(&self.new_text))?;
        view.check_edit(&path, &[self.replacement()], self.options(self.if_match()?))
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        view.edit(
            &self.path,
            &[self.replacement()],
            self.options(self.if_match().unwrap_or_default()),
        )
        .into_iter()
        .collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(&self.path)?;
            let if_match = super::must_match(self.if_match.as_deref(), &context, &path)?;
            let edited = files.edit(&path, &[self.replacement()], self.options(if_match))?;
            let shown = crate::escape_controls(path.asked());
            let times = match edited.replaced {
                1 => String::new(),
                n => format!(" in {n} places"),
            };
            let fuzzy = match edited.fuzzy_lines.as_slice() {
                [] => String::new(),
                lines => format!(
                    ", found by likeness at line {}",
                    lines
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };
            let cut = if edited.diff_cut {
                "[the diff is cut here]\n"
            } else {
                ""
            };
            let text = format!("Edited {shown}{times}{fuzzy}\n{}{cut}", edited.diff);
            let hash = edited.hash.to_string();
            let bytes = files.stat(&path).map_or(0, |stat| stat.size);
            Ok(Reply::text(text)
                .structured(json!({
                    "success": true,
                    "path": path.as_str(),
                    "replaced": edited.replaced,
                    "diff": edited.diff,
                    "diff_cut": edited.diff_cut,
                    "fuzzy": !edited.fuzzy_lines.is_empty(),
                }))
                .artifact(Artifact::written(
                    edited.path.as_str(),
                    false,
                    bytes,
                    Some(hash),
                )))
        })
    }
}
