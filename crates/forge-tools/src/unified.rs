//! Unified diffs as people are shown them before they agree: one row for each line, and a line ends
//! only at a newline. A carriage return alone does not end a row. Otherwise the text after it would
//! appear in the row of an unchanged line.

use std::time::Instant;

use similar::TextDiff;

/// Returns the hunks that turn `old` into `new`, three lines around each; empty if they are equal.
/// Past `until` the result is still right, and only less short.
///
/// ```
/// assert_eq!(forge_tools::diff_hunks("a\n", "b\n", None), "@@ -1 +1 @@\n-a\n+b\n");
/// ```
pub fn diff_hunks(old: &str, new: &str, until: Option<Instant>) -> String {
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (old, new) = (lines(old), lines(new));
    let mut diff = TextDiff::configure();
    if let Some(until) = until {
        diff.deadline(until);
    }
    let diff = diff.diff_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        text.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            text.push_str(&format!("{}{}", change.tag(), change.value()));
            if !change.value().ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_differences() {
        for (old, new, diff) in [
            ("a\n", "a\n", ""),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
            (
                "a",
                "b",
                "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
            ),
            // Not ` x`, and all that follows in the row of a line that has not changed.
            (
                "x\ra\rq\n",
                "x\rb\rq\n",
                "@@ -1 +1 @@\n-x\ra\rq\n+x\rb\rq\n",
            ),
            (
                "x\r",
                "y\r",
                "@@ -1 +1 @@\n-x\r\n\\ No newline at end of file\n+y\r\n\\ No newline at end of file\n",
            ),
        ] {
            assert_eq!(diff_hunks(old, new, None), diff, "{old:?} {new:?}");
        }
    }

    /// `old` with a diff applied to it.
    fn applied(old: &str, diff: &str) -> String {
        let mut rest: Vec<&str> = old.split_inclusive('\n').rev().collect();
        let (mut new, mut at) = (String::new(), 0);
        let mut rows = diff.split_inclusive('\n').peekable();
        while let Some(row) = rows.next() {
            let bare = rows.next_if(|next| next.starts_with('\\')).is_some();
            let line = match bare {
                true => row.strip_suffix('\n').unwrap(),
                false => row,
            };
            if let Some(header) = row.strip_prefix("@@ -") {
                let (first, _) = header.split_once(' ').unwrap();
                let (first, count) = first.split_once(',').unwrap_or((first, "1"));
                let first: usize = first.parse().unwrap();
                // Of no lines, it is the one before.
                let first = if count == "0" { first } else { first - 1 };
                while at < first {
                    new.push_str(rest.pop().unwrap());
                    at += 1;
                }
                continue;
            }
            let (sign, text) = line.split_at(1);
            if sign != "+" {
                assert_eq!(rest.pop(), Some(text));
                at += 1;
            }
            if sign != "-" {
                new.push_str(text);
            }
        }
        new.extend(rest.into_iter().rev());
        new
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_comes_of_it(old in "[ab\r\n+-]{0,12}", new in "[ab\r\n+-]{0,12}") {
            prop_assert_eq!(applied(&old, &diff_hunks(&old, &new, None)), new);
        }

        #[test]
        fn also_when_there_was_no_time(old in "[ab\n]{0,300}", new in "[ab\n]{0,300}") {
            let now = Some(Instant::now());
            prop_assert_eq!(applied(&old, &diff_hunks(&old, &new, now)), new);
        }
    }
}
