//! The lines of a log, one at a time, in bounded memory.

use std::io::{BufRead, Read as _};

use super::line::MAX_LINE_BYTES;

/// A line of the file, unparsed.
///
/// ```
/// use forge_tools::audit::RawLine;
/// assert_ne!(RawLine::Whole(b"{}\n"), RawLine::Torn(b"{}"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawLine<'a> {
    /// With its newline.
    Whole(&'a [u8]),
    /// The last one, which has no newline.
    Torn(&'a [u8]),
    /// Longer than any that we write; this many bytes.
    TooLong(u64),
}

/// Reads lines, each into one bounded buffer.
///
/// ```
/// use forge_tools::audit::{LineReader, RawLine};
/// let mut lines = LineReader::new(&b"{}\n{"[..]);
/// assert_eq!(lines.next_line().unwrap(), Some(RawLine::Whole(b"{}\n")));
/// assert_eq!(lines.next_line().unwrap(), Some(RawLine::Torn(b"{")));
/// assert_eq!(lines.next_line().unwrap(), None);
/// ```
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    line: Vec<u8>,
    /// The line in `line` goes on where the input goes on.
    torn: bool,
}

impl<R: BufRead> LineReader<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        LineReader {
            input,
            line: Vec::new(),
            torn: false,
        }
    }

    /// Returns the next line, or `None` at the end. After the end it may be called again, since a
    /// log may still be written to: a line that was torn comes again, longer.
    ///
    /// # Errors
    ///
    /// As the input's.
    pub fn next_line(&mut self) -> std::io::Result<Option<RawLine<'_>>> {
        if !self.torn {
            self.line.clear();
        }
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        let read = (&mut self.input)
            .take(u64::try_from(room).unwrap_or(u64::MAX))
            .read_until(b'\n', &mut self.line)?;
        self.torn = false;
        if self.line.ends_with(b"\n") {
            return Ok(Some(RawLine::Whole(&self.line)));
        }
        if self.line.len() < MAX_LINE_BYTES {
            self.torn = !self.line.is_empty();
            return Ok((read > 0).then_some(RawLine::Torn(&self.line)));
        }
        let rest = skip_line(&mut self.input)?;
        let bytes = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        Ok(Some(RawLine::TooLong(bytes.saturating_add(rest))))
    }
}

/// Reads up to and with the next newline; the bytes that it was.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = input.fill_buf()?;
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        skipped += u64::try_from(used).unwrap_or(u64::MAX);
        if ended {
            return Ok(skipped);
        }
    }
}
