//! Two changes of one text, brought together line by line, as `diff3` does.

use std::iter::Peekable;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

/// After this long a change is larger than it had to be: two long texts that have little in common
/// would take days.
const TIME: Duration = Duration::from_secs(2);

/// The result of a merge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MergeResult {
    pub(crate) text: String,
    /// Places where both had changed one line: they are between markers.
    pub(crate) conflicts: usize,
}

/// One side's lines in place of a range of the base's.
struct Edit {
    base: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

/// Returns the edits between the common lines. Other figures of the library are ignored: where it
/// moves a change up or down, the other side's index may be outdated.
fn edits(base: &[&str], new: &[&str]) -> Vec<Edit> {
    let mut edits = Vec::new();
    let (mut base_at, mut new_at) = (0, 0);
    let same = |op: &similar::DiffOp| {
        (op.tag() == DiffTag::Equal).then(|| (op.old_range(), op.new_range()))
    };
    let until = Some(Instant::now() + TIME);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, base, new, until);
    let end = (base.len()..base.len(), new.len()..new.len());
    for (in_base, in_new) in ops.iter().filter_map(same).chain([end]) {
        if in_base.start > base_at || in_new.start > new_at {
            edits.push(Edit {
                base: base_at..in_base.start,
                new: new_at..in_new.start,
            });
        }
        (base_at, new_at) = (in_base.end, in_new.end);
    }
    edits
}

/// Merges the change from `base` to `theirs` into `ours`, with any line ends. The kind of line end
/// counts as one more thing that either may have changed.
pub(crate) fn merge(base: &str, ours: &str, theirs: &str, name: &str) -> MergeResult {
    let ends = [base, ours, theirs].map(ends);
    let [Some(of_base), Some(of_ours), Some(of_theirs)] = ends else {
        return merge_lines(base, ours, theirs, name);
    };
    let of_all = match (of_ours, of_theirs) {
        (LineEnding::None, other) | (other, LineEnding::None) => other,
        (ours, theirs) if ours == of_base => theirs,
        (ours, _) => ours,
    };
    let [base, ours, theirs] = [base, ours, theirs].map(|text| text.replace("\r\n", "\n"));
    let mut merged = merge_lines(&base, &ours, &theirs, name);
    if of_all == LineEnding::Windows {
        merged.text = merged.text.replace('\n', "\r\n");
    }
    merged
}

/// How lines end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnding {
    /// A single line.
    None,
    Unix,
    Windows,
}

/// None where they end in more than one way.
fn ends(text: &str) -> Option<LineEnding> {
    let (all, windows) = (text.matches('\n').count(), text.matches("\r\n").count());
    match (all, windows) {
        (0, _) => Some(LineEnding::None),
        (_, 0) => Some(LineEnding::Unix),
        (all, windows) if all == windows => Some(LineEnding::Windows),
        (_, _) => None,
    }
}

/// One side of a merge, as far as it is merged.
struct MergeSide<'a> {
    lines: &'a [&'a str],
    edits: Peekable<std::vec::IntoIter<Edit>>,
    /// The next line.
    at: usize,
    /// The end of the present region in these lines, and of its last edit in the base's.
    end: usize,
    base_end: usize,
    changed: bool,
}

impl<'a> MergeSide<'a> {
    fn new(base: &[&str], lines: &'a [&'a str]) -> MergeSide<'a> {
        MergeSide {
            lines,
            edits: edits(base, lines).into_iter().peekable(),
            at: 0,
            end: 0,
            base_end: 0,
            changed: false,
        }
    }

    /// Returns the line of the base at which the next edit begins.
    fn next_edit(&mut self) -> Option<usize> {
        self.edits.peek().map(|edit| edit.base.start)
    }

    /// Begins a region at `start` of the base, behind so many unchanged lines.
    fn begin_region(&mut self, start: usize, unchanged: usize) {
        self.at += unchanged;
        (self.end, self.base_end, self.changed) = (self.at, start, false);
    }

    /// Adds the next edit to the region if it touches it; `end` is the region's end in the base.
    fn extend_region(&mut self, end: &mut usize) -> bool {
        let Some(edit) = self.edits.next_if(|edit| edit.base.start <= *end) else {
            return false;
        };
        self.end += edit.base.start - self.base_end + edit.new.len();
        self.base_end = edit.base.end;
        *end = edit.base.end.max(*end);
        self.changed = true;
        true
    }

    /// Returns the lines of the region, which ends at `end` of the base.
    fn end_region(&mut self, end: usize) -> &'a [&'a str] {
        let from = self.at;
        self.at = self.end + end - self.base_end;
        &self.lines[from..self.at]
    }
}

fn merge_lines(base: &str, ours: &str, theirs: &str, name: &str) -> MergeResult {
    let [base, ours, theirs] = [base, ours, theirs].map(|text| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines
    });
    let (mut ours, mut theirs) = (MergeSide::new(&base, &ours), MergeSide::new(&base, &theirs));
    let mut merged = MergeResult {
        text: String::new(),
        conflicts: 0,
    };
    let mut at = 0;
    loop {
        let starts = [ours.next_edit(), theirs.next_edit()];
        let Some(start) = starts.into_iter().flatten().min() else {
            merged.text.extend(base[at..].iter().copied());
            return merged;
        };
        merged.text.extend(base[at..start].iter().copied());
        ours.begin_region(start, start - at);
        theirs.begin_region(start, start - at);
        // Everything that touches, of either side, is one region.
        let mut end = start;
        while ours.extend_region(&mut end) || theirs.extend_region(&mut end) {}
        let (our, their) = (ours.end_region(end), theirs.end_region(end));
        if !theirs.changed || our == their {
            merged.text.extend(our.iter().copied());
        } else if !ours.changed {
            merged.text.extend(their.iter().copied());
        } else {
            merged.conflicts += 1;
            merged.text.push_str("<<<<<<< local\n");
            push_lines(&mut merged.text, our);
            merged.text.push_str("=======\n");
            push_lines(&mut merged.text, their);
            merged.text.push_str(&format!(">>>>>>> {name}\n"));
        }
        at = end;
    }
}

/// A marker has a line of its own, also after a text without an end of line.
fn push_lines(text: &mut String, lines: &[&str]) {
    text.extend(lines.iter().copied());
    if lines.last().is_some_and(|line| !line.ends_with('\n')) {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_merges() {
        for (base, ours, theirs, text, conflicts) in [
            ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", 0),
            ("a\nb\nc\n", "a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\n", 0),
            ("a\nb\n", "a\nx\n", "a\nx\n", "a\nx\n", 0),
            (
                "a\nb\nc\n",
                "a\nX\nc\n",
                "a\nY\nc\n",
                "a\n<<<<<<< local\nX\n=======\nY\n>>>>>>> main\nc\n",
                1,
            ),
            (
                "",
                "mine",
                "yours",
                "<<<<<<< local\nmine\n=======\nyours\n>>>>>>> main\n",
                1,
            ),
            ("a\nb\nc\nd\n", "d\n", "a\nb\nc\nd\ne\n", "d\ne\n", 0),
            // Ends of lines are a change like others, of either side.
            (
                "a\nb\nc\n",
                "a\r\nb\r\nc\r\n",
                "a\nb\nC\n",
                "a\r\nb\r\nC\r\n",
                0,
            ),
            (
                "a\nb\nc\n",
                "A\nb\nc\n",
                "a\r\nb\r\nc\r\n",
                "A\r\nb\r\nc\r\n",
                0,
            ),
            (
                "a\r\nb\r\nc\r\n",
                "a\nb\nc\n",
                "a\r\nb\r\nC\r\n",
                "a\nb\nC\n",
                0,
            ),
            (
                "a\r\nb\r\nc\r\n",
                "a\r\nX\r\nc\r\n",
                "a\r\nY\r\nc\r\n",
                "a\r\n<<<<<<< local\r\nX\r\n=======\r\nY\r\n>>>>>>> main\r\nc\r\n",
                1,
            ),
            (
                "a\r\nb\r\nc\r\n",
                "a\r\nb\r\nC\r\n",
                "",
                "<<<<<<< local\r\na\r\nb\r\nC\r\n=======\r\n>>>>>>> main\r\n",
                1,
            ),
            // Both at once stay as they are.
            ("a\r\nb\nc\n", "a\r\nb\nC\n", "A\nb\nc\n", "A\nb\nC\n", 0),
        ] {
            let merged = merge(base, ours, theirs, "main");
            assert_eq!((merged.text.as_str(), merged.conflicts), (text, conflicts));
        }
    }

    fn lines() -> impl Strategy<Value = String> {
        prop::collection::vec("[abc]", 0..8).prop_map(|lines| {
            let mut text = lines.join("\n");
            if !text.is_empty() {
                text.push('\n');
            }
            text
        })
    }

    proptest! {
        #[test]
        fn what_one_side_left_is_the_other(base in lines(), new in lines()) {
            prop_assert_eq!(merge(&base, &base, &new, "m").text, new.as_str());
            prop_assert_eq!(merge(&base, &new, &base, "m").text, new.as_str());
            prop_assert_eq!(merge(&base, &new, &new, "m").text, new.as_str());
        }

        #[test]
        fn nothing_of_ours_is_lost_in_a_conflict(base in lines(), ours in lines(), theirs in lines()) {
            let merged = merge(&base, &ours, &theirs, "m");
            prop_assert_eq!(merged.conflicts > 0, merged.text.contains("<<<<<<<"));
        }
    }
}
