//! YAML to a tree in which every node knows its place.
//!
//! serde-saphyr does all of the parsing: its `Spanned<T>` works at any depth, and with
//! `DuplicateKeyPolicy::PassThrough` a visitor sees every entry. So one pass yields a tree, and a
//! walk over the tree can report all mistakes at once; a derived struct stops at the first one.
//! Budgets (nesting, nodes, aliases) are serde-saphyr's, set far below its defaults.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Spanned};

use crate::syntax::diagnostic::Diagnostic;
use crate::syntax::text::{Layer, SourceText, Span};
use crate::syntax::yaml_errors::{MAX_DEPTH, MAX_NODES, MAX_REPLAYED, clamp, complaint};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct YamlNode {
    pub(crate) value: YamlValue,
    pub(crate) span: Span,
}

/// The types of YAML 1.2's core schema.
#[derive(Clone, Debug)]
pub(crate) enum YamlValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// One entry of a mapping, in file order; a key may occur more than once here.
#[derive(Clone, Debug)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: YamlNode,
}

impl YamlNode {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[YamlNode]> {
        match &self.value {
            YamlValue::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn as_map(&self) -> Option<&[YamlEntry]> {
        match &self.value {
            YamlValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the first entry of a mapping that has this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&YamlEntry> {
        self.as_map()?.iter().find(|entry| entry.key == key)
    }

    /// The value without its places; of a key that occurs twice the last.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            YamlValue::Null => serde_json::Value::Null,
            YamlValue::Bool(value) => (*value).into(),
            YamlValue::Int(value) => (*value).into(),
            YamlValue::Float(value) => (*value).into(),
            YamlValue::Str(value) => value.as_str().into(),
            YamlValue::List(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlValue::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect(),
        }
    }

    /// The word for this kind of value in "expected X, found Y".
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            YamlValue::Null => "nothing",
            YamlValue::Bool(_) => "a boolean",
            YamlValue::Int(_) | YamlValue::Float(_) => "a number",
            YamlValue::Str(_) => "a string",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }
}

/// Parse one document. `None`: the text holds nothing but comments and blanks.
pub(crate) fn parse(text: &Arc<SourceText>) -> Result<Option<YamlNode>, Box<Diagnostic>> {
    parse_part(text, text.yaml())
}

/// Parse the beginning of a text (front matter), so that lines keep their numbers.
pub(crate) fn parse_part(
    text: &Arc<SourceText>,
    part: &str,
) -> Result<Option<YamlNode>, Box<Diagnostic>> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        // `1_000` is a number in YAML 1.1 only; `!include x` would be read as the word `x`.
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 1_000,
        },
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            // The second one is met as `MultipleDocuments`, with its place.
            max_documents: 2,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_aliases: 10_000,
            max_anchors: 1_000,
        },
    };
    let parsed: Result<Option<Spanned<RawNode>>, _> =
        serde_saphyr::from_str_with_options(part, options);
    let raw = parsed.map_err(|error| Box::new(complaint(text, &error)))?;
    let node = raw.map(|raw| locate_node(text, raw));
    Ok(node.filter(|node| !matches!(node.value, YamlValue::Null)))
}

/// Raw nodes as serde hands them over, before they are tied to their text.
enum RawNode {
    Scalar(YamlValue),
    List(Vec<Spanned<RawNode>>),
    Map(Vec<(Spanned<String>, Spanned<RawNode>)>),
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawNode, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

macro_rules! visits {
    ($($visit:ident($($value:ident: $type:ty)?) = $node:expr;)+) => {$(
        fn $visit<E>(self $(, $value: $type)?) -> Result<RawNode, E> {
            Ok(RawNode::Scalar($node))
        }
    )+};
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    visits! {
        visit_bool(value: bool) = YamlValue::Bool(value);
        visit_i64(value: i64) = YamlValue::Int(value);
        // Above i64 no key of ours has a meaning; a float keeps the magnitude for the message.
        visit_u64(value: u64) = i64::try_from(value).map_or(YamlValue::Float(value as f64), YamlValue::Int);
        visit_i128(value: i128) = YamlValue::Float(value as f64);
        visit_u128(value: u128) = YamlValue::Float(value as f64);
        visit_f64(value: f64) = YamlValue::Float(value);
        visit_str(value: &str) = YamlValue::Str(value.to_owned());
        visit_string(value: String) = YamlValue::Str(value);
        visit_bytes(value: &[u8]) = YamlValue::Str(String::from_utf8_lossy(value).into_owned());
        visit_unit() = YamlValue::Null;
        visit_none() = YamlValue::Null;
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawNode, D::Error> {
        RawNode::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawNode, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            map.push((key, entries.next_value()?));
        }
        Ok(RawNode::Map(map))
    }
}

fn locate_node(text: &Arc<SourceText>, raw: Spanned<RawNode>) -> YamlNode {
    let span = span(text, raw.referenced);
    let value = match raw.value {
        RawNode::Scalar(value) => value,
        RawNode::List(items) => {
            let items = items.into_iter();
            YamlValue::List(items.map(|item| locate_node(text, item)).collect())
        }
        RawNode::Map(entries) => {
            let entries = entries.into_iter().map(|(key, node)| YamlEntry {
                key_span: self::span(text, key.referenced),
                key: key.value,
                node: locate_node(text, node),
            });
            YamlValue::Map(entries.collect())
        }
    };
    YamlNode { value, span }
}

fn span(text: &Arc<SourceText>, location: serde_saphyr::Location) -> Span {
    let line = clamp(location.line()).max(1);
    let column = text.column(line, clamp(location.column()).max(1));
    let length = usize::try_from(location.span().len()).unwrap_or(usize::MAX);
    // From the node's own byte on: to walk a line from its start for every node would make one
    // long line cost the square of its length.
    let from = location.span().byte_offset();
    let rest = from
        .and_then(|at| text.yaml().get(usize::try_from(at).ok()?..))
        .unwrap_or("");
    let end = rest
        .char_indices()
        .enumerate()
        .find(|(count, (_, c))| *count == length || matches!(c, '\n' | '\r'))
        .map_or(rest.len(), |(_, (at, _))| at);
    let width = rest[..end].trim_end().chars().count().max(1);
    Span {
        text: Arc::clone(text),
        line,
        column,
        width: u32::try_from(width).unwrap_or(1),
    }
}

/// Returns a value, without the values of other layers; `None` if another layer sets it.
pub(crate) fn written_value(node: &YamlNode) -> Option<serde_json::Value> {
    match &node.value {
        YamlValue::Map(entries) => {
            let said = |entry: &YamlEntry| Some((entry.key.clone(), written_value(&entry.node)?));
            Some(entries.iter().filter_map(said).collect())
        }
        YamlValue::List(items) => Some(items.iter().filter_map(written_value).collect()),
        _ => (node.span.layer() == Layer::Project).then(|| node.to_json()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<SourceText> {
        SourceText::inline("t.yaml".into(), Layer::Project, text.into())
    }

    fn outline(node: &YamlNode, out: &mut String, depth: usize) {
        use std::fmt::Write;
        let at = &node.span;
        writeln!(
            out,
            "{:depth$}{} {}:{}+{}",
            "",
            node.kind(),
            at.line,
            at.column,
            at.width
        )
        .unwrap();
        match &node.value {
            YamlValue::Map(entries) => {
                for entry in entries {
                    let at = &entry.key_span;
                    writeln!(
                        out,
                        "{:depth$}`{}` {}:{}+{}",
                        "", entry.key, at.line, at.column, at.width
                    )
                    .unwrap();
                    outline(&entry.node, out, depth + 2);
                }
            }
            YamlValue::List(items) => {
                for item in items {
                    outline(item, out, depth + 2);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_node_knows_its_place_and_duplicates_stay() {
        let node = parse(&text(
            "\u{feff}a:\r\n  b: [1, \"x\", no]\r\n  b: 1e7\r\nc: &k {d: true}\r\ne: *k\r\nf:\r\n",
        ))
        .unwrap()
        .unwrap();
        let mut out = String::new();
        outline(&node, &mut out, 0);
        insta::assert_snapshot!(out, @r#"
        a mapping 1:1+1
        `a` 1:1+1
          a mapping 2:3+1
          `b` 2:3+1
            a list 2:6+1
              a number 2:7+1
              a string 2:10+3
              a string 2:15+2
          `b` 3:3+1
            a number 3:6+3
        `c` 4:1+1
          a mapping 4:7+1
          `d` 4:8+1
            a boolean 4:11+4
        `e` 5:1+1
          a mapping 5:4+2
          `d` 5:4+2
            a boolean 5:4+2
        `f` 6:1+1
          nothing 6:2+1
        "#);
    }

    #[test]
    fn empty_texts_are_nothing() {
        for empty in ["", "\n", "# only a comment\n", "---\n", "\u{feff}"] {
            assert!(parse(&text(empty)).unwrap().is_none(), "{empty:?}");
        }
    }

    #[test]
    fn bombs_and_depth_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..9 {
            let before = format!("*a{}", i - 1);
            bomb += &format!("a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", "));
        }
        let deep = "[".repeat(5_000);
        let deep_block = (0..5_000)
            .map(|i| format!("{}a:\n", " ".repeat(i)))
            .collect::<String>();
        for (what, bad) in [("bomb", bomb), ("flow", deep), ("block", deep_block)] {
            let error = parse(&text(&bad)).expect_err(what);
            assert!(error.is_error(), "{what}");
        }
    }
}
