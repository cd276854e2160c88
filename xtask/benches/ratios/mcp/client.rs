//! A client of one MCP server: starts it, and makes one call at a time over its pipes. It does as
//! little as it can itself, since all of it is measured: requests are written from one buffer, and
//! answers are looked into only for an error.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server, and our ends of its pipes.
pub(crate) struct Client {
    server: Child,
    /// None once it was told that nothing will come any more.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// No number is used twice in a conversation.
    last_id: u64,
    line: Vec<u8>,
}

/// One request, written out but for its number.
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn call(tool: &str, arguments: &Value) -> Self {
        let params = json!({ "name": tool, "arguments": arguments });
        Request(format!("\"method\":\"tools/call\",\"params\":{params}}}\n").into_bytes())
    }
}

impl Client {
    /// Starts a server and waits for its first answer.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Box<dyn Error>> {
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let to = server.stdin.take();
        let from = server.stdout.take().ok_or("no standard output")?;
        let mut client = Client {
            server,
            to,
            from: BufReader::with_capacity(1 << 16, from),
            last_id: 1,
            line: Vec::new(),
        };
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "bench", "version": "1" },
            },
        });
        client.write(format!("{hello}\n").as_bytes())?;
        client.read()?;
        Ok(client)
    }

    /// The rest of the handshake, and what every client asks for next.
    pub(crate) fn open(&mut self) -> Result<(), Box<dyn Error>> {
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        self.write(format!("{opened}\n{list}\n").as_bytes())?;
        self.read()
    }

    /// Makes a call, which has to succeed.
    pub(crate) fn call(&mut self, request: &Request) -> Result<(), Box<dyn Error>> {
        self.last_id += 1;
        let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},", self.last_id).into_bytes();
        line.extend_from_slice(&request.0);
        self.write(&line)?;
        self.read()
    }

    /// The text of the last answer.
    pub(crate) fn text(&self) -> Result<String, Box<dyn Error>> {
        let answer: Value = serde_json::from_slice(&self.line)?;
        let text = answer.pointer("/result/content/0/text");
        let text = text.and_then(Value::as_str).ok_or("no text")?;
        Ok(text.to_owned())
    }

    /// Memory of the process, in MiB: by its name in `/proc/PID/status`.
    pub(crate) fn memory(&self, name: &str) -> Option<f64> {
        let file = format!("/proc/{}/status", self.server.id());
        let status = std::fs::read_to_string(file).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kib / 1024.0)
    }

    fn write(&mut self, line: &[u8]) -> Result<(), Box<dyn Error>> {
        let to = self.to.as_mut().ok_or("the server was closed")?;
        Ok(to.write_all(line)?)
    }

    /// The next answer; what the server says without being asked is passed over.
    fn read(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            self.line.clear();
            self.from.read_until(b'\n', &mut self.line)?;
            let start = &self.line[..self.line.len().min(200)];
            let ended = self.line.len().saturating_sub(200);
            let failed =
                |part: &[u8]| contains(part, b"\"isError\":true") || contains(part, b"\"error\":{");
            if self.line.is_empty() || failed(start) || failed(&self.line[ended..]) {
                let shown = String::from_utf8_lossy(start).into_owned();
                return Err(format!("the server failed: {shown}").into());
            }
            if contains(start, b"\"id\":") || contains(&self.line[ended..], b"\"id\":") {
                return Ok(());
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its input ends a server; one that does not notice is ended.
        self.to = None;
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(2);
        while std::time::Instant::now() < patience {
            if let Ok(Some(_)) = self.server.try_wait() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // Nothing to be done about one that cannot be ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
