//! A side that says whatever it likes: the other one comes to an end, without a panic, and says so.

use forge_node::{NodeClient, NodeConnectOptions, NodeRunner, Setup};
use forge_tools::{CallRequest, FailureCode, Toolbox};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{READY, SETUP, data, frame, hello, said, served, within};

const PART: u8 = 8;
const TOOL: u8 = 16;
const RUN: u8 = 17;
const STATS: u8 = 20;
const INPUT: u8 = 32;
const WINDOW: u8 = 36;
const STARTED: u8 = 48;
const STDOUT: u8 = 49;
const DONE: u8 = 53;
const FAILED: u8 = 54;

/// What a call of `read_file` comes to where the node answers with this, whatever it is asked.
fn answered(answer: &[u8]) -> (Option<FailureCode>, String) {
    let (_host, files) = data();
    within(async {
        let (ours, mut theirs) = tokio::io::duplex(1 << 22);
        let begin = [
            hello(1),
            said(READY, 0, &json!({"commands": null, "files": {}})),
        ]
        .concat();
        theirs.write_all(&begin).await.unwrap();
        let (reader, writer) = tokio::io::split(ours);
        let connect = NodeConnectOptions::new("elsewhere");
        let node = NodeClient::connect(reader, writer, Setup::new(), connect).await;
        let node = node.unwrap();
        let toolbox = Toolbox::builder()
            .files(files)
            .runner(NodeRunner::new(node.clone()))
            .build()
            .unwrap();
        let call = toolbox.call(CallRequest::new("read_file", json!({"path": "/data/a.md"})));
        let telling = async {
            // The call comes after the setup; by then there is one with id 1.
            let mut asked = vec![0; 16 * 1024];
            let mut so_far = Vec::new();
            while !String::from_utf8_lossy(&so_far).contains("read_file") {
                let count = theirs.read(&mut asked).await.unwrap();
                so_far.extend_from_slice(&asked[..count]);
            }
            theirs.write_all(answer).await.unwrap();
            theirs.shutdown().await.unwrap();
        };
        let (result, ()) = tokio::join!(call, telling);
        // After any of them the stream has ended.
        while node.ended().is_none() {
            tokio::task::yield_now().await;
        }
        (result.code, result.content)
    })
}

#[test]
fn what_is_no_answer_is_none() {
    let reply = |reply: Value| said(DONE, 1, &reply);
    let artifact = |path: &str| {
        json!({"text": "", "structured": null, "events": [],
               "artifacts": [{"path": path, "effect": "created", "bytes": 1, "sha256": null}]})
    };
    let good = json!({"text": "hi", "structured": null, "artifacts": [], "events": []});
    let structured = json!({"text": "", "structured": {"x": 1}, "artifacts": [], "events": []});
    let failure = |code: &str| {
        json!({"code": code, "message": "No.", "hint": null, "path": null, "structured": null,
               "events": []})
    };
    let ended = Some(FailureCode::IsolationEnded);
    let internal = Some(FailureCode::Internal);
    for (about, answer, code) in [
        ("an answer", reply(good.clone()), None),
        ("no JSON", frame(DONE, 1, b"}"), internal),
        (
            "facts that the tool does not give",
            reply(structured),
            internal,
        ),
        (
            "a file that the worker cannot write",
            reply(artifact("/etc/passwd")),
            internal,
        ),
        ("a file of no sandbox", reply(artifact("../..")), internal),
        (
            "a refusal",
            said(FAILED, 1, &failure("NOT_FOUND")),
            Some(FailureCode::File(file_sandbox::ErrorKind::NotFound)),
        ),
        (
            "a code that there is not",
            said(FAILED, 1, &failure("WHATEVER")),
            internal,
        ),
        (
            "a person who was not asked",
            said(FAILED, 1, &failure("DENIED")),
            internal,
        ),
        ("a failure that is none", said(FAILED, 1, &json!([])), ended),
        ("an end", Vec::new(), ended),
        ("an answer to somebody else", said(DONE, 2, &good), ended),
        ("a word of a broker", frame(TOOL, 1, b"{}"), ended),
        ("noise", b"Segmentation fault\n".to_vec(), ended),
        (
            "two starts",
            [frame(STARTED, 1, b""), frame(STARTED, 1, b"")].concat(),
            ended,
        ),
        (
            "more than there is room for",
            frame(STDOUT, 1, &[0; 900_000]),
            ended,
        ),
        (
            "more room than there can be",
            said(WINDOW, 1, &json!({"bytes": u32::MAX})),
            ended,
        ),
        ("half of one", frame(DONE, 1, b"{}")[..10].to_vec(), ended),
        (
            "many small ones",
            frame(STDOUT, 1, b"x").repeat(2000),
            ended,
        ),
    ] {
        let (found, content) = answered(&answer);
        assert_eq!(found, code, "{about}: {content}");
    }
}

/// A setup by hand: nothing but a mount in memory, so that whatever is asked touches no disk.
fn memory() -> Value {
    json!({
        "files": {
            "relative_roots": false,
            "mounts": [{
                "path": "/m", "place": null, "writable": true, "suffixes": null,
                "max_file_bytes": null, "quota_bytes": null, "quota_files": null,
                "hard_links": "allow", "strict_paths": false, "durable": false, "protected": [], "hidden": [],
                "rules_from": []
            }]
        },
        "commands": null,
        "max_write_bytes": null
    })
}

#[test]
fn what_no_broker_says_ends_the_node() {
    let begun = |more: Vec<u8>| [hello(1), said(SETUP, 0, &memory()), more].concat();
    let tool = |id: u32| {
        let body =
            json!({"tool": "list_files", "arguments": {"path": "/"}, "seen": [], "paths": []});
        said(TOOL, id, &body)
    };
    let put = json!({"path": "/m/x", "bytes": 5, "plant": false});
    for (about, says, well) in [
        ("nothing", Vec::new(), true),
        ("only a name", hello(1), true),
        ("a setup first", said(SETUP, 0, &memory()), false),
        (
            "a setup that is none",
            [hello(1), said(SETUP, 0, &json!({"x": 1}))].concat(),
            false,
        ),
        ("an end in a frame", begun(tool(1)[..20].to_vec()), false),
        ("a good call", begun(tool(1)), true),
        (
            "commands that there are not",
            begun(said(RUN, 1, &json!({}))),
            true,
        ),
        ("a call of nothing", begun(frame(TOOL, 1, b"")), true),
        (
            "two of one id",
            begun([said(19, 1, &put), tool(1)].concat()),
            false,
        ),
        (
            "input that nobody asked for",
            begun([said(19, 1, &put), frame(INPUT, 1, &vec![0; 900_000])].concat()),
            false,
        ),
        ("a word of a node", begun(frame(DONE, 1, b"")), false),
        (
            "two bodies at once",
            begun([frame(PART, 1, b"{"), frame(PART, 2, b"{")].concat()),
            false,
        ),
        (
            "a body of another",
            begun([frame(PART, 1, b"{"), tool(2)].concat()),
            false,
        ),
        (
            "room for nobody",
            begun(said(WINDOW, 9, &json!({"bytes": 1}))),
            true,
        ),
        (
            "too many calls",
            begun((1..=129).flat_map(|id| said(19, id, &put)).collect()),
            false,
        ),
    ] {
        let (served, _) = served(&says);
        assert_eq!(served.is_ok(), well, "{about}: {served:?}");
    }
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        Just(PART),
        Just(TOOL),
        Just(RUN),
        18_u8..20,
        Just(STATS),
        INPUT..37_u8,
        STARTED..56_u8,
        0_u8..8
    ];
    let body = prop_oneof![
        any::<Vec<u8>>(),
        Just(b"{}".to_vec()),
        Just(json!({"bytes": 9}).to_string().into_bytes()),
        Just(json!({"signal": 9}).to_string().into_bytes()),
        Just(
            json!({"path": "/m/x", "bytes": 3, "plant": true})
                .to_string()
                .into_bytes()
        ),
        Just(
            json!({"path": "/m/x", "max_bytes": 3})
                .to_string()
                .into_bytes()
        ),
        Just(
            json!({"tool": "write_file", "arguments": {"path": "/m/x", "content": "y"},
                   "seen": [["/m/x", null]], "paths": [["/m/x", "/m/z"]]})
            .to_string()
            .into_bytes()
        ),
    ];
    proptest::collection::vec((kind, 0_u32..3, body), 0..12).prop_map(|words| {
        let frames = words
            .into_iter()
            .map(|(kind, id, body)| frame(kind, id, &body));
        frames.flatten().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_broker_says_the_node_ends(words in words(), noise in any::<Vec<u8>>()) {
        let says = [hello(1), said(SETUP, 0, &memory()), words, noise].concat();
        let _either = served(&says);
    }

    #[test]
    fn whatever_a_node_says_the_call_ends(words in words(), noise in any::<Vec<u8>>()) {
        let (code, content) = answered(&[words, noise].concat());
        prop_assert!(code.is_some() || content.is_empty(), "{}", content);
    }
}
