//! The one error of this crate: what was done, to what, why it failed, and apart from that what
//! to try. Programs match on [`ErrorKind`]; people read `Display` and [`Error::hint`].

use crate::promise::Entry;
use std::fmt;
use std::io;

/// What went wrong, for programs.
///
/// ```
/// use os_sandbox::{Access, ErrorKind, Policy};
///
/// let error = Policy::builder().mount("relative", "/data", Access::READ).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that makes no sense: a relative host path, a reserved name.
    Invalid,
    /// The program does not exist where the command could see it.
    NotFound,
    /// The program is there and cannot be started: no permission, or not a program.
    NotExecutable,
    /// This host cannot keep what was asked for; nothing was started.
    Unsupported,
    /// A size or count of our own was exceeded, for example too many arguments.
    Limit,
    /// Not everywhere could be looked for protected or hidden names, so nothing was started, or
    /// what ran is not vouched for. The error names paths as the command sees them.
    Unguarded,
    /// A mechanism that should have worked did not; nothing was started, or the tree was ended.
    Enforcement,
    /// The operating system failed for another reason.
    Io,
}

/// Why a policy could not be built, or a command not be started or awaited. `Debug` is the sentence
/// too, with the causes that it does not name.
///
/// ```
/// use os_sandbox::{Access, Policy};
///
/// let error = Policy::builder().mount("/srv/x", "/etc", Access::READ).build().unwrap_err();
/// assert!(error.to_string().contains("/etc"));
/// assert!(error.hint().is_some());
/// ```
#[derive(thiserror::Error)]
#[error("{}", self.text())]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    gaps: Vec<Entry>,
    source: Option<io::Error>,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}

/// Writes an error for `unwrap()` and for a `main` that returns it: the sentence, and below it each
/// cause that the sentence does not name.
fn write_with_causes(error: &dyn std::error::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let sentence = error.to_string();
        if !text.contains(&sentence) {
            text.push_str("\ncaused by: ");
            text.push_str(&sentence);
        }
        cause = error.source();
    }
    f.write_str(&text)
}

impl Error {
    /// What went wrong, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to try, if we know.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The promises that could not be kept; empty unless the kind is [`ErrorKind::Unsupported`].
    #[must_use]
    pub fn gaps(&self) -> &[Entry] {
        &self.gaps
    }

    /// The exit code that `env`, `timeout` and `docker run` use for this: 127 not found, 126 not
    /// executable, 125 anything of ours.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotFound => 127,
            ErrorKind::NotExecutable => 126,
            ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Limit
            | ErrorKind::Enforcement
            | ErrorKind::Unguarded
            | ErrorKind::Io => 125,
        }
    }

    /// Returns an error of a kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            kind,
            message: message.into(),
            hint: None,
            gaps: Vec::new(),
            source: None,
        }
    }

    /// Returns an error about what the caller wants.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Returns an error of the system, with the operation that failed.
    #[must_use]
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Error {
            source: Some(source),
            ..Error::new(ErrorKind::Io, doing)
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_gaps(mut self, gaps: Vec<Entry>) -> Self {
        self.gaps = gaps;
        self
    }

    fn text(&self) -> String {
        match &self.source {
            Some(source) => format!("{}: {source}", self.message),
            None => self.message.clone(),
        }
    }

    /// Adds the error of the system that caused it.
    #[must_use]
    pub fn with_source(mut self, source: io::Error) -> Self {
        self.source = Some(source);
        self
    }
}
