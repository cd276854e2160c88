//! Finds all mistakes in the structure of a playbook that could not be read. The reader stops at the
//! first one, so each key is read by itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::file::TurnScript;
use super::validation::place;
use crate::model::Wire;

/// Bound on the mistakes that are listed.
const MAX_MISTAKES: usize = 50;

const KEYS: [&str; 4] = ["version", "wire", "workers", "cases"];
const CASE_KEYS: [&str; 3] = ["input", "when", "turns"];

type UnreadLists = BTreeMap<String, Vec<Spanned<Value>>>;

/// The file, with turns and cases that are not read yet.
#[derive(Deserialize)]
struct UnreadFile {
    version: Option<Spanned<Value>>,
    wire: Option<Spanned<Value>>,
    #[serde(default)]
    workers: UnreadLists,
    #[serde(default)]
    cases: UnreadLists,
}

/// Returns the mistakes, a line each; none if the file is not made of lists of turns and cases.
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
        .map(|one| (one, reads::<Wire>(&one.value).err()));
    for (value, error) in version.chain(wire) {
        let at = place(value.referenced);
        found.extend(error.map(|error| format!("{at}: {error}")));
    }
    if file.version.is_none() {
        found.push("missing field `version`".to_owned());
    }
    let mut complain = |lists: &UnreadLists, what: &str, of: &dyn Fn(&Value) -> Vec<String>| {
        for (worker, list) in lists {
            for (index, item) in (1..).zip(list) {
                let at = place(item.referenced);
                let told = of(&item.value).into_iter();
                let whose = format!("(worker `{worker}`, {what} {index})");
                found.extend(told.map(|complaint| format!("{at}: {complaint} {whose}")));
            }
        }
    };
    complain(&file.workers, "turn", &of_turn);
    complain(&file.cases, "case", &of_case);
    found.truncate(MAX_MISTAKES);
    found
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
