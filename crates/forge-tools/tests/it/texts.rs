//! What a model reads: every tool's results and refusals, by snapshot; and what no
//! text may contain.

use serde_json::json;

use crate::place::everywhere;
use crate::support::{World, call};

#[test]
fn results_and_refusals() {
    everywhere(results_and_refusals_here);
}

fn results_and_refusals_here() {
    let world = World::new();
    let toolbox = world.toolbox();
    let rows = [
        ("list_files", json!({})),
        ("list_files", json!({"path": "/data"})),
        ("list_files", json!({"path": "data", "pattern": "**/*.md"})),
        ("list_files", json!({"path": "/out"})),
        ("list_files", json!({"path": "/nope"})),
        ("read_file", json!({"path": "data/readme.md"})),
        (
            "read_file",
            json!({"path": "/data/notes.md", "max_chars": 4, "offset": 2}),
        ),
        ("read_file", json!({"path": "/data/readmee.md"})),
        ("read_file", json!({"path": "/data/picture.png"})),
        ("read_file", json!({"path": "/data/sub"})),
        ("read_file", json!({"path": "/data/out-link/secret.txt"})),
        ("read_file", json!({"path": "/etc/passwd"})),
        ("read_file", json!({"path": "../../etc/passwd"})),
        ("read_file", json!({"path": "~/.ssh/id_rsa"})),
        ("read_file", json!({"path": ""})),
        (
            "write_file",
            json!({"path": "out/a.md", "content": "héllo"}),
        ),
        ("write_file", json!({"path": "/out/b.exe", "content": "x"})),
        (
            "write_file",
            json!({"path": "/out/b.md", "content": "x".repeat(41)}),
        ),
        ("write_file", json!({"path": "/data/b.md", "content": "x"})),
        ("delete_file", json!({"path": "/out/a.md"})),
        ("delete_file", json!({"path": "/out/a.md"})),
        ("delete_file", json!({"path": "/out"})),
        ("delete_file", json!({"path": "/data/readme.md"})),
        ("shell", json!({"command": "ls"})),
        ("read_fil", json!({"path": "/data"})),
        ("read_file", json!({"file": "/data", "max_chars": "9"})),
    ];
    let mut shown = String::new();
    for (tool, arguments) in rows {
        let result = call(&toolbox, tool, arguments.clone());
        let code = result.error.map_or("ok".to_owned(), |error| error.code);
        shown.push_str(&format!(
            "--- {tool} {arguments} -> {code}\n{}\n",
            result.content
        ));
    }
    insta::assert_snapshot!("results_and_refusals", shown);
    assert!(!shown.contains(world.host.path().to_str().unwrap()));
}

#[test]
fn every_tool_describes_itself_and_names_no_place() {
    let world = World::new();
    let toolbox = world.toolbox();
    let all: Vec<_> = toolbox.specs().map(|spec| spec.to_json()).collect();
    // And `read_output`.
    assert_eq!(all.len(), forge_tools::tools::file_tools().len() + 1);
    for spec in &all {
        for key in [
            "name",
            "description",
            "input_schema",
            "risk_level",
            "preferred_runner",
            "needs_network",
            "requires_permission",
            "annotations",
        ] {
            assert!(!spec[key].is_null(), "{} lacks {key}", spec["name"]);
        }
    }
    let text = serde_json::to_string(&all).unwrap().to_lowercase();
    for word in ["zone", "/data", "/out", "/workspace", "/cache"] {
        assert!(!text.contains(word), "a description says {word}");
    }
    assert!(text.len() < 14 * 1024, "{} bytes", text.len());
}

/// Clients read JSON into doubles: what they show and send back must be the number that was meant.
#[test]
fn numbers_in_schemas_fit_a_double() {
    fn numbers(value: &serde_json::Value, found: &mut Vec<f64>) {
        match value {
            serde_json::Value::Number(number) => {
                let exact = number.as_f64().unwrap();
                assert_eq!(exact as i128, number.as_i128().unwrap(), "{number}");
                found.push(exact);
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
            serde_json::Value::Object(pairs) => {
                pairs.values().for_each(|item| numbers(item, found))
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => {
            }
        }
    }
    let world = World::new();
    let toolbox = world.toolbox();
    let mut found = Vec::new();
    for spec in toolbox.specs() {
        let spec = spec.to_json();
        numbers(&spec["input_schema"], &mut found);
        numbers(&spec["output_schema"], &mut found);
    }
    assert!(found.len() > 20, "{}", found.len());
    let most = found.iter().copied().fold(0.0, f64::max);
    assert_eq!(most, 9_007_199_254_740_991.0);
}

proptest::proptest! {
    /// No text for a model contains a host path or the word "zone", and nothing
    /// panics, whatever is asked for.
    #[test]
    fn no_text_leaks(
        tool in "(read_file|write_file|list_files|delete_file|[a-z_]{1,8})",
        path in "(/data|/out|data|\\.\\.|~|/|.{0,4}){0,1}(/(\\.\\.|\\.|out-link|secret\\.txt|sub|.{0,6})){0,4}",
        content in ".{0,50}",
    ) {
        let world = World::new();
        let toolbox = world.toolbox();
        for arguments in [
            json!({"path": path}),
            json!({"path": path, "content": content}),
            json!({"path": path, "pattern": content}),
        ] {
            let result = call(&toolbox, &tool, arguments.clone());
            let text = result.to_json().to_string();
            let host = world.host.path().to_str().unwrap();
            proptest::prop_assert!(!text.contains(host), "{}", text);
            let said = result.content.to_lowercase();
            let asked = format!("{tool}{arguments}").to_lowercase();
            proptest::prop_assert!(!said.contains("zone") || asked.contains("zone"), "{}", text);
            proptest::prop_assert!(!text.contains("the secret"), "{}", text);
        }
    }
}

/// Nor does any page of texts that is kept beside the tests.
#[test]
fn no_snapshot_names_a_place_of_the_host() {
    let mut pages = 0;
    // forge-node includes this file.
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut dirs = vec![crates.join("forge-tools/tests/it")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|it| it == "snap") {
                let page = std::fs::read_to_string(&path).unwrap();
                // Its head says where the test stands.
                let (_, texts) = page.split_once("\n---\n").unwrap();
                for word in ["zone", "/tmp/", "/home/", "/root/", "/var/"] {
                    let found = texts.to_lowercase().contains(word);
                    assert!(!found, "{} says {word}", path.display());
                }
                pages += 1;
            }
        }
    }
    assert!(pages >= 5, "{pages}");
}
