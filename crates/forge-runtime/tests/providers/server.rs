//! A server that answers each connection with the next of its replies, byte for byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a connection gets.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    /// How many bytes go at once, and how long until the next ones.
    pub(crate) piece: usize,
    pub(crate) pause: Duration,
    pub(crate) then: Then,
}

/// What becomes of a connection after its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// It ends.
    Close,
    /// It stays open.
    Hang,
    /// This comes again and again.
    Repeat(Vec<u8>),
}

impl Reply {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Reply {
            bytes: bytes.into(),
            piece: usize::MAX,
            pause: Duration::ZERO,
            then: Then::Close,
        }
    }

    pub(crate) fn in_pieces(mut self, bytes: usize, pause: Duration) -> Self {
        self.piece = bytes;
        self.pause = pause;
        self
    }

    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    /// Its base URL.
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// The last reply is for all connections that come after it.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let requests = Arc::clone(&seen);
        tokio::spawn(async move {
            for nth in 0.. {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                let reply = replies[nth.min(replies.len() - 1)].clone();
                // A client that goes away is what some tests are about.
                tokio::spawn(answer(stream, reply, Arc::clone(&requests)));
            }
        });
        Server { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    reply: Reply,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = read(&mut stream).await? else {
        return Ok(());
    };
    seen.lock().unwrap().push(request);
    let pieces: Vec<&[u8]> = match reply.bytes.is_empty() {
        true => vec![],
        false => reply.bytes.chunks(reply.piece).collect(),
    };
    for piece in pieces {
        stream.write_all(piece).await?;
        stream.flush().await?;
        match reply.pause {
            // Even so the client may see a piece of its own.
            Duration::ZERO => tokio::task::yield_now().await,
            pause => tokio::time::sleep(pause).await,
        }
    }
    match reply.then {
        Then::Close => stream.shutdown().await,
        Then::Hang => {
            let mut rest = [0; 1];
            stream.read(&mut rest).await.map(drop)
        }
        Then::Repeat(piece) => loop {
            stream.write_all(&piece).await?;
            tokio::time::sleep(reply.pause).await;
        },
    }
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Seen>> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut more = [0; 16 * 1024];
        let count = stream.read(&mut more).await?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&more[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let mut body = bytes.split_off(head);
    let head = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    while body.len() < length {
        let mut more = vec![0; length - body.len()];
        let count = stream.read(&mut more).await?;
        body.extend_from_slice(&more[..count]);
    }
    Ok(Some(Seen {
        head,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }))
}
