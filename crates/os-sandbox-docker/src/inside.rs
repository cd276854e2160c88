//! Paths inside a container, and text in the form that engines take.

use os_sandbox::{Error, ErrorKind};
use std::ffi::OsStr;

/// HOME inside a container.
pub(super) const HOME: &str = "/home/sandbox";
/// TMPDIR inside a container.
pub(super) const TMP: &str = "/tmp";
/// Working directory inside a container.
pub(super) const WORK: &str = "/work";

/// Returns the text as UTF-8, because requests to an engine are JSON, which has no other text.
pub(super) fn text(text: &OsStr, what: &str) -> Result<String, Error> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("{what} is not UTF-8, which containers need: {text:?}"),
        )
    })
}
