//! Refusals that several modules return.

use crate::backend::FileKind;
use crate::error::{Error, ErrorReason, Verb};
use crate::path::SandboxPath;

pub(crate) fn not_found(path: &SandboxPath, nearest: Vec<String>) -> Error {
    path.error(ErrorReason::NotFound { nearest })
}

/// Returns the refusal to change a directory above a mount point.
pub(crate) fn holds_root(path: &SandboxPath, verb: Verb) -> Error {
    let what = "a root of the sandbox";
    path.error(ErrorReason::Holds { verb, what })
}

pub(crate) fn wrong_type(path: &SandboxPath, verb: Verb, found: FileKind) -> Error {
    let hint = match (verb, found) {
        (Verb::Read, FileKind::Directory) => Some("List it instead."),
        (Verb::List, FileKind::File) => Some("Read it instead."),
        _ => None,
    };
    let found = found.words();
    path.error(ErrorReason::WrongType { verb, found, hint })
}
