//! Searching one open file after another, in bounded pieces that end at a line.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::backend::{AnyFile, BackendFile as _, FileMeta};
use crate::error::{Error, ErrorReason};
use crate::ops::search::line_excerpt::clip;
use crate::ops::search::{SearchHit, SearchOptions, SearchResults};
use crate::ops::walk::listing::TruncationReason;
use crate::ops::walk::tree_walker::TreeWalker;
use crate::path::SandboxPath;
use crate::text::TextEncoding;
use crate::text::mask::TextMask;

/// A longer expression is refused.
const MAX_PATTERN_BYTES: usize = 4096;
/// Of the compiled expression, and of the tables made of it while searching.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// Bytes of a file that are searched at once.
const PIECE_BYTES: usize = 1 << 20;
/// The longest line that is searched.
const MAX_LINE_BYTES: usize = 8 << 20;

/// A running search through many files.
pub(crate) struct FileSearch<'o> {
    options: &'o SearchOptions,
    mask: Option<&'o TextMask>,
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    answer_bytes: usize,
    pub(crate) answer: SearchResults,
}

impl<'o> FileSearch<'o> {
    pub(crate) fn new(
        pattern: &str,
        options: &'o SearchOptions,
        mask: Option<&'o TextMask>,
    ) -> Result<Self, Error> {
        let refused = |why: String| Err(Error::new(pattern, ErrorReason::Regex { why }));
        if pattern.len() > MAX_PATTERN_BYTES {
            return refused(format!("it is longer than {MAX_PATTERN_BYTES} bytes"));
        }
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            .fixed_strings(options.literal)
            .case_insensitive(options.ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build(pattern);
        let matcher = match matcher {
            Ok(matcher) => matcher,
            Err(error) => return refused(words(&error)),
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .build();
        Ok(Self {
            options,
            mask,
            matcher,
            searcher,
            buffer: Vec::new(),
            answer_bytes: 0,
            answer: SearchResults::default(),
        })
    }

    /// Searches an open file, as large as it was when it was opened.
    ///
    /// # Errors
    /// The reason why the file was not searched completely.
    pub(crate) async fn file(
        &mut self,
        path: &SandboxPath,
        file: &AnyFile,
        meta: &FileMeta,
        descent: &mut TreeWalker<'_>,
    ) -> Result<(), &'static str> {
        let first_hit = self.answer.hits.len();
        self.answer.files += 1;
        let left = self.options.max_read_bytes - self.answer.bytes;
        // A file without a size, as some file systems have them, is read to its end.
        let size = if meta.size == 0 { u64::MAX } else { meta.size };
        let end = size.min(left);
        // The buffer has the searched text that a mask looks at, a piece, and unsearched text.
        let margin = self.mask.map_or(0, TextMask::margin);
        let (mut offset, mut kept, mut lines, mut lead) = (0, 0, 0, 0);
        loop {
            let (mut filled, at_end) = self.fill(file, kept, offset, end).await?;
            self.answer.bytes += (filled - kept) as u64;
            offset += (filled - kept) as u64;
            let wide = lines == 0 && is_utf16(&self.buffer[..filled]);
            if wide && !at_end {
                return Err("it is UTF-16, and too large to be searched");
            }
            if wide && self.mask.is_some() {
                filled = self.decode(filled).ok_or("it is not UTF-16 throughout")?;
            }
            // A mask looks behind the last line, unless nothing is there.
            let is_whole = at_end && (margin == 0 || offset >= size || offset < end);
            let known = filled.saturating_sub(margin).max(lead);
            let piece_end = match is_whole {
                true => filled,
                false => lead + last_line_end(&self.buffer[lead..known]),
            };
            let piece = &self.buffer[lead..piece_end];
            if !wide && piece.contains(&0) {
                self.answer.hits.truncate(first_hit);
                self.answer.files -= 1;
                self.answer.binary += 1;
                return Ok(());
            }
            if let Some(cut) = self.piece(path, lines, lead..piece_end, filled)? {
                descent.cut(cut);
            }
            if at_end && offset < size && offset == end {
                descent.cut(TruncationReason::Bytes);
            }
            if at_end || descent.is_over() {
                return Ok(());
            }
            lines += newlines(&self.buffer[lead..piece_end]);
            if filled - piece_end >= MAX_LINE_BYTES.saturating_add(margin) {
                return Err("a line is too long to be searched");
            }
            lead = margin.min(piece_end);
            kept = lead + filled - piece_end;
            self.buffer.copy_within(piece_end - lead..filled, 0);
        }
    }

    /// Decodes the buffer of UTF-16. Returns its new length; `None` if it is not text.
    fn decode(&mut self, filled: usize) -> Option<usize> {
        let bytes = &self.buffer[..filled];
        let (encoding, bom) = TextEncoding::by_bom(bytes)?;
        let mut text = String::new();
        encoding.decoder().take(&bytes[bom..], true, &mut text)?;
        self.buffer = text.into_bytes();
        Some(self.buffer.len())
    }

    /// Searches a piece of the `filled` bytes of the buffer, which `lines` lines precede. Returns
    /// the limit that was reached.
    fn piece(
        &mut self,
        path: &SandboxPath,
        lines: u64,
        piece: Range<usize>,
        filled: usize,
    ) -> Result<Option<TruncationReason>, &'static str> {
        let around = &self.buffer[..filled];
        let mut sink = HitSink {
            matcher: &self.matcher,
            options: self.options,
            path,
            lines,
            around,
            start: piece.start,
            mask: self.mask,
            masked: None,
            answer_bytes: &mut self.answer_bytes,
            hits: &mut self.answer.hits,
            full: None,
        };
        self.searcher
            .search_slice(&self.matcher, &around[piece], &mut sink)
            .map_err(|_| "it cannot be searched")?;
        Ok(sink.full)
    }

    /// Appends the next bytes to the retained ones. Returns the filled length of the buffer, and
    /// `true` at the end of the file.
    async fn fill(
        &mut self,
        file: &AnyFile,
        kept: usize,
        mut offset: u64,
        end: u64,
    ) -> Result<(usize, bool), &'static str> {
        let room = usize::try_from(end - offset).unwrap_or(PIECE_BYTES);
        let room = room.min(PIECE_BYTES);
        if self.buffer.len() < kept + room {
            self.buffer.resize(kept + room, 0);
        }
        let mut filled = kept;
        while filled < kept + room {
            let buffer = &mut self.buffer[filled..kept + room];
            let got = file.read_at(buffer, offset).await;
            match got.map_err(|_| "it cannot be read")? {
                0 => return Ok((filled, true)),
                got => {
                    filled += got;
                    offset += got as u64;
                }
            }
        }
        Ok((filled, offset >= end))
    }

    pub(crate) fn finish(self, descent: TreeWalker<'_>) -> SearchResults {
        let report = descent.report;
        let mut answer = self.answer;
        answer
            .hits
            .sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        SearchResults {
            more: report.cut.is_some() || report.more_skipped,
            cut: report.cut,
            skipped: report.skipped,
            ignored: report.ignored,
            ..answer
        }
    }
}

/// Takes the lines of one piece of a file.
struct HitSink<'s> {
    matcher: &'s RegexMatcher,
    options: &'s SearchOptions,
    path: &'s SandboxPath,
    /// Lines before this piece.
    lines: u64,
    /// The piece and the text around it, and where the piece begins.
    around: &'s [u8],
    start: usize,
    mask: Option<&'s TextMask>,
    /// The places that the mask finds; `None` before the first hit.
    masked: Option<Vec<Range<usize>>>,
    answer_bytes: &'s mut usize,
    hits: &'s mut Vec<SearchHit>,
    full: Option<TruncationReason>,
}

impl HitSink<'_> {
    /// Returns the text of these bytes.
    fn text(&mut self, shown: Range<usize>) -> String {
        let text = |range: Range<usize>| String::from_utf8_lossy(&self.around[range]);
        let Some(mask) = self.mask else {
            return text(shown).into_owned();
        };
        let masked = self
            .masked
            .get_or_insert_with(|| match text(0..self.around.len()) {
                Cow::Borrowed(all) => mask.places(all),
                // The places of another text are not those of its bytes.
                Cow::Owned(_) => std::iter::once(0..self.around.len()).collect(),
            });
        if !masked
            .iter()
            .any(|at| at.start < shown.end && shown.start < at.end)
        {
            return text(shown).into_owned();
        }
        let from = shown.start.saturating_sub(mask.margin());
        let to = shown
            .end
            .saturating_add(mask.margin())
            .min(self.around.len());
        let (lead, trail) = (text(from..shown.start), text(shown.end..to));
        let shown = text(shown);
        let range = lead.len()..lead.len() + shown.len();
        mask.part(&[lead, shown, trail].concat(), range)
    }
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.hits.len() == self.options.max_hits {
            self.full = Some(TruncationReason::Entries);
            return Ok(false);
        }
        let line = found.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // An empty match at the end of a line may lie behind it.
        let at = self.matcher.find(line).ok().flatten();
        let at = at.map_or(0..0, |at| at.start()..at.end());
        let excerpt = clip(line, at, self.options.max_line_chars);
        let begin = usize::try_from(found.absolute_byte_offset()).unwrap_or(usize::MAX);
        let begin = self.start.saturating_add(begin);
        let text = match self.around.get(begin..begin + line.len()) {
            Some(bytes) if bytes == line => {
                self.text(begin + excerpt.range.start..begin + excerpt.range.end)
            }
            // Of a text in another encoding, which a mask gets decoded.
            Some(_) | None => String::from_utf8_lossy(&line[excerpt.range]).into_owned(),
        };
        if *self.answer_bytes + text.len() > self.options.max_answer_bytes {
            self.full = Some(TruncationReason::Bytes);
            return Ok(false);
        }
        *self.answer_bytes += text.len();
        self.hits.push(SearchHit {
            path: self.path.clone(),
            line: self.lines + found.line_number().unwrap_or(0),
            column: excerpt.column,
            text,
            clipped: excerpt.clipped,
        });
        Ok(true)
    }
}

/// Returns the end of the last whole line.
fn last_line_end(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// Returns the last line of an error of the regex crate, which has the reason; those before it draw
/// the position.
fn words(error: &grep_regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    last.trim_end_matches('.').to_owned()
}
