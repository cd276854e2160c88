//! `forge schema` prints what is published.

use crate::support::World;

#[test]
fn the_published_schemas_are_those_that_are_printed() {
    let world = World::new(&[]);
    for which in [
        "audit",
        "config",
        "events",
        "playbook",
        "transcript",
        "worker",
    ] {
        let printed = world.forge(&["schema", which]);
        printed.code(0);
        let published = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../schemas")
            .join(format!("forge-{which}.schema.json"));
        let published = std::fs::read_to_string(published).unwrap();
        assert!(
            printed.stdout == published,
            "schemas/ is out of date: run `cargo xtask docs`"
        );
    }
}

/// What the parser reads the schema accepts, and what it refuses for its keys the schema refuses.
#[test]
fn the_schema_of_playbooks_is_as_strict_as_their_parser() {
    let schema = World::new(&[]).forge(&["schema", "playbook"]).stdout;
    let judge = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = std::fs::read_to_string(root.join("examples/dep-audit/playbook.yaml")).unwrap();
    let page = std::fs::read_to_string(root.join("docs/playbooks.md")).unwrap();
    let documented = page.split("```yaml\n").nth(1).unwrap();
    let documented = documented.split("```").next().unwrap();
    let turn = |text: &str| format!("version: 1\nworkers: {{ main: [{text}] }}\n");
    let cases = [
        (example, true),
        (documented.to_owned(), true),
        (turn(""), true),
        (turn("{ say: a, usage: { input_tokens: 3 } }"), true),
        (
            turn("{ calls: [{ tool: t, attempt: a, stopped: b }] }"),
            true,
        ),
        (turn("{ set: [{ name: x, value: v }] }"), true),
        ("version: 2\nworkers: {}\n".to_owned(), false),
        ("version: 1\n".to_owned(), false),
        (turn("{ says: a }"), false),
        (turn("{ calls: [{ args: {} }] }"), false),
        (turn("{ calls: [{ tool: t, stopped: b }] }"), false),
        (turn("{ calls: [{ tool: t, promise: b }] }"), false),
        (turn("{ set: [{ name: x }] }"), false),
        (turn("{ set: [{ name: x, value: v, text: t }] }"), false),
        (turn("{ expect: [{ that: a }] }"), false),
        (turn("{ usage: { input_tokens: -1 } }"), false),
    ];
    for (text, good) in cases {
        let parsed = forge_runtime::Playbook::parse(&text);
        assert_eq!(parsed.is_ok(), good, "{text}{parsed:?}");
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let mistakes: Vec<String> = judge.iter_errors(&value).map(|e| e.to_string()).collect();
        assert_eq!(mistakes.is_empty(), good, "{text}{mistakes:?}");
    }
}
