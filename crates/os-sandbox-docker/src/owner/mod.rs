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

/// Returns an id of the machine and its boot; `None` if the system does not report one.
pub(crate) fn boot() -> Option<String> {
    system::boot()
}

/// Returns the namespace that gives process numbers their meaning.
pub(crate) fn namespace() -> Option<String> {
    system::namespace()
}

/// Returns the start time of a process.
pub(crate) fn life(pid: u32) -> OwnerId {
    system::life(pid)
}
