//! Any JSON as calls of the executor, one after the other: an answer to each, in bounds, that
//! names no place of the host; and the next call is answered as if nothing had been.
//!
//! An input is `[tool, arguments]` a line, as JSON. What is no such line makes a call as well: its
//! first byte chooses the tool, its parts (between bytes 0) the arguments.
#![no_main]

use std::sync::OnceLock;

use forge_tools::{CallRequest, CommandLine, Toolbox};
use forge_tools_fuzz::{check, toolbox};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

/// More calls only take longer.
const MAX_CALLS: usize = 16;

fuzz_target!(|input: &[u8]| {
    // One for all inputs: its threads take longer to start than most calls.
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let new = || tokio::runtime::Builder::new_current_thread().build();
    let runtime = RUNTIME.get_or_init(|| new().expect("a runtime"));
    runtime.block_on(async {
        let toolbox = toolbox();
        for line in input.split(|byte| *byte == b'\n').take(MAX_CALLS) {
            let (tool, arguments) = call(&toolbox, line);
            look_at_commands(&arguments);
            let asked = format!("{tool} {arguments}");
            let result = toolbox.call(CallRequest::new(&tool, arguments)).await;
            check(&asked, &result);
        }
        let known = json!({"path": "/data/readme.md"});
        let result = toolbox.call(CallRequest::new("read_file", known)).await;
        assert_eq!(result.content, "hello\nworld\n");
    });
});

fn call(toolbox: &Toolbox, line: &[u8]) -> (String, Value) {
    match serde_json::from_slice(line) {
        Ok(Value::Array(mut pair)) if pair.len() == 2 => {
            let arguments = pair.remove(1);
            match pair.remove(0) {
                Value::String(tool) => (tool, arguments),
                other => (other.to_string(), arguments),
            }
        }
        Ok(other) => ("read_file".to_owned(), other),
        Err(_) => assemble(toolbox, line),
    }
}

/// A call of a tool that there is, with arguments of names that it knows.
fn assemble(toolbox: &Toolbox, line: &[u8]) -> (String, Value) {
    let specs: Vec<_> = toolbox.specs().collect();
    let (first, rest) = line.split_first().unwrap_or((&0, &[]));
    let spec = specs[usize::from(*first) % specs.len()];
    let schema = spec.params.to_json_schema();
    let properties = schema["properties"]
        .as_object()
        .expect("an object of properties");
    let mut arguments = Map::new();
    for part in rest.split(|byte| *byte == 0) {
        let Some((which, value)) = part.split_first() else {
            continue;
        };
        let at = usize::from(*which) % properties.len().max(1);
        if let Some((name, schema)) = properties.iter().nth(at) {
            let text = String::from_utf8_lossy(value).into_owned();
            let value = match schema["type"].as_str() {
                Some("integer") => value.first().map_or(Value::Null, |n| json!(n)),
                Some("boolean") => json!(value.len() % 2 == 0),
                _ => json!(text),
            };
            arguments.insert(name.clone(), value);
        }
    }
    (spec.name.clone(), Value::Object(arguments))
}

/// Nothing is run here, but whatever could be a command is taken apart.
fn look_at_commands(arguments: &Value) {
    let Value::Object(fields) = arguments else {
        return;
    };
    for text in fields.values().filter_map(Value::as_str) {
        if let Ok(line) = CommandLine::parse(text) {
            assert!(
                !line.segments().is_empty(),
                "a command without a segment: {text:?}"
            );
        }
    }
}
