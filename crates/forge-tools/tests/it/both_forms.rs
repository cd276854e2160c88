//! A result has two forms, and clients pass on either: so the text says what the fields say, of every
//! tool. What a field holds beyond the text is in [`only_a_field`], with its reason.

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_tools::{CallResult, Toolbox, Verdict, tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::{HAS_COMMANDS, everywhere, with_commands, with_files};
use crate::support::{Always, call};

fn world() -> (TempDir, Toolbox) {
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name);
    std::fs::create_dir_all(at("data/sub/empty")).unwrap();
    for (name, text) in [
        ("data/a.md", "one\ntwo\nthree\n".to_owned()),
        ("data/b.md", "b\n".to_owned()),
        ("data/sub/c.rs", "fn two() {}\n".to_owned()),
        ("data/sub/wide.txt", format!("{} two\n", "x".repeat(2000))),
        ("data/sub/picture.md", "\u{0}\u{1}".to_owned()),
        ("data/long.md", "line\n".repeat(3000)),
        ("data/.gitignore", "ignored/\n".to_owned()),
        ("data/ignored/d.rs", "fn two() {}\n".to_owned()),
        ("data/odd\u{1b}[2Jname.md", "two\n".to_owned()),
    ] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), text).unwrap();
    }
    std::os::unix::fs::symlink("a.md", at("data/link.md")).unwrap();
    let mount = Mount::open_ambient(
        SandboxPath::parse("/data").unwrap(),
        at("data"),
        Mode::ReadWrite,
        cap_std::ambient_authority(),
    )
    .unwrap()
    .with_limits(Limits::new().max_file_bytes(100_000));
    let builder = with_files(Toolbox::builder(), FileSandbox::new(vec![mount]).unwrap());
    let builder = with_commands(builder, host.path());
    (host, builder.gate(Always(Verdict::Allow)).build().unwrap())
}

/// Fields whose value is not in the text, and why that is no loss.
fn only_a_field(
    tool: &str,
    field: &str,
    value: &Value,
    result: &CallResult,
) -> Option<&'static str> {
    match (tool, field) {
        (_, "success") => Some("a text that is no failure says so"),
        ("write_file", "bytes") => Some("the text counts characters, as the design words it"),
        ("edit_file", "replaced") if value == 1 => Some("once is what is expected"),
        ("search_files", "files") if result.content.contains(':') => Some("how much was looked at"),
        ("search_files", "ignored") if value == 0 => Some("nothing was left out"),
        ("shell", "exit_code") if value == 0 => Some("nothing is said of a success"),
        ("shell", "exit_code") if result.content.contains("[signal ") => {
            Some("the text says which signal it was")
        }
        ("shell", "stdout_bytes" | "stderr_bytes") => Some("said where something is missing"),
        ("shell", "duration_ms") => Some("nobody asked for it"),
        (_, "path" | "from" | "to") => Some("the call itself says it, in its own spelling"),
        _ => None,
    }
}

/// The word of the text that a yes stands for, and the one that a no stands for.
fn word(tool: &str, field: &str) -> (&'static str, &'static str) {
    match (tool, field) {
        ("edit_file", "diff_cut") => ("[the diff is cut here]", ""),
        ("edit_file", "fuzzy") => ("found by likeness", ""),
        ("list_files" | "search_files", "more") => ("more", ""),
        ("move_file" | "copy_file", "replaced") => ("in place of the file that was there", ""),
        ("create_dir", "created") => ("Created", "was there already"),
        ("file_exists", "exists") => (" exists", "does not exist"),
        ("file_info", "is_link") => ("through a link", ""),
        ("file_info", "writable") => (", writable", ", read-only"),
        ("shell", "truncated") => ("[cut: ", ""),
        other => panic!("what does the text say for {other:?}?"),
    }
}

fn check(tool: &str, field: &str, value: &Value, result: &CallResult) {
    let text = result.content.as_str();
    let about: String = format!("{tool}, {field}: {value}\n{text}")
        .chars()
        .take(3000)
        .collect();
    if only_a_field(tool, field, value, result).is_some() {
        return;
    }
    match value {
        Value::Null => {}
        Value::Bool(yes) => {
            let (if_so, if_not) = word(tool, field);
            let (said, not_said) = if *yes {
                (if_so, if_not)
            } else {
                (if_not, if_so)
            };
            assert!(text.contains(said), "not said: {about}");
            let hidden = not_said.is_empty() || said.contains(not_said);
            assert!(
                hidden || !text.contains(not_said),
                "said, and not so: {about}"
            );
        }
        Value::Number(number) => assert!(text.contains(&number.to_string()), "not said: {about}"),
        Value::String(said) => assert!(text.contains(said.trim_end()), "not said: {about}"),
        Value::Array(items) => {
            for item in items {
                check(tool, field, item, result);
            }
        }
        Value::Object(fields) => {
            if tool == "search_files" && field == "hits" {
                let text_of = |name: &str| value[name].as_str().unwrap();
                let clipped = if value["clipped"] == true {
                    " [part of the line]"
                } else {
                    ""
                };
                let (path, line) = (text_of("path"), &value["line"]);
                let row = format!("{path}:{line}: {}{clipped}", text_of("text"));
                assert!(text.lines().any(|line| line == row), "not said: {about}");
                return;
            }
            for (name, value) in fields {
                // A directory is told by its slash.
                if (tool, field, name.as_str()) != ("list_files", "entries", "kind") {
                    check(tool, name, value, result);
                }
            }
        }
    }
}

fn calls() -> Vec<(&'static str, Value)> {
    let a = "/data/a.md";
    vec![
        ("read_file", json!({"path": a})),
        ("read_file", json!({"path": a, "max_chars": 3})),
        ("list_files", json!({"path": "/"})),
        ("list_files", json!({"path": "data"})),
        ("list_files", json!({"path": "/data/sub/empty"})),
        ("list_files", json!({"path": "/data", "pattern": "**/*.md"})),
        ("search_files", json!({"pattern": "two"})),
        (
            "search_files",
            json!({"pattern": "two", "include_ignored": true, "max_results": 1}),
        ),
        (
            "search_files",
            json!({"pattern": "nothing at all", "path": "data/sub"}),
        ),
        ("file_exists", json!({"path": "data/b.md"})),
        ("file_exists", json!({"path": "/data/nope.md"})),
        ("file_info", json!({"path": a})),
        ("file_info", json!({"path": "/data/link.md"})),
        ("file_info", json!({"path": "/data/sub"})),
        ("hash_file", json!({"path": a})),
        (
            "write_file",
            json!({"path": "/data/new/n.md", "content": "h\u{e9}llo"}),
        ),
        (
            "append_file",
            json!({"path": "/data/new/n.md", "content": "more"}),
        ),
        (
            "edit_file",
            json!({"path": a, "old_text": "two", "new_text": "2"}),
        ),
        (
            "edit_file",
            json!({"path": a, "old_text": "e", "new_text": "E", "replace_all": true}),
        ),
        (
            "edit_file",
            json!({"path": a, "old_text": "  thrEE  \n", "new_text": "3\n", "fuzzy": true}),
        ),
        (
            "edit_file",
            json!({"path": "/data/long.md", "old_text": "line\n", "new_text": "row\n", "replace_all": true}),
        ),
        (
            "copy_file",
            json!({"from": "/data/b.md", "to": "data/c.md"}),
        ),
        (
            "copy_file",
            json!({"from": "/data/b.md", "to": "/data/c.md", "overwrite": true}),
        ),
        (
            "move_file",
            json!({"from": "/data/c.md", "to": "/data/d.md"}),
        ),
        (
            "move_file",
            json!({"from": "/data/d.md", "to": "/data/b.md", "overwrite": true}),
        ),
        ("create_dir", json!({"path": "/data/e/f"})),
        ("create_dir", json!({"path": "/data/e"})),
        ("delete_file", json!({"path": "/data/e", "recursive": true})),
    ]
}

fn commands() -> Vec<(&'static str, Value)> {
    if !HAS_COMMANDS {
        return Vec::new();
    }
    [
        "echo out",
        "true",
        "sh -c 'echo out; echo err >&2; exit 3'",
        "sh -c 'kill -9 $$'",
        "seq 1 2000",
    ]
    .into_iter()
    .map(|command| ("shell", json!({"command": command})))
    .collect()
}

#[test]
fn the_text_says_what_the_fields_say() {
    everywhere(the_text_says_what_the_fields_say_here);
}

fn the_text_says_what_the_fields_say_here() {
    let (_host, toolbox) = world();
    let mut met = std::collections::BTreeSet::new();
    for (tool, arguments) in calls().into_iter().chain(commands()) {
        let result = call(&toolbox, tool, arguments.clone());
        assert!(result.ok, "{tool} {arguments}: {}", result.content);
        met.insert(tool.to_owned());
        let Some(fields) = &result.structured else {
            // The text is all there is.
            assert!(["read_file", "read_output"].contains(&tool), "{tool}");
            continue;
        };
        check(tool, "", fields, &result);
        // And nothing that the fields do not know.
        let lines = match tool {
            "list_files" => [&fields["entries"], &fields["skipped"]],
            "search_files" => [&fields["hits"], &fields["notes"]],
            _ => continue,
        };
        let known: usize = lines
            .iter()
            .map(|list| list.as_array().unwrap().len())
            .sum();
        let more = usize::from(tool == "list_files" && fields["more"] == true);
        let said = result
            .content
            .lines()
            .filter(|line| *line != "[empty]" && !line.starts_with("[no line"));
        assert_eq!(
            said.count(),
            known + more,
            "{tool} {arguments}\n{}\n{fields}",
            result.content
        );
    }
    // Every tool that a worker may get was called.
    let mut all: std::collections::BTreeSet<String> = tools::names().into_iter().collect();
    all.remove("read_output");
    if commands().is_empty() {
        all.remove("shell");
    }
    assert_eq!(met, all);
}
