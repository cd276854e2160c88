//! The part of a long line that is worth showing: around the match, never a bare "line omitted"
//! and never all of a minified file.

use std::ops::Range;

/// A line, or a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineExcerpt {
    /// The bytes of the line.
    pub(crate) range: Range<usize>,
    pub(crate) clipped: bool,
    /// The column of the match in the whole line, in characters from 1.
    pub(crate) column: u64,
}

/// The share of the excerpt before the match, in quarters.
const BEFORE: usize = 1;
const PARTS: usize = 4;
/// The most bytes a character takes.
const CHAR_BYTES: usize = 4;

/// Returns at most `max_chars` characters of `line`, including the beginning of `found`. Bytes that
/// are not UTF-8 count as one character each.
pub(crate) fn clip(line: &[u8], found: Range<usize>, max_chars: usize) -> LineExcerpt {
    let start = found.start.min(line.len());
    let column = chars(&line[..start]) + 1;
    // Only these bytes can matter, however long the line is.
    let reach = max_chars.saturating_mul(CHAR_BYTES);
    if line.len() <= reach && count(line) <= max_chars {
        return LineExcerpt {
            range: 0..line.len(),
            clipped: false,
            column,
        };
    }
    let before_start = char_start(line, start.saturating_sub(reach)).min(start);
    let before = &line[before_start..start];
    let after_end = char_start(line, start.saturating_add(reach).min(line.len()));
    let after = &line[start..after_end.max(start)];
    let (before_chars, after_chars) = (count(before), count(after));
    // The unused room of one side is given to the other one.
    let room_before = (max_chars / PARTS * BEFORE).max(max_chars.saturating_sub(after_chars));
    let shown_before = before_chars.min(room_before);
    let shown_after = after_chars.min(max_chars - shown_before);
    let from = before_start + byte_of(before, before_chars - shown_before);
    LineExcerpt {
        range: from..start + byte_of(after, shown_after),
        clipped: true,
        column,
    }
}

fn chars(bytes: &[u8]) -> u64 {
    count(bytes) as u64
}

fn count(bytes: &[u8]) -> usize {
    lengths(bytes).count()
}

/// Returns the byte at which a character begins.
fn byte_of(bytes: &[u8], char: usize) -> usize {
    lengths(bytes).take(char).sum()
}

/// Returns the bytes of each character.
fn lengths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let invalid = Some(chunk.invalid().len()).filter(|length| *length > 0);
        chunk.valid().chars().map(char::len_utf8).chain(invalid)
    })
}

/// The next place at or behind `at` where a character may begin.
fn char_start(line: &[u8], mut at: usize) -> usize {
    let is_middle = |byte: &u8| (0x80..0xc0).contains(byte);
    let end = line.len().min(at + CHAR_BYTES);
    while at < end && line.get(at).is_some_and(is_middle) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        let rows = [
            ("short", 0..1, 10, "short", false, 1),
            ("short", 4..5, 5, "short", false, 5),
            ("0123456789", 9..10, 4, "6789", true, 10),
            ("0123456789", 0..1, 4, "0123", true, 1),
            ("0123456789", 5..6, 4, "4567", true, 6),
            ("0123456789", 5..6, 1, "5", true, 6),
            ("ääääXöööö", 8..9, 4, "äXöö", true, 5),
            ("", 0..0, 4, "", false, 1),
        ];
        for (line, found, max, text, clipped, column) in rows {
            let excerpt = clip(line.as_bytes(), found, max);
            assert_eq!(&line[excerpt.range], text, "{line}");
            assert_eq!(
                (excerpt.clipped, excerpt.column),
                (clipped, column),
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_longer_and_never_without_the_match(
            line in proptest::collection::vec(any::<u8>(), 0..400),
            at in 0usize..420,
            max in 0usize..50,
        ) {
            let clipped = clip(&line, at..at + 1, max);
            prop_assert!(count(&line[clipped.range.clone()]) <= max);
            prop_assert!(clipped.clipped || clipped.range == (0..line.len()));
        }
    }
}
