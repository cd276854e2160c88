//! Workers as tools: `forge tools list|call` shows and calls them as a run does, and what decides
//! about such a call.

use serde_json::{Value, json};

use crate::support::{Ran, World};

const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    workspace: { path: ./workspace }
";

const PLAY: &str = "\
version: 1
workers:
  reader:
    - calls: [{ tool: read_file, args: { path: /workspace/a.md }, as: text }]
    - say: 'read: {{ input }}'
";

fn worker(front: &str) -> String {
    format!("---\ndescription: x\nsandbox: {{ zones: [{{ name: workspace }}] }}\n{front}---\nGo.\n")
}

/// `main` may call `reader`, which calls nobody; `other` is nobody's to call.
fn world(project: &str) -> World {
    World::new(&[
        ("golem-forge.config.yaml", &format!("{PROJECT}{project}")),
        ("workers/main.worker", &worker("workers: [reader]\n")),
        ("workers/reader.worker", &worker("")),
        ("workers/other.worker", &worker("")),
        ("play.yaml", PLAY),
        ("workspace/a.md", "a\n"),
    ])
}

fn call(world: &World, tool: &str, arguments: &Value, flags: &[&str]) -> Ran {
    let arguments = arguments.to_string();
    let call = ["tools", "call", "--worker", "main", tool, &arguments];
    world.forge(&[&call, flags].concat())
}

#[test]
fn a_worker_s_tools_are_listed_with_the_workers_that_it_may_call() {
    let world = world("");
    let names = |worker: &str| -> Vec<String> {
        let listed = world.forge(&["--json", "tools", "list", "--worker", worker]);
        let listed: Value = serde_json::from_str(&listed.code(0).stdout).unwrap();
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .filter(|name| ["call_worker", "reader", "other", "main"].contains(&&**name))
            .collect()
    };
    assert_eq!(names("main"), ["call_worker", "reader"]);
    assert_eq!(names("reader"), [""; 0]);
}

#[test]
fn a_worker_is_called_with_the_records_of_a_call_from_a_run() {
    let world = world("");
    let model = ["--model", "scripted:play.yaml"];
    let called = call(&world, "reader", &json!({ "input": "it" }), &model);
    assert_eq!(called.code(0).stdout, "read: it\n");
    let named = json!({ "worker": "reader", "input": "again" });
    let named = call(&world, "call_worker", &named, &model);
    assert_eq!(named.code(0).stdout, "read: again\n");
    // What the worker itself called is in the same log, under both names.
    let shown = world.forge(&["log", "show", "last"]);
    let shown = &shown.code(0).stdout;
    assert!(shown.contains("main  call_worker"), "{shown}");
    assert!(shown.contains("main > reader  read_file"), "{shown}");
    world.forge(&["log", "verify", "last"]).code(0);
    // The delegation list decides here as in a run.
    let other = json!({ "worker": "other", "input": "x" });
    call(&world, "call_worker", &other, &model)
        .code(1)
        .says(&["Cannot call worker 'other': it is not among yours."]);
    let other = call(&world, "other", &json!({ "input": "x" }), &model);
    assert_ne!(other.code, 0);
}

#[test]
fn a_call_of_a_worker_without_a_model_says_that_it_needs_one() {
    let world = world("");
    let input = json!({ "input": "it" });
    call(&world, "reader", &input, &[]).code(2).says(&[
        "no model is configured",
        "--model",
        "FORGE_MODEL",
    ]);
    // Its other tools need none.
    call(
        &world,
        "read_file",
        &json!({ "path": "/workspace/a.md" }),
        &[],
    )
    .code(0);
    world.write(
        "workers/reader.worker",
        &worker("model: 'scripted:play.yaml'\n"),
    );
    call(&world, "reader", &input, &[]).code(0);
}
