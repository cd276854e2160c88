//! `delete_file`: removes one file, link or empty directory.

use file_sandbox::{EntryKind, ErrorKind};
use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::change::{Artifact, FileChange};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Deletes a file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::delete_file().spec().annotations.destructive);
/// ```
#[derive(Debug)]
pub struct DeleteFile(Spec);

/// The `delete_file` tool.
pub fn delete_file() -> DeleteFile {
    DeleteFile(
        Spec::changes(
            "delete_file",
            "Delete a file or an empty directory, or with recursive a directory and everything \
             in it. Of a link, the link goes and what it points to stays.",
        )
        .aliases(&["deleteFile"])
        .params([
            Param::text("path", super::PATH).required(),
            Param::flag("recursive", "Delete a directory with all that is in it."),
        ])
        .output([Field::flag("success"), Field::text("path")]),
    )
}

impl Tool for DeleteFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::Delete(path)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        view.check_there(&path)?;
        view.check_removal(&path, args.flag("recursive").unwrap_or(false))
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let path = view.path(args.text("path").unwrap_or_default());
        path.ok()
            .and_then(|path| view.removal(&path))
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
            context.check_seen(&path)?;
            if args.flag("recursive").unwrap_or(false) {
                files.delete_all(&path)?;
            } else {
                files.delete(&path).map_err(|error| {
                    let is_directory = || {
                        files
                            .stat(&path)
                            .is_ok_and(|stat| stat.kind == EntryKind::Directory)
                    };
                    if error.kind() == ErrorKind::NotAFile && is_directory() {
                        CallFailure::from(error)
                            .hint("Pass recursive to delete it with everything in it.")
                    } else {
                        CallFailure::from(error)
                    }
                })?;
            }
            let shown = crate::escape_controls(path.asked());
            Ok(Reply::text(format!("Deleted {shown}"))
                .structured(json!({ "success": true, "path": path.as_str() }))
                .artifact(Artifact::deleted(path.as_str())))
        })
    }
}
