//! What happens where the operating system offers no isolation: the real program,
//! with the kernel's answers replaced by a filter around it.

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";
const NOTHING: &[&str] = &["landlock", "userns"];

fn required() -> String {
    PROJECT.replace("sandbox:\n", "sandbox:\n  require_os_sandbox: true\n")
}

const PLAYBOOK: &str = "\
version: 1
workers:
  main:
    - calls:
        - { tool: shell, args: { command: echo ran > workspace/ran }, as: plain }
        - { tool: shell, args: { command: echo ran }, as: approved }
    - say: '{{ results.approved.content }}'
";

const MAIN: &str = "---\nname: main\n---\nGo.\n";

#[test]
fn required_and_missing_starts_nothing() {
    let world = World::new(&[
        (FILE, &required()),
        ("workers/main.worker", MAIN),
        ("playbook.yaml", PLAYBOOK),
    ]);
    world
        .forge_without(
            NOTHING,
            &["exec", "--", "sh", "-c", "echo ran > workspace/ran"],
        )
        .code(125)
        .says(&["OS sandbox required but unavailable", "hint: "]);
    world
        .forge_without(
            NOTHING,
            &["--trust", "run", "--model", "scripted:playbook.yaml"],
        )
        .code(6)
        .says(&["OS sandbox required but unavailable", "hint: "]);
    // Not even the person's own switch lifts what the project requires.
    world
        .forge_without(NOTHING, &["exec", "--no-os-sandbox", "--", "true"])
        .code(125);
    assert!(!world.project().join("workspace/ran").exists());
}

#[test]
fn missing_and_not_required_warns_and_asks_only_a_person() {
    let world = World::new(&[
        (FILE, PROJECT),
        ("workers/main.worker", MAIN),
        ("playbook.yaml", PLAYBOOK),
    ]);
    // `echo *` is pre-approved, and would be asked about all the same.
    let ran = world.forge_without(
        NOTHING,
        &["--trust", "run", "--model", "scripted:playbook.yaml"],
    );
    ran.code(3).says(&[
        "warning: OS sandbox unavailable, application-level only",
        "there is no terminal",
    ]);
    assert_eq!(ran.stderr.matches("OS sandbox unavailable").count(), 1);
    // `auto` is a stored answer, not a person's.
    world
        .forge_without(
            NOTHING,
            &[
                "-c",
                "approval.mode=auto",
                "run",
                "--model",
                "scripted:playbook.yaml",
            ],
        )
        .code(3);
    // A yes to everything was not said of commands that nothing confines; that takes a
    // switch of its own, and both together are a person's word.
    let yes = |more: &[&str]| {
        let mut args = vec!["--trust", "run", "--yes"];
        args.extend(more);
        args.extend(["--model", "scripted:playbook.yaml"]);
        world.forge_without(NOTHING, &args)
    };
    yes(&[]).code(3);
    assert!(world.audit().contains("with --no-os-sandbox it does"));
    let ran = yes(&["--no-os-sandbox"]);
    ran.code(0);
    assert!(ran.stdout.starts_with("ran"), "{}", ran.stdout);
}

#[test]
fn exec_refuses_until_it_is_told_not_to_confine() {
    let world = World::new(&[]);
    world
        .forge_without(NOTHING, &["exec", "--", "sh", "-c", "echo ran > ran"])
        .code(125)
        .says(&["--no-os-sandbox"]);
    assert!(!world.project().join("ran").exists());
    world
        .forge_without(
            NOTHING,
            &[
                "exec",
                "--no-os-sandbox",
                "--receipt",
                "receipt.json",
                "--",
                "sh",
                "-c",
                "exit 9",
            ],
        )
        .code(9)
        .says(&["warning: no OS sandbox"]);
    let text = std::fs::read_to_string(world.project().join("receipt.json")).unwrap();
    let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(receipt["backend"], "none");
}

#[test]
fn one_missing_mechanism_leaves_the_other() {
    let world = World::new(&[]);
    let uses = |what: &str| -> Option<String> {
        let ran = world.forge_without(
            &[what],
            &["exec", "--receipt", "receipt.json", "--", "true"],
        );
        (ran.code == 0).then(|| {
            let text = std::fs::read_to_string(world.project().join("receipt.json")).unwrap();
            let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
            receipt["backend"].as_str().unwrap().to_owned()
        })
    };
    assert_eq!(uses("userns").as_deref(), Some("landlock"));
    if world
        .forge(&["exec", "--mechanism", "namespaces", "--", "true"])
        .code
        == 0
    {
        assert_eq!(uses("landlock").as_deref(), Some("namespaces"));
    }
}

#[test]
fn files_need_no_os_sandbox() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    let ran = world.forge_without(
        &["landlock", "userns", "openat2"],
        &["tools", "call", "read_file", r#"{"path":"/data/a.md"}"#],
    );
    ran.code(0);
    assert_eq!(ran.stdout, "text\n");
}
