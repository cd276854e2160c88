//! The archive as a file: whole or not at all, written beside it and renamed over it.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use forge_runtime::containers::image::{ImageError, PlannedImage};

use crate::exit::CliError;
use crate::output::escape::escape_path;

/// Fails before anything is read if the file cannot come about.
pub(super) fn check(file: &Path) -> Result<(), CliError> {
    let refuse = |why: &str| {
        let message = format!("cannot write {}: {why}", escape_path(file));
        Err(CliError::misuse("image.output", message))
    };
    match file.file_name() {
        None => return refuse("it names no file"),
        Some(name) if name == "-" => {
            return refuse("an archive goes into a file, not to standard output");
        }
        Some(_) => {}
    }
    match std::fs::symlink_metadata(file) {
        // Renamed over one, it would go; and so would a pipe.
        Ok(facts) if !facts.is_file() => return refuse("it is there, and no file"),
        Ok(_) | Err(_) => {}
    }
    let above = directory(file);
    match std::fs::metadata(above) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => refuse(&format!("{} is not a directory", escape_path(above))),
        Err(error) => refuse(&format!("{}: {error}", escape_path(above))),
    }
}

/// Writes it.
pub(super) fn write(file: &Path, planned: &PlannedImage<'_>) -> Result<(), CliError> {
    let beside = beside(file);
    let written = into(&beside, planned)
        .and_then(|()| std::fs::rename(&beside, file).map_err(ImageError::Write));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(|error| match error {
        ImageError::Write(error) => {
            let message = format!("cannot write {}: {error}", escape_path(file));
            CliError::negative("image.output", message).hint("nothing is left of it")
        }
        other => super::failed(&other),
    })
}

fn into(file: &Path, planned: &PlannedImage<'_>) -> Result<(), ImageError> {
    let new: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(file)
        .map_err(ImageError::Write)?;
    let mut written = planned.write(BufWriter::new(new))?;
    written.flush().map_err(ImageError::Write)?;
    written.get_ref().sync_all().map_err(ImageError::Write)
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(above) if above != Path::new("") => above,
        Some(_) | None => Path::new("."),
    }
}

/// In the same directory, so that a rename is enough.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    directory(file).join(format!(".{name}.{}.tmp", std::process::id()))
}
