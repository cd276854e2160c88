//! The list of tools as clients get it.

use std::sync::Arc;

use forge_tools::{OutputSchema, Spec};
use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::Service;

/// Key of the tool's risk in `_meta`, for policy engines in front of forge.
const RISK_KEY: &str = "dev.forge/risk";

/// Everything that is offered, in a fixed order.
pub(super) fn list(service: &Service) -> Vec<Tool> {
    match service {
        Service::Tools(toolbox) => toolbox.specs().map(advertise).collect(),
        Service::Broken { .. } => Vec::new(),
    }
}

fn advertise(spec: &Spec) -> Tool {
    let hints = spec.annotations;
    let mut meta = Map::new();
    meta.insert(RISK_KEY.to_owned(), json!(spec.risk));
    let tool = Tool::new(
        spec.name.clone(),
        spec.description.clone(),
        Arc::new(object(spec.params.to_json_schema())),
    )
    .with_annotations(
        ToolAnnotations::new()
            .read_only(hints.read_only)
            .destructive(hints.destructive)
            .idempotent(hints.idempotent)
            .open_world(hints.open_world),
    )
    .with_meta(MetaObject(meta));
    match spec.output.as_ref().filter(|output| !output.is_list()) {
        Some(output) => tool.with_raw_output_schema(Arc::new(result_schema(output))),
        None => tool,
    }
}

/// The schema of every result, failures included: clients check the structure of a failure against
/// the schema too, so a schema of successes alone would make each failure look like a fault of this
/// server.
fn result_schema(output: &OutputSchema) -> Map<String, Value> {
    let mut schema = object(output.to_json_schema());
    let fields = schema.remove("required").unwrap_or_else(|| json!([]));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for name in ["code", "message", "hint", "path"] {
            properties
                .entry(name)
                .or_insert_with(|| json!({"type": "string"}));
        }
    }
    schema.insert(
        "anyOf".to_owned(),
        json!([{"required": fields}, {"required": ["code", "message"]}]),
    );
    schema
}

fn object(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}
