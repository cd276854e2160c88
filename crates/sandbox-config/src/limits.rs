//! Numbers that end things: each call's time and output, a tree's processes and memory, a worker's
//! turns. The meet of two limits is the smaller one.

/// Limits of a grant. Units last in names.
///
/// ```
/// use sandbox_config::Limits;
/// let limits = Limits::default();
/// assert_eq!(limits.timeout_s_default(), 30);
/// assert_eq!(limits.max_stdout_bytes(), 256 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) timeout_s_default: u64,
    pub(crate) max_stdout_kb: u64,
    pub(crate) max_stderr_kb: u64,
    pub(crate) max_file_write_mb: u64,
    pub(crate) max_turns: u64,
    pub(crate) processes: u64,
    pub(crate) memory_mb: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            timeout_s_default: 30,
            max_stdout_kb: 256,
            max_stderr_kb: 64,
            max_file_write_mb: 10,
            max_turns: 50,
            processes: 256,
            memory_mb: 2048,
        }
    }
}

impl Limits {
    /// Seconds that one call may take when it names no time of its own.
    #[must_use]
    pub fn timeout_s_default(&self) -> u64 {
        self.timeout_s_default
    }

    /// Bytes kept of a command's stdout.
    #[must_use]
    pub fn max_stdout_bytes(&self) -> u64 {
        self.max_stdout_kb.saturating_mul(1024)
    }

    /// Bytes kept of a command's stderr.
    #[must_use]
    pub fn max_stderr_bytes(&self) -> u64 {
        self.max_stderr_kb.saturating_mul(1024)
    }

    /// Bytes that one write may leave in a file.
    #[must_use]
    pub fn max_file_write_bytes(&self) -> u64 {
        self.max_file_write_mb.saturating_mul(1024 * 1024)
    }

    /// Turns of one worker.
    #[must_use]
    pub fn max_turns(&self) -> u64 {
        self.max_turns
    }

    /// Processes of one command at a time.
    #[must_use]
    pub fn processes(&self) -> u64 {
        self.processes
    }

    /// Bytes of memory of one command's tree.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_mb.saturating_mul(1024 * 1024)
    }

    /// Component-wise minimum.
    #[must_use]
    pub fn meet(self, other: Limits) -> Limits {
        Limits {
            timeout_s_default: self.timeout_s_default.min(other.timeout_s_default),
            max_stdout_kb: self.max_stdout_kb.min(other.max_stdout_kb),
            max_stderr_kb: self.max_stderr_kb.min(other.max_stderr_kb),
            max_file_write_mb: self.max_file_write_mb.min(other.max_file_write_mb),
            max_turns: self.max_turns.min(other.max_turns),
            processes: self.processes.min(other.processes),
            memory_mb: self.memory_mb.min(other.memory_mb),
        }
    }

    /// Every limit at its maximum: the neutral element of `meet`, for declarations that name few.
    pub(crate) const UNLIMITED: Limits = Limits {
        timeout_s_default: u64::MAX,
        max_stdout_kb: u64::MAX,
        max_stderr_kb: u64::MAX,
        max_file_write_mb: u64::MAX,
        max_turns: u64::MAX,
        processes: u64::MAX,
        memory_mb: u64::MAX,
    };

    /// The field behind a config key.
    pub(crate) fn field(&mut self, key: &str) -> Option<&mut u64> {
        Some(match key {
            "timeout_s_default" => &mut self.timeout_s_default,
            "max_stdout_kb" => &mut self.max_stdout_kb,
            "max_stderr_kb" => &mut self.max_stderr_kb,
            "max_file_write_mb" => &mut self.max_file_write_mb,
            "max_turns" => &mut self.max_turns,
            "processes" => &mut self.processes,
            "memory_mb" => &mut self.memory_mb,
            _ => return None,
        })
    }
}
