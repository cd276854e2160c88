//! `forge mcp`: the wire on standard input and output, and nothing else on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::protocol::Protocol;
use crate::support::{PROJECT, World, forge_program};

const FILE: &str = "golem-forge.config.yaml";

/// No test waits for this; it only keeps a defect from hanging the suite.
const WATCHDOG: Duration = Duration::from_secs(600);

pub(super) struct Client {
    child: Child,
    /// What it said to the person, line by line.
    said: Receiver<String>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    protocol: Protocol,
}

impl Client {
    pub(super) fn start(world: &World, args: &[&str]) -> Self {
        Client::opening(world, args, json!({}))
    }

    fn opening(world: &World, args: &[&str], capabilities: Value) -> Self {
        let mut client = Client::start_silent(world, args);
        client.open(capabilities);
        client
    }

    /// Without a word of its own.
    fn start_silent(world: &World, args: &[&str]) -> Self {
        let mut child = world
            .command(forge_program(), args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Nobody may be held up by what is said to a person.
        let (line, said) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for text in stderr.lines().map_while(Result::ok) {
                let _ = line.send(text);
            }
        });
        Client {
            said,
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            next_id: 0,
            protocol: Protocol::default(),
        }
    }

    fn open(&mut self, capabilities: Value) {
        let answer = self.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "forge");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn send(&mut self, message: &Value) {
        self.protocol.sent(message);
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.receive();
        assert_eq!(answer["id"], id);
        answer
    }

    /// Sends a line as it is; its answer is this error, or none where that is 0.
    fn line(&mut self, line: &str, code: i64) {
        if let Ok(message) = serde_json::from_str(line) {
            self.protocol.sent(&message);
        }
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let answer = self.receive();
        let shown = &line[..line.len().min(200)];
        let given = answer["error"]["code"].as_i64().unwrap_or_default();
        assert_eq!(given, code, "{shown} {answer}");
        assert_ne!(answer["result"]["isError"], true, "{shown} {answer}");
    }

    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// What comes next, which is a message by the schema too.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(self.protocol.received(&message), [""; 0], "{message}");
        message
    }

    /// Waits until the person has been told something like it.
    pub(super) fn hear(&self, part: &str) {
        let heard = std::iter::from_fn(|| self.said.recv_timeout(WATCHDOG).ok());
        let mut others = Vec::new();
        for line in heard {
            if line.contains(part) {
                return;
            }
            others.push(line);
        }
        panic!("{part:?} was not said, but {others:?}");
    }

    /// Hangs up and waits for the end.
    pub(super) fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

/// One process, line by line, for a client of each era: what is no message, or none that can be
/// taken, costs neither the process nor the next message anything.
#[test]
fn whatever_comes_the_next_line_is_answered() {
    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    let context = json!({
        VERSION: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = |id: &str, method: &str, mut params: Value, meta: &Value| {
        if !meta.is_null() {
            params["_meta"] = meta.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let read = json!({"name": "read_file", "arguments": {"path": "/data/a.md"}});
    let long = format!("\"{}\"", "a".repeat(10_000_000));
    let mut unknown = context.clone();
    unknown[VERSION] = json!("2999-01-01");
    for (meta, bare) in [(&Value::Null, 0), (&context, -32602)] {
        let mut client = Client::start_silent(&world, &["--trust", "mcp"]);
        match meta.is_null() {
            true => client.open(json!({})),
            // Discovery decides nothing, so it may come first and need not.
            false => client.line(&message("d", "server/discover", json!({}), meta), 0),
        }
        // An id is used once.
        let mut count = 0;
        let mut next = || {
            count += 1;
            message(&format!("next {count}"), "tools/call", read.clone(), meta)
        };
        client.line(&next(), 0);
        for (line, code) in [
            (message("1", "tools/list", json!({}), &Value::Null), bare),
            (message("2", "tools/list", json!({}), &unknown), -32022),
            (message("3", "tools/call", json!({"name": 7}), meta), -32602),
            (message("4", "tools/of/ours", json!({}), meta), -32601),
            (message("5", "prompts/list", json!({}), meta), -32601),
        ] {
            client.line(&line, code);
            client.line(&next(), 0);
        }
        // What cannot be matched to a request is an error where errors may be without an id,
        // which the revision of the handshake has not.
        for line in ["[]", &long] {
            match meta.is_null() {
                true => writeln!(client.input.as_mut().unwrap(), "{line}").unwrap(),
                false => client.line(line, -32600),
            }
            client.line(&next(), 0);
        }
        for noise in ["", "garbage", "{\"jsonrpc\":\"2.0\",", "\u{0}\u{feff}"] {
            writeln!(client.input.as_mut().unwrap(), "{noise}").unwrap();
            client.line(&next(), 0);
        }
        assert_eq!(client.end(), 0);
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

#[test]
fn a_project_that_nobody_agreed_to_names_the_command_that_shows_it() {
    let config = "sandbox: {mode: direct, zones: {up: {path: ../beside}}}\n";
    let world = World::new(&[(FILE, config), ("../beside/x", "")]);
    let mut client = Client::start(&world, &["mcp"]);
    let answer = client.call("read_file", json!({"path": "/up/x"}));
    let text = answer["content"][0]["text"].as_str().unwrap();
    insta::assert_snapshot!(text, @r"
    A person has not agreed to this project's configuration, so there are no tools. `forge trust` shows them what it asks for.
    config.untrusted at golem-forge.config.yaml:1:44
    ");
    assert_eq!(client.end(), 0);
}

/// A mistake is told until it is corrected; from then on a new one changes nothing.
#[test]
fn a_configuration_that_changes_is_followed() {
    let world = World::new(&[
        (FILE, &PROJECT.replace("zones:", "zonse:")),
        ("data/a.md", "text"),
    ]);
    let mut client = Client::start(&world, &["mcp"]);
    let read = |client: &mut Client| client.call("read_file", json!({"path": "/data/a.md"}));
    assert_eq!(read(&mut client)["isError"], true);

    world.write(FILE, PROJECT);
    let changed = client.receive();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(read(&mut client)["content"][0]["text"], "text");

    world.write(FILE, &PROJECT.replace("zones:", "zonse:"));
    client.hear("the one before stays");
    assert_eq!(read(&mut client)["content"][0]["text"], "text");

    world.write(
        FILE,
        "sandbox: { mode: direct, zones: { other: { path: ./data, mode: ro } } }\n",
    );
    let changed = client.receive();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    let gone = read(&mut client);
    assert_eq!(gone["structuredContent"]["code"], "OUTSIDE_SANDBOX");
    assert_eq!(client.end(), 0);
}

/// Directories come from the configuration alone: whatever a client names as its roots is neither
/// asked for nor believed.
#[test]
fn roots_of_a_client_are_nobodys_mounts() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    let secret = world.outside().join("home/secret.md");
    std::fs::write(&secret, "secret").unwrap();
    let root = format!("file://{}", secret.parent().unwrap().display());
    let mut client = Client::opening(
        &world,
        &["mcp"],
        json!({"roots": {"listChanged": true}, "sampling": {}}),
    );
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    let tools = client.ask("tools/list", json!({}));
    let meta = json!({"roots": [{"uri": root, "name": "home"}]});
    for path in [secret.to_str().unwrap(), &root, "/home/secret.md"] {
        // Every line that comes is an answer: `ask` would stumble over a `roots/list`.
        let params = json!({
            "name": "read_file", "arguments": {"path": path}, "_meta": meta, "roots": meta["roots"],
        });
        let read = client.ask("tools/call", params);
        assert_eq!(read["result"]["isError"], true, "{read}");
        assert!(!read.to_string().contains("\"secret\""), "{read}");
    }
    let top = client.call("list_files", json!({"path": "/"}));
    let text = top["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), ["data/", "workspace/"]);
    // The list is that of a client which named none.
    let mut plain = Client::start(&world, &["mcp"]);
    let same = plain.ask("tools/list", json!({}));
    assert_eq!(same["result"], tools["result"]);
    assert_eq!(plain.end(), 0);
    assert_eq!(client.end(), 0);
}

/// The wire is nobody's standard output: neither this process's nor a command's.
#[test]
#[cfg(target_os = "linux")]
fn the_wire_is_out_of_reach_of_a_stray_print() {
    use std::os::fd::AsRawFd as _;

    let world = World::new(&[(FILE, PROJECT)]);
    let mut client = Client::start(&world, &["mcp", "--approver", "host"]);
    let target = |path: String| std::fs::read_link(path).unwrap();
    let wire = target(format!(
        "/proc/self/fd/{}",
        client.output.get_ref().as_raw_fd()
    ));
    let own = |fd: i32| target(format!("/proc/{}/fd/{fd}", client.child.id()));
    assert_ne!(own(1), wire);
    assert_eq!(own(1), own(2));

    // A command that prints to whatever it has.
    let command =
        "sh -c 'ls -l /proc/self/fd; for fd in /proc/self/fd/*; do echo noise > $fd; done'";
    let ran = client.call("shell", json!({"command": command}));
    let printed = ran["structuredContent"]["stdout"].as_str().unwrap();
    assert!(printed.contains("noise"), "{ran}");
    assert!(!printed.contains(wire.to_str().unwrap()), "{printed}");
    // The next line on the wire is the next answer.
    client.call("list_files", json!({}));
    assert_eq!(client.end(), 0);
}

/// One request and its answer over a stream, as an HTTP client of its own.
fn post(mut stream: impl std::io::Read + std::io::Write, token: Option<&str>) -> String {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let body = request.to_string();
    let token = token.map_or(String::new(), |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{token}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    if let (true, Some((_, answer))) = (
        text.starts_with("HTTP/1.1 200"),
        text.split_once("\r\n\r\n"),
    ) {
        let answer = serde_json::from_str(answer).unwrap();
        let mut protocol = Protocol::default();
        protocol.sent(&request);
        assert_eq!(protocol.received(&answer), [""; 0], "{answer}");
    }
    text
}

#[test]
fn over_http_with_a_token() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new(&[(FILE, PROJECT)]);
    let (mut child, said) = listening(&world, "127.0.0.1:0");
    let address = said.recv_timeout(WATCHDOG).unwrap();
    let address = address
        .strip_prefix("forge: serving http://")
        .and_then(|rest| rest.strip_suffix("/mcp"))
        .unwrap_or_else(|| panic!("{address}"));
    let file = said.recv_timeout(WATCHDOG).unwrap();
    let file = file.rsplit(' ').next().unwrap();
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(file).unwrap();

    let connect = || std::net::TcpStream::connect(address).unwrap();
    let listed = post(connect(), Some(&token));
    assert!(listed.contains("\"read_file\""), "{listed}");
    let refused = post(connect(), None);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn over_a_socket_of_ones_own() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new(&[(FILE, PROJECT)]);
    let path = world.outside().join("forge.sock");
    let place = format!("unix:{}", path.display());
    let (mut child, said) = listening(&world, &place);
    said.recv_timeout(WATCHDOG).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = post(
        std::os::unix::net::UnixStream::connect(&path).unwrap(),
        None,
    );
    assert!(listed.contains("\"read_file\""), "{listed}");
    // Told to stop, it leaves nothing behind.
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(!path.exists());
}

/// A command that is started before the server finds its socket there, and has the same user.
#[test]
fn no_socket_where_a_command_connects() {
    let world = World::new(&[(FILE, PROJECT), ("deep/keep", "")]);
    let data = world.outside().join("data");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink("project/deep", world.outside().join("link")).unwrap();
    let rule = format!("read:{}", data.canonicalize().unwrap().display());
    world.forge(&["allow", "--yes", &rule]).code(0);
    for place in [
        "forge.sock",
        "deep/forge.sock",
        "../project/../link/forge.sock",
        "../data/forge.sock",
    ] {
        let ran = world.forge(&["mcp", "--http", &format!("unix:{place}")]);
        ran.code(2).says(&[
            "a command could connect and answer for a person",
            "hint: choose a directory that no command sees",
        ]);
        assert!(!world.project().join(place).exists());
    }
}

/// `forge mcp --http`, and what it says.
fn listening(world: &World, place: &str) -> (Child, Receiver<String>) {
    let mut child = world
        .command(forge_program(), &["mcp", "--http", place])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (line, said) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for text in stderr.lines().map_while(Result::ok) {
            if text.starts_with("forge: ") {
                let _ = line.send(text);
            }
        }
    });
    (child, said)
}
