//! The file of `--receipt`. The directory is opened before the command runs, and all access goes
//! through that handle. The command may be able to write there: the last receipt is written after the
//! end of all processes of the command, and a foreign file at its path is reported.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read as _, Write as _};
use std::path::Path;

use file_sandbox::cap_std::fs as cap;
use file_sandbox::cap_std::fs::MetadataExt as _;
use rustix::fs::OFlags;

use crate::exit::CliError;
use crate::output::stderr;
use crate::written_file::WrittenFile;

/// The destination of a receipt.
pub(super) struct Receipt<'a> {
    path: &'a Path,
    place: ReceiptDestination,
    last: Option<String>,
}

enum ReceiptDestination {
    /// The user's own stream. Its content has been read.
    Stream(File),
    File {
        place: WrittenFile,
        /// Device and inode of the last written file.
        written: Option<(u64, u64)>,
    },
}

impl<'a> Receipt<'a> {
    /// Opens it before the command runs: an unwritable file is a refusal, not a failure.
    pub(super) fn open(path: &'a Path) -> Result<Receipt<'a>, CliError> {
        let place = if path.starts_with("/dev") || path.starts_with("/proc") {
            // The person's own streams, which are links.
            OpenOptions::new()
                .write(true)
                .open(path)
                .map(ReceiptDestination::Stream)
        } else {
            WrittenFile::open(path).map(|place| ReceiptDestination::File {
                place,
                written: None,
            })
        };
        match place {
            Ok(place) => Ok(Receipt {
                path,
                place,
                last: None,
            }),
            Err(error) => Err(not_written(path, &error)),
        }
    }

    /// Writes the present state. A foreign file at its path is reported.
    pub(super) fn write(&mut self, text: String) -> Result<(), CliError> {
        let written = match &mut self.place {
            ReceiptDestination::Stream(_) if self.last.as_ref() == Some(&text) => Ok(()),
            ReceiptDestination::Stream(out) => writeln!(out, "{text}"),
            ReceiptDestination::File { place, written } => {
                let ours = |last: &String| *written == identity(place) && holds(place, last);
                if self.last.as_ref().is_some_and(|last| !ours(last)) {
                    stderr::print(format!(
                        "warning: the receipt {} was changed while the command ran; it is written anew",
                        crate::output::escape::escape_path(self.path)
                    ));
                }
                let line = format!("{text}\n");
                let replaced = place.replace(line.as_bytes());
                replaced.map(|identity| *written = Some(identity))
            }
        };
        written.map_err(|error| not_written(self.path, &error))?;
        self.last = Some(text);
        Ok(())
    }

    /// Checks after the last write that the path still leads to our receipt.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let ReceiptDestination::File { written, .. } = &self.place else {
            return Ok(());
        };
        match WrittenFile::open(self.path).map(|place| identity(&place)) {
            Ok(there) if there == *written => Ok(()),
            Ok(_) => Err(not_written(
                self.path,
                &Error::other("its directory was replaced while the command ran"),
            )),
            Err(error) => Err(not_written(self.path, &error)),
        }
    }
}

/// `true` if our receipt, and nothing else, is still there.
fn holds(place: &WrittenFile, text: &str) -> bool {
    let mut options = cap::OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    cap::OpenOptionsExt::custom_flags(options.read(true), flags.bits() as i32);
    let Ok(file) = place.directory.open_with(&place.name, &options) else {
        return false;
    };
    let mut there = Vec::with_capacity(text.len() + 2);
    let read = file.take(text.len() as u64 + 2).read_to_end(&mut there);
    read.is_ok() && there.strip_suffix(b"\n") == Some(text.as_bytes())
}

/// The file at a name, if it is one.
fn identity(place: &WrittenFile) -> Option<(u64, u64)> {
    let found = place.directory.symlink_metadata(&place.name).ok()?;
    Some((found.dev(), found.ino()))
}

fn not_written(file: &Path, error: &Error) -> CliError {
    CliError::exec_refused(
        "receipt",
        format!("cannot write the receipt to {}: {error}", file.display()),
    )
}
