//! Every key that is read takes what its row says and nothing else: for each row a document that
//! holds the key with a value of its shape, and documents with values of other shapes. The parser
//! and the JSON Schema judge each of them alike.

use serde_json::{Map, Value, json};

use crate::Diagnostic;
use crate::agreement::{Kind, Seen, fits, mistakes, seen, written};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::keys::{Key, Keys, Names, PROJECT, Shape, WORKER};

/// One document, and whether its structure is right.
struct Sample {
    what: String,
    document: Value,
    right: bool,
}

/// Documents for every key that is read below `top`.
fn samples(top: &'static Keys) -> Vec<Sample> {
    let mut list = Vec::new();
    below(top, "", &|value| value, &mut list);
    list
}

/// `put` sets a mapping of this table into a whole document.
fn below(table: &'static Keys, path: &str, put: &dyn Fn(Value) -> Value, list: &mut Vec<Sample>) {
    for key in table.list.iter().filter(|key| key.now) {
        let path = format!("{path}.{}", key.name);
        let with = |value: Value| put(mapping(table, key.name, value));
        for name in key.aliases.iter().chain([&key.name]) {
            list.push(Sample {
                what: format!("{path} as {name}"),
                document: put(mapping(table, name, good(&key.shape))),
                right: true,
            });
        }
        for value in bad(&key.shape) {
            list.push(Sample {
                what: format!("{path}: {value}"),
                document: with(value),
                right: false,
            });
        }
        if key.required {
            list.push(Sample {
                what: format!("no {path}"),
                document: put(without(table, key)),
                right: false,
            });
        }
        sections(&key.shape, &path, &with, list);
    }
    list.push(Sample {
        what: format!("{path}.unknown"),
        document: put(mapping(table, "unknown", json!(1))),
        right: false,
    });
    list.push(Sample {
        what: format!("{path}.x-free"),
        document: put(mapping(table, "x-free", json!([{ "a": null }]))),
        right: true,
    });
    for key in table.list.iter().filter(|key| !key.now) {
        list.push(Sample {
            what: format!("{path}.{} is not read yet", key.name),
            document: put(mapping(table, key.name, good(&key.shape))),
            right: false,
        });
    }
}

fn sections(shape: &Shape, path: &str, put: &dyn Fn(Value) -> Value, list: &mut Vec<Sample>) {
    match shape {
        Shape::Section(table) if table.is_read() => below(table, path, put, list),
        Shape::List(item) | Shape::Some(item) => {
            sections(item, path, &|value| put(json!([value])), list);
        }
        Shape::Map(names, item) => {
            let name = good_name(*names);
            sections(item, path, &|value| put(json!({ name: value })), list);
        }
        Shape::OneOf(shapes) => {
            for shape in *shapes {
                sections(shape, path, put, list);
            }
        }
        Shape::Section(_)
        | Shape::Text
        | Shape::Like(_)
        | Shape::Bool
        | Shape::True
        | Shape::Count
        | Shape::Number
        | Shape::Exactly(_)
        | Shape::Words(..)
        | Shape::Null
        | Shape::Free
        | Shape::Schema => {}
    }
}

/// A mapping with this key, and the keys that a mapping of this table must have.
fn mapping(table: &Keys, name: &str, value: Value) -> Value {
    let mut map: Map<String, Value> = table
        .list
        .iter()
        .filter(|key| key.required)
        .map(|key| (key.name.to_owned(), good(&key.shape)))
        .collect();
    map.insert(name.to_owned(), value);
    Value::Object(map)
}

fn without(table: &Keys, key: &Key) -> Value {
    let mut map = mapping(table, "x-free", json!(1));
    map.as_object_mut().unwrap().remove(key.name);
    map
}

fn good(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!("demo"),
        Shape::Like(form) => json!(form.good),
        Shape::Bool | Shape::True => json!(true),
        Shape::Count => json!(7),
        Shape::Number => json!(0.5),
        Shape::Exactly(number) => json!(number),
        Shape::Words(words, _) => json!(words[0]),
        Shape::List(item) | Shape::Some(item) => json!([good(item)]),
        Shape::Map(names, value) => json!({ good_name(*names): good(value) }),
        Shape::Section(table) => mapping(table, "x-free", json!(1)),
        Shape::OneOf(shapes) => good(&shapes[0]),
        Shape::Null => Value::Null,
        Shape::Free => json!({ "a": 1 }),
        Shape::Schema => json!({ "type": "object" }),
    }
}

fn good_name(names: Names) -> &'static str {
    match names {
        Names::Any => "demo",
        Names::Like(form) => form.good,
        Names::Words(words) => words[0],
    }
}

/// Values that this shape must refuse.
fn bad(shape: &Shape) -> Vec<Value> {
    let mut list = match shape {
        Shape::Text => vec![json!(5), json!(true), Value::Null, json!({})],
        Shape::Like(form) => vec![json!(form.bad), json!(5), Value::Null],
        Shape::Bool => vec![json!("yes"), json!(1), Value::Null],
        Shape::True => vec![json!(false), json!("yes"), Value::Null],
        Shape::Count => vec![json!(0), json!(-1), json!(1.5), json!("1"), Value::Null],
        Shape::Number => vec![json!(-1), json!("1")],
        Shape::Exactly(number) => vec![json!(number + 1), json!("1"), Value::Null],
        Shape::Words(..) => vec![json!("no such word"), json!(5), Value::Null],
        Shape::List(item) => {
            let mut list = vec![json!("demo"), Value::Null];
            list.extend(bad(item).into_iter().map(|value| json!([value])));
            list
        }
        Shape::Some(item) => {
            let mut list = bad(&Shape::List(item));
            list.push(json!([]));
            list
        }
        Shape::Map(names, item) => {
            let name = good_name(*names);
            let mut list = vec![json!("demo")];
            list.extend(bad(item).into_iter().map(|value| json!({ name: value })));
            match names {
                Names::Any => {}
                Names::Like(form) => list.push(json!({ form.bad: good(item) })),
                Names::Words(_) => list.push(json!({ "no such word": good(item) })),
            }
            list
        }
        Shape::Section(table) if table.may_be_blank => vec![json!("demo"), json!(true)],
        Shape::Section(_) => vec![json!("demo"), json!(true), Value::Null],
        Shape::OneOf(shapes) => bad(&shapes[0])
            .into_iter()
            .filter(|value| shapes[1..].iter().all(|shape| bad(shape).contains(value)))
            .collect(),
        Shape::Null => vec![json!(1)],
        Shape::Free | Shape::Schema => vec![json!("demo"), json!([])],
    };
    list.push(json!([[["nothing takes this"]]]));
    list
}

fn check(kind: Kind, top: &'static Keys) {
    let list = samples(top);
    assert!(list.len() > 100, "{} samples", list.len());
    let mut wrong = String::new();
    for sample in list {
        let mistakes = mistakes(kind, written(kind, &sample.document).as_bytes());
        let parsed = if sample.right {
            !mistakes.iter().any(|mistake| {
                matches!(seen(mistake), Seen::Always) || mistake.code() == DiagnosticCode::BadValue
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
    check(Kind::Project, &PROJECT);
}

#[test]
fn every_worker_key_takes_what_its_row_says() {
    check(Kind::Worker, &WORKER);
}

#[test]
fn every_key_is_described_in_one_sentence() {
    for table in PROJECT.reached().into_iter().chain(WORKER.reached()) {
        for key in table.list {
            assert!(key.doc.ends_with('.'), "{}.{}", table.id, key.name);
        }
    }
}
