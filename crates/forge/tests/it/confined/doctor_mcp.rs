//! `forge doctor --mcp`: whether a client can use this project, and what it says if not.

use serde_json::Value;

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

fn states(facts: &Value, check: &str) -> Vec<String> {
    let checks = facts["mcp"]["checks"].as_array().unwrap();
    checks
        .iter()
        .filter(|each| each["check"] == check)
        .map(|each| each["state"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_project_that_works() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    let ran = world.forge(&["doctor", "--mcp", "--json"]);
    let facts: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    assert_eq!(facts["mcp"]["ok"], true);
    for check in ["handshake", "stateless", "same tools"] {
        assert_eq!(states(&facts, check), ["ok"], "{facts}");
    }
    assert_eq!(states(&facts, "environment"), ["note"]);
    assert_eq!(facts["mcp"]["tools"][0], "read_file");
    // What it called is kept like any other call.
    assert_eq!(world.audit().matches("\"tool\":\"list_files\"").count(), 2);

    let text = world.forge(&["doctor", "--mcp"]);
    text.code(0);
    for part in [
        "2025-11-25",
        "2026-07-28",
        "forge approve --watch",
        "no client has been told",
    ] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
}

#[test]
fn a_missing_project_is_told() {
    let world = World::new(&[]);
    let ran = world.forge(&["doctor", "--mcp"]);
    assert!(
        ran.code(0).stdout.contains("`forge init` writes one"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_mistake_in_the_configuration_is_found_and_told() {
    let world = World::new(&[(FILE, &PROJECT.replace("zones:", "zonse:"))]);
    let ran = world.forge(&["doctor", "--mcp"]);
    ran.code(1);
    assert!(
        ran.stdout
            .contains("config.unknown_key at golem-forge.config.yaml:3:3"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("try: forge check"), "{}", ran.stdout);
}

/// What is set in a terminal is not set where a client starts the server.
#[test]
fn what_a_client_does_not_pass_on_is_warned_of() {
    let world = World::new(&[(FILE, PROJECT)]);
    let mut command = world.command(
        crate::support::forge_program(),
        &["doctor", "--mcp", "--json"],
    );
    let ran = crate::support::ran(command.env("FORGE__ZONSE", "no such key").output().unwrap());
    let facts: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    assert_eq!(states(&facts, "environment"), ["warning"]);
    assert!(ran.stdout.contains("FORGE__ZONSE"), "{}", ran.stdout);
    // It would be a mistake, had the server heard of it.
    assert_eq!(states(&facts, "handshake"), ["ok"]);
}

/// A client that declares elicitation and answers by itself is told of by the doctor.
#[test]
fn a_client_that_refuses_by_itself_is_counted() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;

    let world = World::new(&[(FILE, PROJECT)]);
    let mut child = world
        .command(crate::support::forge_program(), &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"ls"}}}"#,
    ] {
        writeln!(input, "{line}").unwrap();
    }
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "elicitation/create" {
            let answer = serde_json::json!({
                "jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"},
            });
            writeln!(input, "{answer}").unwrap();
        } else if message["id"] == 2 {
            assert_eq!(message["result"]["isError"], true, "{message}");
            break;
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());

    let ran = world.forge(&["doctor", "--mcp", "--json"]);
    let facts: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    assert_eq!(states(&facts, "questions"), ["warning"]);
    assert!(ran.stdout.contains("refused 1 call"), "{}", ran.stdout);
}

#[test]
fn settings_of_clients_are_looked_at() {
    let world = World::new(&[
        (FILE, PROJECT),
        (
            ".cursor/mcp.json",
            "{\"mcpServers\": {\"forge\": {\"command\": \"other\"}}}",
        ),
        (".vscode/mcp.json", "{\"servers\": }"),
    ]);
    world.forge(&["mcp", "install", "codex", "--write"]).code(0);
    let ran = world.forge(&["doctor", "--mcp", "--json"]);
    let facts: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    assert_eq!(states(&facts, "settings"), ["ok", "warning", "note"]);
}
