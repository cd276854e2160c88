//! `--output-file`: the answer in a file, whole or not at all: written beside it, flushed, and
//! renamed over it.

use std::fs::OpenOptions;
use std::io::{Result, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::exit::CliError;

/// Writes the answer. The caller wants it, so a failure names the place where it still is.
pub(super) fn write(file: &Path, answer: &str) -> std::result::Result<(), CliError> {
    replace(file, answer).map_err(|error| {
        let message = format!("cannot write the answer into {}: {error}", file.display());
        CliError::negative("run.output", message).hint("the answer is on standard output instead")
    })
}

/// Fails early if standard output is open for reading only. Writes to it go nowhere, and Rust's
/// standard library reports success. (A descriptor that was closed before forge began looks like
/// `/dev/null`: the same library has opened that in its place.)
pub(super) fn check_stdout() -> std::result::Result<(), CliError> {
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
pub(super) fn check(file: &Path) -> std::result::Result<(), CliError> {
    let above = directory(file);
    let problem = if file.is_dir() {
        Some("it is a directory".to_owned())
    } else if file.file_name().is_none() {
        Some("it names no file".to_owned())
    } else {
        match std::fs::metadata(above) {
            Ok(facts) if facts.is_dir() => None,
            Ok(_) => Some(format!("{} is not a directory", above.display())),
            Err(error) => Some(format!("{}: {error}", above.display())),
        }
    };
    match problem {
        None => Ok(()),
        Some(problem) => {
            let message = format!("cannot write {}: {problem}", file.display());
            Err(CliError::misuse("run.output", message))
        }
    }
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(above) if above != Path::new("") => above,
        Some(_) | None => Path::new("."),
    }
}

fn replace(file: &Path, answer: &str) -> Result<()> {
    let beside = beside(file);
    let written = (|| {
        let mut new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&beside)?;
        new.write_all(answer.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&beside, file)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// In the same directory, so that a rename is enough.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    directory(file).join(format!(".{name}.{}.tmp", std::process::id()))
}
