//! `file_info`: kind, size and time of a file or directory.

use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Describes a path.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::file_info().spec().output.is_some());
/// ```
#[derive(Debug)]
pub struct FileInfo(Spec);

/// The `file_info` tool.
pub fn file_info() -> FileInfo {
    FileInfo(
        Spec::looks("file_info", "Kind, size and times of a file or directory.")
            .aliases(&["fileInfo"])
            .params([Param::text("path", super::PATH).required()])
            .output([
                Field::text("path"),
                Field::text("kind"),
                Field::integer("size"),
                Field::text("modified").optional(),
                Field::text("created").optional(),
                Field::flag("is_link"),
                Field::flag("writable"),
            ]),
    )
}

impl Tool for FileInfo {
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

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(args.text("path").unwrap_or_default())?)
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(args.text("path").unwrap_or_default())?;
            let stat = files.stat(&path)?;
            let writable = files.can_write(&path);
            let modified = stat.modified.map(crate::time::rfc3339);
            let created = files.created(&path).unwrap_or_default();
            let created = created.map(crate::time::rfc3339);
            let shown = crate::escape_controls(path.asked());
            let mut text = format!("{shown}: {}, {} bytes", stat.kind.as_str(), stat.size);
            if let Some(modified) = &modified {
                text.push_str(&format!(", changed {modified}"));
            }
            if let Some(created) = &created {
                text.push_str(&format!(", created {created}"));
            }
            if stat.is_link {
                text.push_str(", through a link");
            }
            text.push_str(if writable {
                ", writable"
            } else {
                ", read-only"
            });
            Ok(Reply::text(text).structured(json!({
                "path": path.as_str(),
                "kind": stat.kind.as_str(),
                "size": stat.size,
                "modified": modified,
                "created": created,
                "is_link": stat.is_link,
                "writable": writable,
            })))
        })
    }
}
