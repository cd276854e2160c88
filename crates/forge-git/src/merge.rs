//! Two changes of one text, brought together line by line, as `diff3` does.

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

fn merge_lines(base: &str, ours: &str, theirs: &str, name: &str) -> MergeResult {
    let [base, ours, theirs] = [base, ours, theirs].map(|text| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines
    });
    let (mine, other) = (edits(&base, &ours), edits(&base, &theirs));
    let (mut mine, mut other) = (mine.iter().peekable(), other.iter().peekable());
    let mut merged = MergeResult {
        text: String::new(),
        conflicts: 0,
    };
    let mut at = 0;
    // How far each side is ahead of the base.
    let (mut our_at, mut their_at) = (0, 0);
    loop {
        let starts = [mine.peek(), other.peek()].map(|edit| edit.map(|edit| edit.base.start));
        let Some(start) = starts.into_iter().flatten().min() else {
            merged.text.extend(base[at..].iter().copied());
            return merged;
        };
        let same = start - at;
        merged.text.extend(base[at..start].iter().copied());
        our_at += same;
        their_at += same;
        // Everything that touches, of either side, is one place.
        let mut end = start;
        let (mut our_end, mut their_end) = (our_at, their_at);
        let (mut our_base, mut their_base) = (start, start);
        let (mut ours_changed, mut theirs_changed) = (false, false);
        loop {
            if let Some(edit) = mine.next_if(|edit| edit.base.start <= end) {
                our_end += edit.base.start - our_base + edit.new.len();
                our_base = edit.base.end;
                end = end.max(edit.base.end);
                ours_changed = true;
            } else if let Some(edit) = other.next_if(|edit| edit.base.start <= end) {
                their_end += edit.base.start - their_base + edit.new.len();
                their_base = edit.base.end;
                end = end.max(edit.base.end);
                theirs_changed = true;
            } else {
                break;
            }
        }
        our_end += end - our_base;
        their_end += end - their_base;
        let (our, their) = (&ours[our_at..our_end], &theirs[their_at..their_end]);
        if !theirs_changed || our == their {
            merged.text.extend(our.iter().copied());
        } else if !ours_changed {
            merged.text.extend(their.iter().copied());
        } else {
            merged.conflicts += 1;
            merged.text.push_str("<<<<<<< local\n");
            push_lines(&mut merged.text, our);
            merged.text.push_str("=======\n");
            push_lines(&mut merged.text, their);
            merged.text.push_str(&format!(">>>>>>> {name}\n"));
        }
        (at, our_at, their_at) = (end, our_end, their_end);
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
