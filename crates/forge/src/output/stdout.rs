//! Standard output of commands: one result, for a person or as an object.

use std::fmt::Display;
use std::io::Write as _;

use serde_json::Value;

use crate::cli::Global;
use crate::exit::{CliError, ExitKind};

/// Prints a result: the object with `--json`, the text otherwise.
pub(crate) fn print_result(
    global: &Global,
    object: &Value,
    text: &str,
) -> Result<ExitKind, CliError> {
    match global.json {
        true => print_line(object)?,
        false => print_line(text)?,
    }
    Ok(ExitKind::Done)
}

/// Prints a text as it is.
pub(crate) fn print_text(text: impl Display) -> Result<(), CliError> {
    write!(std::io::stdout().lock(), "{text}").map_err(CliError::stdout)
}

/// Prints a text, and ends the line.
pub(crate) fn print_line(text: impl Display) -> Result<(), CliError> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(CliError::stdout)
}
