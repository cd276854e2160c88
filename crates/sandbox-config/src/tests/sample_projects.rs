//! Every key that is read accepts exactly the values of its row: for each row a document that
//! contains the key with a value of its shape, and documents with values of other shapes. The
//! parser and the JSON Schema judge each of them alike.

use serde_json::{Map, Value, json};

use crate::Diagnostic;
use crate::keys::{PROJECT, WORKER};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::key_table::shape::{KeyPattern, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable};
use crate::tests::schema_agreement::{
    ConfigFileKind, SchemaVisibility, fits, mistakes, seen, written,
};

/// One document, and whether its structure is right.
struct SchemaSample {
    what: String,
    document: Value,
    right: bool,
}

/// Documents for every key that is read below `top`.
fn samples(top: &'static KeyTable) -> Vec<SchemaSample> {
    let mut list = Vec::new();
    below(top, "", &|value| value, &mut list);
    list
}

/// `put` sets a mapping of this table into a whole document.
fn below(
    table: &'static KeyTable,
    path: &str,
    put: &dyn Fn(Value) -> Value,
    list: &mut Vec<SchemaSample>,
) {
    for key in table.list.iter().filter(|key| key.in_effect) {
        let path = format!("{path}.{}", key.name);
        let with = |value: Value| put(mapping(table, key.name, value));
        for name in key.aliases.iter().chain([&key.name]) {
            list.push(SchemaSample {
                what: format!("{path} as {name}"),
                document: put(mapping(table, name, good(&key.shape))),
                right: true,
            });
        }
        for value in bad(&key.shape) {
            list.push(SchemaSample {
                what: format!("{path}: {value}"),
                document: with(value),
                right: false,
            });
        }
        if key.required {
            list.push(SchemaSample {
                what: format!("no {path}"),
                document: put(without(table, key)),
                right: false,
            });
        }
        sections(&key.shape, &path, &with, list);
    }
    list.push(SchemaSample {
        what: format!("{path}.unknown"),
        document: put(mapping(table, "unknown", json!(1))),
        right: false,
    });
    list.push(SchemaSample {
        what: format!("{path}.x-free"),
        document: put(mapping(table, "x-free", json!([{ "a": null }]))),
        right: true,
    });
    for key in table.list.iter().filter(|key| !key.in_effect) {
        list.push(SchemaSample {
            what: format!("{path}.{} is not read yet", key.name),
            document: put(mapping(table, key.name, good(&key.shape))),
            right: false,
        });
    }
}

fn sections(
    shape: &ValueShape,
    path: &str,
    put: &dyn Fn(Value) -> Value,
    list: &mut Vec<SchemaSample>,
) {
    match shape {
        ValueShape::Section(table) if table.is_read() => below(table, path, put, list),
        ValueShape::List(item) | ValueShape::NonEmpty(item) => {
            sections(item, path, &|value| put(json!([value])), list);
        }
        ValueShape::Map(names, item) => {
            let name = good_name(*names);
            sections(item, path, &|value| put(json!({ name: value })), list);
        }
        ValueShape::OneOf(shapes) => {
            for shape in *shapes {
                sections(shape, path, put, list);
            }
        }
        ValueShape::Section(_)
        | ValueShape::Text
        | ValueShape::Like(_)
        | ValueShape::Bool
        | ValueShape::True
        | ValueShape::Count
        | ValueShape::Port
        | ValueShape::Number
        | ValueShape::Exactly(_)
        | ValueShape::Words(..)
        | ValueShape::Null
        | ValueShape::Free
        | ValueShape::Schema => {}
    }
}

/// A mapping with this key, and the keys that a mapping of this table must have.
fn mapping(table: &KeyTable, name: &str, value: Value) -> Value {
    let mut map: Map<String, Value> = table
        .list
        .iter()
        .filter(|key| key.required)
        .map(|key| (key.name.to_owned(), good(&key.shape)))
        .collect();
    map.insert(name.to_owned(), value);
    Value::Object(map)
}

fn without(table: &KeyTable, key: &KeySpec) -> Value {
    let mut map = mapping(table, "x-free", json!(1));
    map.as_object_mut().unwrap().remove(key.name);
    map
}

pub(crate) fn good(shape: &ValueShape) -> Value {
    match shape {
        ValueShape::Text => json!("demo"),
        ValueShape::Like(form) => json!(form.valid),
        ValueShape::Bool | ValueShape::True => json!(true),
        ValueShape::Count => json!(7),
        ValueShape::Port => json!(8080),
        ValueShape::Number => json!(0.5),
        ValueShape::Exactly(number) => json!(number),
        ValueShape::Words(words, _) => json!(words[0]),
        ValueShape::List(item) | ValueShape::NonEmpty(item) => json!([good(item)]),
        ValueShape::Map(names, value) => json!({ good_name(*names): good(value) }),
        ValueShape::Section(table) => mapping(table, "x-free", json!(1)),
        ValueShape::OneOf(shapes) => good(&shapes[0]),
        ValueShape::Null => Value::Null,
        ValueShape::Free => json!({ "a": 1 }),
        ValueShape::Schema => json!({ "type": "object" }),
    }
}

fn good_name(names: KeyPattern) -> &'static str {
    match names {
        KeyPattern::Any => "demo",
        KeyPattern::Like(form) => form.valid,
        KeyPattern::Words(words) => words[0],
    }
}

/// Values that this shape must refuse.
fn bad(shape: &ValueShape) -> Vec<Value> {
    let mut list = match shape {
        ValueShape::Text => vec![json!(5), json!(true), Value::Null, json!({})],
        ValueShape::Like(form) => vec![json!(form.invalid), json!(5), Value::Null],
        ValueShape::Bool => vec![json!("yes"), json!(1), Value::Null],
        ValueShape::True => vec![json!(false), json!("yes"), Value::Null],
        ValueShape::Count => vec![json!(0), json!(-1), json!(1.5), json!("1"), Value::Null],
        ValueShape::Port => vec![
            json!(80),
            json!(0),
            json!(65536),
            json!("8080"),
            Value::Null,
        ],
        ValueShape::Number => vec![json!(-1), json!("1")],
        ValueShape::Exactly(number) => vec![json!(number + 1), json!("1"), Value::Null],
        ValueShape::Words(..) => vec![json!("no such word"), json!(5), Value::Null],
        ValueShape::List(item) => {
            let mut list = vec![json!("demo"), Value::Null];
            list.extend(bad(item).into_iter().map(|value| json!([value])));
            list
        }
        ValueShape::NonEmpty(item) => {
            let mut list = bad(&ValueShape::List(item));
            list.push(json!([]));
            list
        }
        ValueShape::Map(names, item) => {
            let name = good_name(*names);
            let mut list = vec![json!("demo")];
            list.extend(bad(item).into_iter().map(|value| json!({ name: value })));
            match names {
                KeyPattern::Any => {}
                KeyPattern::Like(form) => list.push(json!({ form.invalid: good(item) })),
                KeyPattern::Words(_) => list.push(json!({ "no such word": good(item) })),
            }
            list
        }
        ValueShape::Section(table) if table.may_be_blank => vec![json!("demo"), json!(true)],
        ValueShape::Section(_) => vec![json!("demo"), json!(true), Value::Null],
        ValueShape::OneOf(shapes) => bad(&shapes[0])
            .into_iter()
            .filter(|value| shapes[1..].iter().all(|shape| bad(shape).contains(value)))
            .collect(),
        ValueShape::Null => vec![json!(1)],
        ValueShape::Free | ValueShape::Schema => vec![json!("demo"), json!([])],
    };
    list.push(json!([[["nothing takes this"]]]));
    list
}

fn check(kind: ConfigFileKind, top: &'static KeyTable) {
    let list = samples(top);
    assert!(list.len() > 100, "{} samples", list.len());
    let mut wrong = String::new();
    for sample in list {
        let mistakes = mistakes(kind, written(kind, &sample.document).as_bytes());
        let parsed = if sample.right {
            !mistakes.iter().any(|mistake| {
                matches!(seen(mistake), SchemaVisibility::Always)
                    || mistake.code() == DiagnosticCode::BadValue
            })
        } else {
            mistakes.is_empty()
        };
        let fits = fits(kind, &sample.document);
        if (parsed, fits) != (sample.right, sample.right) {
            let said: Vec<&str> = mistakes.iter().map(Diagnostic::message).collect();
            wrong += &format!(
                "{}\n  {}\n  the parser says {said:?}, the schema {fits}\n",
                sample.what, sample.document
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_project_key_takes_what_its_row_says() {
    check(ConfigFileKind::Project, &PROJECT);
}

#[test]
fn every_worker_key_takes_what_its_row_says() {
    check(ConfigFileKind::Worker, &WORKER);
}

#[test]
fn every_key_is_described_in_one_sentence() {
    for table in PROJECT.reached().into_iter().chain(WORKER.reached()) {
        for key in table.list {
            assert!(key.doc.ends_with('.'), "{}.{}", table.id, key.name);
        }
    }
}
