//! A model provider on the loopback: it answers each request with the next of its replies.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Vendor {
    /// Its base URL.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Vendor {
    /// The last reply is for all requests that come after it.
    pub(crate) fn start(replies: Vec<String>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let list = Arc::clone(&asked);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for (nth, stream) in listener.incoming().enumerate() {
                let reply = &replies[nth.min(replies.len() - 1)];
                // A client that goes away is not our trouble.
                let _ = answer(stream.unwrap(), reply, &list);
            }
        });
        Vendor { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, reply: &str, list: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut more = [0; 64 * 1024];
    let whole = loop {
        let count = stream.read(&mut more)?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&more[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.to_ascii_lowercase();
        let length = length
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if bytes.len() >= end + 4 + length {
            let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
            break Asked { head, body };
        }
    };
    list.lock().unwrap().push(whole);
    stream.write_all(reply.as_bytes())?;
    if reply.is_empty() {
        // Nothing comes, until the client goes away.
        let _until = stream.read(&mut more)?;
    }
    Ok(())
}

/// A reply with a status and a body of JSON.
pub(crate) fn refusal(status: u16, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A streamed answer on Chat Completions.
pub(crate) fn says(deltas: &[Value]) -> String {
    let mut body = String::new();
    for delta in deltas {
        let chunk = json!({"choices": [{"index": 0, "delta": delta}]});
        body.push_str(&format!("data: {chunk}\n\n"));
    }
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}\
         data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":5}}}}\n\ndata: [DONE]\n\n"
    )
}

/// The same in one piece.
pub(crate) fn says_whole(message: &Value) -> String {
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    refusal(200, &body)
}

/// A call as one piece of such an answer.
pub(crate) fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
        "function": {"name": tool, "arguments": arguments.to_string()}}]})
}
