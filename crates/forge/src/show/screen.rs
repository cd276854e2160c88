//! What is on the terminal's last rows, and what has to be written so that something else is.

use super::lines::Row;

/// The rows that are drawn anew, as they are on the screen. The cursor is in the last of them.
#[derive(Debug, Default)]
pub(super) struct Screen {
    drawn: Vec<Row>,
    width: usize,
}

impl Screen {
    /// What to write so that `above` scrolls by and `rows` stand below it. `width` is that of the
    /// terminal, less one; `elsewhere` says that the cursor is in a line of somebody else.
    pub(super) fn draw(
        &mut self,
        above: &[Row],
        rows: Vec<Row>,
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
    fn change(&self, rows: &[Row], text: &mut String) {
        let last = rows.len().saturating_sub(1);
        // Where the cursor is, counted from the last row upwards.
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
