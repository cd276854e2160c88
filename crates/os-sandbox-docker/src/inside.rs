//! Paths inside a container, and texts as engines take them.

use os_sandbox::{Error, ErrorKind};
use std::ffi::OsStr;

/// HOME inside.
pub(super) const HOME: &str = "/home/sandbox";
/// TMPDIR inside.
pub(super) const TMP: &str = "/tmp";
/// Where the working directory is.
pub(super) const WORK: &str = "/work";

/// An engine is asked in JSON, which has no other text.
pub(super) fn text(text: &OsStr, what: &str) -> Result<String, Error> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("{what} is not UTF-8, which containers need: {text:?}"),
        )
    })
}
