//! Tables for people: columns as wide as their widest cell, the last one free.

use std::fmt;

/// A table with a header. Cells beyond the header's columns are not shown.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<C: Into<String>>(header: impl IntoIterator<Item = C>) -> Self {
        Table {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.header.len();
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                lines()
                    .filter_map(|line| line.get(at))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for line in lines() {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                text.push_str(&format!("{cell:width$}  "));
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(["step", "result", "why"]);
        table.row(["fmt".into(), "ok".into(), String::new()]);
        table.row(["a longer name".into(), "skipped".into(), "no root".into()]);
        let expected = "\
step           result   why
fmt            ok
a longer name  skipped  no root
";
        assert_eq!(table.to_string(), expected);
    }
}
