//! `search_files`: lines that match, in the files below a directory.

use file_sandbox::{SearchOptions, SearchResults};
use serde_json::Value;

use super::prelude::*;
use crate::output::OutputSchema;

/// Lines given back unless the call says otherwise.
const DEFAULT_MAX_RESULTS: usize = 200;

arguments! {
    /// The arguments of `search_files`.
    struct SearchFiles {
        pattern: String = "Regular expression, or plain text with literal.";
        path: Option<String> = "Directory or file to search.", default("/");
        glob: Option<String> = "Only files that fit, such as **/*.rs.";
        literal: bool = "Take the pattern as plain text.";
        ignore_case: bool = "Match in any case.", alias("ignoreCase");
        include_ignored: bool = "Search ignored files too.", alias("includeIgnored");
        max_results: Option<usize> = "Most lines to return.",
            between(1, 1_000).alias("maxResults").default(DEFAULT_MAX_RESULTS);
    }
}

/// The `search_files` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    Spec::looks(
        "search_files",
        "Find lines that match a regular expression in the files below a directory. \
             Ignored files are left out, and counted.",
    )
    .aliases(&["searchFiles", "grep"])
    .output([
        Field::objects(
            "hits",
            OutputSchema::new([
                Field::text("path"),
                Field::integer("line"),
                Field::text("text"),
                Field::flag("clipped"),
            ]),
        ),
        Field::flag("more"),
        Field::integer("files"),
        Field::integer("ignored"),
        Field::text_list("notes"),
    ])
    .tool::<SearchFiles>()
}

impl SearchFiles {
    fn options(&self) -> SearchOptions {
        let options = SearchOptions::new()
            .literal(self.literal)
            .ignore_case(self.ignore_case)
            .gitignore(!self.include_ignored)
            .max_hits(self.max_results.unwrap_or(DEFAULT_MAX_RESULTS));
        match &self.glob {
            Some(glob) => options.files(glob),
            None => options,
        }
    }
}

/// One line a hit, as grep prints them; a note about omitted hits follows.
fn text(found: &SearchResults, notes: &[String]) -> String {
    let mut lines: Vec<String> = found
        .hits
        .iter()
        .map(|hit| {
            let path = crate::escape_controls(hit.path.as_str());
            let clipped = if hit.clipped {
                " [part of the line]"
            } else {
                ""
            };
            format!(
                "{path}:{}: {}{clipped}",
                hit.line,
                crate::escape::escape_line(&hit.text)
            )
        })
        .collect();
    if lines.is_empty() {
        lines.push(format!("[no line matches in {} files]", found.files));
    }
    lines.extend(notes.iter().map(|note| format!("[{note}]")));
    lines.join("\n")
}

/// Notes about omitted hits, and how to get them.
fn notes(found: &SearchResults) -> Vec<String> {
    let mut notes = Vec::new();
    match (found.more, found.cut) {
        (false, _) => {}
        (true, Some(cut)) => notes.push(format!(
            "more lines may match: ended by the {}; search a subdirectory or narrow the pattern",
            cut.as_str()
        )),
        (true, None) => notes.push("more lines may match".to_owned()),
    }
    if found.ignored.count > 0 {
        notes.push(format!(
            "{} ignored by .gitignore, such as {}; include_ignored searches them",
            found.ignored.count,
            crate::escape_controls(&found.ignored.first.join(", "))
        ));
    }
    if found.binary > 0 {
        notes.push(format!("{} files hold no text", found.binary));
    }
    if found.not_allowed > 0 {
        notes.push(format!("{} files may not be read", found.not_allowed));
    }
    for skipped in found.skipped.iter().take(MAX_SKIPPED) {
        notes.push(format!(
            "left out: {}: {}",
            crate::escape_controls(&skipped.name),
            skipped.reason
        ));
    }
    let rest = found.skipped.len().saturating_sub(MAX_SKIPPED);
    if rest > 0 {
        notes.push(format!("{rest} more left out"));
    }
    notes
}

/// Most places named that could not be searched.
const MAX_SKIPPED: usize = 10;

impl Invocation for SearchFiles {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(super::directory(self.path.as_deref()))?;
        Ok(vec![match view.file_size(&path) {
            Some(_) => Intent::Read(path),
            None => Intent::ReadBelow(path),
        }])
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(super::directory(self.path.as_deref()))?;
            let pattern = &self.pattern;
            let found = files
                .search(&path, pattern, self.options().cancel(&context.cancel))
                .map_err(|error| {
                    super::about_patterns(error, &[Some(pattern), self.glob.as_deref()])
                })?;
            let hits: Vec<Value> = found
                .hits
                .iter()
                .map(|hit| {
                    super::object([
                        ("path", hit.path.as_str().into()),
                        ("line", hit.line.into()),
                        ("text", crate::escape::escape_line(&hit.text).into()),
                        ("clipped", hit.clipped.into()),
                    ])
                })
                .collect();
            let notes = notes(&found);
            Ok(Reply::text(text(&found, &notes)).structured(super::object([
                ("hits", Value::Array(hits)),
                ("more", found.more.into()),
                ("files", found.files.into()),
                ("ignored", found.ignored.count.into()),
                ("notes", notes.into()),
            ])))
        })
    }
}
