//! `copy_file`: copies one file.

use super::prelude::*;
use super::relocate::{self, Relocation};
use crate::change::FileChange;

/// The arguments of `copy_file`.
#[derive(Deserialize)]
#[serde(transparent)]
struct CopyFile(Relocation);

/// The `copy_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    TypedTool::<CopyFile>::boxed(relocate::spec("copy_file", "Copy a file.").aliases(&["copyFile"]))
}

impl Invocation for CopyFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let (from, to) = self.0.places(view)?;
        Ok(vec![Intent::Read(from), Intent::Write(to)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        self.0.check(view)?;
        let (from, to) = self.0.places(view)?;
        view.check_file_size(&to, view.file_size(&from).unwrap_or(0))
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        self.0.preview(view)
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let (reply, _) = self.0.run(&context, "Copied", |files, from, to, options| {
                files.copy(from, to, options)
            })?;
            Ok(reply)
        })
    }
}
