//! One line of the log: its parts, its greatest length, its hash.
//!
//! A line begins with its number and the hash of the line before it. All text of a model is bounded
//! here, so that a reader needs no more memory than one line.

use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Most bytes of one line, its end included.
pub const MAX_LINE_BYTES: usize = 128 * 1024;

/// Most bytes of a line's body.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// A text that is longer is cut, if the whole line is too long.
const MAX_TEXT_BYTES: usize = 1024;
/// The characters of a long text that remain.
const TEXT_HEAD_CHARS: usize = 256;
/// Elements of a list, and keys of an object, that are kept if the whole line is too long.
const MAX_ITEMS: usize = 64;
/// A field that is longer even then is replaced by its hash.
const MAX_FIELD_BYTES: usize = 3 * 1024;

/// Levels of nesting that every reader of JSON can follow.
const MAX_DEPTH: u32 = 64;

/// The hash before the first line.
pub(super) const NOTHING_BEFORE: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// The beginning of every line.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    pub(super) seq: u64,
    pub(super) prev: &'a str,
    pub(super) kind: &'a str,
}

/// The file that holds a segment of the log, counted from 0.
///
/// ```
/// use forge_tools::audit::segment_name;
/// assert_eq!(segment_name(0), "audit.jsonl");
/// assert_eq!(segment_name(2), "audit.2.jsonl");
/// ```
pub fn segment_name(segment: u32) -> String {
    match segment {
        0 => "audit.jsonl".to_owned(),
        later => format!("audit.{later}.jsonl"),
    }
}

/// SHA-256 in hex.
pub(super) fn hash(bytes: &[u8]) -> String {
    sandbox_names::hex(Sha256::digest(bytes))
}

/// The line that ends a log. Everything in it follows from the lines before it, so that a reader
/// knows it byte by byte.
pub(super) fn seal(seq: u64, prev: &str) -> Vec<u8> {
    format!(
        "{{\"seq\":{seq},\"prev\":\"{prev}\",\"kind\":\"seal\",\"count\":{seq},\"root\":\"{prev}\"}}\n"
    )
    .into_bytes()
}

/// A line: its number, the hash of the line before, and the fields of `body`, a JSON object.
pub(super) fn line(into: &mut Vec<u8>, seq: u64, prev: &str, body: &[u8]) {
    into.clear();
    into.extend_from_slice(format!("{{\"seq\":{seq},\"prev\":\"{prev}\",").as_bytes());
    into.extend_from_slice(body.strip_prefix(b"{").unwrap_or(body));
    into.push(b'\n');
}

/// `value`, which is a struct with named fields, as JSON of bounded length.
pub(super) fn body(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut short = LimitedBuffer(Vec::with_capacity(1024));
    if serde_json::to_writer(&mut short, value).is_ok() {
        return Ok(short.0);
    }
    let mut value = serde_json::to_value(value)?;
    shorten(&mut value);
    let mut shorter = LimitedBuffer(Vec::new());
    if serde_json::to_writer(&mut shorter, &value).is_ok() {
        return Ok(shorter.0);
    }
    if let Value::Object(fields) = &mut value {
        if let Some(Value::Object(decision)) = fields.get_mut("decision") {
            only_hashes(decision);
        }
        for (name, field) in fields.iter_mut() {
            if name != "decision" {
                only_hash(field);
            }
        }
    }
    Ok(serde_json::to_vec(&value)?)
}

/// A buffer that is full at some point.
struct LimitedBuffer(Vec<u8>);

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BODY_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Shortens long texts and long lists; a hash still distinguishes the originals.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => {
            let head: String = text.chars().take(TEXT_HEAD_CHARS).collect();
            *value = json!({ "cut": head, "bytes": text.len(), "sha256": hash(text.as_bytes()) });
        }
        Value::Array(items) => {
            if items.len() > MAX_ITEMS {
                let all = items.len();
                items.truncate(MAX_ITEMS);
                items.push(json!({ "cut_items": all - MAX_ITEMS }));
            }
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) if fields.len() > MAX_ITEMS => *value = hashed(value),
        Value::Object(fields) => {
            // The length of a key is up to its author.
            if fields.keys().any(|key| key.len() > MAX_TEXT_BYTES) {
                *value = hashed(value);
            } else {
                fields.values_mut().for_each(shorten);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn only_hashes(fields: &mut Map<String, Value>) {
    fields.values_mut().for_each(only_hash);
}

fn only_hash(field: &mut Value) {
    if field.to_string().len() > MAX_FIELD_BYTES {
        *field = hashed(field);
    }
}

/// Returns `true` if a value nests so deep that its line could not be read again.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn deeper_than(value: &Value, levels: u32) -> bool {
        let Some(below) = levels.checked_sub(1) else {
            return true;
        };
        match value {
            Value::Array(items) => items.iter().any(|item| deeper_than(item, below)),
            Value::Object(fields) => fields.values().any(|field| deeper_than(field, below)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    deeper_than(value, MAX_DEPTH)
}

/// Replaces a value that is not recorded.
pub(super) fn hashed(value: &Value) -> Value {
    let text = value.to_string();
    json!({ "cut": "", "bytes": text.len(), "sha256": hash(text.as_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a model sends, its line is bounded, valid, and still says what was decided.
    #[test]
    fn a_line_is_never_longer_than_a_reader_expects() {
        let long = "x\u{1b}".repeat(MAX_BODY_BYTES / 2);
        let mut deep = json!(long);
        for _ in 0..100 {
            deep = json!([deep, {"k": 1}]);
        }
        let mut wide = Map::new();
        for n in 0..10_000 {
            wide.insert(format!("key {n}"), json!([n]));
        }
        for arguments in [
            json!({ "content": long }),
            json!({ long.as_str(): 1 }),
            json!(vec![long.as_str(); 8]),
            json!(vec![
                json!({"a": "y".repeat(1000), "b": "y".repeat(1000)});
                5000
            ]),
            deep,
            Value::Object(wide),
        ] {
            let value = json!({
                "kind": "decision", "tool": long, "arguments": arguments,
                "intents": vec!["an intent"; 300],
                "decision": { "verdict": "allow", "reasons": vec![json!({"text": "y".repeat(900)}); 300] },
            });
            let body = body(&value).unwrap();
            assert!(body.len() < MAX_BODY_BYTES, "{}", body.len());
            let parsed: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(parsed["decision"]["verdict"], "allow");
            let mut whole = Vec::new();
            line(&mut whole, u64::MAX, NOTHING_BEFORE, &body);
            assert!(whole.len() <= MAX_LINE_BYTES);
        }
    }
}
