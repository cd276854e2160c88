//! What the files themselves refuse.

use serde_json::{Value, json};

use super::Page;
use super::world::World;
use crate::support::call;

/// Places to stumble over, in words.
const PLACES: [(&str, &str); 23] = [
    ("missing", "/out/nope.md"),
    ("nearly right", "/data/readmee.md"),
    ("outside", "/etc/passwd"),
    ("climbing out", "../../etc/passwd"),
    ("home", "~/.ssh/id_rsa"),
    ("empty", ""),
    ("NUL", "/out/a\0.md"),
    ("drive", "C:\\x.md"),
    ("escape sequence", "/out/\u{1b}[2Jx.md"),
    ("read-only", "/data/readme.md"),
    ("protected", "/out/held.lock"),
    ("hidden", "/out/secret.key"),
    ("a root", "/out"),
    ("a directory", "/out/dir"),
    ("below a file", "/out/kept.md/x.md"),
    ("a pipe", "/out/pipe.md"),
    ("a way out", "/data/away/secret.txt"),
    ("a way out, writable", "/out/away/secret.txt"),
    ("a link in a circle", "/out/loop.md"),
    ("another name of a file", "/out/hard.md"),
    ("no text", "/out/picture.md"),
    ("too large", "/out/long.md"),
    ("suffix", "/out/a.exe"),
];

/// What each tool is called with at a place, apart from the place.
const TOOLS: [(&str, &str); 13] = [
    ("read_file", "path"),
    ("write_file", "path"),
    ("append_file", "path"),
    ("edit_file", "path"),
    ("list_files", "path"),
    ("search_files", "path"),
    ("delete_file", "path"),
    ("move_file", "from"),
    ("copy_file", "from"),
    ("create_dir", "path"),
    ("file_exists", "path"),
    ("file_info", "path"),
    ("hash_file", "path"),
];

fn arguments(tool: &str, name: &str, place: &str) -> Value {
    let mut arguments = match tool {
        "write_file" | "append_file" => json!({"content": "x"}),
        "edit_file" => json!({"old_text": "two", "new_text": "2"}),
        "search_files" => json!({"pattern": "one"}),
        "move_file" | "copy_file" => json!({"to": "/out/new.md"}),
        _ => json!({}),
    };
    arguments[name] = json!(place);
    arguments
}

pub(super) fn rows(page: &mut Page) {
    let long = format!("/out/{}.md", "n".repeat(300));
    for (tool, name) in TOOLS {
        page.heading(tool);
        for (label, place) in PLACES {
            one(page, tool, label, arguments(tool, name, place));
        }
        one(page, tool, "a long name", arguments(tool, name, &long));
    }
    for tool in ["move_file", "copy_file"] {
        page.heading(&format!("{tool}, to"));
        for (label, place) in PLACES {
            one(
                page,
                tool,
                label,
                json!({"from": "/out/kept.md", "to": place}),
            );
        }
    }
    page.heading("one tool's own");
    for (tool, label, arguments) in own() {
        one(page, tool, &format!("{tool}, {label}"), arguments);
    }
}

/// What only some of the tools can meet.
fn own() -> Vec<(&'static str, &'static str, Value)> {
    let stale = "0".repeat(64);
    let kept = "/out/kept.md";
    vec![
        (
            "read_file",
            "two ways at once",
            json!({"path": kept, "offset": 1, "tail": 1}),
        ),
        (
            "write_file",
            "there already",
            json!({"path": kept, "content": "x", "create_new": true}),
        ),
        (
            "write_file",
            "too much",
            json!({"path": kept, "content": "x".repeat(41)}),
        ),
        (
            "write_file",
            "changed",
            json!({"path": kept, "content": "x", "if_match": stale}),
        ),
        (
            "write_file",
            "no hash",
            json!({"path": kept, "content": "x", "if_match": "abc"}),
        ),
        (
            "write_file",
            "full",
            json!({"path": "/full/there.md", "content": "x".repeat(13)}),
        ),
        (
            "write_file",
            "full of files",
            json!({"path": "/full/new.md", "content": "x"}),
        ),
        (
            "append_file",
            "too much",
            json!({"path": kept, "content": "x".repeat(41)}),
        ),
        (
            "append_file",
            "full",
            json!({"path": "/full/there.md", "content": "xxx"}),
        ),
        (
            "edit_file",
            "no such text",
            json!({"path": kept, "old_text": "three", "new_text": "3"}),
        ),
        (
            "edit_file",
            "twice",
            json!({"path": kept, "old_text": "one", "new_text": "1"}),
        ),
        (
            "edit_file",
            "nothing to find",
            json!({"path": kept, "old_text": "", "new_text": "1"}),
        ),
        (
            "edit_file",
            "the same",
            json!({"path": kept, "old_text": "two", "new_text": "two"}),
        ),
        (
            "edit_file",
            "too much",
            json!({"path": kept, "old_text": "two", "new_text": "x".repeat(41)}),
        ),
        (
            "edit_file",
            "changed",
            json!({"path": kept, "old_text": "two", "new_text": "2", "if_match": stale}),
        ),
        (
            "edit_file",
            "two ways at once",
            json!({"path": kept, "old_text": "one", "new_text": "1", "replace_all": true, "near_line": 1}),
        ),
        (
            "list_files",
            "no pattern",
            json!({"path": "/out", "pattern": "["}),
        ),
        (
            "search_files",
            "no expression",
            json!({"path": "/out", "pattern": "("}),
        ),
        (
            "search_files",
            "no pattern",
            json!({"path": "/out", "pattern": "x", "glob": "["}),
        ),
        (
            "delete_file",
            "all of the root",
            json!({"path": "/out", "recursive": true}),
        ),
        (
            "delete_file",
            "all, read-only",
            json!({"path": "/data/sub", "recursive": true}),
        ),
        (
            "move_file",
            "there already",
            json!({"from": kept, "to": "/out/other.md"}),
        ),
        (
            "move_file",
            "onto a directory",
            json!({"from": kept, "to": "/out/dir", "overwrite": true}),
        ),
        (
            "move_file",
            "into itself",
            json!({"from": "/out/dir", "to": "/out/dir/below"}),
        ),
        (
            "move_file",
            "full",
            json!({"from": kept, "to": "/full/new.md"}),
        ),
        (
            "copy_file",
            "there already",
            json!({"from": kept, "to": "/out/other.md"}),
        ),
        (
            "copy_file",
            "a directory",
            json!({"from": "/out/dir", "to": "/out/dir2"}),
        ),
        (
            "copy_file",
            "full",
            json!({"from": kept, "to": "/full/new.md"}),
        ),
        (
            "copy_file",
            "onto itself",
            json!({"from": kept, "to": kept, "overwrite": true}),
        ),
        ("create_dir", "a file is there", json!({"path": kept})),
    ]
}

fn one(page: &mut Page, tool: &str, label: &str, arguments: Value) {
    let world = World::new();
    let toolbox = world.builder().build().unwrap();
    let result = call(&toolbox, tool, arguments.clone());
    page.row(world.host(), label, &arguments, &result);
}
