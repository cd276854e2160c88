//! Standard output of commands: one result, for a person or as an object.

use std::fmt::Display;
use std::io::Write as _;

use serde_json::Value;

use crate::cli::Global;
use crate::exit::{CliError, ExitKind};
use crate::output::escape::escape_json;

/// Prints a result: the object with `--json`, the text otherwise.
pub(crate) fn print_result(
    global: &Global,
    object: &Value,
    text: &str,
) -> Result<ExitKind, CliError> {
    match global.json {
        true => print_json(object)?,
        false => print_line(text)?,
    }
    Ok(ExitKind::Done)
}

/// Prints an object on a line, escaped for a terminal without a change of its meaning.
pub(crate) fn print_json(object: &Value) -> Result<(), CliError> {
    print_line(escape_json(&object.to_string()))
}

/// Prints a text as it is.
pub(crate) fn print_text(text: impl Display) -> Result<(), CliError> {
    write!(std::io::stdout().lock(), "{text}").map_err(CliError::stdout)
}

/// Prints a text, and ends the line.
pub(crate) fn print_line(text: impl Display) -> Result<(), CliError> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(CliError::stdout)
}
