//! Reads a file of the user that may be of any type: bounded, never waiting on a FIFO, and regular
//! files only. open(2) with O_NONBLOCK, then fstat(2) on the open file.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads a regular file of at most `max_bytes` as UTF-8.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    let no_text = |_| Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read_bytes(path, max_bytes)?).map_err(no_text)
}

/// Reads a regular file of at most `max_bytes`.
pub(crate) fn read_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    let no_file = || Error::new(ErrorKind::InvalidInput, "not a regular file");
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    // As in /proc, where the kernel generates the content: our own environment, for example, which
    // no error about its text may quote.
    if facts.len() == 0 && !bytes.is_empty() {
        return Err(no_file());
    }
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max_bytes {
        let message = format!("it is larger than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}
