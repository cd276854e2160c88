//! Lines of the view as rows: indentation and, where workers alternate, a name show the worker; a
//! mark shows the kind, so that no model's text can look like a line of forge.

use super::cells::{cells, clean, fit, wrap};
use super::run::{LineKind, ViewLine};
use super::words::MAX_LINE_CHARS;
use crate::output::describe::Tone;

/// Deeper workers are not indented any more.
const MAX_INDENTED: usize = 8;
/// Most lines of one text; the transcript has all of it.
const MAX_TEXT_LINES: usize = 5_000;

/// One row, and how many cells it takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ScreenRow {
    pub(super) text: String,
    pub(super) cells: usize,
}

/// Colours, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) colour: bool,
}

impl Style {
    /// Cleaned text in a colour.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        match self.colour {
            true => tone.paint(text),
            false => text.to_owned(),
        }
    }

    /// A row of these parts, each in its colour, cut to `width` cells.
    pub(super) fn row(self, width: usize, parts: &[(Tone, &str)]) -> ScreenRow {
        let mut row = ScreenRow::default();
        for (paint, text) in parts {
            let text = fit(text, width.saturating_sub(row.cells));
            row.cells += cells(&text);
            if !text.is_empty() {
                row.text.push_str(&self.paint(*paint, &text));
            }
        }
        row
    }
}

/// Returns the indentation of the worker at the end of `runs`.
pub(super) fn indent(runs: &[u64]) -> String {
    "  ".repeat(runs.len().saturating_sub(1).min(MAX_INDENTED))
}

/// Puts lines one below the other.
#[derive(Debug)]
pub(super) struct LineLayout {
    style: Style,
    /// The worker of the last line.
    last: Vec<u64>,
}

impl LineLayout {
    pub(super) fn new(style: Style) -> Self {
        LineLayout {
            style,
            last: Vec::new(),
        }
    }

    /// In rows of at most `width` cells, everything whole.
    pub(super) fn rows(&mut self, line: &ViewLine, width: usize) -> Vec<ScreenRow> {
        let mut rows = Vec::new();
        for part in self.parts(line) {
            let lead = cells(&part.lead);
            for (index, text) in wrap(&part.text, width.saturating_sub(lead))
                .into_iter()
                .enumerate()
            {
                let lead = match (index, part.repeats) {
                    (0, _) | (_, true) if text.is_empty() => part.lead.trim_end().to_owned(),
                    (0, _) | (_, true) => part.lead.clone(),
                    (_, false) => " ".repeat(lead),
                };
                let parts = [(part.lead_paint, lead.as_str()), (part.paint, &text)];
                rows.push(self.style.row(width.max(1), &parts));
            }
        }
        rows
    }

    /// Returns lines for a file: of a text its first line, or with `whole` all of it.
    pub(super) fn plain(&mut self, line: &ViewLine, whole: bool) -> Vec<String> {
        let parts = self.parts(line);
        let is_text = matches!(line.said, LineKind::Text(_) | LineKind::Thought(_));
        let first = match whole || !is_text {
            true => parts.len(),
            // A name may stand before it.
            false => parts
                .iter()
                .position(|part| part.repeats && !part.text.trim().is_empty())
                .map_or(0, |index| index + 1),
        };
        parts
            .into_iter()
            .take(first)
            .filter(|part| whole || !part.repeats || !part.text.trim().is_empty())
            .map(|part| {
                let text = match whole {
                    true => part.text,
                    false => fit(&part.text, MAX_LINE_CHARS + 1),
                };
                let lead = self.style.paint(part.lead_paint, &part.lead);
                format!("{lead}{}", self.style.paint(part.paint, &text))
            })
            .collect()
    }

    fn parts(&mut self, line: &ViewLine) -> Vec<LinePart> {
        let at = indent(&line.runs);
        let mut parts = Vec::new();
        let begins = matches!(line.said, LineKind::Worker(_));
        if !begins && !line.runs.is_empty() && !self.last.starts_with(&line.runs) {
            parts.push(worker(&at, &line.label, ""));
        }
        if !line.runs.is_empty() {
            self.last.clone_from(&line.runs);
        }
        let one = |mark: &str, lead_paint, paint, text: &str| LinePart {
            lead: format!("{at}  {mark}"),
            lead_paint,
            text: text.to_owned(),
            paint,
            repeats: false,
        };
        match &line.said {
            LineKind::Worker(note) => parts.push(worker(&at, &line.label, note)),
            LineKind::Text(text) => parts.extend(quoted(&at, text, "│ ", Tone::Plain)),
            LineKind::Thought(text) => parts.extend(quoted(&at, text, "┆ ", Tone::Dim)),
            LineKind::Call(text) => parts.push(one("→ ", Tone::Dim, Tone::Dim, text)),
            LineKind::Done(text) => parts.push(one("✓ ", Tone::Good, Tone::Plain, text)),
            LineKind::Failed(text) => parts.push(one("✗ ", Tone::Bad, Tone::Plain, text)),
            LineKind::Warning(text) if line.runs.is_empty() => parts.push(LinePart {
                lead: "warning: ".to_owned(),
                ..one("", Tone::Doubtful, Tone::Plain, text)
            }),
            LineKind::Warning(text) => parts.push(one("! ", Tone::Doubtful, Tone::Plain, text)),
            LineKind::Ended(text) => parts.push(one("", Tone::Plain, Tone::Bad, text)),
            LineKind::Note(text) => parts.push(one("· ", Tone::Dim, Tone::Dim, text)),
            LineKind::Other(text) => parts.push(LinePart {
                lead: String::new(),
                ..one("", Tone::Plain, Tone::Plain, text)
            }),
        }
        parts
    }
}

/// One line, before it is known how wide it may be.
struct LinePart {
    lead: String,
    lead_paint: Tone,
    text: String,
    paint: Tone,
    /// `true` if each row begins with the lead; otherwise the rows begin below its end.
    repeats: bool,
}

fn worker(at: &str, label: &str, note: &str) -> LinePart {
    let note = match note {
        "" => String::new(),
        note => format!("  ({note})"),
    };
    LinePart {
        lead: format!("{at}▸ "),
        lead_paint: Tone::Bold,
        text: format!("{label}{note}"),
        paint: Tone::Bold,
        repeats: false,
    }
}

fn quoted(at: &str, text: &str, mark: &str, paint: Tone) -> Vec<LinePart> {
    let part = |text: String| LinePart {
        lead: format!("{at}  {mark}"),
        lead_paint: Tone::Dim,
        text,
        paint,
        repeats: true,
    };
    let all = text.trim_end().lines();
    let mut parts: Vec<LinePart> = all
        .clone()
        .take(MAX_TEXT_LINES)
        .map(|line| part(clean(line)))
        .collect();
    if let Some(more) = all
        .count()
        .checked_sub(MAX_TEXT_LINES)
        .filter(|more| *more > 0)
    {
        parts.push(part(format!("… {more} more lines")));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(runs: &[u64], label: &str, said: LineKind) -> ViewLine {
        ViewLine {
            runs: runs.to_vec(),
            label: label.to_owned(),
            said,
        }
    }

    fn shown(lines: &[ViewLine], width: usize) -> String {
        let mut all = LineLayout::new(Style { colour: false });
        let rows = lines.iter().flat_map(|line| all.rows(line, width));
        rows.map(|row| {
            assert!(
                row.cells <= width && row.cells == cells(&row.text),
                "{row:?}"
            );
            row.text + "\n"
        })
        .collect()
    }

    #[test]
    fn whose_a_line_is_can_be_seen() {
        let lines = [
            line(&[1], "main", LineKind::Worker("")),
            line(
                &[1],
                "main",
                LineKind::Text("I ask two workers.\n\n✓ not a result".into()),
            ),
            line(&[1, 2], "reader", LineKind::Worker("")),
            line(&[1, 3], "reader #2", LineKind::Worker("")),
            line(
                &[1, 2],
                "reader",
                LineKind::Done("read_file /a: 12 lines".into()),
            ),
            line(
                &[1, 2],
                "reader",
                LineKind::Failed("read_file /b: no such file".into()),
            ),
            line(&[1], "main", LineKind::Done("reader: well".into())),
            line(
                &[1, 3],
                "reader #2",
                LineKind::Warning("busy, again in 3 s".into()),
            ),
            line(&[], "", LineKind::Warning("for everybody".into())),
            line(
                &[1, 3],
                "reader #2",
                LineKind::Ended("reader #2 ended: badly".into()),
            ),
        ];
        insta::assert_snapshot!(shown(&lines, 24), @r#"
        ▸ main
          │ I ask two workers.
          │
          │ ✓ not a result
          ▸ reader
          ▸ reader #2
          ▸ reader
            ✓ read_file /a: 12
              lines
            ✗ read_file /b: no
              such file
          ✓ reader: well
          ▸ reader #2
            ! busy, again in 3 s
        warning: for everybody
            reader #2 ended:
            badly
        "#);
    }

    #[test]
    fn a_file_gets_the_first_line_of_a_text() {
        let mut all = LineLayout::new(Style { colour: true });
        let text = line(&[1], "main", LineKind::Text("\n one\u{1b}[2J\ntwo".into()));
        assert_eq!(
            all.plain(&text, false),
            [
                "\u{1b}[1m▸ \u{1b}[0m\u{1b}[1mmain\u{1b}[0m",
                "\u{1b}[2m  │ \u{1b}[0m one\\x1b[2J"
            ]
        );
        assert_eq!(all.plain(&text, true).len(), 3);
    }
}
