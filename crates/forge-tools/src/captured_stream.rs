//! One output stream of a command, as a model is shown it: within the stream's own limit, and more
//! of it for `read_output`.

use std::ops::Range;

use os_sandbox::{Captured, Gap};

use crate::redact::Redactor;

/// Most bytes of one stream that are kept for `read_output`.
const MAX_WHOLE_BYTES: usize = 4 * 1024 * 1024;

/// One stream of a command that has ended.
pub(crate) struct CapturedStream {
    /// Within the limit.
    pub(crate) shown: String,
    /// Everything that was captured; `None` if all of it is shown.
    pub(crate) whole: Option<String>,
    /// Bytes that the command printed.
    pub(crate) total_bytes: u64,
    /// Bytes that were dropped while it ran.
    pub(crate) dropped_bytes: u64,
}

impl CapturedStream {
    /// Where the stream goes while the command runs.
    pub(crate) fn capture(limit: usize) -> Captured {
        Captured::new(limit.max(MAX_WHOLE_BYTES))
    }

    /// Secrets go first: a half of one is not known as such.
    pub(crate) fn new(captured: &Captured, limit: usize, redactor: &Redactor) -> Self {
        let (text, sources, dropped_bytes) = SourceMap::text(captured, redactor);
        let mut placeholders = Vec::new();
        let whole = redactor.redact_noting(&text, |shown, of| placeholders.push((shown, of)));
        let sources = sources.replaced(&text, placeholders);
        let total_bytes = captured.total_bytes();
        if whole.len() <= limit {
            return CapturedStream {
                shown: whole.into_owned(),
                whole: None,
                total_bytes,
                dropped_bytes,
            };
        }
        let (head, tail) = both_ends(&whole, limit);
        // A replaced part is shown whole or not at all.
        let head = &whole[..sources.start_around(head.len())];
        let tail_start = sources.end_around(whole.len() - tail.len());
        let tail = &whole[tail_start..];
        let [first, last] =
            [0..head.len(), tail_start..whole.len()].map(|shown| sources.count(&whole, shown));
        let gap = Gap {
            bytes: total_bytes.saturating_sub(first.bytes + last.bytes),
            lines: (captured.total_line_ends()).saturating_sub(first.lines + last.lines),
        };
        CapturedStream {
            shown: format!("{head}{}{tail}", gap.mark(head.as_bytes())),
            whole: Some(whole.into_owned()),
            total_bytes,
            dropped_bytes,
        }
    }

    /// Returns `true` if something is not shown.
    pub(crate) fn truncated(&self) -> bool {
        self.whole.is_some() || self.dropped_bytes > 0
    }

    /// `true` if only a part is shown.
    pub(crate) fn has_more(&self) -> bool {
        self.whole.is_some()
    }

    /// Everything that was kept.
    pub(crate) fn whole(&self) -> &str {
        self.whole.as_deref().unwrap_or(&self.shown)
    }
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Parts of a text that replace other bytes, in order: placeholders, bytes that are not UTF-8, and
/// the line about missing output.
#[derive(Default)]
struct SourceMap(Vec<(Range<usize>, Gap)>);

impl SourceMap {
    /// The captured output as text, and the bytes that are missing in it. Where the capture has a
    /// gap, the text beside it is missing too: it may be a part of a secret.
    fn text(captured: &Captured, redactor: &Redactor) -> (String, Self, u64) {
        let (head, gap, tail) = captured.pieces();
        let (mut text, mut sources) = SourceMap::decode(&head);
        let (tail, tail_sources) = SourceMap::decode(&tail);
        let Some(mut gap) = gap else {
            return (text, sources, 0);
        };
        let [_, head_end] = redactor.cuts(&text);
        let [tail_start, _] = redactor.cuts(&tail);
        for hidden in [
            sources.count(&text, head_end..text.len()),
            tail_sources.count(&tail, 0..tail_start),
        ] {
            gap.bytes += hidden.bytes;
            gap.lines += hidden.lines;
        }
        text.truncate(head_end);
        sources.0.retain(|(at, _)| at.end <= head_end);
        let mark = gap.mark(text.as_bytes());
        sources.0.push((head_end..head_end + mark.len(), gap));
        text.push_str(&mark);
        let rest = tail_sources.0.into_iter();
        let rest = rest.filter(|(at, _)| at.start >= tail_start);
        let moved = |at: usize| at - tail_start + text.len();
        sources
            .0
            .extend(rest.map(|(at, gap)| (moved(at.start)..moved(at.end), gap)));
        text.push_str(&tail[tail_start..]);
        (text, sources, gap.bytes)
    }

    fn decode(bytes: &[u8]) -> (String, Self) {
        let mut sources = SourceMap::default();
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                let start = text.len();
                text.push(char::REPLACEMENT_CHARACTER);
                let bytes = chunk.invalid().len() as u64;
                sources.0.push((start..text.len(), Gap { bytes, lines: 0 }));
            }
        }
        (text, sources)
    }

    /// Maps `text` with replacements in some places: the range of each replacement, and the range
    /// that it replaces.
    fn replaced(self, text: &str, places: Vec<(Range<usize>, Range<usize>)>) -> Self {
        let mut replaced = Vec::with_capacity(self.0.len() + places.len());
        let mut moved = places.iter().peekable();
        // From places of `text` to those of the new one.
        let (mut from, mut to) = (0, 0);
        for (at, gap) in &self.0 {
            while let Some((new, old)) = moved.next_if(|(_, old)| old.start <= at.start) {
                replaced.push((new.clone(), self.count(text, old.clone())));
                (from, to) = (old.end, new.end);
            }
            if at.start >= from {
                let start = to + (at.start - from);
                replaced.push((start..start + at.len(), *gap));
            }
        }
        for (new, old) in moved {
            replaced.push((new.clone(), self.count(text, old.clone())));
        }
        SourceMap(replaced)
    }

    /// Counts the bytes that a part of the text replaces.
    fn count(&self, text: &str, part: Range<usize>) -> Gap {
        let mut count = Gap { bytes: 0, lines: 0 };
        let plain = |part: Range<usize>, count: &mut Gap| {
            let part = text.get(part).unwrap_or_default();
            count.bytes += part.len() as u64;
            count.lines += line_ends(part);
        };
        let mut from = part.start;
        let first = self.0.partition_point(|(at, _)| at.start < part.start);
        for (at, gap) in &self.0[first..] {
            if at.start >= part.end {
                break;
            }
            plain(from..at.start, &mut count);
            count.bytes += gap.bytes;
            count.lines += gap.lines;
            from = at.end;
        }
        plain(from..part.end.max(from), &mut count);
        count
    }

    /// The part that this place is within.
    fn around(&self, place: usize) -> Option<&Range<usize>> {
        let behind = self.0.partition_point(|(at, _)| at.start < place);
        let (at, _) = self.0.get(behind.checked_sub(1)?)?;
        Some(at).filter(|at| place < at.end)
    }

    fn start_around(&self, place: usize) -> usize {
        self.around(place).map_or(place, |at| at.start)
    }

    fn end_around(&self, place: usize) -> usize {
        self.around(place).map_or(place, |at| at.end)
    }
}

/// The first and the last half of `limit` bytes of a text that is longer: whole characters, and
/// whole lines where less than a quarter is lost by it.
fn both_ends(text: &str, limit: usize) -> (&str, &str) {
    let part = limit / 2;
    let head = &text[..text.floor_char_boundary(part)];
    let tail = &text[text.ceil_char_boundary(text.len() - part)..];
    let late = head.ceil_char_boundary(head.len() - head.len() / 4);
    let early = tail.floor_char_boundary(tail.len() / 4);
    let head_end = head[late..].rfind('\n').map(|at| late + at + 1);
    let tail_start = tail[..early].find('\n').map(|at| at + 1);
    (
        &head[..head_end.unwrap_or(head.len())],
        &tail[tail_start.unwrap_or(0)..],
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(text: &str, limit: usize, redactor: &Redactor) -> CapturedStream {
        let mut captured = CapturedStream::capture(limit);
        text.as_bytes()
            .chunks(7)
            .for_each(|part| captured.push(part));
        CapturedStream::new(&captured, limit, redactor)
    }

    #[test]
    fn the_line_in_between_says_how_much_is_missing() {
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let printed = printed(&text, 60, &Redactor::default());
        insta::assert_snapshot!(printed.shown, @"
        line 0
        line 1
        line 2
        line 3
        [cut here: 738 bytes in 93 lines are not shown]
        line 97
        line 98
        line 99
        ");
        assert_eq!(printed.whole(), text);
        assert_eq!(printed.total_bytes, 790);
    }

    proptest! {
        /// Wherever the cut falls, no part of a secret that is long enough to tell is left.
        #[test]
        fn a_secret_at_the_cut_is_not_halved(before in 0_usize..80, after in 0_usize..80) {
            let secret = "hunter2-0123456789";
            let redactor = Redactor::new([("KEY", secret)]);
            let text = format!("{}{secret}{}", "a".repeat(before), "b".repeat(after));
            let printed = printed(&text, 60, &redactor);
            for part in [&secret[..6], &secret[secret.len() - 6..]] {
                prop_assert!(!printed.shown.contains(part), "{}", printed.shown);
                prop_assert!(!printed.whole().contains(part));
            }
        }

        /// Also where bytes were dropped while the command ran.
        #[test]
        fn a_secret_at_a_gap_is_not_halved(before in 0_usize..40, after in 0_usize..40) {
            for secret in ["hunter2-0123456789", concat!("ghp_", "0123456789QWERTYUIOPabcdefghijklmnopqr")] {
                let redactor = Redactor::new([("KEY", "hunter2-0123456789")]);
                let words = ". ".repeat(redactor.longest());
                let far = words.repeat(3);
                let text = format!("{words}{}{secret}{far}{secret}{}{words}", "-".repeat(before), "-".repeat(after));
                let mut captured = Captured::new(2 * (words.len() + 40));
                text.as_bytes().chunks(4096).for_each(|part| captured.push(part));
                let printed = CapturedStream::new(&captured, text.len(), &redactor);
                for part in [&secret[..6], &secret[secret.len() - 6..]] {
                    prop_assert!(!printed.shown.contains(part));
                }
                let told = printed.shown.len() as u64 + printed.dropped_bytes;
                prop_assert!(told >= printed.total_bytes, "{told}");
            }
        }

        #[test]
        fn the_ends_are_the_ends_within_the_limit(text in "(\\PC|\n){0,200}", limit in 0_usize..300) {
            let printed = printed(&text, limit, &Redactor::default());
            prop_assert_eq!(printed.whole(), &text);
            if text.len() <= limit {
                prop_assert_eq!(printed.shown, text);
            } else {
                let (head, tail) = both_ends(&text, limit);
                prop_assert!(head.len() + tail.len() <= limit);
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert!(printed.shown.starts_with(head) && printed.shown.ends_with(tail));
            }
        }

        /// Whatever was cut before: what is shown, in the bytes that were printed, and what the marks
        /// say is missing are together what was printed.
        #[test]
        fn marks_tell_the_truth(
            pieces in prop::collection::vec((0_usize..7, 0_usize..40), 0..40),
            captured_limit in 0_usize..400,
            limit in 0_usize..300,
        ) {
            const SECRET: &str = "hunter2-0123456789";
            let redactor = Redactor::new([("KEY", SECRET)]);
            let mut bytes = Vec::new();
            for (kind, count) in pieces {
                match kind {
                    0 => bytes.extend(SECRET.as_bytes()),
                    1 => bytes.extend(b"\xff\xc3".repeat(count)),
                    2 => bytes.extend("ü\n".repeat(count).as_bytes()),
                    3 => bytes.push(b'\n'),
                    _ => bytes.extend(b"word ".repeat(count)),
                }
            }
            let mut captured = Captured::new(captured_limit);
            bytes.chunks(7).for_each(|part| captured.push(part));
            let printed = CapturedStream::new(&captured, limit, &redactor);
            prop_assert_eq!(printed.total_bytes, bytes.len() as u64);
            // What was printed again, but for U+FFFD, of which the bytes are not known any more.
            let restored = redactor.restore(&printed.shown).unwrap().into_owned();
            let (mut shown, mut missing, mut lines, mut is_exact) = (0, 0, 0, true);
            for line in restored.split_inclusive('\n') {
                is_exact &= !line.contains(char::REPLACEMENT_CHARACTER);
                match line.strip_prefix("[cut here: ") {
                    Some(mark) => {
                        let mut words = mark.split(' ');
                        missing += words.next().unwrap().parse::<u64>().unwrap();
                        lines += words.nth(2).unwrap().parse::<u64>().unwrap();
                    }
                    None => {
                        shown += line.len() as u64;
                        lines += line_ends(line);
                    }
                }
            }
            // A line that is not whole gets an end before a mark.
            let added = restored.match_indices("\n[cut here: ").count() as u64;
            if is_exact {
                let most = shown + missing;
                prop_assert!((most - added..=most).contains(&printed.total_bytes), "{} {most} {added}\n{restored}", printed.total_bytes);
                let printed_lines = line_ends(&String::from_utf8_lossy(&bytes));
                prop_assert!((lines - added..=lines).contains(&printed_lines));
            }
        }
    }
}
