//! `delete_file`: removes one file, link or empty directory.

use file_sandbox::{EntryKind, ErrorKind};

use super::prelude::*;
use crate::change::{Artifact, FileChange};

arguments! {
    /// The arguments of `delete_file`.
    struct DeleteFile {
        path: String = super::PATH;
        recursive: bool = "Delete a directory with all that is in it.";
    }
}

/// The `delete_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::changes(
        "delete_file",
        "Delete a file or an empty directory, or with recursive a directory and everything \
             in it. Of a link, the link goes and what it points to stays.",
    )
    .aliases(&["deleteFile"])
    .output([Field::flag("success"), Field::text("path")])
    .tool::<DeleteFile>()
}

impl Invocation for DeleteFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        Ok(vec![Intent::Delete(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(&self.path)?;
        view.check_there(&path)?;
        view.check_removal(&path, self.recursive)
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let path = view.path(&self.path);
        path.ok()
            .and_then(|path| view.removal(&path))
            .into_iter()
            .collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(&self.path)?;
            context.check_seen(&path)?;
            if self.recursive {
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
