//! `append_file`: adds text at the end of a file.

use serde_json::json;

use crate::call::{Failure, Reply};
use crate::change::{Artifact, Change};
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};

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
            "Add text at the end of a file, or create it. For a text that is too long for one \
             call.",
        )
        .aliases(&["appendFile"])
        .adds_only()
        .not_idempotent()
        .params([
            Param::text("path", super::PATH).required(),
            Param::text(
                "content",
                "The text to add, as it is: no line break is put before it.",
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

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("content").unwrap_or_default().len();
        view.check_write_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        Ok(vec![Intent::Write(path)])
    }

    fn check(&self, args: &Arguments, view: &View<'_>) -> Result<(), Failure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let more = args.text("content").unwrap_or_default().len();
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let there = view.file_size(&path).unwrap_or(0);
        view.check_file_size(&path, there.saturating_add(more))
    }

    fn preview(&self, args: &Arguments, view: &View<'_>) -> Vec<Change> {
        let content = args.text("content").unwrap_or_default();
        let path = args.text("path").unwrap_or_default();
        view.change(path, |before| Some(format!("{before}{content}")))
            .into_iter()
            .collect()
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let path = hands.path(args.text("path").unwrap_or_default())?;
            let content = args.text("content").unwrap_or_default();
            hands.check_seen(&path)?;
            let written = files.append(&path, content.as_bytes())?;
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
