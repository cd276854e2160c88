//! Paths inside a mount layer that belong to one command.

/// HOME inside.
pub(crate) const HOME: &str = "/home/sandbox";
/// TMPDIR inside.
pub(crate) const TMP: &str = "/tmp";
