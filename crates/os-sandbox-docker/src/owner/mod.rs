//! Which process owns a container, in words that mean the same one later.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[path = "other.rs"]
mod system;

/// What is known of a process now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerId {
    /// It is there, since then.
    Since(String),
    /// There is no such process.
    Gone,
    Unknown,
}

/// Which start of which machine. `None` if the system does not say.
pub(crate) fn boot() -> Option<String> {
    system::boot()
}

/// In which namespace numbers of processes are meant.
pub(crate) fn namespace() -> Option<String> {
    system::namespace()
}

/// When a process was started.
pub(crate) fn life(pid: u32) -> OwnerId {
    system::life(pid)
}
