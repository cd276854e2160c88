//! Reading: a budget of characters, and never more bytes than the file had when it was opened.
//!
//! The size is checked before the first byte is read, and reading stops there even if somebody
//! else makes the file grow.

use crate::backend::{Contents as _, now};
use crate::error::{Error, Reason, Verb};
use crate::path::SandboxPath;
use crate::resolve::{Opened, check_size};
use crate::sandbox::FileSandbox;

/// How much of a text to read.
///
/// ```
/// let options = file_sandbox::ReadOptions::new().offset(200_000).max_chars(1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    max_chars: u64,
    offset: u64,
}

impl ReadOptions {
    /// From the start, at most 200 000 characters.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_chars: 200_000,
            offset: 0,
        }
    }

    /// Reads at most this many characters.
    #[must_use]
    pub fn max_chars(mut self, chars: u64) -> Self {
        self.max_chars = chars;
        self
    }

    /// Leaves out this many characters at the start.
    #[must_use]
    pub fn offset(mut self, chars: u64) -> Self {
        self.offset = chars;
        self
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
pub struct Text {
    /// The characters.
    pub content: String,
    /// Whether the file goes on after them.
    pub truncated: bool,
    /// How many characters the whole file has.
    pub total_chars: TotalChars,
    /// How many characters of the file come before these.
    pub offset: u64,
    /// How many these are. The next part begins at `offset + chars`.
    pub chars: u64,
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
    /// Counting stopped here: the file is large, and what was asked for lies before.
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

    /// Whether the whole file was counted.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// Bytes at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Counting goes on up to here after what was asked for has been read.
const COUNT_BYTES: u64 = 16 * 1024 * 1024;
/// What is read of a file that gives no size, as some file systems do.
const NO_SIZE_BYTES: u64 = 1024 * 1024;

impl FileSandbox {
    /// Reads text. Characters are counted, not bytes.
    ///
    /// # Errors
    /// `NOT_TEXT` for what is not UTF-8 or contains a NUL, as far as it was looked at;
    /// `TOO_LARGE` above the mount's limit; and those of finding the file.
    pub fn read(&self, path: &SandboxPath, options: ReadOptions) -> Result<Text, Error> {
        now(self.read_at(path, options))
    }

    async fn read_at(&self, path: &SandboxPath, options: ReadOptions) -> Result<Text, Error> {
        let opened = self.open_file(path).await?;
        let mut source = Source::new(self, path, &opened);
        let mut collect = Collect::new(&options);
        let mut buffer = source.buffer();
        let mut kept = 0;
        let at_end = loop {
            let got = source.fill(&mut buffer[kept..]).await?;
            if got == 0 {
                break true;
            }
            let filled = kept + got;
            let whole = whole_chars(&buffer[..filled])
                .ok_or_else(|| Error::new(path.asked(), Reason::NotText))?;
            let rest = filled - whole.len();
            collect.take(whole);
            buffer.copy_within(filled - rest..filled, 0);
            kept = rest;
            if collect.is_full() && source.bytes >= COUNT_BYTES {
                break false;
            }
        };
        if at_end && kept > 0 {
            return Err(Error::new(path.asked(), Reason::NotText));
        }
        Ok(collect.finish(&options, at_end))
    }

    /// Reads a whole file of at most `max_bytes`.
    ///
    /// # Errors
    /// `TOO_LARGE` if it is larger than `max_bytes` or the mount's limit; and those of finding
    /// the file.
    pub fn read_bytes(&self, path: &SandboxPath, max_bytes: u64) -> Result<Vec<u8>, Error> {
        now(self.read_bytes_at(path, max_bytes))
    }

    async fn read_bytes_at(&self, path: &SandboxPath, max_bytes: u64) -> Result<Vec<u8>, Error> {
        let opened = self.open_file(path).await?;
        self.read_all(path, &opened, max_bytes, Verb::Read).await
    }

    /// All bytes of an open file.
    pub(crate) async fn read_all(
        &self,
        path: &SandboxPath,
        opened: &Opened<'_>,
        max_bytes: u64,
        verb: Verb,
    ) -> Result<Vec<u8>, Error> {
        let refuse = |bytes| {
            let limit = max_bytes;
            Err(Error::new(
                path.asked(),
                Reason::TooLarge { verb, bytes, limit },
            ))
        };
        if opened.meta.size > max_bytes {
            return refuse(opened.meta.size);
        }
        let mut source = Source::new(self, path, opened);
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

/// An open file with an end that does not move.
struct Source<'a> {
    files: &'a FileSandbox,
    path: &'a SandboxPath,
    opened: &'a Opened<'a>,
    bytes: u64,
    end: u64,
}

impl<'a> Source<'a> {
    fn new(files: &'a FileSandbox, path: &'a SandboxPath, opened: &'a Opened<'a>) -> Self {
        let end = match opened.meta.size {
            // One more than allowed, to see that there is more.
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
        let got = self
            .opened
            .file
            .read_at(&mut buffer[..room], self.bytes)
            .await;
        let got = got.map_err(|fault| self.files.system(self.path, Verb::Read, fault))?;
        self.bytes += got as u64;
        check_size(self.path, self.opened.mount, Verb::Read, self.bytes)?;
        Ok(got)
    }
}

/// The characters that a chunk holds whole; `None` if it is not text.
fn whole_chars(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return None,
        // Cut within a character: its rest is in the next chunk.
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
    };
    (!text.contains('\0')).then_some(text)
}

/// Counts all characters and keeps those asked for.
struct Collect {
    content: String,
    skip: u64,
    wanted: u64,
    taken: u64,
    total: u64,
}

impl Collect {
    fn new(options: &ReadOptions) -> Self {
        Self {
            content: String::new(),
            skip: options.offset,
            wanted: options.max_chars,
            taken: 0,
            total: 0,
        }
    }

    fn take(&mut self, text: &str) {
        let chars = text.chars().count() as u64;
        let first = self.skip.saturating_sub(self.total).min(chars);
        let count = (chars - first).min(self.wanted - self.taken);
        if count > 0 {
            let rest = &text[byte_of(text, chars, first)..];
            self.content
                .push_str(&rest[..byte_of(rest, chars - first, count)]);
            self.taken += count;
        }
        self.total += chars;
    }

    fn is_full(&self) -> bool {
        self.taken == self.wanted
    }

    fn finish(self, options: &ReadOptions, at_end: bool) -> Text {
        Text {
            content: self.content,
            truncated: !at_end || options.offset.saturating_add(self.taken) < self.total,
            total_chars: if at_end {
                TotalChars::Exact(self.total)
            } else {
                TotalChars::AtLeast(self.total)
            },
            offset: options.offset,
            chars: self.taken,
        }
    }
}

/// Where the character number `index` of `chars` begins. Mostly at one of the ends.
fn byte_of(text: &str, chars: u64, index: u64) -> usize {
    if index == 0 {
        return 0;
    }
    if index >= chars {
        return text.len();
    }
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    text.char_indices()
        .nth(index)
        .map_or(text.len(), |(byte, _)| byte)
}
