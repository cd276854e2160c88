//! Where no mechanism exists yet: nothing is promised, and what is asked for by best effort runs
//! plainly, with the same environment, directories, limits on time and end of its process group.
//! Every promise is listed as absent by the plan.

use crate::child::{Findings, Notes, Pipes};
use crate::command::{Command, Session, Stdio};
use crate::error::{Error, ErrorKind};
use crate::exceeded::Seen;
use crate::output::Exit;
use crate::plan::Plan;
use crate::proof::Check;
use crate::support::{Connector, Finding, Support};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// How often an end is looked for; there is no descriptor to wait on.
const TICK: Duration = Duration::from_millis(10);

/// There is nothing to remember.
pub(crate) fn forget() {}

pub(crate) fn detect_fresh() -> Support {
    detect()
}

pub(crate) fn detect() -> Support {
    fn missing<T>() -> Finding<T> {
        Finding::Missing {
            reason: format!("not available on {}", std::env::consts::OS),
            how: "run on Linux".to_owned(),
        }
    }
    Support {
        launcher: missing(),
        seccomp: missing(),
        landlock: missing(),
        bubblewrap: missing(),
        pins: missing(),
        connector: Connector {
            bubblewrap: missing(),
            landlock: missing(),
        },
        seatbelt: None,
        memory_group: missing(),
        process_group: missing(),
        machine_bytes: None,
        uid_zero: nix::unistd::geteuid().is_root(),
    }
}

/// Whose the mounts are.
pub(crate) enum Whose {
    /// The user's.
    Users,
}

/// There is no confinement to prove.
pub(crate) fn prove(_: &Plan, _: Whose) -> Result<(Vec<Check>, Notes), Error> {
    let what = format!("nothing can be proved on {}", std::env::consts::OS);
    Err(Error::new(ErrorKind::Unsupported, what))
}

/// Directories that a plan keeps for its commands: none here.
#[derive(Debug, Default)]
pub(crate) struct Places;

/// What [`Running::poll`] saw.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// For each pipe, in order: there is something to read, or its end.
    pub(crate) readable: Vec<bool>,
    /// The command has ended.
    pub(crate) ended: bool,
}

/// A running command. Dropping it ends its process group.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    group: bool,
    deadline: Option<Instant>,
    result: Option<Exit>,
}

/// Ends a process group from another thread.
#[derive(Debug)]
pub(crate) struct Killer(Option<Pid>);

pub(crate) fn start(command: Command) -> Result<(Running, Pipes, Notes), Error> {
    let temp = std::env::temp_dir();
    let mut plain = std::process::Command::new(&command.program);
    plain
        .args(&command.args)
        .env_clear()
        .envs(command.variables(temp.as_os_str(), temp.as_os_str()))
        .current_dir(directory(&command));
    let group = match command.session {
        Session::New => {
            plain.process_group(0);
            true
        }
        Session::Inherit => false,
    };
    let deadline = command
        .wall()
        .and_then(|wall| Instant::now().checked_add(wall));
    let mut pipes: Pipes = (None, None, None);
    let failed = |error| Error::io("could not make the command's streams", error);
    for (index, one) in command.stdio.into_iter().enumerate() {
        let end: std::process::Stdio = match one {
            Stdio::Null => std::process::Stdio::null(),
            Stdio::Inherit => std::process::Stdio::inherit(),
            Stdio::File(file) => file.into(),
            Stdio::Piped => {
                let (reader, writer) = std::io::pipe().map_err(failed)?;
                match index {
                    0 => {
                        pipes.0 = Some(writer);
                        reader.into()
                    }
                    1 => {
                        pipes.1 = Some(reader);
                        writer.into()
                    }
                    _ => {
                        pipes.2 = Some(reader);
                        writer.into()
                    }
                }
            }
        };
        match index {
            0 => plain.stdin(end),
            1 => plain.stdout(end),
            _ => plain.stderr(end),
        };
    }
    let child = plain.spawn().map_err(|error| {
        let program = command.program.display();
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, format!("{program}: no such program"))
            }
            std::io::ErrorKind::PermissionDenied => Error::new(
                ErrorKind::NotExecutable,
                format!("{program}: cannot be started"),
            )
            .with_source(error),
            _ => Error::io(format!("{program}: cannot be started"), error),
        }
    })?;
    Ok((
        Running {
            child,
            group,
            deadline,
            result: None,
        },
        pipes,
        Notes::default(),
    ))
}

impl Running {
    /// No limit of a whole tree is watched here.
    pub(crate) fn seen(&self) -> Option<Seen> {
        None
    }

    /// Waits until a pipe is readable, the command ended, or the time passed.
    pub(crate) fn poll(
        &mut self,
        pipes: &[&PipeReader],
        timeout: Option<Duration>,
    ) -> Result<Event, Error> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let ended = self.ended()?;
            let mut fds: Vec<PollFd<'_>> = pipes
                .iter()
                .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
                .collect();
            let tick = if ended { Duration::ZERO } else { TICK };
            let tick = PollTimeout::try_from(tick).unwrap_or(PollTimeout::ZERO);
            match poll(&mut fds, tick) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => {
                    return Err(Error::io("could not wait for the command", errno.into()));
                }
            }
            let readable: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
            let late = until.is_some_and(|until| until <= Instant::now());
            if ended || late || readable.contains(&true) {
                return Ok(Event { readable, ended });
            }
        }
    }

    /// Whether it has ended, without waiting.
    #[cfg(feature = "tokio")]
    pub(crate) fn look(&mut self) -> Result<bool, Error> {
        self.ended()
    }

    /// There is no socket to wait on.
    #[cfg(feature = "tokio")]
    pub(crate) fn watched(&self) -> Result<crate::child::Watched, Error> {
        Ok(crate::child::Watched::Nothing)
    }

    /// When to look again.
    #[cfg(feature = "tokio")]
    pub(crate) fn next_look(&self) -> Option<Instant> {
        Some(Instant::now() + TICK)
    }

    /// Waits for the end of the command, then ends what is left of its group.
    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
        while !self.ended()? {
            std::thread::sleep(TICK);
        }
        Ok(self.result.unwrap_or(Exit::TimedOut))
    }

    /// Nothing is looked for after the end.
    pub(crate) fn findings(&mut self) -> Findings {
        Findings::default()
    }

    pub(crate) fn kill(&mut self) {
        // Fails only if nobody is left.
        let _ = self.child.kill();
        if let Some(group) = self.group_id() {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    pub(crate) fn killer(&self) -> Result<Killer, Error> {
        Ok(Killer(self.group_id()))
    }

    fn group_id(&self) -> Option<Pid> {
        let id = i32::try_from(self.child.id()).ok()?;
        self.group.then_some(Pid::from_raw(id))
    }

    fn ended(&mut self) -> Result<bool, Error> {
        if self.result.is_some() {
            return Ok(true);
        }
        let failed = |error| Error::io("could not wait for the command", error);
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            self.kill();
            self.child.wait().map_err(failed)?;
            self.result = Some(Exit::TimedOut);
            return Ok(true);
        }
        let Some(status) = self.child.try_wait().map_err(failed)? else {
            return Ok(false);
        };
        self.result = Some(match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        });
        if let Some(group) = self.group_id() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        Ok(true)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.result.is_none() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

impl Killer {
    pub(crate) fn kill(&self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// The directory on the host that a sandbox path stands for; the root or first mount by default.
fn directory(command: &Command) -> PathBuf {
    let mounts = command.plan.policy().mounts();
    let root = mounts
        .iter()
        .find(|mount| mount.shown_at() == "/")
        .or(mounts.first());
    let base = root.map_or_else(std::env::temp_dir, |mount| mount.host().to_owned());
    let Some(cwd) = &command.cwd else { return base };
    let named = mounts
        .iter()
        .filter_map(|mount| {
            let rest = std::path::Path::new(cwd)
                .strip_prefix(mount.shown_at())
                .ok()?;
            Some((mount, rest))
        })
        .max_by_key(|(mount, _)| mount.shown_at().len());
    match named {
        Some((mount, rest)) => mount.host().join(rest),
        None => base.join(cwd.trim_start_matches("/work").trim_start_matches('/')),
    }
}
