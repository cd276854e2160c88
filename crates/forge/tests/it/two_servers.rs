//! Two servers on one tree: what is answered as done is there at the end.
//!
//! `FORGE_TWO_SERVERS_ROUNDS=10000` makes it as long as it was meant; a short one finds a lost
//! write within a second where nothing keeps them apart.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{World, forge_program};

const CONFIG: &str = "sandbox: { root: . }\n";

struct Client {
    server: Child,
    to: ChildStdin,
    from: std::io::Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Client {
    fn start(world: &World) -> Self {
        let mut server = world
            .command(forge_program(), &["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = server.stdin.take().unwrap();
        let from = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut client = Client {
            server,
            to,
            from,
            id: 0,
        };
        client.ask(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" } }),
        );
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(client.to, "{ready}").unwrap();
        client
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        writeln!(self.to, "{request}").unwrap();
        loop {
            let line = self.from.next().unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.id {
                return answer["result"].clone();
            }
        }
    }

    /// Whether it was done; what it was refused for otherwise.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<(), Value> {
        let result = self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        match result["isError"] == true {
            true => Err(result),
            false => Ok(()),
        }
    }

    fn end(mut self) {
        drop(self.to);
        self.server.wait().unwrap();
    }
}

/// Adds one to a number in a file, as often as that is answered with stale.
fn count_up(client: &mut Client, file: &Path, tool: &str) {
    let name = file.file_name().unwrap().to_str().unwrap();
    loop {
        let bytes = std::fs::read(file).unwrap();
        let hash: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let old = String::from_utf8(bytes).unwrap();
        let number: u64 = old.trim().parse().unwrap();
        let new = format!("{}\n", number + 1);
        let path = format!("/{name}");
        let arguments = match tool {
            "write_file" => json!({ "path": path, "content": new, "if_match": hash }),
            _ => json!({ "path": path, "old_text": old, "new_text": new, "if_match": hash }),
        };
        match client.call(tool, arguments) {
            Ok(()) => return,
            Err(refused) => {
                let stale = refused["structuredContent"]["code"] == "STALE";
                assert!(stale, "{refused}");
            }
        }
    }
}

#[test]
fn two_servers_lose_nothing() {
    let rounds = std::env::var("FORGE_TWO_SERVERS_ROUNDS");
    let rounds: u64 = rounds.map_or(150, |rounds| rounds.parse().unwrap());
    let world = World::new(&[
        ("golem-forge.config.yaml", CONFIG),
        ("written.txt", "0\n"),
        ("edited.txt", "0\n"),
        ("shared.txt", "a: 0.\nb: 0.\n"),
    ]);
    let project = world.project();
    std::thread::scope(|scope| {
        for own in ["a", "b"] {
            let (world, project) = (&world, &project);
            scope.spawn(move || {
                let mut client = Client::start(world);
                for round in 0..rounds {
                    count_up(&mut client, &project.join("written.txt"), "write_file");
                    count_up(&mut client, &project.join("edited.txt"), "edit_file");
                    // Without a guard: of a file that the other one edits elsewhere, and of one
                    // that neither has made yet.
                    let (old, new) = (format!("{own}: {round}."), format!("{own}: {}.", round + 1));
                    let edit = json!({ "path": "/shared.txt", "old_text": old, "new_text": new });
                    client.call("edit_file", edit).unwrap();
                    let line = format!("{own} {round}\n");
                    let append = json!({ "path": "/appended.txt", "content": line });
                    client.call("append_file", append).unwrap();
                }
                client.end();
            });
        }
    });
    let read = |name: &str| std::fs::read_to_string(project.join(name)).unwrap();
    assert_eq!(read("written.txt"), format!("{}\n", 2 * rounds));
    assert_eq!(read("edited.txt"), format!("{}\n", 2 * rounds));
    assert_eq!(read("shared.txt"), format!("a: {rounds}.\nb: {rounds}.\n"));
    let appended = read("appended.txt");
    for own in ["a", "b"] {
        let of_one: Vec<&str> = appended.lines().filter(|l| l.starts_with(own)).collect();
        let all: Vec<String> = (0..rounds).map(|round| format!("{own} {round}")).collect();
        assert_eq!(of_one, all);
    }
    assert_eq!(appended.lines().count() as u64, 2 * rounds);
    // Nothing of ours is left.
    let left = std::fs::read_dir(&project).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with(".forge")).count(), 0);
}
