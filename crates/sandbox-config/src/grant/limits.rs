//! Numbers that end things: each call's time and output, a tree's processes and memory, a worker's
//! turns, calls, tokens, money and time. The meet of two limits is the smaller one.

use crate::syntax::section::{Amount, AmountOrNull, DollarsOrNull, ImpliedAmount, section};

/// Seconds that a call may ask for where no file says otherwise.
const TIMEOUT_S_MAX: u64 = 300;

const MIB: u64 = 1024 * 1024;

/// A component of limits.
pub(crate) trait Limit: Copy {
    const UNLIMITED: Self;

    fn smaller(self, other: Self) -> Self;

    #[cfg(test)]
    fn from_number(number: Option<u64>) -> Self;

    fn number(self) -> Option<u64>;

    fn is_optional(self) -> bool;
}

impl Limit for u64 {
    const UNLIMITED: u64 = u64::MAX;

    fn smaller(self, other: u64) -> u64 {
        self.min(other)
    }

    #[cfg(test)]
    fn from_number(number: Option<u64>) -> u64 {
        number.unwrap_or(u64::MAX)
    }

    fn number(self) -> Option<u64> {
        Some(self)
    }

    fn is_optional(self) -> bool {
        false
    }
}

impl Limit for Option<u64> {
    const UNLIMITED: Option<u64> = None;

    fn smaller(self, other: Option<u64>) -> Option<u64> {
        self.into_iter().chain(other).min()
    }

    #[cfg(test)]
    fn from_number(number: Option<u64>) -> Option<u64> {
        number
    }

    fn number(self) -> Option<u64> {
        self
    }

    fn is_optional(self) -> bool {
        true
    }
}

/// One limit of [`RunLimits`].
///
/// ```
/// let limits = sandbox_config::RunLimits::default().list();
/// let stdout = limits.iter().find(|limit| limit.key == "max_stdout_kb").unwrap();
/// assert_eq!((stdout.name, stdout.value), ("max_stdout_bytes", Some(256 * 1024)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLimit {
    /// The key below `limits`.
    pub key: &'static str,
    /// The name of the accessor.
    pub name: &'static str,
    /// The number in the unit of the key; `None` for no limit.
    pub written: Option<u64>,
    /// The number in the unit of the name.
    pub value: Option<u64>,
    /// `true` if a grant may lack this limit.
    pub is_optional: bool,
}

macro_rules! component_wise {
    ($section:ident; $($key:ident, $accessor:ident;)*) => {
        impl $section {
            /// Every limit at its maximum: the neutral element of `meet`, for declarations that
            /// name few.
            pub(crate) const UNLIMITED: $section = $section { $($key: Limit::UNLIMITED,)* };

            /// Component-wise minimum.
            #[must_use]
            pub fn meet(self, other: $section) -> $section {
                $section { $($key: self.$key.smaller(other.$key),)* }
            }

            /// Returns every limit, in the order of the reference page.
            #[must_use]
            pub fn list(&self) -> Vec<RunLimit> {
                vec![$({
                    let (key, name) = (stringify!($key), stringify!($accessor));
                    let is_optional = self.$accessor().is_optional();
                    let value = self.$accessor().number();
                    let written = if key == name { value } else { self.$key.number() };
                    RunLimit { key, name, written, value, is_optional }
                }),*]
            }

            /// Sets each limit to the next of these numbers.
            #[cfg(test)]
            pub(crate) fn from_numbers(mut next: impl FnMut() -> Option<u64>) -> $section {
                $section { $($key: Limit::from_number(next()),)* }
            }
        }
    };
}

section! {
    /// Limits of a grant. Units last in names.
    ///
    /// ```
    /// use sandbox_config::RunLimits;
    /// let limits = RunLimits::default();
    /// assert_eq!(limits.timeout_s_default(), 30);
    /// assert_eq!(limits.max_stdout_bytes(), 256 * 1024);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RunLimits, LIMITS = "limits", "`limits` has";
    keys {
        /// Seconds that a call may take if it names no time of its own.
        timeout_s_default: Amount = 30 as timeout_s_default();
        /// Longest time that a call may name, in seconds. If left out: never less than
        /// `timeout_s_default`.
        timeout_s_max: ImpliedAmount = 300 as timeout_s_max();
        /// KiB of a command's standard output that are kept: half of them the beginning, half the
        /// end.
        max_stdout_kb: Amount<1024> = 256 => max_stdout_bytes() -> u64;
        /// KiB of a command's standard error that are kept: half of them the beginning, half the
        /// end.
        max_stderr_kb: Amount<1024> = 64 => max_stderr_bytes() -> u64;
        /// Size in MiB of the largest file that a tool may leave by writing, appending, editing,
        /// copying, moving or pulling. Commands are not bound.
        max_file_write_mb: Amount<MIB> = 10 => max_file_write_bytes() -> u64;
        /// Turns that a worker's model may take.
        max_turns: Amount = 50 => max_turns() -> u64;
        /// Processes and threads that a command may have at one time.
        processes: ImpliedAmount = 2048 => processes() -> Option<u64>;
        /// MiB of memory that a command and the processes that it starts may use together, at most
        /// seven eighths of the machine's. Where the mechanism cannot count the sum, each process
        /// has this limit.
        memory_mb: ImpliedAmount<MIB> = 16384 => memory_bytes() -> Option<u64>;
        /// MiB that the changes of a command or run with `--review` may hold until they are applied
        /// or discarded; of a run in a copy, the whole copy. Holes do not count. All reviews that
        /// wait may hold four times as much together.
        review_mb: ImpliedAmount<MIB> = 8192 => review_bytes() -> Option<u64>;
        /// Files and directories that they may hold, by these rules.
        review_files: ImpliedAmount = 200000 => review_files() -> Option<u64>;
        /// Tokens that a worker and the workers that it calls may use. `null`: no limit.
        max_tokens: AmountOrNull = 500000 => max_tokens() -> Option<u64>;
        /// Tool calls that a worker and the workers that it calls may make. A turn that would
        /// exceed it makes none.
        max_tool_calls: Amount = 20000 => max_tool_calls() -> u64;
        /// US dollars that a worker and the workers that it calls may cost. Every model then needs
        /// `prices`. `null`, or left out: no limit.
        max_cost_usd: DollarsOrNull => max_cost_nano_usd() -> Option<u64>;
        /// Seconds from the start of a worker to its end. It also limits each call, those of an MCP
        /// client included. `null`: no limit.
        max_wall_s: AmountOrNull = 1800 => max_wall_s() -> Option<u64>;
        /// Seconds of `max_wall_s` without the waiting for a person's answer or before a turn is
        /// tried again. `null`, or left out: no limit.
        max_working_s: AmountOrNull => max_working_s() -> Option<u64>;
        /// Identical calls in a row with identical results, after which the model gets a hint.
        /// Twice as many end the run. `null`: no limit.
        repeat_calls: AmountOrNull = 3 => repeat_calls() -> Option<u64>;
    }
    foreign {
        "timeout" => "use `timeout_s_default:`, in seconds",
        "max_timeout" => "use `timeout_s_max:`, in seconds",
        "maxTurns" => "did you mean `max_turns:`?",
        "max_calls" => "did you mean `max_tool_calls:`?",
        "max_cost" | "max_budget_usd" => "did you mean `max_cost_usd:`?",
        "context_tokens" => "how much fits is the model's: `providers.NAME.context_tokens`",
        "max_processes" => "did you mean `processes:`?",
        "memory" => "did you mean `memory_mb:`?",
    }
    also component_wise;
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
}
