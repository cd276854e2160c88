//! `credentials` of presets: a command uses a key that it never gets, for one server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{Ran, World, eventually, forge_program, ran};
use crate::terminal::pty::{Setup, Terminal, USUAL};

const KEY: &str = "sk-real-0123456789-of-the-person";
const PLACEHOLDER: &str = "sk-real-placeholder";
/// Sends one request. `KEY` in it is the key as the command sees it.
const CLIENT: &str = r#"
import os, socket, sys
from urllib.parse import urlsplit
url = urlsplit(os.environ["TEST_BASE_URL"])
raw = sys.argv[1].encode().decode("unicode_escape").encode("latin1")
raw = raw.replace(b"KEY", os.environ["TEST_API_KEY"].encode())
raw = raw.replace(b"BASE", url.path.encode())
server = socket.create_connection((url.hostname, url.port))
server.sendall(raw)
while True:
    part = server.recv(65536)
    if not part:
        break
    sys.stdout.buffer.write(part)
    sys.stdout.flush()
    if b"data: 1" in part:
        open("got-first", "w").close()
"#;
const REQUEST: &str = "GET BASE/models HTTP/1.1\\r\\nHost: x\\r\\nx-api-key: KEY\\r\\n\
                       Connection: close\\r\\n\\r\\n";

/// A server on the loopback, which notes the heads of all requests.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `got_first`: the file that shows that the first event of a stream arrived.
    fn start(got_first: &Path) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (noted, got_first) = (Arc::clone(&heads), got_first.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, got_first) = (Arc::clone(&noted), got_first.clone());
                std::thread::spawn(move || serve(&stream, &noted, &got_first));
            }
        });
        Server { port, heads }
    }

    fn heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }
}

/// Reads requests one after the other, by `Content-Length` or in chunks.
fn serve(stream: &TcpStream, heads: &Mutex<Vec<String>>, got_first: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            (reader.read_line(&mut head).ok()? > 0).then_some(())?;
        }
        let lower = head.to_ascii_lowercase();
        heads.lock().unwrap().push(head.clone());
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut rest = length.map_or(0, |length| length.parse::<usize>().unwrap());
        if lower.contains("transfer-encoding: chunked") {
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok()?;
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                reader.read_exact(&mut vec![0; size + 2]).ok()?;
                if size == 0 {
                    break;
                }
            }
            rest = 0;
        }
        reader.read_exact(&mut vec![0; rest]).ok()?;
        let mut stream = stream;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let key = lower
            .lines()
            .find_map(|line| line.strip_prefix("x-api-key: "));
        let answer = match path {
            "/v1/stream" => {
                let start =
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
                stream.write_all(start.as_bytes()).ok()?;
                while !got_first.exists() {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                "9\r\ndata: 2\n\n\r\n0\r\n\r\n".to_owned()
            }
            "/v1/socket" if lower.contains("upgrade: websocket\r\n") => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"
                    .to_owned()
            }
            "/v1/other" => "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                            Upgrade: other\r\n\r\n"
                .to_owned(),
            "/v1/redirect" => "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\
                               Content-Length: 0\r\n\r\n"
                .to_owned(),
            _ => format!(
                "HTTP/1.1 200 OK\r\nX-Echo: got {}\r\nKeep-Alive: 5\r\nContent-Length: 2\r\n\r\nok",
                key.unwrap_or_default()
            ),
        };
        stream.write_all(answer.as_bytes()).ok()?;
        if answer.starts_with("HTTP/1.1 101") {
            // Whatever comes is no HTTP, and goes back.
            let mut bytes = [0; 4096];
            loop {
                let count = reader.read(&mut bytes).ok().filter(|count| *count > 0)?;
                stream.write_all(&bytes[..count]).ok()?;
            }
        }
    }
}

/// Returns the mechanisms with a network namespace, and those without one.
fn mechanisms(world: &World) -> (Vec<&'static str>, Vec<&'static str>) {
    let works = |name: &&str| {
        let ran = world.forge(&[
            "exec",
            "--mechanism",
            name,
            "--host",
            "a.example",
            "--",
            "true",
        ]);
        ran.code == 0
    };
    let own = ["namespaces", "bubblewrap"].into_iter().filter(works);
    let own: Vec<&str> = own.collect();
    assert!(
        !own.is_empty(),
        "this host has no mechanism with a network namespace"
    );
    (own, ["landlock"].into_iter().filter(works).collect())
}

/// A person with a preset whose server is `url`.
fn world(url: &str) -> World {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        ("client.py", CLIENT),
    ]);
    let presets = world.outside().join("home/.config/forge/presets");
    fs::create_dir_all(&presets).unwrap();
    let text = format!(
        "preset: mine\nabout: a test\ncommands: [sh]\nhosts: {{ api: [\"a.example:443\"] }}\n\
         env: {{ keys: [TEST_API_KEY] }}\n\
         credentials:\n  - key: TEST_API_KEY\n    server: \"{url}\"\n    base_url: TEST_BASE_URL\n    \
         header: x-api-key\n    placeholder: {PLACEHOLDER}\n"
    );
    fs::write(presets.join("mine.yaml"), text).unwrap();
    world
}

/// A world whose server is on the loopback.
fn with_server() -> (World, Server) {
    let world = world("http://127.0.0.1:1");
    let server = Server::start(&world.project().join("got-first"));
    let preset = world.outside().join("home/.config/forge/presets/mine.yaml");
    let text = fs::read_to_string(&preset).unwrap();
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    fs::write(&preset, text.replace("http://127.0.0.1:1", &url)).unwrap();
    (world, server)
}

impl World {
    fn with_key(&self, flags: &[&str], command: &[&str]) -> Command {
        let all = [&["exec", "--preset", "mine"], flags, &["--"], command].concat();
        let mut forge = self.command(forge_program(), &all);
        forge.env("TEST_API_KEY", KEY);
        forge
    }

    /// Sends a request from inside.
    fn sends(&self, flags: &[&str], request: &str) -> Ran {
        let command = ["python3", "client.py", request];
        ran(self.with_key(flags, &command).output().unwrap())
    }
}

/// Returns the files below a directory that contain the key.
fn files_with_key(directory: &Path) -> String {
    let mut grep = Command::new("grep");
    let found = grep.args(["-rlF", KEY]).arg(directory).output().unwrap();
    String::from_utf8(found.stdout).unwrap()
}

#[test]
fn a_command_uses_a_key_that_it_never_gets() {
    let (world, server) = with_server();
    let receipt = world.outside().join("receipt.json");
    for mechanism in mechanisms(&world).0 {
        let flags = [
            "--share",
            "--mechanism",
            mechanism,
            "--receipt",
            receipt.to_str().unwrap(),
        ];
        let script = "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/*/environ /proc/*/cmdline \
                      | tr '\\0' '\\n'; python3 client.py \"$1\"";
        let inside = ["sh", "-c", script, "sh", REQUEST];
        let used = ran(world.with_key(&flags, &inside).output().unwrap());
        used.code(0);
        used.says(&["TEST_API_KEY stays outside: added for 127.0.0.1"]);
        assert!(
            used.stdout
                .contains(&format!("TEST_API_KEY={PLACEHOLDER}\n")),
            "{}",
            used.stdout
        );
        assert!(
            used.stdout.contains("TEST_BASE_URL=http://127.0.0.1:"),
            "{}",
            used.stdout
        );
        assert!(used.stdout.ends_with("ok"), "{}", used.stdout);
        // A header of the answer that repeats the key is left out, and those for one hop.
        for text in [KEY, "got ", "keep-alive"] {
            assert!(
                !used.stdout.contains(text),
                "{mechanism}: {text}: {}",
                used.stdout
            );
        }
        assert!(!used.stderr.contains(KEY), "{mechanism}: {}", used.stderr);
        let heads = server.heads();
        assert_eq!(heads.len(), 1, "{mechanism}: {heads:?}");
        let expected = format!("x-api-key: {KEY}\r\n");
        assert!(
            heads[0].starts_with("GET /v1/models HTTP/1.1\r\n"),
            "{heads:?}"
        );
        assert!(
            heads[0].contains(&expected) && !heads[0].contains(PLACEHOLDER),
            "{heads:?}"
        );
        assert!(
            heads[0].contains(&format!("host: 127.0.0.1:{}\r\n", server.port)),
            "{heads:?}"
        );
        let text = fs::read_to_string(&receipt).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        let key = &parsed["presets"]["keys"][0];
        assert_eq!(
            (&key["key"], &key["outside"]),
            (&"TEST_API_KEY".into(), &true.into())
        );
        assert_eq!(parsed["contacts"][0]["host"], "127.0.0.1", "{text}");
        let json = [&flags[..], &["--json"]].concat();
        let json = ran(world.with_key(&json[..3], &["true"]).output().unwrap());
        assert!(!json.stdout.contains(KEY), "{}", json.stdout);
    }
    assert!(
        world.audit().contains("TEST_API_KEY stays outside"),
        "{}",
        world.audit()
    );
    // State, the kept home, logs, the receipt, the project.
    assert_eq!(files_with_key(world.outside()), "");
}

/// Answers two clients, each after a request of its own with the key. Argument: the port.
const ASKING_SERVER: &str = r#"
import os, socket, sys
from urllib.parse import urlsplit
url = urlsplit(os.environ["TEST_BASE_URL"])
key = os.environ["TEST_API_KEY"]
inside = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
for _ in range(2):
    client, _ = inside.accept()
    asked = client.recv(100)
    outside = socket.create_connection((url.hostname, url.port))
    head = f"GET {url.path}/models HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\nConnection: close\r\n\r\n"
    outside.sendall(head.encode())
    answer = b""
    while part := outside.recv(65536):
        answer += part
    client.sendall(asked + b": " + answer.split(b"\r\n\r\n")[-1] + b", key " + key.encode())
    client.close()
"#;

/// A server inside, which clients outside reach, uses a key that stays outside.
#[test]
fn a_published_server_uses_a_key_that_stays_outside() {
    let (world, server) = with_server();
    fs::write(world.project().join("asking.py"), ASKING_SERVER).unwrap();
    let receipt = world.outside().join("receipt.json");
    for mechanism in mechanisms(&world).0 {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let published = format!("network.loopback_in=[{port}]");
        let flags = [
            "--share",
            "--mechanism",
            mechanism,
            "-c",
            &published,
            "--receipt",
            receipt.to_str().unwrap(),
        ];
        let mut command = world.with_key(&flags, &["python3", "asking.py", &port.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        if line != "ready\n" {
            let ended = child.wait_with_output().unwrap();
            panic!("{mechanism}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        // Both are connected before the first answer.
        let mut clients = ["one", "two"].map(|name| {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(name.as_bytes()).unwrap();
            (name, client)
        });
        for (name, client) in &mut clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            let expected = format!("{name}: ok, key {PLACEHOLDER}");
            assert_eq!(answer, expected, "{mechanism}");
        }
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{mechanism}: {errors}");
        for told in [
            "TEST_API_KEY stays outside: added for 127.0.0.1",
            &*format!("http://127.0.0.1:{port} is the command's port {port}"),
        ] {
            assert!(errors.contains(told), "{mechanism}: {errors}");
        }
        let heads = server.heads();
        assert_eq!(heads.len(), 2, "{mechanism}: {heads:?}");
        for head in &heads {
            assert!(head.contains(&format!("x-api-key: {KEY}\r\n")), "{head}");
        }
        let text = fs::read_to_string(&receipt).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        let mut ports: Vec<(bool, u64)> = Vec::new();
        for contact in parsed["contacts"].as_array().unwrap() {
            assert_eq!(contact["outcome"], "connected", "{mechanism}: {text}");
            let is_inbound = contact["kind"] == "inbound";
            ports.push((is_inbound, contact["port"].as_u64().unwrap()));
        }
        ports.sort_unstable();
        let (out, inward) = (u64::from(server.port), u64::from(port));
        let expected = [(false, out), (false, out), (true, inward), (true, inward)];
        assert_eq!(ports, expected, "{mechanism}: {text}");
    }
    assert_eq!(files_with_key(world.outside()), "");
}

/// Nothing of the person's is used without a yes.
#[test]
fn without_a_yes_there_is_no_key_and_no_service() {
    let (world, server) = with_server();
    for mechanism in mechanisms(&world).0 {
        let flags = ["--mechanism", mechanism];
        let script = "echo \"key=$TEST_API_KEY url=$TEST_BASE_URL\"; \
                      python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3129))'";
        let none = ran(world
            .with_key(&flags, &["sh", "-c", script])
            .output()
            .unwrap());
        assert_eq!(none.stdout, "key= url=\n", "{mechanism}");
        none.says(&["nothing of yours is shared (--share)", "ConnectionRefused"]);
    }
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[test]
fn without_a_network_of_its_own_a_command_gets_the_key_and_the_person_is_told() {
    let (world, _server) = with_server();
    for mechanism in mechanisms(&world).1 {
        let flags = ["--share", "--mechanism", mechanism];
        let script = ["sh", "-c", "echo \"$TEST_API_KEY $TEST_BASE_URL\""];
        let ran = ran(world.with_key(&flags, &script).output().unwrap());
        assert_eq!(ran.stdout, format!("{KEY} \n"), "{mechanism}");
        ran.says(&["TEST_API_KEY is handed in: under Landlock alone"]);
    }
    // With an open network there is no listener either.
    let flags = ["--share", "-c", "network=true"];
    let script = ["sh", "-c", "echo \"$TEST_API_KEY\""];
    let open = ran(world.with_key(&flags, &script).output().unwrap());
    assert_eq!(open.stdout, format!("{KEY}\n"), "{}", open.stderr);
    open.says(&["TEST_API_KEY is handed in: the network is open"]);
}

#[test]
fn a_request_reaches_one_server_only() {
    let (world, server) = with_server();
    let get = "GET BASE/ok HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n";
    let with = |headers: &str| format!("{get}{headers}\\r\\n");
    let refused = [
        // The placeholder.
        (with(""), "403", "placeholder"),
        (with("x-api-key: sk-of-another\\r\\n"), "403", "placeholder"),
        (with("x-api-key: KEY\\r\\nx-api-key: KEY\\r\\n"), "403", "placeholder"),
        (with("authorization: Bearer KEY\\r\\n"), "403", "placeholder"),
        // Another host.
        (
            "GET http://example.org/smuggled HTTP/1.1\\r\\nHost: example.org\\r\\nx-api-key: KEY\\r\\n\
             Connection: close\\r\\n\\r\\n"
                .to_owned(),
            "400",
            "not a proxy",
        ),
        (
            "CONNECT example.org:443 HTTP/1.1\\r\\nHost: x\\r\\nx-api-key: KEY\\r\\n\
             Connection: close\\r\\n\\r\\n"
                .to_owned(),
            "400",
            "not a proxy",
        ),
        (
            "OPTIONS * HTTP/1.1\\r\\nHost: x\\r\\nx-api-key: KEY\\r\\nConnection: close\\r\\n\\r\\n"
                .to_owned(),
            "400",
            "needs a path",
        ),
        // The key in the answer, and another one in the query.
        (with("x-api-key: KEY\\r\\n").replacen("GET", "TRACE", 1), "400", "TRACE"),
        (with("x-api-key: KEY\\r\\n").replacen("ok", "ok?a=1&key=mine", 1), "400", "query"),
        // Two ways to read its end.
        (
            with("x-api-key: KEY\\r\\nContent-Length: 3\\r\\nContent-Length: 40\\r\\n")
                + "abcGET /smuggled HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
            "400",
            "",
        ),
        (
            with("x-api-key: KEY\\r\\nTransfer-Encoding: gzip, chunked\\r\\n") + "0\\r\\n\\r\\n",
            "400",
            "",
        ),
        (with("x-api-key: KEY\\r\\n bad: folded\\r\\n"), "400", ""),
        (
            with("x-api-key: KEY\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked\\r\\n")
                + "0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\n\\r\\n",
            "400",
            "two lengths",
        ),
        (
            with("x-api-key: KEY\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 3\\r\\n")
                + "0\\r\\n\\r\\n",
            "400",
            "two lengths",
        ),
        (with(&format!("x-api-key: KEY\\r\\nx-long: {}\\r\\n", "a".repeat(100_000))), "431", ""),
    ];
    let mechanism = mechanisms(&world).0[0];
    let flags = ["--share", "--mechanism", mechanism];
    for (request, status, text) in &refused {
        let ran = world.sends(&flags, request);
        let answer = &ran.stdout;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {answer} {}",
            ran.stderr
        );
        assert!(answer.contains(text), "{request}: {answer}");
        let heads = server.heads();
        assert!(heads.is_empty(), "{request}: {heads:?}");
        let is_told = ran.stderr.contains("refused: request 127.0.0.1 ");
        let shows_another = request.contains("sk-of-another");
        assert!(is_told || !shows_another, "{request}: {}", ran.stderr);
        assert!(!answer.contains(KEY), "{request}: {answer}");
    }
    // These reach the server, and nothing but it.
    for (request, line) in [
        (
            with("x-api-key: KEY\\r\\nHost: example.org\\r\\n"),
            "GET /v1/ok HTTP/1.1",
        ),
        (
            with("x-api-key: KEY\\r\\nauthorization: Bearer mine\\r\\nCookie: mine\\r\\n"),
            "GET /v1/ok ",
        ),
        (
            with("x-api-key: KEY\\r\\nUpgrade: websocket\\r\\n"),
            "GET /v1/ok ",
        ),
        (
            with("x-api-key: KEY\\r\\n").replacen("BASE/ok", "//example.org/../x", 1),
            "GET //example.org/../x ",
        ),
        (
            with("x-api-key: KEY\\r\\n").replacen("BASE/ok", "BASE/redirect", 1),
            "GET /v1/redirect ",
        ),
        (
            with("x-api-key: KEY\\r\\nTransfer-Encoding: chunked\\r\\n").replacen("GET", "POST", 1)
                + "3\\r\\nabc\\r\\n0\\r\\n\\r\\n",
            "POST /v1/ok ",
        ),
    ] {
        let ran = world.sends(&flags, &request);
        let heads = server.heads();
        assert_eq!(heads.len(), 1, "{request}: {} {heads:?}", ran.stdout);
        assert!(heads[0].starts_with(line), "{heads:?}");
        let hosts = heads[0].matches("host: ").count();
        assert_eq!(hosts, 1, "{heads:?}");
        for text in ["example.org\r", "mine", "upgrade", "content-length: 3"] {
            assert!(!heads[0].contains(text), "{text}: {heads:?}");
        }
    }
}

#[test]
fn an_answer_is_passed_on_as_it_arrives() {
    let (world, server) = with_server();
    for mechanism in mechanisms(&world).0 {
        let _ = fs::remove_file(world.project().join("got-first"));
        let stream = REQUEST.replace("/models", "/stream");
        // The server sends the second event when the first has arrived inside.
        let ran = world.sends(&["--share", "--mechanism", mechanism], &stream);
        assert!(
            ran.stdout.contains("data: 2"),
            "{mechanism}: {}",
            ran.stdout
        );
        assert_eq!(server.heads().len(), 1);
    }
}

/// A client that says half of a request, and one that never reads, end with the command.
/// Changes to another protocol, and exchanges bytes that are no HTTP. Arguments: path, protocol.
const SOCKET_CLIENT: &str = r#"
import os, socket, sys
from urllib.parse import urlsplit
url = urlsplit(os.environ["TEST_BASE_URL"])
server = socket.create_connection((url.hostname, url.port))
head = (f"GET {url.path}{sys.argv[1]} HTTP/1.1\r\nHost: x\r\nx-api-key: {os.environ['TEST_API_KEY']}\r\n"
        f"Connection: keep-alive, Upgrade\r\nUpgrade: {sys.argv[2]}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
server.sendall(head.encode())
answer = b""
while b"\r\n\r\n" not in answer:
    part = server.recv(1)
    if not part:
        break
    answer += part
print(answer.split(b"\r\n")[0].decode())
if b" 101 " in answer.split(b"\r\n")[0]:
    sent = bytes(range(256)) * 4096
    server.sendall(b"\0GET / HTTP/1.1\r\n\r\n")
    print(server.recv(100))
    got = b""
    for start in range(0, len(sent), 4096):
        server.sendall(sent[start:start + 4096])
        while len(got) < start + 4096:
            got += server.recv(65536)
    print(got == sent, "sec-websocket-accept: x" in answer.decode().lower())
    server.shutdown(socket.SHUT_WR)
    print(server.recv(100))
"#;

/// Agents of OpenAI hold a conversation over WebSocket, and wait seconds if they cannot.
#[test]
fn a_request_changes_to_websocket_and_to_nothing_else() {
    let (world, server) = with_server();
    fs::write(world.project().join("change.py"), SOCKET_CLIENT).unwrap();
    let receipt = world.outside().join("receipt.json");
    let path = receipt.to_str().unwrap();
    for mechanism in mechanisms(&world).0 {
        let flags = ["--share", "--mechanism", mechanism, "--receipt", path];
        let asks = |way: &str, protocol: &str| {
            let command = ["python3", "change.py", way, protocol];
            let ran = ran(world.with_key(&flags, &command).output().unwrap());
            ran.code(0);
            ran.stdout
        };
        let spoken = asks("/socket", "websocket");
        let expected = "HTTP/1.1 101 Switching Protocols\n\
                        b'\\x00GET / HTTP/1.1\\r\\n\\r\\n'\nTrue True\nb''\n";
        assert_eq!(spoken, expected, "{mechanism}");
        let heads = server.heads();
        assert!(
            heads[0].contains(&format!("x-api-key: {KEY}\r\n")),
            "{mechanism}: {heads:?}"
        );
        // The bytes of the whole conversation are recorded.
        let parsed: Value = serde_json::from_str(&fs::read_to_string(&receipt).unwrap()).unwrap();
        let contact = &parsed["contacts"][0];
        let counted = |field: &str| contact[field].as_u64().unwrap() > 256 * 4096;
        assert!(counted("sent") && counted("received"), "{contact}");
        // A server that does not agree, one that changes to something else, and other protocols.
        assert_eq!(asks("/models", "websocket"), "HTTP/1.1 200 OK\n");
        assert_eq!(asks("/other", "websocket"), "HTTP/1.1 502 Bad Gateway\n");
        assert_eq!(asks("/socket", "h2c"), "HTTP/1.1 200 OK\n");
        assert!(!server.heads()[2].to_lowercase().contains("upgrade"));
    }
}

#[test]
fn clients_that_stop_hold_up_nothing() {
    let (world, _server) = with_server();
    let script = "import os, socket\nfrom urllib.parse import urlsplit\n\
                  url = urlsplit(os.environ['TEST_BASE_URL'])\n\
                  at = (url.hostname, url.port)\n\
                  half = [socket.create_connection(at) for _ in range(20)]\n\
                  for one in half: one.sendall(b'GET /v1/ok HTTP/1.1\\r\\nHost: x')\n\
                  idle = socket.create_connection(at)\n\
                  key = os.environ['TEST_API_KEY'].encode()\n\
                  one = b'GET /v1/ok HTTP/1.1\\r\\nHost: x\\r\\nx-api-key: ' + key + b'\\r\\n\\r\\n'\n\
                  idle.sendall(one * 50)\n\
                  print('done')\n";
    world.write("slow.py", script);
    for mechanism in mechanisms(&world).0 {
        let flags = ["--share", "--mechanism", mechanism];
        let slow = ran(world
            .with_key(&flags, &["python3", "slow.py"])
            .output()
            .unwrap());
        slow.code(0);
        assert_eq!(slow.stdout, "done\n", "{}", slow.stderr);
    }
}

/// The person's own variable names the server: a gateway. It is reached if it is allowed.
#[test]
fn a_gateway_of_the_person_is_the_server() {
    let (world, server) = with_server();
    let gateway = Server::start(&world.project().join("got-first"));
    let url = format!("http://127.0.0.1:{}/gate", gateway.port);
    let host = format!("127.0.0.1:{}", gateway.port);
    let mechanism = mechanisms(&world).0[0];
    let flags = ["--share", "--mechanism", mechanism];
    let send = |flags: &[&str], url: &str| {
        let mut forge = world.with_key(flags, &["python3", "client.py", REQUEST]);
        ran(forge.env("TEST_BASE_URL", url).output().unwrap())
    };
    let refused = send(&flags, &url);
    assert!(
        refused.stdout.starts_with("HTTP/1.1 403"),
        "{}",
        refused.stdout
    );
    assert!(
        refused.stdout.contains("forge allow host:"),
        "{}",
        refused.stdout
    );
    assert!(gateway.heads().is_empty());
    let allowed = send(&[&flags[..], &["--host", &host]].concat(), &url);
    allowed.code(0);
    assert!(allowed.stdout.ends_with("ok"), "{}", allowed.stdout);
    let heads = gateway.heads();
    assert!(
        heads[0].starts_with("GET /gate/models") && heads[0].contains(KEY),
        "{heads:?}"
    );
    assert!(server.heads().is_empty());
    // A server to which the key would go in the clear.
    let mut clear = world.with_key(&flags, &["sh", "-c", "echo $TEST_API_KEY"]);
    let clear = ran(clear
        .env("TEST_BASE_URL", "http://example.org")
        .output()
        .unwrap());
    clear.says(&["TEST_API_KEY is handed in: TEST_BASE_URL is set, and it is neither https"]);
    assert_eq!(clear.stdout, format!("{KEY}\n"));
}

/// A person who agreed to the use of a key has not agreed to hand it in.
#[test]
fn a_yes_to_the_question_is_one_to_the_use_of_the_key() {
    let (world, _server) = with_server();
    let (own, other) = mechanisms(&world);
    let key = format!("TEST_API_KEY={KEY}");
    let forge = forge_program().to_str().unwrap();
    let script = "echo \"got $TEST_API_KEY\"";
    let words = |mechanism| {
        let exec = ["exec", "--preset", "mine", "--mechanism", mechanism];
        [
            &[key.as_str(), forge][..],
            &exec,
            &["--", "sh", "-c", script],
        ]
        .concat()
    };
    let setup = Setup {
        piped: false,
        ..USUAL
    };
    let terminal = Terminal::start_program(&world, setup, Path::new("env"), &words(own[0]));
    let asked = terminal.until("share once");
    assert!(
        asked.contains("use the key in TEST_API_KEY for 127.0.0.1:"),
        "{asked}"
    );
    terminal.type_text("y\r");
    let first = terminal.until(&format!("got {PLACEHOLDER}"));
    assert!(first.contains("stays outside"), "{first}");
    terminal.end();
    // The answer counts from then on.
    for mechanism in other {
        let words = words(mechanism);
        let ran = ran(world.command(Path::new("env"), &words).output().unwrap());
        assert_eq!(ran.stdout, "got \n", "{}", ran.stderr);
        ran.says(&[
            "TEST_API_KEY is not handed in: under Landlock alone",
            "--share",
        ]);
    }
}

/// A denied host stays denied.
#[test]
fn a_server_that_the_project_denies_is_not_reached() {
    let (world, server) = with_server();
    let mechanism = mechanisms(&world).0[0];
    let denied = format!("network: {{ deny: [\"127.0.0.1:{}\"] }}", server.port);
    world.write("forge.yaml", &format!("sandbox: {{ root: . }}\n{denied}\n"));
    let denied = world.sends(&["--share", "--mechanism", mechanism], REQUEST);
    assert!(
        denied.stdout.starts_with("HTTP/1.1 403"),
        "{} {}",
        denied.stdout,
        denied.stderr
    );
    assert!(server.heads().is_empty());
}

/// A server with a certificate of a test's own authority.
struct TlsServer {
    child: Child,
    port: u16,
}

impl TlsServer {
    fn start(directory: &Path) -> TlsServer {
        let script = r#"
import http.server, ssl, subprocess, sys
def run(*args):
    subprocess.run(["openssl", *args], check=True, stderr=subprocess.DEVNULL)
key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test ca")
run("req", *key[:3], "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=localhost")
open("ext", "w").write("subjectAltName=DNS:localhost\n")
run("x509", "-req", "-in", "leaf.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
    "-days", "2", "-extfile", "ext", "-out", "leaf.crt")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("seen", "a").write(f"{self.headers['host']} {self.headers['x-api-key']}\n")
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("leaf.crt", "leaf.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;
        let mut command = Command::new("python3");
        let command = command.args(["-c", script]).current_dir(directory);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().expect("the server does not start");
        TlsServer { child, port }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_key_leaves_the_host_by_tls_to_a_server_that_is_trusted() {
    let files = tempfile::tempdir().unwrap();
    let server = TlsServer::start(files.path());
    let world = world(&format!("https://localhost:{}", server.port));
    let seen = || fs::read_to_string(files.path().join("seen")).unwrap_or_default();
    for mechanism in mechanisms(&world).0 {
        let flags = ["--share", "--mechanism", mechanism];
        let unknown = world.sends(&flags, REQUEST);
        assert!(
            unknown.stdout.starts_with("HTTP/1.1 502"),
            "{} {}",
            unknown.stdout,
            unknown.stderr
        );
        assert!(unknown.stdout.contains("TLS: "), "{}", unknown.stdout);
        assert_eq!(seen(), "");
        let mut forge = world.with_key(&flags, &["python3", "client.py", REQUEST]);
        let trusted = ran(forge
            .env("SSL_CERT_FILE", files.path().join("ca.crt"))
            .output()
            .unwrap());
        assert!(
            trusted.stdout.ends_with("ok"),
            "{} {}",
            trusted.stdout,
            trusted.stderr
        );
        assert_eq!(seen(), format!("localhost:{} {KEY}\n", server.port));
        fs::remove_file(files.path().join("seen")).unwrap();
    }
}

/// The authorities are those from before the command, whoever writes their file meanwhile.
#[test]
fn authorities_are_read_before_the_command_starts() {
    let files = tempfile::tempdir().unwrap();
    let server = TlsServer::start(files.path());
    let world = world(&format!("https://localhost:{}", server.port));
    let late = files.path().join("late.crt");
    let (started, go) = (world.project().join("started"), world.project().join("go"));
    let script = format!(
        "touch started; until [ -e go ]; do sleep 0.01; done; python3 client.py '{REQUEST}'"
    );
    let mut forge = world.with_key(&["--share"], &["sh", "-c", &script]);
    let forge = forge.env("SSL_CERT_FILE", &late);
    let forge = forge
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the command starts", || started.exists());
    fs::copy(files.path().join("ca.crt"), &late).unwrap();
    fs::write(&go, "").unwrap();
    let ran = ran(forge.wait_with_output().unwrap());
    assert!(
        ran.stdout.starts_with("HTTP/1.1 502"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert!(!files.path().join("seen").exists());
}

/// `forge preset show` lists the keys that stay outside, with their servers.
#[test]
fn presets_show_the_keys_that_stay_outside() {
    let world = world("https://api.example.com/v1");
    let shown = world.forge(&["preset", "show", "mine", "--expanded"]);
    let expected = "keys that stay outside, for one server: TEST_API_KEY for api.example.com:443";
    assert!(shown.stdout.contains(expected), "{}", shown.stdout);
    let json = world.forge(&["--json", "preset", "show", "mine", "--expanded"]);
    let json: BTreeMap<String, Value> = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["credentials"][0]["base_url"], "TEST_BASE_URL");
}
