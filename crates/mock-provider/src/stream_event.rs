//! Events of a stream, and how texts are cut into them.

use bytes::Bytes;
use forge_runtime::text_pieces;
use serde_json::Value;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamEvent {
    /// Its name, for vendors that name theirs.
    pub(super) event: Option<&'static str>,
    pub(super) data: String,
}

impl StreamEvent {
    /// Returns an event with a name, which its data repeat.
    pub(super) fn named(event: &'static str, data: &Value) -> Self {
        StreamEvent {
            event: Some(event),
            data: data.to_string(),
        }
    }

    /// An event without.
    pub(super) fn plain(data: &Value) -> Self {
        StreamEvent {
            event: None,
            data: data.to_string(),
        }
    }

    /// Returns the event with data that cannot be parsed.
    pub(super) fn garbled(&self) -> Self {
        StreamEvent {
            event: self.event,
            data: r#"{"type": "content_block_delta", "ind"#.to_owned(),
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        let name = self.event.map(|event| format!("event: {event}\n"));
        let name = name.unwrap_or_default();
        Bytes::from(format!("{name}data: {}\n\n", self.data))
    }
}

/// The pieces of several texts, one of each in turn: `(which, piece)`.
pub(super) fn interleaved<T: AsRef<str>>(texts: &[T]) -> Vec<(usize, &str)> {
    let mut all: Vec<(usize, usize, &str)> = Vec::new();
    for (which, text) in texts.iter().enumerate() {
        for (round, piece) in text_pieces(text.as_ref()).into_iter().enumerate() {
            all.push((round, which, piece));
        }
    }
    // Stable, so within a round they keep their order.
    all.sort_by_key(|(round, _, _)| *round);
    all.into_iter()
        .map(|(_, which, piece)| (which, piece))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_take_turns() {
        assert_eq!(
            interleaved(&["abcdefgh", "xy"]),
            [
                (0, "ab"),
                (1, "x"),
                (0, "cd"),
                (1, "y"),
                (0, "ef"),
                (0, "gh")
            ]
        );
    }
}
