//! The id of a request that is not read whole: its client waits for an answer that names it.

use std::borrow::Cow;
use std::fmt;

use rmcp::model::RequestId;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The id of a message of which only the beginning and the end are here. Clients write it first, or
/// last; where it is neither, none.
pub(super) fn id_of(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    first(head).or_else(|| last(tail))
}

/// Among the first fields of the message.
fn first(head: &[u8]) -> Option<RequestId> {
    let mut found = None;
    // The text is broken off and not JSON, which does not affect the part before.
    let _ = serde_json::Deserializer::from_slice(head).deserialize_map(IdVisitor(&mut found));
    found
}

/// Reads the id as the last field of the message: before the one brace at its end.
fn last(tail: &[u8]) -> Option<RequestId> {
    let fields = tail.trim_ascii_end().strip_suffix(b"}")?;
    let key = b"\"id\":";
    let at = fields.windows(key.len()).rposition(|part| part == key)?;
    // Inside a text the quote of a key would follow a backslash.
    if !matches!(fields[..at].trim_ascii_end().last(), Some(b',' | b'{')) {
        return None;
    }
    serde_json::from_slice(&fields[at + key.len()..]).ok()
}

/// Reads fields up to the id, or to where they break off.
struct IdVisitor<'a>(&'a mut Option<RequestId>);

impl<'de> Visitor<'de> for IdVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            if name == "id" {
                *self.0 = Some(fields.next_value()?);
                return Ok(());
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let number = |id| Some(RequestId::Number(id));
        let rows = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"na"#,
                "",
                number(7),
            ),
            (
                r#"{"method":"tools/call","params":{"id":3,"na"#,
                r#"x"},"jsonrpc":"2.0","id":7}"#,
                number(7),
            ),
            (r#"{"method":"m","params":"#, r#""}, "id":7 } "#, number(7)),
            (
                r#"{"method":"m","params":"#,
                r#"{},"id":"a b"}"#,
                Some(RequestId::String("a b".into())),
            ),
            // Of something inside.
            (r#"{"method":"m","params":{"a":"#, r#""x","id":7}}"#, None),
            // Inside a text.
            (r#"{"method":"m","params":"#, r#"\"id\":7}"#, None),
            (r#"{"method":"m","params":"#, r#"\"id\":7"}"#, None),
            (r#"{"method":"m","params":"#, r#"x "id":7}"#, None),
            (r#"{"id":[1],"method""#, "", None),
            ("[1,2", "3]", None),
            ("", "", None),
        ];
        for (head, tail, id) in rows {
            assert_eq!(
                id_of(head.as_bytes(), tail.as_bytes()),
                id,
                "{head} … {tail}"
            );
        }
    }
}
