//! Paths inside a mount layer that belong to one command.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// HOME inside.
pub(crate) const HOME: &str = "/home/sandbox";
/// TMPDIR inside.
pub(crate) const TMP: &str = "/tmp";

/// Returns the path of a file in a mount, as the command sees it.
pub(super) fn dest(inside: &str, rest: &Path) -> Vec<u8> {
    let mut out = inside.as_bytes().to_vec();
    out.push(b'/');
    out.extend_from_slice(rest.as_os_str().as_bytes());
    out
}
