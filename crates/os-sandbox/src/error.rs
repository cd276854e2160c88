//! The one error of this crate: the failed operation, its object, the reason, and separately a
//! hint. Programs match on [`ErrorKind`]; people read `Display` and [`Error::hint`].

use crate::promise::Entry;
use std::fmt;
use std::io;

/// The category of an error, for programs.
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
    /// The caller's request is invalid: a relative host path, a reserved name.
    Invalid,
    /// The program does not exist at any path that the command could see.
    NotFound,
    /// The program exists and cannot be started: no permission, or not a program.
    NotExecutable,
    /// This host cannot keep a requested promise. The command did not start.
    Unsupported,
    /// A size or count of this crate's own was exceeded, for example too many arguments.
    Limit,
    /// The search for protected or hidden names was incomplete, so the command did not start, or
    /// its result is not vouched for. The error names paths as the command sees them.
    Unguarded,
    /// A program of the host listens on a port that the policy publishes. The command did not start.
    PortInUse,
    /// A detected mechanism failed. The command did not start, or the tree was ended.
    Enforcement,
    /// The operating system failed for another reason.
    Io,
}

impl ErrorKind {
    /// Returns an error of this kind.
    pub fn error(self, message: impl Into<String>) -> Error {
        Error::new(self, message)
    }
}

/// The reason why a policy could not be built, or a command not be started or awaited. `Debug` is
/// the sentence too, with the causes that it does not name.
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
    /// A tree changed while a start looked at it, and the next look can succeed.
    is_of_change: bool,
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
    sandbox_names::getters! {
        /// Returns the category, for programs.
        pub kind: ErrorKind = kind;
        /// Returns a remedy, if one is known.
        pub hint: Option<&str> = hint.as_deref();
        /// Returns the promises that could not be kept. Empty unless the kind is
        /// [`ErrorKind::Unsupported`].
        pub gaps: &[Entry] = &gaps;
        /// Returns `true` if a start can succeed that looks at the trees again.
        pub(crate) is_of_change: bool = is_of_change;
    }

    /// Returns the exit code that `env`, `timeout` and `docker run` use for this error: 127 not
    /// found, 126 not executable, 125 any other error of ours.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotFound => 127,
            ErrorKind::NotExecutable => 126,
            ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Limit
            | ErrorKind::Enforcement
            | ErrorKind::PortInUse
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
            is_of_change: false,
        }
    }

    /// Returns an error about an invalid request of the caller.
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

    sandbox_names::setters! {
        /// Adds a hint.
        with_hint(hint: impl Into<String>) => hint = Some(hint.into());
        /// Adds the system's error as the cause.
        with_source(source: io::Error) => source = Some(source);
    }

    pub(crate) fn with_gaps(mut self, gaps: Vec<Entry>) -> Self {
        self.gaps = gaps;
        self
    }

    /// Returns the error of a start that another process's changes of a tree have spoilt.
    pub(crate) fn of_change(mut self) -> Self {
        self.is_of_change = true;
        self
    }

    /// Returns `true` for a shortage of processes, memory or descriptors. It says nothing about what
    /// the host supports.
    pub(crate) fn is_shortage(&self) -> bool {
        use nix::libc::{EAGAIN, EMFILE, ENFILE, ENOMEM};
        [EAGAIN, EMFILE, ENFILE, ENOMEM]
            .iter()
            .any(|errno| self.is_about(*errno))
    }

    /// Returns `true` if the system has no room for one more, such as a namespace.
    pub(crate) fn is_no_space(&self) -> bool {
        // bubblewrap explains it and writes the name.
        self.is_about(nix::libc::ENOSPC) || self.message.contains("ENOSPC")
    }

    /// Returns `true` if the error has this cause, also if another program reported it as text.
    fn is_about(&self, errno: i32) -> bool {
        let told = io::Error::from_raw_os_error(errno).to_string();
        let told = told.split(" (os error").next().unwrap_or_default();
        let source = self.source.as_ref().and_then(io::Error::raw_os_error);
        source == Some(errno) || self.message.contains(told)
    }

    fn text(&self) -> String {
        match &self.source {
            Some(source) => format!("{}: {source}", self.message),
            None => self.message.clone(),
        }
    }
}
