//! `move_file`: moves or renames.

use file_sandbox::MoveOptions;
use serde_json::json;

use crate::call::{Failure, Reply};
use crate::change::Artifact;
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};

/// Moves a file or directory.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert_eq!(tools::move_file().spec().name, "move_file");
/// ```
#[derive(Debug)]
pub struct MoveFile(Spec);

/// The `move_file` tool.
pub fn move_file() -> MoveFile {
    MoveFile(
        Spec::changes(
            "move_file",
            "Move or rename a file or directory. Nothing is replaced unless overwrite says so.",
        )
        .aliases(&["moveFile", "rename_file", "renameFile"])
        .not_idempotent()
        .params([
            Param::text("from", super::PATH).alias("source").required(),
            Param::text("to", "The new path, with its name.")
                .alias("destination")
                .required(),
            Param::flag("overwrite", "Replace a file that is there already."),
        ])
        .output([
            Field::flag("success"),
            Field::text("from"),
            Field::text("to"),
            Field::flag("replaced"),
        ]),
    )
}

impl Tool for MoveFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let from = view.path(args.text("from").unwrap_or_default())?;
        let to = view.path(args.text("to").unwrap_or_default())?;
        Ok(vec![Intent::Delete(from), Intent::Write(to)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let from = hands.path(args.text("from").unwrap_or_default())?;
            let to = hands.path(args.text("to").unwrap_or_default())?;
            let overwrite = args.flag("overwrite").unwrap_or(false);
            let moved = files.rename(&from, &to, MoveOptions::new().overwrite(overwrite))?;
            let bytes = files.stat(&moved.path).map_or(0, |stat| stat.size);
            let text = format!(
                "Moved {} to {}",
                crate::escape_controls(from.asked()),
                crate::escape_controls(to.asked())
            );
            Ok(Reply::text(text)
                .structured(json!({
                    "success": true,
                    "from": from.as_str(),
                    "to": moved.path.as_str(),
                    "replaced": moved.replaced,
                }))
                .artifact(Artifact::deleted(from.as_str()))
                .artifact(Artifact::written(moved.path.as_str(), bytes, None)))
        })
    }
}
