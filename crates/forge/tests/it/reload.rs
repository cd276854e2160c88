//! What a server keeps when the configuration changes while a client is there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::protocol::Protocol;
use crate::support::{World, forge_program};

const CONFIG: &str = "sandbox: { root: . }\n";

#[test]
fn a_placeholder_can_be_written_back_after_a_change() {
    let secret = "k=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB\n";
    let world = World::new(&[("golem-forge.config.yaml", CONFIG), ("s", secret)]);
    let mut server = world
        .command(forge_program(), &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = server.stdin.take().unwrap();
    let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut told = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut protocol = Protocol::default();
    let mut ask = |message: Value| {
        protocol.sent(&message);
        writeln!(to, "{message}").unwrap();
        loop {
            let answer: Value = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
            assert_eq!(protocol.received(&answer), [""; 0], "{answer}");
            if answer["id"] == message["id"] {
                return answer;
            }
        }
    };
    ask(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } }),
    );
    let call = |id: u32, name: &str, arguments: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": name, "arguments": arguments } })
    };
    let read = ask(call(2, "read_file", json!({ "path": "/s" })));
    let shown = read["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(shown.contains("[redacted: "), "{read}");

    world.write("golem-forge.config.yaml", &format!("{CONFIG}# changed\n"));
    let in_force = |line: &String| line.contains("changed and is in force");
    assert!(
        told.by_ref()
            .map_while(Result::ok)
            .any(|line| in_force(&line))
    );
    let written = ask(call(
        3,
        "write_file",
        json!({ "path": "/t", "content": shown }),
    ));
    assert_ne!(written["result"]["isError"], json!(true), "{written}");
    let text = std::fs::read_to_string(world.project().join("t")).unwrap();
    assert_eq!(text.trim_end(), secret.trim_end());
    drop(to);
    server.wait().unwrap();
}
