//! What others read of this repository without running it: `server.json`, manual pages and
//! completions.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::World;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn json(path: &str) -> Value {
    let text = std::fs::read_to_string(repository().join(path)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_registry_would_accept_our_entry() {
    let schema = json("fixtures/mcp-registry/server.schema.json");
    let judge = jsonschema::validator_for(&schema).unwrap();
    let server = json("server.json");
    let mistakes: Vec<String> = judge.iter_errors(&server).map(|e| e.to_string()).collect();
    assert_eq!(mistakes, [""; 0]);
    assert_eq!(server["$schema"], schema["$id"]);
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    // The judge judges.
    for (key, value) in [
        ("name", Value::from("forge")),
        ("description", Value::from("x".repeat(101))),
        ("version", Value::Null),
        ("packages", serde_json::json!([{"registryType": "oci"}])),
    ] {
        let mut wrong = server.clone();
        wrong[key] = value;
        assert!(!judge.is_valid(&wrong), "{key}");
    }
}

#[test]
fn every_command_has_a_page() {
    let world = World::new(&[]);
    let ran = world.forge(&["man", "pages"]);
    ran.code(0);
    let names: Vec<&str> = ran.stdout.lines().collect();
    for name in [
        "forge.1",
        "forge-run.1",
        "forge-mcp.1",
        "forge-mcp-install.1",
        "forge-man.1",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in names {
        let text = std::fs::read_to_string(world.project().join("pages").join(name)).unwrap();
        let command = name.trim_end_matches(".1");
        assert!(text.contains(&format!(".TH {command} 1")), "{name}: {text}");
    }
    let page = world.project().join("pages/forge-mcp-install.1");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("\\-\\-replace"), "{text}");
    world.write("file", "");
    world
        .forge(&["man", "file/below"])
        .code(1)
        .says(&["cannot write"]);
}

#[test]
fn completions_know_the_commands() {
    let world = World::new(&[]);
    // What the others know is in completion.rs.
    for shell in ["elvish", "powershell"] {
        let ran = world.forge(&["completions", shell]);
        ran.code(0);
        for word in ["install", "sandbox-root", "stdout"] {
            let known = ran.stdout.contains(word);
            assert_eq!(known, word != "stdout", "{shell}: {word}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        let ran = world.forge(&["completions", shell]);
        assert!(ran.code(0).stdout.contains("_FORGE_COMPLETE"), "{shell}");
    }
    world.forge(&["completions", "csh"]).code(2).says(&["bash"]);
}

/// A flag and a positional argument of one name would be one: `init DIR` would go to `DIR/DIR`.
#[test]
fn a_directory_is_named_once() {
    let world = World::new(&[]);
    world.forge(&["init", "--yes", "sub"]).code(0);
    assert!(world.project().join("sub/forge.yaml").exists());
    assert!(!world.project().join("sub/sub").exists());
    world.forge(&["-C", "sub", "man", "pages"]).code(0);
    assert!(world.project().join("sub/pages/forge.1").exists());
}
