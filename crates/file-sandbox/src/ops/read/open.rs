//! Opens a file as a stream of bytes, for callers that do not need all of them at once.
//!
//! It is opened as `read` opens it, in one step with the checks, with the guarantees of `read`: the
//! end does not move while another process writes, and the mount's limit applies to each byte. The
//! descriptor is private, because it reveals the host's path (`/proc/self/fd`).

use std::io::{self, Read};
use std::sync::Arc;

use crate::backend::{AnyFile, BackendFile as _, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::ops::read::NO_SIZE_BYTES;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// A file opened by [`FileSandbox::open`], to be read from its start.
///
/// It reads the opened object even if its name changes, and ends at the size that the object had
/// when it was opened: later appended bytes are not read, and a truncated file ends earlier. So it
/// never yields more than [`len`](Self::len), which the mount's limit allows. A file that reports
/// size 0 may be one of unknown size, as some file systems have: it is read up to the mount's
/// limit, at most 1 MiB, and if it is longer, the next read fails.
///
/// A failing read returns an [`io::Error`] with an [`Error`] inside.
///
/// ```
/// use std::io::{BufRead as _, BufReader, Read as _};
///
/// use file_sandbox::{ErrorKind, FileSandbox, Limits, Mode, Mount, SandboxPath};
///
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite)
///     .with_limits(Limits::new().suffixes([".log"]));
/// let files = FileSandbox::new(vec![data])?;
/// let path = files.path("/data/today.log")?;
/// files.write(&path, "one\ntwo\n", Default::default())?;
///
/// let mut open = files.open(&path)?;
/// assert_eq!(open.len(), 8);
/// files.append(&path, b"three\n")?;
/// let lines: Vec<String> = BufReader::new(&mut open).lines().collect::<Result<_, _>>()?;
/// assert_eq!(lines, ["one", "two"]);
///
/// let denied = files.open(&files.path("/data/key.pem")?).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::SuffixNotAllowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OpenFile {
    file: AnyFile,
    /// For the texts of errors.
    asked: Arc<str>,
    size: u64,
    /// The end of the readable bytes.
    end: u64,
    at: u64,
}

impl FileSandbox {
    /// Opens a file for reading it part by part, as bytes.
    ///
    /// # Errors
    /// `TOO_LARGE` above the mount's limit, and those of resolving the path, as
    /// [`read`](Self::read) gives them.
    pub fn open(&self, path: &SandboxPath) -> Result<OpenFile, Error> {
        let opened = block_on_ready(self.open_file(path))?;
        let size = opened.meta.size;
        let end = match (size, opened.mount.limits().file_byte_limit()) {
            (0, limit) => limit.unwrap_or(NO_SIZE_BYTES).min(NO_SIZE_BYTES),
            (size, _) => size,
        };
        Ok(OpenFile {
            file: opened.file,
            asked: path.asked_shared(),
            size,
            end,
            at: 0,
        })
    }
}

impl OpenFile {
    /// Returns its size in bytes when it was opened; 0 also if it is not known.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.size
    }

    /// `true` if [`len`](Self::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Fails if a file of unknown size continues after its last readable byte.
    fn refuse_more(&self) -> io::Result<usize> {
        if self.size > 0 || block_on_ready(self.file.read_at(&mut [0], self.at)).unwrap_or(0) == 0 {
            return Ok(0);
        }
        let reason = ErrorReason::TooLarge {
            verb: Verb::Read,
            bytes: self.end.saturating_add(1),
            limit: self.end,
            setting: "",
        };
        Err(self.failed(io::ErrorKind::FileTooLarge, reason))
    }

    fn failed(&self, kind: io::ErrorKind, reason: ErrorReason) -> io::Error {
        io::Error::new(kind, Error::new(&*self.asked, reason))
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        if room == 0 {
            return self.refuse_more();
        }
        let got =
            block_on_ready(self.file.read_at(&mut buffer[..room], self.at)).map_err(|fault| {
                let source = fault.into_io();
                let verb = Verb::Read;
                self.failed(source.kind(), ErrorReason::Io { verb, source })
            })?;
        self.at += got as u64;
        Ok(got)
    }
}

// Without the handle: that of a file shows its path on the host.
sandbox_names::debug!(OpenFile { path = asked, len = size, at });
