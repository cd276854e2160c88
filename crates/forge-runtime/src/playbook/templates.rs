//! The template language of playbooks: minijinja, and a few filters for picking
//! values out of tool results.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use regex_lite::Regex;

/// Steps one template may take; a playbook cannot hang a run.
const FUEL: u64 = 5_000_000;

/// Longest template or expression; bounds how deep the language can recurse. Plain
/// text without any tag may be longer.
pub(crate) const MAX_TEMPLATE_BYTES: usize = 32 * 1024;

/// Enough for a template of [`MAX_TEMPLATE_BYTES`] that is all operators.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// A template or an expression, to be compiled.
pub(super) enum TemplateSource {
    Template(String),
    Expression(String),
}

/// Runs `work` on a stack of its own: the template language recurses once for each operator of an
/// expression, and a playbook may consist of operators only. `None` if it did not run to its end.
pub(crate) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .ok()?
            .join()
            .ok()
    })
}

/// An environment with the playbook filters:
///
/// * `lines`: the non-empty lines of a text
/// * `find_all(pattern)`: every match of a regular expression: the whole of it, its
///   group if it has one, a list of its groups if it has several
/// * `find(pattern)`: the first of them, or an empty text
/// * `tally`: how often each value occurs: a list of `[value, count]`, most first
/// * `basename`: the part after the last slash
pub(crate) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    // A block tag on a line of its own leaves no line behind.
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    if let Ok(syntax) = syntax {
        env.set_syntax(syntax);
    }
    env.add_filter("lines", |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    });
    env.add_filter("find", |text: String, pattern: String| {
        let first = matches(&text, &pattern)?.into_iter().next();
        Ok::<Value, Error>(first.unwrap_or_else(|| Value::from("")))
    });
    env.add_filter("find_all", |text: String, pattern: String| {
        matches(&text, &pattern)
    });
    env.add_filter("tally", tally);
    env.add_filter("basename", |path: String| -> String {
        path.rsplit('/').next().unwrap_or_default().to_owned()
    });
    env
}

fn matches(text: &str, pattern: &str) -> Result<Vec<Value>, Error> {
    let regex = Regex::new(pattern).map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, format!("bad pattern: {error}"))
    })?;
    Ok(regex
        .captures_iter(text)
        .map(|found| {
            let mut texts: Vec<Value> = found
                .iter()
                .map(|group| Value::from(group.map_or("", |group| group.as_str())))
                .collect();
            match texts.len() {
                1 | 2 => texts.pop().unwrap_or_default(),
                _ => Value::from(texts.split_off(1)),
            }
        })
        .collect())
}

fn tally(values: Value) -> Result<Vec<Value>, Error> {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for value in values.try_iter()? {
        *counts.entry(value.to_string()).or_default() += 1;
    }
    let mut rows: Vec<(String, u64)> = counts.into_iter().collect();
    // Most first; equal counts stay in the order of their names.
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(rows
        .into_iter()
        .map(|(value, count)| Value::from(vec![Value::from(value), Value::from(count)]))
        .collect())
}

/// Renders every string inside `script`. A string that is exactly one expression (`"{{ n }}"`)
/// becomes that value, with its type.
pub(crate) fn render(
    env: &Environment<'_>,
    script: &serde_json::Value,
    context: &Value,
) -> Result<serde_json::Value, Error> {
    Ok(match script {
        serde_json::Value::String(text) => match only_expression(text) {
            Some(expression) => to_json(&evaluate(env, expression, context)?)?,
            None => serde_json::Value::String(render_text(env, text, context)?),
        },
        serde_json::Value::Array(items) => items
            .iter()
            .map(|item| render(env, item, context))
            .collect::<Result<_, _>>()?,
        serde_json::Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), render(env, value, context)?)))
            .collect::<Result<serde_json::Map<_, _>, Error>>()?
            .into(),
        other => other.clone(),
    })
}

/// The text that a template makes.
pub(crate) fn render_text(
    env: &Environment<'_>,
    template: &str,
    context: &Value,
) -> Result<String, Error> {
    if ["{{", "{%", "{#"].iter().any(|tag| template.contains(tag)) {
        bounded(template)?;
    }
    env.render_str(template, context)
        .map_err(|error| with_name(error, template))
}

/// Puts the undefined name into the error: the language itself tells only the line of the template.
fn with_name(error: Error, source: &str) -> Error {
    if error.kind() != ErrorKind::UndefinedError || error.detail().is_some() {
        return error;
    }
    match error.range().and_then(|range| source.get(range)) {
        Some(name) => undefined(name.trim()),
        None => error,
    }
}

fn undefined(name: &str) -> Error {
    Error::new(
        ErrorKind::UndefinedError,
        format!("`{name}` is not defined"),
    )
}

/// Checks that the source compiles and that its filters exist. An overlong one is only reported when
/// it is used.
pub(super) fn check(env: &Environment<'_>, source: &TemplateSource) -> Result<(), Error> {
    let code = match source {
        TemplateSource::Expression(text) if text.len() <= MAX_TEMPLATE_BYTES => {
            env.compile_expression(text)?;
            vec![text.as_str()]
        }
        TemplateSource::Template(text) if text.len() <= MAX_TEMPLATE_BYTES => {
            env.template_from_str(text)?;
            code_of(text)
        }
        TemplateSource::Expression(_) | TemplateSource::Template(_) => return Ok(()),
    };
    code.into_iter()
        .flat_map(filters)
        .try_for_each(|name| known_filter(env, name))
}

/// Returns the code in the tags of a template that compiles.
fn code_of(template: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = template;
    let tags = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")];
    let first = |text: &str| {
        let begins = tags.iter().filter_map(|tag| Some((text.find(tag.0)?, tag)));
        begins.min_by_key(|(at, _)| *at)
    };
    while let Some((at, (begin, end))) = first(rest) {
        let inner = &rest[at + begin.len()..];
        let length = inner.find(end).unwrap_or(inner.len());
        let code = &inner[..length];
        rest = inner.get(length + end.len()..).unwrap_or("");
        if *begin == "{%" && code.trim_matches(['-', '+', ' ']) == "raw" {
            let after = rest.find("endraw").unwrap_or(rest.len());
            rest = rest.get(after..).unwrap_or("");
        } else if *begin != "{#" {
            found.push(code);
        }
    }
    found
}

/// Returns the names behind `|`, outside of texts in quotes.
fn filters(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut quote = None;
    let mut letters = code.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '|') => {
                let name = code[at + 1..].trim_start();
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
                found.extend(Some(&name[..end]).filter(|name| !name.is_empty()));
            }
            _ => {}
        }
    }
    found
}

/// Returns the error of a filter that does not exist. The language tells it only when the filter is
/// applied.
fn known_filter(env: &Environment<'_>, name: &str) -> Result<(), Error> {
    match env.compile_expression(&format!("0|{name}"))?.eval(()) {
        Err(error) if error.kind() == ErrorKind::UnknownFilter => {
            let text = format!("`{name}` is not a filter");
            Err(Error::new(ErrorKind::UnknownFilter, text))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn bounded(source: &str) -> Result<(), Error> {
    if source.len() <= MAX_TEMPLATE_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::SyntaxError,
        format!("a template is longer than {MAX_TEMPLATE_BYTES} bytes"),
    ))
}

/// The value of an expression.
pub(crate) fn evaluate(
    env: &Environment<'_>,
    expression: &str,
    context: &Value,
) -> Result<Value, Error> {
    bounded(expression)?;
    let value = env.compile_expression(expression)?.eval(context);
    let value = value.map_err(|error| with_name(error, expression))?;
    if value.kind() == ValueKind::Undefined {
        return Err(undefined(expression));
    }
    Ok(value)
}

/// A message that names the cause; minijinja's own `Display` leaves it out.
pub(crate) fn explain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

fn only_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then_some(inner.trim())
}

fn to_json(value: &Value) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;
    use serde_json::json;

    #[test]
    fn rows() {
        let env = environment();
        let context = Value::from(Serde(json!({
            "toml": "name = \"a\"\nlicense = \"MIT\"\n",
            "n": 7,
            "list": ["b", "a", "b"],
        })));
        for (script, expected) in [
            (json!("{{ n }}"), json!(7)),
            (json!("n is {{ n }}"), json!("n is 7")),
            (
                json!({"a": ["{{ toml | lines | length }}"]}),
                json!({"a": [2]}),
            ),
            (
                json!("{{ toml | find('license = \"([^\"]*)\"') }}"),
                json!("MIT"),
            ),
            (json!("{{ toml | find('absent') }}"), json!("")),
            (
                json!("{{ toml | find_all('(?m)^(\\w+) = \"([^\"]*)\"') }}"),
                json!([["name", "a"], ["license", "MIT"]]),
            ),
            (
                json!("{{ toml | find_all('l[a-z]+') }}"),
                json!(["license"]),
            ),
            (json!("{{ list | tally }}"), json!([["b", 2], ["a", 1]])),
            (json!("{{ 'x/y/z' | basename }}"), json!("z")),
            (json!(true), json!(true)),
        ] {
            assert_eq!(
                render(&env, &script, &context).unwrap(),
                expected,
                "{script}"
            );
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_and_not_an_empty_text() {
        let env = environment();
        let context = Value::from(Serde(json!({})));
        for text in [
            "{{ absent }}",
            "x {{ absent }}",
            "x {{ absent.deep }}",
            "{{ absent | length }}",
            "{{ absent.deep }}",
        ] {
            let error = render(&env, &json!(text), &context).unwrap_err();
            let told = explain(&error);
            assert!(told.contains("`absent"), "{text}: {told}");
        }
        assert!(evaluate(&env, "absent", &context).is_err());
    }
}
