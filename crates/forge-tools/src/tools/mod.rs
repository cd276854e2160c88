//! The tools themselves, one file each: the description, the intents of a call, and its work.

mod append_file;
mod copy_file;
mod create_dir;
mod delete_file;
mod edit_file;
mod file_exists;
mod file_info;
mod hash_file;
mod list_files;
mod move_file;
mod read_file;
mod read_output;
mod relocate;
mod search_files;
#[cfg(feature = "process")]
mod shell;
mod write_file;

pub use append_file::{AppendFile, append_file};
pub use copy_file::{CopyFile, copy_file};
pub use create_dir::{CreateDir, create_dir};
pub use delete_file::{DeleteFile, delete_file};
pub use edit_file::{EditFile, edit_file};
pub use file_exists::{FileExists, file_exists};
pub use file_info::{FileInfo, file_info};
pub use hash_file::{HashFile, hash_file};
pub use list_files::{ListFiles, list_files};
pub use move_file::{MoveFile, move_file};
pub use read_file::{ReadFile, read_file};
pub use read_output::{ReadOutput, read_output};
pub use search_files::{SearchFiles, search_files};
#[cfg(feature = "process")]
pub use shell::{Shell, shell};
pub use write_file::{WriteFile, write_file};

use file_sandbox::{ContentHash, ErrorKind, SandboxPath};
use serde_json::{Map, Value};

use crate::call::{CallFailure, FailureCode};
use crate::change::ReviewedState;
use crate::params::Arguments;
use crate::tool::Tool;
use crate::tool_context::{ToolContext, changed_since_shown};

/// The parameter that every file tool shares.
const PATH: &str = "Path; list_files with path \"/\" shows what there is.";

/// The parameter of the tools whose files another process may have changed.
const IF_MATCH: &str = "SHA-256 that the file must have now.";

/// The names of all tools that a worker may get, for checking names in advance.
///
/// ```
/// assert!(forge_tools::tools::names().iter().any(|name| name == "read_file"));
/// ```
pub fn names() -> Vec<String> {
    let mut all = file_tools();
    all.push(Box::new(read_output()));
    #[cfg(feature = "process")]
    all.push(Box::new(shell()));
    all.iter().map(|tool| tool.spec().name.clone()).collect()
}

/// The tools of a worker that holds files, in the order they are listed.
pub(crate) fn file_tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(read_file()),
        Box::new(write_file()),
        Box::new(append_file()),
        Box::new(edit_file()),
        Box::new(list_files()),
        Box::new(search_files()),
        Box::new(delete_file()),
        Box::new(move_file()),
        Box::new(copy_file()),
        Box::new(create_dir()),
        Box::new(file_exists()),
        Box::new(file_info()),
        Box::new(hash_file()),
    ]
}

/// An object. `json!` copies its arguments, and of a long result that is most of the work.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut object = Map::with_capacity(N);
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// The directory of a call, with the root in the three ways that models write it.
fn directory(args: &Arguments) -> &str {
    match args.text("path") {
        None | Some("." | "") => "/",
        Some(path) => path,
    }
}

/// A refusal of the files, with the tool's own advice.
fn with_hint(error: file_sandbox::Error, about: ErrorKind, hint: &str) -> CallFailure {
    let matches = error.kind() == about;
    let failure = CallFailure::from(error);
    if matches { failure.hint(hint) } else { failure }
}

/// A refusal of the files that may be about a pattern and not about a path.
fn about_patterns(error: file_sandbox::Error, patterns: &[Option<&str>]) -> CallFailure {
    let is_pattern = error.kind() == ErrorKind::InvalidPath
        && patterns.iter().flatten().any(|text| *text == error.path());
    let mut failure = CallFailure::from(error);
    if is_pattern {
        failure.code = FailureCode::InvalidArguments;
        failure.path = None;
    }
    failure
}

/// The failure for a stale file: where a person saw it, that it changed since.
fn stale(error: file_sandbox::Error, context: &ToolContext, path: &SandboxPath) -> CallFailure {
    match context.seen(path) {
        Some(_) => changed_since_shown(path),
        None => CallFailure::from(error),
    }
}

/// The hash that a file must have for the call to go ahead: the call's own, and that of the file
/// the person agreed to.
fn must_match(
    args: &Arguments,
    context: &ToolContext,
    path: &SandboxPath,
) -> Result<Option<ContentHash>, CallFailure> {
    match (if_match(args)?, context.seen(path)) {
        (None, Some(ReviewedState::Bytes(seen))) => Ok(Some(seen)),
        (Some(said), Some(ReviewedState::Bytes(seen))) if said != seen => {
            context.check_seen(path)?;
            Ok(Some(said))
        }
        (
            said,
            Some(ReviewedState::Bytes(_) | ReviewedState::Tree(_) | ReviewedState::Missing) | None,
        ) => Ok(said),
    }
}

/// The hash that the call says a file must have.
fn if_match(args: &Arguments) -> Result<Option<ContentHash>, CallFailure> {
    let Some(text) = args.text("if_match") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(hash) => Ok(Some(hash)),
        Err(_) => Err(CallFailure::new(
            FailureCode::InvalidArguments,
            "`if_match` must be a SHA-256: 64 hexadecimal digits.",
        )
        .hint("hash_file gives it.")),
    }
}
