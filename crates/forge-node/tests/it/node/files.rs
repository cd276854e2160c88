//! Files of a node, and what lies in memory.

use file_sandbox::{ErrorKind, FileSandbox, Limits, Mode, Mount};
use forge_node::{NodeError, PathMapping, Setup};
use forge_tools::{FailureCode, MemoryRecorder, Toolbox};
use os_sandbox::Requirement;
use serde_json::json;

use super::{data, node, path, policy, within};
use crate::place::{ELSEWHERE_NAME, node::connect, with_files};
use crate::support::call;

#[test]
fn a_file_is_taken_and_written_whole() {
    let (host, files) = data();
    let node = node(&host, &files);
    for size in [0, 1, 65_536, 3_000_000] {
        let bytes: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[0]).collect();
        within(node.put_file(&path("/data/sub/b.bin"), bytes.clone())).unwrap();
        assert_eq!(std::fs::read(host.path().join("sub/b.bin")).unwrap(), bytes);
        let read = within(node.read_file(&path("/data/sub/b.bin"), u64::from(size)));
        assert_eq!(read.unwrap(), bytes);
    }
    let refused = |path: &str, max: u64| {
        within(node.read_file(&super::path(path), max))
            .unwrap_err()
            .code
    };
    assert_eq!(
        refused("/data/a.md", 4),
        FailureCode::File(ErrorKind::TooLarge)
    );
    assert_eq!(
        refused("/data/none", 4),
        FailureCode::File(ErrorKind::NotFound)
    );
    assert_eq!(
        refused("/etc/passwd", 9999),
        FailureCode::File(ErrorKind::OutsideSandbox)
    );
    let outside = within(node.put_file(&path("/etc/x"), b"x".to_vec())).unwrap_err();
    assert_eq!(outside.code, FailureCode::File(ErrorKind::OutsideSandbox));
    // What is refused leaves room for the next.
    let long = within(node.put_file(&path("/etc/x"), vec![0; 3_000_000])).unwrap_err();
    assert_eq!(long.code, FailureCode::File(ErrorKind::OutsideSandbox));
    let stats = within(node.stats()).unwrap();
    assert_eq!((stats.calls, stats.in_flight), (14, 1));
    assert!(
        stats.bytes_in > 3_000_000 && stats.bytes_out > 3_000_000,
        "{stats:?}"
    );
}

#[test]
fn a_mount_in_memory_goes_along_and_is_not_written() {
    let copies = Mount::memory(path("/given"), Mode::ReadOnly)
        .with_file(&path("a/note.md"), b"handed over")
        .unwrap()
        .with_file(&path("b.bin"), &[0, 159, 146, 150])
        .unwrap();
    let files = FileSandbox::new(vec![copies]).unwrap();
    let node = connect(Setup::new().files(&files, &PathMapping::Same).unwrap());
    let read = within(node.read_file(&path("/given/b.bin"), 99)).unwrap();
    assert_eq!(read, [0, 159, 146, 150]);
    let toolbox = Toolbox::builder()
        .files(files)
        .runner(forge_node::NodeRunner::new(node))
        .build()
        .unwrap();
    let listed = call(
        &toolbox,
        "list_files",
        json!({"path": "/given", "pattern": "**/*"}),
    );
    assert_eq!(listed.content, "a/note.md\nb.bin");
    let write = json!({"path": "/given/b.bin", "content": "x"});
    let refused = call(&toolbox, "write_file", write);
    assert_eq!(refused.code, Some(FailureCode::File(ErrorKind::ReadOnly)));
    // What is written there would be written nowhere else.
    let scratch = Mount::memory(path("/scratch"), Mode::ReadWrite);
    let files = FileSandbox::new(vec![scratch]).unwrap();
    let setup = Setup::new().files(&files, &PathMapping::Same);
    assert!(matches!(setup, Err(NodeError::Unsupported(_))));
}

/// The rules of a part count from the whole, which is not there.
#[test]
fn a_part_keeps_the_rules_of_the_whole() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(host.path().join(".git/hooks")).unwrap();
    let authority = cap_std::ambient_authority();
    let whole = Mount::open_ambient(path("/"), host.path(), Mode::ReadWrite, authority)
        .unwrap()
        .with_limits(Limits::new().max_file_bytes(20))
        .protect([".git/hooks"])
        .unwrap()
        .hide(["*.key"])
        .unwrap();
    let part = whole.submount(&path("/.git"), path("/repository")).unwrap();
    std::fs::write(host.path().join(".git/tls.key"), "key").unwrap();
    let files = FileSandbox::new(vec![part]).unwrap();
    crate::place::everywhere(|| {
        let toolbox = with_files(Toolbox::builder(), files.clone())
            .build()
            .unwrap();
        let write = |at: &str, content: &str| {
            let args = json!({"path": at, "content": content});
            call(&toolbox, "write_file", args).code
        };
        let read_only = Some(FailureCode::File(ErrorKind::ReadOnly));
        assert_eq!(write("/repository/hooks/pre-commit", "x"), read_only);
        assert_eq!(write("/repository/COMMIT_EDITMSG", "x"), None);
        let long = Some(FailureCode::File(ErrorKind::TooLarge));
        assert_eq!(write("/repository/COMMIT_EDITMSG", &"x".repeat(21)), long);
        let hidden = call(
            &toolbox,
            "read_file",
            json!({"path": "/repository/tls.key"}),
        );
        assert_eq!(hidden.code, Some(FailureCode::File(ErrorKind::NotFound)));
    });
}

#[test]
fn receipts_say_what_was_outside_and_what_inside() {
    use forge_node::{NodeClient, NodeCommandRunner, NodeConnectOptions, NodeRunner};
    let (host, files) = data();
    let policy = policy(&host).build().unwrap();
    let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
    let setup = setup.commands(&policy, Requirement::Enforce, &PathMapping::Same);
    let (stream, child) = crate::place::node::process();
    let node = within(async {
        let (reader, writer) = stream.into_split();
        let outer = json!({"backend": "container", "image": "sha256:1"});
        let connect = NodeConnectOptions::new(ELSEWHERE_NAME).enforcement(outer);
        NodeClient::connect_keeping(reader, writer, setup.unwrap(), connect, child)
            .await
            .unwrap()
    });
    let records = std::sync::Arc::new(MemoryRecorder::default());
    let toolbox = Toolbox::builder()
        .files(files)
        .processes(forge_tools::Processes::started_by(
            NodeCommandRunner::new(node.clone()),
            policy,
        ))
        .runner(NodeRunner::new(node))
        .gate(crate::support::Always(forge_tools::Verdict::Allow))
        .shared_recorder(std::sync::Arc::clone(&records) as _)
        .build()
        .unwrap();
    let write = json!({"path": "/data/new.md", "content": "x"});
    let written = call(&toolbox, "write_file", write);
    assert_eq!(written.runner, ELSEWHERE_NAME);
    assert_eq!(written.artifacts[0].path, "/data/new.md");
    let command = call(&toolbox, "shell", json!({"command": "cat data/new.md"}));
    assert_eq!(
        (command.content.as_str(), command.runner),
        ("x", ELSEWHERE_NAME)
    );
    // A failure says where it was tried.
    let missing = call(&toolbox, "read_file", json!({"path": "/data/none"}));
    assert_eq!(missing.runner, ELSEWHERE_NAME);
    let backends: Vec<String> = records
        .records()
        .iter()
        .map(|record| {
            let receipt = record.enforcement.as_ref().unwrap();
            assert_eq!(receipt["backend"], "container");
            assert_eq!(receipt["image"], "sha256:1");
            receipt["inside"]["backend"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        (backends[0].as_str(), backends[2].as_str()),
        ("file handles", "file handles")
    );
    assert!(
        ["namespaces", "bubblewrap", "landlock"].contains(&backends[1].as_str()),
        "{backends:?}"
    );
    // Kept results lie with the broker.
    let gone = call(&toolbox, "read_output", json!({"output_id": "none"}));
    assert_eq!(gone.code, Some(FailureCode::UnknownOutput));
}
