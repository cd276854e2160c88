//! `write_file`: creates or replaces one text file.

use file_sandbox::{ContentHash, ErrorKind, WriteOptions};

use super::prelude::*;
use crate::call_result::FailureCode;
use crate::change::{Artifact, FileChange, ReviewedState};
use crate::tool_context::changed_since_shown;

/// The advice about an existing file.
const THERE: &str = "Leave out create_new to replace it, or take another name.";

arguments! {
    /// The arguments of `write_file`.
    struct WriteFile {
        path: String = super::PATH;
        content: String = "The whole new text of the file.", of_a_file();
        if_match: Option<String> = super::IF_MATCH, alias("ifMatch");
        create_new: bool = "Fail if the file is there already.", alias("createNew");
    }
}

/// The `write_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::changes(
        "write_file",
        "Write a text file: creates it, or replaces what is there. Missing parent \
             directories are made.",
    )
    .aliases(&["writeFile"])
    .output([
        Field::flag("success"),
        Field::text("path"),
        Field::integer("chars"),
        Field::integer("bytes"),
    ])
    .tool::<WriteFile>()
}

impl WriteFile {
    fn options(&self, if_match: Option<ContentHash>) -> WriteOptions {
        let options = WriteOptions::new().create_new(self.create_new);
        options.if_match(if_match)
    }
}

impl Invocation for WriteFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        view.check_write_size(&path, super::bytes(&self.content))?;
        Ok(match self.if_match {
            // The answer says whether it is the file that the hash is of.
            Some(_) => vec![Intent::Read(path.clone()), Intent::Write(path)],
            None => vec![Intent::Write(path)],
        })
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(&self.path)?;
        view.check_file_size(&path, super::bytes(&self.content))?;
        view.check_written(
            &path,
            &self.options(super::if_match(self.if_match.as_deref())?),
        )
        .map_err(|failure| match failure.code {
            FailureCode::File(ErrorKind::Exists) => failure.hint(THERE),
            _ => failure,
        })
    }

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        view.change(&self.path, |_| Some(self.content.clone()))
            .into_iter()
            .collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(&self.path)?;
            let content = &self.content;
            let if_match = super::must_match(self.if_match.as_deref(), &context, &path)?;
            let mut options = self.options(if_match);
            let is_new = context.seen(&path) == Some(ReviewedState::Missing);
            if is_new {
                context.check_seen(&path)?;
                options = options.create_new(true);
            }
            let written = files.write(&path, content, options).map_err(|error| {
                if is_new && error.kind() == ErrorKind::Exists {
                    changed_since_shown(&path)
                } else {
                    super::with_hint(error, ErrorKind::Exists, THERE)
                }
            })?;
            let hash = ContentHash::of(content.as_bytes()).to_string();
            let shown = crate::escape_controls(path.asked());
            let text = format!("Written {} characters to {shown}", written.chars);
            let artifact = Artifact::written(
                written.path.as_str(),
                written.created,
                written.bytes,
                Some(hash),
            );
            Ok(Reply::text(text)
                .structured(json!({
                    "success": true,
                    "path": path.as_str(),
                    "chars": written.chars,
                    "bytes": written.bytes,
                }))
                .artifact(artifact))
        })
    }
}
