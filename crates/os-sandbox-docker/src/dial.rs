//! How an engine is reached: a stream of bytes to it, and requests over that. One stream for each
//! request, except where a stream is dear (TLS, ssh): there it is kept for the next ones.

use super::address::{Address, Endpoint, Ssh, default_port};
use bollard::{BollardRequest, errors};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

/// How long it may take until there is a stream.
const OPEN_WITHIN: Duration = Duration::from_secs(15);
/// A host that is gone says nothing; it is asked.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const ALIVE_TIMES: u32 = 4;
/// Streams that are kept, and how long: whoever is at the other end may not keep them either.
const MAX_KEPT: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(10);
/// What of ssh's complaints is kept.
const MAX_COMPLAINT: usize = 2048;
/// How long ssh may take to complain.
const COMPLAINT_WITHIN: Duration = Duration::from_secs(2);
/// What ssh needs of our environment. A key of a provider is none of it.
const SSH_NEEDS: [&str; 6] = ["HOME", "LANG", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "USER"];

/// The body of a request of bollard's, which gives its type no name.
trait Transport {
    type Body;
}

impl<B> Transport for hyper::Request<B> {
    type Body = B;
}

/// What bollard waits for.
type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, errors::Error>> + Send>>;

type Sender = SendRequest<<BollardRequest as Transport>::Body>;

/// Requests to one address.
pub(super) struct EngineConnector {
    address: Arc<Address>,
    kept: Arc<Mutex<Vec<(Instant, Sender)>>>,
    agreed: Arc<OnceLock<String>>,
}

impl EngineConnector {
    /// Once something is `agreed`, as `/v1.41`, every request is of that version. bollard negotiates
    /// one and then asks for paths without it, which is whatever an engine thinks newest.
    pub(super) fn new(address: Address, agreed: Arc<OnceLock<String>>) -> EngineConnector {
        EngineConnector {
            address: Arc::new(address),
            kept: Arc::default(),
            agreed,
        }
    }

    /// Sends one, and waits for the beginning of its answer.
    pub(super) fn request(&self, mut request: BollardRequest) -> ResponseFuture {
        let (address, kept) = (Arc::clone(&self.address), Arc::clone(&self.kept));
        let version = self.agreed.get().cloned().unwrap_or_default();
        Box::pin(async move {
            let path = request.uri().path_and_query();
            let path = path.map_or("/", |path| path.as_str());
            let path = match path.strip_prefix(&version) {
                Some(below) if below.starts_with('/') => path.to_owned(),
                Some(_) | None => format!("{version}{path}"),
            };
            *request.uri_mut() = path.parse().map_err(io::Error::other)?;
            request
                .headers_mut()
                .insert(HOST, HeaderValue::from_static("engine"));
            while let Some(mut sender) = idle(&kept) {
                match sender.try_send_request(request).await {
                    Ok(response) => {
                        keep(&kept, sender);
                        return Ok(response);
                    }
                    // It was closed before anything was written.
                    Err(mut failed) => match failed.take_message() {
                        Some(back) => request = back,
                        None => return Err(io::Error::other(failed.into_error()).into()),
                    },
                }
            }
            let (stream, complaint) = within(OPEN_WITHIN, open(&address.way)).await?;
            let failed = async |error: hyper::Error| match complaint.heard().await {
                Some(text) => io::Error::other(text),
                None => io::Error::other(words(&error)),
            };
            let (mut sender, connection) = match handshake(TokioIo::new(stream)).await {
                Ok(both) => both,
                Err(error) => return Err(failed(error).await.into()),
            };
            tokio::spawn(connection.with_upgrades());
            match sender.send_request(request).await {
                Ok(response) => {
                    if address.is_dear() {
                        keep(&kept, sender);
                    }
                    Ok(response)
                }
                Err(error) => Err(failed(error).await.into()),
            }
        })
    }
}

/// One that nobody is using.
fn idle(kept: &Mutex<Vec<(Instant, Sender)>>) -> Option<Sender> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < KEPT_FOR);
    let free = kept.iter().position(|(_, sender)| sender.is_ready())?;
    Some(kept.swap_remove(free).1)
}

fn keep(kept: &Mutex<Vec<(Instant, Sender)>>, sender: Sender) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < MAX_KEPT {
        kept.push((Instant::now(), sender));
    }
}

/// What went wrong, with what lies below it: hyper's own text is too short.
fn words(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut below = std::error::Error::source(error);
    while let Some(error) = below {
        text = format!("{text}: {error}");
        below = error.source();
    }
    text
}

async fn within<T>(bound: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(bound, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection within {} seconds", bound.as_secs()),
        )),
    }
}

impl Address {
    /// Returns `true` if a stream takes more than a moment.
    fn is_dear(&self) -> bool {
        match &self.way {
            Endpoint::Unix(_) | Endpoint::Tcp { tls: None, .. } => false,
            Endpoint::Tcp { tls: Some(_), .. } | Endpoint::Ssh(_) => true,
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn open(way: &Endpoint) -> io::Result<(Box<dyn Duplex>, SshStderr)> {
    match way {
        Endpoint::Unix(path) => Ok((
            Box::new(UnixStream::connect(path).await?),
            SshStderr::none(),
        )),
        Endpoint::Tcp { host, port, tls } => {
            let port = port.unwrap_or_else(|| default_port(tls.as_ref()));
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            let alive = socket2::TcpKeepalive::new()
                .with_time(ALIVE_EVERY)
                .with_interval(ALIVE_EVERY)
                .with_retries(ALIVE_TIMES);
            socket2::SockRef::from(&stream).set_tcp_keepalive(&alive)?;
            let Some(tls) = tls else {
                return Ok((Box::new(stream), SshStderr::none()));
            };
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&tls.config));
            let stream = connector.connect(tls.name.clone(), stream).await?;
            Ok((Box::new(stream), SshStderr::none()))
        }
        Endpoint::Ssh(ssh) => {
            let (tunnel, complaint) = Tunnel::start(ssh)?;
            Ok((Box::new(tunnel), complaint))
        }
    }
}

/// An ssh program whose other end speaks with the engine there.
struct Tunnel {
    ssh: Child,
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
}

impl Tunnel {
    fn start(ssh: &Ssh) -> io::Result<(Tunnel, SshStderr)> {
        let mut command = Command::new("ssh");
        command.env_clear();
        for name in SSH_NEEDS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let seconds = OPEN_WITHIN.as_secs();
        let alive = ALIVE_EVERY.as_secs();
        // Nobody is asked for anything, also not on the terminal.
        command.args(["-T", "-o", "BatchMode=yes"]);
        command.args(["-o", &format!("ConnectTimeout={seconds}")]);
        command.args(["-o", &format!("ServerAliveInterval={alive}")]);
        command.args(["-o", &format!("ServerAliveCountMax={ALIVE_TIMES}")]);
        if let Some(user) = &ssh.user {
            command.args(["-l", user]);
        }
        if let Some(port) = ssh.port {
            command.args(["-p", &port.to_string()]);
        }
        command.args(["--", &ssh.host, "docker", "system", "dial-stdio"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut ssh = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("the program ssh: {error}")))?;
        let lost = || io::Error::other("the program ssh has no streams");
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(ssh.stdin.take().ok_or_else(lost)?))?;
        let output = OwnedFd::from(ssh.stdout.take().ok_or_else(lost)?);
        let output = pipe::Receiver::from_owned_fd(output)?;
        let complaint = SshStderr::hear(ssh.stderr.take().ok_or_else(lost)?)?;
        let tunnel = Tunnel {
            ssh,
            input: Some(input),
            output,
        };
        Ok((tunnel, complaint))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ended = self.ssh.kill();
        let _ended = self.ssh.wait();
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, into)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The other end sees the end of its input.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }
}

/// The last that ssh wrote where programs complain, when it has said it.
struct SshStderr(Option<watch::Receiver<Option<String>>>);

impl SshStderr {
    fn none() -> SshStderr {
        SshStderr(None)
    }

    fn hear(errors: ChildStderr) -> io::Result<SshStderr> {
        let mut errors = pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?;
        let (said, hears) = watch::channel(None);
        tokio::spawn(async move {
            let (mut text, mut piece) = (Vec::new(), [0; 1024]);
            while let Ok(count @ 1..) = errors.read(&mut piece).await {
                text.extend_from_slice(&piece[..count]);
                let over = text.len().saturating_sub(MAX_COMPLAINT);
                text.drain(..over);
            }
            let text = String::from_utf8_lossy(&text)
                .trim()
                .replace(['\r', '\n'], " ");
            // Nobody waits for it if all went well.
            let _heard = said.send(Some(text));
        });
        Ok(SshStderr(Some(hears)))
    }

    async fn heard(&self) -> Option<String> {
        let mut hears = self.0.clone()?;
        let said = tokio::time::timeout(COMPLAINT_WITHIN, hears.wait_for(Option::is_some)).await;
        let text = said.ok()?.ok()?.clone()?;
        (!text.is_empty()).then(|| format!("ssh: {}", os_sandbox::mechanism::visible(&text)))
    }
}
