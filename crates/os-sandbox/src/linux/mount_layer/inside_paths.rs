//! Paths inside a mount layer that every command has to itself.

/// HOME inside.
pub(crate) const HOME: &str = "/home/sandbox";
/// TMPDIR inside.
pub(crate) const TMP: &str = "/tmp";
