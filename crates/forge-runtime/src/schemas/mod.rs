//! Validation of JSON Schemas for the loader of a project: `sandbox-config` has no validator, and
//! this crate needs one for answers.

mod size;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use sandbox_config::SchemaMistake;
use serde_json::Value;

/// Returns all mistakes in a schema of draft 2020-12; references are not fetched.
///
/// ```
/// use forge_runtime::schema_mistakes;
/// use serde_json::json;
///
/// assert!(schema_mistakes(&json!({ "type": "object", "required": ["path"] })).is_empty());
/// let wrong = schema_mistakes(&json!({ "properties": { "path": { "type": "strin" } } }));
/// assert_eq!(wrong[0].at, "/properties/path/type");
/// ```
pub fn schema_mistakes(schema: &Value) -> Vec<SchemaMistake> {
    let mistakes: Vec<SchemaMistake> = jsonschema::draft202012::meta::validator()
        .iter_errors(schema)
        .map(|error| SchemaMistake {
            at: error.instance_path().to_string(),
            problem: error.to_string(),
        })
        .collect();
    if !mistakes.is_empty() {
        return mistakes;
    }
    match compiled(schema) {
        Ok(_) => Vec::new(),
        Err(mistake) => vec![mistake],
    }
}

/// A schema to check values with, and how large it is with every reference written out.
pub(crate) struct CompiledSchema {
    pub(crate) validator: Validator,
    pub(crate) size: u64,
}

/// # Errors
///
/// If the schema is valid but unusable: a pattern that does not parse, a reference without a
/// target, too much work.
pub(crate) fn compiled(schema: &Value) -> Result<CompiledSchema, SchemaMistake> {
    let mistake = |problem: String| SchemaMistake {
        at: String::new(),
        problem,
    };
    let size = size::size(schema);
    if let Some(problem) = size.problem() {
        return Err(mistake(problem));
    }
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        // The other engine backtracks: a short pattern may take it exponential time.
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error: ValidationError<'_>| SchemaMistake {
            at: error.instance_path().to_string(),
            problem: error.to_string(),
        })?;
    if size.is_open {
        let problem = "it has a reference that is not followed: write `#/$defs/…`";
        return Err(mistake(problem.to_owned()));
    }
    Ok(CompiledSchema {
        validator,
        size: size.values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_schema() {
        for (schema, at) in [
            (json!({"type": "strin"}), "/type"),
            (json!({"required": true}), "/required"),
            (json!({"items": {"pattern": "("}}), "/items/pattern"),
            (json!({"items": {"pattern": "(?=a)a"}}), "/items/pattern"),
            (json!({"items": {"pattern": "(a)\\1"}}), "/items/pattern"),
            (json!({"$ref": "#/$defs/absent"}), ""),
        ] {
            let mistakes = schema_mistakes(&schema);
            assert!(
                mistakes.iter().any(|one| one.at.starts_with(at)),
                "{schema}: {mistakes:?}"
            );
        }
        for schema in [
            json!({}),
            json!({"type": ["string", "null"]}),
            json!({"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"}),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}),
        ] {
            assert_eq!(schema_mistakes(&schema), [], "{schema}");
        }
    }
}
