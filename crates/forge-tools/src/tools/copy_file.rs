//! `copy_file`: copies one file.

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

/// Copies a file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert_eq!(tools::copy_file().spec().name, "copy_file");
/// ```
#[derive(Debug)]
pub struct CopyFile(Spec);

/// The `copy_file` tool.
pub fn copy_file() -> CopyFile {
    CopyFile(
        Spec::changes(
            "copy_file",
            "Copy a file. Nothing is replaced unless overwrite says so.",
        )
        .aliases(&["copyFile"])
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

impl Tool for CopyFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let from = view.path(args.text("from").unwrap_or_default())?;
        let to = view.path(args.text("to").unwrap_or_default())?;
        Ok(vec![Intent::Read(from), Intent::Write(to)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let from = hands.path(args.text("from").unwrap_or_default())?;
            let to = hands.path(args.text("to").unwrap_or_default())?;
            let overwrite = args.flag("overwrite").unwrap_or(false);
            let moved = files.copy(&from, &to, MoveOptions::new().overwrite(overwrite))?;
            let bytes = files.stat(&moved.path).map_or(0, |stat| stat.size);
            let text = format!(
                "Copied {} to {}",
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
                .artifact(Artifact::written(moved.path.as_str(), bytes, None)))
        })
    }
}
