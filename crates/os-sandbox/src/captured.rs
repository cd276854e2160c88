//! The content of a stream in bounded memory: its beginning and its end, because a command reports
//! its outcome at its end.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The beginning and the end of a stream's content, together up to a limit, and the total size.
///
/// ```
/// let mut captured = os_sandbox::Captured::new(8);
/// captured.push(b"first\nsecond\nthird\nlast\n");
/// assert!(captured.truncated());
/// assert_eq!(captured.bytes().as_ref(), b"firsast\n");
/// assert_eq!(captured.text(), "firs\n[cut here: 16 bytes in 3 lines are not shown]\nast\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    limit: usize,
    head: Vec<u8>,
    /// The last bytes after the head.
    tail: VecDeque<u8>,
    total: u64,
    line_ends: u64,
}

impl Captured {
    /// Creates an empty capture that stores at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Captured {
        Captured {
            limit,
            ..Captured::default()
        }
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, more: &[u8]) {
        self.total += more.len() as u64;
        self.line_ends += line_ends(more);
        // If the limit is odd, the end gets the extra byte.
        let room = (self.limit / 2).saturating_sub(self.head.len());
        let (head, more) = more.split_at(room.min(more.len()));
        self.head.extend_from_slice(head);
        let most = self.limit - self.limit / 2;
        let (_, kept) = more.split_at(more.len().saturating_sub(most));
        let out = (self.tail.len() + kept.len()).saturating_sub(most);
        self.tail.drain(..out);
        self.tail.extend(kept);
    }

    /// Returns the stored bytes: the beginning, followed by the end.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            return Cow::Borrowed(&self.head);
        }
        let (first, second) = self.tail.as_slices();
        Cow::Owned([&self.head, first, second].concat())
    }

    sandbox_names::getters! {
        /// Returns the total number of bytes of the stream.
        pub total_bytes: u64 = total;
        /// Returns the total number of line ends of the stream.
        pub total_line_ends: u64 = line_ends;
    }

    /// Returns `true` if bytes of the stream are missing.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the stored bytes as text. Bytes that are not UTF-8 become U+FFFD. If bytes are
    /// missing, a separate line between the beginning and the end gives their number. The missing
    /// bytes then include the rest of a cut character, and the rest of a cut line if that rest is
    /// short.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if !self.truncated() {
            return match self.bytes() {
                Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
                }),
            };
        }
        let (head, gap, tail) = self.pieces();
        Cow::Owned(format!(
            "{}{}{}",
            String::from_utf8_lossy(&head),
            gap.map_or_else(String::new, |gap| gap.mark(&head)),
            String::from_utf8_lossy(&tail),
        ))
    }

    /// Returns the beginning and the end as [`Captured::text`] shows them, and the gap between
    /// them.
    ///
    /// ```
    /// let mut captured = os_sandbox::Captured::new(8);
    /// captured.push(b"first\nsecond\nthird\nlast\n");
    /// let (head, gap, tail) = captured.pieces();
    /// let missing = gap.unwrap().bytes;
    /// assert_eq!(head.len() as u64 + missing + tail.len() as u64, captured.total_bytes());
    /// ```
    #[must_use]
    pub fn pieces(&self) -> (Cow<'_, [u8]>, Option<Gap>, Cow<'_, [u8]>) {
        if !self.truncated() {
            return (self.bytes(), None, Cow::Borrowed(&[]));
        }
        let head = whole_beginning(&self.head);
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let tail = whole_end(&tail);
        let gap = Gap {
            bytes: self.total - (head.len() + tail.len()) as u64,
            lines: self.line_ends - line_ends(head) - line_ends(tail),
        };
        (Cow::Borrowed(head), Some(gap), Cow::Owned(tail.to_vec()))
    }
}

/// The missing part of a text.
///
/// ```
/// let gap = os_sandbox::Gap { bytes: 7, lines: 1 };
/// assert_eq!(gap.mark(b"to be"), "\n[cut here: 7 bytes in 1 lines are not shown]\n");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of line ends.
    pub lines: u64,
}

impl Gap {
    /// Returns the line that reports the gap after `head`.
    #[must_use]
    pub fn mark(&self, head: &[u8]) -> String {
        let newline = if head.is_empty() || head.ends_with(b"\n") {
            ""
        } else {
            "\n"
        };
        let Gap { bytes, lines } = self;
        format!("{newline}[cut here: {bytes} bytes in {lines} lines are not shown]\n")
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Returns `head` without an incomplete last line if that is shorter than a quarter, else without
/// an incomplete last character.
fn whole_beginning(head: &[u8]) -> &[u8] {
    let from = head.len() - head.len() / 4;
    let end = match head[from..].iter().rposition(|byte| *byte == b'\n') {
        Some(newline) => from + newline + 1,
        None => whole_characters(head),
    };
    &head[..end]
}

/// Returns `tail` without an incomplete first line if that is shorter than a quarter, else without
/// an incomplete first character.
fn whole_end(tail: &[u8]) -> &[u8] {
    let to = tail.len() / 4;
    let start = match tail[..to].iter().position(|byte| *byte == b'\n') {
        Some(newline) => newline + 1,
        None => cut_character(tail),
    };
    &tail[start..]
}

/// Returns the end of the last complete character. Reads at most three bytes.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let wanted = match bytes[at] {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
            0x00..=0x7f => 1,
        };
        return if wanted > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// Returns the number of bytes at the beginning that continue an earlier character.
fn cut_character(bytes: &[u8]) -> usize {
    let rest = bytes.iter().take(3);
    let count = rest.take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    // A longer run of such bytes is not part of a character.
    match bytes.get(count) {
        Some(0x80..=0xbf) => 0,
        Some(_) | None => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text without the line in between.
    fn ends(captured: &Captured) -> String {
        let text = captured.text().into_owned();
        let Some((head, rest)) = text.split_once("[cut here: ") else {
            return text;
        };
        let (_, tail) = rest.split_once("]\n").unwrap();
        format!("{}…{tail}", head.trim_end_matches('\n'))
    }

    #[test]
    fn text_is_cut_between_characters() {
        // a, two bytes, three bytes, four bytes, b: eleven in all.
        for (limit, want) in [
            (11, "aü€😀b"),
            (10, "aü…😀b"),
            (8, "aü…b"),
            (6, "aü…b"),
            (4, "a…b"),
            (3, "a…b"),
            (2, "a…b"),
            (1, "…b"),
            (0, "…"),
        ] {
            for piece in [1, 2, 3, 11] {
                let mut captured = Captured::new(limit);
                for part in "aü€😀b".as_bytes().chunks(piece) {
                    captured.push(part);
                }
                assert_eq!(ends(&captured), want, "{limit} by {piece}");
                assert_eq!(captured.total_bytes(), 11);
                assert_eq!(captured.truncated(), limit < 11);
            }
        }
        let mut invalid = Captured::new(10);
        invalid.push(b"a\xff");
        assert_eq!(invalid.text(), "a\u{fffd}");
    }

    /// However the stream is split, the capture stores the beginning and the end of the whole, the
    /// sums are right, and memory stays below the limit.
    #[test]
    fn every_cut_adds_up() {
        let whole: Vec<u8> = (0..600u32)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect();
        for limit in [0, 1, 2, 7, 100, 999, whole.len() - 1, whole.len(), 9999] {
            for piece in [1, 3, 50, 64, 1000, whole.len()] {
                let mut captured = Captured::new(limit);
                for part in whole.chunks(piece) {
                    captured.push(part);
                    assert!(captured.head.len() + captured.tail.len() <= limit);
                }
                let kept = captured.bytes();
                assert_eq!(kept.len(), limit.min(whole.len()));
                let (head, tail) = kept.split_at(captured.head.len());
                assert!(whole.starts_with(head) && whole.ends_with(tail));
                assert_eq!(captured.total_line_ends(), 600);
                // The number in the text equals the number of bytes that the text does not show.
                let text = captured.text();
                let Some((head, rest)) = text.split_once("[cut here: ") else {
                    assert_eq!(text.as_bytes(), whole);
                    continue;
                };
                let (said, tail) = rest.split_once(" lines are not shown]\n").unwrap();
                let (bytes, lines) = said.split_once(" bytes in ").unwrap();
                // If a line was cut, its line end was added by the capture.
                let own = whole_beginning(&captured.head).len();
                assert!(head.len() - own <= 1 && head.ends_with(['\n']) || head.is_empty());
                let head = &head[..own];
                assert!(whole.starts_with(head.as_bytes()) && whole.ends_with(tail.as_bytes()));
                let shown = line_ends(head.as_bytes()) + line_ends(tail.as_bytes());
                assert_eq!(bytes.parse(), Ok(whole.len() - head.len() - tail.len()));
                assert_eq!(lines.parse(), Ok(600 - shown));
            }
        }
    }
}
