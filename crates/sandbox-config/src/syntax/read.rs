//! Reading one config file: bounded, never waiting on a FIFO, and precise about the obstacle.
//! open(2) with O_NONBLOCK, then fstat(2) on the open file: check and use are one object.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::loading::sources::{ProjectFileState, WriterCheck};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::{Layer, SourceText};

/// A larger config file is more than a person reads.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;

/// Read a file; `shown` is its name in messages.
pub(crate) fn read(
    path: &Path,
    shown: &str,
    layer: Layer,
) -> Result<Arc<SourceText>, Box<Diagnostic>> {
    read_checked(path, shown, layer, None)
}

/// Reads a file that a command must not have written.
pub(crate) fn read_checked(
    path: &Path,
    shown: &str,
    layer: Layer,
    writer_check: Option<&dyn WriterCheck>,
) -> Result<Arc<SourceText>, Box<Diagnostic>> {
    let refuse = |code, message: String| {
        let shown_once = format!("cannot read {shown}: {message}");
        Box::new(Diagnostic::error(code, shown_once).in_file(shown))
    };
    let mut file =
        open(path).map_err(|error| refuse(DiagnosticCode::Unreadable, error.to_string()))?;
    let facts = file
        .metadata()
        .map_err(|error| refuse(DiagnosticCode::Unreadable, error.to_string()))?;
    let kind = facts.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "it is a directory"
        } else if kind.is_fifo() {
            "it is a FIFO"
        } else {
            "not a regular file"
        };
        return Err(refuse(DiagnosticCode::Unreadable, what.into()));
    }
    let mut bytes = Vec::new();
    file.by_ref()
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refuse(DiagnosticCode::Unreadable, error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(
            DiagnosticCode::TooLarge,
            format!("it is larger than {} KiB", MAX_BYTES / 1024),
        ));
    }
    // Why after reading: the command could have put its own file there for this moment.
    let found =
        writer_check.and_then(|check| check.find(path, ProjectFileState::Read(&facts, &bytes)));
    if let Some(found) = found {
        return Err(found.about(shown));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let readable = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let text = SourceText::file(shown.to_owned(), path, layer, readable);
        let at = text.place_of(offset);
        let message = format!("cannot read {shown}: it is not UTF-8 (byte offset {offset})");
        let diagnostic = DiagnosticCode::NotUtf8.at(&at, message);
        // The marks with which UTF-16 begins, of either order.
        let is_utf16 = matches!(error.as_bytes(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
        Box::new(match is_utf16 {
            true => diagnostic.help("it is UTF-16: save it as UTF-8"),
            false => diagnostic,
        })
    })?;
    Ok(SourceText::file(shown.to_owned(), path, layer, text))
}

/// Returns the first bytes of a regular file; `None` if it cannot be read.
pub(crate) fn first_bytes(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    let file = open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)
}
