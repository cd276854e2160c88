//! A command without a supervisor, on systems where there is none: its streams, its end, its time
//! limit, its process group.

use crate::error::Error;
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::Findings;
use crate::support::{Availability, Support};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often an end is looked for; there is no descriptor to wait on.
const TICK: Duration = Duration::from_millis(10);

/// What [`Running::poll`] saw.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// For each pipe, in order: there is something to read, or its end.
    pub(crate) readable: Vec<bool>,
    /// The command has ended.
    pub(crate) ended: bool,
}

/// A running command. Dropping it ends it, and its process group if it has one.
#[derive(Debug)]
pub(crate) struct Running<Resources> {
    who: Who,
    deadline: Option<Instant>,
    result: Option<Exit>,
    /// Given up after the end.
    held: Option<Resources>,
}

/// Ends a command from another thread.
#[derive(Debug)]
pub(crate) struct Killer(Who);

/// A process of ours, until it was reaped: then its number can be anybody's.
#[derive(Clone, Debug)]
struct Who {
    pid: Pid,
    group: bool,
    reaped: Arc<AtomicBool>,
}

impl<Resources> Running<Resources> {
    /// A child of this process, the leader of its process group if `group` says so.
    pub(crate) fn new(pid: Pid, group: bool, wall: Option<Duration>, held: Resources) -> Self {
        Running {
            who: Who {
                pid,
                group,
                reaped: Arc::default(),
            },
            deadline: wall.and_then(|wall| Instant::now().checked_add(wall)),
            result: None,
            held: Some(held),
        }
    }

    /// Waits until a pipe is readable, the command ended, or the time passed.
    pub(crate) fn poll(
        &mut self,
        pipes: &[&PipeReader],
        timeout: Option<Duration>,
    ) -> Result<Event, Error> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let ended = self.look()?;
            let mut fds: Vec<PollFd<'_>> = pipes
                .iter()
                .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
                .collect();
            let tick = if ended { Duration::ZERO } else { TICK };
            let tick = PollTimeout::try_from(tick).unwrap_or(PollTimeout::ZERO);
            match poll(&mut fds, tick) {
                Ok(_) | Err(Errno::EINTR) => {}
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

    /// Whether it has ended, without waiting. Ends it if its time is over, and what is left of its
    /// group when it has ended.
    pub(crate) fn look(&mut self) -> Result<bool, Error> {
        if self.result.is_some() {
            return Ok(true);
        }
        let late = self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now());
        if late {
            self.who.kill();
        }
        let flags = (!late).then_some(WaitPidFlag::WNOHANG);
        let exit = loop {
            match waitpid(self.who.pid, flags) {
                Ok(WaitStatus::Exited(_, code)) => break Exit::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => break Exit::Signal(signal as i32),
                Ok(_) if late => {}
                Ok(_) => return Ok(false),
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(Error::io("could not wait for the command", errno.into()));
                }
            }
        };
        self.who.end_group();
        self.who.reaped.store(true, Ordering::Release);
        self.result = Some(if late { Exit::TimedOut } else { exit });
        self.held = None;
        Ok(true)
    }

    /// There is no socket to wait on.
    #[cfg(feature = "tokio")]
    pub(crate) fn watched(&self) -> Result<crate::running::Readiness, Error> {
        Ok(crate::running::Readiness::Nothing)
    }

    /// When to look again.
    #[cfg(feature = "tokio")]
    pub(crate) fn next_look(&self) -> Option<Instant> {
        Some(Instant::now() + TICK)
    }

    /// Waits for the end of the command, then ends what is left of its group.
    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
        while !self.look()? {
            std::thread::sleep(TICK);
        }
        Ok(self.result.unwrap_or(Exit::TimedOut))
    }

    /// No limit of a whole tree is watched here.
    pub(crate) fn seen(&self) -> Option<LimitHit> {
        None
    }

    /// Nothing is looked for after the end.
    pub(crate) fn findings(&mut self) -> Findings {
        Findings::default()
    }

    pub(crate) fn kill(&mut self) {
        self.who.kill();
    }

    pub(crate) fn killer(&self) -> Result<Killer, Error> {
        Ok(Killer(self.who.clone()))
    }
}

impl<Resources> Drop for Running<Resources> {
    fn drop(&mut self) {
        if self.result.is_none() {
            self.who.kill();
            // Cannot be caught, so it ends.
            let _ = waitpid(self.who.pid, None);
            self.who.end_group();
            self.who.reaped.store(true, Ordering::Release);
        }
    }
}

impl Killer {
    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}

impl Who {
    fn kill(&self) {
        if !self.reaped.load(Ordering::Acquire) {
            // Fails only if nobody is left.
            let _ = kill(self.pid, Signal::SIGKILL);
            self.end_group();
        }
    }

    /// The members keep the number of the group, also when its leader is gone.
    fn end_group(&self) {
        if self.group {
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
    }
}

/// Not used on this system.
#[cfg(feature = "birdcage")]
pub(crate) fn birdcage(_: &Support, _: Option<&Path>) -> Availability<PathBuf> {
    Availability::Missing {
        reason: "birdcage is used on Linux only".to_owned(),
        how: String::new(),
    }
}

/// Whose the mounts are.
pub(crate) enum ProbeScope {
    /// The user's.
    UserMounts,
}

/// Removes what a command left. The standard library opens each directory relative to the one
/// around it and follows no link; what it cannot remove is looked at by the next sweep.
/// Nothing here looks for names before a start.
pub(crate) fn survey(_: &crate::policy::Policy) -> Result<Vec<crate::survey::Survey>, Error> {
    Ok(Vec::new())
}

pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

#[cfg(feature = "docker")]
pub(crate) use elsewhere::{Cleanup, MountSources, layout};

/// The mounts of a command that an engine runs. Names are not looked for here.
#[cfg(feature = "docker")]
mod elsewhere {
    use crate::access::Access;
    use crate::error::Error;
    use crate::findings::{Findings, Notes};
    use crate::layout::{Layout, LayoutContent, LayoutEntry, Owner};
    use crate::policy::{Policy, check_not_kernel};
    use crate::promise::Promise;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// There is nothing to do.
    pub(crate) struct Cleanup;

    impl Cleanup {
        pub(crate) fn run(self) -> Findings {
            Findings::default()
        }
    }

    /// They are not looked at again.
    pub(crate) struct MountSources;

    impl MountSources {
        pub(crate) fn unchanged(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    pub(crate) fn layout(policy: &Policy, _: Option<&Path>) -> Result<Layout, Error> {
        let mut real: Vec<(PathBuf, bool)> = Vec::new();
        let mut owners = Vec::new();
        for mount in policy.mounts() {
            let failed = |error| {
                let doing = format!("could not open {}", mount.host().display());
                Error::io(doing, error)
            };
            let host = std::fs::canonicalize(mount.host()).map_err(failed)?;
            check_not_kernel(&host)?;
            let meta = std::fs::metadata(&host).map_err(failed)?;
            if mount.access().contains(Access::WRITE) {
                owners.push(Owner {
                    name: mount.inside().to_owned(),
                    uid: meta.uid(),
                    gid: meta.gid(),
                });
            }
            real.push((host, meta.is_dir()));
        }
        let what = |at: usize| match policy.mounts()[at].access() {
            access if access.is_none() => LayoutContent::Closed { is_dir: real[at].1 },
            access => LayoutContent::Host {
                from: real[at].0.clone(),
                writable: access.contains(Access::WRITE),
            },
        };
        let mut placed = Vec::new();
        for (at, mount) in policy.mounts().iter().enumerate() {
            placed.push(LayoutEntry {
                inside: mount.inside().into(),
                what: what(at),
            });
            for (outer, outer_mount) in policy.mounts().iter().enumerate() {
                if let Ok(rest) = real[at].0.strip_prefix(&real[outer].0)
                    && !rest.as_os_str().is_empty()
                {
                    placed.push(LayoutEntry {
                        inside: Path::new(outer_mount.inside()).join(rest),
                        what: what(at),
                    });
                }
            }
        }
        placed.sort_by_key(|one| one.inside.components().count());
        placed.dedup_by(|next, one| next.inside == one.inside);
        let unseen = "names are looked for before a container starts on Linux only".to_owned();
        let mut notes = Notes::default();
        if policy.protects_names() {
            notes.0.push((Promise::ProtectedNames, unseen.clone()));
        }
        if policy.hides_names() {
            notes.0.push((Promise::HiddenNames, unseen));
        }
        Ok(Layout {
            placed,
            owners,
            directories: real.into_iter().map(|(_, is_dir)| is_dir).collect(),
            sources: MountSources,
            notes,
            after: Cleanup,
        })
    }
}
