//! Numbers that end things: each call's time and output, a tree's processes and memory, a worker's
//! turns, calls, tokens, money and time. The meet of two limits is the smaller one.

/// Seconds that a call may ask for where no file says otherwise.
const TIMEOUT_S_MAX: u64 = 300;

/// Limits of a grant. Units last in names.
///
/// ```
/// use sandbox_config::RunLimits;
/// let limits = RunLimits::default();
/// assert_eq!(limits.timeout_s_default(), 30);
/// assert_eq!(limits.max_stdout_bytes(), 256 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    pub(crate) timeout_s_default: u64,
    /// `None`: [`TIMEOUT_S_MAX`], or the default time where that is longer.
    pub(crate) timeout_s_max: Option<u64>,
    pub(crate) max_stdout_kb: u64,
    pub(crate) max_stderr_kb: u64,
    pub(crate) max_file_write_mb: u64,
    pub(crate) max_turns: u64,
    pub(crate) max_tool_calls: u64,
    /// `None`: the limit that os-sandbox gives every command.
    pub(crate) processes: Option<u64>,
    pub(crate) memory_mb: Option<u64>,
    /// `None` for these: no limit.
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_cost_nano_usd: Option<u64>,
    pub(crate) max_wall_s: Option<u64>,
    pub(crate) max_working_s: Option<u64>,
    pub(crate) repeat_calls: Option<u64>,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits {
            timeout_s_default: 30,
            timeout_s_max: None,
            max_stdout_kb: 256,
            max_stderr_kb: 64,
            max_file_write_mb: 10,
            max_turns: 50,
            max_tool_calls: 20_000,
            processes: None,
            memory_mb: None,
            max_tokens: Some(500_000),
            max_cost_nano_usd: None,
            max_wall_s: Some(1_800),
            max_working_s: None,
            repeat_calls: Some(3),
        }
    }
}

impl RunLimits {
    /// Seconds that one call may take when it names no time of its own.
    #[must_use]
    pub fn timeout_s_default(&self) -> u64 {
        self.timeout_s_default.min(self.timeout_s_max())
    }

    /// Returns the most seconds that a call may ask for.
    ///
    /// ```
    /// assert_eq!(sandbox_config::RunLimits::default().timeout_s_max(), 300);
    /// ```
    #[must_use]
    pub fn timeout_s_max(&self) -> u64 {
        self.timeout_s_max
            .unwrap_or(TIMEOUT_S_MAX.max(self.timeout_s_default))
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

    /// Returns the limit on tool calls of a worker and all workers that it calls.
    #[must_use]
    pub fn max_tool_calls(&self) -> u64 {
        self.max_tool_calls
    }

    /// Returns the limit on processes of one command at a time; `None`: the OS sandbox's own.
    #[must_use]
    pub fn processes(&self) -> Option<u64> {
        self.processes
    }

    /// Returns the limit on bytes of memory of one command's tree; `None`: the OS sandbox's own.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory_mb.map(|mb| mb.saturating_mul(1024 * 1024))
    }

    /// Returns the limit on tokens, in and out, of a worker and all workers that it calls; `None`:
    /// unlimited.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        self.max_tokens
    }

    /// Returns the limit on the cost of a worker and all workers that it calls, in billionths of a
    /// US dollar; `None`: unlimited. It can only be kept where prices are known.
    #[must_use]
    pub fn max_cost_nano_usd(&self) -> Option<u64> {
        self.max_cost_nano_usd
    }

    /// Returns the limit on seconds from a worker's start to its end; `None`: unlimited.
    #[must_use]
    pub fn max_wall_s(&self) -> Option<u64> {
        self.max_wall_s
    }

    /// As `max_wall_s`, without the time in which a person is being asked; `None`: unlimited.
    #[must_use]
    pub fn max_working_s(&self) -> Option<u64> {
        self.max_working_s
    }

    /// An equal call with an equal result this many times in a row earns a hint, twice as many end
    /// the worker; `None`: it may go on.
    #[must_use]
    pub fn repeat_calls(&self) -> Option<u64> {
        self.repeat_calls
    }

    /// Component-wise minimum.
    #[must_use]
    pub fn meet(self, other: RunLimits) -> RunLimits {
        RunLimits {
            timeout_s_default: self.timeout_s_default.min(other.timeout_s_default),
            timeout_s_max: smaller(self.timeout_s_max, other.timeout_s_max),
            max_stdout_kb: self.max_stdout_kb.min(other.max_stdout_kb),
            max_stderr_kb: self.max_stderr_kb.min(other.max_stderr_kb),
            max_file_write_mb: self.max_file_write_mb.min(other.max_file_write_mb),
            max_turns: self.max_turns.min(other.max_turns),
            max_tool_calls: self.max_tool_calls.min(other.max_tool_calls),
            processes: smaller(self.processes, other.processes),
            memory_mb: smaller(self.memory_mb, other.memory_mb),
            max_tokens: smaller(self.max_tokens, other.max_tokens),
            max_cost_nano_usd: smaller(self.max_cost_nano_usd, other.max_cost_nano_usd),
            max_wall_s: smaller(self.max_wall_s, other.max_wall_s),
            max_working_s: smaller(self.max_working_s, other.max_working_s),
            repeat_calls: smaller(self.repeat_calls, other.repeat_calls),
        }
    }

    /// Every limit at its maximum: the neutral element of `meet`, for declarations that name few.
    pub(crate) const UNLIMITED: RunLimits = RunLimits {
        timeout_s_default: u64::MAX,
        timeout_s_max: None,
        max_stdout_kb: u64::MAX,
        max_stderr_kb: u64::MAX,
        max_file_write_mb: u64::MAX,
        max_turns: u64::MAX,
        max_tool_calls: u64::MAX,
        processes: None,
        memory_mb: None,
        max_tokens: None,
        max_cost_nano_usd: None,
        max_wall_s: None,
        max_working_s: None,
        repeat_calls: None,
    };

    /// Set the field behind a config key.
    pub(crate) fn set(&mut self, key: &str, value: u64) {
        match key {
            "timeout_s_default" => self.timeout_s_default = value,
            "timeout_s_max" => self.timeout_s_max = Some(value),
            "max_stdout_kb" => self.max_stdout_kb = value,
            "max_stderr_kb" => self.max_stderr_kb = value,
            "max_file_write_mb" => self.max_file_write_mb = value,
            "max_turns" => self.max_turns = value,
            "max_tool_calls" => self.max_tool_calls = value,
            "processes" => self.processes = Some(value),
            "memory_mb" => self.memory_mb = Some(value),
            "max_tokens" => self.max_tokens = Some(value),
            "max_wall_s" => self.max_wall_s = Some(value),
            "max_working_s" => self.max_working_s = Some(value),
            "repeat_calls" => self.repeat_calls = Some(value),
            _ => {}
        }
    }

    /// Lift the limit behind a config key that says `null`; false: this one is always a number.
    pub(crate) fn lift(&mut self, key: &str) -> bool {
        let limit = match key {
            "max_tokens" => &mut self.max_tokens,
            "max_cost_usd" => &mut self.max_cost_nano_usd,
            "max_wall_s" => &mut self.max_wall_s,
            "max_working_s" => &mut self.max_working_s,
            "repeat_calls" => &mut self.repeat_calls,
            _ => return false,
        };
        *limit = None;
        true
    }
}

fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
