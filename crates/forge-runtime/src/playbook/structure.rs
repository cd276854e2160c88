//! Finds all mistakes in the structure of a playbook that could not be read. The reader stops at the
//! first one, so each key is read by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::file::{PlaybookWire, TurnScript};
use super::validation::place;

/// Bound on the mistakes that are listed.
const MAX_MISTAKES: usize = 50;

const KEYS: [&str; 4] = ["version", "wire", "workers", "cases"];
const CASE_KEYS: [&str; 3] = ["input", "when", "turns"];

/// The file, with turns and cases that are not read yet.
#[derive(Deserialize)]
struct UnreadFile {
    version: Option<Spanned<Value>>,
    wire: Option<Spanned<Value>>,
    workers: Option<BTreeMap<String, Spanned<UnreadList>>>,
    cases: Option<BTreeMap<String, Spanned<UnreadList>>>,
}

/// A list; `None` if the file has something else there.
struct UnreadList(Option<Vec<Spanned<Value>>>);

impl<'de> Deserialize<'de> for UnreadList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = UnreadList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<UnreadList, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list))
                    .map(|list| UnreadList(Some(list)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UnreadList, A::Error> {
                IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(|_| UnreadList(None))
            }
            fn visit_str<E>(self, _text: &str) -> Result<UnreadList, E> {
                Ok(UnreadList(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Returns the mistakes, a line each; none if they are of another kind.
pub(super) fn mistakes(text: &str) -> Vec<String> {
    let keys = serde_saphyr::from_str::<BTreeMap<String, Spanned<IgnoredAny>>>(text);
    let (Ok(keys), Ok(file)) = (keys, serde_saphyr::from_str::<UnreadFile>(text)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in &keys {
        if !KEYS.contains(&key.as_str()) {
            let at = place(value.referenced);
            found.push(format!(
                "{at}: unknown field `{key}`, expected one of {}",
                KEYS.join(", ")
            ));
        }
    }
    let version = file
        .version
        .iter()
        .map(|one| (one, reads::<u32>(&one.value).err()));
    let wire = file
        .wire
        .iter()
        .map(|one| (one, reads::<PlaybookWire>(&one.value).err()));
    for (value, error) in version.chain(wire) {
        let at = place(value.referenced);
        found.extend(error.map(|error| format!("{at}: {error}")));
    }
    if file.version.is_none() {
        found.push("missing field `version`".to_owned());
    }
    for (worker, turn, index) in items(&file.workers, &mut found) {
        let whose = format!("(worker `{worker}`, turn {index})");
        let at = place(turn.referenced);
        let complaints = of_turn(&turn.value).into_iter();
        found.extend(complaints.map(|complaint| format!("{at}: {complaint} {whose}")));
    }
    for (worker, case, index) in items(&file.cases, &mut found) {
        let whose = format!("(worker `{worker}`, case {index})");
        let at = place(case.referenced);
        let complaints = of_case(&case.value).into_iter();
        found.extend(complaints.map(|complaint| format!("{at}: {complaint} {whose}")));
    }
    found.truncate(MAX_MISTAKES);
    found
}

/// Returns the items of the lists of all workers, counted from 1; complains of what is not a list.
fn items<'f>(
    lists: &'f Option<BTreeMap<String, Spanned<UnreadList>>>,
    found: &mut Vec<String>,
) -> Vec<(&'f String, &'f Spanned<Value>, usize)> {
    let mut items = Vec::new();
    for (worker, list) in lists.iter().flatten() {
        match &list.value.0 {
            Some(list) => items.extend((1..).zip(list).map(|(index, one)| (worker, one, index))),
            None => found.push(format!(
                "{}: not a list (worker `{worker}`)",
                place(list.referenced)
            )),
        }
    }
    items
}

fn of_case(case: &Value) -> Vec<String> {
    let Some(fields) = case.as_object() else {
        return vec!["a case has the keys input, when and turns".to_owned()];
    };
    let mut found = Vec::new();
    for (key, value) in fields {
        match key.as_str() {
            "turns" => {}
            "input" | "when" => {
                let read = reads::<String>(value);
                found.extend(read.err().map(|error| format!("`{key}`: {error}")));
            }
            _ => {
                let known = CASE_KEYS.join(", ");
                found.push(format!("unknown field `{key}`, expected one of {known}"));
            }
        }
    }
    match fields.get("turns") {
        None => found.push("missing field `turns`".to_owned()),
        Some(Value::Array(turns)) => {
            for (index, turn) in (1..).zip(turns) {
                let complaints = of_turn(turn).into_iter();
                found.extend(complaints.map(|complaint| format!("turn {index}: {complaint}")));
            }
        }
        Some(_) => found.push("`turns` is not a list".to_owned()),
    }
    found
}

/// Returns the mistakes of a turn: each key, and each item of a list, is read without the others.
fn of_turn(turn: &Value) -> Vec<String> {
    let Some(fields) = turn.as_object() else {
        return vec!["a turn is a mapping of keys".to_owned()];
    };
    let alone = |key: &str, value: Value| {
        let fields = Map::from_iter([(key.to_owned(), value)]);
        reads::<TurnScript>(&Value::Object(fields)).err()
    };
    let mut found = BTreeSet::new();
    for (key, value) in fields {
        match value.as_array() {
            Some(list) if !list.is_empty() => {
                for (index, item) in (1..).zip(list) {
                    let error = alone(key, vec![item.clone()].into());
                    found.extend(
                        error.map(|error| match error.contains(&format!("`{key}`")) {
                            true => error,
                            false => format!("`{key}` {index}: {error}"),
                        }),
                    );
                }
            }
            _ => found.extend(alone(key, value.clone())),
        }
    }
    found.into_iter().collect()
}

fn reads<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}
