//! `copy_file`: copies one file.

use super::relocate;
use crate::call::{CallFailure, Reply};
use crate::change::FileChange;
use crate::gate::Intent;
use crate::params::Arguments;
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

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
    CopyFile(relocate::spec("copy_file", "Copy a file.").aliases(&["copyFile"]))
}

impl Tool for CopyFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let (from, to) = relocate::places(args, view)?;
        Ok(vec![Intent::Read(from), Intent::Write(to)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        relocate::check(args, view)?;
        let (from, to) = relocate::places(args, view)?;
        view.check_file_size(&to, view.file_size(&from).unwrap_or(0))
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
            let (reply, _) =
                relocate::run(&args, &context, "Copied", |files, from, to, options| {
                    files.copy(from, to, options)
                })?;
            Ok(reply)
        })
    }
}
