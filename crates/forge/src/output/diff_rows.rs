//! Colours of the rows of a difference. Invisible characters are escaped: such text is for reading,
//! and the JSON has the exact one.

use crate::output::describe::in_colour;
use crate::output::escape::escape_lines;

/// The kind of a row, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffRow {
    /// A row before the hunks: names of files.
    Heading,
    /// The position of a hunk.
    Hunk,
    Added,
    Removed,
    Context,
}

impl DiffRow {
    /// Returns the kind of a row behind the headings.
    pub(crate) fn of(row: &str) -> DiffRow {
        match row.as_bytes().first() {
            Some(b'+') => DiffRow::Added,
            Some(b'-') => DiffRow::Removed,
            Some(b'@') => DiffRow::Hunk,
            Some(_) | None => DiffRow::Context,
        }
    }

    /// Returns the row with its line end, and in its colour if `colour`.
    pub(crate) fn paint(self, row: &str, colour: bool) -> String {
        let row = escape_lines(row);
        let number = match self {
            DiffRow::Heading => 1,
            DiffRow::Removed => 31,
            DiffRow::Added => 32,
            DiffRow::Hunk => 36,
            DiffRow::Context => return format!("{row}\n"),
        };
        match colour {
            true => in_colour(number, &row) + "\n",
            false => row + "\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_cannot_colour_itself() {
        let painted = |row: &str, colour| DiffRow::of(row).paint(row, colour);
        assert_eq!(painted("+a", true), "\u{1b}[32m+a\u{1b}[0m\n");
        assert_eq!(painted("+a", false), "+a\n");
        assert_eq!(painted(" a", true), " a\n");
        assert!(!painted("-\u{1b}[2J", false).contains('\u{1b}'));
    }
}
