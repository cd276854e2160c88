//! The async face: the same start, the same supervisor, waited for by tokio.
//!
//! What cannot wait for readiness (the start, and the last reaping) runs on tokio's blocking
//! threads; everything else is readiness of the control socket and of the pipes, looked at by the
//! same code as in the sync [`Child`]. Nothing of a command is ever owned by a future alone: it
//! lies in a value that ends it when it is dropped, wherever that happens.

use crate::captured::Captured;
use crate::child::{Child, Stream};
use crate::command::Command;
use crate::enforcement::Enforcement;
use crate::error::{Error, ErrorKind};
use crate::exceeded::{EffectiveLimits, Exceeded, LimitHit};
use crate::exit::Exit;
use crate::findings::Findings;
use crate::output::Output;
use crate::process::Readiness;
use crate::process::{Killer, Process};
use crate::quarantine::Quarantined;
use crate::sandbox::Sandbox;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// Bound on what is read from a pipe at once.
const CHUNK_BYTES: usize = 64 << 10;
/// What is kept of what was found after the ends of dropped commands.
const MAX_FOUND: usize = 1_000;

/// A running command, for async code (feature `tokio`); see [`Command::spawn_async`]. Dropping it
/// ends everything that it started, without waiting for that.
///
/// Every method that waits can be dropped while it does and called again.
///
/// ```
/// use os_sandbox::{
///     Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Stdio, Support,
/// };
/// use tokio::io::AsyncWriteExt;
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let mut child = Command::new(&sandbox, "cat").stdin(Stdio::Piped).spawn_async().await?;
/// if let Some(mut stdin) = child.stdin.take() {
///     stdin.write_all(b"hello").await?;
/// }
/// let output = child.wait_with_output().await?;
/// assert_eq!((output.exit, &*output.stdout.text()), (Exit::Code(0), "hello"));
///
/// let denied = Command::new(&sandbox, "cat").arg("/etc/shadow").output_async().await?;
/// assert!(!denied.exit.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsyncChild {
    /// The other end of standard input, if it is [`Piped`](crate::Stdio::Piped).
    pub stdin: Option<pipe::Sender>,
    /// The other end of standard output, if it is [`Piped`](crate::Stdio::Piped).
    pub stdout: Option<pipe::Receiver>,
    /// The other end of standard error, if it is [`Piped`](crate::Stdio::Piped).
    pub stderr: Option<pipe::Receiver>,
    state: ChildState,
    /// Readable when there is something to look at.
    watched: AsyncReadiness,
    /// When to look whatever is readable.
    timer: Option<Pin<Box<Sleep>>>,
    /// Which stream is read first, in turns.
    errors_first: bool,
    enforcement: Enforcement,
    keep: [usize; 2],
    bounds: EffectiveLimits,
    sandbox: Sandbox,
    exceeded: Option<Exceeded>,
}

/// How far it is.
#[derive(Debug)]
enum ChildState {
    Running(RunningGuard),
    /// The last word was said; a blocking thread reaps and tidies up.
    Ending(JoinHandle<Result<Ended, Error>>),
    Ended(Exit),
    /// The error was handed out.
    Lost,
}

/// How it ended, and what was found then.
type Ended = (Result<(Exit, Option<LimitHit>), Error>, Findings);

impl Command {
    /// As [`Command::spawn`], without holding up the other tasks.
    ///
    /// Must be called on a tokio runtime whose drivers for I/O and time are enabled. If the future
    /// is dropped, nothing stays.
    ///
    /// # Errors
    /// As [`Command::spawn`]; [`ErrorKind::Invalid`] outside of a runtime.
    pub async fn spawn_async(self) -> Result<AsyncChild, Error> {
        let runtime = runtime()?;
        // The outcome may be dropped by whoever drops the future: never as a bare `Child`, which
        // would wait there for the end.
        let start = runtime.spawn_blocking(move || self.spawn().map(StartedChild::from));
        AsyncChild::new(joined(start.await)?)
    }

    /// As [`Command::output`], without holding up the other tasks.
    ///
    /// # Errors
    /// As [`Command::spawn_async`] and [`AsyncChild::wait_with_output`].
    pub async fn output_async(self) -> Result<Output, Error> {
        self.spawn_async().await?.wait_with_output().await
    }
}

impl AsyncChild {
    fn new(started: StartedChild) -> Result<AsyncChild, Error> {
        let failed = |error| Error::io("could not wait for the command's streams", error);
        let StartedChild { held, parts } = started;
        let watched = match held.running() {
            Some(running) => AsyncReadiness::new(running.readiness()?).map_err(failed)?,
            None => AsyncReadiness::Nothing,
        };
        let receiver = |pipe: Option<std::io::PipeReader>| {
            pipe.map(|pipe| pipe::Receiver::from_owned_fd(pipe.into()))
                .transpose()
        };
        Ok(AsyncChild {
            stdin: parts
                .stdin
                .map(|pipe| pipe::Sender::from_owned_fd(pipe.into()))
                .transpose()
                .map_err(failed)?,
            stdout: receiver(parts.stdout).map_err(failed)?,
            stderr: receiver(parts.stderr).map_err(failed)?,
            watched,
            timer: None,
            errors_first: false,
            state: ChildState::Running(held),
            enforcement: parts.enforcement,
            keep: parts.keep,
            bounds: parts.bounds,
            sandbox: parts.sandbox,
            exceeded: None,
        })
    }

    /// As [`Child::quarantined`](crate::Child::quarantined).
    #[must_use]
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.enforcement.quarantined
    }

    /// What was applied. After the end, also what was found then.
    #[must_use]
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Waits for the end of the command and of everything that it started. Standard input is
    /// closed first. Pipes that nobody reads can fill up and hold the command: see
    /// [`AsyncChild::wait_with_output`].
    ///
    /// # Errors
    /// If the supervisor was lost, or could not end everything.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        self.stdin = None;
        poll_fn(|cx| self.poll_said(cx)).await?;
        self.finish().await
    }

    /// Waits, and keeps the beginning and the end of what both piped outputs carry, up to the
    /// policy's limits; what is in between is counted and thrown away.
    ///
    /// # Errors
    /// As [`AsyncChild::wait`], or if a pipe cannot be read.
    pub async fn wait_with_output(mut self) -> Result<Output, Error> {
        let mut kept = self.keep.map(Captured::new);
        let exit = self
            .wait_streaming(|stream, bytes| {
                kept[stream as usize].push(bytes);
            })
            .await?;
        let [stdout, stderr] = kept;
        Ok(Output {
            exit,
            exceeded: self.exceeded,
            stdout,
            stderr,
            enforcement: self.enforcement,
        })
    }

    /// Waits, and hands on what both piped outputs carry as it comes. The command waits while
    /// `sink` works: nothing is queued. A sink that has to wait itself reads
    /// [`stdout`](AsyncChild::stdout) and [`stderr`](AsyncChild::stderr) on its own.
    ///
    /// # Errors
    /// As [`AsyncChild::wait_with_output`].
    pub async fn wait_streaming(
        &mut self,
        mut sink: impl FnMut(Stream, &[u8]),
    ) -> Result<Exit, Error> {
        self.stdin = None;
        let mut chunk = vec![0u8; CHUNK_BYTES];
        loop {
            let read = poll_fn(|cx| self.poll_streams(cx, &mut chunk)).await?;
            match read {
                Some((stream, bytes)) => sink(stream, &chunk[..bytes]),
                None => return self.finish().await,
            }
        }
    }

    /// The limit that it ran into, known once it has been waited for; as [`Child::exceeded`].
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// Ends the command and everything that it started; [`AsyncChild::wait`] then tells how.
    pub fn kill(&mut self) {
        match &mut self.state {
            ChildState::Running(held) => {
                if let Some(running) = held.0.as_mut() {
                    running.kill();
                }
            }
            // It has ended.
            ChildState::Ending(_) | ChildState::Ended(_) | ChildState::Lost => {}
        }
    }

    /// Something that ends the command from another task or thread; `None` once it has ended.
    ///
    /// # Errors
    /// If the system is out of descriptors.
    pub fn killer(&self) -> Result<Option<Killer>, Error> {
        let running = match &self.state {
            ChildState::Running(held) => held.running(),
            ChildState::Ending(_) | ChildState::Ended(_) | ChildState::Lost => None,
        };
        running.map(|running| running.killer()).transpose()
    }

    /// Whatever comes next of a stream; `None` when the tree is gone and the pipes are empty.
    fn poll_streams(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut [u8],
    ) -> Poll<Result<Option<(Stream, usize)>, Error>> {
        // First, so that what a pipe holds after the end is seen after the end.
        let ended = self.poll_said(cx)?.is_ready();
        let mut streams = [
            (Stream::Stdout, &mut self.stdout),
            (Stream::Stderr, &mut self.stderr),
        ];
        if self.errors_first {
            streams.swap(0, 1);
        }
        for (stream, slot) in streams {
            let Some(pipe) = slot else { continue };
            let mut buffer = ReadBuf::new(chunk);
            match Pin::new(&mut *pipe).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => *slot = None,
                Poll::Ready(Ok(())) => {
                    // One that is never empty does not keep the other waiting.
                    self.errors_first = stream == Stream::Stdout;
                    return Poll::Ready(Ok(Some((stream, buffer.filled().len()))));
                }
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(Error::io(
                        "could not read the command's output",
                        error,
                    )));
                }
                Poll::Pending if !ended => {}
                // The runtime may not have heard yet of what is in it, or wants another task to go
                // on first: the pipe itself is asked. Nobody can hold it open any more but a process
                // outside that was given the same file.
                Poll::Pending => match in_pipe(pipe, chunk) {
                    Ok(0) => *slot = None,
                    Ok(bytes) => return Poll::Ready(Ok(Some((stream, bytes)))),
                    Err(error) => {
                        return Poll::Ready(Err(Error::io(
                            "could not read the command's output",
                            error,
                        )));
                    }
                },
            }
        }
        if ended {
            return Poll::Ready(Ok(None));
        }
        Poll::Pending
    }

    /// Ready once the supervisor has said its last word.
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ChildState::Running(held) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let Some(running) = held.0.as_mut() else {
            return Poll::Ready(Ok(()));
        };
        loop {
            match self.watched.poll(cx, || running.poll_exit())? {
                Poll::Ready(true) => return Poll::Ready(Ok(())),
                Poll::Ready(false) => continue,
                Poll::Pending => {}
            }
            if running.poll_exit()? {
                return Poll::Ready(Ok(()));
            }
            let Some(next) = running.next_deadline() else {
                return Poll::Pending;
            };
            let next = tokio::time::Instant::from_std(next);
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
        }
    }

    /// Reaps, on a thread that may wait for it.
    async fn finish(&mut self) -> Result<Exit, Error> {
        if let ChildState::Running(held) = &mut self.state
            && let Some(running) = held.0.take()
        {
            self.watched = AsyncReadiness::Nothing;
            self.timer = None;
            // Held again: a runtime that shuts down drops what it has not begun.
            let mut held = RunningGuard(Some(running));
            let end = runtime()?.spawn_blocking(move || match held.0.as_mut() {
                Some(running) => {
                    let exit = running.wait().map(|exit| (exit, running.limit_hit()));
                    Ok((exit, running.findings()))
                }
                None => Err(lost()),
            });
            self.state = ChildState::Ending(end);
        }
        let outcome = match &mut self.state {
            ChildState::Ended(exit) => return Ok(*exit),
            ChildState::Running(_) | ChildState::Lost => return Err(lost()),
            ChildState::Ending(end) => joined(end.await).and_then(|(exit, findings)| {
                let failure = findings.failure(self.sandbox.plan());
                self.enforcement.found(findings);
                exit.and_then(|exit| failure.map_or(Ok(exit), Err))
            }),
        };
        self.state = match &outcome {
            Ok((exit, _)) => ChildState::Ended(*exit),
            Err(_) => ChildState::Lost,
        };
        let (exit, seen) = outcome?;
        self.exceeded = self.bounds.exceeded(exit, seen);
        Ok(exit)
    }
}

/// Reads what a pipe holds now, without waiting; nothing if it holds nothing.
fn in_pipe(pipe: &pipe::Receiver, chunk: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match nix::unistd::read(pipe, chunk) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => return Ok(0),
            read => return Ok(read?),
        }
    }
}

/// What is waited for, known to tokio.
#[derive(Debug)]
enum AsyncReadiness {
    Socket(UnixStream),
    /// The descriptor of a process, which is no pipe: its readiness is all that is asked for, and
    /// reading it, which the kernel refuses, is the only safe way to ask.
    Process(pipe::Receiver),
    Nothing,
}

impl AsyncReadiness {
    fn new(watched: Readiness) -> std::io::Result<AsyncReadiness> {
        Ok(match watched {
            Readiness::Socket(socket) => {
                socket.set_nonblocking(true)?;
                AsyncReadiness::Socket(UnixStream::from_std(socket)?)
            }
            Readiness::Process(process) => {
                AsyncReadiness::Process(pipe::Receiver::from_owned_fd_unchecked(process)?)
            }
            Readiness::Nothing => AsyncReadiness::Nothing,
        })
    }

    /// Ready with the outcome of `look` when there was something to look at.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        look: impl FnOnce() -> Result<bool, Error>,
    ) -> Poll<Result<bool, Error>> {
        match self {
            AsyncReadiness::Socket(socket) => {
                let doing = "could not wait for the command";
                ready!(socket.poll_read_ready(cx)).map_err(|error| Error::io(doing, error))?;
                let mut last = Ok(false);
                // Says that all was taken in; what comes in between is news again.
                let _ = socket.try_io(Interest::READABLE, || -> std::io::Result<()> {
                    last = look();
                    Err(std::io::ErrorKind::WouldBlock.into())
                });
                Poll::Ready(last)
            }
            AsyncReadiness::Process(process) => {
                let _ = ready!(Pin::new(process).poll_read(cx, &mut ReadBuf::new(&mut [0u8; 8])));
                Poll::Ready(look())
            }
            AsyncReadiness::Nothing => Poll::Pending,
        }
    }
}

/// What a blocking start hands over.
struct StartedChild {
    held: RunningGuard,
    parts: Parts,
}

/// All of a [`Child`] that holds nothing up when it is dropped.
struct Parts {
    stdin: Option<std::io::PipeWriter>,
    stdout: Option<std::io::PipeReader>,
    stderr: Option<std::io::PipeReader>,
    enforcement: Enforcement,
    keep: [usize; 2],
    bounds: EffectiveLimits,
    sandbox: Sandbox,
}

impl From<Child> for StartedChild {
    fn from(child: Child) -> StartedChild {
        StartedChild {
            held: RunningGuard(Some(child.process)),
            parts: Parts {
                stdin: child.stdin,
                stdout: child.stdout,
                stderr: child.stderr,
                enforcement: child.enforcement,
                keep: child.keep,
                bounds: child.bounds,
                sandbox: child.sandbox,
            },
        }
    }
}

/// A running tree whose end is waited for elsewhere if this is dropped.
#[derive(Debug)]
struct RunningGuard(Option<Box<dyn Process>>);

impl RunningGuard {
    fn running(&self) -> Option<&dyn Process> {
        self.0.as_deref()
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            // Told at once; only the waiting is left to the other thread.
            running.kill();
            // Without that thread it is waited for here.
            if let Some(reaper) = reaper() {
                ending().waiting += 1;
                if reaper.send(running).is_err() {
                    ending().waiting -= 1;
                }
            }
        }
    }
}

/// What is known of dropped commands whose end is waited for.
struct DroppedCommands {
    waiting: usize,
    found: Vec<Quarantined>,
}

static ENDING: Mutex<DroppedCommands> = Mutex::new(DroppedCommands {
    waiting: 0,
    found: Vec::new(),
});
static ENDED: Condvar = Condvar::new();

fn ending() -> MutexGuard<'static, DroppedCommands> {
    ENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits, so long at most, until every command whose [`AsyncChild`] was dropped has ended and what
/// it left was seen to, and gives what was quarantined then. For programs before their own end:
/// otherwise that work ends with them, and is left to the next start.
///
/// ```
/// use std::time::Duration;
///
/// assert!(os_sandbox::settle(Duration::from_secs(1)).is_empty());
/// ```
#[must_use]
pub fn settle(within: Duration) -> Vec<Quarantined> {
    let waited = ENDED.wait_timeout_while(ending(), within, |ending| ending.waiting > 0);
    let (mut ending, _) = waited.unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut ending.found)
}

/// Waits for the end of one that nobody holds any more, and sees to what it left.
fn end(mut running: Box<dyn Process>) {
    let found = running.finish_dropped();
    drop(running);
    let mut ending = ending();
    ending.waiting -= 1;
    let room = MAX_FOUND.saturating_sub(ending.found.len());
    ending.found.extend(found.into_iter().take(room));
    ENDED.notify_all();
}

/// The one thread that waits for the ends of dropped commands. If none could be started, whoever
/// drops waits itself.
fn reaper() -> Option<&'static Sender<Box<dyn Process>>> {
    static REAPER: OnceLock<Option<Sender<Box<dyn Process>>>> = OnceLock::new();
    let started = REAPER.get_or_init(|| {
        let (dropped, inbox) = channel::<Box<dyn Process>>();
        std::thread::Builder::new()
            .name("os-sandbox-end".to_owned())
            .spawn(move || inbox.into_iter().for_each(end))
            .ok()
            .map(|_| dropped)
    });
    started.as_ref()
}

fn runtime() -> Result<Handle, Error> {
    Handle::try_current().map_err(|_| {
        Error::invalid("an async command outside of a tokio runtime")
            .with_hint("use Command::spawn there")
    })
}

/// What a blocking task came to; its panic goes on here.
fn joined<T>(outcome: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    match outcome {
        Ok(outcome) => outcome,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(ErrorKind::Io, "the runtime is shutting down")),
        },
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Io, "the command's end was told before, or lost")
}
