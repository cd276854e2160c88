//! The end of a command: an exit code, a signal, or its time limit.

use std::fmt;

/// The end of a command.
///
/// ```
/// use os_sandbox::Exit;
///
/// assert_eq!(Exit::Code(3).code(), 3);
/// assert_eq!(Exit::Signal(9).code(), 137);
/// assert_eq!(Exit::TimedOut.code(), 124);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command exited with this code.
    Code(i32),
    /// A signal ended the command; 9 if it was cancelled.
    Signal(i32),
    /// The time limit passed, and the command was ended with everything that it had started.
    TimedOut,
}

impl Exit {
    /// Returns the exit code that a shell or `timeout` would give: 128 + signal, 124 for time.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
            Exit::TimedOut => 124,
        }
    }

    /// Returns `true` if the command exited with 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::TimedOut => f.write_str("timed out"),
        }
    }
}
