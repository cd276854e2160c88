//! `move_file`: moves or renames.

use super::prelude::*;
use super::relocate::{self, Relocation};
use crate::change::{Artifact, FileChange};

/// The arguments of `move_file`.
#[derive(Deserialize)]
#[serde(transparent)]
struct MoveFile(Relocation);

/// The `move_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    TypedTool::<MoveFile>::boxed(
        relocate::spec("move_file", "Move or rename a file or directory.").aliases(&[
            "moveFile",
            "rename_file",
            "renameFile",
        ]),
    )
}

impl Invocation for MoveFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let (from, to) = self.0.places(view)?;
        Ok(vec![
            Intent::Read(from.clone()),
            Intent::Delete(from),
            Intent::Write(to),
        ])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        self.0.check(view)
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        self.0.preview(view)
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let (mut reply, from) = self.0.run(&context, "Moved", |files, from, to, options| {
                files.rename(from, to, options)
            })?;
            reply.artifacts.insert(0, Artifact::deleted(from.as_str()));
            Ok(reply)
        })
    }
}
