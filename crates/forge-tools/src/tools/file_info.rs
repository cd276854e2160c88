//! `file_info`: kind, size and time of a file or directory.

use super::prelude::*;

arguments! {
    /// The arguments of `file_info`.
    struct FileInfo {
        path: String = super::PATH;
    }
}

/// The `file_info` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::looks("file_info", "Kind, size and times of a file or directory.")
        .aliases(&["fileInfo"])
        .output([
            Field::text("path"),
            Field::text("kind"),
            Field::integer("size"),
            Field::text("modified").optional(),
            Field::text("created").optional(),
            Field::flag("is_link"),
            Field::flag("writable"),
        ])
        .tool::<FileInfo>()
}

impl Invocation for FileInfo {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        Ok(vec![Intent::Read(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(&self.path)?)
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(&self.path)?;
            let stat = files.stat(&path)?;
            let writable = files.can_write(&path);
            let modified = stat.modified.map(crate::time::rfc3339);
            let created = files.created(&path).unwrap_or_default();
            let created = created.map(crate::time::rfc3339);
            let shown = crate::escape_controls(path.asked());
            let mut text = format!("{shown}: {}, {} bytes", stat.kind.as_str(), stat.size);
            if let Some(modified) = &modified {
                text.push_str(&format!(", changed {modified}"));
            }
            if let Some(created) = &created {
                text.push_str(&format!(", created {created}"));
            }
            if stat.is_link {
                text.push_str(", through a link");
            }
            text.push_str(if writable {
                ", writable"
            } else {
                ", read-only"
            });
            Ok(Reply::text(text).structured(json!({
                "path": path.as_str(),
                "kind": stat.kind.as_str(),
                "size": stat.size,
                "modified": modified,
                "created": created,
                "is_link": stat.is_link,
                "writable": writable,
            })))
        })
    }
}
