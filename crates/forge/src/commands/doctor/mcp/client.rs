//! A client as plain as can be: lines to a server that it starts, lines back, and no patience.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::install::ServerCommand;

/// Time limit for one answer. Clients differ; none of them waits longer for a start.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the server to end after the end of its input.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest line that is read.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Variables that a client passes on unless its settings say more: the list of the protocol's own
/// libraries.
const PASSED_ON: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

sandbox_names::word_enum! {
    /// The two ways of opening a conversation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum ProtocolEra {
        /// `initialize` first.
        Handshake = "handshake",
        /// Version and capabilities with each request.
        Stateless = "stateless",
    }
    pub(super) fn word
}

impl ProtocolEra {
    pub(super) fn version(self) -> &'static str {
        match self {
            ProtocolEra::Handshake => "2025-11-25",
            ProtocolEra::Stateless => "2026-07-28",
        }
    }
}

/// The results of a conversation.
#[derive(Debug)]
pub(super) struct ServerSession {
    /// From the start of the program.
    pub(super) first_answer: Duration,
    /// The protocol version of the server's choice.
    pub(super) version: String,
    /// The server's instructions.
    pub(super) instructions: String,
    pub(super) tools: Vec<Value>,
    /// The tool that was called, and its result.
    pub(super) called: Option<(String, Value)>,
    pub(super) ended: ExitStatus,
}

/// Starts the server in `/` with next to no environment, opens, lists, reads, hangs up.
pub(super) fn run_session(
    server: &ServerCommand,
    era: ProtocolEra,
    env: &[(String, String)],
) -> Result<ServerSession, String> {
    let started = Instant::now();
    let mut client = ProbeClient::start(server, era, env)?;
    let hello = match era {
        ProtocolEra::Handshake => {
            let params = json!({
                "protocolVersion": era.version(),
                "capabilities": {},
                "clientInfo": info(),
            });
            client.ask("initialize", params)?
        }
        ProtocolEra::Stateless => client.ask("server/discover", json!({}))?,
    };
    let first_answer = started.elapsed();
    let version = match era {
        ProtocolEra::Handshake => hello["protocolVersion"].as_str(),
        ProtocolEra::Stateless => {
            let versions = hello["supportedVersions"].as_array();
            let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
            versions.find(|version| *version == era.version())
        }
    };
    let version = version
        .ok_or_else(|| format!("it settled on no version: {hello}"))?
        .to_owned();
    if era == ProtocolEra::Handshake {
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    }
    let list = client.ask("tools/list", json!({}))?;
    let tools = list["tools"].as_array().cloned().unwrap_or_default();
    let only_reads = |tool: &&Value| tool["annotations"]["readOnlyHint"] == true;
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    let called = match named("list_files").or_else(|| tools.iter().find(only_reads)) {
        None => None,
        Some(tool) => {
            let name = tool["name"].as_str().unwrap_or_default().to_owned();
            let params = json!({"name": name, "arguments": {"path": "/"}});
            let result = client.ask("tools/call", params)?;
            Some((name, result))
        }
    };
    Ok(ServerSession {
        first_answer,
        version,
        instructions: hello["instructions"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        tools,
        called,
        ended: client.shutdown()?,
    })
}

fn info() -> Value {
    json!({"name": "forge doctor", "version": env!("CARGO_PKG_VERSION")})
}

struct ProbeClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Result<String, String>>,
    era: ProtocolEra,
    asked: u64,
}

impl ProbeClient {
    fn start(
        server: &ServerCommand,
        era: ProtocolEra,
        env: &[(String, String)],
    ) -> Result<Self, String> {
        let passed_on = env
            .iter()
            .filter(|(name, _)| PASSED_ON.contains(&name.as_str()));
        let mut child = Command::new(&server.program)
            .args(&server.arguments)
            .env_clear()
            .envs(passed_on.map(|(name, value)| (name, value)))
            .envs(server.env.iter().map(|(name, value)| (name, value)))
            .current_dir(Path::new("/"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", server.program))?;
        let (send, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = Vec::new();
                    let mut bounded = std::io::Read::take(&mut output, MAX_LINE_BYTES);
                    let read = match bounded.read_until(b'\n', &mut line) {
                        Ok(0) => return,
                        Ok(_) => String::from_utf8(line).map_err(|_| "no UTF-8".to_owned()),
                        Err(error) => Err(error.to_string()),
                    };
                    let failed = read.is_err();
                    if send.send(read).is_err() || failed {
                        return;
                    }
                }
            });
        }
        Ok(ProbeClient {
            input: child.stdin.take(),
            child,
            lines,
            era,
            asked: 0,
        })
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("its input is closed")?;
        writeln!(input, "{message}").map_err(|error| format!("it does not listen: {error}"))
    }

    /// Returns the result of a request. Every other line meanwhile must be a message, too.
    fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, String> {
        if self.era == ProtocolEra::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientInfo": info(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let until = Instant::now() + REQUEST_TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line.map_err(|error| format!("{method}: {error}"))?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "{method}: no answer in {} s",
                        REQUEST_TIMEOUT.as_secs()
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{method}: the server ended instead of answering"));
                }
            };
            let message: Value = serde_json::from_str(&line).map_err(|_| {
                let start: String = line.chars().take(80).collect();
                format!("standard output holds something that is not a message: {start}")
            })?;
            if message["id"] != id {
                continue;
            }
            return match message.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(format!("{method}: {}", message["error"]["message"])),
            };
        }
    }

    fn shutdown(mut self) -> Result<ExitStatus, String> {
        drop(self.input.take());
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!(
            "it did not end within {} s after its input had",
            SHUTDOWN_TIMEOUT.as_secs()
        ))
    }
}

impl Drop for ProbeClient {
    fn drop(&mut self) {
        // Ended already, unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
