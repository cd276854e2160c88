//! Either side is killed: the other one knows, and nothing goes on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use file_sandbox::FileSandbox;
use forge_node::{
    CommandEvent, NodeClient, NodeCommandRunner, NodeConnectOptions, NodeError, NodeRunner,
    PathMapping, Setup,
};
use forge_tools::{CallRequest, CommandSpec, FailureCode, Processes, Toolbox, Verdict};
use os_sandbox::Requirement;
use serde_json::json;
use tempfile::TempDir;

use super::{WATCHDOG, data, policy, within};
use crate::place::node::process;
use crate::support::Always;

/// Says that it is alive as long as it is, and starts others that hold on.
const BEATS: &str = "
setsid sh -c 'while :; do echo x >> data/session; sleep 0.02; done' &
( trap '' HUP INT TERM; while :; do echo x >> data/deaf; sleep 0.02; done ) &
while :; do echo x >> data/plain; sleep 0.02; done
";

fn sizes(dir: &Path) -> [u64; 3] {
    ["session", "deaf", "plain"]
        .map(|name| std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len()))
}

fn until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn all_end(dir: &Path) {
    until("something goes on", || {
        let before = sizes(dir);
        std::thread::sleep(Duration::from_millis(500));
        sizes(dir) == before
    });
}

/// A toolbox whose tools all work in a process of their own; its number.
fn elsewhere(host: &TempDir, files: FileSandbox) -> (Toolbox, NodeClient, u32) {
    let policy = policy(host).build().unwrap();
    let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
    let setup = setup.commands(&policy, Requirement::Enforce, &PathMapping::Same);
    let (stream, child) = process();
    let pid = child.0.lock().unwrap().id();
    let node = within(async {
        let (reader, writer) = stream.into_split();
        let connect = NodeConnectOptions::new("elsewhere");
        let made =
            NodeClient::connect_keeping(reader, writer, setup.unwrap(), connect, child).await;
        made.unwrap()
    });
    let starter = NodeCommandRunner::new(node.clone());
    let toolbox = Toolbox::builder()
        .files(files)
        .processes(Processes::started_by(starter, policy))
        .runner(NodeRunner::new(node.clone()))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap();
    (toolbox, node, pid)
}

fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn a_node_that_is_killed_fails_every_call_and_later_ones_at_once() {
    let (host, files) = data();
    let (toolbox, node, pid) = elsewhere(&host, files);
    within(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let toolbox = toolbox.clone();
            calls.spawn(async move {
                let command = json!({"command": BEATS});
                toolbox.call(CallRequest::new("shell", command)).await
            });
        }
        // With the question itself.
        while sizes(host.path()).contains(&0) || node.stats().await.unwrap().in_flight < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        kill(pid);
        while let Some(result) = calls.join_next().await {
            let result = result.unwrap();
            assert_eq!(
                result.code,
                Some(FailureCode::IsolationEnded),
                "{}",
                result.content
            );
            assert_eq!(result.runner, "elsewhere");
        }
        for (tool, args) in [
            ("read_file", json!({"path": "/data/a.md"})),
            ("shell", json!({"command": "true"})),
        ] {
            let later = toolbox.call(CallRequest::new(tool, args)).await;
            assert_eq!(
                later.code,
                Some(FailureCode::IsolationEnded),
                "{}",
                later.content
            );
        }
    });
    assert!(matches!(node.ended(), Some(NodeError::Ended(_))));
    all_end(host.path());
}

/// Tells this program that it is a broker, and where its files are.
const BROKER: &str = "FORGE_TEST_BROKER_DIR";

/// Not a test: what the next one kills.
#[test]
#[ignore = "started by another test"]
fn as_a_broker() {
    let Some(dir) = std::env::var_os(BROKER) else {
        return;
    };
    let (host, files) = data();
    let (toolbox, _node, pid) = elsewhere(&host, files);
    let dir = Path::new(&dir);
    std::fs::write(dir.join("node"), pid.to_string()).unwrap();
    std::fs::write(dir.join("data"), host.path().to_str().unwrap()).unwrap();
    within(toolbox.call(CallRequest::new("shell", json!({"command": BEATS}))));
}

#[test]
fn a_broker_that_is_killed_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node::ending::as_a_broker", "--ignored"])
        .env(BROKER, dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let told = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    until("no broker", || !told("data").is_empty());
    let data = told("data");
    let data = Path::new(&data);
    until("nothing began", || !sizes(data).contains(&0));
    broker.kill().unwrap();
    broker.wait().unwrap();
    all_end(data);
    let node = Path::new("/proc").join(told("node"));
    until("the node goes on", || {
        // Whoever takes it over may not have waited for it yet.
        let status = std::fs::read_to_string(node.join("status")).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    });
    std::fs::remove_dir_all(data).unwrap();
}

/// With the last that uses it, the node goes.
#[test]
fn a_node_that_nobody_uses_ends() {
    let (host, files) = data();
    let node = super::node(&host, &files);
    let command = within(node.start(CommandSpec::new("sleep", ["600"]), false)).unwrap();
    drop(node);
    // A command keeps it.
    let mut command = command;
    command.kill();
    let ended = within(command.next());
    assert!(matches!(ended, Ok(CommandEvent::Ended(_))), "{ended:?}");
}
