//! Other tools' spellings of a restriction: each is an error that names ours, in every mapping,
//! and `x-` keys are free in every mapping.

use crate::support::{CONFIG, Scratch};

/// Every mapping with keys of ours, as the text around one line.
const PLACES: &[(&str, &str)] = &[
    ("the file", "KEY\n"),
    ("sandbox", "sandbox:\n  KEY\n"),
    (
        "zone",
        "sandbox:\n  zones:\n    a:\n      path: a\n      KEY\n",
    ),
    (
        "zone approval",
        "sandbox:\n  zones:\n    a:\n      path: a\n      approval:\n        KEY\n",
    ),
    ("approval", "approval:\n  KEY\n"),
    ("shell", "shell:\n  KEY\n"),
    (
        "rule",
        "shell:\n  rules:\n    - pattern: a\n      approval: ask\n      KEY\n",
    ),
    (
        "examples",
        "shell:\n  rules:\n    - pattern: a\n      approval: ask\n      examples:\n        KEY\n",
    ),
    ("environment", "shell:\n  env:\n    KEY\n"),
    ("limits", "limits:\n  KEY\n"),
    ("delegation", "delegation:\n  KEY\n"),
    ("network", "network:\n  allow: [example.com]\n  KEY\n"),
];

const WORKER_PLACES: &[(&str, &str)] = &[
    ("the worker", "KEY\n"),
    ("worker sandbox", "sandbox:\n  KEY\n"),
    (
        "worker zone",
        "sandbox:\n  zones:\n    - name: workspace\n      KEY\n",
    ),
    ("worker shell", "shell:\n  KEY\n"),
    ("worker limits", "limits:\n  KEY\n"),
];

fn project(place: &str, line: &str) -> String {
    Scratch::new()
        .file(CONFIG, place.replace("KEY", line))
        .mistakes()
}

fn worker(place: &str, line: &str) -> String {
    let front = place.replace("KEY", line);
    let scratch = Scratch::new().file("workers/w.worker", format!("---\n{front}---\nGo.\n"));
    match scratch.load().unwrap().workers() {
        Ok(_) => "no mistakes".to_owned(),
        Err(mistakes) => mistakes.to_string(),
    }
}

/// Spelling, and the words of ours that its help must hold, wherever it stands.
const SPELLINGS: &[(&str, &str)] = &[
    ("allowedTools", "`"),
    ("allowed_tools", "`"),
    ("allowed-tools", "`"),
    ("disallowedTools", "`"),
    ("excludeTools", "`tools:"),
    ("permissionMode", "`approval.mode:`"),
    ("approval_policy", "`approval.mode:`"),
    ("autoApprove", "`approval.mode: auto`"),
    ("additionalDirectories", "`sandbox:`"),
    ("writable_roots", "`sandbox.write_paths:`"),
    ("denyRead", "`sandbox.hide:`"),
    ("denyWrite", "`sandbox.protect:`"),
    ("sandbox_mode", "`sandbox:`"),
    ("network_access", "`network:`"),
    ("allowed_domains", "`"),
    ("allowedHosts", "`network: { allow:"),
    ("mcpServers", "`forge mcp`"),
    ("hooks", "forge runs no hooks"),
    ("shell_rules", "`shell.rules:`"),
    ("excludedCommands", "`approval: blocked`"),
    ("maxTurns", "max_turns"),
    ("timeoutMs", "`limits.timeout_s_default:`"),
    ("subagents", "`workers:`"),
    ("child_sandbox", "there is no such key"),
    ("systemPrompt", "`instructions:`"),
    ("extends", "nothing is read in from elsewhere"),
];

#[test]
fn every_mapping_knows_them() {
    for (spelling, ours) in SPELLINGS {
        let line = format!("{spelling}: true");
        let said = PLACES
            .iter()
            .map(|(name, place)| (name, project(place, &line)));
        let by_workers = WORKER_PLACES
            .iter()
            .map(|(name, place)| (name, worker(place, &line)));
        for (name, said) in said.chain(by_workers) {
            assert!(
                said.contains("error[config.foreign_key]"),
                "{spelling} in {name}:\n{said}"
            );
            let help = said.split("= help: ").nth(1).unwrap_or_default();
            assert!(help.contains(ours), "{spelling} in {name}:\n{said}");
        }
    }
}

#[test]
fn extension_keys_are_free() {
    for (name, place) in PLACES {
        let said = project(place, "x-anything: { a: [1, allowedTools] }");
        assert!(!said.contains("x-anything"), "{name}:\n{said}");
        assert!(!said.contains("error"), "{name}:\n{said}");
    }
    for (name, place) in WORKER_PLACES {
        let said = worker(place, "x-anything: { a: [1, allowedTools] }");
        assert!(!said.contains("error"), "{name}:\n{said}");
    }
}

#[test]
fn what_a_spelling_means_in_one_mapping_comes_first() {
    for (place, line, ours) in [
        ("KEY\n", "zones: {}", "`sandbox.zones`"),
        ("limits:\n  KEY\n", "timeout: 1", "`timeout_s_default:`"),
        (
            "sandbox:\n  KEY\n",
            "enabled: true",
            "`require_os_sandbox: true`",
        ),
        ("sandbox:\n  KEY\n", "restrict: /src", "the worker's file"),
        (
            "sandbox:\n  zones:\n    a:\n      path: a\n      KEY\n",
            "readOnly: true",
            "`mode: ro` or `mode: rw`",
        ),
        (
            "shell:\n  rules:\n    - pattern: a\n      KEY\n",
            "deny: true",
            "`approval: blocked`",
        ),
        ("limits:\n  KEY\n", "maxTurns: 3", "`max_turns:`"),
        ("network:\n  KEY\n", "allowedDomains: []", "`allow:`"),
        ("network:\n  KEY\n", "deniedDomains: []", "`deny:`"),
    ] {
        let said = project(place, line);
        assert!(
            said.contains("error[config.foreign_key]"),
            "{line}:\n{said}"
        );
        assert!(said.contains(ours), "{line}:\n{said}");
    }
}

/// A word that a key of the mapping continues by a unit is that key, and no other tool's word.
#[test]
fn the_beginning_of_a_key_is_that_key() {
    for word in ["timeout", "timeout_"] {
        let said = project("approval:\n  KEY\n", &format!("{word}: 1"));
        assert!(
            said.contains("did you mean `timeout_s`?"),
            "{word}:\n{said}"
        );
    }
}
