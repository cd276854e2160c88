//! TOML. A table may stand anywhere, so a new one goes to the end and nothing else is touched.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, TableLike};

use super::edit::EditError;
use super::entry::ServerEntry;

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let before = before.unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        EditError::Syntax {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: error.message().trim().to_owned(),
        }
    })?;
    Ok(table(document.as_table()))
}

/// The text with the entry.
pub(super) fn edit(text: &str, entry: &ServerEntry, is_there: bool) -> Option<String> {
    let crlf = text.contains("\r\n");
    if is_there {
        let mut document: DocumentMut = text.parse().ok()?;
        let there = document
            .get_mut(entry.section)?
            .get_mut(&entry.name)?
            .as_table_like_mut()?;
        there.clear();
        for (key, value) in &entry.keys {
            there.insert(key, Item::Value(input(value)?));
        }
        let new = document.to_string();
        // The library writes its own ends of lines.
        return Some(if crlf && !new.contains("\r\n") {
            new.replace('\n', "\r\n")
        } else {
            new
        });
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let mut added = format!("{gap}[{}.{}]\n", entry.section, entry.name);
    for (key, value) in &entry.keys {
        added.push_str(&format!("{key} = {}\n", input(value)?));
    }
    if crlf {
        added = added.replace('\n', "\r\n");
    }
    Some(format!("{text}{added}"))
}

fn input(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => number.as_i64()?.into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => {
            let items: Option<toml_edit::Array> = items.iter().map(input).collect();
            items?.into()
        }
        Value::Object(pairs) => {
            let mut table = toml_edit::InlineTable::new();
            for (key, value) in pairs {
                table.insert(key, input(value)?);
            }
            table.into()
        }
        Value::Null => return None,
    })
}

fn table(table: &dyn TableLike) -> Value {
    let pairs: Map<String, Value> = table
        .iter()
        .map(|(key, item)| (key.to_owned(), output(item)))
        .collect();
    Value::Object(pairs)
}

/// Converts an item to JSON for comparison. Kinds that JSON does not have become their text.
fn output(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => tables.iter().map(|each| table(each)).collect(),
        Item::Value(value) => plain(value),
    }
}

fn plain(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(number.value().to_string()),
        toml_edit::Value::Boolean(value) => Value::from(*value.value()),
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
        toml_edit::Value::Array(items) => items.iter().map(plain).collect(),
        toml_edit::Value::InlineTable(inner) => table(inner),
    }
}
