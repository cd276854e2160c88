//! Texts with uniform line endings, and the endings for new lines.

use std::borrow::Cow;
use std::ops::Range;

/// A text with all line endings as `\n`, and the source position of each byte.
pub(crate) struct NormalizedText<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Positions in `text` of a `\n` that replaces `\r\n`, in order.
    pairs: Vec<usize>,
}

impl<'t> NormalizedText<'t> {
    pub(crate) fn of(source: &'t str) -> Self {
        let mut pairs = Vec::new();
        if !source.contains("\r\n") {
            let text = Cow::Borrowed(source);
            return Self { text, pairs };
        }
        let mut text = String::with_capacity(source.len());
        let mut rest = source;
        while let Some(at) = rest.find("\r\n") {
            text.push_str(&rest[..at]);
            pairs.push(text.len());
            text.push('\n');
            rest = &rest[at + 2..];
        }
        text.push_str(rest);
        let text = Cow::Owned(text);
        Self { text, pairs }
    }

    /// The range in the source.
    pub(crate) fn back(&self, range: &Range<usize>) -> Range<usize> {
        // Every pair before a position moved it by one.
        let shift = |at: usize| at + self.pairs.partition_point(|pair| *pair < at);
        shift(range.start)..shift(range.end)
    }

    /// Returns the ending for a new line: that of the line before, or of the first one.
    pub(crate) fn ending_at(&self, at: usize) -> &'static str {
        let before = self.text[..at].rfind('\n');
        let near = before.or_else(|| self.text.find('\n'));
        match near {
            Some(newline) if self.pairs.binary_search(&newline).is_ok() => "\r\n",
            _ => "\n",
        }
    }
}

/// Returns a text to append to `before`, with the line endings of `before`.
pub(crate) fn with_endings(before: &str, text: &str) -> String {
    let view = NormalizedText::of(before);
    if !view.text.contains('\n') {
        return text.to_owned();
    }
    let plain = NormalizedText::of(text).text;
    match view.ending_at(view.text.len()) {
        "\n" => plain.into_owned(),
        ending => plain.replace('\n', ending),
    }
}
