//! A running command as its mechanism presents it: [`Process`] is implemented once a mechanism, and
//! the mechanism alone knows how to wait for a tree and how to end it.

use crate::enforcement::ShownContainer;
use crate::error::Error;
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::{Findings, StartNotes};
use crate::quarantine::Quarantined;
use crate::streams::Pipes;
use crate::terminal::Terminal;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt;
use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A running tree of processes. Dropping it ends the tree.
pub trait Process: fmt::Debug + Send + Sync {
    /// Waits until a pipe is readable, the tree ended, or the time passed.
    ///
    /// # Errors
    /// If the system cannot wait.
    fn poll(&mut self, pipes: &[&PipeReader], timeout: Option<Duration>) -> Result<Event, Error>;

    /// Waits for the end of the whole tree.
    ///
    /// # Errors
    /// If the end cannot be known, or something could not be ended.
    fn wait(&mut self) -> Result<Exit, Error>;

    /// Requests the end of the whole tree.
    fn kill(&self);

    /// Returns a handle that ends the tree from another thread.
    ///
    /// # Errors
    /// If the system is out of descriptors.
    fn killer(&self) -> Result<Killer, Error>;

    /// Returns the limit of the whole tree that was hit. Known after [`Process::wait`].
    fn limit_hit(&self) -> Option<LimitHit>;

    /// Takes the other side of the command's terminal. `None` without one.
    fn take_terminal(&mut self) -> Option<Terminal> {
        None
    }

    /// Takes the findings from after the end.
    fn findings(&mut self) -> Findings;

    /// Returns `true` if the tree has ended, without waiting.
    ///
    /// # Errors
    /// As [`Process::poll`].
    fn poll_exit(&mut self) -> Result<bool, Error> {
        self.poll(&[], Some(Duration::ZERO))
            .map(|event| event.ended)
    }

    /// Returns the descriptor that announces the next event.
    ///
    /// # Errors
    /// If the system is out of descriptors.
    fn readiness(&self) -> Result<Readiness, Error>;

    /// Returns the time of the next [`Process::poll_exit`] if no event comes before.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Waits for the end of a dropped command, and returns the quarantined files. By default the
    /// drop that follows does all of that, and reports nothing.
    fn finish_dropped(&mut self) -> Vec<Quarantined> {
        Vec::new()
    }
}

/// The result of [`Process::poll`].
#[derive(Debug, Default)]
pub struct Event {
    /// For each pipe, in order: `true` if it has data or has ended.
    pub readable: Vec<bool>,
    /// `true` if nothing of the tree runs any more.
    pub ended: bool,
}

/// The descriptor by which an async caller waits, apart from time.
#[derive(Debug)]
pub enum Readiness {
    /// A socket that is readable at each event.
    Socket(UnixStream),
    /// The descriptor of a process, with the same meaning.
    Process(OwnedFd),
    /// Without a descriptor. Only the clock counts.
    Nothing,
}

/// A started command, and the facts that the start revealed.
#[derive(Debug)]
pub struct StartedCommand {
    /// The running tree.
    pub process: Box<dyn Process>,
    /// The broker's ends of the piped streams.
    pub pipes: Pipes,
    /// Facts from the start.
    pub notes: StartNotes,
    /// The container. `None` outside of one.
    pub container: Option<ShownContainer>,
}

/// Ends a command from another thread.
///
/// ```
/// use os_sandbox::{Command, Directories, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let mut child = Command::new(&sandbox, "sleep").arg("60").spawn()?;
/// let killer = child.killer()?;
/// std::thread::spawn(move || killer.kill());
/// assert!(!child.wait()?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Killer {
    end: Box<dyn Fn() + Send + Sync>,
    signal: Box<SendSignal>,
}

type SendSignal = dyn Fn(u8) -> bool + Send + Sync;

impl Killer {
    /// Returns a killer that calls `end`, which must do nothing once the command has ended.
    #[must_use]
    pub fn new(end: impl Fn() + Send + Sync + 'static) -> Killer {
        Killer {
            end: Box::new(end),
            signal: Box::new(|_| false),
        }
    }

    /// Sets the function that sends the command a signal, and returns `false` if it has ended.
    pub(crate) fn with_signal(
        mut self,
        signal: impl Fn(u8) -> bool + Send + Sync + 'static,
    ) -> Killer {
        self.signal = Box::new(signal);
        self
    }

    /// Ends the command and everything that it started. Does nothing if it has ended.
    pub fn kill(&self) {
        (self.end)();
    }

    /// Sends the command's process group a signal, or its first process if it shares the broker's group.
    /// Returns `false` if the command has ended, or its mechanism passes no signals on.
    #[must_use]
    pub fn signal(&self, number: u8) -> bool {
        (self.signal)(number)
    }
}

impl fmt::Debug for Killer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Killer")
    }
}

/// Waits until a pipe or `news` is readable, or the time passed. In the result, `ended` is `true`
/// if `news` is readable.
///
/// # Errors
/// If the system cannot wait.
pub fn wait_readable(
    pipes: &[&PipeReader],
    news: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<Event, Error> {
    let pipe_fds = pipes.iter().map(|pipe| pipe.as_fd());
    let mut fds: Vec<PollFd<'_>> = pipe_fds
        .chain(news)
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        // Rounded up, so that a wait never turns into a busy one.
        let ms = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128);
        PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(errno) => return Err(Error::io("could not wait for the command", errno.into())),
    }
    let mut readable: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    let ended = readable.split_off(pipes.len()).contains(&true);
    Ok(Event { readable, ended })
}
