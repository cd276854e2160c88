//! `forge mcp`: the wire on standard input and output, and nothing else on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::{PROJECT, World, forge_program};

const FILE: &str = "golem-forge.config.yaml";

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Client {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut child = world
            .command(forge_program(), args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = Client {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            next_id: 0,
        };
        let answer = client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "forge");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(answer["id"], id);
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Hangs up and waits for the end.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

#[test]
fn a_session_from_handshake_to_hang_up() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    let mut client = Client::start(&world, &["--trust", "mcp"]);
    let list = client.ask("tools/list", json!({}));
    let names: Vec<&str> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "read_file",
            "write_file",
            "append_file",
            "edit_file",
            "list_files",
            "search_files",
            "delete_file",
            "move_file",
            "copy_file",
            "create_dir",
            "file_exists",
            "file_info",
            "hash_file",
            "read_output",
            "shell"
        ]
    );

    let read = client.call("read_file", json!({"path": "/data/a.md"}));
    assert_eq!(read["content"][0]["text"], "text");
    let refused = client.call("write_file", json!({"path": "/data/b.md", "content": "x"}));
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["code"], "READ_ONLY");
    let ran = client.call("shell", json!({"command": "echo hello"}));
    assert_eq!(ran["structuredContent"]["stdout"], "hello\n");
    let asked = client.call("shell", json!({"command": "ls"}));
    assert_eq!(asked["structuredContent"]["code"], "APPROVAL_REQUIRED");
    assert_eq!(client.end(), 0);
    let executions = world.audit().matches(r#""kind":"execution""#).count();
    assert_eq!(executions, 4);
}

#[test]
fn a_host_that_asks_for_itself() {
    let world = World::new(&[(FILE, PROJECT)]);
    let mut client = Client::start(&world, &["mcp", "--approver", "host"]);
    assert_eq!(
        client.call("shell", json!({"command": "ls"}))["isError"],
        false
    );
    let blocked = client.call("shell", json!({"command": "rm x"}));
    assert_eq!(blocked["structuredContent"]["code"], "BLOCKED");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_broken_project_file_names_no_place_of_the_host() {
    let world = World::new(&[]);
    let outside = world.outside().display().to_string();
    let config = "sandbox: {mode: direct, zones: {up: {path: ../home}}}\n";
    world.write(FILE, config);
    let file = world.project().join(FILE).display().to_string();
    for args in [&["mcp"][..], &["mcp", "--config", &file]] {
        let mut client = Client::start(&world, args);
        let answer = client
            .call("read_file", json!({"path": "/up/x"}))
            .to_string();
        assert!(
            answer.contains("config.untrusted at golem-forge.config.yaml:1:44"),
            "{answer}"
        );
        assert!(!answer.contains(&outside), "{answer}");
        assert!(!answer.contains("zone"), "{answer}");
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn a_broken_project_file_answers_with_the_mistake() {
    let world = World::new(&[(FILE, &PROJECT.replace("zones:", "zonse:"))]);
    let mut client = Client::start(&world, &["mcp"]);
    let answer = client.call("read_file", json!({"path": "/data/a.md"}));
    assert_eq!(answer["isError"], true);
    let text = answer["content"][0]["text"].as_str().unwrap();
    insta::assert_snapshot!(text, @r"
    The configuration of this project is not valid, so there are no tools. A person has to correct it; `forge check` shows them how.
    config.unknown_key at golem-forge.config.yaml:3:3
    ");
    assert_eq!(client.end(), 0);
}
