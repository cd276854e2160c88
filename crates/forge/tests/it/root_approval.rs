//! `sandbox.approval` of a worker in a project without zones: what is asked of a person, or
//! blocked, in all that the worker holds.

use serde_json::json;

use crate::support::World;

fn worker(sandbox: &str) -> String {
    format!("---\nworkers: [below]\nsandbox: {sandbox}\n---\nGo.\n")
}

fn world(main: &str, below: &str) -> World {
    World::new(&[
        ("golem-forge.config.yaml", "sandbox: { root: . }\n"),
        ("workers/main.worker", &worker(main)),
        (
            "workers/below.worker",
            &worker(below).replace("workers: [below]\n", ""),
        ),
        ("src/a.md", "a\n"),
    ])
}

fn calls(world: &World, flags: &[&str]) -> [i32; 3] {
    [
        ("read_file", json!({ "path": "/src/a.md" })),
        (
            "write_file",
            json!({ "path": "/src/b.md", "content": "b\n" }),
        ),
        ("delete_file", json!({ "path": "/src/a.md" })),
    ]
    .map(|(tool, arguments)| {
        let arguments = arguments.to_string();
        let call = ["tools", "call", tool, &arguments];
        world.forge(&[&call, flags].concat()).code
    })
}

#[test]
fn a_worker_of_a_root_project_says_what_is_asked_and_what_is_blocked() {
    let world = world(
        "{ approval: { read: ask, write: blocked } }",
        "{ restrict: /src }",
    );
    assert_eq!(calls(&world, &[]), [3, 1, 0]);
    world.write("src/a.md", "a\n");
    // No yes lifts a block.
    assert_eq!(calls(&world, &["--yes"]), [0, 1, 0]);
    let explained = world.forge(&["explain", "/src/a.md", "--write"]);
    assert!(
        explained
            .code(0)
            .stdout
            .starts_with("write /src/a.md for main: block"),
        "{}",
        explained.stdout
    );
    // Whom it calls is bound by the same.
    let below = world.forge(&["explain", "/src/a.md", "--as", "main > below"]);
    assert!(
        below
            .code(0)
            .stdout
            .starts_with("read /src/a.md for main > below: ask"),
        "{}",
        below.stdout
    );
}

#[test]
fn what_its_caller_is_asked_about_a_worker_cannot_pre_approve() {
    let same = "{ restrict: /src, approval: { write: blocked } }";
    world("{ approval: { write: ask } }", same)
        .forge(&["check"])
        .code(0);
    let more = "{ restrict: /src, approval: { write: preApproved } }";
    let refused = world("{ approval: { write: ask } }", more).forge(&["check"]);
    refused.code(1);
    let all = format!("{}{}", refused.stdout, refused.stderr);
    assert!(all.contains("'preApproved' for write on '/'"), "{all}");
    assert!(all.contains("workers/below.worker:2:"), "{all}");
    assert!(all.contains("write `ask`"), "{all}");
}
