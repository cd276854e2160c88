//! What a grant is told from another one by: every key that decides, and nothing else.

use std::collections::BTreeMap;

use sandbox_config::{TrustedSettings, load};

use crate::support::Scratch;

const FULL: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    out: { path: ./out, suffixes: [.md], max_file_bytes: 100, approval: { write: ask } }
  protect: [Makefile]
  hide: [secret.txt]
network: false
shell:
  rules:
    - { pattern: 'git log *', approval: preApproved }
    - { pattern: 'rm *', approval: blocked, why: Use delete_file. }
  default: ask
  allow: [git]
  deny: [curl]
  env: { pass: [LANG], set: { A: '1' } }
limits: { max_turns: 5, repeat_calls: 4 }
approval:
  mode: tool
  timeout_s: 60
  require_user_permission: { write_file: true }
  require_user_permission_by_risk: { network: true }
execution: { mode: prefer_local }
";

fn facts(text: &str) -> BTreeMap<String, String> {
    let scratch = Scratch::with_config(text)
        .dir("data")
        .dir("out")
        .dir("other");
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    let facts = load(&sources).unwrap().ceiling().facts();
    let root = scratch.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let facts = facts.into_iter();
    facts
        .map(|(name, value)| (name, value.replace(root, "ROOT")))
        .collect()
}

/// What two texts differ in, by name.
fn changed(text: &str) -> Vec<String> {
    let (before, after) = (facts(FULL), facts(text));
    let mut names: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}

#[test]
fn an_edit_is_named_by_what_it_changes() {
    for (from, to, names) in [
        ("mode: ro", "mode: rw", &["mount /data"][..]),
        ("./data", "./other", &["mount /data"]),
        ("[.md]", "[.txt]", &["mount /out"]),
        ("100", "101", &["mount /out"]),
        ("{ write: ask }", "{ write: blocked }", &["mount /out"]),
        // Said or not makes a difference to those who are called.
        (", approval: { write: ask }", "", &["mount /out"]),
        ("network: false", "network: true", &["network"]),
        ("'git log *'", "'git show *'", &["shell.rules[0]"]),
        (
            "approval: preApproved",
            "approval: ask",
            &["shell.rules[0]"],
        ),
        ("Use delete_file.", "No.", &["shell.rules[1]"]),
        ("default: ask", "default: blocked", &["shell.default"]),
        ("allow: [git]", "allow: [git, ls]", &["shell.allow"]),
        ("deny: [curl]", "deny: []", &["shell.deny"]),
        ("pass: [LANG]", "pass: [LC_ALL]", &["shell.env.pass"]),
        ("A: '1'", "A: '2'", &["shell.env.set.A"]),
        ("max_turns: 5", "max_turns: 6", &["limits.max_turns"]),
        (
            "repeat_calls: 4",
            "repeat_calls: null",
            &["limits.repeat_calls"],
        ),
        ("mode: tool", "mode: manual", &["approval.mode"]),
        ("timeout_s: 60", "timeout_s: 61", &["approval.timeout_s"]),
        (
            "{ network: true",
            "{ exec: true",
            &[
                "approval.require_user_permission_by_risk.exec",
                "approval.require_user_permission_by_risk.network",
            ],
        ),
        (
            "write_file: true",
            "write_file: false",
            &["approval.require_user_permission.write_file"],
        ),
        (
            "mode: prefer_local",
            "mode: local_only",
            &["execution.mode"],
        ),
        ("[Makefile]", "[Justfile]", &["sandbox.protect"]),
        ("secret.txt", "secrets.txt", &["sandbox.hide"]),
        (
            "sandbox:",
            "# Where things stand is no fact.\n\nsandbox:",
            &[],
        ),
    ] {
        assert!(FULL.contains(from), "{from}");
        assert_eq!(
            changed(&FULL.replacen(from, to, 1)),
            names,
            "{from} to {to}"
        );
    }
}
