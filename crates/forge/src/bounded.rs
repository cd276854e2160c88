//! Reading a file of the person's that may be anything: bounded, never waiting on a
//! FIFO, and nothing that only looks like a file. open(2) with O_NONBLOCK, then fstat(2) on what was opened.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads a regular file of at most `max_bytes` as UTF-8.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    let no_file = || Error::new(ErrorKind::InvalidInput, "it is no regular file");
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(no_file());
    }
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text)?;
    // As in /proc, where the kernel makes up what a file says: our own environment, say, which no
    // complaint about its text may quote.
    if facts.len() == 0 && !text.is_empty() {
        return Err(no_file());
    }
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > max_bytes {
        let message = format!("it is larger than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}
