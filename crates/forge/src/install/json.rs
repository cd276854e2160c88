//! JSON, with the comments and trailing commas that some clients allow in it.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use super::edit::EditError;
use super::entry::ServerEntry;

/// Accepts the extensions that clients accept, and no other: the rest is a mistake in any of them.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let root = CstRootNode::parse(text, &options()).map_err(|error| EditError::Syntax {
        line: error.line_display(),
        column: error.column_display(),
        message: error.kind().to_string(),
    })?;
    Ok(root.to_serde_value().unwrap_or(Value::Null))
}

/// The text with the entry, in the style of the rest.
pub(super) fn edit(text: &str, entry: &ServerEntry) -> Option<String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &options()).ok()?;
    let servers = root
        .object_value_or_create()?
        .object_value_or_create(entry.section)?;
    let keys = entry.keys.iter();
    let value = CstInputValue::Object(
        keys.map(|(key, value)| ((*key).to_owned(), input(value)))
            .collect(),
    );
    match servers.get(&entry.name) {
        Some(there) => there.set_value(value),
        None => {
            servers.append(&entry.name, value);
        }
    }
    Some(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(pairs) => CstInputValue::Object(
            pairs
                .iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}
