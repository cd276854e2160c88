//! What is spoken between a broker and a node: that it holds whatever the other side says, that data
//! waits where nobody reads it, and that nothing outlives either side.

mod ending;
mod files;
mod hostile;
mod streams;

use std::time::Duration;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_node::{
    NodeClient, NodeConnectOptions, NodeError, PathMapping, ServeOptions, Setup, serve,
};
use os_sandbox::{Access, Policy, PolicyBuilder, Requirement, Support};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::node::{connect, runtime};

/// Long enough for anything that ends at all.
pub(super) const WATCHDOG: Duration = Duration::from_secs(600);

pub(super) fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).unwrap()
}

/// `/data`, writable, with one file.
pub(super) fn data() -> (TempDir, FileSandbox) {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("a.md"), "hello").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(path("/data"), host.path(), Mode::ReadWrite, authority);
    let files = FileSandbox::new(vec![mount.unwrap()]).unwrap();
    (host, files)
}

pub(super) fn policy(host: &TempDir) -> PolicyBuilder {
    Policy::builder().mount(host.path(), "/data", Access::ALL)
}

/// A process with the files of [`data`] and commands that see the same.
pub(super) fn node(host: &TempDir, files: &FileSandbox) -> NodeClient {
    let policy = policy(host).build().unwrap();
    let setup = Setup::new().files(files, &PathMapping::Same).unwrap();
    let setup = setup.commands(&policy, Requirement::Enforce, &PathMapping::Same);
    connect(setup.unwrap())
}

/// Waits for it on the runtime that carries the connections, and not for ever.
#[track_caller]
pub(super) fn within<F: Future>(work: F) -> F::Output {
    let work = async { tokio::time::timeout(WATCHDOG, work).await };
    runtime().block_on(work).expect("it does not end")
}

/// A frame by hand: this is what is documented.
pub(super) fn frame(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub(super) fn said(kind: u8, id: u32, body: &Value) -> Vec<u8> {
    frame(kind, id, body.to_string().as_bytes())
}

pub(super) const HELLO: u8 = 1;
pub(super) const SETUP: u8 = 2;
pub(super) const READY: u8 = 3;
pub(super) const REFUSED: u8 = 4;

pub(super) fn hello(protocol: u32) -> Vec<u8> {
    said(HELLO, 0, &json!({"forge-node": protocol, "version": "7.7"}))
}

/// What `connect` makes of a node that says only this and then is silent, or ends.
fn connected_to(says: Vec<u8>, ends: bool) -> Result<NodeClient, NodeError> {
    within(async {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        tokio::io::AsyncWriteExt::write_all(&mut theirs, &says)
            .await
            .unwrap();
        let silent = (!ends).then_some(theirs);
        let (reader, writer) = tokio::io::split(ours);
        // Only who says nothing is waited for in vain.
        let within = match says.is_empty() && silent.is_some() {
            true => Duration::from_millis(300),
            false => WATCHDOG,
        };
        let connect = NodeConnectOptions::new("elsewhere").within(within);
        let made = NodeClient::connect(reader, writer, Setup::new(), connect).await;
        drop(silent);
        made
    })
}

#[test]
fn what_is_no_node_is_told_apart() {
    let refused = said(REFUSED, 0, &json!("/data: not a\u{1b} directory"));
    let mut shown = String::new();
    for (about, says, ends) in [
        (
            "a message of a container",
            b"exec /forge: exec format error\n".to_vec(),
            true,
        ),
        ("controls", b"\x1b[2J\n".to_vec(), false),
        ("nothing, and an end", Vec::new(), true),
        ("nothing at all", Vec::new(), false),
        ("half a frame", hello(1)[..12].to_vec(), true),
        (
            "a frame that is too long",
            vec![1, 0, 0, 0, 0, 1, 0, 0, 0],
            false,
        ),
        ("another version", hello(2), false),
        ("a word out of place", frame(READY, 0, b"{}"), false),
        ("no JSON", frame(HELLO, 0, b"{"), false),
        (
            "a setup that is refused",
            [hello(1), refused].concat(),
            false,
        ),
    ] {
        let error = connected_to(says, ends).unwrap_err();
        shown.push_str(&format!("{about}: {error}\n"));
    }
    let shown = shown.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(shown, @r#"
    a message of a container: the other side is not a node: a frame of kind 101, which there is not; it said `exec /forge: exec format error\n`
    controls: the other side is not a node: a frame of kind 27, which there is not; it said `\x1b[2J\n`
    nothing, and an end: the node ended: its stream ended
    nothing at all: the node did not answer within 0 seconds
    half a frame: the other side is not a node: an end in the middle of a frame; it said `\x01\x00\x00\x00\x00\x00\x00\x00 {"f`
    a frame that is too long: the other side is not a node: a frame of 16777225 bytes, at most 1048576; it said `\x01\x00\x00\x00\x00\x01\x00\x00\x00`
    another version: this forge (VERSION) speaks protocol 1 with nodes, and the other side (7.7) protocol 2
    a word out of place: the other side is not a node: Ready where it should say who it is
    no JSON: the other side is not a node: Hello: EOF while parsing an object at line 1 column 1
    a setup that is refused: the node refused its setup: /data: not a\x1b directory
    "#);
}

/// What `serve` makes of a broker that says this, and what it answers.
pub(super) fn served(says: &[u8]) -> (Result<(), NodeError>, Vec<u8>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    within(async {
        let (mut ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let inside = ServeOptions::new(cap_std::ambient_authority());
        let serving = tokio::spawn(serve(reader, writer, inside));
        let (mut from, mut to) = tokio::io::split(&mut ours);
        let mut answers = Vec::new();
        let telling = async {
            // A node that has had enough does not read to the end.
            let _enough = to.write_all(says).await;
            let _enough = to.shutdown().await;
        };
        let (_, read) = tokio::join!(telling, from.read_to_end(&mut answers));
        read.unwrap();
        (serving.await.unwrap(), answers)
    })
}

#[test]
fn both_sides_say_both_versions() {
    let (served, answers) = served(&hello(3));
    let version = env!("CARGO_PKG_VERSION");
    let text = served.unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "this forge ({version}) speaks protocol 1 with nodes, and the other side (7.7) \
             protocol 3"
        )
    );
    // It said its own before it read ours.
    let own = said(HELLO, 0, &json!({"forge-node": 1, "version": version}));
    assert!(answers.starts_with(&own));
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let (host, files) = data();
    let elsewhere = PathMapping::Moved(vec![(host.path().to_owned(), "/not/there".into())]);
    let refusal = |setup: Setup| {
        let (stream, _child) = crate::place::node::process();
        within(async {
            let (reader, writer) = stream.into_split();
            let made =
                NodeClient::connect(reader, writer, setup, NodeConnectOptions::new("x")).await;
            made.unwrap_err().to_string()
        })
    };
    let absent = refusal(Setup::new().files(&files, &elsewhere).unwrap());
    assert!(
        absent.starts_with("the node refused its setup: "),
        "{absent}"
    );
    // A list of hosts takes a network namespace where the node runs, here this machine.
    let hosts = os_sandbox::NamedHosts::new(["example.com:443"]).port(443);
    let hosts = hosts.address((std::net::Ipv4Addr::LOCALHOST, 5432).into());
    let policy = policy(&host);
    let policy = policy
        .network(os_sandbox::Network::Hosts(hosts))
        .build()
        .unwrap();
    let setup = |requirement| Setup::new().commands(&policy, requirement, &PathMapping::Same);
    let has_namespaces = Support::detect().namespaces();
    if !has_namespaces {
        let network = refusal(setup(Requirement::Enforce).unwrap());
        assert!(network.contains("network"), "{network}");
    }
    let requirement = match has_namespaces {
        true => Requirement::Enforce,
        // A plan that need not keep every promise is accepted.
        false => Requirement::BestEffort,
    };
    let node = connect(setup(requirement).unwrap());
    let promises = node.commands().unwrap()["promises"].clone();
    let network = promises
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["promise"] == "network");
    let state = network.unwrap()["state"].as_str();
    assert_eq!(state == Some("enforced"), has_namespaces, "{promises}");
    // A directory that no place has is not even asked for.
    let nowhere = Setup::new().files(&files, &PathMapping::Moved(Vec::new()));
    assert!(matches!(nowhere, Err(NodeError::Unsupported(_))));
}
