//! Escapes text of files, names and directories for a terminal or a log of CI: a control character
//! repaints the screen, and a line of its own can be a command to the reader (`::error::` of GitHub
//! Actions). Output for programs is JSON, or a path as it is.

use std::path::Path;

use sandbox_names::invisible::is_invisible;

/// One line, in which everything is seen.
pub(crate) fn escape(text: &str) -> String {
    // The older form of workflow commands counts anywhere in a line.
    forge_tools::escape_controls(text).replace("##[", "#\\x23[")
}

/// A word as a shell takes it.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A text in which everything is seen, up to `max_chars` characters; an ellipsis says that there was more.
pub(crate) fn shortened(shown: String, max_chars: usize) -> String {
    match shown.char_indices().nth(max_chars) {
        None => shown,
        Some((end, _)) => format!("{}…", &shown[..end]),
    }
}

/// One line of a name of the file system, which need not be text.
pub(crate) fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// A text of several lines, which stay; tabs as well, since carets below them count on it.
pub(crate) fn escape_lines(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(escape).collect();
        cells.join("\t")
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

/// Escapes JSON for a terminal without a change of its meaning.
pub(crate) fn escape_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Control characters below these are written out by JSON, or stand between its parts.
        let hidden = c > '~' && (c.is_control() || is_invisible(c));
        match hidden {
            false => shown.push(c),
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden() {
        assert_eq!(
            escape("a\u{1b}[2J\n\u{ad}é\u{2800}\u{fe0f}"),
            "a\\x1b[2J\\n\\u{ad}é\\u{2800}\\u{fe0f}"
        );
        assert_eq!(escape("a ##[error]b # c"), "a #\\x23[error]b # c");
        assert_eq!(escape_lines("a\n\tb\r\u{7}"), "a\n\tb\\r\\x07");
        let text = "é語\u{7f}\u{9b}\u{202e}\u{e0041}\u{1b}\n";
        let json = serde_json::json!({"a": text}).to_string();
        let shown = escape_json(&json);
        assert!(shown.starts_with("{\"a\":\"é語\\u007f\\u009b\\u202e\\udb40\\udc41\\u001b\\n"));
        let meant: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(meant["a"], text);
    }
}
