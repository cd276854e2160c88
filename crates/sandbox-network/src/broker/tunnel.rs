//! Copying between a client and a host. Each direction ends on its own, back-pressure passes
//! through. The client's first bytes are held until a TLS hello names the right host, and lines of an
//! HTTP/1 request are checked before their end is passed on.

mod client_hello;
mod host_header;

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connect::Upstream;
use super::context::ServiceContext;
use super::record::{Counters, Refusal, TlsName, escape};
use crate::host::{Host, HostName};
use client_hello::HelloStatus;
use host_header::{HostHeaderCheck, HostHeaderError};

/// Bytes that are copied at once, in each direction, while few connections are open. With many it
/// is [`SMALL_BUFFER`]. An idle direction has no buffer.
const LARGE_BUFFER: usize = 64 * 1024;
const SMALL_BUFFER: usize = 16 * 1024;
/// Connections from which on buffers are small.
const MANY_CONNECTIONS: usize = 256;
/// A fatal alert of TLS, "unrecognized name" (RFC 8446, section 6): clients show it.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Copies until both directions have ended, or the service ends and the client sends no more.
pub(super) async fn run(
    state: &Arc<ServiceContext>,
    client: &TcpStream,
    upstream: &mut Upstream,
    host: &Host,
) {
    let Upstream {
        stream: server,
        early,
        connection,
    } = upstream;
    let counters = Arc::clone(&connection.counters);
    let mut guard = ResetGuard {
        sides: Some((client, server)),
    };
    match copy_both(state, client, server, early, host, &counters).await {
        Ok(()) => guard.sides = None,
        Err(TunnelError::Io) => {}
        Err(TunnelError::Refused(reason)) => {
            connection.refuse(reason.clone());
            if counters.received() == 0 {
                guard.sides = None;
                reset(server);
                tell_refusal(state, client, host, connection.record.port, &reason);
            }
        }
    }
}

/// As [`run`], for a client outside. Its bytes are not checked, and with the service the connection
/// ends when the server has answered: a program may end right after its last answer.
pub(super) async fn run_inbound(
    state: &Arc<ServiceContext>,
    client: &TcpStream,
    server: &TcpStream,
    counters: &Counters,
) {
    let mut guard = ResetGuard {
        sides: Some((client, server)),
    };
    let size = buffer_size(state);
    let upward = async {
        copy(client, server, |bytes| counters.count_sent(bytes), size).await?;
        let _ = SockRef::from(server).shutdown(Shutdown::Write);
        Ok::<(), TunnelError>(())
    };
    let downward = pass_answer(client, server, counters, size);
    if wait_for_both(state, upward, downward, Direction::Downward)
        .await
        .is_ok()
    {
        guard.sides = None;
    }
}

/// Tells a client that its first bytes are refused, and closes the side towards it.
pub(super) fn tell_refusal(
    state: &ServiceContext,
    client: &TcpStream,
    host: &Host,
    port: u16,
    reason: &Refusal,
) {
    let text = state.refusal_text(host, port, reason);
    let _ = client.try_write(&refusal_answer(reason, &text));
    let _ = SockRef::from(client).shutdown(Shutdown::Write);
}

/// Returns the answer to refused first bytes, in the protocol of the client.
fn refusal_answer(reason: &Refusal, text: &str) -> Vec<u8> {
    match reason {
        Refusal::OtherHttpHost(_) | Refusal::InvalidHttp(_) => {
            http_answer("403 Forbidden", "", text).into_bytes()
        }
        _ => UNRECOGNIZED_NAME.to_vec(),
    }
}

/// Returns the last answer of an HTTP connection, with a further header and a text.
pub(super) fn http_answer(status: &str, header: &str, text: &str) -> String {
    let text = text.trim_end();
    format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}\n",
        text.len() + 1
    )
}

/// Resets both sides of a tunnel, also of one whose future is dropped: an end would tell a server that
/// it has everything.
struct ResetGuard<'a> {
    /// `None` if the tunnel has ended.
    sides: Option<(&'a TcpStream, &'a TcpStream)>,
}

impl Drop for ResetGuard<'_> {
    fn drop(&mut self) {
        if let Some((client, server)) = self.sides {
            reset(client);
            reset(server);
        }
    }
}

/// Makes the system reset the connection when it is dropped, so that the other side sees an error
/// and not an end.
pub(super) fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

pub(super) enum TunnelError {
    /// A side is gone.
    Io,
    Refused(Refusal),
}

impl From<io::Error> for TunnelError {
    fn from(_: io::Error) -> TunnelError {
        TunnelError::Io
    }
}

async fn copy_both(
    state: &Arc<ServiceContext>,
    client: &TcpStream,
    server: &TcpStream,
    early: &[u8],
    host: &Host,
    counters: &Counters,
) -> Result<(), TunnelError> {
    let size = buffer_size(state);
    let upward = async {
        let limit = state.shared.options.limits.handshake_timeout;
        let first = pass_first_flight(client, server, host, counters, limit).await?;
        if first {
            // A server that reads no more may still have sent its answer: that ends downward.
            copy(client, server, |bytes| counters.count_sent(bytes), size).await?;
        }
        let _ = SockRef::from(server).shutdown(Shutdown::Write);
        Ok::<(), TunnelError>(())
    };
    let downward = async {
        write_all(client, early, |bytes| counters.count_received(bytes)).await?;
        pass_answer(client, server, counters, size).await
    };
    wait_for_both(state, upward, downward, Direction::Upward).await
}

/// Passes on the bytes of a server, and their end.
async fn pass_answer(
    client: &TcpStream,
    server: &TcpStream,
    counters: &Counters,
    size: usize,
) -> Result<(), TunnelError> {
    let received = |bytes| counters.count_received(bytes);
    match copy(server, client, received, size).await? {
        CopyEnd::Input => {}
        CopyEnd::Output => return Err(TunnelError::Io),
    }
    let _ = SockRef::from(client).shutdown(Shutdown::Write);
    Ok(())
}

/// The direction that must have ended for the service to end a tunnel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From the client to the server.
    Upward,
    /// From the server to the client.
    Downward,
}

async fn wait_for_both(
    state: &ServiceContext,
    upward: impl Future<Output = Result<(), TunnelError>>,
    downward: impl Future<Output = Result<(), TunnelError>>,
    ends_after: Direction,
) -> Result<(), TunnelError> {
    tokio::pin!(upward, downward);
    let (mut up_ended, mut down_ended) = (false, false);
    while !(up_ended && down_ended) {
        let ends_with_service = match ends_after {
            Direction::Upward => up_ended,
            Direction::Downward => down_ended,
        };
        tokio::select! {
            ended = &mut upward, if !up_ended => {
                ended?;
                up_ended = true;
            }
            ended = &mut downward, if !down_ended => {
                ended?;
                down_ended = true;
            }
            () = state.stopped(), if ends_with_service => return Ok(()),
        }
    }
    Ok(())
}

fn buffer_size(state: &ServiceContext) -> usize {
    if state.shared.connections.held() > MANY_CONNECTIONS {
        SMALL_BUFFER
    } else {
        LARGE_BUFFER
    }
}

/// The side that ended a copy.
enum CopyEnd {
    /// All bytes have been read and written.
    Input,
    /// The receiver takes no more.
    Output,
}

/// Copies until the end. The buffer exists only while there are bytes.
async fn copy(
    from: &TcpStream,
    to: &TcpStream,
    count: impl Fn(usize) + Copy,
    size: usize,
) -> io::Result<CopyEnd> {
    let mut buffer = Vec::new();
    loop {
        from.readable().await?;
        buffer.reserve_exact(size);
        match from.try_read_buf(&mut buffer) {
            Ok(0) => return Ok(CopyEnd::Input),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffer = Vec::new();
                continue;
            }
            Err(error) => return Err(error),
        }
        if write_all(to, &buffer, count).await.is_err() {
            return Ok(CopyEnd::Output);
        }
        buffer.clear();
    }
}

/// Writes all bytes, and counts them when they are written: a write can be cut off.
async fn write_all(
    to: &TcpStream,
    mut bytes: &[u8],
    count: impl Fn(usize) + Copy,
) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                count(written);
                bytes = &bytes[written..];
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Holds the client's bytes until they are a whole TLS hello or something else, checks the hello and
/// passes them on, and checks an HTTP/1 request. Returns `false` if the client has closed its side, or
/// the server takes no more.
async fn pass_first_flight(
    client: &TcpStream,
    server: &TcpStream,
    host: &Host,
    counters: &Counters,
    limit: Duration,
) -> Result<bool, TunnelError> {
    let FirstFlight {
        bytes: first,
        open,
        tls_name,
    } = read_checked_flight(client, host, limit).await?;
    counters.set_tls_name(tls_name);
    if tls_name == TlsName::NotTls
        && let Host::Name(name) = host
        && !name.is_localhost()
    {
        let sides = (client, server);
        return pass_request_head(sides, name, (first, open), counters).await;
    }
    write_all(server, &first, |bytes| counters.count_sent(bytes)).await?;
    Ok(open)
}

/// A client's first bytes, which name the right host if they are a TLS hello.
pub(super) struct FirstFlight {
    pub(super) bytes: Vec<u8>,
    /// `false` if the client has closed its side.
    open: bool,
    pub(super) tls_name: TlsName,
}

/// Reads a client's first bytes and checks a hello in them. The limit begins with the first byte: until
/// then, the server may speak.
pub(super) async fn read_checked_flight(
    client: &TcpStream,
    host: &Host,
    limit: Duration,
) -> Result<FirstFlight, TunnelError> {
    client.readable().await?;
    let mut bytes = Vec::new();
    let read = timeout(limit, read_first_flight(client, &mut bytes)).await;
    let late = |_| TunnelError::Refused(Refusal::InvalidHello("it is not completed"));
    let (status, open) = read.map_err(late)??;
    let tls_name = check_hello(status, host).map_err(TunnelError::Refused)?;
    Ok(FirstFlight {
        bytes,
        open,
        tls_name,
    })
}

/// Passes bytes on as they come until the head of an HTTP/1 request has ended or they are not one.
/// Returns `false` if the client has closed its side, or the server takes no more.
async fn pass_request_head(
    (client, server): (&TcpStream, &TcpStream),
    host: &HostName,
    (mut bytes, mut open): (Vec<u8>, bool),
    counters: &Counters,
) -> Result<bool, TunnelError> {
    let mut check = HostHeaderCheck::new(host);
    loop {
        check.push(&bytes).map_err(refused_request)?;
        if write_all(server, &bytes, |bytes| counters.count_sent(bytes))
            .await
            .is_err()
        {
            return Ok(false);
        }
        if check.is_done() || !open {
            return Ok(open);
        }
        bytes.clear();
        open = read_some(client, &mut bytes).await?;
    }
}

fn refused_request(error: HostHeaderError) -> TunnelError {
    TunnelError::Refused(match error {
        HostHeaderError::OtherHost(other) => {
            Refusal::OtherHttpHost(escape(&String::from_utf8_lossy(&other)))
        }
        HostHeaderError::Invalid(why) => Refusal::InvalidHttp(why),
    })
}

/// Reads bytes when there are some. Returns `false` at the end.
async fn read_some(from: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        from.readable().await?;
        bytes.reserve(4096);
        match from.try_read_buf(bytes) {
            Ok(read) => return Ok(read > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads until the bytes are a hello or cannot become one. Returns `false` with an end.
async fn read_first_flight(
    client: &TcpStream,
    bytes: &mut Vec<u8>,
) -> io::Result<(HelloStatus, bool)> {
    loop {
        if !read_some(client, bytes).await? {
            // A client that ends within its hello has not sent one.
            return Ok((HelloStatus::NotTls, false));
        }
        match client_hello::parse(bytes) {
            HelloStatus::Incomplete => {}
            status => return Ok((status, true)),
        }
    }
}

fn check_hello(status: HelloStatus, host: &Host) -> Result<TlsName, Refusal> {
    let hello = match status {
        HelloStatus::NotTls | HelloStatus::Incomplete => return Ok(TlsName::NotTls),
        HelloStatus::Invalid(why) => return Err(Refusal::InvalidHello(why)),
        HelloStatus::Complete(hello) => hello,
    };
    let Host::Name(expected) = host else {
        return Ok(TlsName::NotCompared);
    };
    let Some(server_name) = hello.server_name else {
        return Ok(TlsName::NotSeen);
    };
    // Another name is refused with encrypted parts as well: clients learn the outer name of ECH from
    // records that the broker's resolver does not give.
    let same = std::str::from_utf8(&server_name)
        .ok()
        .and_then(|name| HostName::parse(name).ok())
        .is_some_and(|name| name == *expected);
    if !same {
        let shown = escape(&String::from_utf8_lossy(&server_name));
        return Err(Refusal::OtherTlsName(shown));
    }
    Ok(if hello.has_encrypted_part {
        TlsName::NotSeen
    } else {
        TlsName::Matching
    })
}
