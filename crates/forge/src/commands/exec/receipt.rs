//! The file of `--receipt`. The directory is opened before the command runs, and all access goes
//! through that handle. A receipt is written beside and renamed, so that a reader sees the old one
//! or the new one. The command may be able to write there: the last receipt is written after the
//! end of all processes of the command, and a foreign file at its path is reported.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::path::{Component, Path};
use std::time::SystemTime;

use file_sandbox::cap_std::fs::MetadataExt as _;
use file_sandbox::cap_std::{ambient_authority, fs as cap};
use rustix::fs::OFlags;

use crate::exit::CliError;
use crate::output::stderr;

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
        directory: cap::Dir,
        name: OsString,
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
            in_directory(path)
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
            ReceiptDestination::File {
                directory,
                name,
                written,
            } => {
                let ours = |last: &String| {
                    *written == identity(directory, name) && holds(directory, name, last)
                };
                if self.last.as_ref().is_some_and(|last| !ours(last)) {
                    stderr::print(format!(
                        "warning: the receipt {} was changed while the command ran; it is written anew",
                        crate::output::escape::escape_path(self.path)
                    ));
                }
                replace(directory, name, &text).map(|identity| *written = Some(identity))
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
        let there = in_directory(self.path).map(|place| match place {
            ReceiptDestination::File {
                directory, name, ..
            } => identity(&directory, &name),
            ReceiptDestination::Stream(_) => None,
        });
        match there {
            Ok(there) if there == *written => Ok(()),
            Ok(_) => Err(not_written(
                self.path,
                &Error::other("its directory was replaced while the command ran"),
            )),
            Err(error) => Err(not_written(self.path, &error)),
        }
    }
}

/// The directory of a file, without a link that leads out of the one that we were started in.
fn in_directory(path: &Path) -> std::io::Result<ReceiptDestination> {
    let name = path.file_name().map(OsStr::to_owned);
    let name = name.ok_or_else(|| Error::from(ErrorKind::IsADirectory))?;
    let around = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let here = std::env::current_dir()?;
    let below = if around.is_relative() {
        Some(around)
    } else {
        around.strip_prefix(&here).ok()
    };
    let climbs = |path: &&Path| path.components().any(|part| part == Component::ParentDir);
    let directory = match below.filter(|path| !climbs(path)) {
        Some(below) => {
            let here = cap::Dir::open_ambient_dir(&here, ambient_authority())?;
            match below.as_os_str().is_empty() {
                true => here,
                false => here.open_dir(below)?,
            }
        }
        None => cap::Dir::open_ambient_dir(around, ambient_authority())?,
    };
    match directory.symlink_metadata(&name) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(Error::other("it is not a file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(ReceiptDestination::File {
        directory,
        name,
        written: None,
    })
}

fn replace(directory: &cap::Dir, name: &OsStr, text: &str) -> std::io::Result<(u64, u64)> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let unique = since.map_or(0, |since| since.as_nanos());
    let beside = format!(".forge-tmp-receipt-{}-{unique}", std::process::id());
    let mut options = cap::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = directory.open_with(&beside, &options)?;
    let written = writeln!(file, "{text}").and_then(|()| {
        let found = file.metadata()?;
        directory.rename(&beside, directory, name)?;
        Ok((found.dev(), found.ino()))
    });
    if written.is_err() {
        // Perhaps it is not even there.
        let _ = directory.remove_file(&beside);
    }
    written
}

/// `true` if our receipt, and nothing else, is still there.
fn holds(directory: &cap::Dir, name: &OsStr, text: &str) -> bool {
    let mut options = cap::OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    cap::OpenOptionsExt::custom_flags(options.read(true), flags.bits() as i32);
    let Ok(file) = directory.open_with(name, &options) else {
        return false;
    };
    let mut there = Vec::with_capacity(text.len() + 2);
    let read = file.take(text.len() as u64 + 2).read_to_end(&mut there);
    read.is_ok() && there.strip_suffix(b"\n") == Some(text.as_bytes())
}

/// The file at a name, if it is one.
fn identity(directory: &cap::Dir, name: &OsStr) -> Option<(u64, u64)> {
    let found = directory.symlink_metadata(name).ok()?;
    Some((found.dev(), found.ino()))
}

fn not_written(file: &Path, error: &Error) -> CliError {
    CliError::exec_refused(
        "receipt",
        format!("cannot write the receipt to {}: {error}", file.display()),
    )
}
