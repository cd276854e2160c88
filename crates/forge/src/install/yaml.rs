//! YAML, by lines. No library preserves comments and style, and only two forms of the section
//! occur: a block of its own, and `{}`. For any other form the check in `edit` rejects the result.

use serde_json::Value;

use super::edit::EditError;
use super::entry::ServerEntry;

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    if text.lines().all(|line| content(line).is_empty()) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error
            .location()
            .map_or((1, 1), |at| (at.line(), at.column()));
        let message = error.without_snippet().to_string();
        EditError::Syntax {
            line: usize::try_from(line).unwrap_or(1),
            column: usize::try_from(column).unwrap_or(1),
            message: message.lines().next().unwrap_or_default().to_owned(),
        }
    })
}

/// The text with the entry.
pub(super) fn edit(text: &str, entry: &ServerEntry, is_there: bool) -> Option<String> {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let head = format!("{}:", entry.section);
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else {
        if let Some(last) = lines.last_mut()
            && !last.ends_with('\n')
        {
            last.push_str(end);
        }
        lines.push(format!("{head}{end}"));
        lines.extend(block(entry, "  ", end));
        return Some(lines.concat());
    };
    if content(&lines[at]) != head {
        insert_flow(&mut lines[at], entry)?;
        return Some(lines.concat());
    }
    let below = &lines[at + 1..];
    let length = below
        .iter()
        .position(|line| !content(line).is_empty() && indent(line).is_empty())
        .unwrap_or(below.len());
    let below = &below[..length];
    let first = below.iter().find(|line| !content(line).is_empty());
    let depth = first.map_or("  ", |line| indent(line)).to_owned();
    if !is_there {
        let new = block(entry, &depth, end);
        if !lines[at].ends_with('\n') {
            lines[at].push_str(end);
        }
        lines.splice(at + 1..at + 1, new);
        return Some(lines.concat());
    }
    let name = format!("{depth}{}:", entry.name);
    let from = below.iter().position(|line| content(line) == name)?;
    // Comments and blank lines after the entry are the next one's.
    let rest = &below[from + 1..];
    let deeper = |line: &String| indent(line).len() > depth.len();
    let until = rest
        .iter()
        .position(|line| !content(line).is_empty() && !deeper(line))
        .unwrap_or(rest.len());
    let used = rest[..until]
        .iter()
        .rposition(|line| !content(line).is_empty())
        .map_or(0, |last| last + 1);
    let start = at + 1 + from;
    let new = block(entry, &depth, end);
    lines.splice(start..start + 1 + used, new);
    Some(lines.concat())
}

/// Inserts the entry into a flow mapping: JSON is YAML.
fn insert_flow(line: &mut String, entry: &ServerEntry) -> Option<()> {
    let open = line.find('{')? + 1;
    let rest = &line[open..];
    let comma = match rest.trim_start().starts_with('}') {
        true => "",
        false if rest.starts_with(' ') => ",",
        false => ", ",
    };
    let name = Value::from(entry.name.as_str());
    let value = flow(&entry.value());
    line.insert_str(open, &format!("{name}: {value}{comma}"));
    Some(())
}

fn block(entry: &ServerEntry, depth: &str, end: &str) -> Vec<String> {
    let mut lines = vec![format!("{depth}{}:{end}", entry.name)];
    for (key, value) in &entry.keys {
        lines.push(format!("{depth}{depth}{key}: {}{end}", flow(value)));
    }
    lines
}

/// Writes JSON, which is YAML, with the usual spaces.
fn flow(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(pairs) => {
            let pairs = pairs.iter();
            let pairs: Vec<String> = pairs
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), flow(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches(' ').len()]
}

/// A line without comment and white space at its end.
fn content(line: &str) -> &str {
    let line = line.trim_end();
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" #").map_or(line, |at| &line[..at]).trim_end()
}
