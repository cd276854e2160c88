//! Values that are too long for a line: each part gets its share of the bytes.
//!
//! Entry point: [`shorten`]. A part that a command makes long takes no bytes from a part that is
//! shorter than its share.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::line::hash;

/// The characters of a long text that remain.
const TEXT_HEAD_CHARS: usize = 256;
/// Keys of an object, and elements of a list, that are shortened one by one.
const MAX_PARTS: usize = 64;
/// Longest key. Its length is up to its author.
const MAX_KEY_BYTES: usize = 1024;
/// Bytes that each element of a list may have, however short the list must become.
const MIN_ELEMENT_BYTES: usize = 256;
/// Bytes of an object in place of a text, and of the element that ends a shortened list.
const CUT_BYTES: usize = 128;

/// Fields of a receipt that tell the restrictions and the hosts that were reached. They come from
/// the configuration: a command cannot make them long.
const FIRST_FIELDS: [&str; 3] = ["promises", "contact_totals", "mounts"];

/// Shortens a value to a number of bytes of JSON. A hash still distinguishes originals of texts.
pub(super) fn shorten(value: &mut Value, limit: usize) {
    if json_len(value) <= limit {
        return;
    }
    match value {
        Value::String(text) if text.len() > CUT_BYTES => *value = cut_text(text, limit),
        Value::Array(items)
            if items.len() <= MAX_PARTS && items.len() * MIN_ELEMENT_BYTES <= limit =>
        {
            let overhead = items.len() + 2;
            share(items.iter_mut().collect(), limit.saturating_sub(overhead));
        }
        Value::Array(items) => shorten_list(items, limit),
        Value::Object(fields) => {
            let is_long = |key: &String| key.len() > MAX_KEY_BYTES;
            if fields.len() > MAX_PARTS || fields.keys().any(is_long) {
                *value = hashed(value);
                return;
            }
            shorten_fields(fields, limit);
            if json_len(value) > limit.max(MIN_ELEMENT_BYTES) {
                *value = hashed(value);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces a value that is not recorded.
pub(super) fn hashed(value: &Value) -> Value {
    let text = value.to_string();
    json!({ "cut": "", "bytes": text.len(), "sha256": hash(text.as_bytes()) })
}

fn cut_text(text: &str, limit: usize) -> Value {
    let room = limit.saturating_sub(CUT_BYTES);
    let mut head: String = text.chars().take(TEXT_HEAD_CHARS).collect();
    while json_len(&head) > room && head.pop().is_some() {}
    json!({ "cut": head, "bytes": text.len(), "sha256": hash(text.as_bytes()) })
}

fn shorten_fields(fields: &mut Map<String, Value>, limit: usize) {
    let keys = fields.keys().map(|key| json_len(key) + 2);
    let mut left = limit.saturating_sub(keys.sum::<usize>() + 2);
    for name in FIRST_FIELDS {
        if let Some(field) = fields.get_mut(name) {
            shorten(field, left / 2);
            left = left.saturating_sub(json_len(field));
        }
    }
    let others = fields.iter_mut();
    let others = others.filter(|(name, _)| !FIRST_FIELDS.contains(&name.as_str()));
    share(others.map(|(_, field)| field).collect(), left);
}

/// Shortens values to a number of bytes together. The shortest come first, so that the longest
/// share all that the others leave.
fn share(mut values: Vec<&mut Value>, mut left: usize) {
    values.sort_by_cached_key(json_len);
    let mut count = values.len();
    for value in values {
        shorten(value, left / count);
        left = left.saturating_sub(json_len(value));
        count -= 1;
    }
}

/// Keeps the first elements, those about connections that were made before all others.
fn shorten_list(items: &mut Vec<Value>, limit: usize) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| items[*index]["outcome"] != "connected");
    let mut left = limit.saturating_sub(CUT_BYTES);
    let mut kept = Vec::new();
    for index in order {
        let mut item = items[index].take();
        shorten(&mut item, (limit / 4).max(MIN_ELEMENT_BYTES));
        let Some(rest) = left.checked_sub(json_len(&item) + 1) else {
            break;
        };
        left = rest;
        kept.push((index, item));
    }
    kept.sort_by_key(|(index, _)| *index);
    let cut_items = items.len() - kept.len();
    items.clear();
    items.extend(kept.into_iter().map(|(_, item)| item));
    items.push(json!({ "cut_items": cut_items }));
}

/// Returns the number of bytes of a value's JSON.
fn json_len(value: &(impl Serialize + ?Sized)) -> usize {
    /// Counts bytes.
    struct Counter(usize);

    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // Texts, numbers and lists of them cannot fail; what does is too long.
        Err(_) => usize::MAX,
    }
}
