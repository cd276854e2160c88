//! `list_files`: names in one directory, or everything below it that fits a
//! pattern.

use file_sandbox::{EntryKind, ListKinds, ListOptions};
use serde_json::Value;

use super::prelude::*;
use crate::call_result::FailureCode;
use crate::output::OutputSchema;

arguments! {
    /// The arguments of `list_files`.
    struct ListFiles {
        path: Option<String> = "Directory to list.", default("/");
        pattern: Option<String> = "Glob over the paths below the directory.";
        r#type: Option<String> = "file, directory or any.";
        after: Option<String> = "Go on behind this name.";
    }
}

/// The `list_files` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::looks(
        "list_files",
        "List a directory, one name a line, directories with a trailing slash. With a pattern \
             such as **/*.md, list the files below that fit.",
    )
    .aliases(&["listFiles"])
    .output([
        Field::text("path"),
        Field::objects(
            "entries",
            OutputSchema::new([Field::text("name"), Field::text("kind")]),
        ),
        Field::flag("more"),
        Field::text("next").optional(),
        Field::text_list("skipped"),
    ])
    .tool::<ListFiles>()
}

impl Invocation for ListFiles {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(super::directory(self.path.as_deref()))?;
        self.kinds()?;
        Ok(vec![match self.pattern {
            Some(_) => Intent::ReadBelow(path),
            None => Intent::Read(path),
        }])
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(super::directory(self.path.as_deref()))?;
            let mut options = ListOptions::default();
            if let Some(pattern) = &self.pattern {
                options = options.pattern(pattern);
            }
            if let Some(after) = &self.after {
                options = options.after(after);
            }
            if let Some(kinds) = self.kinds()? {
                options = options.kinds(kinds);
            }
            let listing = files
                .list(&path, options)
                .map_err(|error| super::about_patterns(error, &[self.pattern.as_deref()]))?;
            let mut text = String::with_capacity(32 * listing.entries.len());
            let mut entries: Vec<Value> = Vec::with_capacity(listing.entries.len());
            for entry in &listing.entries {
                let name = crate::escape_controls(&entry.name);
                own_line(&mut text, &name);
                if entry.kind == EntryKind::Directory {
                    text.push('/');
                }
                let kind = entry.kind.as_str().into();
                entries.push(super::object([("name", name.into()), ("kind", kind)]));
            }
            if entries.is_empty() {
                text.push_str("[empty]");
            }
            if listing.more {
                let how = match &listing.next {
                    // In the form of the next call; control characters are escaped in it already.
                    Some(next) => format!("go on with after: {next}"),
                    None => "list a subdirectory or use a pattern".to_owned(),
                };
                own_line(&mut text, &format!("[more entries are not shown; {how}]"));
            }
            let skipped = listing.skipped.iter().map(|skipped| {
                let name = crate::escape_controls(&skipped.name);
                format!("{name}: {}", skipped.reason)
            });
            let skipped: Vec<String> = skipped.collect();
            for left_out in &skipped {
                own_line(&mut text, &format!("[left out: {left_out}]"));
            }
            Ok(Reply::text(text).structured(super::object([
                ("path", path.as_str().into()),
                ("entries", Value::Array(entries)),
                ("more", listing.more.into()),
                ("next", listing.next.into()),
                ("skipped", skipped.into()),
            ])))
        })
    }
}

impl ListFiles {
    /// The kinds to be listed, if the call names them.
    fn kinds(&self) -> Result<Option<ListKinds>, CallFailure> {
        match self.r#type.as_deref() {
            None => Ok(None),
            Some("file") => Ok(Some(ListKinds::Files)),
            Some("directory") => Ok(Some(ListKinds::Directories)),
            Some("any") => Ok(Some(ListKinds::Any)),
            Some(_) => Err(FailureCode::InvalidArguments
                .failure("Cannot call list_files: `type` must be `file`, `directory` or `any`.")),
        }
    }
}

fn own_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
