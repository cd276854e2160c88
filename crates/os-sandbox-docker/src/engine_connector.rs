//! Connections to an engine: a stream of bytes, with HTTP requests over it. Each request opens a
//! stream of its own, except over TLS and ssh, where a stream is expensive and later requests use
//! it again.

use super::address::{Address, Endpoint, Ssh, default_port};
use bollard::{BollardRequest, errors};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

/// Bound on the time until a stream is open.
const OPEN_WITHIN: Duration = Duration::from_secs(15);
/// Interval of keep-alive probes, because a host that is gone sends nothing.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const ALIVE_TIMES: u32 = 4;
/// Bounds on idle streams: their number, and the time until they are dropped. The other end may
/// close them earlier.
const MAX_IDLE_CONNECTIONS: usize = 8;
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Bound on the stored bytes of ssh's standard error.
const MAX_SSH_STDERR: usize = 2048;
/// Bound on the wait for ssh's error message.
const SSH_STDERR_TIMEOUT: Duration = Duration::from_secs(2);
/// Variables of our environment that ssh needs. The key of a model provider is not among them.
const SSH_NEEDS: [&str; 5] = ["HOME", "LANG", "LOGNAME", "SSH_AUTH_SOCK", "USER"];

/// Access to the body type of bollard's requests, which bollard does not name.
trait Transport {
    type Body;
}

impl<B> Transport for hyper::Request<B> {
    type Body = B;
}

/// Future of a response, in the type that bollard expects.
type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, errors::Error>> + Send>>;

type Sender = SendRequest<<BollardRequest as Transport>::Body>;

/// Sender of requests to one address.
pub(super) struct EngineConnector {
    address: Arc<Address>,
    kept: Arc<Mutex<Vec<(Instant, Sender)>>>,
    agreed: Arc<OnceLock<String>>,
}

impl EngineConnector {
    /// Creates a connector. Once `agreed` is set, for example to `/v1.41`, every request uses that
    /// version. bollard negotiates a version and then sends paths without it, which an engine takes
    /// for its newest version.
    pub(super) fn new(address: Address, agreed: Arc<OnceLock<String>>) -> EngineConnector {
        EngineConnector {
            address: Arc::new(address),
            kept: Arc::default(),
            agreed,
        }
    }

    /// Sends a request, and waits for the beginning of the response.
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
            while let Some(mut sender) = take_idle_connection(&kept) {
                match sender.try_send_request(request).await {
                    Ok(response) => {
                        return_connection(&kept, sender);
                        return Ok(response);
                    }
                    // The stream was closed before the request was written.
                    Err(mut failed) => match failed.take_message() {
                        Some(back) => request = back,
                        None => return Err(io::Error::other(failed.into_error()).into()),
                    },
                }
            }
            let (stream, ssh_stderr) = within(OPEN_WITHIN, open(&address.endpoint)).await?;
            let failed = async |error: hyper::Error| match ssh_stderr.text().await {
                Some(text) => io::Error::other(text),
                None => io::Error::other(error_chain(&error)),
            };
            let (mut sender, connection) = match handshake(TokioIo::new(stream)).await {
                Ok(both) => both,
                Err(error) => return Err(failed(error).await.into()),
            };
            tokio::spawn(connection.with_upgrades());
            match sender.send_request(request).await {
                Ok(response) => {
                    if address.is_expensive() {
                        return_connection(&kept, sender);
                    }
                    Ok(response)
                }
                Err(error) => Err(failed(error).await.into()),
            }
        })
    }
}

/// Returns a stream that is not in use.
fn take_idle_connection(kept: &Mutex<Vec<(Instant, Sender)>>) -> Option<Sender> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < IDLE_CONNECTION_TIMEOUT);
    let free = kept.iter().position(|(_, sender)| sender.is_ready())?;
    Some(kept.swap_remove(free).1)
}

fn return_connection(kept: &Mutex<Vec<(Instant, Sender)>>, sender: Sender) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < MAX_IDLE_CONNECTIONS {
        kept.push((Instant::now(), sender));
    }
}

/// Returns the text of an error with the texts of its sources, because hyper's own text is too
/// short.
fn error_chain(error: &hyper::Error) -> String {
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
    /// Returns `true` if opening a stream takes more than a moment.
    fn is_expensive(&self) -> bool {
        match &self.endpoint {
            Endpoint::Unix(_) | Endpoint::Tcp { tls: None, .. } => false,
            Endpoint::Tcp { tls: Some(_), .. } | Endpoint::Ssh(_) => true,
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn open(endpoint: &Endpoint) -> io::Result<(Box<dyn Duplex>, SshStderr)> {
    match endpoint {
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
            let (tunnel, ssh_stderr) = Tunnel::start(ssh)?;
            Ok((Box::new(tunnel), ssh_stderr))
        }
    }
}

/// Returns the system's ssh program, and a `PATH` for it. A name alone would be looked for in our own.
fn of_system() -> io::Result<(PathBuf, OsString)> {
    let path = os_sandbox::Environment::clean().search_path();
    let mut programs = std::env::split_paths(&path).map(|dir| dir.join("ssh"));
    match programs.find(|program| program.is_file()) {
        Some(program) => Ok((program, path)),
        None => {
            let why = "the program ssh: it is in no directory of the system";
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
    }
}

/// An ssh program that connects to the engine on the other host.
struct Tunnel {
    ssh: Child,
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
}

impl Tunnel {
    fn start(ssh: &Ssh) -> io::Result<(Tunnel, SshStderr)> {
        let (program, path) = match &ssh.program {
            Some(named) => named.clone(),
            None => of_system()?,
        };
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path);
        for name in SSH_NEEDS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let seconds = OPEN_WITHIN.as_secs();
        let alive = ALIVE_EVERY.as_secs();
        // ssh asks the user for nothing, not even on the terminal.
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
        let ssh_stderr = SshStderr::collect(ssh.stderr.take().ok_or_else(lost)?)?;
        let tunnel = Tunnel {
            ssh,
            input: Some(input),
            output,
        };
        Ok((tunnel, ssh_stderr))
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

    /// Closes the input, so that the other end sees its end.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }
}

/// Receiver of the last text that ssh wrote to standard error, once it is complete.
struct SshStderr(Option<watch::Receiver<Option<String>>>);

impl SshStderr {
    fn none() -> SshStderr {
        SshStderr(None)
    }

    fn collect(errors: ChildStderr) -> io::Result<SshStderr> {
        let mut errors = pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?;
        let (said, hears) = watch::channel(None);
        tokio::spawn(async move {
            let (mut text, mut piece) = (Vec::new(), [0; 1024]);
            while let Ok(count @ 1..) = errors.read(&mut piece).await {
                text.extend_from_slice(&piece[..count]);
                let over = text.len().saturating_sub(MAX_SSH_STDERR);
                text.drain(..over);
            }
            let text = String::from_utf8_lossy(&text)
                .trim()
                .replace(['\r', '\n'], " ");
            // After a success, no receiver waits for the text.
            let _heard = said.send(Some(text));
        });
        Ok(SshStderr(Some(hears)))
    }

    async fn text(&self) -> Option<String> {
        let mut hears = self.0.clone()?;
        let said = tokio::time::timeout(SSH_STDERR_TIMEOUT, hears.wait_for(Option::is_some)).await;
        let text = said.ok()?.ok()?.clone()?;
        (!text.is_empty()).then(|| format!("ssh: {}", os_sandbox::mechanism::visible(&text)))
    }
}
