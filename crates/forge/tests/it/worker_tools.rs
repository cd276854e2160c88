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

/// The configuration knows every file tool by name: none of them is asked for without files.
#[test]
fn a_file_tool_of_a_worker_without_files_is_a_mistake() {
    let tools = forge_tools::tools::file_tools();
    let names = tools.iter().map(|tool| tool.spec().name.as_str());
    let names: Vec<&str> = names.collect();
    let list = names.join(", ");
    let main = format!("---\ndescription: x\nsandbox: none\ntools: [{list}]\n---\nGo.\n");
    let world = World::new(&[
        ("golem-forge.config.yaml", PROJECT),
        ("workers/main.worker", &main),
    ]);
    let checked = world.forge(&["check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    for name in names {
        let mistake = format!("'main' asks for `{name}`, and it is shown no files");
        assert!(said.contains(&mistake), "{name}\n{said}");
    }
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

const RUNNING: [&str; 2] = ["--model", "scripted:play.yaml"];

/// What a call of `reader` comes to: 0 done, 1 blocked, 3 asked, and nobody is there.
fn calls(world: &World) -> [i32; 2] {
    let named = call(world, "reader", &json!({ "input": "it" }), &RUNNING);
    let general = json!({ "worker": "reader", "input": "it" });
    let general = call(world, "call_worker", &general, &RUNNING);
    [named.code, general.code]
}

#[test]
fn rules_decide_about_calls_of_a_worker_by_name_and_by_risk_whichever_tool_names_it() {
    let by_name =
        |word: &str| format!("approval: {{ require_user_permission: {{ reader: {word} }} }}\n");
    let by_risk = "require_user_permission_by_risk: { exec: true }";
    for (rules, code) in [
        (String::new(), 0),
        (by_name("true"), 3),
        (by_name("ask"), 3),
        (by_name("blocked"), 1),
        (by_name("preApproved"), 0),
        (format!("approval: {{ {by_risk} }}\n"), 3),
        (
            "approval: { require_user_permission_by_risk: { exec: blocked } }\n".to_owned(),
            1,
        ),
        // The name is more particular than the risk.
        (
            format!("approval: {{ {by_risk}, require_user_permission: {{ reader: false }} }}\n"),
            0,
        ),
        (
            "approval: { mode: deny, require_user_permission: { reader: ask } }\n".to_owned(),
            1,
        ),
    ] {
        let world = world(&rules);
        world.forge(&["--quiet", "trust", "--yes"]);
        assert_eq!(calls(&world), [code; 2], "{rules}");
    }
    // A rule about the tool that names workers is about that one only.
    let general = "approval: { require_user_permission: { call_worker: blocked } }\n";
    assert_eq!(calls(&world(general)), [0, 1]);
}

#[test]
fn the_caller_s_file_and_the_person_s_own_make_a_rule_stricter_and_never_milder() {
    let front = |rule: &str| format!("workers: [reader]\napproval: {rule}\n");
    for (project, own, user, code) in [
        (
            "",
            "{ require_user_permission: { reader: blocked } }",
            "",
            1,
        ),
        ("", "{ require_user_permission: { reader: ask } }", "", 3),
        (
            "",
            "{ require_user_permission_by_risk: { exec: blocked } }",
            "",
            1,
        ),
        (
            "",
            "{}",
            "approval: { require_user_permission: { reader: blocked } }",
            1,
        ),
        (
            "",
            "{}",
            "approval: { mode: auto, require_user_permission: { reader: blocked } }",
            1,
        ),
        (
            "approval: { require_user_permission: { reader: false } }\n",
            "{ require_user_permission: { reader: true } }",
            "approval: { require_user_permission: { reader: blocked, of_another_project: ask } }",
            1,
        ),
        (
            "approval: { mode: auto, require_user_permission: { reader: blocked } }\n",
            "{ require_user_permission: { reader: ask } }",
            "",
            1,
        ),
    ] {
        let world = world(project);
        world.write("workers/main.worker", &worker(&front(own)));
        let dir = world.outside().join("home/.config/forge");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.yaml"), format!("{user}\n")).unwrap();
        world.forge(&["--quiet", "trust", "--yes"]);
        assert_eq!(calls(&world), [code; 2], "{project}{own} {user}");
    }
    // A worker's file cannot say that nobody is asked.
    for word in ["false", "preApproved"] {
        let world = world("");
        let rule = format!("{{ require_user_permission: {{ reader: {word} }} }}");
        world.write("workers/main.worker", &worker(&front(&rule)));
        let refused = world.forge(&["check"]);
        refused
            .code(2)
            .says(&[&format!("`reader: {word}`: a worker can only ask for more")]);
    }
}

#[test]
fn a_rule_about_a_name_that_neither_a_tool_nor_a_worker_has_is_a_mistake() {
    let world = world("approval: { require_user_permission: { raeder: true } }\n");
    world
        .forge(&["check"])
        .code(2)
        .says(&["unknown tool or worker `raeder`", "did you mean `reader`?"])
        .says(&["golem-forge.config.yaml:5:40"]);
    let world = self::world("approval: { require_user_permission: { deploy: ask } }\n");
    world.forge(&["check"]).code(2).says(&[
        "unknown tool or worker `deploy`",
        "workers are: main, other, reader; tools are: ",
    ]);
    let world = self::world("");
    let main = "workers: [reader]\napproval: { require_user_permission: { other: true } }\n";
    world.write("workers/main.worker", &worker(main));
    world
        .forge(&["check"])
        .code(2)
        .says(&["unknown tool or worker `other`", "workers are: reader;"]);
}

#[test]
fn explain_and_check_say_what_a_rule_decides_about_calls_of_a_worker() {
    let world = world("");
    let explain = |who: &str, name: &str| {
        world
            .forge(&["explain", name, "--worker", who])
            .code(0)
            .stdout
            .clone()
    };
    let free = explain("main", "reader");
    assert!(
        free.starts_with("call reader for main: allow\n  the worker's delegation list names it"),
        "{free}"
    );
    let refused = explain("main", "other");
    assert!(
        refused.starts_with(
            "call other for main: block\n  main (workers/main.worker) may call: reader"
        ),
        "{refused}"
    );
    let tree = world.forge(&["check"]).code(0).stdout.clone();
    assert!(!tree.contains("calls of it"), "{tree}");

    let world = self::world("approval: { require_user_permission: { reader: blocked } }\n");
    let blocked = world.forge(&["explain", "reader"]).code(0).stdout.clone();
    assert!(blocked.starts_with("call reader for main: block\n  the project's setting for tool `reader`  (golem-forge.config.yaml:5:40)"), "{blocked}");
    let tree = world.forge(&["check"]).code(0).stdout.clone();
    assert!(tree.contains("calls of it are blocked"), "{tree}");
    let tree: Value = serde_json::from_str(&world.forge(&["check", "--json"]).stdout).unwrap();
    assert_eq!(tree["tree"][0]["calls"][0]["approval"], "block");
}
