//! `--output-file`: the answer in a file, whole or not at all.

use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::exit::CliError;
use crate::written_file::WrittenFile;

/// Writes the answer. The caller wants it, so a failure names the place where it still is.
pub(super) fn write(file: &Path, answer: &str) -> Result<(), CliError> {
    let written = WrittenFile::open(file).and_then(|place| place.replace(answer.as_bytes()));
    written.map(drop).map_err(|error| {
        let message = format!("cannot write the answer into {}: {error}", file.display());
        CliError::negative("run.output", message).hint("the answer is on standard output instead")
    })
}

/// Fails early if standard output is open for reading only. Writes to it go nowhere, and Rust's
/// standard library reports success. (A descriptor that was closed before forge began looks like
/// `/dev/null`: the same library has opened that in its place.)
pub(super) fn check_stdout() -> Result<(), CliError> {
    let flags = rustix::fs::fcntl_getfl(std::io::stdout().as_fd());
    match flags {
        Ok(flags) if flags & OFlags::ACCMODE == OFlags::RDONLY => {
            let why = "standard output is not open for writing";
            Err(CliError::stdout(std::io::Error::other(why)))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Fails early if the file cannot come about: a run costs time and money.
pub(super) fn check(file: &Path) -> Result<(), CliError> {
    let problem = match WrittenFile::open(file) {
        Ok(_) => return Ok(()),
        Err(_) if file.is_dir() => "it is a directory".to_owned(),
        Err(_) if file.file_name().is_none() => "it names no file".to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("cannot write {}: {problem}", file.display());
    Err(CliError::misuse("run.output", message))
}
