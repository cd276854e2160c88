//! `hash_file`: the SHA-256 of a file, for `if_match`.

use super::prelude::*;

arguments! {
    /// The arguments of `hash_file`.
    struct HashFile {
        path: String = super::PATH;
    }
}

/// The `hash_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::looks(
            "hash_file",
            "SHA-256 of a file's bytes. As `if_match` of a later write it makes sure that nobody changed the file meanwhile.",
        )
        .aliases(&["hashFile"])
        .output([Field::text("path"), Field::text("sha256")])
.tool::<HashFile>()
}

impl Invocation for HashFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        Ok(vec![Intent::Read(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(&self.path)?)
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let path = context.path(&self.path)?;
            let hash = context.files()?.hash(&path)?.to_string();
            let shown = crate::escape_controls(path.asked());
            Ok(Reply::text(format!("{hash}  {shown}"))
                .structured(json!({ "path": path.as_str(), "sha256": hash })))
        })
    }
}
