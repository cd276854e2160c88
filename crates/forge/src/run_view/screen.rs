//! The last rows of the terminal, and the output that changes them.

use super::lines::ScreenRow;

/// The rows that are drawn anew, as they are on the screen. The cursor is in the last of them.
#[derive(Debug, Default)]
pub(super) struct Screen {
    drawn: Vec<ScreenRow>,
    width: usize,
}

impl Screen {
    /// Returns the output after which `above` scrolls by and `rows` are below it. `width` is that
    /// of the terminal, less one; with `elsewhere` the cursor is in a foreign line.
    pub(super) fn draw(
        &mut self,
        above: &[ScreenRow],
        rows: Vec<ScreenRow>,
        width: usize,
        elsewhere: bool,
    ) -> String {
        let mut text = String::new();
        if elsewhere && self.drawn.is_empty() {
            text.push_str("\r\n");
        }
        let same_size = self.width == width && self.drawn.len() == rows.len();
        if above.is_empty() && same_size {
            self.change(&rows, &mut text);
        } else {
            self.erase(width, &mut text);
            for row in above {
                text.push_str(&row.text);
                text.push_str("\r\n");
            }
            let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
            text.push_str(&texts.join("\r\n"));
        }
        self.drawn = rows;
        self.width = width;
        text
    }

    /// Takes everything off. A terminal that has become narrower has broken the rows that do not
    /// fit any more.
    fn erase(&self, width: usize, text: &mut String) {
        let columns = width.saturating_add(1);
        let rows: usize = self
            .drawn
            .iter()
            .map(|row| row.cells.max(1).div_ceil(columns))
            .sum();
        let Some(up) = rows.checked_sub(1) else {
            return;
        };
        text.push('\r');
        if up > 0 {
            text.push_str(&format!("\u{1b}[{up}A"));
        }
        text.push_str("\u{1b}[J");
    }

    /// Writes the rows that are others now.
    fn change(&self, rows: &[ScreenRow], text: &mut String) {
        let last = rows.len().saturating_sub(1);
        // The row of the cursor, counted from the last row upwards.
        let mut at = 0;
        for (index, (row, before)) in rows.iter().zip(&self.drawn).enumerate() {
            if row == before {
                continue;
            }
            let up = last - index;
            text.push('\r');
            if up > at {
                text.push_str(&format!("\u{1b}[{}A", up - at));
            } else if at > up {
                text.push_str(&format!("\u{1b}[{}B", at - up));
            }
            text.push_str(&row.text);
            text.push_str("\u{1b}[K");
            at = up;
        }
        if at > 0 {
            text.push_str(&format!("\r\u{1b}[{at}B"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    fn rows(texts: &[String]) -> Vec<ScreenRow> {
        let row = |text: &String| ScreenRow {
            text: text.clone(),
            cells: text.len(),
        };
        texts.iter().map(row).collect()
    }

    proptest! {
        /// However it came about: what scrolled by, and below it what was drawn last.
        #[test]
        fn the_screen_is_what_was_drawn_last(
            frames in prop::collection::vec((
                prop::collection::vec("[a-c]{1,19}", 0..3),
                prop::collection::vec("[x-z]{1,19}", 0..5),
            ), 1..8),
        ) {
            let some = |number| NonZeroU16::new(number).unwrap();
            let mut terminal = vt100::Parser::new(some(40), some(20), 0);
            let mut screen = Screen::default();
            let mut expected = Vec::new();
            for (above, below) in &frames {
                let text = screen.draw(&rows(above), rows(below), 19, false);
                terminal.process(text.as_bytes());
                expected.extend(above.iter().cloned());
            }
            expected.extend(frames.last().unwrap().1.iter().cloned());
            let seen = terminal.screen().contents();
            prop_assert_eq!(seen.trim_end(), expected.join("\n"));
        }
    }

    /// A terminal that becomes narrower breaks what stands on it.
    #[test]
    fn rows_that_were_broken_are_erased_whole() {
        let drawn = rows(&["x".repeat(70), "x".repeat(10), "x".repeat(81)]);
        for (columns, up) in [(100, 2), (81, 2), (80, 3), (40, 5), (20, 9)] {
            let mut screen = Screen::default();
            screen.draw(&[], drawn.clone(), 100, false);
            let text = screen.draw(&[], Vec::new(), columns - 1, false);
            assert_eq!(text, format!("\r\u{1b}[{up}A\u{1b}[J"), "{columns}");
        }
    }

    /// Behind a question that nobody answered.
    #[test]
    fn a_line_of_somebody_else_is_ended() {
        let text = Screen::default().draw(&rows(&["a".to_owned()]), Vec::new(), 79, true);
        assert_eq!(text, "\r\na\r\n");
    }
}
