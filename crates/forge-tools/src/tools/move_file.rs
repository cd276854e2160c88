//! `move_file`: moves or renames.

use super::relocate;
use crate::call::{CallFailure, Reply};
use crate::change::{Artifact, FileChange};
use crate::gate::Intent;
use crate::params::Arguments;
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

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
        relocate::spec("move_file", "Move or rename a file or directory.").aliases(&[
            "moveFile",
            "rename_file",
            "renameFile",
        ]),
    )
}

impl Tool for MoveFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let (from, to) = relocate::places(args, view)?;
        Ok(vec![
            Intent::Read(from.clone()),
            Intent::Delete(from),
            Intent::Write(to),
        ])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        relocate::check(args, view)
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        relocate::preview(args, view)
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let (mut reply, from) =
                relocate::run(&args, &context, "Moved", |files, from, to, options| {
                    files.rename(from, to, options)
                })?;
            reply.artifacts.insert(0, Artifact::deleted(from.as_str()));
            Ok(reply)
        })
    }
}
