//! Texts of others, cut where a person has seen enough of them.

/// `text` up to `max_chars` characters; an ellipsis says that there was more.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
