//! Why a command failed, and the exit code that says so: 1 something was found wrong, 2 the
//! command line was.

use std::fmt;
use std::process::ExitCode;

/// A failed command. The text is for a person and stands alone.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work was done and the answer is no, or the work could not be done.
    Failed(String),
    /// The command line makes no sense.
    Usage(String),
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// For a command that takes no arguments: the first one is a mistake.
    pub(crate) fn unless_empty(arguments: &[String]) -> Result<(), Self> {
        match arguments.first() {
            None => Ok(()),
            Some(argument) => Err(Failure::Usage(format!("unexpected argument `{argument}`"))),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(text) | Failure::Usage(text) => out.write_str(text),
        }
    }
}

/// Turns any error into a [`Failure`] that begins with what was being done.
pub(crate) trait Context<T> {
    fn context(self, doing: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{doing}: {error}")))
    }
}
