//! The structured result of a tool: one table that is the output schema for programs and the check
//! of the tool's real results, so that the two cannot drift apart.

use serde_json::{Map, Value, json};

/// The type of one field.
///
/// ```
/// use forge_tools::{Field, OutputSchema};
/// let output = OutputSchema::new([Field::text("path"), Field::integer("bytes")]);
/// assert_eq!(output.to_json_schema()["properties"]["bytes"]["type"], "integer");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    TextList,
    /// A list of objects.
    Objects(OutputSchema),
}

/// One field of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    kind: FieldKind,
    optional: bool,
}

impl Field {
    fn new(name: &'static str, kind: FieldKind) -> Self {
        Field {
            name,
            kind,
            optional: false,
        }
    }

    /// A string.
    pub fn text(name: &'static str) -> Self {
        Field::new(name, FieldKind::Text)
    }

    /// A whole number.
    pub fn integer(name: &'static str) -> Self {
        Field::new(name, FieldKind::Integer)
    }

    /// `true` or `false`.
    pub fn flag(name: &'static str) -> Self {
        Field::new(name, FieldKind::Flag)
    }

    /// A list of strings.
    pub fn text_list(name: &'static str) -> Self {
        Field::new(name, FieldKind::TextList)
    }

    /// A list of objects.
    pub fn objects(name: &'static str, each: OutputSchema) -> Self {
        Field::new(name, FieldKind::Objects(each))
    }

    /// It may be missing or null.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn schema(&self) -> Value {
        let kind = match &self.kind {
            FieldKind::Text => "string",
            FieldKind::Integer => "integer",
            FieldKind::Flag => "boolean",
            FieldKind::TextList => {
                return json!({"type": "array", "items": {"type": "string"}});
            }
            FieldKind::Objects(each) => {
                return json!({"type": "array", "items": each.to_json_schema()});
            }
        };
        if self.optional {
            // Not a list of types: clients that hand schemas on to models know one type a place.
            json!({"anyOf": [{"type": kind}, {"type": "null"}]})
        } else {
            json!({"type": kind})
        }
    }

    fn check(&self, value: &Value, at: &str) -> Result<(), String> {
        let fits = match (&self.kind, value) {
            (_, Value::Null) => self.optional,
            (FieldKind::Text, Value::String(_)) | (FieldKind::Flag, Value::Bool(_)) => true,
            (FieldKind::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
            (FieldKind::TextList, Value::Array(items)) => items.iter().all(Value::is_string),
            (FieldKind::Objects(each), Value::Array(items)) => {
                return items.iter().try_for_each(|item| each.check_at(item, at));
            }
            (
                FieldKind::Text
                | FieldKind::Integer
                | FieldKind::Flag
                | FieldKind::TextList
                | FieldKind::Objects(_),
                _,
            ) => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("`{at}` is not {:?}", self.kind))
        }
    }
}

/// All fields of a tool's structured result.
///
/// ```
/// use forge_tools::{Field, OutputSchema};
/// use serde_json::json;
///
/// let output = OutputSchema::new([Field::text("path"), Field::flag("more").optional()]);
/// assert!(output.check(&json!({"path": "/a"})).is_ok());
/// assert!(output.check(&json!({"path": 1})).is_err());
/// assert!(output.check(&json!({"path": "/a", "size": 1})).is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputSchema {
    fields: Vec<Field>,
}

impl OutputSchema {
    /// A table of fields.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Self {
        OutputSchema {
            fields: fields.into_iter().collect(),
        }
    }

    /// JSON Schema (2020-12) of the result.
    pub fn to_json_schema(&self) -> Value {
        let properties: Map<String, Value> = self
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), field.schema()))
            .collect();
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|field| !field.optional)
            .map(|field| field.name)
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// Checks that a result matches the table.
    ///
    /// # Errors
    ///
    /// The first field that is missing, unknown or of another type.
    pub fn check(&self, result: &Value) -> Result<(), String> {
        self.check_at(result, "result")
    }

    /// Returns `true` if it is a list of things, which the text of the result has line by line.
    /// Clients are sent such a result once, as text: they pass on either that or the structure, and
    /// it is long.
    pub fn is_list(&self) -> bool {
        let is_list = |field: &Field| matches!(field.kind, FieldKind::Objects(_));
        self.fields.iter().any(is_list)
    }

    fn check_at(&self, result: &Value, at: &str) -> Result<(), String> {
        let Value::Object(given) = result else {
            return Err(format!("`{at}` is not an object"));
        };
        for field in &self.fields {
            let at = format!("{at}.{}", field.name);
            match given.get(field.name) {
                Some(value) => field.check(value, &at)?,
                None if field.optional => {}
                None => return Err(format!("`{at}` is missing")),
            }
        }
        let known = |name: &String| self.fields.iter().any(|field| field.name == name);
        match given.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("`{at}.{name}` is in no schema")),
            None => Ok(()),
        }
    }
}
