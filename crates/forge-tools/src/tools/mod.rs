//! The tools themselves, one file each: the description, the intents of a call, and its work. A new
//! tool is a file, its module and a row of `FILE_TOOLS` here, and its name in `FILE_TOOLS` of
//! `sandbox-config`; a test of `forge` compares the two.

mod append_file;
mod create_dir;
mod delete_file;
mod edit_file;
mod file_exists;
mod file_info;
mod hash_file;
mod list_files;
mod prelude;
mod read_file;
mod read_output;
mod relocate;
mod search_files;
pub(crate) mod shell;
mod write_file;

pub use read_output::read_output;
pub use shell::shell;

use file_sandbox::{ContentHash, ErrorKind, SandboxPath};
use serde_json::{Map, Value};

use crate::call_result::{CallFailure, FailureCode};
use crate::change::ReviewedState;
use crate::tool::Tool;
use crate::tool_context::{ToolContext, changed_since_shown};

/// The parameter that every file tool shares.
const PATH: &str = "Path; list_files with path \"/\" shows what there is.";

/// The parameter of the tools whose files another process may have changed.
const IF_MATCH: &str = "SHA-256 that the file must have now.";

/// The tools of a worker that holds files, in the order they are listed.
const FILE_TOOLS: &[fn() -> Box<dyn Tool>] = &[
    read_file::tool,
    write_file::tool,
    append_file::tool,
    edit_file::tool,
    list_files::tool,
    search_files::tool,
    delete_file::tool,
    relocate::move_file,
    relocate::copy_file,
    create_dir::tool,
    file_exists::tool,
    file_info::tool,
    hash_file::tool,
];

/// Returns the tools of a worker that holds files, in the order they are listed.
pub fn file_tools() -> Vec<Box<dyn Tool>> {
    FILE_TOOLS.iter().map(|tool| tool()).collect()
}

/// Returns the names of all tools that a worker may get, for checking names in advance.
///
/// ```
/// assert!(forge_tools::tools::names().iter().any(|name| name == "read_file"));
/// ```
pub fn names() -> Vec<String> {
    let mut all = file_tools();
    all.push(read_output());
    all.push(shell());
    all.iter().map(|tool| tool.spec().name.clone()).collect()
}

/// An object. `json!` copies its arguments, and of a long result that is most of the work.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut object = Map::with_capacity(N);
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// The size of a text.
fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// The directory of a call, with the root in the three ways that models write it.
fn directory(path: Option<&str>) -> &str {
    match path {
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
    asked: Option<&str>,
    context: &ToolContext,
    path: &SandboxPath,
) -> Result<Option<ContentHash>, CallFailure> {
    match (if_match(asked)?, context.seen(path)) {
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
fn if_match(text: Option<&str>) -> Result<Option<ContentHash>, CallFailure> {
    let Some(text) = text else {
        return Ok(None);
    };
    match text.parse() {
        Ok(hash) => Ok(Some(hash)),
        Err(_) => Err(FailureCode::InvalidArguments
            .failure("`if_match` must be a SHA-256: 64 hexadecimal digits.")
            .hint("hash_file gives it.")),
    }
}
