//! `file_exists`: whether something is there.

use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Says whether a path exists.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::file_exists().spec().annotations.read_only);
/// ```
#[derive(Debug)]
pub struct FileExists(Spec);

/// The `file_exists` tool.
pub fn file_exists() -> FileExists {
    FileExists(
        Spec::looks("file_exists", "Say whether a file or directory exists.")
            .aliases(&["fileExists"])
            .params([Param::text("path", super::PATH).required()])
            .output([Field::text("path"), Field::flag("exists")]),
    )
}

impl Tool for FileExists {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::Read(path)])
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let path = context.path(args.text("path").unwrap_or_default())?;
            let exists = context.files()?.exists(&path)?;
            let shown = crate::escape_controls(path.asked());
            let text = if exists {
                format!("{shown} exists")
            } else {
                format!("{shown} does not exist")
            };
            Ok(Reply::text(text).structured(json!({ "path": path.as_str(), "exists": exists })))
        })
    }
}
