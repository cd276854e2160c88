//! A running command. The [`Child`] owns the whole tree, and dropping it ends the tree.

use crate::captured::Captured;
use crate::command::Command;
use crate::denials::Denial;
use crate::ending::CountedCommand;
use crate::enforcement::Enforcement;
use crate::error::Error;
use crate::exceeded::{EffectiveLimits, Exceeded};
use crate::exit::Exit;
use crate::output::Output;
use crate::process::{Killer, Process, StartedCommand};
use crate::quarantine::Quarantined;
use crate::sandbox::Sandbox;
use crate::terminal::Terminal;
use std::io::{PipeReader, PipeWriter, Read};
use std::time::Duration;

/// Bound on one read from a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// A running command; see [`Command::spawn`]. Dropping it ends everything that it started.
///
/// ```
/// use os_sandbox::{Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let mut child = Command::new(&sandbox, "sleep").arg("60").spawn()?;
/// child.kill();
/// assert_eq!(child.wait()?, Exit::Signal(9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Child {
    /// The other end of standard input, if it is [`Piped`](crate::Stdio::Piped).
    pub stdin: Option<PipeWriter>,
    /// The other end of standard output, if it is [`Piped`](crate::Stdio::Piped).
    pub stdout: Option<PipeReader>,
    /// The other end of standard error, if it is [`Piped`](crate::Stdio::Piped).
    pub stderr: Option<PipeReader>,
    /// The other side of the command's terminal, with [`Session::Terminal`](crate::Session::Terminal).
    /// The caller has to read it: a command whose output is not read waits.
    pub terminal: Option<Terminal>,
    pub(crate) process: Box<dyn Process>,
    pub(crate) enforcement: Enforcement,
    pub(crate) keep: [usize; 2],
    pub(crate) bounds: EffectiveLimits,
    pub(crate) exceeded: Option<Exceeded>,
    pub(crate) sandbox: Sandbox,
    /// Dropped after the process. `None` after the end.
    pub(crate) counted: Option<CountedCommand>,
}

/// One of the two outputs.
///
/// ```
/// assert_ne!(os_sandbox::Stream::Stdout, os_sandbox::Stream::Stderr);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Command {
    /// Starts the command. Returns when the program itself runs, or with the reason why it does
    /// not.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind); nothing is left running.
    pub fn spawn(self) -> Result<Child, Error> {
        self.check()?;
        Child::start(self)
    }

    /// Runs the command to its end, and returns its exit, its output and the receipt.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait_with_output`].
    pub fn output(self) -> Result<Output, Error> {
        self.spawn()?.wait_with_output()
    }
}

impl Child {
    pub(crate) fn start(command: Command) -> Result<Child, Error> {
        let sandbox = command.sandbox.clone();
        let limits = sandbox.plan().policy().limits();
        let keep = [limits.stdout_bytes, limits.stderr_bytes];
        let mut enforcement = Enforcement::new(sandbox.plan());
        let bounds = EffectiveLimits {
            wall: command.wall(),
            ..sandbox.plan().bounds()
        };
        let counted = CountedCommand::new();
        let StartedCommand {
            mut process,
            pipes: (stdin, stdout, stderr),
            notes,
            container,
        } = command.sandbox.mechanism().start(command)?;
        enforcement.container = container;
        enforcement.started(notes);
        Ok(Child {
            stdin,
            stdout,
            stderr,
            terminal: process.take_terminal(),
            process,
            enforcement,
            keep,
            bounds,
            exceeded: None,
            sandbox,
            counted: Some(counted),
        })
    }

    sandbox_names::getters! {
        /// Returns the protected names that the command created and that were found and moved away
        /// after its end. Empty before [`Child::wait`] or one of its kind has returned.
        pub quarantined: &[Quarantined] = &enforcement.quarantined;
        /// Returns the attempts that the policy refused, each once, in their order; Linux reports those
        /// that would have changed something or reached another host. Empty before [`Child::wait`] or
        /// one of its kind has returned, and without [`Command::reports`].
        pub denials: &[Denial] = &enforcement.denials;
        /// Returns the receipt. After the end, it includes the findings from then.
        pub enforcement: &Enforcement = &enforcement;
        /// Returns the limit that the command ran into. Known after the wait.
        ///
        /// ```
        /// use os_sandbox::{
        ///     Command, Directories, Exceeded, Plan, Policy, Requirement, Sandbox, Support,
        /// };
        /// use std::time::Duration;
        ///
        /// # if !cfg!(target_os = "linux") { return Ok(()); }
        /// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
        /// let sandbox = Sandbox::open(plan, Directories::user());
        /// let short = Duration::from_millis(50);
        /// let mut child = Command::new(&sandbox, "sleep").arg("60").timeout(short).spawn()?;
        /// child.wait()?;
        /// assert_eq!(child.exceeded(), Some(Exceeded::Wall(short)));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub exceeded: Option<Exceeded> = exceeded;
    }

    /// Waits for the end of the command and of everything that it started. Closes standard input
    /// first. An unread pipe can fill up and block the command: see [`Child::wait_with_output`].
    ///
    /// # Errors
    /// If the supervisor was lost, or could not end everything.
    pub fn wait(&mut self) -> Result<Exit, Error> {
        self.stdin = None;
        self.ended()
    }

    /// Returns the end of the command, if it has ended. Never blocks.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn try_wait(&mut self) -> Result<Option<Exit>, Error> {
        if self.process.poll_exit()? {
            return self.ended().map(Some);
        }
        Ok(None)
    }

    /// Waits, and captures the beginning and the end of both piped outputs, up to the policy's
    /// limits. The bytes in between are counted and discarded.
    ///
    /// # Errors
    /// As [`Child::wait`], or if a pipe cannot be read.
    pub fn wait_with_output(self) -> Result<Output, Error> {
        self.wait_with_output_watching(|_, _| {})
    }

    /// Waits as [`Child::wait_with_output`], and reports the number of bytes of each read to
    /// `seen`, stored or not. The command waits while `seen` works.
    ///
    /// ```
    /// use os_sandbox::{Command, Directories, Plan, Policy, Requirement, Sandbox, Stdio, Support};
    ///
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
    /// let sandbox = Sandbox::open(plan, Directories::user());
    /// let child = Command::new(&sandbox, "echo").arg("hello").stdout(Stdio::Piped).spawn()?;
    /// let mut total = 0;
    /// child.wait_with_output_watching(|_, bytes| total += bytes)?;
    /// assert_eq!(total, "hello\n".len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Child::wait_with_output`].
    pub fn wait_with_output_watching(
        mut self,
        mut seen: impl FnMut(Stream, usize),
    ) -> Result<Output, Error> {
        let mut kept = self.keep.map(Captured::new);
        let exit = self.wait_streaming(|stream, bytes| {
            seen(stream, bytes.len());
            kept[stream as usize].push(bytes);
        })?;
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
    /// waits while `sink` works, because nothing is queued.
    ///
    /// # Errors
    /// As [`Child::wait_with_output`].
    pub fn wait_streaming(&mut self, mut sink: impl FnMut(Stream, &[u8])) -> Result<Exit, Error> {
        self.stdin = None;
        let mut pipes = [
            (Stream::Stdout, self.stdout.take()),
            (Stream::Stderr, self.stderr.take()),
        ];
        let mut chunk = vec![0u8; CHUNK_BYTES];
        let mut ended = false;
        while pipes.iter().any(|(_, pipe)| pipe.is_some()) {
            let open: Vec<&PipeReader> =
                pipes.iter().filter_map(|(_, pipe)| pipe.as_ref()).collect();
            // Once the tree has ended, only the bytes in the pipes are still to come. Only a
            // process outside that was given the same file can still have a pipe open.
            let event = self.process.poll(&open, ended.then_some(Duration::ZERO))?;
            if ended && event.readable.iter().all(|ready| !ready) {
                break;
            }
            ended = ended || event.ended;
            let mut ready = event.readable.into_iter();
            for (stream, slot) in &mut pipes {
                if slot.is_none() || ready.next() != Some(true) {
                    continue;
                }
                let count = slot.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut chunk));
                match count {
                    Ok(0) => *slot = None,
                    Ok(bytes) => sink(*stream, &chunk[..bytes]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        return Err(Error::io("could not read the command's output", error));
                    }
                }
            }
        }
        self.ended()
    }

    /// Waits for the end of everything, and adds the findings from after it.
    fn ended(&mut self) -> Result<Exit, Error> {
        let exit = self.process.wait();
        let findings = self.process.findings();
        self.counted = None;
        let failure = findings.failure(self.sandbox.plan());
        self.enforcement.found(findings);
        let exit = exit?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.exceeded = self.bounds.exceeded(exit, self.process.limit_hit());
        Ok(exit)
    }

    /// Ends the command and everything that it started. [`Child::wait`] then returns its end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Returns a handle that ends the command from another thread.
    ///
    /// # Errors
    /// If the system is out of descriptors.
    pub fn killer(&self) -> Result<Killer, Error> {
        self.process.killer()
    }
}
