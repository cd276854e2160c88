//! The file tools, as a model meets them: what they answer, in words and in fields, and what they
//! leave on the disk.

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{Toolbox, tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::{ELSEWHERE_NAME, everywhere, is_elsewhere, with_files};
use crate::support::call;

/// One writable mount with these files.
fn scene(files: &[(&str, &str)]) -> (TempDir, Toolbox) {
    let host = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = host.path().join("data").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mount = Mount::open_ambient(
        SandboxPath::parse("/data").unwrap(),
        host.path().join("data"),
        Mode::ReadWrite,
        cap_std::ambient_authority(),
    )
    .unwrap();
    let files = FileSandbox::new(vec![mount]).unwrap();
    let toolbox = with_files(Toolbox::builder(), files).build().unwrap();
    (host, toolbox)
}

/// A call, what its text begins with, and what it says in fields.
struct Row {
    tool: &'static str,
    arguments: Value,
    text: &'static str,
    fields: Value,
}

/// Runs the rows one after the other in one world. Every structured result must fit the schema of
/// its tool.
fn check(rows: &[Row]) {
    everywhere(|| check_here(rows));
}

fn check_here(rows: &[Row]) {
    let (_host, toolbox) = scene(&[
        ("a.md", "one\ntwo\nthree\n"),
        ("ignored/none.md", ""),
        ("sub/b.rs", "fn two() {}\n"),
        (".gitignore", "ignored/\n"),
        ("ignored/c.rs", "fn two() {}\n"),
    ]);
    for row in rows {
        let result = call(&toolbox, row.tool, row.arguments.clone());
        let about = format!("{} {}: {}", row.tool, row.arguments, result.content);
        assert!(result.content.starts_with(row.text), "{about}");
        if is_elsewhere() && result.ok {
            assert_eq!(result.runner, ELSEWHERE_NAME, "{about}");
        }
        let spec = toolbox.specs().find(|spec| spec.answers_to(row.tool));
        if let (true, Some(spec)) = (result.ok, spec) {
            match (&spec.output, &result.structured) {
                (Some(schema), Some(fields)) => {
                    assert_eq!(schema.check(fields), Ok(()), "{about}");
                }
                (None, None) => {}
                (schema, fields) => panic!("{about}: {schema:?} {fields:?}"),
            }
        }
        let Value::Object(expected) = &row.fields else {
            continue;
        };
        let fields = match &result.error {
            Some(error) => json!(error),
            None => result.structured.clone().unwrap_or_default(),
        };
        for (name, value) in expected {
            assert_eq!(&fields[name], value, "{about}: {name}");
        }
    }
}

const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

#[test]
fn rows() {
    let row = |tool, arguments, text, fields| Row {
        tool,
        arguments,
        text,
        fields,
    };
    check(&[
        row(
            "read_file",
            json!({"path": "/data/a.md", "line": 2, "lines": 1}),
            "two\n",
            json!({}),
        ),
        row(
            "read_file",
            json!({"path": "data/a.md", "tail": 1}),
            "three\n",
            json!({}),
        ),
        row(
            "read_file",
            json!({"path": "/data/a.md", "tail": 1, "offset": 4}),
            "Cannot call read_file: `offset`, `line` and `tail` exclude each other.",
            json!({"code": "INVALID_ARGUMENTS"}),
        ),
        row(
            "read_file",
            json!({"path": "/data/ignored/none.md"}),
            "[empty file]",
            json!({}),
        ),
        row(
            "append_file",
            json!({"path": "/data/a.md", "content": "four\n"}),
            "Appended 5 characters to /data/a.md, which now has 19 bytes",
            json!({"success": true, "bytes": 19}),
        ),
        row(
            "edit_file",
            json!({"path": "/data/a.md", "oldText": "two\n", "newText": "2\n"}),
            "Edited /data/a.md\n@@ -1,4 +1,4 @@\n one\n-two\n+2\n",
            json!({"replaced": 1, "fuzzy": false}),
        ),
        row(
            "edit_file",
            json!({"path": "/data/a.md", "old_text": "e", "new_text": "E"}),
            "Cannot edit",
            json!({"code": "NOT_UNIQUE"}),
        ),
        row(
            "edit_file",
            json!({"path": "/data/a.md", "old_text": "e", "new_text": "E",
                   "replace_all": true, "near_line": 1}),
            "Cannot call edit_file: `replace_all` and `near_line` exclude each other.",
            json!({"code": "INVALID_ARGUMENTS"}),
        ),
        row(
            "write_file",
            json!({"path": "/data/one.md", "content": "one"}),
            "Written 3 characters to /data/one.md",
            json!({"chars": 3, "bytes": 3}),
        ),
        row(
            "hash_file",
            json!({"path": "/data/one.md"}),
            "7692c3ad3540bb80",
            json!({"sha256": ONE}),
        ),
        row(
            "write_file",
            json!({"path": "/data/one.md", "content": "2", "if_match": "7692"}),
            "`if_match` must be a SHA-256",
            json!({"code": "INVALID_ARGUMENTS"}),
        ),
        row(
            "write_file",
            json!({"path": "/data/a.md", "content": "2", "if_match": ONE}),
            "Cannot write",
            json!({"code": "STALE"}),
        ),
        row(
            "write_file",
            json!({"path": "/data/one.md", "content": "2", "create_new": true}),
            "",
            json!({"code": "EXISTS"}),
        ),
        row(
            "search_files",
            json!({"pattern": "two", "path": "/data"}),
            "/data/sub/b.rs:1: fn two() {}\n[1 ignored by .gitignore, such as ignored/; \
             include_ignored searches them]",
            json!({"more": false, "ignored": 1}),
        ),
        row(
            "search_files",
            json!({"pattern": "two", "includeIgnored": true, "glob": "**/*.rs"}),
            "/data/ignored/c.rs:1: fn two() {}\n/data/sub/b.rs:1: fn two() {}",
            json!({"more": false, "files": 2}),
        ),
        row(
            "search_files",
            json!({"pattern": "("}),
            "Invalid regular expression '(': unclosed group.",
            json!({"code": "INVALID_ARGUMENTS", "path": null}),
        ),
        row(
            "create_dir",
            json!({"path": "/data/new/deep"}),
            "Created /data/new/deep",
            json!({"created": true}),
        ),
        row(
            "create_dir",
            json!({"path": "/data/new/deep"}),
            "/data/new/deep was there already",
            json!({"created": false}),
        ),
        row(
            "copy_file",
            json!({"from": "/data/one.md", "to": "/data/new/deep/2.md"}),
            "Copied /data/one.md to /data/new/deep/2.md",
            json!({"replaced": false}),
        ),
        row(
            "move_file",
            json!({"source": "/data/one.md", "destination": "/data/new/deep/2.md"}),
            "",
            json!({"code": "EXISTS"}),
        ),
        row(
            "move_file",
            json!({"from": "/data/one.md", "to": "/data/new/deep/2.md", "overwrite": true}),
            "Moved /data/one.md to /data/new/deep/2.md",
            json!({"replaced": true}),
        ),
        row(
            "file_exists",
            json!({"path": "/data/one.md"}),
            "/data/one.md does not exist",
            json!({"exists": false}),
        ),
        row(
            "file_info",
            json!({"path": "/data/new/deep/2.md"}),
            "/data/new/deep/2.md: file, 3 bytes, changed 20",
            json!({"kind": "file", "size": 3, "writable": true}),
        ),
        row(
            "delete_file",
            json!({"path": "/data/new"}),
            "",
            json!({"code": "NOT_A_FILE"}),
        ),
        row(
            "delete_file",
            json!({"path": "/data/new", "recursive": true}),
            "Deleted /data/new",
            json!({"success": true}),
        ),
        row(
            "list_files",
            json!({"path": "/data"}),
            ".gitignore\na.md\nignored/\nsub/",
            json!({}),
        ),
        row(
            "read_file",
            json!({"path": "/work/data/sub/b.rs"}),
            "fn two() {}",
            json!({}),
        ),
        row(
            "read_file",
            json!({"path": "/workdata/sub/b.rs"}),
            "Cannot access '/workdata/sub/b.rs': path is outside sandbox.",
            json!({"code": "OUTSIDE_SANDBOX"}),
        ),
    ]);
}

/// A model copies paths that a command printed: the host's own. The reply shows ours.
#[test]
fn a_path_of_the_host_means_the_file_in_the_mount() {
    everywhere(a_path_of_the_host);
}

fn a_path_of_the_host() {
    let (scene, toolbox) = scene(&[("a.md", "hello")]);
    let host = scene.path().join("data/b.md");
    let written = call(
        &toolbox,
        "write_file",
        json!({"path": host, "content": "x"}),
    );
    assert_eq!(written.content, "Written 1 characters to /data/b.md");
    let outside = call(
        &toolbox,
        "write_file",
        json!({"path": scene.path().join("outside.md"), "content": "x"}),
    );
    assert_eq!(outside.error.unwrap().code, "OUTSIDE_SANDBOX");
}

/// Names, descriptions and input schemas of the tools that every worker with files and commands
/// sees cost tokens in every conversation.
#[test]
fn the_list_is_small() {
    let mut all = tools::file_tools();
    all.extend([tools::read_output(), tools::shell()]);
    let specs: Vec<Value> = all
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            json!({
                "name": spec.name,
                "description": spec.description,
                "inputSchema": spec.params.to_json_schema(),
            })
        })
        .collect();
    let bytes = json!(specs).to_string().len();
    assert!(bytes <= 8_000, "{bytes} bytes");
}
