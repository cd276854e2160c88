//! `move_file`: moves or renames.

use super::relocate;
use crate::call::{Failure, Reply};
use crate::change::{Artifact, Change};
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::params::Arguments;
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

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let (from, to) = relocate::places(args, view)?;
        Ok(vec![
            Intent::Read(from.clone()),
            Intent::Delete(from),
            Intent::Write(to),
        ])
    }

    fn check(&self, args: &Arguments, view: &View<'_>) -> Result<(), Failure> {
        relocate::check(args, view)
    }

    fn preview(&self, args: &Arguments, view: &View<'_>) -> Vec<Change> {
        relocate::preview(args, view)
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let (mut reply, from) =
                relocate::run(&args, &hands, "Moved", |files, from, to, options| {
                    files.rename(from, to, options)
                })?;
            reply.artifacts.insert(0, Artifact::deleted(from.as_str()));
            Ok(reply)
        })
    }
}
