//! `write_file`: creates or replaces one text file.

use file_sandbox::{ContentHash, ErrorKind, WriteOptions};
use serde_json::json;

use crate::call::{CallFailure, FailureCode, Reply};
use crate::change::{Artifact, FileChange, ReviewedState};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext, changed_since_shown};

/// The advice about an existing file.
const THERE: &str = "Leave out create_new to replace it, or take another name.";

/// Writes a text file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert_eq!(tools::write_file().spec().risk, forge_tools::Risk::WritesWorkspace);
/// ```
#[derive(Debug)]
pub struct WriteFile(Spec);

/// The `write_file` tool.
pub fn write_file() -> WriteFile {
    WriteFile(
        Spec::changes(
            "write_file",
            "Write a text file: creates it, or replaces what is there. Missing parent \
             directories are made.",
        )
        .aliases(&["writeFile"])
        .params([
            Param::text("path", super::PATH).required(),
            Param::text("content", "The whole new text of the file.")
                .of_a_file()
                .required(),
            Param::text("if_match", super::IF_MATCH).alias("ifMatch"),
            Param::flag("create_new", "Fail if the file is there already.").alias("createNew"),
        ])
        .output([
            Field::flag("success"),
            Field::text("path"),
            Field::integer("chars"),
            Field::integer("bytes"),
        ]),
    )
}

fn options(args: &Arguments, if_match: Option<ContentHash>) -> WriteOptions {
    let options = WriteOptions::new().create_new(args.flag("create_new").unwrap_or(false));
    match if_match {
        Some(hash) => options.if_match(hash),
        None => options,
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("content").unwrap_or_default().len();
        view.check_write_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        Ok(match args.text("if_match") {
            // The answer says whether it is the file that the hash is of.
            Some(_) => vec![Intent::Read(path.clone()), Intent::Write(path)],
            None => vec![Intent::Write(path)],
        })
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("content").unwrap_or_default().len();
        view.check_file_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        view.check_written(&path, &options(args, super::if_match(args)?))
            .map_err(|failure| match failure.code {
                FailureCode::File(ErrorKind::Exists) => failure.hint(THERE),
                _ => failure,
            })
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let content = args.text("content").unwrap_or_default();
        let path = args.text("path").unwrap_or_default();
        view.change(path, |_| Some(content.to_owned()))
            .into_iter()
            .collect()
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let files = context.files()?;
            let path = context.path(args.text("path").unwrap_or_default())?;
            let content = args.text("content").unwrap_or_default();
            let mut options = options(&args, super::must_match(&args, &context, &path)?);
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
