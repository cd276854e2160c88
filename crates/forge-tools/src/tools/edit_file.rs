//! `edit_file`: replaces a text in a file, and leaves every other byte alone.

use file_sandbox::{ContentHash, EditOptions, Replacement};
use serde_json::json;

use crate::call::{CallFailure, FailureCode, Reply};
use crate::change::{Artifact, FileChange};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Edits a text file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::edit_file().spec().answers_to("editFile"));
/// ```
#[derive(Debug)]
pub struct EditFile(Spec);

/// The `edit_file` tool.
pub fn edit_file() -> EditFile {
    EditFile(
        Spec::changes(
            "edit_file",
            "Replace a text in a file. The old text must be there exactly once, unless \
             replace_all or near_line says otherwise; line endings do not matter for finding it.",
        )
        .aliases(&["editFile"])
        .not_idempotent()
        .params([
            Param::text("path", super::PATH).required(),
            Param::text("old_text", "The text to replace, with its spaces.")
                .of_a_file()
                .alias("oldText")
                .required(),
            Param::text("new_text", "What comes in its place.")
                .of_a_file()
                .alias("newText")
                .required(),
            Param::flag("replace_all", "Replace it wherever it is.").alias("replaceAll"),
            Param::integer(
                "near_line",
                "Of several places, the one nearest to this line.",
                1,
                i64::MAX,
            )
            .alias("nearLine"),
            Param::flag(
                "fuzzy",
                "Find whole lines that differ in spaces or lookalike characters only.",
            ),
            Param::text("if_match", super::IF_MATCH).alias("ifMatch"),
        ])
        .output([
            Field::flag("success"),
            Field::text("path"),
            Field::integer("replaced"),
            Field::text("diff"),
            Field::flag("diff_cut"),
            Field::flag("fuzzy"),
        ]),
    )
}

fn replacement(args: &Arguments) -> Replacement {
    let old = args.text("old_text").unwrap_or_default();
    let new = args.text("new_text").unwrap_or_default();
    let replacement = Replacement::new(old, new).all(args.flag("replace_all").unwrap_or(false));
    match args.integer("near_line").map(usize::try_from) {
        Some(Ok(line)) => replacement.near_line(line),
        Some(Err(_)) | None => replacement,
    }
}

fn options(args: &Arguments, if_match: Option<ContentHash>) -> EditOptions {
    let options = EditOptions::new().fuzzy(args.flag("fuzzy").unwrap_or(false));
    match if_match {
        Some(hash) => options.if_match(hash),
        None => options,
    }
}

impl Tool for EditFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        // Asked for by both, one of them would be ignored.
        if args.flag("replace_all") == Some(true) && args.integer("near_line").is_some() {
            return Err(CallFailure::new(
                FailureCode::InvalidArguments,
                "Cannot call edit_file: `replace_all` and `near_line` exclude each other.",
            ));
        }
        if args.text("old_text") == Some("") {
            return Err(CallFailure::new(
                FailureCode::InvalidArguments,
                "Cannot call edit_file: `old_text` is empty, so there is no place for the new text.",
            )
            .hint("Take a text beside the place into both, or add to the end with append_file."));
        }
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("new_text").unwrap_or_default().len();
        view.check_write_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        // The answer shows the text around the change.
        Ok(vec![Intent::Read(path.clone()), Intent::Write(path)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        view.check_there(&path)?;
        // The file has at least the bytes of the new text.
        let bytes = args.text("new_text").unwrap_or_default().len();
        view.check_file_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        view.check_edit(
            &path,
            &[replacement(args)],
            options(args, super::if_match(args)?),
        )
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        view.edit(
            args.text("path").unwrap_or_default(),
            &[replacement(args)],
            options(args, super::if_match(args).unwrap_or_default()),
        )
        .into_iter()
        .collect()
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(args.text("path").unwrap_or_default())?;
            let if_match = super::must_match(&args, &context, &path)?;
            let edited = files.edit(&path, &[replacement(&args)], options(&args, if_match))?;
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
