//! What makes a JSON Schema valid, for whoever loads a project: `sandbox-config` carries no
//! validator along, and this crate has one for answers anyway.

use jsonschema::Draft;
use sandbox_config::SchemaMistake;
use serde_json::Value;

/// Everything that is wrong with a schema of draft 2020-12; nothing is fetched.
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
    // What fits the schema of schemas and still cannot be used: a pattern that does not parse, a
    // reference to nothing.
    match jsonschema::options()
        .with_draft(Draft::Draft202012)
        .build(schema)
    {
        Ok(_) => Vec::new(),
        Err(error) => vec![SchemaMistake {
            at: error.instance_path().to_string(),
            problem: error.to_string(),
        }],
    }
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
