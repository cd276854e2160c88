//! Reading: a budget of characters, and never more bytes than the file had when it was opened.
//!
//! The size is checked before the first byte is read, and reading stops there even if another
//! process appends to the file. A file that is not UTF-8 is read again in its detected encoding.

pub(crate) mod open;
mod tail;
mod text_collector;

use crate::backend::{BackendError, BackendFile as _, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::hash::{ContentHash, ContentHasher};
use crate::ops::read::text_collector::TextCollector;
use crate::path::SandboxPath;
use crate::resolve::{OpenedFile, check_size};
use crate::sandbox::FileSandbox;
use crate::text::TextEncoding;
use crate::text::mask::TextMask;

/// The part of a text to read.
///
/// ```
/// let options = file_sandbox::ReadOptions::new().offset(200_000).max_chars(1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    pub(super) max_chars: u64,
    pub(super) offset: u64,
    /// The first line, from 1, and how many.
    pub(super) lines: Option<(u64, u64)>,
    tail: Option<usize>,
    /// The byte of the offset, if the caller knows it.
    byte: Option<u64>,
    pub(super) hash: bool,
}

impl ReadOptions {
    /// From the start, at most 200 000 characters.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_chars: 200_000,
            offset: 0,
            lines: None,
            tail: None,
            byte: None,
            hash: false,
        }
    }

    sandbox_names::setters! {
        /// Sets the byte of the [`offset`](Self::offset), from [`TextSlice::next_byte`], so that the
        /// bytes before it are not read. If a character cannot begin there, and in encodings other than
        /// UTF-8, only the offset counts.
        at_byte(byte: u64) => byte = Some(byte);
        /// Reads `count` lines from line `first` on, counted from 1, instead of an offset.
        lines(first: u64, count: u64) = Some((first.max(1), count));
        /// Reads the last lines instead, of at most 1 MiB at the end of the file, which is all that is
        /// read of it.
        tail(lines: usize) = Some(lines);
        /// Also returns the hash of the whole file, for
        /// [`WriteOptions::if_match`](crate::WriteOptions::if_match).
        hash(yes: bool) = yes;
        /// Reads at most this many characters.
        max_chars(chars: u64) = chars;
        /// Leaves out this many characters at the start.
        offset(chars: u64) = chars;
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A part of a text file.
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, ReadOptions, SandboxPath, TotalChars};
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// # let target = SandboxPath::parse("/data")?;
/// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?;
/// # let files = FileSandbox::new(vec![mount])?;
/// let path = SandboxPath::parse("/data/a.txt")?;
/// files.write(&path, "éééééééééé", Default::default())?;
/// let text = files.read(&path, ReadOptions::new().max_chars(4))?;
/// assert_eq!(text.content, "éééé");
/// assert!(text.truncated);
/// assert_eq!(text.total_chars, TotalChars::Exact(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextSlice {
    /// The characters.
    pub content: String,
    /// `true` if the file continues after them; with [`ReadOptions::tail`], if it has more before.
    pub truncated: bool,
    /// The number of characters of the whole file.
    pub total_chars: TotalChars,
    /// The number of characters before these; 0 with [`ReadOptions::tail`], which does not count
    /// them.
    pub offset: u64,
    /// The number of these characters. The next part begins at `offset + chars`.
    pub chars: u64,
    /// The line in which they begin, from 1; `None` if the lines before were not read.
    pub first_line: Option<u64>,
    /// The encoding of the file.
    pub encoding: TextEncoding,
    /// The byte at which the following text begins, if the file is UTF-8, for
    /// [`ReadOptions::at_byte`].
    pub next_byte: Option<u64>,
    /// The hash of the whole file, if it was requested.
    pub hash: Option<ContentHash>,
}

impl TextSlice {
    /// The [`ReadOptions::offset`] to go on with; `None` at the end of the file.
    #[must_use]
    pub fn next_offset(&self) -> Option<u64> {
        let next = self.offset.saturating_add(self.chars);
        let is_tail = self.first_line.is_none() && self.offset == 0;
        (self.truncated && !is_tail).then_some(next)
    }
}

/// A count that may have been stopped.
///
/// ```
/// use file_sandbox::TotalChars;
///
/// assert_eq!(TotalChars::AtLeast(9).get(), 9);
/// assert!(!TotalChars::AtLeast(9).is_exact());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalChars {
    /// All were counted.
    Exact(u64),
    /// Counting stopped here: the file is large, and the requested part is before it.
    AtLeast(u64),
}

impl TotalChars {
    /// The number counted.
    #[must_use]
    pub const fn get(self) -> u64 {
        match self {
            Self::Exact(n) | Self::AtLeast(n) => n,
        }
    }

    /// `true` if the whole file was counted.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// Bytes at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes that are counted after the requested part: the first lines of a large file cost no more
/// than the last ones.
const COUNT_BYTES: u64 = 256 * 1024;
/// Bytes that are inspected to guess an encoding.
const GUESS_BYTES: usize = 1024 * 1024;
/// The most bytes read of a file without a size, as some file systems have.
pub(super) const NO_SIZE_BYTES: u64 = 1024 * 1024;

impl FileSandbox {
    /// Reads text. Characters are counted, not bytes.
    ///
    /// A path of the host is not a path of the sandbox.
    ///
    /// ```no_run
    /// # fn read(files: file_sandbox::FileSandbox, path: file_sandbox::SandboxPath) {
    /// let _ = files.read(&path, Default::default());
    /// # }
    /// ```
    /// ```compile_fail
    /// # fn read(files: file_sandbox::FileSandbox, path: std::path::PathBuf) {
    /// let _ = files.read(&path, Default::default());
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NOT_TEXT` for a file that is not text in any encoding, as far as it was read; `TOO_LARGE`
    /// above the mount's limit; and those of resolving the path.
    pub fn read(&self, path: &SandboxPath, options: ReadOptions) -> Result<TextSlice, Error> {
        block_on_ready(self.read_at(path, options))
    }

    async fn read_at(&self, path: &SandboxPath, options: ReadOptions) -> Result<TextSlice, Error> {
        let opened = self.open_file(path).await?;
        if let Some(lines) = options.tail {
            return Box::pin(self.read_tail(path, &opened, lines, &options)).await;
        }
        if let Some(text) = self.read_small(path, &opened, &options).await? {
            return Ok(text);
        }
        if let Some(byte) = options.start()
            && starts_a_character(&opened, byte).await == Ok(true)
            && let Some(text) = Box::pin(self.read_utf8(path, &opened, &options, byte)).await?
        {
            return Ok(text);
        }
        match Box::pin(self.read_utf8(path, &opened, &options, 0)).await? {
            Some(text) => Ok(text),
            None => Box::pin(self.read_other(path, &opened, &options)).await,
        }
    }

    /// The common case: all of a small file that is UTF-8, without a copy.
    async fn read_small(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        options: &ReadOptions,
    ) -> Result<Option<TextSlice>, Error> {
        let size = usize::try_from(opened.meta.size).unwrap_or(usize::MAX);
        let plain = options.offset == 0 && options.lines.is_none() && !options.hash;
        if !plain || size == 0 || size > CHUNK_BYTES {
            return Ok(None);
        }
        let mut bytes = vec![0; size];
        let mut source = FileReader::new(self, path, opened);
        let mut filled = 0;
        while filled < size {
            match source.fill(&mut bytes[filled..]).await? {
                0 => break,
                got => filled += got,
            }
        }
        bytes.truncate(filled);
        if bytes.contains(&0) {
            return Ok(None);
        }
        let Ok(content) = String::from_utf8(bytes) else {
            return Ok(None);
        };
        let chars = content.chars().count() as u64;
        Ok((chars <= options.max_chars).then_some(TextSlice {
            content,
            truncated: false,
            total_chars: TotalChars::Exact(chars),
            offset: 0,
            chars,
            first_line: Some(1),
            encoding: TextEncoding::UTF_8,
            next_byte: None,
            hash: None,
        }))
    }

    /// Reads UTF-8, from a byte on. `None` if the file is not UTF-8.
    async fn read_utf8(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        options: &ReadOptions,
        start: u64,
    ) -> Result<Option<TextSlice>, Error> {
        let mut source = FileReader::new(self, path, opened);
        let mask = self.mask.as_ref();
        let mut buffer = source.buffer();
        let mut collect = match start {
            0 => TextCollector::new(options, mask),
            start => {
                let lead = source.text_before(start, mask).await?;
                TextCollector::from_byte(options, mask, start, lead)
            }
        };
        let mut hasher = options.hash.then(ContentHasher::new);
        let mut kept = 0;
        let at_end = loop {
            let got = source.fill(&mut buffer[kept..]).await?;
            if got == 0 {
                break true;
            }
            if let Some(hasher) = &mut hasher {
                hasher.take(&buffer[kept..kept + got]);
            }
            let filled = kept + got;
            let Some(whole) = whole_chars(&buffer[..filled]) else {
                return Ok(None);
            };
            let rest = filled - whole.len();
            collect.take(whole);
            buffer.copy_within(filled - rest..filled, 0);
            kept = rest;
            let read = source.bytes - start;
            let goes_on = source.bytes < source.end;
            if collect.is_full() && goes_on && read >= COUNT_BYTES && hasher.is_none() {
                break false;
            }
        };
        if at_end && kept > 0 {
            return Ok(None);
        }
        let hash = hasher.map(ContentHasher::finish);
        Ok(Some(collect.finish(TextEncoding::UTF_8, hash, at_end)))
    }

    /// Reads another encoding, known by its mark or guessed from the bytes.
    async fn read_other(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        options: &ReadOptions,
    ) -> Result<TextSlice, Error> {
        let refuse = || path.error(ErrorReason::NotText);
        let mut source = FileReader::new(self, path, opened);
        let mut buffer = source.buffer();
        let mut start = Vec::new();
        while start.len() < GUESS_BYTES {
            match source.fill(&mut buffer).await? {
                0 => break,
                got => start.extend_from_slice(&buffer[..got]),
            }
        }
        let whole = source.bytes >= source.end;
        let (encoding, bom) = match TextEncoding::by_bom(&start) {
            Some(known) => known,
            None => (TextEncoding::guess(&start, whole).ok_or_else(refuse)?, 0),
        };
        drop(start);
        let mut source = FileReader::new(self, path, opened);
        let mut decode = encoding.decoder();
        let mut collect = TextCollector::new(options, self.mask.as_ref());
        let mut hasher = options.hash.then(ContentHasher::new);
        let mut text = String::new();
        let at_end = loop {
            let first = source.bytes == 0;
            let got = source.fill(&mut buffer).await?;
            if let Some(hasher) = &mut hasher {
                hasher.take(&buffer[..got]);
            }
            let skip = if first { bom.min(got) } else { 0 };
            text.clear();
            let decoded = decode.take(&buffer[skip..got], got == 0, &mut text);
            decoded
                .filter(|()| !text.contains('\0'))
                .ok_or_else(refuse)?;
            collect.take(&text);
            if got == 0 {
                break true;
            }
            let goes_on = source.bytes < source.end;
            if collect.is_full() && goes_on && source.bytes >= COUNT_BYTES && hasher.is_none() {
                break false;
            }
        };
        let hash = hasher.map(ContentHasher::finish);
        let text = collect.finish(encoding, hash, at_end);
        let next_byte = None;
        Ok(TextSlice { next_byte, ..text })
    }

    /// Reads a whole file of at most `max_bytes`.
    ///
    /// # Errors
    /// `TOO_LARGE` if it is larger than `max_bytes` or the mount's limit; and those of finding
    /// the file.
    pub fn read_bytes(&self, path: &SandboxPath, max_bytes: u64) -> Result<Vec<u8>, Error> {
        block_on_ready(self.read_bytes_at(path, max_bytes))
    }

    async fn read_bytes_at(&self, path: &SandboxPath, max_bytes: u64) -> Result<Vec<u8>, Error> {
        let opened = self.open_file(path).await?;
        self.read_all(path, &opened, max_bytes, Verb::Read).await
    }

    /// All bytes of an open file.
    pub(crate) async fn read_all(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        max_bytes: u64,
        verb: Verb,
    ) -> Result<Vec<u8>, Error> {
        let refuse = |bytes| {
            let limit = max_bytes;
            Err(path.error(ErrorReason::TooLarge {
                verb,
                bytes,
                limit,
                setting: "",
            }))
        };
        if opened.meta.size > max_bytes {
            return refuse(opened.meta.size);
        }
        let mut source = FileReader::new(self, path, opened);
        let mut bytes = Vec::with_capacity(usize::try_from(opened.meta.size).unwrap_or(0));
        let mut buffer = source.buffer();
        loop {
            let got = source.fill(&mut buffer).await?;
            if got == 0 {
                return Ok(bytes);
            }
            if source.bytes > max_bytes {
                return refuse(source.bytes);
            }
            bytes.extend_from_slice(&buffer[..got]);
        }
    }
}

impl ReadOptions {
    /// Returns the byte at which reading may begin, if the caller knows it.
    fn start(&self) -> Option<u64> {
        let plain = self.lines.is_none() && self.tail.is_none() && !self.hash && self.offset > 0;
        self.byte.filter(|byte| plain && *byte > 0)
    }
}

/// `true` if a character of UTF-8 may begin at a byte of a file.
async fn starts_a_character(opened: &OpenedFile<'_>, byte: u64) -> Result<bool, BackendError> {
    let mut head = [0; 4];
    let got = opened.file.read_at(&mut head, 0).await?;
    if TextEncoding::by_bom(&head[..got]).is_some() || byte >= opened.meta.size {
        return Ok(false);
    }
    let mut first = [0];
    let got = opened.file.read_at(&mut first, byte).await?;
    Ok(got == 1 && !(0x80..0xc0).contains(&first[0]))
}

/// An open file with an end that does not move.
struct FileReader<'a> {
    files: &'a FileSandbox,
    path: &'a SandboxPath,
    opened: &'a OpenedFile<'a>,
    bytes: u64,
    end: u64,
}

impl<'a> FileReader<'a> {
    fn new(files: &'a FileSandbox, path: &'a SandboxPath, opened: &'a OpenedFile<'a>) -> Self {
        let end = match opened.meta.size {
            // One more than allowed, to detect a longer file.
            0 => opened
                .mount
                .limits()
                .file_byte_limit()
                .map_or(NO_SIZE_BYTES, |limit| {
                    limit.saturating_add(1).min(NO_SIZE_BYTES)
                }),
            size => size,
        };
        Self {
            files,
            path,
            opened,
            bytes: 0,
            end,
        }
    }

    /// Returns the text before a byte of the file as far as the mask looks, and goes on there.
    async fn text_before(&mut self, byte: u64, mask: Option<&TextMask>) -> Result<String, Error> {
        let margin = mask.map_or(0, TextMask::margin);
        let mut lead = vec![0; margin.min(usize::try_from(byte).unwrap_or(margin))];
        self.bytes = byte - lead.len() as u64;
        let mut filled = 0;
        while filled < lead.len() {
            match self.fill(&mut lead[filled..]).await? {
                0 => break,
                got => filled += got,
            }
        }
        self.bytes = byte;
        lead.truncate(filled);
        Ok(String::from_utf8_lossy(&lead).into_owned())
    }

    /// As large as is of use, and never so small that a character does not fit.
    fn buffer(&self) -> Vec<u8> {
        let size = usize::try_from(self.end).unwrap_or(CHUNK_BYTES);
        vec![0; size.clamp(16, CHUNK_BYTES)]
    }

    async fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.end - self.bytes).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        if room == 0 {
            return Ok(0);
        }
        self.files.check_cancelled(self.path, Verb::Read)?;
        let got = self
            .opened
            .file
            .read_at(&mut buffer[..room], self.bytes)
            .await;
        let got = got.map_err(|fault| self.files.backend_error(self.path, Verb::Read, fault))?;
        self.bytes += got as u64;
        check_size(self.path, self.opened.mount, Verb::Read, self.bytes)?;
        Ok(got)
    }
}

/// Returns the complete characters of a chunk; `None` if it is not text.
fn whole_chars(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return None,
        // Cut within a character: its rest is in the next chunk.
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
    };
    (!text.contains('\0')).then_some(text)
}
