//! A grant made real: the places where host directories become handles and rules.

#[cfg(feature = "files")]
pub(crate) mod files;
pub(crate) mod guards;
#[cfg(any(feature = "files", feature = "process"))]
pub(crate) mod host_dirs;
#[cfg(feature = "process")]
pub(crate) mod process;
#[cfg(feature = "process")]
mod programs;
#[cfg(feature = "process")]
mod shown;
