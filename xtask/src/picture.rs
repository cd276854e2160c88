//! Draws the table that `examples/dep-audit` prints as an SVG picture. The entry points are
//! [`table`], which finds the table in the output, and [`svg`]. The same table gives the same bytes.
// Why: term-transcript draws terminals, and brings a template engine, an XML parser and a terminal
// emulator with it. This table needs text at given places, a title, and colours for light and dark.

use std::fmt::Write as _;

/// The first header cell of the table.
const FIRST_HEADER: &str = "attempt";
const SEPARATOR: char = '|';

const TITLE: &str = "What a hostile model tried, and what stopped it";

/// Sizes in pixels. A character of the usual monospace fonts is 0.6 em wide; each cell has its own
/// position, so columns are straight in any font.
const FONT_SIZE: usize = 13;
const TENTHS_PER_CHARACTER: usize = 79;
const LINE_HEIGHT: usize = 21;
const PADDING: usize = 18;
/// Characters between two columns.
const GAP: usize = 3;

const STYLE: &str = "\
.ground { fill: #f6f8fa; stroke: #d0d7de }
text { fill: #1f2328; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
.head { fill: #59636e }
.c1 { fill: #0a5c2b; font-weight: 600 }
.c2 { fill: #59636e }
@media (prefers-color-scheme: dark) {
.ground { fill: #151b23; stroke: #3d444d }
text { fill: #f0f6fc }
.head { fill: #9198a1 }
.c1 { fill: #57d177 }
.c2 { fill: #9198a1 }
}
";

/// Returns the rows of the table in `output`, the header first.
pub(crate) fn table(output: &str) -> Option<Vec<Vec<String>>> {
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split(SEPARATOR);
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows = output
        .lines()
        .map(cells)
        .skip_while(|row| row.len() < 2 || row[0] != FIRST_HEADER);
    let header = rows.next()?;
    let width = header.len();
    let mut table = vec![header];
    table.extend(rows.take_while(|row| row.len() == width));
    (table.len() > 1).then_some(table)
}

/// Draws the table. The first row is the header.
pub(crate) fn svg(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let mut starts = Vec::new();
    let mut end = 0;
    for column in 0..columns {
        let widths = table.iter().filter_map(|row| row.get(column));
        let width = widths.map(|cell| cell.chars().count()).max().unwrap_or(0);
        starts.push(end);
        end += width + GAP;
    }
    let pixels = |characters: usize| PADDING + characters * TENTHS_PER_CHARACTER / 10;
    let width = pixels(end.saturating_sub(GAP)) + PADDING;
    let height = table.len() * LINE_HEIGHT + 2 * PADDING;
    let rows: Vec<String> = table.iter().map(|row| row.join(": ")).collect();
    let description = escape(&rows[1..].join(". "));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{TITLE}</title>\n\
         <desc id=\"desc\">{description}.</desc>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <g font-size=\"{FONT_SIZE}\">\n",
        width - 1,
        height - 1,
    );
    for (line, row) in table.iter().enumerate() {
        let y = PADDING + line * LINE_HEIGHT + FONT_SIZE;
        for (column, cell) in row.iter().enumerate() {
            let class = match line {
                0 => "head".to_owned(),
                _ => format!("c{column}"),
            };
            let (x, cell) = (pixels(starts[column]), escape(cell));
            // Writing to a text cannot fail.
            let _ = writeln!(
                svg,
                "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{cell}</text>"
            );
        }
    }
    svg += "</g>\n</svg>\n";
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
# Dependency audit
a | b
attempt          | stopped by
read <secret>    | file sandbox
run a & b        | rule

The end | of it | all
";

    #[test]
    fn the_table_is_found_in_the_output() {
        let rows = table(OUTPUT).expect("a table");
        assert_eq!(
            rows,
            [
                ["attempt", "stopped by"],
                ["read <secret>", "file sandbox"],
                ["run a & b", "rule"],
            ]
        );
        assert_eq!(table("attempt | stopped by\n"), None);
        assert_eq!(table("no table\n"), None);
    }

    #[test]
    fn a_picture_has_each_cell_at_its_place_and_a_description() {
        let picture = svg(&table(OUTPUT).expect("a table"));
        let second = PADDING + (13 + GAP) * TENTHS_PER_CHARACTER / 10;
        for part in [
            format!("<title id=\"title\">{TITLE}</title>"),
            "read &lt;secret&gt;: file sandbox. run a &amp; b: rule.</desc>".to_owned(),
            format!("<text class=\"head\" x=\"{PADDING}\" y=\"31\">attempt</text>"),
            format!("<text class=\"c1\" x=\"{second}\" y=\"52\">file sandbox</text>"),
            format!("<text class=\"c0\" x=\"{PADDING}\" y=\"73\">run a &amp; b</text>"),
        ] {
            assert!(picture.contains(&part), "{part}\n{picture}");
        }
        assert!(!picture.contains("<secret>"), "{picture}");
    }
}
