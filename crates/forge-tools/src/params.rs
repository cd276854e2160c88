//! A tool's parameters: one table that is both the JSON Schema a model reads and
//! the check its arguments must pass, so that the two cannot drift apart.
//!
//! A model gets every complaint about its call at once; one complaint a round
//! costs it a turn each.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::call_result::{CallFailure, FailureCode};
use crate::redact::{Redactor, UnknownPlaceholder, first_placeholder};

/// The type of one parameter.
///
/// ```
/// use forge_tools::{Param, Params};
/// let params = Params::new([Param::text("path", "Path to read").required()]);
/// assert_eq!(params.to_json_schema()["properties"]["path"]["type"], "string");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamKind {
    /// A string.
    Text,
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest accepted value.
        min: i64,
        /// Largest accepted value.
        max: i64,
    },
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    TextList {
        /// Most entries accepted.
        max_items: usize,
    },
}

impl ParamKind {
    /// A whole number that is not negative.
    const INTEGER: ParamKind = ParamKind::Integer {
        min: 0,
        max: MAX_EXACT,
    };
}

/// Most entries of a list that says nothing else.
const MAX_ITEMS: usize = 1000;

/// A Rust type of an argument.
pub trait ArgumentType {
    /// The values that a call may give.
    const KIND: ParamKind;
    /// `true` if a call without it is refused.
    const IS_REQUIRED: bool = false;
}

impl ArgumentType for String {
    const KIND: ParamKind = ParamKind::Text;
    const IS_REQUIRED: bool = true;
}

impl ArgumentType for Vec<String> {
    const KIND: ParamKind = ParamKind::TextList {
        max_items: MAX_ITEMS,
    };
    const IS_REQUIRED: bool = true;
}

impl ArgumentType for bool {
    const KIND: ParamKind = ParamKind::Flag;
}

impl ArgumentType for u64 {
    const KIND: ParamKind = ParamKind::INTEGER;
}

impl ArgumentType for usize {
    const KIND: ParamKind = ParamKind::INTEGER;
}

impl<T: ArgumentType> ArgumentType for Option<T> {
    const KIND: ParamKind = T::KIND;
}

/// A struct with a field for each parameter; [`arguments!`](crate::arguments) defines it.
pub trait ToolArguments {
    /// Returns the parameters, in the order of the fields.
    fn params() -> Params;
}

/// Declares the arguments of a tool as one table: a row is a field with its type, the description
/// of the parameter, and methods of [`Param`].
///
/// ```
/// use forge_tools::ToolArguments;
///
/// forge_tools::arguments! {
///     /// The arguments of `head`.
///     struct Head {
///         path: String = "Path to read";
///         lines: Option<u64> = "Most lines.", between(1, 100).default(10);
///     }
/// }
/// let schema = Head::params().to_json_schema();
/// assert_eq!(schema["required"], serde_json::json!(["path"]));
/// assert_eq!(schema["properties"]["lines"]["maximum"], 100);
/// ```
#[macro_export]
macro_rules! arguments {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($field:ident: $type:ty = $description:expr $(, $method:ident($($value:expr),*) $(.$more:ident($($other:expr),*))*)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Default, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $name {
            $($field: $type,)*
        }

        impl $crate::ToolArguments for $name {
            fn params() -> $crate::Params {
                $crate::Params::new([$(
                    $crate::Param::of::<$type>(stringify!($field), $description)
                        $(.$method($($value),*) $(.$more($($other),*))*)?,
                )*])
            }
        }
    };
}

/// One parameter of a tool.
#[derive(Debug, Clone)]
pub struct Param {
    name: &'static str,
    alias: Option<&'static str>,
    description: &'static str,
    kind: ParamKind,
    required: bool,
    default: Option<Value>,
    of_a_file: bool,
}

/// The largest whole number below which a double holds every one. Clients read JSON into doubles and
/// would send a larger bound back as another number.
const MAX_EXACT: i64 = (1 << 53) - 1;

/// The first whole number that is no `i64`.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

impl Param {
    fn new(name: &'static str, description: &'static str, kind: ParamKind) -> Self {
        Param {
            name,
            alias: None,
            description,
            kind,
            required: false,
            default: None,
            of_a_file: false,
        }
    }

    /// The parameter that a field of this type is (see [`arguments!`](crate::arguments)); a field
    /// can be called `r#type`.
    pub fn of<T: ArgumentType>(field: &'static str, description: &'static str) -> Self {
        let name = field.strip_prefix("r#").unwrap_or(field);
        Param {
            required: T::IS_REQUIRED,
            ..Param::new(name, description, T::KIND)
        }
    }

    /// A string parameter.
    pub fn text(name: &'static str, description: &'static str) -> Self {
        Param::new(name, description, ParamKind::Text)
    }

    /// A whole-number parameter; both bounds are accepted values. Bounds beyond ±(2⁵³ - 1), which not
    /// every client can read, are narrowed to it.
    pub fn integer(name: &'static str, description: &'static str, min: i64, max: i64) -> Self {
        Param::new(name, description, ParamKind::INTEGER).between(min, max)
    }

    /// Gives a whole number other bounds, as [`integer`](Param::integer) does.
    pub fn between(mut self, min: i64, max: i64) -> Self {
        self.kind = ParamKind::Integer {
            min: min.clamp(-MAX_EXACT, MAX_EXACT),
            max: max.clamp(-MAX_EXACT, MAX_EXACT),
        };
        self
    }

    /// A parameter that is `true` or `false`.
    pub fn flag(name: &'static str, description: &'static str) -> Self {
        Param::new(name, description, ParamKind::Flag)
    }

    /// A list of strings.
    pub fn text_list(name: &'static str, description: &'static str, max_items: usize) -> Self {
        Param::new(name, description, ParamKind::TextList { max_items })
    }

    /// The call is refused without it.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Marks the parameter as text of a file: a placeholder in it is replaced by the value behind
    /// it (see [`Redactor`](crate::Redactor)).
    pub fn of_a_file(mut self) -> Self {
        self.of_a_file = true;
        self
    }

    sandbox_names::setters! {
        /// Sets the value that the tool assumes if the parameter is left out (shown to the model).
        default(value: impl Into<Value>) = Some(value.into());
        /// Another accepted spelling (camelCase, as some models write it).
        alias(alias: &'static str) = Some(alias);
    }

    fn schema(&self) -> Value {
        let mut schema = match &self.kind {
            ParamKind::Text => json!({"type": "string"}),
            ParamKind::Integer { min, max } => {
                json!({"type": "integer", "minimum": min, "maximum": max})
            }
            ParamKind::Flag => json!({"type": "boolean"}),
            ParamKind::TextList { max_items } => {
                json!({"type": "array", "items": {"type": "string"}, "maxItems": max_items})
            }
        };
        schema["description"] = self.description.into();
        if let Some(default) = &self.default {
            schema["default"] = default.clone();
        }
        schema
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        match &self.kind {
            ParamKind::Text => match value {
                Value::String(_) => Ok(()),
                other => Err(format!("must be a string, not {}", kind_of(other))),
            },
            ParamKind::Integer { min, max } => match value.as_i64() {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                Some(number) => Err(format!("must be between {min} and {max}, not {number}")),
                // A whole number, and more than fits.
                None if value
                    .as_f64()
                    .is_some_and(|number| number.abs() >= TOO_LARGE) =>
                {
                    Err(format!("must be between {min} and {max}, not {value}"))
                }
                None => Err(format!("must be a whole number, not {}", kind_of(value))),
            },
            ParamKind::Flag => match value {
                Value::Bool(_) => Ok(()),
                other => Err(format!("must be true or false, not {}", kind_of(other))),
            },
            ParamKind::TextList { max_items } => match value {
                Value::Array(items) if items.len() > *max_items => Err(format!(
                    "must have at most {max_items} entries, not {}",
                    items.len()
                )),
                Value::Array(items) if items.iter().all(Value::is_string) => Ok(()),
                Value::Array(_) => Err("must be a list of strings".to_owned()),
                other => Err(format!("must be a list of strings, not {}", kind_of(other))),
            },
        }
    }
}

/// All parameters of a tool.
///
/// ```
/// use forge_tools::{Param, Params};
/// use serde_json::json;
///
/// let params = Params::new([Param::text("path", "Path to read").required()]);
/// assert!(params.parse(&json!({"path": "/a"})).is_ok());
///
/// let complaints = params.parse(&json!({"pth": "/a"})).unwrap_err();
/// assert_eq!(complaints.len(), 2); // one missing, one unknown
/// ```
#[derive(Debug, Clone, Default)]
pub struct Params {
    fields: Vec<Param>,
    /// In place of the fields.
    schema: Option<CheckedSchema>,
}

/// A JSON Schema and its validator.
#[derive(Clone)]
struct CheckedSchema {
    text: Value,
    check: Arc<ArgumentCheck>,
}

type ArgumentCheck = dyn Fn(&Value) -> Result<(), Vec<String>> + Send + Sync;

impl std::fmt::Debug for CheckedSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl Params {
    /// A table of parameters.
    pub fn new(fields: impl IntoIterator<Item = Param>) -> Self {
        Params {
            fields: fields.into_iter().collect(),
            schema: None,
        }
    }

    /// Parameters that a JSON Schema of an object describes. `check` holds arguments
    /// against it, and says all that is wrong with them. It may block, within bounds of its own:
    /// a toolbox calls it on a thread for that.
    ///
    /// ```
    /// use forge_tools::Params;
    /// use serde_json::json;
    /// let schema = json!({"type": "object", "required": ["n"]});
    /// let params = Params::of_schema(schema, |arguments| match arguments.get("n") {
    ///     Some(_) => Ok(()),
    ///     None => Err(vec!["`n` is missing".to_owned()]),
    /// });
    /// assert!(params.parse(&json!({"n": 1})).is_ok());
    /// assert_eq!(params.parse(&json!({})).unwrap_err()[0].to_string(), "`n` is missing");
    /// ```
    pub fn of_schema(
        schema: Value,
        check: impl Fn(&Value) -> Result<(), Vec<String>> + Send + Sync + 'static,
    ) -> Self {
        Params {
            fields: Vec::new(),
            schema: Some(CheckedSchema {
                text: schema,
                check: Arc::new(check),
            }),
        }
    }

    /// JSON Schema (2020-12) of the arguments object.
    pub fn to_json_schema(&self) -> Value {
        if let Some(schema) = &self.schema {
            return schema.text.clone();
        }
        let properties: Map<String, Value> = self
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), field.schema()))
            .collect();
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.name)
            .collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Returns `true` if a schema describes them, against which holding arguments may block.
    pub(crate) fn are_a_schema(&self) -> bool {
        self.schema.is_some()
    }

    /// Checks `arguments` against the table.
    ///
    /// A `null` counts as a parameter that was left out, as several models send it.
    ///
    /// # Errors
    ///
    /// Every complaint at once, in the order of the table, unknown names last.
    pub fn parse(&self, arguments: &Value) -> Result<Arguments, Vec<ArgumentError>> {
        let Value::Object(given) = arguments else {
            return Err(vec![ArgumentError {
                name: None,
                text: format!("arguments must be an object, not {}", kind_of(arguments)),
            }]);
        };
        if let Some(schema) = &self.schema {
            let about = |text| ArgumentError { name: None, text };
            return match (schema.check)(arguments) {
                Ok(()) => Ok(Arguments(given.clone())),
                Err(problems) => Err(problems.into_iter().map(about).collect()),
            };
        }
        let mut complaints = Vec::new();
        let mut accepted = Map::new();
        for field in &self.fields {
            let by_name = given.get(field.name).filter(|value| !value.is_null());
            let by_alias = field
                .alias
                .and_then(|alias| given.get(alias))
                .filter(|value| !value.is_null());
            match (by_name, by_alias) {
                (Some(_), Some(_)) => complaints.push(ArgumentError::about(
                    field.name,
                    "is given twice, in two spellings".to_owned(),
                )),
                (Some(value), None) | (None, Some(value)) => match field.check(value) {
                    Ok(()) => {
                        accepted.insert(field.name.to_owned(), value.clone());
                    }
                    Err(text) => complaints.push(ArgumentError::about(field.name, text)),
                },
                (None, None) if field.required => {
                    complaints.push(ArgumentError::about(field.name, "is missing".to_owned()));
                }
                (None, None) => {}
            }
        }
        complaints.extend(self.unknown_names(given));
        if complaints.is_empty() {
            Ok(Arguments(accepted))
        } else {
            Err(complaints)
        }
    }

    /// Returns a complaint for each name that is not a parameter; none for the parameters of a
    /// schema, which its own check knows.
    ///
    /// ```
    /// # use forge_tools::{Param, Params};
    /// let given = serde_json::json!({"pth": "{{ input }}"});
    /// let found = Params::new([Param::text("path", "Path")]).unknown_names(given.as_object().unwrap());
    /// assert!(found[0].to_string().ends_with("did you mean `path`?"));
    /// ```
    pub fn unknown_names(&self, given: &Map<String, Value>) -> Vec<ArgumentError> {
        let names = given.keys().filter(|_| self.schema.is_none());
        let unknown = names.filter(|name| !self.knows(name));
        unknown.map(|name| self.unknown(name)).collect()
    }

    /// Returns the arguments with the values behind placeholders, where text of a file is given;
    /// `None` without placeholders.
    pub(crate) fn restore(
        &self,
        args: &Arguments,
        redactor: &Redactor,
    ) -> Result<Option<Arguments>, UnknownPlaceholder> {
        let mut restored = None;
        for field in self.fields.iter().filter(|field| field.of_a_file) {
            if let Some(text) = args.text(field.name)
                && let Cow::Owned(whole) = redactor.restore(text)?
            {
                let restored: &mut Arguments = restored.get_or_insert_with(|| args.clone());
                restored.0.insert(field.name.to_owned(), whole.into());
            }
        }
        Ok(restored)
    }

    /// Returns `true` if a parameter is text of a file.
    pub(crate) fn is_of_a_file(&self, name: &str) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|field| field.of_a_file && field.name == name)
    }

    fn knows(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|field| field.name == name || field.alias == Some(name))
    }

    fn unknown(&self, name: &str) -> ArgumentError {
        let names = self.fields.iter().map(|field| field.name);
        let text = match nearest(name, names.clone()) {
            Some(near) => format!("is not an argument of this tool; did you mean `{near}`?"),
            None => {
                let known: Vec<&str> = names.collect();
                format!(
                    "is not an argument of this tool; it takes: {}",
                    known.join(", ")
                )
            }
        };
        ArgumentError::about(&crate::escape_controls(name), text)
    }
}

/// The names of arguments that are paths.
const PATHS: [&str; 3] = ["path", "from", "to"];

/// Arguments that passed a tool's table; the only way to make them is
/// [`Params::parse`].
///
/// ```
/// use forge_tools::{Param, Params};
/// let args = Params::new([Param::text("path", "Path")])
///     .parse(&serde_json::json!({"path": "/a"}))
///     .unwrap();
/// assert_eq!(args.text("path"), Some("/a"));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Reads the arguments into a type whose fields are the parameters.
    ///
    /// # Errors
    ///
    /// The type does not read what the parameters accept, a fault of the tool.
    ///
    /// ```
    /// # use forge_tools::{Param, Params};
    /// #[derive(serde::Deserialize)]
    /// struct Read {
    ///     path: String,
    /// }
    /// let params = Params::new([Param::text("path", "Path").required()]);
    /// let args = params.parse(&serde_json::json!({"path": "/a"})).unwrap();
    /// assert_eq!(args.read::<Read>().unwrap().path, "/a");
    /// ```
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, CallFailure> {
        T::deserialize(&self.0).map_err(|error| {
            FailureCode::Internal.failure(format!("The tool does not read its arguments: {error}."))
        })
    }

    /// A string argument, if given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A list of strings; empty if not given.
    pub fn text_list(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        }
    }

    /// The arguments in one canonical form (advertised names, keys in order): the key of an
    /// approval "for the run".
    pub fn canonical(&self) -> String {
        let sorted: std::collections::BTreeMap<&String, &Value> = self.0.iter().collect();
        serde_json::to_string(&sorted).unwrap_or_default()
    }

    /// The canonical form with other texts for some paths. The content of a file is not a path,
    /// even where it reads like one: another text would be another call.
    pub(crate) fn canonical_with<'a>(&self, text: impl Fn(&str) -> Option<&'a str>) -> String {
        let mut arguments = self.clone();
        for name in PATHS {
            if let Some(value) = arguments.0.get_mut(name)
                && let Some(other) = value.as_str().and_then(&text)
            {
                *value = other.into();
            }
        }
        arguments.canonical()
    }

    /// The first placeholder of a secret in any of them.
    pub(crate) fn placeholder(&self) -> Option<&str> {
        self.0.values().find_map(|value| match value {
            Value::String(text) => first_placeholder(text),
            Value::Array(items) => items
                .iter()
                .filter_map(Value::as_str)
                .find_map(first_placeholder),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        })
    }

    /// The accepted arguments as JSON, advertised names.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// The arguments as JSON, with other words for some of them.
    pub(crate) fn to_json_but(&self, instead: impl Fn(&str) -> Option<String>) -> Value {
        let field = |(name, value): (&String, &Value)| {
            let value = instead(name).map_or_else(|| value.clone(), Value::from);
            (name.clone(), value)
        };
        Value::Object(self.0.iter().map(field).collect())
    }
}

/// A mistake in one argument.
///
/// ```
/// let params = forge_tools::Params::default();
/// let complaints = params.parse(&serde_json::json!(7)).unwrap_err();
/// assert_eq!(complaints[0].to_string(), "arguments must be an object, not a number");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    name: Option<String>,
    text: String,
}

impl ArgumentError {
    fn about(name: &str, text: String) -> Self {
        ArgumentError {
            name: Some(name.to_owned()),
            text,
        }
    }
}

impl std::fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}` {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Returns the most likely candidate, if any is close.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A cap, because the word is a model's and the distance is quadratic.
    if word.len() > 128 {
        return None;
    }
    candidates
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params::new([
            Param::text("path", "Path").required(),
            Param::integer("max_chars", "Most characters", 1, 100).alias("maxChars"),
            Param::flag("all", "All of them"),
            Param::text_list("names", "Names", 2),
        ])
    }

    fn complaints(arguments: Value) -> Vec<String> {
        match params().parse(&arguments) {
            Ok(_) => Vec::new(),
            Err(list) => list.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn every_complaint_is_reported_at_once() {
        assert_eq!(
            complaints(
                json!({"max_chars": 0, "all": 1, "names": ["a", 2], "pth": "x", "zzzzzz": 1})
            ),
            [
                "`path` is missing",
                "`max_chars` must be between 1 and 100, not 0",
                "`all` must be true or false, not a number",
                "`names` must be a list of strings",
                "`pth` is not an argument of this tool; did you mean `path`?",
                "`zzzzzz` is not an argument of this tool; it takes: path, max_chars, all, names",
            ]
        );
    }

    #[test]
    fn rows() {
        for (arguments, expected) in [
            (json!({"path": "/a"}), None),
            (json!({"path": "/a", "maxChars": 3}), None),
            (json!({"path": "/a", "max_chars": null}), None),
            (
                json!({"path": "/a", "max_chars": 3, "maxChars": 3}),
                Some("`max_chars` is given twice, in two spellings"),
            ),
            (json!({"path": null}), Some("`path` is missing")),
            (
                json!({"path": 1}),
                Some("`path` must be a string, not a number"),
            ),
            (
                json!({"path": "/a", "max_chars": 1.5}),
                Some("`max_chars` must be a whole number, not a number"),
            ),
            (
                json!({"path": "/a", "names": ["a", "b", "c"]}),
                Some("`names` must have at most 2 entries, not 3"),
            ),
            (json!([]), Some("arguments must be an object, not a list")),
        ] {
            assert_eq!(
                complaints(arguments.clone()).first().map(String::as_str),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn an_alias_arrives_under_the_advertised_name() {
        let args = params()
            .parse(&json!({"maxChars": 7, "path": "/a"}))
            .unwrap();
        assert_eq!(args.to_json()["max_chars"], 7);
        assert_eq!(args.canonical(), r#"{"max_chars":7,"path":"/a"}"#);
    }
}
