//! What a worker file says besides its rights, and other spellings of its tools.

use sandbox_config::{Delegates, Worker, load};

use crate::support::{Scratch, codes};

fn read(front: &str) -> Result<Worker, Vec<String>> {
    let scratch = Scratch::with_config("name: p\n")
        .file("workers/w.worker", format!("---\n{front}\n---\nWork.\n"));
    let mut sources = scratch.sources();
    sources.known_tools = Some(
        ["read_file", "write_file", "list_files", "shell"]
            .map(str::to_owned)
            .to_vec(),
    );
    let worker = load(&sources).unwrap().worker("w");
    worker.map_err(|mistakes| codes(&mistakes).into_iter().map(str::to_owned).collect())
}

#[test]
fn mistakes_have_codes() {
    for (front, code) in [
        ("compatible_models: ['']", "config.bad_value"),
        ("compatible_models: a", "config.wrong_type"),
        ("model: x:y\ncompatible_models: ['a:*']", "config.bad_value"),
        (
            "attachment_policy: { max_attachments: 0 }",
            "config.bad_value",
        ),
        (
            "attachment_policy: { allowed_suffixes: [md] }",
            "config.bad_value",
        ),
        (
            "attachment_policy: { max_atachments: 1 }",
            "config.unknown_key",
        ),
        ("allow_empty_input: yes", "config.wrong_type"),
        ("license: 2", "config.wrong_type"),
        ("metadata: a", "config.wrong_type"),
        ("metadata: { a: 1, a: 2 }", "config.duplicate_key"),
        ("tools: [reed_file]", "config.bad_value"),
        ("tools: [someone]", "config.bad_value"),
        ("toolsets: { git: {} }", "config.unknown_key"),
        (
            "toolsets: { filesystem: { deep: true } }",
            "config.unknown_key",
        ),
        ("toolsets: {}\ntools: [read_file]", "config.duplicate_key"),
        ("toolsets: {}\nworkers: [a]", "config.duplicate_key"),
        (
            "toolsets: { workers: { allowed_workers: [A] } }",
            "config.bad_value",
        ),
        ("input_schema:", "config.wrong_type"),
        ("input_schema: { type: string }", "config.bad_value"),
        ("input_schema: { properties: {} }", "config.bad_value"),
        ("output_schema: [a]", "config.wrong_type"),
        ("output_schema: { a: 1, a: 2 }", "config.duplicate_key"),
        (
            "output_schema: { items: { a: 1, a: 2 } }",
            "config.duplicate_key",
        ),
        (
            "output_schema: { items: { $ref: 'https://a.com' } }",
            "config.bad_value",
        ),
        ("output_schema: { $ref: 'a.json#/b' }", "config.bad_value"),
        (
            "output_schema: { $schema: 'http://json-schema.org/draft-07/schema#' }",
            "config.bad_value",
        ),
        ("output_schema: absent.json", "config.unreadable"),
        ("output_schema: ../a.json", "config.host_path"),
        ("output_schema: /etc/passwd", "config.host_path"),
        ("output_schema: workers", "config.unreadable"),
        ("output_schema: workers/w.worker", "config.syntax"),
        (
            "output_schema: {}
output_schema_ref: a.json",
            "config.duplicate_key",
        ),
    ] {
        let said = read(front).unwrap_err();
        assert!(said.iter().any(|one| one == code), "{front}: {said:?}");
    }
}

#[test]
fn tools_have_other_spellings() {
    for (front, tools, delegates, notes) in [
        ("tools: [read_file]", "read_file", Delegates::None, 0),
        (
            "tools: [readFile, listFiles]",
            "read_file list_files",
            Delegates::None,
            2,
        ),
        // A worker's tool is named like the worker.
        (
            "tools: [math, call_worker]\nworkers: [math]",
            "math call_worker",
            Delegates::Listed(vec!["math".into()]),
            0,
        ),
        (
            "toolsets: { filesystem: {}, workers: { allowed_workers: [math] } }",
            "read_file write_file list_files call_worker math",
            Delegates::Listed(vec!["math".into()]),
            1,
        ),
        ("toolsets: { shell: }", "shell", Delegates::None, 1),
        ("toolsets: {}", "", Delegates::None, 1),
    ] {
        let worker = read(front).unwrap();
        assert_eq!(worker.tools().unwrap().join(" "), tools, "{front}");
        assert_eq!(worker.delegates(), &delegates, "{front}");
        assert_eq!(worker.warnings().len(), notes, "{front}");
    }
}

#[test]
fn the_note_on_toolsets_says_what_to_write() {
    let worker =
        read("toolsets: { filesystem: {}, workers: { allowed_workers: [math] } }").unwrap();
    insta::assert_snapshot!(worker.warnings()[0], @r#"
    warning[config.alias]: `toolsets` is read as `tools` and `workers`
      --> workers/w.worker:2:1
       |
     2 | toolsets: { filesystem: {}, workers: { allowed_workers: [math] } }
       | ^^^^^^^^
       = help: write:
               tools: [read_file, write_file, list_files, call_worker, math]
               workers: [math]
    "#);
}

#[test]
fn what_is_carried_along() {
    let worker = read("license: MIT\nmetadata: { author: me, deep: [1, { a: null }] }").unwrap();
    assert_eq!(worker.license(), Some("MIT"));
    assert_eq!(
        serde_json::Value::from(worker.metadata().clone()).to_string(),
        r#"{"author":"me","deep":[1,{"a":null}]}"#
    );
    let plain = read("").unwrap();
    assert_eq!(plain.license(), None);
    assert!(plain.metadata().is_empty());
}

#[test]
fn attachments_are_counted_weighed_and_sorted() {
    let worker = read(
        "attachment_policy: { max_attachments: 2, max_total_bytes: 10, allowed_suffixes: [.md, .txt], denied_suffixes: [.env.txt] }",
    )
    .unwrap();
    for (files, expected) in [
        (vec![("a.md", 5), ("B.TXT", 5)], None),
        (
            vec![("a.md", 5), ("b.md", 6)],
            Some("11 bytes are attached; at most 10 may be"),
        ),
        (
            vec![("a.md", 1); 3],
            Some("3 files are attached; at most 2 may be"),
        ),
        (
            vec![("a.pdf", 1)],
            Some("'a.pdf' may not be attached: its suffix is not allowed"),
        ),
        (
            vec![("x.env.txt", 1)],
            Some("'x.env.txt' may not be attached: its suffix is not allowed"),
        ),
        (
            vec![("a.md", u64::MAX), ("b.md", 2)],
            Some("18446744073709551615 bytes are attached; at most 10 may be"),
        ),
    ] {
        let said = worker.attachment_policy().check(files.clone());
        assert_eq!(said.err().as_deref(), expected, "{files:?}");
    }
}
