//! The async interface: the same start and the same supervisor, awaited by tokio.
//!
//! The start and the last reaping cannot wait for readiness and run on tokio's blocking threads.
//! Everything else waits for readiness of the control socket and of the pipes, and uses the code of
//! the sync [`Child`]. A future alone never owns a resource of a command: the owner is a value that
//! ends the command when it is dropped, wherever that happens.

use crate::captured::Captured;
use crate::child::{Child, Stream};
use crate::command::Command;
use crate::ending::{self, CountedCommand};
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
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// Bound on one read from a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// A running command, for async code (feature `tokio`); see [`Command::spawn_async`]. Dropping it
/// ends everything that it started, without waiting for that.
///
/// Every method that waits can be dropped while it waits, and called again.
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
    /// The descriptor that is readable at the next event.
    watched: AsyncReadiness,
    /// The time of the next check, whatever is readable.
    timer: Option<Pin<Box<Sleep>>>,
    /// `true` if standard error is read first. The streams take turns.
    errors_first: bool,
    enforcement: Enforcement,
    keep: [usize; 2],
    bounds: EffectiveLimits,
    sandbox: Sandbox,
    exceeded: Option<Exceeded>,
}

/// The progress of the command.
#[derive(Debug)]
enum ChildState {
    Running(RunningGuard),
    /// The supervisor has reported its end; a blocking thread reaps and tidies up.
    Ending(JoinHandle<Result<Ended, Error>>),
    Ended(Exit),
    /// The error was returned.
    Lost,
}

/// The end of the command, and the findings from after it. If nobody takes them, they are kept for
/// [`settle`](crate::settle).
#[derive(Debug)]
struct Ended {
    exit: Option<Result<(Exit, Option<LimitHit>), Error>>,
    findings: Findings,
    _counted: CountedCommand,
}

impl Drop for Ended {
    fn drop(&mut self) {
        ending::keep(std::mem::take(&mut self.findings.quarantined));
    }
}

impl Command {
    /// Starts the command as [`Command::spawn`], without blocking other tasks.
    ///
    /// Must be called on a tokio runtime whose drivers for I/O and time are enabled. If the future
    /// is dropped, nothing of the command remains.
    ///
    /// # Errors
    /// As [`Command::spawn`]; [`ErrorKind::Invalid`] outside of a runtime.
    pub async fn spawn_async(self) -> Result<AsyncChild, Error> {
        let runtime = runtime()?;
        // A dropped future drops the outcome too.
        let start = runtime.spawn_blocking(move || Ok(StartedChild(Some(self.spawn()?))));
        AsyncChild::new(joined(start.await)?)
    }

    /// Runs the command as [`Command::output`], without blocking other tasks.
    ///
    /// # Errors
    /// As [`Command::spawn_async`] and [`AsyncChild::wait_with_output`].
    pub async fn output_async(self) -> Result<Output, Error> {
        self.spawn_async().await?.wait_with_output().await
    }
}

impl AsyncChild {
    fn new(mut started: StartedChild) -> Result<AsyncChild, Error> {
        let failed = |error| Error::io("could not wait for the command's streams", error);
        let child = started.0.take().ok_or_else(lost)?;
        let held = RunningGuard(child.counted.map(|counted| (child.process, counted)));
        let watched = match held.running() {
            Some(running) => AsyncReadiness::new(running.readiness()?).map_err(failed)?,
            None => AsyncReadiness::Nothing,
        };
        let receiver = |pipe: Option<std::io::PipeReader>| {
            pipe.map(|pipe| pipe::Receiver::from_owned_fd(pipe.into()))
                .transpose()
        };
        Ok(AsyncChild {
            stdin: child
                .stdin
                .map(|pipe| pipe::Sender::from_owned_fd(pipe.into()))
                .transpose()
                .map_err(failed)?,
            stdout: receiver(child.stdout).map_err(failed)?,
            stderr: receiver(child.stderr).map_err(failed)?,
            watched,
            timer: None,
            errors_first: false,
            state: ChildState::Running(held),
            enforcement: child.enforcement,
            keep: child.keep,
            bounds: child.bounds,
            sandbox: child.sandbox,
            exceeded: None,
        })
    }

    sandbox_names::getters! {
        /// Returns the quarantined names, as [`Child::quarantined`](crate::Child::quarantined).
        pub quarantined: &[Quarantined] = &enforcement.quarantined;
        /// Returns the receipt. After the end, it includes the findings from then.
        pub enforcement: &Enforcement = &enforcement;
        /// Returns the limit that the command ran into, as [`Child::exceeded`]. Known after the wait.
        pub exceeded: Option<Exceeded> = exceeded;
    }

    /// Waits for the end of the command and of everything that it started. Closes standard input
    /// first. An unread pipe can fill up and block the command: see
    /// [`AsyncChild::wait_with_output`].
    ///
    /// # Errors
    /// If the supervisor was lost, or could not end everything.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        self.stdin = None;
        poll_fn(|cx| self.poll_said(cx)).await?;
        self.finish().await
    }

    /// Waits, and captures the beginning and the end of both piped outputs, up to the policy's
    /// limits. The bytes in between are counted and discarded.
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

    /// Waits, and passes the content of both piped outputs to `sink` as it arrives. The command
    /// waits while `sink` works, because nothing is queued. A sink that has to wait itself reads
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

    /// Ends the command and everything that it started. [`AsyncChild::wait`] then returns its end.
    pub fn kill(&mut self) {
        match &mut self.state {
            ChildState::Running(held) => {
                if let Some(running) = held.running() {
                    running.kill();
                }
            }
            // The command has ended.
            ChildState::Ending(_) | ChildState::Ended(_) | ChildState::Lost => {}
        }
    }

    /// Returns a handle that ends the command from another task or thread. `None` once it has
    /// ended.
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

    /// Returns the next bytes of a stream. `None` when the tree has ended and the pipes are empty.
    fn poll_streams(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut [u8],
    ) -> Poll<Result<Option<(Stream, usize)>, Error>> {
        // First, so that the bytes in a pipe after the end are read after the end.
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
                    // A stream that is never empty does not block the other.
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
                // The runtime may not know yet of the bytes in the pipe, or may want to run another
                // task first, so the pipe itself is read. Only a process outside that was given the
                // same file can still have it open.
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

    /// Returns ready once the supervisor has reported its end.
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ChildState::Running(held) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let Some((running, _)) = held.0.as_mut() else {
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

    /// Reaps the command, on a thread that may block.
    async fn finish(&mut self) -> Result<Exit, Error> {
        if let ChildState::Running(held) = &mut self.state
            && let Some(running) = held.0.take()
        {
            self.watched = AsyncReadiness::Nothing;
            self.timer = None;
            // Guarded again: a runtime that shuts down drops tasks that it has not started.
            let mut held = RunningGuard(Some(running));
            let end = runtime()?.spawn_blocking(move || match held.0.take() {
                Some((mut running, counted)) => {
                    let exit = running.wait().map(|exit| (exit, running.limit_hit()));
                    Ok(Ended {
                        exit: Some(exit),
                        findings: running.findings(),
                        _counted: counted,
                    })
                }
                None => Err(lost()),
            });
            self.state = ChildState::Ending(end);
        }
        let outcome = match &mut self.state {
            ChildState::Ended(exit) => return Ok(*exit),
            ChildState::Running(_) | ChildState::Lost => return Err(lost()),
            ChildState::Ending(end) => joined(end.await).and_then(|mut ended| {
                let findings = std::mem::take(&mut ended.findings);
                let exit = ended.exit.take().unwrap_or_else(|| Err(lost()));
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

/// Reads the bytes that are in a pipe now, without waiting. Returns 0 if it is empty.
fn in_pipe(pipe: &pipe::Receiver, chunk: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match nix::unistd::read(pipe, chunk) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => return Ok(0),
            read => return Ok(read?),
        }
    }
}

/// The descriptor that a command waits on, registered with tokio.
#[derive(Debug)]
enum AsyncReadiness {
    Socket(UnixStream),
    /// The descriptor of a process, which is not a pipe. Only its readiness matters, and a read,
    /// which the kernel refuses, is the only safe way to query it.
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

    /// Returns ready with the outcome of `look` if an event arrived.
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
                // Marks all events as consumed; a later one makes it ready again.
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

/// The result of a blocking start. Unlike a bare [`Child`], it does not wait where it is dropped.
struct StartedChild(Option<Child>);

impl Drop for StartedChild {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            RunningGuard(child.counted.map(|counted| (child.process, counted)));
        }
    }
}

/// A running tree. If it is dropped, another thread waits for its end.
#[derive(Debug)]
struct RunningGuard(Option<Unended>);

/// A started command, counted until its end.
type Unended = (Box<dyn Process>, CountedCommand);

impl RunningGuard {
    fn running(&self) -> Option<&dyn Process> {
        self.0.as_ref().map(|(running, _)| &**running)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            // The kill is immediate; only the wait moves to the other thread.
            running.0.kill();
            // Without that thread, the wait is here.
            if let Some(reaper) = reaper() {
                let _ = reaper.send(running);
            }
        }
    }
}

/// Returns the one thread that waits for the ends of dropped commands. If it cannot be started, the
/// dropping thread waits itself.
fn reaper() -> Option<&'static Sender<Unended>> {
    static REAPER: OnceLock<Option<Sender<Unended>>> = OnceLock::new();
    let started = REAPER.get_or_init(|| {
        let (dropped, inbox) = channel::<Unended>();
        std::thread::Builder::new()
            .name("os-sandbox-end".to_owned())
            .spawn(move || inbox.into_iter().for_each(ending::end))
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

/// Returns the result of a blocking task, and resumes its panic.
fn joined<T>(outcome: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    match outcome {
        Ok(outcome) => outcome,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ErrorKind::Io.error("the runtime is shutting down")),
        },
    }
}

fn lost() -> Error {
    ErrorKind::Io.error("the command's end was told before, or lost")
}
