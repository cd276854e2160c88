//! `list_files`: names in one directory, or everything below it that fits a
//! pattern.

use file_sandbox::{EntryKind, ListKinds, ListOptions};
use serde_json::Value;

use crate::call::{CallFailure, FailureCode, Reply};
use crate::gate::Intent;
use crate::output::{Field, OutputSchema};
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Lists files.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert_eq!(tools::list_files().spec().name, "list_files");
/// ```
#[derive(Debug)]
pub struct ListFiles(Spec);

/// The `list_files` tool.
pub fn list_files() -> ListFiles {
    ListFiles(
        Spec::looks(
            "list_files",
            "List a directory, one name a line, directories with a trailing slash. With a pattern \
             such as **/*.md, list the files below that fit.",
        )
        .aliases(&["listFiles"])
        .params([
            Param::text("path", "Directory to list.").default("/"),
            Param::text("pattern", "Glob over the paths below the directory."),
            Param::text("type", "file, directory or any."),
            Param::text("after", "Go on behind this name."),
        ])
        .output([
            Field::text("path"),
            Field::objects(
                "entries",
                OutputSchema::new([Field::text("name"), Field::text("kind")]),
            ),
            Field::flag("more"),
            Field::text("next").optional(),
            Field::text_list("skipped"),
        ]),
    )
}

impl Tool for ListFiles {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(super::directory(args))?;
        kinds(args)?;
        Ok(vec![match args.text("pattern") {
            Some(_) => Intent::ReadBelow(path),
            None => Intent::Read(path),
        }])
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(super::directory(&args))?;
            let mut options = ListOptions::default();
            if let Some(pattern) = args.text("pattern") {
                options = options.pattern(pattern);
            }
            if let Some(after) = args.text("after") {
                options = options.after(after);
            }
            if let Some(kinds) = kinds(&args)? {
                options = options.kinds(kinds);
            }
            let listing = files
                .list(&path, options)
                .map_err(|error| super::about_patterns(error, &[args.text("pattern")]))?;
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
            let skipped: Vec<String> = listing
                .skipped
                .iter()
                .map(|skipped| {
                    format!(
                        "{}: {}",
                        crate::escape_controls(&skipped.name),
                        skipped.reason
                    )
                })
                .collect();
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

/// The kinds to be listed, if the call names them.
fn kinds(args: &Arguments) -> Result<Option<ListKinds>, CallFailure> {
    match args.text("type") {
        None => Ok(None),
        Some("file") => Ok(Some(ListKinds::Files)),
        Some("directory") => Ok(Some(ListKinds::Directories)),
        Some("any") => Ok(Some(ListKinds::Any)),
        Some(_) => Err(CallFailure::new(
            FailureCode::InvalidArguments,
            "Cannot call list_files: `type` must be `file`, `directory` or `any`.",
        )),
    }
}

fn own_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
