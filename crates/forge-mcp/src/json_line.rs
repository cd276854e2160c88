//! A message as a line of JSON. Most answers consist of the text of a result, and reading each of
//! its bytes by itself, as a serializer does, takes longer than everything else about them; so it
//! is written here, eight bytes at a time, in place of a mark.

use std::sync::OnceLock;

use rmcp::model::{ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};

/// From this many bytes on it is worth it.
const LONG_BYTES: usize = 512;

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The whole line, its end included. Takes the text out of `message`.
pub(super) fn line(message: &mut ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    if let Some(mark) = mark()
        && let Some(place) = long_text(message)
    {
        let text = std::mem::replace(place, mark.to_owned());
        let around = serde_json::to_string(message)?;
        if let Some((before, after)) = around.split_once(mark) {
            let mut line = Vec::with_capacity(around.len() + text.len() + text.len() / 16);
            line.extend_from_slice(before.as_bytes());
            spell(&mut line, &text);
            line.extend_from_slice(after.as_bytes());
            line.push(b'\n');
            return Ok(line);
        }
        if let Some(place) = long_text(message) {
            *place = text;
        }
    }
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The first text of a result, if it is long or marks one that is.
fn long_text(message: &mut ServerJsonRpcMessage) -> Option<&mut String> {
    let JsonRpcMessage::Response(response) = message else {
        return None;
    };
    let ServerResult::CallToolResult(result) = &mut response.result else {
        return None;
    };
    let Some(ContentBlock::Text(first)) = result.content.first_mut() else {
        return None;
    };
    (first.text.len() >= LONG_BYTES || Some(first.text.as_str()) == mark())
        .then_some(&mut first.text)
}

/// A mark that cannot be part of an answer, since it is made up when this process starts to answer;
/// `None` without randomness.
fn mark() -> Option<&'static str> {
    static MARK: OnceLock<Option<String>> = OnceLock::new();
    MARK.get_or_init(|| {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(sandbox_names::hex(bytes))
    })
    .as_deref()
}

/// Appends `text` as the content of a JSON string.
fn spell(line: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let (plain, others) = rest.split_at(plain(rest));
        line.extend_from_slice(plain);
        let Some((byte, after)) = others.split_first() else {
            return;
        };
        match byte {
            b'"' => line.extend_from_slice(b"\\\""),
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\r' => line.extend_from_slice(b"\\r"),
            0x08 => line.extend_from_slice(b"\\b"),
            0x0c => line.extend_from_slice(b"\\f"),
            other => line.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
        rest = after;
    }
}

/// Counts the bytes at the beginning that need no escape.
fn plain(bytes: &[u8]) -> usize {
    let (words, last) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The highest bit of a byte is set if it is below another one. The bytes above such a byte
        // may be wrong; the first is right.
        let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word;
        let found = below(word, 0x20)
            | below(word ^ (ONES * u64::from(b'"')), 1)
            | below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = found & HIGHS;
        if found != 0 {
            return at * 8 + usize::from(u8::try_from(found.trailing_zeros() / 8).unwrap_or(0));
        }
    }
    let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    words.len() * 8 + last.iter().position(special).unwrap_or(last.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, RequestId};

    use super::*;

    fn answer(text: &str, structure: Option<serde_json::Value>) -> ServerJsonRpcMessage {
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = structure;
        ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(7))
    }

    proptest! {
        #[test]
        fn a_line_is_what_the_serializer_writes(
            parts in prop::collection::vec(("[ -~]{0,40}", any::<char>(), 0_u8..0x80), 0..60),
            structure in prop::option::of("[a-z\"]{0,10}"),
        ) {
            let parts = parts.iter().map(|(text, any, ascii)| format!("{text}{any}{}", char::from(*ascii)));
            let text: String = parts.collect();
            let structure = structure.map(|text| serde_json::json!({ "text": text, "marked": mark() }));
            let mut message = answer(&text, structure);
            let mut expected = serde_json::to_vec(&message).unwrap();
            expected.push(b'\n');
            prop_assert_eq!(line(&mut message).unwrap(), expected);
        }

        #[test]
        fn each_byte_is_found_wherever_it_stands(before in 0_usize..40, byte in 0_u8..0x80, high in any::<bool>()) {
            let filler = if high { "é" } else { "\u{7f}" };
            let text = format!("{}{}{}", filler.repeat(before), char::from(byte), filler.repeat(20));
            let mut spelled = b"\"".to_vec();
            spell(&mut spelled, &text);
            spelled.push(b'"');
            prop_assert_eq!(String::from_utf8(spelled).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }
}
