//! What comes from files, names and directories, on its way to a terminal or a log of CI: a
//! control character repaints the screen, and a line of its own can be a command to who reads
//! it (`::error::` of GitHub Actions). What is for programs is JSON, or a path as it is.

use std::path::Path;

/// One line, in which everything is seen.
pub(crate) fn visible(text: &str) -> String {
    // The older form of workflow commands counts anywhere in a line.
    forge_tools::escape_controls(text).replace("##[", "#\\x23[")
}

/// The same for a name of the file system, which need not be text.
pub(crate) fn visible_path(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

/// A text of several lines, which stay; tabs as well, since carets below them count on it.
pub(crate) fn visible_lines(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(visible).collect();
        cells.join("\t")
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden() {
        assert_eq!(
            visible("a\u{1b}[2J\n\u{ad}é\u{2800}\u{fe0f}"),
            "a\\x1b[2J\\n\\u{ad}é\\u{2800}\\u{fe0f}"
        );
        assert_eq!(visible("a ##[error]b # c"), "a #\\x23[error]b # c");
        assert_eq!(visible_lines("a\n\tb\r\u{7}"), "a\n\tb\\r\\x07");
    }
}
