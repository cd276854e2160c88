//! Copying between a client and a host. Each direction ends on its own, back-pressure passes
//! through, and the client's first bytes are held until a TLS hello names the right host.

mod client_hello;

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
            connection.refuse(reason);
            if counters.received() == 0 {
                guard.sides = None;
                reset(server);
                let _ = client.try_write(&UNRECOGNIZED_NAME);
                let _ = SockRef::from(client).shutdown(Shutdown::Write);
            }
        }
    }
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

enum TunnelError {
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
        let received = |bytes| counters.count_received(bytes);
        write_all(client, early, received).await?;
        match copy(server, client, received, size).await? {
            CopyEnd::Input => {}
            CopyEnd::Output => return Err(TunnelError::Io),
        }
        let _ = SockRef::from(client).shutdown(Shutdown::Write);
        Ok::<(), TunnelError>(())
    };
    tokio::pin!(upward, downward);
    let (mut up_ended, mut down_ended) = (false, false);
    while !(up_ended && down_ended) {
        tokio::select! {
            ended = &mut upward, if !up_ended => {
                ended?;
                up_ended = true;
            }
            ended = &mut downward, if !down_ended => {
                ended?;
                down_ended = true;
            }
            () = state.stopped(), if up_ended => return Ok(()),
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
/// passes them on. Returns `false` if the client has closed its side.
async fn pass_first_flight(
    client: &TcpStream,
    server: &TcpStream,
    host: &Host,
    counters: &Counters,
    limit: Duration,
) -> Result<bool, TunnelError> {
    client.readable().await?;
    let mut first = Vec::new();
    let read = read_first_flight(client, &mut first);
    // The limit begins with the first byte: until then, the server may speak.
    let (status, open) = match timeout(limit, read).await {
        Ok(read) => read?,
        Err(_) => {
            return Err(TunnelError::Refused(Refusal::InvalidHello(
                "it is not completed",
            )));
        }
    };
    counters.set_tls_name(check_hello(status, host).map_err(TunnelError::Refused)?);
    write_all(server, &first, |bytes| counters.count_sent(bytes)).await?;
    Ok(open)
}

/// Reads until the bytes are a hello or cannot become one. Returns `false` with an end.
async fn read_first_flight(
    client: &TcpStream,
    bytes: &mut Vec<u8>,
) -> io::Result<(HelloStatus, bool)> {
    loop {
        client.readable().await?;
        bytes.reserve(4096);
        match client.try_read_buf(bytes) {
            // A client that ends within its hello has not sent one.
            Ok(0) => return Ok((HelloStatus::NotTls, false)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
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
