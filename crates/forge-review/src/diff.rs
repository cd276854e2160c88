//! The difference of one file, as numbered hunks that can be applied one by one.
//!
//! The numbers depend on the two contents alone, never on time: a person chooses by them in a later
//! command.

use std::collections::BTreeSet;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::state::u64_of;

/// Largest file that is compared line by line.
pub(crate) const MAX_TEXT_BYTES: u64 = 8 << 20;

/// Unchanged lines around a hunk.
const CONTEXT_LINES: usize = 3;

/// Most pairs of lines that are compared. Texts that differ in more become one hunk.
const MAX_PAIRS: u64 = 100_000_000;

/// The difference of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileDiff {
    /// Both sides are text (or one side does not exist).
    Text(Vec<DiffHunk>),
    /// A side is not text or is too large: the sizes and hashes of the change tell the difference.
    Binary,
    /// The project's object is another kind than the listed one, or gone.
    ChangedBelow,
    /// A directory, a link or a mode, without content to compare.
    None,
}

/// A run of changed lines with the lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffHunk {
    /// The first changed line in the run's file, from 1: it stays as it is when other hunks are applied.
    pub number: usize,
    /// The rows of a unified diff, the header first. A row ends only at a newline.
    pub text: String,
}

/// Two texts as lines, and the way from one to the other.
pub(crate) struct LineDiff<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> LineDiff<'a> {
    pub(crate) fn of(old: &'a str, new: &'a str) -> LineDiff<'a> {
        let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<&str>>();
        let (old, new) = (lines(old), lines(new));
        let same = |(a, b): &(&&str, &&str)| a == b;
        let start = old.iter().zip(&new).take_while(same).count();
        let (rest_old, rest_new) = (&old[start..], &new[start..]);
        let ends = rest_old.iter().rev().zip(rest_new.iter().rev());
        let end = ends.take_while(same).count();
        let (old_len, new_len) = (rest_old.len() - end, rest_new.len() - end);
        let ops = if u64_of(old_len).saturating_mul(u64_of(new_len)) <= MAX_PAIRS {
            capture_diff_slices(Algorithm::Myers, &old, &new)
        } else {
            let equal = |old_index, new_index, len| DiffOp::Equal {
                old_index,
                new_index,
                len,
            };
            let middle = DiffOp::Replace {
                old_index: start,
                old_len,
                new_index: start,
                new_len,
            };
            let tail = equal(start + old_len, start + new_len, end);
            let all = [equal(0, 0, start), middle, tail];
            all.into_iter()
                .filter(|op| !op.old_range().is_empty() || !op.new_range().is_empty())
                .collect()
        };
        LineDiff { old, new, ops }
    }

    fn groups(&self) -> Vec<Vec<DiffOp>> {
        let groups = group_diff_ops(self.ops.clone(), CONTEXT_LINES);
        let differs = |group: &Vec<DiffOp>| group.iter().any(|op| !is_equal(op));
        groups.into_iter().filter(differs).collect()
    }

    pub(crate) fn hunks(&self) -> Vec<DiffHunk> {
        let groups = self.groups().into_iter();
        let hunk = |group: Vec<DiffOp>| DiffHunk {
            number: number_of(&group),
            text: self.text_of(&group),
        };
        groups.map(hunk).collect()
    }

    fn text_of(&self, group: &[DiffOp]) -> String {
        let range = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
            let start = group.first().map_or(0, |op| of(op).start);
            let len = group.last().map_or(0, |op| of(op).end) - start;
            match len {
                0 => format!("{start},0"),
                1 => format!("{}", start + 1),
                _ => format!("{},{len}", start + 1),
            }
        };
        let (old, new) = (range(DiffOp::old_range), range(DiffOp::new_range));
        let mut text = format!("@@ -{old} +{new} @@\n");
        let mut rows = |sign: char, lines: &[&str]| {
            for line in lines {
                text.push(sign);
                text.push_str(line);
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        };
        for op in group {
            if is_equal(op) {
                rows(' ', &self.old[op.old_range()]);
            } else {
                rows('-', &self.old[op.old_range()]);
                rows('+', &self.new[op.new_range()]);
            }
        }
        text
    }

    /// Returns the old text with the chosen hunks applied; `None` if a number does not exist.
    pub(crate) fn with_hunks(&self, numbers: &BTreeSet<usize>) -> Option<String> {
        let groups = self.groups();
        let is_known = |number: &usize| groups.iter().any(|group| number_of(group) == *number);
        if !numbers.iter().all(is_known) {
            return None;
        }
        // An operation that changes something is whole in exactly one group.
        let start = |op: &DiffOp| (op.old_range().start, op.new_range().start);
        let groups = groups.into_iter();
        let chosen: BTreeSet<_> = groups
            .filter(|group| numbers.contains(&number_of(group)))
            .flatten()
            .filter(|op| !is_equal(op))
            .map(|op| start(&op))
            .collect();
        let mut text = String::new();
        for op in &self.ops {
            let lines = match !is_equal(op) && chosen.contains(&start(op)) {
                true => &self.new[op.new_range()],
                false => &self.old[op.old_range()],
            };
            text.extend(lines.iter().copied());
        }
        Some(text)
    }
}

/// Returns the number of a hunk. Lines that are the same are between two hunks, so no two have one.
fn number_of(group: &[DiffOp]) -> usize {
    let first = group.iter().find(|op| !is_equal(op));
    first.map_or(0, |op| op.new_range().start) + 1
}

fn is_equal(op: &DiffOp) -> bool {
    match op {
        DiffOp::Equal { .. } => true,
        DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => false,
    }
}

/// Returns the content as text, if it is text.
pub(crate) fn as_text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_hunks() {
        for (old, new, hunks) in [
            ("a\n", "a\n", vec![]),
            ("", "a\n", vec!["@@ -0,0 +1 @@\n+a\n"]),
            ("a\n", "", vec!["@@ -1 +0,0 @@\n-a\n"]),
            (
                "a",
                "b",
                vec![
                    "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
                ],
            ),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
                vec![
                    "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n",
                    "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n",
                ],
            ),
        ] {
            let change = LineDiff::of(old, new);
            let found = change.hunks();
            let found: Vec<&str> = found.iter().map(|hunk| hunk.text.as_str()).collect();
            assert_eq!(found, hunks, "{old:?} {new:?}");
        }
    }

    #[test]
    fn texts_that_differ_everywhere_are_one_hunk() {
        let text = |word: &str| {
            let lines = (0..11_000).map(|n| format!("{word}{n}\n"));
            format!("same\n{}same\n", lines.collect::<String>())
        };
        let (old, new) = (text("a"), text("b"));
        let change = LineDiff::of(&old, &new);
        assert_eq!(change.hunks().len(), 1);
        assert_eq!(change.with_hunks(&BTreeSet::from([2])), Some(new.clone()));
    }

    proptest! {
        #[test]
        fn all_hunks_are_the_new_text_and_none_the_old(
            old in "([ab]\n){0,40}[ab]{0,1}", new in "([ab]\n){0,40}[ab]{0,1}", pick in any::<u64>()
        ) {
            let change = LineDiff::of(&old, &new);
            let numbers = |of: &LineDiff<'_>| -> BTreeSet<usize> {
                of.hunks().iter().map(|hunk| hunk.number).collect()
            };
            let all = numbers(&change);
            prop_assert_eq!(all.len(), change.hunks().len());
            prop_assert_eq!(change.with_hunks(&all), Some(new.clone()));
            prop_assert_eq!(change.with_hunks(&BTreeSet::new()), Some(old.clone()));
            prop_assert_eq!(change.with_hunks(&BTreeSet::from([usize::MAX])), None);
            // The rest of the hunks is what is left.
            let some: BTreeSet<usize> = all.into_iter().filter(|n| pick >> (n % 64) & 1 == 1).collect();
            let half = change.with_hunks(&some).unwrap();
            let rest = LineDiff::of(&half, &new);
            prop_assert_eq!(rest.with_hunks(&numbers(&rest)), Some(new));
        }

        /// In texts without ambiguous lines.
        #[test]
        fn a_hunk_keeps_its_number(kinds in proptest::collection::vec(0_u8..12, 0..60), pick in any::<u64>()) {
            let lines = |of_new: bool| {
                let lines = kinds.iter().enumerate().map(|(at, kind)| match (kind, of_new) {
                    (0, true) | (1, false) => String::new(),
                    (2, true) => format!("{at} new\n"),
                    _ => format!("{at}\n"),
                });
                lines.collect::<String>()
            };
            let (old, new) = (lines(false), lines(true));
            let change = LineDiff::of(&old, &new);
            let numbers = |of: &LineDiff<'_>| -> BTreeSet<usize> {
                of.hunks().iter().map(|hunk| hunk.number).collect()
            };
            let all = numbers(&change);
            let is_first = |number: &usize| pick >> (number % 64) & 1 == 1;
            let (first, second): (BTreeSet<usize>, BTreeSet<usize>) = all.into_iter().partition(is_first);
            let half = change.with_hunks(&first).unwrap();
            let rest = LineDiff::of(&half, &new);
            prop_assert_eq!(numbers(&rest), second);
        }
    }
}
