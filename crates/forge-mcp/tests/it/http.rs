//! The same over HTTP, by raw bytes.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Mutex;

use forge_mcp::{HttpListener, HttpToken, ServerInfo, ServiceHandle, serve_http};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;

use super::approvals::{accept, again, asks, is_question, nobody, showing, write, written};
use super::*;

struct Server {
    address: SocketAddr,
    token: HttpToken,
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(WATCHDOG, test).await.unwrap() });
}

async fn server(toolbox: Toolbox) -> Server {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = HttpToken::random().unwrap();
    let listener = HttpListener::loopback(socket, token.clone()).unwrap();
    let address = listener.address().unwrap();
    let live = ServiceHandle::new(toolbox);
    tokio::spawn(async move {
        let info = ServerInfo::new("forge", "1.2.3");
        serve_http(&live, info, listener).await.unwrap();
    });
    Server { address, token }
}

/// Everything but the request's own lines.
fn head(server: &Server) -> Vec<(&'static str, String)> {
    vec![
        ("Host", server.address.to_string()),
        ("Authorization", format!("Bearer {}", server.token.reveal())),
        ("Content-Type", "application/json".into()),
        ("Accept", "application/json, text/event-stream".into()),
        ("Connection", "close".into()),
    ]
}

fn bytes(path: &str, head: &[(&str, String)], body: &str) -> Vec<u8> {
    let mut text = format!("POST {path} HTTP/1.1\r\n");
    for (name, value) in head {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !head.iter().any(|(name, _)| *name == "Content-Length") {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}").into_bytes()
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> (u16, String) {
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text
        .split(' ')
        .nth(1)
        .map_or(0, |code| code.parse().unwrap());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn post(&self, path: &str, head: &[(&str, String)], body: &str) -> (u16, String) {
        let request = bytes(path, head, body);
        let (status, text) = exchange(self.connect().await, &request).await;
        // Whatever is a message is one by the schema, whether it is good news or not.
        if let Ok(answer) = serde_json::from_str::<Value>(&text) {
            let mut protocol = Protocol::default();
            if let Ok(asked) = serde_json::from_str(body) {
                protocol.sent(&asked);
            }
            assert_eq!(protocol.received(&answer), [""; 0], "{answer}");
        }
        (status, text)
    }

    /// As a client of 2026-07-28 sends it.
    async fn ask(&self, request: &Value) -> Value {
        let mut head = head(self);
        head.push(("MCP-Protocol-Version", "2026-07-28".into()));
        head.push(("Mcp-Method", request["method"].as_str().unwrap().into()));
        if let Some(name) = request["params"]["name"].as_str() {
            head.push(("Mcp-Name", name.into()));
        }
        let (_, body) = self.post("/mcp", &head, &request.to_string()).await;
        serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"))
    }
}

fn with(
    mut head: Vec<(&'static str, String)>,
    name: &'static str,
    value: Option<&str>,
) -> Vec<(&'static str, String)> {
    head.retain(|(known, _)| *known != name);
    if let Some(value) = value {
        head.push((name, value.into()));
    }
    head
}

#[test]
fn who_may_not_ask_learns_nothing() {
    run(async {
        let server = server(World::new().toolbox()).await;
        let body = initialize("2025-11-25").to_string();
        let own = || head(&server);
        let token = server.token.reveal();
        let port = server.address.port();
        let many = format!("[{}0]", "0,".repeat(20_000));
        for (head, path, body, status) in [
            (own(), "/mcp", &body, 200),
            (with(own(), "Authorization", None), "/mcp", &body, 401),
            (with(own(), "Authorization", Some("")), "/mcp", &body, 401),
            (
                with(own(), "Authorization", Some("Bearer")),
                "/mcp",
                &body,
                401,
            ),
            (
                with(own(), "Authorization", Some("Bearer x")),
                "/mcp",
                &body,
                401,
            ),
            (
                with(own(), "Authorization", Some(token)),
                "/mcp",
                &body,
                401,
            ),
            (
                with(own(), "Authorization", Some(&format!("Basic {token}"))),
                "/mcp",
                &body,
                401,
            ),
            (
                with(own(), "Authorization", Some(&format!("Bearer {token}0"))),
                "/mcp",
                &body,
                401,
            ),
            (
                with(own(), "Authorization", Some(&format!("bearer {token}"))),
                "/mcp",
                &body,
                200,
            ),
            // A name that an attacker made to resolve to this machine.
            (
                with(own(), "Host", Some("evil.example")),
                "/mcp",
                &body,
                403,
            ),
            (
                with(own(), "Host", Some(&format!("localhost:{port}"))),
                "/mcp",
                &body,
                200,
            ),
            (
                with(own(), "Origin", Some("https://evil.example")),
                "/mcp",
                &body,
                403,
            ),
            (with(own(), "Origin", Some("null")), "/mcp", &body, 403),
            (
                with(own(), "Origin", Some("http://localhost:1234")),
                "/mcp",
                &body,
                200,
            ),
            (own(), "/", &body, 404),
            (own(), "/mcp/x", &body, 404),
            (
                with(own(), "Content-Length", Some("9000000")),
                "/mcp",
                &String::new(),
                413,
            ),
            (own(), "/mcp", &many, 413),
        ] {
            let (answered, text) = server.post(path, &head, body).await;
            assert_eq!(answered, status, "{head:?} {path} {text}");
            assert_eq!(text.contains("1.2.3"), status == 200, "{head:?} {text}");
        }
    });
}

#[test]
fn noise_harms_nobody_else() {
    run(async {
        let world = World::new();
        let server = server(world.toolbox()).await;
        // Half a head, half a body: they wait, and nobody with them.
        let mut stuck = server.connect().await;
        stuck.write_all(b"POST /mcp HTTP/1.1\r\nHo").await.unwrap();
        let mut half = server.connect().await;
        let longer = with(head(&server), "Content-Length", Some("100"));
        half.write_all(&bytes("/mcp", &longer, "{")).await.unwrap();
        for noise in [
            "",
            "garbage",
            "[]",
            "7",
            "{}",
            "{\"jsonrpc\":\"2.0\"",
            "\u{0}",
        ] {
            let (status, text) = server.post("/mcp", &head(&server), noise).await;
            assert!((400..500).contains(&status), "{noise} {status} {text}");
        }
        let read = modern(call(1, "read_file", json!({"path": "/data/readme.md"})));
        let answer = server.ask(&read).await;
        assert_eq!(answer["result"]["content"][0]["text"], "hello\nworld\n");
        drop((stuck, half));
    });
}

/// However many connections without a token there are, a client is heard, and they do not
/// stay.
/// What is no message is a mistake of the client's, in the words of JSON-RPC.
#[test]
fn what_is_no_message_is_answered_as_such() {
    run(async {
        let server = server(Toolbox::builder().build().unwrap()).await;
        for (body, code) in [
            ("{", -32700),
            ("", -32700),
            ("not JSON", -32700),
            (
                "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/list\"",
                -32700,
            ),
            ("\u{feff}{}", -32700),
            ("{}", -32600),
            ("[]", -32600),
            ("7", -32600),
            (
                "{\"jsonrpc\": \"1.0\", \"id\": 1, \"method\": \"ping\"}",
                -32600,
            ),
        ] {
            let (status, text) = server.post("/mcp", &head(&server), body).await;
            assert_eq!(status, 400, "{body} {text}");
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["error"]["code"], code, "{body} {text}");
            assert!(answer.get("id").is_none(), "{text}");
        }
    });
}

#[test]
fn strangers_take_nobodys_place() {
    run(async {
        let server = server(World::new().toolbox()).await;
        let mut strangers = Vec::new();
        for index in 0..400 {
            let mut stranger = server.connect().await;
            if index % 2 == 0 {
                let wrong = with(head(&server), "Authorization", Some("Bearer guess"));
                let wrong = with(wrong, "Connection", None);
                let request = bytes("/mcp", &wrong, "{}");
                // One that had to go already may find nobody there.
                let _ = stranger.write_all(&request).await;
            }
            strangers.push(stranger);
            if index % 100 == 99 {
                let (status, text) = server.post("/mcp", &head(&server), "{}").await;
                assert!((400..500).contains(&status), "{index} {status} {text}");
            }
        }
        // The first had to go for the last.
        let mut first = strangers.remove(1);
        let mut said = Vec::new();
        let _ = first.read_to_end(&mut said).await;
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
        // The last go by themselves.
        let mut last = strangers.pop().unwrap();
        let _ = last.read_to_end(&mut said).await;
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
    });
}

/// A client keeps its place as long as it likes to, up to a number; the next is told to come
/// again, and finds a place when one has gone.
#[test]
fn clients_have_places() {
    run(async {
        let server = server(World::new().toolbox()).await;
        let own = with(head(&server), "Connection", None);
        let ping = bytes("/mcp", &own, &request(1, "ping", json!({})).to_string());
        let mut clients = Vec::new();
        let ask = async |client: &mut TcpStream| {
            client.write_all(&ping).await.unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.unwrap();
            String::from_utf8_lossy(&answer).into_owned()
        };
        for _ in 0..64 {
            let mut client = server.connect().await;
            assert_eq!(ask(&mut client).await, "HTTP/1.1 200");
            clients.push(client);
        }
        assert_eq!(ask(&mut server.connect().await).await, "HTTP/1.1 503");
        drop(clients.pop());
        loop {
            match &*ask(&mut server.connect().await).await {
                "HTTP/1.1 200" => break,
                other => assert_eq!(other, "HTTP/1.1 503"),
            }
        }
        drop(clients);
    });
}

/// Without a session, older clients get what needs none.
#[test]
fn an_older_client_lists_and_calls() {
    run(async {
        let world = World::new();
        let next = nobody();
        let server = server(asks(&world, &next)).await;
        let head = with(head(&server), "MCP-Protocol-Version", Some("2025-11-25"));
        let post = async |request: Value| {
            let (status, text) = server.post("/mcp", &head, &request.to_string()).await;
            assert_eq!(status, 200, "{text}");
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let list = post(request(1, "tools/list", json!({}))).await;
        assert!(list["result"]["tools"].is_array(), "{list}");
        let refused = post(write(2, "x")).await;
        let structure = &refused["result"]["structuredContent"];
        assert_eq!(structure["code"], "APPROVAL_REQUIRED", "{refused}");
        assert_eq!(next.asked(), 1);
    });
}

#[test]
fn a_question_and_its_answer_are_two_requests() {
    run(async {
        let world = World::new();
        let server = server(asks(&world, &nobody())).await;
        let request = showing(write(1, "x"));
        let asked = server.ask(&request).await;
        assert!(is_question(&asked), "{asked}");
        let agreed = again(request, 2, &asked, accept("allow_once"));
        let done = server.ask(&agreed).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(written(&world).unwrap(), "x");
        assert_eq!(server.ask(&agreed).await["error"]["code"], -32602);
    });
}

#[test]
fn who_hangs_up_cancels() {
    run(async {
        let (started, has_started) = oneshot::channel();
        let (dropped, was_dropped) = oneshot::channel();
        let once = Mutex::new(Some((started, Dropped(Some(dropped)))));
        let server = server(custom("hang", move || {
            let (started, guard) = once.lock().unwrap().take().unwrap();
            Box::pin(async move {
                let _guard = guard;
                started.send(()).unwrap();
                pending().await
            })
        }))
        .await;
        let mut head = head(&server);
        head.push(("MCP-Protocol-Version", "2026-07-28".into()));
        head.push(("Mcp-Method", "tools/call".into()));
        head.push(("Mcp-Name", "hang".into()));
        let request = modern(call(1, "hang", json!({}))).to_string();
        let mut stream = server.connect().await;
        stream
            .write_all(&bytes("/mcp", &head, &request))
            .await
            .unwrap();
        has_started.await.unwrap();
        drop(stream);
        was_dropped.await.unwrap();
    });
}

#[test]
fn a_socket_is_for_one_user() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(dir.path()).unwrap());
        for (user, served) in [(own, true), (own + 1, false)] {
            let path = dir.path().join(user.to_string());
            let listener = HttpListener::unix(UnixListener::bind(&path).unwrap(), user);
            let live = ServiceHandle::new(World::new().toolbox());
            tokio::spawn(async move {
                let info = ServerInfo::new("forge", "1.2.3");
                serve_http(&live, info, listener).await.unwrap();
            });
            let head = [
                ("Host", "localhost".into()),
                ("Content-Type", "application/json".into()),
                ("Accept", "application/json, text/event-stream".into()),
                ("Connection", "close".into()),
            ];
            let mut stream = UnixStream::connect(&path).await.unwrap();
            let request = bytes("/mcp", &head, &initialize("2025-11-25").to_string());
            // Whoever is hung up on may notice at once, or later.
            let _ = stream.write_all(&request).await;
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text).await;
            assert_eq!(text.starts_with("HTTP/1.1 200"), served, "{text}");
            assert_eq!(text.is_empty(), !served, "{text}");
        }
    });
}
