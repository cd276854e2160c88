//! JSON Schemas (draft 2020-12) of project and worker files, made from the rows of the parser. A schema
//! covers the properties of one file alone: keys, types, words, forms. Only `forge check` knows those
//! that depend on directories, other files or trust.

mod project_keys;

pub use project_keys::{ProjectKey, project_keys};
use serde_json::{Map, Value, json};

use crate::keys::{PRESET, PROJECT, WORKER};
use crate::syntax::key_table::shape::{KeyPattern, PORTS, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable};
use crate::syntax::text::{Layer, SourceText};
use crate::syntax::yaml;

/// The schema of project files, as `forge schema config` prints it.
///
/// ```
/// let schema: serde_json::Value =
///     serde_json::from_str(&sandbox_config::schema::project()).unwrap();
/// assert_eq!(schema["$defs"]["zone"]["required"][0], "path");
/// ```
#[must_use]
pub fn project() -> String {
    document(
        &PROJECT,
        "forge project file",
        "Project file of forge: the most that its workers and commands may do.",
    )
}

/// The schema of the front matter of worker files, as `forge schema worker` prints it.
///
/// ```
/// let schema: serde_json::Value =
///     serde_json::from_str(&sandbox_config::schema::worker()).unwrap();
/// assert_eq!(schema["properties"]["tools"]["type"], "array");
/// ```
#[must_use]
pub fn worker() -> String {
    document(
        &WORKER,
        "forge worker file",
        "Front matter of a .worker file: the properties of a worker and the rights that it needs.",
    )
}

/// The schema of preset files, as `forge schema preset` prints it.
///
/// ```
/// let schema: serde_json::Value =
///     serde_json::from_str(&sandbox_config::schema::preset()).unwrap();
/// assert_eq!(schema["required"], serde_json::json!(["preset", "about"]));
/// ```
#[must_use]
pub fn preset() -> String {
    document(
        &PRESET,
        "forge preset file",
        "Preset of forge: the needs of a known program, for `forge exec --preset`.",
    )
}

fn document(top: &'static KeyTable, title: &str, about: &str) -> String {
    let mut schema = table(top);
    let mut definitions = Map::new();
    for keys in top.reached().into_iter().skip(1) {
        definitions.insert(keys.id.to_owned(), Value::Object(table(keys)));
    }
    schema.insert(
        "$schema".into(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    schema.insert("title".into(), title.into());
    schema.insert("description".into(), about.into());
    schema.insert("$defs".into(), Value::Object(definitions));
    let mut schema = Value::Object(schema);
    schema.sort_all_objects();
    format!("{schema:#}\n")
}

fn table(keys: &KeyTable) -> Map<String, Value> {
    let mut properties = Map::new();
    for key in keys.list.iter().filter(|key| key.in_effect) {
        properties.insert(key.name.to_owned(), property(key));
        for alias in key.aliases {
            let mut same = of_shape(&key.shape);
            let about = format!("Another spelling of `{}`.", key.name);
            same.insert("description".into(), about.into());
            properties.insert((*alias).to_owned(), Value::Object(same));
        }
    }
    let mut table = Map::new();
    table.insert("type".into(), mapping_type(keys.may_be_blank));
    table.insert("properties".into(), Value::Object(properties));
    let required: Vec<&str> = keys
        .list
        .iter()
        .filter(|key| key.required)
        .map(|key| key.name)
        .collect();
    if !required.is_empty() {
        table.insert("required".into(), json!(required));
    }
    table.insert("patternProperties".into(), json!({ "^x-": true }));
    table.insert("additionalProperties".into(), false.into());
    table
}

/// `key:` without a value is an empty mapping where that makes sense.
fn mapping_type(may_be_blank: bool) -> Value {
    if may_be_blank {
        json!(["object", "null"])
    } else {
        json!("object")
    }
}

fn property(key: &KeySpec) -> Value {
    let mut schema = of_shape(&key.shape);
    let mut about = key.doc.to_owned();
    if let ValueShape::Words(_, also @ [_, ..]) = key.shape {
        about = format!("{about} Also read: {}.", also.join(", "));
    }
    if !key.trust.is_empty() {
        about = format!(
            "{about} Needs consent (`forge trust`) {}.",
            asked(key.trust)
        );
    }
    schema.insert("description".into(), about.into());
    if let Some(default) = default(key) {
        schema.insert("default".into(), default);
    }
    Value::Object(schema)
}

fn asked(when: &str) -> String {
    if when == "always" {
        "in a file that came with a repository".to_owned()
    } else {
        format!("in a file that came with a repository, {when}")
    }
}

/// Returns the default of a row as one would write it in the file.
fn default(key: &KeySpec) -> Option<Value> {
    let text = SourceText::inline(key.name.to_owned(), Layer::Default, key.default.to_owned());
    let node = yaml::parse(&text).ok().flatten()?;
    Some(node.to_json())
}

fn of_shape(shape: &ValueShape) -> Map<String, Value> {
    let schema = match shape {
        ValueShape::Text => json!({ "type": "string" }),
        ValueShape::Like(form) => json!({
            "type": "string",
            "pattern": form.pattern,
            "examples": [form.valid],
            "description": format!("{}.", form.noun),
        }),
        ValueShape::Bool => json!({ "type": "boolean" }),
        ValueShape::True => json!({ "const": true }),
        ValueShape::Count => json!({ "type": "integer", "minimum": 1 }),
        ValueShape::Port => {
            json!({ "type": "integer", "minimum": PORTS.start(), "maximum": PORTS.end() })
        }
        ValueShape::Number => json!({ "type": "number", "minimum": 0 }),
        ValueShape::Exactly(number) => json!({ "const": number }),
        ValueShape::Words(words, also) => {
            let all: Vec<&str> = words.iter().chain(*also).copied().collect();
            json!({ "enum": all })
        }
        ValueShape::List(item) => json!({ "type": "array", "items": of_shape(item) }),
        ValueShape::NonEmpty(item) => {
            json!({ "type": "array", "items": of_shape(item), "minItems": 1 })
        }
        ValueShape::Map(names, value) => named(*names, value),
        ValueShape::Section(keys) => json!({ "$ref": format!("#/$defs/{}", keys.id) }),
        ValueShape::OneOf(shapes) => return one_of(shapes),
        ValueShape::Null => json!({ "type": "null" }),
        ValueShape::Free | ValueShape::Schema => json!({ "type": "object" }),
    };
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn named(names: KeyPattern, value: &ValueShape) -> Value {
    let value = of_shape(value);
    match names {
        KeyPattern::Any => json!({ "type": mapping_type(true), "additionalProperties": value }),
        KeyPattern::Like(form) => json!({
            "type": mapping_type(true),
            "propertyNames": { "pattern": form.pattern },
            "additionalProperties": value,
        }),
        KeyPattern::Words(words) => {
            let properties: Map<String, Value> = words
                .iter()
                .map(|word| ((*word).to_owned(), Value::Object(value.clone())))
                .collect();
            json!({
                "type": mapping_type(true),
                "properties": properties,
                "additionalProperties": false,
            })
        }
    }
}

/// A section of which nothing is read yet is none.
fn one_of(shapes: &[ValueShape]) -> Map<String, Value> {
    let mut choices: Vec<Map<String, Value>> = shapes
        .iter()
        .filter(|shape| !matches!(shape, ValueShape::Section(keys) if !keys.is_read()))
        .map(of_shape)
        .collect();
    if choices.len() == 1 {
        return choices.remove(0);
    }
    let mut schema = Map::new();
    schema.insert("anyOf".into(), json!(choices));
    schema
}
