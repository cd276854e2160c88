//! `input_schema` and `output_schema`: inline or in a file of the project, and checked by whoever
//! knows what a valid schema is.

use sandbox_config::{SchemaMistake, load};
use serde_json::{Value, json};

use crate::support::{Scratch, codes};

/// The judge of a program: here the one that tests use.
fn judge(schema: &Value) -> Vec<SchemaMistake> {
    jsonschema::meta::validator_for(schema)
        .unwrap()
        .iter_errors(schema)
        .map(|error| SchemaMistake {
            at: error.instance_path().to_string(),
            problem: error.to_string(),
        })
        .collect()
}

fn worker(front: &str) -> Scratch {
    let text = format!("---\nname: w\n{front}\n---\nWork.\n");
    Scratch::new().file("workers/w.worker", text)
}

#[test]
fn a_file_of_the_project_holds_one() {
    let scratch = worker("output_schema_ref: ./schemas/out.json")
        .file("schemas/out.json", "\t{\"type\": \"array\"}\n");
    let worker = scratch.load().unwrap().worker("w").unwrap();
    assert_eq!(worker.output_schema(), Some(&json!({"type": "array"})));
    assert_eq!(worker.input_schema(), None);
}

#[test]
fn a_link_leads_to_nobody_elses_file() {
    let outside = Scratch::new().file("secret.json", "{}");
    let target = outside.path().join("secret.json");
    let scratch = worker("output_schema: out.json").link(target.to_str().unwrap(), "out.json");
    let mistakes = scratch.load().unwrap().worker("w").unwrap_err();
    assert_eq!(codes(&mistakes), ["config.host_path"]);
}

#[test]
fn what_is_no_schema_is_shown_in_its_place() {
    let front = "\
input_schema:
  type: object
  properties:
    path: { type: strin }
output_schema: out.json";
    let scratch = worker(front).file("out.json", "{\"required\": true}");
    let mut sources = scratch.sources();
    // Nobody who knows: nothing is said.
    assert!(load(&sources).unwrap().worker("w").is_ok());
    sources.schema_check = Some(judge);
    let mistakes = load(&sources).unwrap().worker("w").unwrap_err();
    let places: Vec<_> = mistakes
        .iter()
        .map(|one| {
            (
                one.file().unwrap(),
                one.line().unwrap(),
                one.column().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        places,
        [("out.json", 1, 1), ("workers/w.worker", 6, 19)],
        "{mistakes}"
    );
    assert_eq!(codes(&mistakes), ["config.bad_value", "config.bad_value"]);
}

#[test]
fn a_schema_has_bounds() {
    let deep = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
    let long = format!("{{\"description\": \"{}\"}}", "x".repeat(70_000));
    for text in [deep, long] {
        let scratch = worker("output_schema: out.json").file("out.json", text);
        let mistakes = scratch.load().unwrap().worker("w").unwrap_err();
        assert_eq!(codes(&mistakes), ["config.bad_value"]);
    }
    // serde_json has a depth of its own.
    let endless = "[".repeat(100_000);
    let scratch = worker("output_schema: out.json").file("out.json", endless);
    let mistakes = scratch.load().unwrap().worker("w").unwrap_err();
    assert_eq!(codes(&mistakes), ["config.syntax"]);
}
