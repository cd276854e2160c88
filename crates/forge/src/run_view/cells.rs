//! Texts as rows of a terminal. Nothing that comes out moves the cursor or changes a mode, and
//! every row has a width that is known.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::escape::escape;

/// Escapes one line of foreign text so that every character is visible. Harmless characters (a tab,
/// a non-breaking space, the selector after an emoji) are shown as plainly as a grid of cells
/// allows.
pub(super) fn clean(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' | '\u{3000}' => plain.push_str("  "),
            '\u{a0}' | '\u{202f}' => plain.push(' '),
            '\u{fe0e}' | '\u{fe0f}' => {}
            c => plain.push(c),
        }
    }
    escape(&plain)
}

/// Returns the number of cells of a cleaned text.
pub(super) fn cells(text: &str) -> usize {
    text.width()
}

/// Cleaned text in rows of at most `width` cells, broken at spaces where there are any.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    // Nothing is wider than two cells, so every row takes something.
    let width = width.max(2);
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width {
            let rest = match row.rfind(' ') {
                // A word that fills more than half a row is broken where the row ends.
                Some(space) if cells(&row[space + 1..]) * 2 < width && c != ' ' => {
                    let rest = row.split_off(space + 1);
                    row.pop();
                    rest
                }
                Some(_) | None => String::new(),
            };
            used = cells(&rest);
            rows.push(std::mem::replace(&mut row, rest));
            if c == ' ' && row.is_empty() {
                continue;
            }
        }
        row.push(c);
        used += wide;
    }
    rows.push(row);
    rows
}

/// Cleaned text in one row of at most `width` cells.
pub(super) fn fit(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    let mut row = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        row.push(c);
    }
    if width > 0 {
        row.push('…');
    }
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_fit_and_lose_nothing_but_spaces(text in r"(\PC|[ a-z]|日|👍|\p{Mn}){0,80}", width in 2usize..40) {
            let text = clean(&text);
            let rows = wrap(&text, width);
            for row in &rows {
                prop_assert!(cells(row) <= width, "{row:?} in {width}");
            }
            let without = |text: &str| text.replace(' ', "");
            prop_assert_eq!(without(&rows.concat()), without(&text));
            prop_assert!(cells(&fit(&text, width)) <= width);
        }

        #[test]
        fn nothing_stays_that_moves_the_cursor(text in r"(\p{Cc}|\p{Cf}|\PC){0,40}") {
            prop_assert!(!clean(&text).chars().any(char::is_control));
        }
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        for (text, width, rows) in [
            ("", 5, vec![""]),
            ("one two three", 8, vec!["one two", "three"]),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("日本語日本語", 5, vec!["日本", "語日", "本語"]),
            ("a 日本語日本語", 8, vec!["a 日本語", "日本語"]),
        ] {
            assert_eq!(wrap(text, width), rows);
        }
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(clean("a\tb\u{1b}[2J⚠\u{fe0f}"), "a  b\\x1b[2J⚠");
    }
}
