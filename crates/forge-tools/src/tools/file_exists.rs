//! `file_exists`: whether something is there.

use super::prelude::*;

arguments! {
    /// The arguments of `file_exists`.
    struct FileExists {
        path: String = super::PATH;
    }
}

/// The `file_exists` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::looks("file_exists", "Say whether a file or directory exists.")
        .aliases(&["fileExists"])
        .output([Field::text("path"), Field::flag("exists")])
        .tool::<FileExists>()
}

impl Invocation for FileExists {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        Ok(vec![Intent::Read(path)])
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let path = context.path(&self.path)?;
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
