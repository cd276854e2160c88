//! The permitted access to a mount.

use std::fmt;
use std::str::FromStr;

sandbox_names::word_enum! {
    /// Reading only, or reading and writing. `ReadOnly` is the smaller one.
    ///
    /// ```
    /// use file_sandbox::Mode;
    ///
    /// assert!(Mode::ReadOnly < Mode::ReadWrite);
    /// assert_eq!("rw".parse(), Ok(Mode::ReadWrite));
    /// assert_eq!(Mode::ReadOnly.to_string(), "ro");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// `ro`: read, list and stat.
        ReadOnly = "ro",
        /// `rw`: also write, create and delete.
        ReadWrite = "rw",
    }
    /// The words of configuration files: `ro` and `rw`.
    pub fn as_str
}

impl Mode {
    /// `true` if writing is allowed.
    #[must_use]
    pub const fn can_write(self) -> bool {
        matches!(self, Self::ReadWrite)
    }
}

sandbox_names::display!(Mode = as_str());

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        match text {
            "ro" => Ok(Self::ReadOnly),
            "rw" => Ok(Self::ReadWrite),
            _ => Err(ParseModeError(())),
        }
    }
}

/// A mode that is neither `ro` nor `rw`.
///
/// ```
/// let error = "host".parse::<file_sandbox::Mode>().unwrap_err();
/// assert_eq!(error.to_string(), "a mode is 'ro' or 'rw'");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mode is 'ro' or 'rw'")]
pub struct ParseModeError(());

impl fmt::Debug for ParseModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
