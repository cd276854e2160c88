//! Files handed to a called worker: what its caller may read, what it takes, and as copies.

use std::sync::{Arc, Mutex};

use forge_runtime::{Attachment, Message};
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};
use serde_json::{Value, json};

use crate::listed::{Listed, call, calls, said};
use crate::support::{CONFIG, World};

const MAIN: &str =
    "sandbox: {zones: [{name: data, mode: ro}, {name: workspace}]}\nworkers: [child]\n";
const READS: &str = "sandbox: {zones: [{name: workspace}]}\n";

fn world(child: &str) -> World {
    let world = World::new(CONFIG, &[("main", MAIN), ("child", child)]);
    let data = world.dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a.md"), "# A\n```\nx\n```\n").unwrap();
    std::fs::write(data.join("b.bin"), [0u8, 159, 146, 150]).unwrap();
    std::fs::write(data.join("big.txt"), "x".repeat(300 * 1024)).unwrap();
    std::fs::write(world.dir.path().join("secret.md"), "outside").unwrap();
    world
}

fn attach(paths: &[&str]) -> Value {
    json!({"input": "look", "attachments": paths})
}

/// Says yes, and keeps what it was shown of files.
#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Approver for Shown {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let changes = request
            .changes
            .iter()
            .map(|change| change.diff().to_owned());
        self.0.lock().unwrap().extend(changes);
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce {
            by: "a test".into(),
        }))
    }
}

/// Whoever agrees to an attachment is told how much of what leaves the caller's directory.
#[test]
fn a_question_says_how_large_an_attachment_is() {
    let config = CONFIG.replace("mode: ro }", "mode: ro, approval: { read: ask } }");
    let mut world = World::new(&config, &[("main", MAIN), ("child", READS)]);
    let data = world.dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a.md"), "hello").unwrap();
    std::fs::write(data.join("b.bin"), [0u8; 3000]).unwrap();
    let shown = Arc::new(Shown::default());
    world.approver = shown.clone();
    let model = Listed::new([
        calls([call("1", "child", attach(&["/data/a.md", "/data/b.bin"]))]),
        said("seen"),
        said("done"),
    ]);
    assert!(world.run_with(model).end.is_answer());
    let shown = shown.0.lock().unwrap();
    assert_eq!(
        shown[0],
        "--- /data/a.md\n+++ (copied to the worker)\n (5 bytes, SHA-256 \
         2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824)\n"
    );
    assert!(shown[1].contains("(3000 bytes, "), "{}", shown[1]);
    assert_eq!(shown.len(), 2);
}

#[test]
fn a_worker_with_files_finds_copies_in_a_place_of_its_own() {
    let world = world(READS);
    let model = Listed::new([
        calls([call(
            "1",
            "child",
            attach(&["/data/a.md", "/data/b.bin", "/data/a.md"]),
        )]),
        calls([
            call("2", "list_files", json!({"path": "/attached"})),
            call("3", "read_file", json!({"path": "/attached/a.md"})),
            call("4", "file_info", json!({"path": "/attached/b.bin"})),
            call(
                "5",
                "write_file",
                json!({"path": "/attached/a.md", "content": "x"}),
            ),
            call("6", "read_file", json!({"path": "/data/a.md"})),
        ]),
        said("seen"),
    ]);
    assert!(world.run_with(model.clone()).end.is_answer());
    let asked = model.asked.lock().unwrap();
    let Some(Message::Input { text }) = asked[1].messages.first() else {
        panic!("no input");
    };
    insta::assert_snapshot!(text, @"
    look

    Attached, as copies that can be read:
    - /attached/a.md (14 bytes)
    - /attached/b.bin (4 bytes)
    - /attached/a-2.md (14 bytes)
    ");
    let results = world.results();
    assert!(
        results.starts_with("✓ list_files: a-2.md\na.md\nb.bin\n✓ read_file: # A"),
        "{results}"
    );
    assert!(
        results.contains("✗ write_file: Cannot write to '/attached/a.md': path is read-only"),
        "{results}"
    );
    // It got copies and nothing else of its caller's.
    assert!(
        results.contains("✗ read_file: Cannot access '/data/a.md'"),
        "{results}"
    );
    assert!(results.ends_with("✓ child: seen"), "{results}");
}

#[test]
fn a_worker_without_files_gets_text_in_its_input() {
    let world = world("");
    let model = Listed::new([calls([call("1", "child", attach(&["/data/a.md"]))])]);
    assert!(world.run_with(model.clone()).end.is_answer());
    let asked = model.asked.lock().unwrap();
    let Some(Message::Input { text }) = asked[1].messages.first() else {
        panic!("no input");
    };
    assert!(asked[1].tools.is_empty());
    insta::assert_snapshot!(text, @"
    look

    Attached: a.md (14 bytes)
    ````
    # A
    ```
    x
    ```
    ````
    ");
}

#[test]
fn what_may_not_be_attached_starts_nothing() {
    let small = "attachment_policy: {max_attachments: 1, max_total_bytes: 20, \
                 allowed_suffixes: [.md]}\n";
    for (child, paths, why) in [
        ("", &["/secret.md"][..], "path is outside sandbox"),
        ("", &["/data/../../etc/passwd"], "path is outside sandbox"),
        ("", &["/data/none.md"], "File not found"),
        (
            "",
            &["/data/b.bin"],
            "'b.bin' is not text, and worker 'child' has no files",
        ),
        ("", &["/data/big.txt"], "more than the 262144 that fit"),
        (
            small,
            &["/data/b.bin"],
            "'/data/b.bin' may not be attached: its suffix is not allowed",
        ),
        (
            small,
            &["/data/a.md", "/data/a.md"],
            "2 files are attached; at most 1 may be",
        ),
        (
            "attachment_policy: {max_total_bytes: 5}\nsandbox: {zones: [{name: workspace}]}\n",
            &["/data/a.md"],
            "file too large",
        ),
    ] {
        let world = world(child);
        let model = Listed::new([calls([call("1", "child", attach(paths))])]);
        assert!(world.run_with(model.clone()).end.is_answer());
        let results = world.results();
        assert!(results.contains(why), "{paths:?}: {results}");
        assert_eq!(world.started(), ["main"], "{paths:?}");
        assert_eq!(model.turns_taken(), 2, "its model was asked");
        assert!(!results.contains("/tmp"), "{results}");
    }
}

#[test]
fn a_person_attaches_to_the_entry_worker() {
    let attached = [Attachment::new("notes.md", b"hello".as_slice())];
    let world = World::new(CONFIG, &[("main", "sandbox: none\n")]);
    let model = Listed::new([]);
    assert!(
        world
            .run_attaching(model.clone(), &attached)
            .end
            .is_answer()
    );
    let request = model.last_request();
    let Some(Message::Input { text }) = request.messages.first() else {
        panic!("no input");
    };
    assert_eq!(
        text,
        "go\n\nAttached: notes.md (5 bytes)\n```\nhello\n```\n"
    );

    let world = World::new(
        CONFIG,
        &[("main", "attachment_policy: {max_total_bytes: 1}\n")],
    );
    let model = Listed::new([]);
    let end = world.run_attaching(model.clone(), &attached).end;
    assert_eq!(end.to_string(), "5 bytes are attached; at most 1 may be");
    assert_eq!(model.turns_taken(), 0);
}
