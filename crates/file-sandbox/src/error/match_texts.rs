//! Texts of edit errors: the nearest match of a missing text, or several matches.

use std::fmt;

use crate::hash::ContentHash;
use crate::text::escape;

/// A text that is not in the file.
#[derive(Debug)]
pub(crate) struct NoMatch {
    /// Which of several replacements, from 1.
    pub(crate) which: Option<usize>,
    /// The nearest region, and its first difference.
    pub(crate) nearest: Option<(MatchExcerpt, Difference)>,
    /// Of the file as it is.
    pub(crate) hash: ContentHash,
}

/// Lines of a file.
#[derive(Debug)]
pub(crate) struct MatchExcerpt {
    /// From 1.
    pub(crate) line: usize,
    /// The text there, with a line around it.
    pub(crate) text: String,
    /// The line in which that begins.
    pub(crate) first: usize,
}

/// The first character that is not as it was given.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// `None`: a line ends there, or the text.
    pub(crate) found: Option<char>,
    pub(crate) given: Option<char>,
}

impl NoMatch {
    pub(super) fn hint(&self) -> String {
        let hash = format!("The file's hash is {}.", self.hash);
        match &self.nearest {
            None => format!("Nothing in the file comes near it.\n{hash}"),
            Some((place, difference)) => format!(
                "The nearest text:\n{}\n{difference}\n{hash}",
                place.numbered()
            ),
        }
    }
}

impl MatchExcerpt {
    fn numbered(&self) -> String {
        let text = clamp(&self.text);
        let lines = text.split('\n').enumerate();
        let lines = lines.map(|(i, line)| format!("{}: {line}", self.first + i));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "First difference in line {}, column {}: the file has {}, the text given has {}.",
            self.line,
            self.column,
            name(self.found),
            name(self.given)
        )
    }
}

pub(super) fn excerpts_hint(places: &[MatchExcerpt], total: usize) -> String {
    let mut hint = String::new();
    for place in places {
        if !hint.is_empty() {
            hint.push('\n');
        }
        hint.push_str(&format!("In line {}:\n{}", place.line, place.numbered()));
    }
    if places.len() < total {
        hint.push_str(&format!("\n({} more)", total - places.len()));
    }
    hint.push_str("\nGive more of the text around it.");
    hint
}

/// The subject of a sentence.
pub(super) fn the_text(which: Option<usize>) -> String {
    match which {
        None => "text".to_owned(),
        Some(n) => format!("text of replacement {n}"),
    }
}

const MAX_CHARS: usize = 600;

/// A minified line is not worth showing whole.
fn clamp(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Characters that look like others are called by name.
fn name(c: Option<char>) -> String {
    let Some(c) = c else {
        return "the end of a line".to_owned();
    };
    let name = match c {
        ' ' => "a space",
        '\t' => "a tab",
        '\r' => "a carriage return",
        '\u{a0}' => "a no-break space (U+00A0)",
        '\u{202f}' => "a narrow no-break space (U+202F)",
        '\u{3000}' => "an ideographic space (U+3000)",
        '\u{200b}' => "a zero-width space (U+200B)",
        '\u{feff}' => "a byte order mark (U+FEFF)",
        '\u{2018}' => "a left quotation mark ‘ (U+2018)",
        '\u{2019}' => "a right quotation mark ’ (U+2019)",
        '\u{201c}' => "a left double quotation mark “ (U+201C)",
        '\u{201d}' => "a right double quotation mark ” (U+201D)",
        '\u{2013}' => "an en dash – (U+2013)",
        '\u{2014}' => "an em dash — (U+2014)",
        c if c.is_ascii_graphic() => return format!("'{c}'"),
        c => {
            let shown = c.to_string();
            return format!("'{}' (U+{:04X})", escape::for_display(&shown), u32::from(c));
        }
    };
    name.to_owned()
}
