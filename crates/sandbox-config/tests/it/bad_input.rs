//! Files that are no config: a precise error or a right result, never a panic, never a default.

use proptest::prelude::*;
use sandbox_config::{ConfigChoice, load};

use crate::support::{CONFIG, Scratch, codes};

fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
    let text = text.as_ref();
    let scratch = Scratch::new().file(CONFIG, text);
    let said = match scratch.load() {
        Ok(_) => Vec::new(),
        Err(mistakes) => codes(&mistakes),
    };
    assert_eq!(
        said,
        expected,
        "{}",
        String::from_utf8_lossy(&text[..text.len().min(80)])
    );
}

#[test]
fn texts() {
    check("", &[]);
    check("# nothing\n", &[]);
    check("{}", &[]);
    check("\u{feff}name: x\r\nnetwork: false\r\n", &[]);
    check(b"name: \xff\n", &["config.not_utf8"]);
    check("name:\tx: y\n\t- a\n", &["config.syntax"]);
    check("sandbox:\n\tmode: direct\n", &["config.syntax"]);
    check("name: a\n---\nname: b\n", &["config.syntax"]);
    check("a: &a {x: 1}\nb: {<<: *a}\n", &["config.syntax"]);
    check("name: *nowhere\n", &["config.syntax"]);
    check("[1, 2]", &["config.wrong_type"]);
    check("just text", &["config.wrong_type"]);
    check("name: a\nname: b\n", &["config.duplicate_key"]);
    check("name: 5\n", &["config.wrong_type"]);
    check("sandbox: []\n", &["config.wrong_type"]);
    check("network: no\n", &["config.wrong_type"]);
    check("limits: { max_turns: 0 }\n", &["config.bad_value"]);
    check("limits: { max_turns: -1 }\n", &["config.bad_value"]);
    check("limits: { max_turns: 1.5 }\n", &["config.bad_value"]);
    check(
        "limits: { max_turns: 99999999999999999999999 }\n",
        &["config.bad_value"],
    );
    check("delegation: { max_depth: 0 }\n", &["config.bad_value"]);
    check("[sandbox]\nmode = \"direct\"\n", &["config.syntax"]);
    check(vec![b'#'; 2 << 20], &["config.too_large"]);
    check("[".repeat(10_000), &["config.too_complex"]);
    let deep: String = (0..100).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    check(deep, &["config.too_complex"]);
}

/// A string in place of a mapping is told the mapping that it is short for.
#[test]
fn strings_that_should_be_mappings() {
    for (text, help) in [
        (
            "sandbox: { zones: { data: ./data } }\n",
            "write `{ path: ./data }`",
        ),
        (
            "sandbox: { paths: { data: ./data } }\n",
            "write `{ root: ./data }`",
        ),
        (
            "sandbox: { mounts: [./src] }\n",
            "write `{ source: ./src, target: … }`",
        ),
        (
            "shell: { rules: ['ls *'] }\n",
            "write `{ pattern: \"ls *\", approval: … }`",
        ),
        (
            "shell: { rules: ['*.sh build'] }\n",
            "write `{ pattern: \"*.sh build\", approval: … }`",
        ),
        (
            "sandbox: { zones: { data: 'a: #\"b' } }\n",
            r#"write `{ path: "a: #\"b" }`"#,
        ),
        (
            "sandbox: { zones: { data: 'no' } }\n",
            "write `{ path: \"no\" }`",
        ),
        ("limits: many\n", ""),
        ("providers: { mine: sk-secret }\n", ""),
    ] {
        let told = Scratch::with_config(text).mistakes();
        assert!(told.contains("must be a mapping, not a string"), "{told}");
        assert_eq!(
            told.contains("= help: write `{"),
            !help.is_empty(),
            "{told}"
        );
        assert!(told.contains(help), "{told}");
        // The proposal can be pasted.
        if let Some(proposed) = help.strip_prefix("write `") {
            let proposed = proposed.trim_end_matches('`');
            let pasted = format!("key: {proposed}\n");
            let told = Scratch::with_config(&pasted).mistakes();
            assert!(told.contains("unknown key `key`"), "{pasted}{told}");
        }
    }
}

#[test]
fn files_that_are_none() {
    let scratch = Scratch::new().dir(CONFIG);
    insta::assert_snapshot!(scratch.mistakes(), @r#"
    error[config.unreadable]: cannot read golem-forge.config.yaml: it is a directory
      --> golem-forge.config.yaml
    "#);

    let scratch = Scratch::new();
    let fifo = scratch.path().join(CONFIG);
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    insta::assert_snapshot!(scratch.mistakes(), @r#"
    error[config.unreadable]: cannot read golem-forge.config.yaml: it is a FIFO
      --> golem-forge.config.yaml
    "#);

    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources.choice = ConfigChoice::File("absent.yaml".into());
    let mistakes = load(&sources).unwrap_err();
    assert_eq!(codes(&mistakes), ["config.unreadable"]);
}

#[test]
fn ten_thousand_zones() {
    let zones: String = (0..10_000)
        .map(|i| format!("    z{i}: {{ path: ./z{i} }}\n"))
        .collect();
    let scratch = Scratch::with_config(&format!("sandbox:\n  zones:\n{zones}"));
    assert_eq!(scratch.load().unwrap().ceiling().mounts().count(), 10_000);
}

#[test]
fn a_flood_of_mistakes_ends() {
    let keys: String = (0..5_000).map(|i| format!("bad{i}: 1\n")).collect();
    let mistakes = Scratch::with_config(&keys).load().unwrap_err();
    assert_eq!(mistakes.iter().count(), 201);
}

#[test]
fn an_alias_means_the_anchor() {
    let scratch = Scratch::with_config(
        "x-modes: { quiet: &quiet { write: blocked } }\nsandbox: { zones: { a: { path: a, approval: *quiet } } }\n",
    );
    let project = scratch.load().unwrap();
    assert_eq!(
        project
            .ceiling()
            .mount_approval("a", sandbox_config::Operation::Write),
        sandbox_config::Verdict::Block
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Scratch::with_config(&text).load();
    }

    #[test]
    fn no_tree_of_known_words_panics(text in "((sandbox|zones|path|mode|ro|x|-|\\[|\\]|\\{|\\}|&a|\\*a|\"|'|,|#|\\||>|%|!|---|  |\n)(: |:|\n| )?){0,40}") {
        let _ = Scratch::with_config(&text).load();
        let scratch = Scratch::new().file("workers/w.worker", format!("---\n{text}\n---\nx"));
        if let Ok(project) = scratch.load() {
            let _ = project.check();
        }
    }
}

#[test]
fn the_machine_form_says_all_of_it() {
    let scratch = Scratch::with_config("name: a\nname: \"数\"\nsandbox: { mdoe: direct }\n");
    let said = scratch.load().unwrap_err().to_json();
    assert_eq!(said["error"], said["errors"][0]);
    assert_eq!(
        said["errors"][0],
        serde_json::json!({
            "severity": "error",
            "code": "config.duplicate_key",
            "message": "`name` stands here a second time",
            "file": CONFIG,
            "line": 2,
            "column": 1,
            "end": { "line": 2, "column": 5 },
            "label": null,
            "notes": [],
            "help": "remove one of them: which one holds must not depend on the order",
            "related": [{
                "file": CONFIG,
                "line": 1,
                "column": 1,
                "end": { "line": 1, "column": 5 },
                "message": "the first one",
            }],
        })
    );
    let unknown = &said["errors"][1];
    assert_eq!(
        unknown["end"],
        serde_json::json!({ "line": 3, "column": 16 })
    );
    assert!(
        unknown["label"]
            .as_str()
            .unwrap()
            .starts_with("`sandbox` has: mode")
    );
    assert_eq!(unknown["help"], "did you mean `mode`?");
}

/// A mistake of the writing has a way out.
#[test]
fn mistakes_of_the_writing_have_help() {
    for (text, help) in [
        (
            "sandbox:\n  mode: direct\n   zones:\n",
            "indented deeper than the one above",
        ),
        ("model: ollama: qwen3\n", "quote a value that contains `: `"),
        ("sandbox:\n  mode:direct\n", "a space after the colon"),
        ("network: fals\n", "true, false or a mapping"),
    ] {
        let scratch = Scratch::new().file(CONFIG, text);
        let said = scratch.load().unwrap_err().to_string();
        assert!(said.contains(help), "{said}");
    }
    // The unknown key has the hosts.
    let scratch = Scratch::new().file(CONFIG, "network: { alow: [a.org] }\n");
    let said = scratch.load().unwrap_err();
    assert_eq!(codes(&said), ["config.unknown_key"]);
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources.env.push(("FORGE_MODEL".into(), String::new()));
    assert_eq!(load(&sources).unwrap().model(), None);
}
