//! Arguments that fit the parameters of a tool, for the check that it reads them.

use forge_tools::Tool;
use serde_json::{Map, Value, json};

/// Arguments by the schema: the required ones, or all of them; whole numbers at `bound`.
fn sample(tool: &dyn Tool, all: bool, bound: &str) -> Value {
    let schema = tool.spec().params.to_json_schema();
    let required = schema["required"].as_array().unwrap();
    let properties = schema["properties"].as_object().unwrap();
    let given = properties
        .iter()
        .filter(|(name, _)| all || required.contains(&json!(name)));
    let value = |property: &Value| match property["type"].as_str().unwrap() {
        "string" => json!("x"),
        "integer" => property[bound].clone(),
        "boolean" => json!(true),
        "array" => json!(["x", "y"]),
        other => panic!("{other}"),
    };
    let fields: Map<String, Value> = given
        .map(|(name, property)| (name.clone(), value(property)))
        .collect();
    fields.into()
}

/// Every argument that the parameters accept is read, and no other field is expected.
pub(crate) fn are_read(tools: &[Box<dyn Tool>]) {
    for tool in tools {
        for (all, bound) in [(false, "minimum"), (true, "minimum"), (true, "maximum")] {
            let arguments = sample(&**tool, all, bound);
            let args = tool.spec().params.parse(&arguments).unwrap();
            let read = tool.prepare(&args).err();
            assert_eq!(read, None, "{} {arguments}", tool.spec().name);
        }
    }
}
