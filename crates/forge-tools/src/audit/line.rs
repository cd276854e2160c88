//! One line of the log: its parts, its greatest length, its hash.
//!
//! A line begins with its number and the hash of the line before it. All text of a model is bounded
//! here, so that a reader needs no more memory than one line.

use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::shorten::shorten;

/// Most bytes of one line, its end included.
pub const MAX_LINE_BYTES: usize = 128 * 1024;

/// Most bytes of a line's body.
const MAX_BODY_BYTES: usize = 64 * 1024;
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
    shorten(&mut value, MAX_BODY_BYTES);
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

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

    /// Lists of a result's line whose lengths a command decides, by their pointers, each with an
    /// element. `@` becomes a number, `~` a text.
    const NOISE: [(&str, &str); 11] = [
        ("/artifacts", r#"{"path":"/w/@~","effect":"created"}"#),
        ("/events", r#"{"event":"quarantined","detail":"@~"}"#),
        (
            "/enforcement/contacts",
            r#"{"kind":"connection","host":"@~.no","port":80,"outcome":"refused"}"#,
        ),
        (
            "/enforcement/denials",
            r#"{"call":"mkdir","path":"/usr/@~","errno":"EROFS"}"#,
        ),
        ("/enforcement/ended_processes/programs", r#""@~""#),
        (
            "/enforcement/git_configs",
            r#"{"file":"/w/@~/.git/config"}"#,
        ),
        (
            "/enforcement/hidden",
            r#"{"path":"/w/@~/.env","pattern":".env"}"#,
        ),
        ("/enforcement/not_copied", r#""/w/@~""#),
        (
            "/enforcement/quarantined",
            r#"{"was":"/w/@~","now":"/q/@"}"#,
        ),
        (
            "/enforcement/touched/programs",
            r#"{"program":"/w/@~","count":1}"#,
        ),
        ("/enforcement/touched/read", r#""/w/@~""#),
    ];

    /// The facts of a result, and one element in each list of [`NOISE`].
    fn result() -> Value {
        let element = |pointer: &str| {
            let (_, text) = NOISE.iter().find(|(one, _)| *one == pointer).unwrap();
            serde_json::from_str::<Value>(&text.replace(['~', '@'], "")).unwrap()
        };
        let list = |pointer| json!([element(pointer)]);
        let promises: Vec<Value> = (0..30)
            .map(|n| json!({"promise": format!("promise {n}"), "state": "enforced", "reason": "r".repeat(150)}))
            .collect();
        let totals: Vec<Value> = (0..40)
            .map(|n| json!({"kind": "connection", "rule": format!("{n}.example.com:443"), "connections": 1, "sent": 1, "received": 1}))
            .collect();
        let kept = json!({"kind": "connection", "host": "kept.example", "port": 443, "sent": 40_000,
            "received": 1, "rule": "kept.example", "outcome": "connected"});
        json!({
            "kind": "execution", "call": 1, "runner": "os", "ok": true,
            "artifacts": list("/artifacts"), "events": list("/events"),
            "enforcement": {
                "policy": "p", "backend": "namespaces", "promises": promises,
                "mounts": [{"name": "/w", "inside": "/w", "access": "write"}],
                "contact_totals": totals, "contacts": [kept], "more_contacts": 7,
                "denials": list("/enforcement/denials"), "more_denials": true,
                "ended_processes": {"count": 1, "programs": list("/enforcement/ended_processes/programs")},
                "git_configs": list("/enforcement/git_configs"),
                "hidden": list("/enforcement/hidden"),
                "not_copied": list("/enforcement/not_copied"),
                "quarantined": list("/enforcement/quarantined"),
                "touched": {
                    "programs": list("/enforcement/touched/programs"),
                    "read": list("/enforcement/touched/read"),
                },
            },
        })
    }

    /// Adds elements to a list, half of them before those that are there.
    fn add_noise(value: &mut Value, pointer: &str, count: usize, text: &str) {
        let (_, template) = NOISE.iter().find(|(one, _)| *one == pointer).unwrap();
        let text = serde_json::to_string(text).unwrap();
        let text = text.trim_matches('"');
        let element = |n: usize| {
            let element = template.replace('~', text).replace('@', &n.to_string());
            serde_json::from_str::<Value>(&element).unwrap()
        };
        let list = value.pointer_mut(pointer).unwrap().as_array_mut().unwrap();
        list.splice(0..0, (0..count / 2).map(element));
        list.extend((count / 2..count).map(element));
    }

    /// Everything that no command can make long, and the connection that was made.
    fn check_facts(whole: &Value, line: &Value, noise: &str) {
        for (name, value) in whole.as_object().unwrap() {
            if !matches!(name.as_str(), "artifacts" | "events" | "enforcement") {
                assert_eq!(line[name], *value, "{noise}: {name}");
            }
        }
        for name in [
            "policy",
            "backend",
            "promises",
            "mounts",
            "contact_totals",
            "more_contacts",
            "more_denials",
        ] {
            let (whole, line) = (&whole["enforcement"], &line["enforcement"]);
            assert_eq!(line[name], whole[name], "{noise}: {name}");
        }
        let contacts = line["enforcement"]["contacts"].as_array();
        let is_kept = |one: &Value| one["host"] == "kept.example";
        assert!(
            contacts.is_some_and(|all| all.iter().any(is_kept)),
            "{noise}: {line}"
        );
    }

    #[test]
    fn noise_in_one_list_costs_no_other_and_no_fact() {
        let long = "\u{1}".repeat(900);
        for (count, text) in [
            (1_500, "n".repeat(40).as_str()),
            (400, "d".repeat(230).as_str()),
            (200, long.as_str()),
        ] {
            let mut all = result();
            for (pointer, _) in NOISE {
                let noise = format!("{count} of {} bytes in {pointer}", text.len());
                let mut value = result();
                add_noise(&mut value, pointer, count, text);
                add_noise(&mut all, pointer, count, text);
                let body = body(&value).unwrap();
                assert!(body.len() <= MAX_BODY_BYTES, "{noise}");
                let line: Value = serde_json::from_slice(&body).unwrap();
                check_facts(&value, &line, &noise);
                for (other, _) in NOISE {
                    let cut = line.pointer(other).unwrap().as_array().unwrap();
                    match other == pointer {
                        false => assert_eq!(line.pointer(other), value.pointer(other), "{noise}"),
                        true => assert!(cut.last().unwrap()["cut_items"].is_u64(), "{noise}"),
                    }
                }
            }
            let body = body(&all).unwrap();
            assert!(body.len() <= MAX_BODY_BYTES, "{}", body.len());
            let line: Value = serde_json::from_slice(&body).unwrap();
            check_facts(&all, &line, "all");
            for (pointer, _) in NOISE {
                let cut = line.pointer(pointer).unwrap().as_array().unwrap();
                assert!(cut.len() > 1, "{pointer}: {cut:?}");
            }
        }
    }
}
