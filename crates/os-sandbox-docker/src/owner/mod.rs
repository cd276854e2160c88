//! Identification of the process that owns a container, valid later as well.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[path = "other.rs"]
mod system;

/// Present state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerId {
    /// The process exists, since this time.
    Since(String),
    /// The process does not exist.
    Gone,
    Unknown,
}

pub(crate) use system::{boot, life, namespace, peer};
