//! `append_file`: adds text at the end of a file.

use file_sandbox::{AppendOptions, ErrorKind};
use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::change::{Artifact, FileChange, ReviewedState};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext, changed_since_shown};

/// Appends to a text file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(!tools::append_file().spec().annotations.idempotent);
/// ```
#[derive(Debug)]
pub struct AppendFile(Spec);

/// The `append_file` tool.
pub fn append_file() -> AppendFile {
    AppendFile(
        Spec::changes(
            "append_file",
            "Add text at the end of a file, in its encoding and with its line ends, or create it.",
        )
        .aliases(&["appendFile"])
        .adds_only()
        .not_idempotent()
        .params([
            Param::text("path", super::PATH).required(),
            Param::text(
                "content",
                "The text to add; no line break is put before it.",
            )
            .of_a_file()
            .required(),
        ])
        .output([
            Field::flag("success"),
            Field::text("path"),
            Field::integer("chars"),
            Field::integer("bytes"),
        ]),
    )
}

impl Tool for AppendFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("content").unwrap_or_default().len();
        view.check_write_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        Ok(vec![Intent::Write(path)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let more = args.text("content").unwrap_or_default().len();
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let there = view.file_size(&path).unwrap_or(0);
        view.check_file_size(&path, there.saturating_add(more))?;
        let content = args.text("content").unwrap_or_default();
        view.check_addition(&path, content)
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let content = args.text("content").unwrap_or_default();
        let path = args.text("path").unwrap_or_default();
        view.addition(path, content).into_iter().collect()
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(args.text("path").unwrap_or_default())?;
            let content = args.text("content").unwrap_or_default();
            let mut options = AppendOptions::new();
            if let Some(hash) = super::must_match(&args, &context, &path)? {
                options = options.if_match(hash);
            }
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
