//! The resources that a command may use. Limits are on by default, because a command of a model
//! does not need all resources of the host.

use std::time::Duration;

/// Limits of one command. `None` for a resource without a limit.
///
/// ```
/// use os_sandbox::{Limits, Policy};
/// use std::time::Duration;
///
/// let limits = Limits { wall: Some(Duration::from_secs(30)), ..Limits::default() };
/// let policy = Policy::builder().limits(limits).build()?;
/// assert_eq!(policy.limits().wall, Some(Duration::from_secs(30)));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time on the clock. After it the whole tree is ended. Default 10 minutes.
    pub wall: Option<Duration>,
    /// Bytes of standard output that are stored in memory. Default 8 MiB, half of it the beginning
    /// and half the end; the rest is counted.
    pub stdout_bytes: usize,
    /// Bytes of standard error that are stored in memory. Default 8 MiB, half of it the beginning
    /// and half the end; the rest is counted.
    pub stderr_bytes: usize,
    /// Processor time of one process. Default none.
    pub cpu: Option<Duration>,
    /// Open descriptors of one process. Default 4096, or the caller's own limit if lower.
    pub open_files: Option<u64>,
    /// Size of one file. Default 16 GiB.
    pub file_bytes: Option<u64>,
    /// Processes and threads of the whole tree. Default 2048.
    pub processes: Option<u64>,
    /// Memory that the whole tree uses. If the mechanism cannot count that, the memory that each
    /// process reserves (`RLIMIT_DATA`), as the plan says. Default 16 GiB; never more than seven
    /// eighths of the machine's.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall: Some(Duration::from_secs(600)),
            stdout_bytes: 8 << 20,
            stderr_bytes: 8 << 20,
            cpu: None,
            open_files: Some(4096),
            file_bytes: Some(16 << 30),
            processes: Some(2048),
            memory_bytes: Some(16 << 30),
        }
    }
}
