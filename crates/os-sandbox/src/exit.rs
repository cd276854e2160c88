//! The end of a command: an exit code, a signal, or its time limit.

use std::fmt;

/// How a command ended.
///
/// ```
/// use os_sandbox::Exit;
///
/// assert_eq!(Exit::Code(3).code(), 3);
/// assert_eq!(Exit::Signal(9).code(), 137);
/// assert_eq!(Exit::TimedOut.code(), 124);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it; 9 if it was cancelled.
    Signal(i32),
    /// Its time was up, and it was ended with everything that it had started.
    TimedOut,
}

impl Exit {
    /// The exit code that a shell or `timeout` would give: 128 + signal, 124 for time.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
            Exit::TimedOut => 124,
        }
    }

    /// Returns `true` if it exited with 0.
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
