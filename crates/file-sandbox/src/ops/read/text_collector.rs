//! Selects the requested characters or lines of a text that arrives in chunks.

use crate::hash::ContentHash;
use crate::ops::read::{ReadOptions, TextSlice, TotalChars};
use crate::text::TextEncoding;
use crate::text::mask::TextMask;

/// Counts all characters and collects the requested ones.
pub(super) struct TextCollector {
    content: String,
    mask: Option<TextMask>,
    /// The text on both sides of the requested part, as far as the mask looks.
    lead: String,
    trail: String,
    skip: SkippedPrefix,
    wanted: u64,
    taken: u64,
    total: u64,
    /// Of the first character kept.
    offset: u64,
    first_line: u64,
    /// Line ends seen before the first character kept, and lines still wanted.
    line: u64,
    lines_left: Option<u64>,
    /// Bytes received so far, and bytes up to the last collected character.
    bytes: u64,
    end_byte: u64,
    /// `true` if reading began behind unread lines.
    resumed: bool,
}

/// The text before the requested part.
enum SkippedPrefix {
    Chars(u64),
    Lines(u64),
    Done,
}

impl TextCollector {
    pub(super) fn new(options: &ReadOptions, mask: Option<&TextMask>) -> Self {
        Self {
            content: String::new(),
            mask: mask.cloned(),
            lead: String::new(),
            trail: String::new(),
            skip: match options.lines {
                Some((first, _)) => SkippedPrefix::Lines(first - 1),
                None => SkippedPrefix::Chars(options.offset),
            },
            wanted: options.max_chars,
            taken: 0,
            total: 0,
            offset: options.offset,
            first_line: 1,
            line: 1,
            lines_left: options.lines.map(|(_, count)| count),
            bytes: 0,
            end_byte: 0,
            resumed: false,
        }
    }

    /// Returns a collector for a text that is read from the byte of the requested offset on, after
    /// `lead`.
    pub(super) fn from_byte(
        options: &ReadOptions,
        mask: Option<&TextMask>,
        byte: u64,
        lead: String,
    ) -> Self {
        Self {
            lead,
            skip: SkippedPrefix::Done,
            total: options.offset,
            bytes: byte,
            end_byte: byte,
            resumed: true,
            ..Self::new(options, mask)
        }
    }

    pub(super) fn take(&mut self, text: &str) {
        let chars = text.chars().count() as u64;
        let before = self.total;
        let start_byte = self.bytes;
        self.total += chars;
        self.bytes += text.len() as u64;
        let Some(first) = self.skipped(text, chars, before) else {
            self.push_lead(text);
            return;
        };
        let (lead, rest) = text.split_at(byte_of(text, chars, first));
        self.push_lead(lead);
        let mut count = (chars - first).min(self.wanted - self.taken);
        if let Some(left) = &mut self.lines_left {
            let kept = keep_lines(rest, left);
            count = count.min(kept.chars().count() as u64);
        }
        let length = byte_of(rest, chars - first, count);
        let missing = self.margin().saturating_sub(self.trail.len());
        let trail = &rest[length..];
        let trail_end = trail.floor_char_boundary(missing.min(trail.len()));
        self.trail.push_str(&trail[..trail_end]);
        if count > 0 {
            self.content.push_str(&rest[..length]);
            self.end_byte = start_byte + (text.len() - rest.len() + length) as u64;
            self.taken += count;
        }
    }

    fn margin(&self) -> usize {
        self.mask.as_ref().map_or(0, TextMask::margin)
    }

    /// Stores the end of the text before the requested part.
    fn push_lead(&mut self, text: &str) {
        let margin = self.margin();
        if margin == 0 {
            return;
        }
        self.lead.push_str(text);
        if self.lead.len() > margin.saturating_mul(2) {
            let start = self.lead.floor_char_boundary(self.lead.len() - margin);
            self.lead.drain(..start);
        }
    }

    /// Returns the number of characters of a chunk before the requested ones; `None` if all are.
    fn skipped(&mut self, text: &str, chars: u64, before: u64) -> Option<u64> {
        let first = match self.skip {
            SkippedPrefix::Done => return Some(0),
            SkippedPrefix::Chars(skip) => {
                let first = skip.saturating_sub(before).min(chars);
                if first > 0 {
                    let passed = &text[..byte_of(text, chars, first)];
                    self.line += passed.matches('\n').count() as u64;
                }
                if before + first < skip {
                    self.first_line = self.line;
                    return None;
                }
                first
            }
            SkippedPrefix::Lines(0) => 0,
            SkippedPrefix::Lines(left) => {
                let nth = usize::try_from(left - 1).unwrap_or(usize::MAX);
                let mut ends = text.match_indices('\n');
                let Some((end, _)) = ends.nth(nth) else {
                    let seen = text.matches('\n').count() as u64;
                    self.skip = SkippedPrefix::Lines(left - seen);
                    self.line += seen;
                    self.offset = before + chars;
                    self.first_line = self.line;
                    return None;
                };
                self.line += left;
                text[..=end].chars().count() as u64
            }
        };
        if matches!(self.skip, SkippedPrefix::Lines(_)) {
            self.offset = before + first;
        }
        self.skip = SkippedPrefix::Done;
        self.first_line = self.line;
        Some(first)
    }

    pub(super) fn is_full(&self) -> bool {
        // A character may not fit into the rest.
        let has_trail = self.trail.len() + 4 > self.margin();
        has_trail && (self.taken == self.wanted || self.lines_left == Some(0))
    }

    pub(super) fn finish(
        self,
        encoding: TextEncoding,
        hash: Option<ContentHash>,
        at_end: bool,
    ) -> TextSlice {
        let truncated = !at_end || self.offset.saturating_add(self.taken) < self.total;
        let content = match &self.mask {
            None => self.content,
            Some(mask) => {
                let shown = self.lead.len()..self.lead.len() + self.content.len();
                mask.part(&[self.lead, self.content, self.trail].concat(), shown)
            }
        };
        TextSlice {
            content,
            truncated,
            next_byte: (truncated && self.taken > 0).then_some(self.end_byte),
            total_chars: if at_end {
                TotalChars::Exact(self.total)
            } else {
                TotalChars::AtLeast(self.total)
            },
            offset: self.offset,
            chars: self.taken,
            first_line: (!self.resumed).then_some(self.first_line),
            encoding,
            hash,
        }
    }
}

/// Returns the part of a text that belongs to the remaining lines.
fn keep_lines<'t>(text: &'t str, left: &mut u64) -> &'t str {
    if *left == 0 {
        return "";
    }
    let nth = usize::try_from(*left - 1).unwrap_or(usize::MAX);
    match text.match_indices('\n').nth(nth) {
        Some((end, _)) => {
            *left = 0;
            &text[..=end]
        }
        None => {
            *left -= text.matches('\n').count() as u64;
            text
        }
    }
}

/// Returns the byte at which the character number `index` of `chars` begins. Usually at one of the
/// ends.
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
