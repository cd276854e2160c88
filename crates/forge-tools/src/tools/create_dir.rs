//! `create_dir`: makes a directory.

use file_sandbox::ErrorKind;

use super::prelude::*;

/// The advice about an existing file.
const THERE: &str = "It is not a directory; choose another name.";

arguments! {
    /// The arguments of `create_dir`.
    struct CreateDir {
        path: String = super::PATH;
    }
}

/// The `create_dir` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::changes(
        "create_dir",
        "Make a directory, and those on the way to it.",
    )
    .aliases(&["createDir", "create_directory", "mkdir"])
    .adds_only()
    .output([
        Field::flag("success"),
        Field::text("path"),
        Field::flag("created"),
    ])
    .tool::<CreateDir>()
}

impl Invocation for CreateDir {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        Ok(vec![Intent::CreateDir(path)])
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let path = context.path(&self.path)?;
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
