//! The input of a worker: words, a file, or standard input, read with the rights of the caller.

use std::io::Read as _;
use std::path::Path;

use super::attach::NamedFiles;
use crate::cli::RunArgs;
use crate::exit::CliError;

/// More than any model reads.
const MAX_INPUT_BYTES: u64 = 4 * 1024 * 1024;

/// The input of the entry worker.
pub(super) fn input(args: &RunArgs, files: &mut NamedFiles<'_>) -> Result<String, CliError> {
    match args.file.as_deref() {
        None => Ok(args.input.join(" ")),
        Some(file) if file == Path::new("-") => standard_input(),
        Some(file) => files.read_text(file, MAX_INPUT_BYTES, UNREADABLE),
    }
}

fn standard_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(format!("cannot read standard input: {error}")))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_INPUT_BYTES {
        let message = format!("standard input is larger than {MAX_INPUT_BYTES} bytes");
        return Err(unreadable(message));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("standard input is not UTF-8".to_owned()))
}

const UNREADABLE: &str = "run.input";

fn unreadable(message: String) -> CliError {
    CliError::misuse(UNREADABLE, message)
}
