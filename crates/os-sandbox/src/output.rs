//! How a command ended and what it printed, in bounded memory.

use crate::exceeded::Exceeded;
use crate::quarantine::Quarantined;
use std::borrow::Cow;
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

    /// Whether it exited with 0.
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

/// How a command ended and what it printed.
///
/// ```
/// use os_sandbox::{Command, Plan, Policy, Requirement, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let output = Command::new(&plan, "echo").arg("hello").output()?;
/// assert_eq!((output.exit.code(), &*output.stdout.text()), (0, "hello\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// The limit that it ran into.
    pub exceeded: Option<Exceeded>,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// Protected names that it made where it could, and where they are now.
    pub quarantined: Vec<Quarantined>,
}

/// The head of what a stream carried, up to the policy's limit, and how much it was in all.
///
/// ```
/// let empty = os_sandbox::Captured::default();
/// assert!(!empty.truncated());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    bytes: Vec<u8>,
    total: u64,
}

impl Captured {
    /// What was kept: the beginning.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes the stream carried in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Whether there was more than was kept.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
    }

    /// What was kept, as text: a character cut by the limit is left out, bytes that are no UTF-8
    /// become U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let end = if self.truncated() {
            whole_characters(&self.bytes)
        } else {
            self.bytes.len()
        };
        String::from_utf8_lossy(&self.bytes[..end])
    }

    /// Keeps what fits below `limit` and counts the rest.
    pub(crate) fn push(&mut self, more: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len()).min(more.len());
        self.bytes.extend_from_slice(&more[..room]);
        self.total += more.len() as u64;
    }
}

/// Where the last complete character ends; looks at three bytes at most.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let wanted = match bytes[at] {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
            0x00..=0x7f => 1,
        };
        return if wanted > back { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        for (limit, want) in [
            (7, "aü€"),
            (6, "aü€"),
            (5, "aü"),
            (3, "aü"),
            (2, "a"),
            (1, "a"),
            (0, ""),
        ] {
            let mut captured = Captured::default();
            captured.push("aü€😀".as_bytes(), limit);
            assert_eq!(captured.text(), want, "{limit}");
            assert_eq!(captured.total_bytes(), 10);
            assert!(captured.truncated());
        }
        let mut invalid = Captured::default();
        invalid.push(b"a\xff", 10);
        assert_eq!(invalid.text(), "a\u{fffd}");
    }
}
