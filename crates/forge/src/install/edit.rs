//! Puts one entry into a file that belongs to another program. The result of the format's own
//! editor is parsed again: it must have the old content and the entry, and for a new entry every
//! old character in its order. Otherwise nothing is written.

use serde_json::{Map, Value};

use super::clients::SettingsFormat;
use super::entry::{ServerEntry, variables};
use super::{json, toml, yaml};

/// The result of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SettingsEdit {
    /// The entry is there already.
    Unchanged,
    /// The text that says it.
    New(String),
}

/// The reason for not editing the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditError {
    /// It does not parse.
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    /// It parses, and servers cannot be added to it.
    Shape(String),
    /// An entry of that name starts something else: its program and arguments.
    Other(String),
}

/// The text with the entry. An entry of that name that starts something else is replaced only
/// where `replace` says so.
pub(crate) fn edit(
    format: SettingsFormat,
    old: Option<&str>,
    entry: &ServerEntry,
    replace: bool,
) -> Result<SettingsEdit, EditError> {
    // The byte order mark of an editor is not part of the text, and stays.
    let (mark, text) = match old {
        Some(text) => match text.strip_prefix('\u{feff}') {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        },
        None => ("", ""),
    };
    let before = parse(format, text)?;
    let there = match before.get(entry.section) {
        None | Some(Value::Null) => None,
        Some(Value::Object(servers)) => servers.get(&entry.name),
        Some(_) => {
            return Err(EditError::Shape(format!(
                "`{}` in it holds no servers by name",
                entry.section
            )));
        }
    };
    match there {
        Some(there) if entry.is_like(there) => return Ok(SettingsEdit::Unchanged),
        Some(there) if !replace => return Err(EditError::Other(command_line(there))),
        Some(_) | None => {}
    }
    let new = match format {
        SettingsFormat::Json => json::edit(text, entry),
        SettingsFormat::Toml => toml::edit(text, entry, there.is_some()),
        SettingsFormat::Yaml => yaml::edit(text, entry, there.is_some()),
    };
    let expected = with(&before, entry);
    match new {
        Some(new)
            if parse(format, &new).is_ok_and(|after| after == expected)
                && (there.is_some() || keeps(text, &new)) =>
        {
            Ok(SettingsEdit::New(format!("{mark}{new}")))
        }
        Some(_) | None => Err(EditError::Shape(format!(
            "`{}` in it is written in a way that cannot be added to without touching the rest",
            entry.section
        ))),
    }
}

fn parse(format: SettingsFormat, text: &str) -> Result<Value, EditError> {
    let value = match format {
        SettingsFormat::Json => json::parse(text),
        SettingsFormat::Toml => toml::parse(text),
        SettingsFormat::Yaml => yaml::parse(text),
    }?;
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err(EditError::Shape("it holds no settings by name".to_owned())),
    }
}

fn with(before: &Value, entry: &ServerEntry) -> Value {
    let mut all = before.as_object().cloned().unwrap_or_default();
    let mut servers = match all.remove(entry.section) {
        Some(Value::Object(servers)) => servers,
        Some(_) | None => Map::new(),
    };
    servers.insert(entry.name.clone(), entry.value());
    all.insert(entry.section.to_owned(), Value::Object(servers));
    Value::Object(all)
}

/// `true` if `new` has every character of `old` except white space, in the same order.
fn keeps(old: &str, new: &str) -> bool {
    let mut rest = new.chars();
    old.chars()
        .filter(|c| !c.is_whitespace())
        .all(|wanted| rest.any(|c| c == wanted))
}

/// Returns the command of an entry in one line, and its variables. Values of other variables than
/// those that lead forge are left out, and so are other keys: they may hold secrets.
fn command_line(entry: &Value) -> String {
    let mut words: Vec<&str> = Vec::new();
    for key in ["command", "cmd", "url"] {
        words.extend(entry.get(key).and_then(Value::as_str));
    }
    // OpenCode has program and arguments in one list.
    for key in ["command", "args"] {
        let list = entry.get(key).and_then(Value::as_array);
        words.extend(list.into_iter().flatten().filter_map(Value::as_str));
    }
    let mut line = words.join(" ");
    for (name, value, leads) in variables(entry) {
        let value = value.as_str().filter(|_| leads).unwrap_or("…");
        line += &format!(", with {name}={value}");
    }
    line
}
