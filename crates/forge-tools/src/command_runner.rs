//! Starts commands of `shell` and waits for their end: under a plan in this process, or elsewhere.
//! The treatment of the command's output is common to both.

use std::fmt;
use std::io::{self, PipeWriter, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use os_sandbox::{
    Backend, Child, Command, Directories, ErrorKind, Exceeded, Exit, Plan, Sandbox, Stdio, Stream,
};
use sandbox_network::AskHost;
use serde_json::Value;

use crate::call_result::{CallFailure, FailureCode};
use crate::hosts::{NamedHostProxy, open_sandbox};

/// Starts commands.
///
/// See [`Processes::started_by`](crate::Processes::started_by):
///
/// ```
/// fn is_elsewhere(starter: &dyn forge_tools::CommandRunner) -> bool {
///     !["local", "os"].contains(&starter.place())
/// }
/// ```
pub trait CommandRunner: fmt::Debug + Send + Sync + 'static {
    /// Where commands run: `os` under a sandbox of this system, `local` without one, or the name of
    /// the place elsewhere (`docker`).
    fn place(&self) -> &'static str;

    /// Returns `true` if anything confines them.
    fn is_confined(&self) -> bool;

    /// Starts one. Called on a thread that may wait.
    ///
    /// # Errors
    ///
    /// It was not started, in words for the model.
    fn start(&self, start: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure>;

    /// Starts one that asks about the hosts that no rule names. By default it does not ask, and
    /// those hosts are refused.
    ///
    /// # Errors
    ///
    /// It was not started, in words for the model.
    fn start_asking(
        &self,
        start: CommandSpec,
        _ask: Arc<dyn AskHost>,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        self.start(start)
    }
}

/// A command that was started. Dropping it ends everything that it started.
///
/// ```
/// fn end(started: &dyn forge_tools::RunningCommand) {
///     if let Ok(kill) = started.killer() {
///         kill();
///     }
/// }
/// ```
pub trait RunningCommand: Send {
    /// Ends it from another thread; does nothing if it has ended.
    ///
    /// # Errors
    ///
    /// The system is out of descriptors.
    fn killer(&self) -> Result<Box<dyn FnOnce() + Send>, CallFailure>;

    /// Waits for the end of the command and of all that it started, and hands its output to `sink`.
    /// The command waits while `sink` works.
    ///
    /// # Errors
    ///
    /// Its result is unknown; it was ended.
    fn wait(
        self: Box<Self>,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ExitReport, CallFailure>;
}

/// A command as it is to be started, its rules already asked.
///
/// ```
/// use forge_tools::{CommandSpec, CommandStdin};
/// let start = CommandSpec::new("echo", ["hello"]);
/// assert_eq!((start.program.as_str(), start.input), ("echo", CommandStdin::Nothing));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its standard input.
    pub input: CommandStdin,
    /// Its time limit; `None` for that of the policy.
    pub timeout: Option<Duration>,
    /// The directory that it starts in, by its sandbox path; `None` for `/work`.
    pub directory: Option<String>,
    /// The line that it comes from and its session state, for a node that has to check its programs
    /// again.
    pub line: Option<(String, Vec<String>)>,
}

impl CommandSpec {
    /// A program with its arguments, which reads nothing.
    pub fn new<S: Into<String>>(
        program: impl Into<String>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        CommandSpec {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            input: CommandStdin::Nothing,
            timeout: None,
            directory: None,
            line: None,
        }
    }
}

/// The standard input of a command.
///
/// ```
/// assert_ne!(forge_tools::CommandStdin::Nothing, forge_tools::CommandStdin::StatusSocket);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandStdin {
    /// Nothing.
    Nothing,
    /// Its descriptor 0 is one end of a socket, and [`ExitReport::said`] has the bytes that it
    /// writes there.
    StatusSocket,
}

/// The end of a command.
///
/// ```
/// use forge_tools::ExitReport;
/// let ended = ExitReport::new(os_sandbox::Exit::Code(0));
/// assert!(ended.exceeded.is_none() && ended.said.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ExitReport {
    /// How it ended.
    pub exit: Exit,
    /// The limit that it ran into, in words.
    pub exceeded: Option<String>,
    /// Files with protected names that were taken away, as the command saw them.
    pub quarantined: Vec<String>,
    /// The enforcement that was applied.
    pub enforcement: Option<Value>,
    /// Its output on descriptor 0.
    pub said: Vec<u8>,
}

impl ExitReport {
    /// Most bytes of [`said`](Self::said).
    pub const MAX_SAID_BYTES: usize = 4 * 1024 * 1024;

    /// A report with this exit and nothing else.
    pub fn new(exit: Exit) -> Self {
        ExitReport {
            exit,
            exceeded: None,
            quarantined: Vec::new(),
            enforcement: None,
            said: Vec::new(),
        }
    }
}

/// Starts commands under a plan, as children of this process.
///
/// ```
/// fn runner(plan: os_sandbox::Plan) -> impl forge_tools::CommandRunner {
///     forge_tools::LocalCommandRunner::new(plan)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct LocalCommandRunner {
    sandbox: Sandbox,
    /// `None` if the policy names no hosts and publishes no ports.
    named_hosts: Option<NamedHostProxy>,
}

impl CommandRunner for LocalCommandRunner {
    fn place(&self) -> &'static str {
        if self.is_confined() { "os" } else { "local" }
    }

    fn is_confined(&self) -> bool {
        self.plan().backend() != Backend::None
    }

    fn start(&self, start: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure> {
        self.start_with(start, None)
    }

    fn start_asking(
        &self,
        start: CommandSpec,
        ask: Arc<dyn AskHost>,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        self.start_with(start, Some(ask))
    }
}

impl LocalCommandRunner {
    fn start_with(
        &self,
        start: CommandSpec,
        ask: Option<Arc<dyn AskHost>>,
    ) -> Result<Box<dyn RunningCommand>, CallFailure> {
        let input = start.input;
        let (listener, stdin) = match input {
            CommandStdin::Nothing => (None, Stdio::Null),
            CommandStdin::StatusSocket => {
                let (listener, stdin) = listen().map_err(|_| unheard())?;
                (Some(listener), stdin)
            }
        };
        let started = self.spawn(start, stdin, ask)?;
        Ok(Box::new(LocalProcess {
            listener,
            ..started
        }))
    }

    /// The commands run under this plan.
    pub fn new(plan: Plan) -> LocalCommandRunner {
        LocalCommandRunner {
            named_hosts: NamedHostProxy::new(&plan),
            sandbox: open_sandbox(plan, Directories::user()),
        }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        self.sandbox.plan()
    }

    /// Starts a command that reads from the returned pipe, whatever [`CommandSpec::input`] says.
    ///
    /// # Errors
    ///
    /// It was not started, in words for the model.
    pub fn start_piped(
        &self,
        start: CommandSpec,
    ) -> Result<(Box<dyn RunningCommand>, Option<PipeWriter>), CallFailure> {
        let mut running = self.spawn(start, Stdio::Piped, None)?;
        let stdin = running.child.stdin.take();
        Ok((Box::new(running), stdin))
    }

    fn spawn(
        &self,
        start: CommandSpec,
        stdin: Stdio,
        ask: Option<Arc<dyn AskHost>>,
    ) -> Result<LocalProcess, CallFailure> {
        let mut command = Command::new(&self.sandbox, &start.program)
            .args(start.args)
            .stdin(stdin)
            .stdout(Stdio::Piped)
            .stderr(Stdio::Piped);
        if let Some(directory) = start.directory {
            command = command.cwd(directory);
        }
        if let Some(timeout) = start.timeout {
            command = command.timeout(timeout);
        }
        if let (Some(proxy), Some(ask)) = (&self.named_hosts, ask) {
            command = command.host_proxy(proxy.asking(ask));
        }
        let program = start.program;
        let child = command.spawn().map_err(|error| refused(&program, &error))?;
        Ok(LocalProcess {
            child,
            listener: None,
            program,
        })
    }
}

/// Returns the limit that a command met, with the key that sets it, if a key does.
///
/// ```
/// let limit = os_sandbox::Exceeded::Processes(64);
/// let text = forge_tools::describe_exceeded(&limit);
/// assert_eq!(text, "more than 64 processes and threads at once (limits.processes)");
/// ```
pub fn describe_exceeded(limit: &Exceeded) -> String {
    let key = match limit {
        Exceeded::Memory(_) => "limits.memory_mb",
        Exceeded::Processes(_) => "limits.processes",
        // The first is the call's own; no key sets the others.
        Exceeded::Wall(_) | Exceeded::Cpu(_) | Exceeded::FileSize(_) => return limit.to_string(),
    };
    format!("{limit} ({key})")
}

/// A child of this process.
struct LocalProcess {
    child: Child,
    listener: Option<StatusListener>,
    program: String,
}

impl RunningCommand for LocalProcess {
    fn killer(&self) -> Result<Box<dyn FnOnce() + Send>, CallFailure> {
        let killer = self.child.killer();
        let killer = killer.map_err(|error| refused(&self.program, &error))?;
        Ok(Box::new(move || killer.kill()))
    }

    fn wait(
        mut self: Box<Self>,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<ExitReport, CallFailure> {
        let exit = self.child.wait_streaming(sink);
        let exit = exit.map_err(|error| refused(&self.program, &error))?;
        // Everything that could say more has ended.
        let said = self.listener.map(StatusListener::said).unwrap_or_default();
        let quarantined = self.child.quarantined().iter();
        Ok(ExitReport {
            exit,
            exceeded: self.child.exceeded().as_ref().map(describe_exceeded),
            quarantined: quarantined
                .map(|found| crate::escape_controls(&found.path.to_string_lossy()))
                .collect(),
            // After the end: findings of that moment are part of it.
            enforcement: serde_json::to_value(self.child.enforcement()).ok(),
            said,
        })
    }
}

/// Where a command in a session says how it ended.
struct StatusListener {
    ours: UnixStream,
    reader: JoinHandle<Vec<u8>>,
}

fn listen() -> io::Result<(StatusListener, Stdio)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut from = ours.try_clone()?;
    let reader = std::thread::Builder::new().spawn(move || {
        let mut said = Vec::new();
        let _broken = (&mut from)
            .take(ExitReport::MAX_SAID_BYTES as u64)
            .read_to_end(&mut said);
        // Excess bytes are read nevertheless, or the command would wait.
        let _rest = io::copy(&mut from, &mut io::sink());
        said
    })?;
    Ok((
        StatusListener { ours, reader },
        OwnedFd::from(theirs).into(),
    ))
}

impl StatusListener {
    /// Returns everything that was received, once the command has ended.
    fn said(self) -> Vec<u8> {
        let _closed = self.ours.shutdown(Shutdown::Both);
        self.reader.join().unwrap_or_default()
    }
}

fn unheard() -> CallFailure {
    FailureCode::Internal
        .failure("Cannot run the command: there is nowhere for its end to be told.")
}

pub(crate) fn refused(program: &str, error: &os_sandbox::Error) -> CallFailure {
    let program = crate::escape_controls(program);
    match error.kind() {
        ErrorKind::NotFound => FailureCode::CommandNotFound
            .failure(format!("Cannot run `{program}`: there is no such program.")),
        ErrorKind::NotExecutable => FailureCode::CommandNotExecutable.failure(format!(
            "Cannot run `{program}`: it is not executable here."
        )),
        ErrorKind::Unsupported => FailureCode::IsolationUnavailable.failure(format!(
            "Cannot run `{program}`: the isolation that is asked for is not available."
        )),
        // It names paths as the command sees them.
        ErrorKind::Unguarded => FailureCode::IsolationUnavailable.failure(crate::escape_controls(
            &format!("Cannot vouch for `{program}`: {error}."),
        )),
        // It names a port and no path.
        ErrorKind::PortInUse => {
            FailureCode::IsolationUnavailable.failure(format!("Cannot run `{program}`: {error}."))
        }
        // The error's own text may name host paths.
        _ => FailureCode::Internal
            .failure(format!("Cannot run `{program}`: it could not be started.")),
    }
}
