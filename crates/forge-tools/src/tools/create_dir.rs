//! `create_dir`: makes a directory.

use file_sandbox::ErrorKind;
use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// The advice about an existing file.
const THERE: &str = "It is not a directory; choose another name.";

/// Makes a directory.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(!tools::create_dir().spec().annotations.destructive);
/// ```
#[derive(Debug)]
pub struct CreateDir(Spec);

/// The `create_dir` tool.
pub fn create_dir() -> CreateDir {
    CreateDir(
        Spec::changes(
            "create_dir",
            "Make a directory, and those on the way to it.",
        )
        .aliases(&["createDir", "create_directory", "mkdir"])
        .adds_only()
        .params([Param::text("path", super::PATH).required()])
        .output([
            Field::flag("success"),
            Field::text("path"),
            Field::flag("created"),
        ]),
    )
}

impl Tool for CreateDir {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::CreateDir(path)])
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let path = context.path(args.text("path").unwrap_or_default())?;
            let created = context
                .files()?
                .create_dir(&path)
                .map_err(|error| super::with_hint(error, ErrorKind::Exists, THERE))?;
            let shown = crate::escape_controls(path.asked());
            let text = if created {
                format!("Created {shown}")
            } else {
                format!("{shown} was there already")
            };
            Ok(Reply::text(text).structured(json!({
                "success": true,
                "path": path.as_str(),
                "created": created,
            })))
        })
    }
}
