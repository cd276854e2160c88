//! Appending: bytes as they are, or text in the encoding and with the line ends of the file.

use std::ffi::OsStr;

use crate::backend::{
    AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileMeta, block_on_ready,
};
use crate::cancellation::CancellationToken;
use crate::error::{Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::ops::write::atomic_write::{WriteMode, WriteSource, write_all};
use crate::ops::write::open_unchanged;
use crate::ops::write::{WriteOutcome, last_name};
use crate::path::SandboxPath;
use crate::resolve::check_size;
use crate::resolve::content_rules::is_key;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::Lookup;
use crate::resolve::refusals::not_found;
use crate::sandbox::FileSandbox;
use crate::text::line_endings::with_endings;
use crate::text::{self, Decoded, TextEncoding};

/// Options of an append.
///
/// ```
/// let options = file_sandbox::AppendOptions::new().durable(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppendOptions {
    preview: bool,
    create_new: bool,
    durable: bool,
    if_match: Option<ContentHash>,
}

impl AppendOptions {
    /// Appends to an existing file, or creates it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    sandbox_names::setters! {
        /// Returns the result without changing the file.
        preview(yes: bool) = yes;
        /// Refuses to append to an existing file.
        create_new(yes: bool) = yes;
        /// Waits until the bytes are on the disk.
        durable(yes: bool) = yes;
        /// Appends only if the file has this content.
        if_match(hash: impl Into<Option<ContentHash>>) = hash.into();
    }
}

/// The result of [`FileSandbox::append_text`].
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data])?;
/// let path = files.path("/data/a.txt")?;
/// files.write_bytes(&path, b"\xff\xfea\0\r\0\n\0", Default::default())?;
///
/// let appended = files.append_text(&path, "b\n", Default::default())?;
/// assert_eq!((appended.added.as_str(), appended.bytes), ("b\r\n", 14));
/// assert_eq!(files.read(&path, Default::default())?.content, "a\r\nb\r\n");
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendOutcome {
    /// The file, with all links resolved.
    pub path: SandboxPath,
    /// The text, with the line ends that it has in the file.
    pub added: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// `true` if the call created the file.
    pub created: bool,
    /// The encoding of the file, before and after.
    pub encoding: TextEncoding,
}

/// Larger files are not read to detect their encoding, as far as possible.
const WHOLE_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes that are inspected at either end of a large file.
const END_BYTES: u64 = 64 * 1024;
/// Bytes at a time.
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy)]
enum AppendInput<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
}

/// A text encoded for the file.
struct EncodedText {
    bytes: Vec<u8>,
    added: String,
    encoding: TextEncoding,
}

impl FileSandbox {
    /// Appends to a file, or creates it. A failure removes the appended bytes; only a crash in the
    /// middle may leave a part.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
    /// let log = Mount::memory(SandboxPath::parse("/log")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![log])?;
    /// let path = files.path("/log/today.txt")?;
    /// files.append(&path, b"one\n")?;
    /// let written = files.append(&path, b"two\n")?;
    /// assert_eq!(written.bytes, 8);
    /// assert_eq!(files.read(&path, Default::default())?.content, "one\ntwo\n");
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn append(&self, path: &SandboxPath, bytes: &[u8]) -> Result<WriteOutcome, Error> {
        let options = AppendOptions::new();
        let addition = AppendInput::Bytes(bytes);
        let appended =
            self.retry_on_change(|| block_on_ready(self.append_at(path, addition, &options)))?;
        Ok(WriteOutcome {
            path: appended.path,
            chars: bytes.len() as u64,
            bytes: appended.bytes,
            created: appended.created,
        })
    }

    /// Appends text to a text file, or creates one: in the file's encoding, and with its line ends
    /// if it has any. The text before stays as it is.
    ///
    /// # Errors
    /// `NOT_TEXT` for a file that is not text, or not only text of its encoding, and for text that
    /// the encoding cannot represent; `STALE` with `if_match`, `EXISTS` with `create_new`, and
    /// those of reading and of [`write`](Self::write).
    pub fn append_text(
        &self,
        path: &SandboxPath,
        text: &str,
        options: AppendOptions,
    ) -> Result<AppendOutcome, Error> {
        self.retry_on_change(|| {
            block_on_ready(self.append_at(path, AppendInput::Text(text), &options))
        })
    }

    async fn append_at(
        &self,
        path: &SandboxPath,
        addition: AppendInput<'_>,
        options: &AppendOptions,
    ) -> Result<AppendOutcome, Error> {
        let verb = Verb::Append;
        let (location, old) = self.locate_file(path, options.create_new, verb).await?;
        let (_lock, old) = self
            .lock_unless(options.preview, (path, &location), verb, old)
            .await?;
        self.check_match((path, &location), verb, old, options.if_match)
            .await?;
        let fitted = self.encode_addition(path, &location, old, addition).await?;
        let added = fitted.bytes.len() as u64;
        let after = old.map_or(0, |old| old.size).saturating_add(added);
        check_size(path, location.mount, verb, after)?;
        let appended = AppendOutcome {
            path: location.path(),
            added: fitted.added,
            bytes: after,
            created: old.is_none(),
            encoding: fitted.encoding,
        };
        if options.preview {
            return Ok(appended);
        }
        let _room = self
            .check_quota((path, &location), verb, old, after)
            .await?;
        let how = WriteMode {
            create_new: options.create_new,
            durable: location.is_durable(options.durable),
            old,
            content: options.if_match,
            ..WriteMode::default()
        };
        match (&location.found, old) {
            (Lookup::Entry { parent, .. }, Some(old)) => {
                let name = last_name(path, &location)?;
                let (at, bytes) = ((&**parent, &*name), &*fitted.bytes);
                let done = extend(at, bytes, &old, how, &self.cancel).await;
                done.map_err(|fault| self.backend_error(path, verb, fault))?;
                self.check_appended((path, &location), at, &old).await?;
            }
            (Lookup::Root | Lookup::Missing { .. }, None) => {
                let source = WriteSource::Bytes(&fitted.bytes);
                self.put_at((path, location), verb, source, how).await?;
            }
            (Lookup::Entry { .. }, None) | (Lookup::Root | Lookup::Missing { .. }, Some(_)) => {
                return Err(not_found(path, Vec::new()));
            }
        }
        Ok(appended)
    }

    /// Checks the name of a file once bytes were added, and takes them out if git would obey it.
    async fn check_appended(
        &self,
        (path, location): (&SandboxPath, &MountLocation<'_>),
        (parent, name): (&AnyDir, &OsStr),
        old: &FileMeta,
    ) -> Result<(), Error> {
        let placed = location.placed(Some(old.id));
        let checked = self.check_placed(path, &placed, Verb::Append).await;
        // Another program's file stays as it is.
        if checked.is_err()
            && let Ok(file) = parent.open_to_write(name).await
            && file.meta().await.is_ok_and(|meta| meta.id == old.id)
        {
            let _ = file.set_size(old.size).await;
        }
        checked
    }

    /// Encodes the addition for the file at `location`.
    async fn encode_addition(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        old: Option<FileMeta>,
        addition: AppendInput<'_>,
    ) -> Result<EncodedText, Error> {
        let verb = Verb::Append;
        let text = match addition {
            AppendInput::Bytes(bytes) => {
                return Ok(EncodedText {
                    bytes: bytes.to_vec(),
                    added: String::new(),
                    encoding: TextEncoding::UTF_8,
                });
            }
            AppendInput::Text(text) => text,
        };
        match (&location.found, old) {
            // Why: line endings and encoding would reveal the content of a closed mount.
            _ if location.mount.closed => Ok(EncodedText::as_it_is(text)),
            (Lookup::Entry { parent, .. }, Some(old)) if old.size > 0 => {
                let name = last_name(path, location)?;
                let file = parent.open_file(&name).await;
                let file = file.map_err(|fault| self.backend_error(path, verb, fault))?;
                if location.by_content.is_some() && is_key(&file).await {
                    return Err(path.error(ErrorReason::Changed { verb }));
                }
                self.fit(path, &file, old.size, text).await
            }
            _ => Ok(EncodedText::as_it_is(text)),
        }
    }

    /// Encodes a text for appending to a file.
    async fn fit(
        &self,
        path: &SandboxPath,
        file: &AnyFile,
        size: u64,
        text: &str,
    ) -> Result<EncodedText, Error> {
        let verb = Verb::Append;
        let failed = |fault| self.backend_error(path, verb, fault);
        let refuse = |encoding: TextEncoding, lost| {
            let encoding = encoding.name();
            let reason = ErrorReason::Encoding {
                verb,
                encoding,
                lost,
            };
            path.error(reason)
        };
        let not_text = || path.error(ErrorReason::NotText);
        if size > WHOLE_BYTES {
            return self.fit_large(path, file, size, text).await;
        }
        let bytes = read_range(file, 0, size, &self.cancel).await;
        let bytes = bytes.map_err(failed)?;
        let decoded = Decoded::of(&bytes).ok_or_else(not_text)?;
        let encoding = decoded.encoding;
        if encoding.is_guessed() && is_mostly_utf8(&bytes) {
            let text = with_endings(&String::from_utf8_lossy(&bytes), text);
            return Ok(EncodedText::as_it_is(&text));
        }
        let added = with_endings(&decoded.text, text);
        if encoding.is_utf8() {
            return Ok(EncodedText::as_it_is(&added));
        }
        // A file whose text does not encode to equal bytes cannot be extended.
        let body = &bytes[decoded.bom..];
        if encoding.encode(&decoded.text).ok().as_deref() != Some(body) {
            return Err(refuse(encoding, None));
        }
        let new = encoding.encode(&added);
        Ok(EncodedText {
            bytes: new.map_err(|lost| refuse(encoding, Some(lost)))?,
            added,
            encoding,
        })
    }

    /// Like `fit`, for a file that is too large to read at once: both ends show the line endings,
    /// the start the byte order mark. Plain ASCII is equal in every encoding without a mark; for
    /// other text the whole file must be UTF-8.
    async fn fit_large(
        &self,
        path: &SandboxPath,
        file: &AnyFile,
        size: u64,
        text: &str,
    ) -> Result<EncodedText, Error> {
        let verb = Verb::Append;
        let failed = |fault| self.backend_error(path, verb, fault);
        let too_large = || {
            let reason = ErrorReason::TooLarge {
                verb,
                bytes: size,
                limit: WHOLE_BYTES,
                setting: "",
            };
            path.error(reason)
        };
        let head = read_range(file, 0, END_BYTES, &self.cancel).await;
        let head = head.map_err(failed)?;
        // A UTF-16 file of this size needs other tools.
        if TextEncoding::by_bom(&head).is_some() {
            return Err(too_large());
        }
        let tail = read_range(file, size - END_BYTES, size, &self.cancel).await;
        let tail = tail.map_err(failed)?;
        if head.contains(&0) || tail.contains(&0) {
            return Err(path.error(ErrorReason::NotText));
        }
        if !text.is_ascii() && !is_utf8(file, size, &self.cancel).await.map_err(failed)? {
            return Err(too_large());
        }
        let near = match tail.contains(&b'\n') {
            true => tail,
            false => head,
        };
        let added = with_endings(&String::from_utf8_lossy(&near), text);
        Ok(EncodedText::as_it_is(&added))
    }
}

impl EncodedText {
    fn as_it_is(text: &str) -> Self {
        Self {
            bytes: text.as_bytes().to_vec(),
            added: text.to_owned(),
            encoding: TextEncoding::UTF_8,
        }
    }
}

/// `true` if valid UTF-8 characters outnumber the invalid bytes.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let Some(decoded) = Decoded::with_invalid_bytes(bytes) else {
        return false;
    };
    let beyond = decoded.text.chars().filter(|c| !c.is_ascii());
    let (strays, letters): (Vec<char>, Vec<char>) = beyond.partition(|c| text::is_invalid_byte(*c));
    letters.len() > strays.len()
}

async fn read_range(
    file: &AnyFile,
    from: u64,
    to: u64,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, BackendError> {
    let size = usize::try_from(to - from).map_err(|_| BackendError::Invalid)?;
    let mut bytes = vec![0; size];
    let mut got = 0;
    while got < size {
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        let end = size.min(got + CHUNK_BYTES);
        match file
            .read_at(&mut bytes[got..end], from + got as u64)
            .await?
        {
            // The file was truncated meanwhile, or has no size.
            0 => break,
            more => got += more,
        }
    }
    bytes.truncate(got);
    Ok(bytes)
}

async fn is_utf8(
    file: &AnyFile,
    size: u64,
    cancel: &CancellationToken,
) -> Result<bool, BackendError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut offset, mut kept) = (0, 0);
    while offset < size {
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        let got = file.read_at(&mut buffer[kept..], offset).await?;
        if got == 0 {
            break;
        }
        offset += got as u64;
        let filled = kept + got;
        let whole = match std::str::from_utf8(&buffer[..filled]) {
            Ok(_) => filled,
            Err(error) if error.error_len().is_some() => return Ok(false),
            Err(error) => error.valid_up_to(),
        };
        buffer.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
    Ok(kept == 0)
}

/// Appends the bytes, or restores the old size.
async fn extend(
    at: (&AnyDir, &OsStr),
    bytes: &[u8],
    old: &FileMeta,
    how: WriteMode,
    cancel: &CancellationToken,
) -> Result<(), BackendError> {
    let file = open_unchanged(at, old, how.content, cancel).await?;
    let mut done = write_all(&file, bytes, old.size, cancel).await;
    if done.is_ok() && how.durable {
        done = file.sync().await;
    }
    if done.is_err() {
        // The first failure is reported.
        let _ = file.set_size(old.size).await;
    }
    done
}
