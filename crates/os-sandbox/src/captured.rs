//! What a stream carried, in bounded memory: the beginning and the end, since a command says at its
//! end what became of it.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The beginning and the end of what a stream carried, together up to a limit, and how much it was
/// in all.
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
    /// The last bytes behind the head.
    tail: VecDeque<u8>,
    total: u64,
    line_ends: u64,
}

impl Captured {
    /// Nothing yet, and at most `limit` bytes of what will come.
    #[must_use]
    pub fn new(limit: usize) -> Captured {
        Captured {
            limit,
            ..Captured::default()
        }
    }

    /// Takes in what came next.
    pub fn push(&mut self, more: &[u8]) {
        self.total += more.len() as u64;
        self.line_ends += line_ends(more);
        // Of an odd limit the end gets the byte more.
        let room = (self.limit / 2).saturating_sub(self.head.len());
        let (head, more) = more.split_at(room.min(more.len()));
        self.head.extend_from_slice(head);
        let most = self.limit - self.limit / 2;
        let (_, kept) = more.split_at(more.len().saturating_sub(most));
        let out = (self.tail.len() + kept.len()).saturating_sub(most);
        self.tail.drain(..out);
        self.tail.extend(kept);
    }

    /// What was kept: the beginning, and behind it the end.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            return Cow::Borrowed(&self.head);
        }
        let (first, second) = self.tail.as_slices();
        Cow::Owned([&self.head, first, second].concat())
    }

    /// How many bytes the stream carried in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// How many line ends the stream carried in all.
    #[must_use]
    pub fn total_line_ends(&self) -> u64 {
        self.line_ends
    }

    /// Returns `true` if there was more than was kept.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept, as text. Bytes that are no UTF-8 become U+FFFD. If something is missing, a
    /// line of its own between the beginning and the end says how much: the rest of a character
    /// that was cut is missing too, and the rest of a line if that is not much.
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

    /// The beginning and the end as [`Captured::text`] shows them, and what is missing between them.
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

/// What is missing of a text.
///
/// ```
/// let gap = os_sandbox::Gap { bytes: 7, lines: 1 };
/// assert_eq!(gap.mark(b"to be"), "\n[cut here: 7 bytes in 1 lines are not shown]\n");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its bytes.
    pub bytes: u64,
    /// Its line ends.
    pub lines: u64,
}

impl Gap {
    /// The line that says so behind `head`.
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

/// Without the rest of a line, if that is less than a quarter, else of a character.
fn whole_beginning(head: &[u8]) -> &[u8] {
    let from = head.len() - head.len() / 4;
    let end = match head[from..].iter().rposition(|byte| *byte == b'\n') {
        Some(newline) => from + newline + 1,
        None => whole_characters(head),
    };
    &head[..end]
}

/// The same at the other end.
fn whole_end(tail: &[u8]) -> &[u8] {
    let to = tail.len() / 4;
    let start = match tail[..to].iter().position(|byte| *byte == b'\n') {
        Some(newline) => newline + 1,
        None => cut_character(tail),
    };
    &tail[start..]
}

/// Where the last complete character ends; looks at three bytes at most.
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

/// How many bytes at the beginning are the rest of a character that began before.
fn cut_character(bytes: &[u8]) -> usize {
    let rest = bytes.iter().take(3);
    let count = rest.take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    // More of them are no character's.
    match bytes.get(count) {
        Some(0x80..=0xbf) => 0,
        Some(_) | None => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text without the line in between.
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

    /// Whatever the pieces, what is kept is the beginning and the end of the whole, the sums are
    /// right, and memory stays below the limit.
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
                // What the text says is missing is what it does not show.
                let text = captured.text();
                let Some((head, rest)) = text.split_once("[cut here: ") else {
                    assert_eq!(text.as_bytes(), whole);
                    continue;
                };
                let (said, tail) = rest.split_once(" lines are not shown]\n").unwrap();
                let (bytes, lines) = said.split_once(" bytes in ").unwrap();
                // Where a line was cut, its end is ours.
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
