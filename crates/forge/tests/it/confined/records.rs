//! The schema of audit records, against records of every kind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{PROJECT, World};

#[test]
fn every_record_is_as_its_schema_says() {
    let world = World::new(&[("golem-forge.config.yaml", PROJECT), ("data/a.md", "text")]);
    let long = "long ".repeat(18_000);
    let many: Vec<String> = (0..10_000).map(|n| format!("k{n}")).collect();
    for (tool, arguments) in [
        ("read_file", json!({"path": "/data/a.md"})),
        ("read_file", json!({"path": "/etc/passwd"})),
        ("read_file", json!({"pth": 1})),
        (
            "write_file",
            json!({"path": "/workspace/a.md", "content": "x"}),
        ),
        (
            "write_file",
            json!({"path": "/workspace/b.md", "content": long}),
        ),
        ("write_file", json!({"path": "/data/b.md", "content": "x"})),
        ("delete_file", json!({"path": "/workspace/a.md"})),
        ("list_files", json!({"path": many})),
        ("shell", json!({"command": "echo hello"})),
        ("shell", json!({"command": "rm x"})),
        ("shell", json!({"command": "ls"})),
        ("nothing", json!({})),
    ] {
        let arguments = arguments.to_string();
        world.forge(&["--trust", "tools", "call", tool, &arguments]);
    }
    world.forge(&[
        "tools",
        "call",
        "delete_file",
        r#"{"path":"/workspace/a.md"}"#,
        "--yes",
    ]);

    let schema: Value = serde_json::from_str(&world.forge(&["schema", "audit"]).stdout).unwrap();
    let judge = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = BTreeSet::new();
    let audit = world.audit();
    for line in audit.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let mistakes: Vec<String> = judge.iter_errors(&record).map(|e| e.to_string()).collect();
        assert_eq!(mistakes, [""; 0], "{line}");
        kinds.insert(record["kind"].as_str().unwrap().to_owned());
        // Nothing may be missing, and nothing else may be there.
        for key in ["seq", "prev", "kind"] {
            let mut less = record.clone();
            less.as_object_mut().unwrap().remove(key);
            assert!(!judge.is_valid(&less), "without {key}: {line}");
        }
        let mut more = record.clone();
        more["extra"] = json!(1);
        assert!(!judge.is_valid(&more), "{line}");
    }
    assert_eq!(
        kinds.iter().map(String::as_str).collect::<Vec<_>>(),
        ["begin", "decision", "end", "execution", "seal"]
    );
    for part in [
        "\"cut\"",
        "\"cut_items\"",
        "\"artifacts\"",
        "\"enforcement\"",
        "\"events\"",
    ] {
        assert!(audit.contains(part), "no record with {part}");
    }
}
