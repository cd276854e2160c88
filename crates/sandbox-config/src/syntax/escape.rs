//! Text of a file as a terminal may show it: nothing that draws, nothing that hides, nothing
//! without end, and the caret under the character that is meant.

use unicode_width::UnicodeWidthChar;

use crate::syntax::text::Span;

/// Returns `true` if a reader cannot see the character, or sees others moved by it: controls,
/// direction marks, joiners, fillers, variation selectors, tags.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control() || sandbox_names::invisible::is_invisible(c)
}

/// Hidden characters written out, so that a file cannot draw on the reader's terminal.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A string as YAML reads it back: in quotes unless it can be nothing else.
pub(crate) fn yaml_text(text: &str) -> String {
    const WORDS: [&str; 11] = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".nan", ".inf",
    ];
    let first = text.strip_prefix('.').unwrap_or(text);
    let simple = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && first.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !WORDS.contains(&text.to_lowercase().as_str());
    if simple {
        text.to_owned()
    } else {
        yaml_quoted(text)
    }
}

pub(crate) fn yaml_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if is_hidden(c) => {
                out.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Shortens quoted text of a file to a readable length.
pub(crate) fn shorten(text: String) -> String {
    const ALL: usize = 2_000;
    const QUOTED: usize = 120;
    if text.len() <= QUOTED {
        return text;
    }
    let parts: Vec<String> = text
        .split('`')
        .enumerate()
        .map(|(at, part)| match at % 2 {
            0 => part.to_owned(),
            _ => cut(part, QUOTED),
        })
        .collect();
    cut(&parts.join("`"), ALL)
}

/// Returns the beginning and the end of a long text.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().take(most + 1).count();
    if count <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most * 3 / 4).collect();
    let mut tail: Vec<char> = text.chars().rev().take(most / 4).collect();
    tail.reverse();
    format!("{head}…{}", String::from_iter(tail))
}

/// The part of a line around a caret.
pub(crate) struct CaretExcerpt {
    pub(crate) line: String,
    /// Columns of the terminal before the caret, and under it.
    pub(crate) before: usize,
    pub(crate) carets: usize,
}

/// Instead of a line that may hold a secret.
pub(crate) fn hidden() -> CaretExcerpt {
    let line = "(not shown: a key may stand here)".to_owned();
    CaretExcerpt {
        carets: line.len(),
        before: 0,
        line,
    }
}

pub(crate) fn window(span: &Span) -> CaretExcerpt {
    const BEFORE: usize = 80;
    const TOTAL: usize = 160;
    const CARETS: usize = 60;
    let first = span.column.saturating_sub(1) as usize;
    let last = first.saturating_add(span.width as usize);
    let start = first.saturating_sub(BEFORE);
    let mut window = CaretExcerpt {
        line: String::new(),
        before: 0,
        carets: 0,
    };
    let line = span.text.line(span.line);
    for (at, c) in line.chars().enumerate().skip(start).take(TOTAL) {
        // A tab would be as wide as the terminal likes.
        let c = if c == '\t' { ' ' } else { c };
        let columns = if is_hidden(c) {
            let escape = c.escape_default();
            window.line.extend(escape.clone());
            escape.len()
        } else {
            window.line.push(c);
            c.width().unwrap_or(0)
        };
        if at < first {
            window.before += columns;
        } else if at < last {
            window.carets += columns;
        }
    }
    // A place behind the line's last character.
    let behind = first.saturating_sub(start + line.chars().skip(start).take(TOTAL).count());
    window.before += behind;
    window.carets = window.carets.clamp(1, CARETS);
    window.line.truncate(window.line.trim_end().len());
    window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::text::{Layer, SourceText};

    #[test]
    fn a_message_cannot_draw_on_the_terminal() {
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(visible("m\u{200b}ode"), "m\\u{200b}ode");
        assert_eq!(visible("größe 数据"), "größe 数据");
    }

    #[test]
    fn what_is_quoted_ends() {
        let long = format!("unknown key `{}` here", "k".repeat(10_000));
        let short = shorten(long);
        assert!(short.chars().count() < 160, "{short}");
        assert!(short.starts_with("unknown key `kkk") && short.ends_with("kkk` here"));
        assert_eq!(shorten("a".repeat(50_000)).chars().count(), 2_001);
    }

    fn carets(line: &str, column: u32, width: u32) -> String {
        let text = SourceText::inline("t".into(), Layer::Project, line.into());
        let shown = window(&Span {
            text,
            line: 1,
            column,
            width,
        });
        format!(
            "{}\n{}{}",
            shown.line,
            " ".repeat(shown.before),
            "^".repeat(shown.carets)
        )
    }

    #[test]
    fn a_caret_stands_under_what_is_meant() {
        for (line, column, width, expected) in [
            ("a: bc", 4, 2, "a: bc\n   ^^"),
            ("\tbc", 2, 2, " bc\n ^^"),
            ("数据: x", 5, 1, "数据: x\n      ^"),
            ("数据: x", 1, 2, "数据: x\n^^^^"),
            ("e\u{301}: x", 5, 1, "e\u{301}: x\n   ^"),
            ("\u{202e}a: x", 2, 1, "\\u{202e}a: x\n        ^"),
            ("ab", 3, 1, "ab\n  ^"),
            ("a: x\r", 4, 1, "a: x\n   ^"),
            ("", 1, 1, "\n^"),
        ] {
            assert_eq!(carets(line, column, width), expected, "{line:?}");
        }
    }
}
