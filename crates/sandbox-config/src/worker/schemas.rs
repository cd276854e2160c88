//! `input_schema` and `output_schema`: a JSON Schema in the front matter, or in a file of the
//! project. A validator decides if a schema is valid, and that is a library of its own with forty
//! others behind it; so it is handed in ([`SchemaCheck`]), as the names of tools are. Here are the
//! checks that no validator makes: how large a schema is, how deep, and that it fetches nothing.

use std::path::{Component, Path};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::loading::load_context::LoadContext;
use crate::loading::sources::{SchemaCheck, SchemaMistake};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::read::read;
use crate::syntax::text::{Layer, SourceText, Span};
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};
use crate::worker::Worker;

/// Both schemas of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schemas {
    input: Option<Arc<Json>>,
    output: Option<Arc<Json>>,
}

impl Worker {
    /// Returns the JSON Schema (draft 2020-12) of its input, always one of a mapping; `None`: a
    /// text.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # std::fs::write(dir.path().join("workers/w.worker"),
    /// #     "---\ninput_schema: { type: object, required: [path] }\n---\nWork.\n").unwrap();
    /// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// let worker = project.worker("w").unwrap();
    /// assert_eq!(worker.input_schema().unwrap()["required"][0], "path");
    /// assert!(worker.output_schema().is_none());
    /// ```
    #[must_use]
    pub fn input_schema(&self) -> Option<&Json> {
        self.schemas().input.as_deref()
    }

    /// Returns the JSON Schema (draft 2020-12) of its answer; `None`: any text is an answer.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Json> {
        self.schemas().output.as_deref()
    }
}

impl Worker {
    /// Returns this worker with another schema of its answer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # std::fs::write(dir.path().join("workers/w.worker"), "---\nname: w\n---\nWork.\n").unwrap();
    /// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// # let worker = project.worker("w").unwrap();
    /// let schema = serde_json::json!({ "type": "array" });
    /// let worker = worker.answering(schema, |_| Vec::new()).unwrap();
    /// assert_eq!(worker.output_schema().unwrap()["type"], "array");
    /// let fetched = serde_json::json!({ "$ref": "https://example.com/a.json" });
    /// assert_eq!(worker.answering(fetched, |_| Vec::new()).unwrap_err()[0].at, "/$ref");
    /// ```
    ///
    /// # Errors
    /// The schema is invalid, or one that the worker's own file could not contain either.
    pub fn answering(
        mut self,
        schema: Json,
        check: SchemaCheck,
    ) -> Result<Worker, Vec<SchemaMistake>> {
        let mut mistakes = limits(&schema);
        if !schema.is_object() {
            mistakes.push(wrong("", "not a mapping"));
        } else if mistakes.is_empty() {
            mistakes = check(&schema);
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        self.schemas_mut().output = Some(Arc::new(schema));
        Ok(self)
    }
}

/// Read both.
pub(crate) fn schemas(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> Schemas {
    let input = top.get("input_schema").and_then(|entry| {
        let schema = schema(context, entry, "input_schema")?;
        if schema.get("type").is_none_or(|kind| kind != "object") {
            let message = "`input_schema` must be one of a mapping: `type: object`";
            let mistake = DiagnosticCode::BadValue.at(&entry.key_span, message);
            return context.refuse(
                mistake.help("it becomes the parameters of the worker's tool, which have names"),
            );
        }
        Some(schema)
    });
    let output = top
        .get("output_schema")
        .and_then(|entry| schema(context, entry, "output_schema"));
    Schemas {
        input: input.map(Arc::new),
        output: output.map(Arc::new),
    }
}

/// `None` if nothing is required (`{}`), or a mistake has been noted.
fn schema(context: &mut LoadContext<'_>, entry: &YamlEntry, key: &str) -> Option<Json> {
    let node = &entry.node;
    let (schema, place) = match &node.value {
        YamlValue::Map(_) => (inline(context, node)?, SchemaSource::Inline(node)),
        YamlValue::Str(file) => {
            let (schema, text) = from_file(context, file, node, key)?;
            (schema, SchemaSource::File(text))
        }
        _ => {
            let expected = "a JSON Schema, or a file that holds one";
            return context.refuse(fields::wrong_type(node, key, expected));
        }
    };
    if schema.as_object().is_some_and(serde_json::Map::is_empty) {
        return None;
    }
    let mut mistakes = limits(&schema);
    if mistakes.is_empty()
        && let Some(check) = context.sources.schema_check
    {
        mistakes = check(&schema);
    }
    let is_valid = mistakes.is_empty();
    /// A schema that is none at all is wrong everywhere.
    const MOST: usize = 8;
    for SchemaMistake { at, problem } in mistakes.into_iter().take(MOST) {
        let message = match at.as_str() {
            "" => format!("`{key}` is not a JSON Schema: {problem}"),
            at => format!("`{key}` is not a JSON Schema at {at}: {problem}"),
        };
        let bad = DiagnosticCode::BadValue.error(message);
        context.report(match &place {
            SchemaSource::Inline(node) => bad.at(find(node, &at)),
            SchemaSource::File(text) => {
                bad.at(&Span::start(text)).related(&node.span, "named here")
            }
        });
    }
    is_valid.then_some(schema)
}

enum SchemaSource<'n> {
    Inline(&'n YamlNode),
    File(Arc<SourceText>),
}

/// Each key once: the effective one of two must not depend on the reader.
fn inline(context: &mut LoadContext<'_>, node: &YamlNode) -> Option<Json> {
    let before = context.reports.errors();
    once(context, node);
    (context.reports.errors() == before).then(|| node.to_json())
}

fn once(context: &mut LoadContext<'_>, node: &YamlNode) {
    match &node.value {
        YamlValue::Map(_) => {
            let entries = fields::free_mapping(&mut context.reports, node, "");
            for entry in entries.unwrap_or_default() {
                once(context, &entry.node);
            }
        }
        YamlValue::List(items) => items.iter().for_each(|item| once(context, item)),
        _ => {}
    }
}

/// A file below the project, by a path from there, as everything that a project names.
fn from_file(
    context: &mut LoadContext<'_>,
    file: &str,
    node: &YamlNode,
    key: &str,
) -> Option<(Json, Arc<SourceText>)> {
    let path = Path::new(file);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let below = context.dir.join(path);
    let refuse = |why: &str| {
        DiagnosticCode::HostPath.at(&node.span, format!("`{key}: {file}`: {why}"))
            .help("write the schema itself, or the path of a JSON file from the project's directory on")
    };
    if file.is_empty() || file.contains('\0') || !plain {
        return context.refuse(refuse("not a file below the project"));
    }
    // Its contents are shown to models: a link must not lead to a foreign file.
    match below.canonicalize() {
        Ok(real) if !real.starts_with(context.dir) => {
            return context.refuse(refuse("it leads out of the project"));
        }
        Ok(_) => {}
        Err(error) => {
            let message = format!("cannot read `{file}`: {error}");
            return context.refuse(DiagnosticCode::Unreadable.at(&node.span, message));
        }
    }
    let text = context.reports.take(read(&below, file, Layer::Project))?;
    Some((parse_file(context, file, &text, node)?, text))
}

/// Parses the text of a schema file.
fn parse_file(
    context: &mut LoadContext<'_>,
    file: &str,
    text: &Arc<SourceText>,
    node: &YamlNode,
) -> Option<Json> {
    match serde_json::from_str(&text.text) {
        Ok(Json::Object(map)) => Some(Json::Object(map)),
        Ok(_) => context.refuse(
            DiagnosticCode::WrongType
                .at(&Span::start(text), format!("`{file}` must hold a mapping"))
                .related(&node.span, "named here"),
        ),
        Err(error) => {
            let clamp = |number| u32::try_from(number).unwrap_or(u32::MAX);
            let at = text.inside(clamp(error.line()), clamp(error.column()));
            let message = format!("`{file}` is not JSON: {error}");
            context.refuse(
                DiagnosticCode::Syntax
                    .at(&at, message)
                    .related(&node.span, "named here"),
            )
        }
    }
}

/// More than a model reads before every answer.
const MAX_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 32;

/// The checks of every schema, with any validator.
fn limits(schema: &Json) -> Vec<SchemaMistake> {
    let mut mistakes = Vec::new();
    if schema.to_string().len() > MAX_BYTES {
        mistakes.push(SchemaMistake {
            at: String::new(),
            problem: format!("it is longer than {} KiB", MAX_BYTES / 1024),
        });
        return mistakes;
    }
    below(schema, &mut String::new(), 0, &mut mistakes);
    mistakes
}

fn below(value: &Json, at: &mut String, depth: usize, mistakes: &mut Vec<SchemaMistake>) {
    if depth > MAX_DEPTH {
        return mistakes.push(wrong(at, "it is nested more than 32 deep"));
    }
    let here = at.len();
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                at.push('/');
                at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef", Json::String(to)) if !to.starts_with('#') => {
                        mistakes.push(wrong(
                            at,
                            "it refers to another document, and none is fetched: write `#/$defs/…`",
                        ));
                    }
                    ("$schema", Json::String(dialect)) if !is_dialect(dialect) => {
                        mistakes.push(wrong(at, "only draft 2020-12 is read"));
                    }
                    _ => below(value, at, depth + 1, mistakes),
                }
                at.truncate(here);
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                below(item, at, depth + 1, mistakes);
                at.truncate(here);
            }
        }
        _ => {}
    }
}

fn wrong(at: &str, problem: &str) -> SchemaMistake {
    SchemaMistake {
        at: at.to_owned(),
        problem: problem.to_owned(),
    }
}

fn is_dialect(uri: &str) -> bool {
    uri.trim_end_matches('#') == "https://json-schema.org/draft/2020-12/schema"
}

/// Returns the location of a JSON pointer, or of the nearest existing parent.
fn find<'n>(node: &'n YamlNode, pointer: &str) -> &'n Span {
    let mut at = node;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let next = match &at.value {
            YamlValue::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == part)
                .map(|entry| &entry.node),
            YamlValue::List(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    &at.span
}
