//! A grant made real: the places where host directories become handles and rules.

#[cfg(feature = "files")]
mod files;
#[cfg(any(feature = "files", feature = "process"))]
pub(crate) mod host_dirs;
#[cfg(feature = "process")]
mod process;
