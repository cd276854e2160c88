//! The work of a JSON Schema, computed before any value is checked against it: thirty definitions
//! that each refer twice to the next are two kilobytes of text and a billion evaluations. So the
//! schema is counted as if every reference were expanded. A recursive reference is as deep as the
//! checked value; it counts once here, and the time of a check is bounded.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Most values in a schema with every reference written out.
pub(crate) const MAX_SIZE: u64 = 10_000;
/// Most schemas in one another, references followed: a check needs a stack as deep.
const MAX_HEIGHT: u64 = 128;

/// A schema written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchemaSize {
    /// Values in it.
    pub(crate) values: u64,
    height: u64,
    /// A reference without a target, or to one that cannot be followed here.
    pub(super) is_open: bool,
}

impl SchemaSize {
    const ONE: SchemaSize = SchemaSize {
        values: 1,
        height: 1,
        is_open: false,
    };

    fn with(self, part: SchemaSize) -> SchemaSize {
        SchemaSize {
            values: self.values.saturating_add(part.values),
            height: self.height.max(part.height.saturating_add(1)),
            is_open: self.is_open || part.is_open,
        }
    }

    /// Returns the reason why it is too much work.
    pub(super) fn problem(self) -> Option<String> {
        if self.height > MAX_HEIGHT {
            return Some(format!(
                "with every `$ref` written out, more than {MAX_HEIGHT} schemas stand in one another"
            ));
        }
        (self.values > MAX_SIZE).then(|| {
            format!(
                "it is too large: with every `$ref` written out it has more than {MAX_SIZE} values"
            )
        })
    }
}

/// The size of a schema of draft 2020-12.
pub(crate) fn size(schema: &Value) -> SchemaSize {
    let mut anchors = HashMap::new();
    find_anchors(schema, &mut anchors);
    let mut known = HashMap::new();
    SizeCounter {
        anchors,
        known: &mut known,
    }
    .schema(schema, schema, 0)
}

struct SizeCounter<'s, 'k> {
    /// With the base of their references. Several schemas may have one name.
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    /// By address, since one address is one schema; `None` while it is being counted.
    known: &'k mut HashMap<*const Value, Option<SchemaSize>>,
}

impl<'s> SizeCounter<'s, '_> {
    /// `base`: where references begin, the next schema around with an `$id`.
    fn schema(&mut self, schema: &'s Value, base: &'s Value, depth: u64) -> SchemaSize {
        let Value::Object(keywords) = schema else {
            return self.plain(schema, base, depth);
        };
        if depth > MAX_HEIGHT {
            return SchemaSize {
                height: u64::MAX,
                ..SchemaSize::ONE
            };
        }
        let base = based(schema, base);
        match self.known.insert(schema, None) {
            None => {}
            Some(None) => return SchemaSize::ONE,
            Some(Some(size)) => {
                self.known.insert(schema, Some(size));
                return size;
            }
        }
        let size = self.keywords(keywords, base, depth);
        self.known.insert(schema, Some(size));
        size
    }

    fn keywords(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: &'s Value,
        depth: u64,
    ) -> SchemaSize {
        let mut size = SchemaSize::ONE;
        for (keyword, value) in keywords {
            let part = match (keyword.as_str(), value) {
                // Counted where they are referred to.
                ("$defs" | "definitions", _) => SchemaSize::ONE,
                ("$ref" | "$dynamicRef", Value::String(to)) => self.reference(to, base, depth + 1),
                // The keys are names, not keywords.
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                    let mut all = SchemaSize::ONE;
                    for one in named.values() {
                        all = all.with(self.schema(one, base, depth + 1));
                    }
                    all
                }
                (_, value) => self.schema(value, base, depth + 1),
            };
            size = size.with(part);
        }
        // These keywords evaluate all of their siblings once more.
        for again in ["unevaluatedProperties", "unevaluatedItems"] {
            if keywords.contains_key(again) {
                size.values = size.values.saturating_mul(2);
            }
        }
        size
    }

    fn plain(&mut self, value: &'s Value, base: &'s Value, depth: u64) -> SchemaSize {
        let mut size = SchemaSize::ONE;
        if let Value::Array(items) = value {
            for item in items {
                size = size.with(self.schema(item, base, depth));
            }
        }
        size
    }

    fn reference(&mut self, to: &str, base: &'s Value, depth: u64) -> SchemaSize {
        const NOWHERE: SchemaSize = SchemaSize {
            is_open: true,
            ..SchemaSize::ONE
        };
        let Some(fragment) = to.strip_prefix('#') else {
            return NOWHERE;
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            return match pointed(base, fragment) {
                Some((schema, base)) => self.schema(schema, base, depth),
                None => NOWHERE,
            };
        }
        let Some(places) = self.anchors.get(fragment).cloned() else {
            return NOWHERE;
        };
        let mut size = SchemaSize::ONE;
        for place in places {
            size = size.with(self.schema(place, base, depth));
        }
        size
    }
}

fn based<'s>(schema: &'s Value, base: &'s Value) -> &'s Value {
    match schema.get("$id") {
        Some(Value::String(_)) => schema,
        Some(_) | None => base,
    }
}

/// Returns the target of a JSON pointer in a URL, and the base there.
fn pointed<'s>(base: &'s Value, pointer: &str) -> Option<(&'s Value, &'s Value)> {
    let (mut at, mut base) = (base, base);
    for part in pointer.split('/').skip(1) {
        let part = decoded(part)?.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Object(map) => map.get(&part)?,
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        base = based(at, base);
    }
    Some((at, base))
}

fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

fn find_anchors<'s>(value: &'s Value, anchors: &mut HashMap<&'s str, Vec<&'s Value>>) {
    match value {
        Value::Object(map) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = map.get(keyword) {
                    anchors.entry(name).or_default().push(value);
                }
            }
            map.values().for_each(|one| find_anchors(one, anchors));
        }
        Value::Array(items) => items.iter().for_each(|one| find_anchors(one, anchors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chain(length: usize, uses: impl Fn(String) -> Value) -> Value {
        let mut defs = Map::new();
        for at in 0..length {
            defs.insert(format!("d{at}"), uses(format!("#/$defs/d{}", at + 1)));
        }
        defs.insert(format!("d{length}"), json!({"type": "string"}));
        json!({"$defs": defs, "$ref": "#/$defs/d0"})
    }

    #[test]
    fn small_texts_that_are_large() {
        let anchored = |to: String| {
            let name = to.replace("#/$defs/", "#");
            json!({"anyOf": [{"$ref": name}, {"$dynamicRef": name}]})
        };
        let mut by_anchor = chain(30, anchored);
        for at in 0..=30 {
            by_anchor["$defs"][format!("d{at}")]["$anchor"] = json!(format!("d{at}"));
        }
        let embedded = json!({"$ref": "#/$defs/in/$defs/d0", "$defs": {"in": {
            "$id": "urn:x", "$defs": chain(30, |to| json!({"allOf": [{"$ref": to}, {"$ref": to}]}))["$defs"],
        }}});
        for schema in [
            chain(30, |to| json!({"allOf": [{"$ref": to}, {"$ref": to}]})),
            chain(
                30,
                |to| json!({"properties": {"a": {"$ref": to}, "$defs": {"$ref": to}}}),
            ),
            chain(
                30,
                |to| json!({"not": {"$ref": to.replace('d', "%64").replace("%64efs", "defs")}, "if": {"$ref": to}}),
            ),
            chain(30, |to| json!({"$ref": to, "unevaluatedProperties": false})),
            chain(1000, |to| json!({"items": {"$ref": to}})),
            by_anchor,
            embedded,
        ] {
            let found = size(&schema);
            assert!(found.problem().is_some(), "{found:?} {schema}");
            assert!(!found.is_open, "{schema}");
        }
        // From the last on: each is known already where the next leads to it.
        let mut backwards = chain(1000, |to| json!({"items": {"$ref": to}}));
        let refs = (0..1000).rev().step_by(50);
        backwards["allOf"] = refs
            .map(|at| json!({"$ref": format!("#/$defs/d{at}")}))
            .collect();
        assert!(size(&backwards).problem().is_some());
    }

    #[test]
    fn what_schemas_are_like() {
        let fields: Map<String, Value> = (0..300)
            .map(|at| {
                (
                    format!("f{at}"),
                    json!({"type": "string", "description": "A field."}),
                )
            })
            .collect();
        for schema in [
            json!({}),
            json!({"$ref": "#"}),
            json!({"type": "object", "properties": fields}),
            json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"},
            }}}}),
            chain(40, |to| json!({"anyOf": [{"$ref": to}, {"type": "null"}]})),
        ] {
            assert_eq!(size(&schema).problem(), None, "{schema}");
            assert!(!size(&schema).is_open);
        }
        assert!(size(&json!({"$ref": "#/$defs/absent"})).is_open);
    }
}
