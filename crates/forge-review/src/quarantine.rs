//! The directory at the root of a mount to which the scan after a command moves protected names.

use std::os::unix::ffi::OsStrExt as _;

use sandbox_names::QUARANTINE;

use crate::path::TreePath;

/// Returns `true` for the quarantine of a mount, and for everything below it.
pub(crate) fn is_quarantined(path: &TreePath) -> bool {
    let rest = path
        .names()
        .first()
        .and_then(|name| name.as_bytes().strip_prefix(QUARANTINE.as_bytes()));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}
