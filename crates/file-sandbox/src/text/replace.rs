//! Finds a text in the text of a file, and replaces it. This module opens no file.
//!
//! Both texts are compared with every line ending as `\n`, and each character of the normalised
//! text maps to its bytes in the file. So a match is a range of the file, and everything outside of
//! it stays unchanged.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::time::Duration;

use unicode_normalization::UnicodeNormalization as _;

use crate::error::{Difference, MatchExcerpt};
use crate::text::line_endings::NormalizedText;
use crate::text::mask::TextMask;

impl NormalizedText<'_> {
    fn line_of(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// Returns the line numbers of many ranges, which are in order.
    fn lines_of(&self, ranges: &[Range<usize>]) -> Vec<usize> {
        let (mut line, mut from) = (1, 0);
        let count = |range: &Range<usize>| {
            line += self.text[from..range.start].matches('\n').count();
            from = range.start;
            line
        };
        ranges.iter().map(count).collect()
    }

    /// Returns the lines of a range with one more before and after, and the number of the first.
    fn place(&self, range: &Range<usize>, mask: Option<&TextMask>) -> MatchExcerpt {
        let start = self.text[..range.start].rfind('\n').unwrap_or(0);
        let start = self.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let end = line_end(&self.text, range.end);
        let end = line_end(&self.text, (end + 1).min(self.text.len()));
        MatchExcerpt {
            line: self.line_of(range.start),
            text: self.excerpt(start..end, mask),
            first: self.line_of(start),
        }
    }

    fn excerpt(&self, range: Range<usize>, mask: Option<&TextMask>) -> String {
        match mask {
            Some(mask) => mask.excerpt(&self.text, range),
            None => self.text[range].to_owned(),
        }
    }
}

/// One replacement: a range of the source, and its new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextChange {
    pub(crate) range: Range<usize>,
    pub(crate) new: String,
    pub(crate) fuzzy: bool,
    pub(crate) line: usize,
}

/// The reason why the text has no single match.
pub(crate) enum MatchError {
    Nowhere(Option<(MatchExcerpt, Difference)>),
    Several {
        total: usize,
        places: Vec<MatchExcerpt>,
        fuzzy: bool,
    },
}

/// Options of a search for a text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchOptions<'m> {
    pub(crate) all: bool,
    pub(crate) near_line: Option<usize>,
    pub(crate) fuzzy: bool,
    /// Of the excerpts in errors.
    pub(crate) mask: Option<&'m TextMask>,
}

impl<'m> MatchOptions<'m> {
    /// Returns the options that the replacements of one call share.
    pub(crate) fn common(fuzzy: bool, mask: Option<&'m TextMask>) -> Self {
        Self {
            fuzzy,
            mask,
            ..Self::default()
        }
    }
}

/// The most matches that one call replaces; a more common text is refused.
const MAX_FOUND: usize = 10_000;
const FIND_BYTES: usize = 64 * 1024 * 1024;
/// Matches described in one answer.
const MAX_PLACES: usize = 5;

/// Finds the ranges to replace.
pub(crate) fn find_changes(
    view: &NormalizedText<'_>,
    old: &str,
    new: &str,
    look: MatchOptions<'_>,
) -> Result<Vec<TextChange>, MatchError> {
    let old = NormalizedText::of(old).text;
    if old.is_empty() {
        return Err(MatchError::Nowhere(None));
    }
    let (mut found, cut) = exact_matches(view, &old, look.all);
    let mut fuzzy = false;
    if found.is_empty() {
        if look.fuzzy {
            found = fuzzy_matches(view, &old);
            fuzzy = true;
        }
        if found.is_empty() {
            return Err(MatchError::Nowhere(nearest_region(view, &old, look.mask)));
        }
    }
    if let Some(line) = look.near_line
        && found.len() > 1
        && !fuzzy
        && !cut
        && let Some(nearest) = nearest_match(view, &found, line)
    {
        found = vec![nearest];
    }
    if cut || found.len() > 1 && (!look.all || fuzzy) {
        return Err(MatchError::Several {
            total: found.len(),
            places: found
                .iter()
                .take(MAX_PLACES)
                .map(|r| view.place(r, look.mask))
                .collect(),
            fuzzy,
        });
    }
    let lines = view.lines_of(&found);
    Ok(found
        .iter()
        .zip(lines)
        .map(|(range, line)| change(view, range, new, line, fuzzy))
        .collect())
}

/// Returns the matches of a text, and `true` if they are more than the limit. Overlapping matches
/// count too unless all are replaced: either could be intended.
fn exact_matches(view: &NormalizedText<'_>, old: &str, all: bool) -> (Vec<Range<usize>>, bool) {
    let most = match all {
        true => MAX_FOUND,
        false => MAX_FOUND.min(FIND_BYTES / old.len()).max(1),
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = view.text[from..].find(old) {
        let start = from + at;
        found.push(start..start + old.len());
        // A long text that overlaps itself costs its length each time.
        if found.len() > most {
            return (found, true);
        }
        from = start
            + match all {
                true => old.len(),
                false => view.text[start..].chars().next().map_or(1, char::len_utf8),
            };
    }
    (found, false)
}

/// Returns the match nearest to a line; `None` if two are equally near.
fn nearest_match(
    view: &NormalizedText<'_>,
    found: &[Range<usize>],
    line: usize,
) -> Option<Range<usize>> {
    let lines = view.lines_of(found);
    let best = lines.iter().map(|own| own.abs_diff(line)).min();
    let near = |i: &usize| Some(lines[*i].abs_diff(line)) == best;
    let nearest: Vec<usize> = (0..found.len()).filter(near).collect();
    match nearest[..] {
        [only] => Some(found[only].clone()),
        _ => None,
    }
}

/// Builds the change of a match. Unchanged lines retain their endings; new lines get their
/// neighbour's.
fn change(
    view: &NormalizedText<'_>,
    range: &Range<usize>,
    new: &str,
    line: usize,
    fuzzy: bool,
) -> TextChange {
    let new = NormalizedText::of(new).text;
    let old = &view.text[range.clone()];
    // A common prefix and suffix is not replaced, so its endings stay unchanged.
    let head = common_prefix(old, &new);
    let tail = common_prefix_rev(&old[head..], &new[head..]);
    let inner = range.start + head..range.end - tail;
    let new = &new[head..new.len() - tail];
    let new = if new.contains('\n') {
        new.replace('\n', view.ending_at(inner.start))
    } else {
        new.to_owned()
    };
    TextChange {
        line,
        range: view.back(&inner),
        new,
        fuzzy,
    }
}

/// Returns the source with all changes applied; `None` if they overlap.
pub(crate) fn apply(source: &str, changes: &[TextChange]) -> Option<String> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|i| (changes[*i].range.start, changes[*i].range.end));
    for pair in order.windows(2) {
        if changes[pair[0]].range.end > changes[pair[1]].range.start {
            return None;
        }
    }
    let mut text = String::with_capacity(source.len());
    let mut from = 0;
    for i in order {
        let change = &changes[i];
        text.push_str(&source[from..change.range.start]);
        text.push_str(&change.new);
        from = change.range.end;
    }
    text.push_str(&source[from..]);
    Some(text)
}

/// Returns the changes as a unified diff of at most `max_bytes`; `true` if it is complete.
pub(crate) fn diff(
    source: &str,
    changes: &[TextChange],
    mask: Option<&TextMask>,
    max_bytes: usize,
) -> (String, bool) {
    let whole = mask.and_then(|mask| Some((mask, apply(source, changes)?)));
    let whole = whole.filter(|(mask, new)| mask.has_place(source) || mask.has_place(new));
    let mut grown = 0_isize;
    let mut order: Vec<&TextChange> = changes.iter().collect();
    order.sort_by_key(|change| change.range.start);
    let mut out = String::new();
    let (mut line, mut counted, mut shift) = (1, 0, 0_isize);
    let mut rest = &order[..];
    while let Some(first) = rest.first() {
        let start = lines_before(source, first.range.start);
        let mut end = lines_after(source, first.range.end);
        let mut count = 1;
        // Adjacent changes share a hunk.
        while let Some(next) = rest.get(count)
            && lines_before(source, next.range.start) <= end
        {
            end = end.max(lines_after(source, next.range.end));
            count += 1;
        }
        let (group, others) = rest.split_at(count);
        rest = others;
        line += source[counted..start].matches('\n').count();
        counted = start;
        let old = &source[start..end];
        let mut new = String::with_capacity(old.len());
        let mut from = start;
        for change in group {
            new.push_str(&source[from..change.range.start]);
            new.push_str(&change.new);
            from = change.range.end;
        }
        new.push_str(&source[from..end]);
        let longer = new.len().cast_signed() - old.len().cast_signed();
        let (old, new) = match &whole {
            None => (Cow::Borrowed(old), new),
            Some((mask, changed)) => {
                let at = start.saturating_add_signed(grown);
                let new = mask.lines(changed, at..at + new.len());
                (mask.lines(source, start..end).into(), new)
            }
        };
        shift += hunks(&mut out, &old, &new, line, shift);
        grown += longer;
        if out.len() > max_bytes {
            // A line is shown whole: a mask may replace the rest of one.
            let end = out[..out.floor_char_boundary(max_bytes)].rfind('\n');
            out.truncate(end.map_or(0, |end| end + 1));
            return (out, false);
        }
    }
    (out, true)
}

const CONTEXT_LINES: usize = 3;
const DIFF_TIME: Duration = Duration::from_millis(200);

/// The start of the line that is three lines above.
fn lines_before(text: &str, at: usize) -> usize {
    let mut start = at;
    for _ in 0..=CONTEXT_LINES {
        match text[..start].rfind('\n') {
            Some(newline) => start = newline,
            None => return 0,
        }
    }
    start + 1
}

/// The end of the line that is three lines below.
fn lines_after(text: &str, at: usize) -> usize {
    let mut end = at;
    for _ in 0..=CONTEXT_LINES {
        match text[end..].find('\n') {
            Some(newline) => end += newline + 1,
            None => return text.len(),
        }
    }
    end
}

/// Writes the hunks of two regions. Returns the number of lines by which the new one is longer.
fn hunks(out: &mut String, old: &str, new: &str, line: usize, shift: isize) -> isize {
    // Past it, the diff is still right and only less short.
    let diff = similar::TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(old, new);
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        let new_line = (line + new.start).saturating_add_signed(shift);
        out.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            line + old.start,
            old.len(),
            new_line,
            new.len()
        ));
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            out.push_str(&change.tag().to_string());
            out.push_str(change.value().trim_end_matches(['\r', '\n']));
            out.push('\n');
        }
    }
    let count = |text: &str| text.matches('\n').count().cast_signed();
    count(new) - count(old)
}

/// Returns whole lines that differ only in spaces at their ends, indentation, and look-alike
/// characters.
fn fuzzy_matches(view: &NormalizedText<'_>, old: &str) -> Vec<Range<usize>> {
    let wanted: Vec<String> = trimmed(old).lines().map(fold_line).collect();
    if wanted.iter().all(String::is_empty) {
        return Vec::new();
    }
    let Some(lines) = LineIndex::of(&view.text) else {
        return Vec::new();
    };
    // By hash, because the folded lines would be as large as the file again.
    let hasher = RandomState::new();
    let hashes: Vec<u64> = (0..lines.count())
        .map(|i| hasher.hash_one(fold_line(lines.text(i))))
        .collect();
    let keys: Vec<u64> = wanted.iter().map(|line| hasher.hash_one(line)).collect();
    let mut found = Vec::new();
    for (i, window) in hashes.windows(keys.len()).enumerate() {
        let last = i + keys.len() - 1;
        let same = |(n, line): (usize, &String)| fold_line(lines.text(i + n)) == *line;
        if window == keys && wanted.iter().enumerate().all(same) {
            let end = lines.range(last).end;
            let ends_line = old.ends_with('\n') && view.text[end..].starts_with('\n');
            found.push(lines.range(i).start..end + usize::from(ends_line));
        }
    }
    found
}

fn trimmed(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// Returns a line in the form in which lines are compared.
fn fold_line(line: &str) -> String {
    let mut folded = String::new();
    let mut space = false;
    for c in line.trim().nfkc() {
        if c.is_whitespace() {
            space = true;
            continue;
        }
        if std::mem::take(&mut space) {
            folded.push(' ');
        }
        folded.push(match c {
            '\u{2018}' | '\u{2019}' | '\u{201b}' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201f}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c => c,
        });
    }
    folded
}

/// Work spent on finding the nearest region, in characters compared.
const NEAREST_BUDGET: usize = 4_000_000;

/// Returns the region that is most similar to the text, and its first difference.
fn nearest_region(
    view: &NormalizedText<'_>,
    old: &str,
    mask: Option<&TextMask>,
) -> Option<(MatchExcerpt, Difference)> {
    let wanted: Vec<&str> = trimmed(old).split('\n').collect();
    let lines = LineIndex::of(&view.text)?;
    let mut budget = NEAREST_BUDGET;
    let mut best: Option<(f64, usize)> = None;
    for start in 0..lines.count() {
        let mut score = 0.0;
        for (i, want) in wanted.iter().enumerate().take(40) {
            if start + i >= lines.count() {
                break;
            }
            let line = lines.text(start + i);
            let (a, b) = (line.trim(), want.trim());
            if a == b {
                score += if b.is_empty() { 0.1 } else { 1.0 };
                continue;
            }
            let cost = a.len().saturating_mul(b.len());
            if a.len() > 400 || b.len() > 400 || cost > budget {
                continue;
            }
            budget -= cost;
            let like = strsim::normalized_levenshtein(a, b);
            if like > 0.5 {
                score += like;
            }
        }
        if score > best.map_or(0.45, |(best, _)| best) {
            best = Some((score, start));
        }
    }
    let (_, start) = best?;
    let last = (start + wanted.len() - 1).min(lines.count() - 1);
    let range = lines.range(start).start..lines.range(last).end;
    let place = MatchExcerpt {
        line: start + 1,
        text: view.excerpt(range.clone(), mask),
        first: start + 1,
    };
    Some((place, difference(&view.text[range.start..], old, start + 1)))
}

fn difference(found: &str, given: &str, first_line: usize) -> Difference {
    // A text that begins in the middle of a line is compared from there.
    let line_end = found.find('\n').unwrap_or(found.len());
    let first_given = given.lines().next().unwrap_or_default();
    let begins = |chars: usize| {
        let end = first_given.char_indices().nth(chars)?.0;
        found[..line_end].find(&first_given[..end])
    };
    let skip = (2..=12).rev().find_map(begins).unwrap_or(0);
    let column = found[..skip].chars().count() + 1;
    let mut difference = Difference {
        line: first_line,
        column,
        found: None,
        given: None,
    };
    let (mut a, mut b) = (found[skip..].chars(), given.chars());
    loop {
        let (x, y) = (a.next(), b.next());
        if x != y || x.is_none() {
            let visible = |c: Option<char>| c.filter(|c| *c != '\n');
            difference.found = visible(x);
            difference.given = visible(y);
            return difference;
        }
        if x == Some('\n') {
            difference.line += 1;
            difference.column = 1;
        } else {
            difference.column += 1;
        }
    }
}

/// The start of each line of a text, in a compact form.
struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<u32>,
}

/// A text with more lines gets no fuzzy match.
const MAX_LINES: usize = 400_000;

impl<'t> LineIndex<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let mut starts = vec![0];
        for (newline, _) in text.match_indices('\n') {
            if starts.len() == MAX_LINES {
                return None;
            }
            starts.push(u32::try_from(newline + 1).ok()?);
        }
        Some(Self { text, starts })
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    /// Without the newline; past the last one, the end of the text.
    fn range(&self, line: usize) -> Range<usize> {
        let start = |line: usize| self.starts.get(line).map(|start| *start as usize);
        let end = start(line + 1).map_or(self.text.len(), |next| next - 1);
        start(line).unwrap_or(end)..end
    }

    fn text(&self, line: usize) -> &'t str {
        &self.text[self.range(line)]
    }
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n)
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.chars()
        .zip(b.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum()
}

fn common_prefix_rev(a: &str, b: &str) -> usize {
    a.chars()
        .rev()
        .zip(b.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edited(source: &str, old: &str, new: &str, look: MatchOptions<'_>) -> Option<String> {
        let changes = find_changes(&NormalizedText::of(source), old, new, look).ok()?;
        apply(source, &changes)
    }

    #[test]
    fn endings_stay() {
        let rows = [
            ("a\r\nb\r\nc", "b", "x", "a\r\nx\r\nc"),
            ("a\r\nb\r\nc", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc"),
            ("a\nb\r\nc\n", "a\nb\nc", "A\nb\nC", "A\nb\nC\n"),
            ("a\r\nb\nc\r\n", "b\n", "b2\nb3\n", "a\r\nb2\r\nb3\nc\r\n"),
            ("a\nb", "a\r\nb", "a\r\nc", "a\nc"),
            ("one", "one", "1\n2", "1\n2"),
            ("aaa", "aaa", "", ""),
        ];
        for (source, old, new, expected) in rows {
            let got = edited(source, old, new, MatchOptions::default());
            assert_eq!(got.as_deref(), Some(expected), "{source:?} {old:?}");
        }
    }

    #[test]
    fn overlapping_matches_are_several() {
        assert!(edited("aaa", "aa", "b", MatchOptions::default()).is_none());
    }

    proptest! {
        /// Everything outside of the match stays, whatever the endings.
        #[test]
        fn outside_stays(
            head in "[ab\\r\\n]{0,12}", old in "x[yz\\n]{0,4}x", new in "[uv\\n]{0,6}", tail in "[ab\\r\\n]{0,12}",
        ) {
            // A `\r` before the text would join with a line ending in it.
            let source = format!("{head}|{}|{tail}", old.replace('\n', "\r\n"));
            if let Some(done) = edited(&source, &old, &new, MatchOptions::default()) {
                let before = format!("{head}|");
                let after = format!("|{tail}");
                prop_assert!(done.starts_with(&before) && done.ends_with(&after));
            } else {
                prop_assert!(false, "{source:?} {old:?}");
            }
        }

        #[test]
        fn never_panics(source in "\\PC{0,30}|[ab \\t\\r\\n]{0,30}", old in "\\PC{1,8}|[ab \\t\\r\\n]{1,8}", new in "[ab\\r\\n]{0,8}", fuzzy: bool, all: bool) {
            edited(&source, &old, &new, MatchOptions { all, fuzzy, near_line: Some(2), mask: None });
        }
    }
}
