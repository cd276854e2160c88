//! Names and texts that a command chose, escaped for people: on a terminal a control character, or
//! one that changes the direction of writing, makes a line say something else.

use sandbox_names::invisible::is_invisible;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};

/// Bound on a text; a path is at most 4096 bytes long.
const MAX_CHARS: usize = 5000;

/// Returns the text with all invisible characters escaped.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(MAX_CHARS) {
        // Writing to a String cannot fail.
        let _ = match c {
            _ if c.is_control() || is_invisible(c) => write!(out, "{}", c.escape_default()),
            _ => out.write_char(c),
        };
    }
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push_str("...");
    }
    out
}

/// A name of the file system, which may not be text, displayed with the same escapes.
#[derive(Debug)]
pub struct Visible<'a>(pub &'a OsStr);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.0.to_string_lossy()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        for (text, want) in [
            ("/work/a b/\u{e9}", "/work/a b/\u{e9}"),
            ("a\u{1b}[2K\rb\n", "a\\u{1b}[2K\\rb\\n"),
            ("a\u{202e}b\u{feff}", "a\\u{202e}b\\u{feff}"),
            ("a\u{3164}b\u{fe0f}", "a\\u{3164}b\\u{fe0f}"),
        ] {
            assert_eq!(visible(text), want);
        }
        assert_eq!(visible(&"x".repeat(MAX_CHARS + 1)).len(), MAX_CHARS + 3);
    }
}
