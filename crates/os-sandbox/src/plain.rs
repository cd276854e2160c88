//! A command on systems without a supervisor: its streams, its end, its time limit, its process
//! group.

use crate::error::Error;
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::{Findings, StartNotes};
use crate::process::{Event, Killer, Process, Readiness, StartedCommand, wait_readable};
use crate::streams::Pipes;
use crate::support::{Availability, Support};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval between checks for the end, because a descriptor to wait on does not exist.
const TICK: Duration = Duration::from_millis(10);

/// A running command. Dropping it ends it, and its process group if it has one.
#[derive(Debug)]
pub(crate) struct Running<Resources> {
    who: Who,
    deadline: Option<Instant>,
    /// The time between SIGTERM and the end, until SIGTERM was sent.
    grace: Option<Duration>,
    is_late: bool,
    result: Option<Exit>,
    /// Resources that are released after the end.
    held: Option<Resources>,
}

/// A child process until it was reaped. Afterwards another process can have its number.
#[derive(Clone, Debug)]
struct Who {
    pid: Pid,
    group: bool,
    reaped: Arc<AtomicBool>,
}

impl<Resources> Running<Resources> {
    /// Creates a running command from a child of this process. If `group` is `true`, the child
    /// leads its process group. `wall` and `grace`: the time limit, and the time from SIGTERM to the end.
    pub(crate) fn new(
        pid: Pid,
        group: bool,
        (wall, grace): (Option<Duration>, Option<Duration>),
        held: Resources,
    ) -> Self {
        Running {
            who: Who {
                pid,
                group,
                reaped: Arc::default(),
            },
            deadline: wall.and_then(|wall| Instant::now().checked_add(wall)),
            grace,
            is_late: false,
            result: None,
            held: Some(held),
        }
    }

    /// Returns `true` once the command must end. With a grace it gets SIGTERM first.
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.is_late = true;
        match self.grace.take() {
            Some(grace) => {
                self.deadline = now.checked_add(grace);
                !self.who.signal(Signal::SIGTERM as u8)
            }
            None => true,
        }
    }
}

impl<Resources: std::fmt::Debug + Send + Sync + 'static> Running<Resources> {
    /// Returns the started command.
    pub(crate) fn started(self, pipes: Pipes) -> StartedCommand {
        StartedCommand {
            process: Box::new(self),
            pipes,
            notes: StartNotes::default(),
            container: None,
        }
    }
}

impl<Resources: std::fmt::Debug + Send + Sync> Process for Running<Resources> {
    fn poll(&mut self, pipes: &[&PipeReader], timeout: Option<Duration>) -> Result<Event, Error> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let ended = self.poll_exit()?;
            let tick = if ended { Duration::ZERO } else { TICK };
            let readable = wait_readable(pipes, None, Some(tick))?.readable;
            let late = until.is_some_and(|until| until <= Instant::now());
            if ended || late || readable.contains(&true) {
                return Ok(Event { readable, ended });
            }
        }
    }

    /// Ends the command if its time is over. After its end, ends the rest of its group.
    fn poll_exit(&mut self) -> Result<bool, Error> {
        if self.result.is_some() {
            return Ok(true);
        }
        let late = self.is_over();
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
        self.result = Some(if self.is_late { Exit::TimedOut } else { exit });
        self.held = None;
        Ok(true)
    }

    fn readiness(&self) -> Result<Readiness, Error> {
        Ok(Readiness::Nothing)
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(Instant::now() + TICK)
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        while !self.poll_exit()? {
            std::thread::sleep(TICK);
        }
        Ok(self.result.unwrap_or(Exit::TimedOut))
    }

    fn limit_hit(&self) -> Option<LimitHit> {
        None
    }

    fn findings(&mut self) -> Findings {
        Findings::default()
    }

    fn kill(&self) {
        self.who.kill();
    }

    fn killer(&self) -> Result<Killer, Error> {
        let who = self.who.clone();
        let signalled = who.clone();
        Ok(Killer::new(move || who.kill()).with_signal(move |signal| signalled.signal(signal)))
    }
}

impl<Resources> Drop for Running<Resources> {
    fn drop(&mut self) {
        if self.result.is_none() {
            self.who.kill();
            // SIGKILL cannot be caught, so the child ends.
            let _ = waitpid(self.who.pid, None);
            self.who.end_group();
            self.who.reaped.store(true, Ordering::Release);
        }
    }
}

impl Who {
    fn kill(&self) {
        if !self.reaped.load(Ordering::Acquire) {
            // Fails only if the process has ended.
            let _ = kill(self.pid, Signal::SIGKILL);
            self.end_group();
        }
    }

    fn signal(&self, number: u8) -> bool {
        let is_running = !self.reaped.load(Ordering::Acquire);
        let sign = if self.group { -1 } else { 1 };
        is_running
            && Signal::try_from(i32::from(number))
                .and_then(|signal| kill(Pid::from_raw(sign * self.pid.as_raw()), signal))
                .is_ok()
    }

    /// Ends the group. The members still have the number of the group after its leader ended.
    fn end_group(&self) {
        if self.group {
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
    }
}

/// Birdcage is not available on this system.
#[cfg(feature = "birdcage")]
pub(crate) fn birdcage(_: &Support, _: Option<&Path>) -> Availability<PathBuf> {
    Availability::missing("birdcage is used on Linux only", "")
}

/// The owner of the probed mounts.
pub(crate) enum ProbeScope {
    /// Mounts of the user.
    UserMounts,
}

/// Returns an empty list, because names are not searched before a start on this system.
pub(crate) fn survey(_: &crate::policy::Policy) -> Result<Vec<crate::survey::Survey>, Error> {
    Ok(Vec::new())
}

/// Does nothing, because a start needs no process of ours on this system.
pub(crate) fn warm_up() {}

/// Records of quarantines: of none, because no command's files are moved on this system.
#[derive(Debug, Default)]
pub struct QuarantineRecords(());

impl QuarantineRecords {
    /// Returns the empty list.
    #[must_use]
    pub fn read() -> QuarantineRecords {
        QuarantineRecords(())
    }

    /// Returns `Unknown`.
    #[must_use]
    pub fn state_of(&self, _: &Path) -> crate::quarantine::QuarantineState {
        crate::quarantine::QuarantineState::Unknown
    }

    /// Returns none.
    pub fn renamed_below<'a>(&'a self, _: &'a Path) -> impl Iterator<Item = (&'a Path, &'a OsStr)> {
        std::iter::empty()
    }
}

/// Returns `None`: commands make no protected names on this system.
#[must_use]
pub fn find_possible_writer(
    _: &Path,
    _: crate::writers::FoundFile<'_>,
    _: &[std::path::PathBuf],
) -> Option<crate::writers::PossibleWriter> {
    None
}

/// The lock of starts: no command is recorded on this system, where protected names are denied by their
/// paths.
#[derive(Debug)]
pub struct NoStartLock(());

/// A command that runs: none is known on this system.
#[derive(Debug)]
pub enum NoActiveCommand {}

impl NoStartLock {
    /// Locks nothing.
    ///
    /// # Errors
    /// Never.
    pub fn new(_: impl IntoIterator<Item = PathBuf>) -> Result<NoStartLock, Error> {
        Ok(NoStartLock(()))
    }

    /// Returns no command.
    pub fn writers_of<'a>(&'a self, _: &'a Path) -> impl Iterator<Item = &'a NoActiveCommand> {
        std::iter::empty()
    }
}

impl NoActiveCommand {
    /// Returns the process that started it.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        match *self {}
    }

    /// Returns the words of the program that started it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        match *self {}
    }

    /// Returns `true` if the path is protected or hidden from the command.
    #[must_use]
    pub fn guards(&self, _: &Path) -> bool {
        match *self {}
    }
}

/// Removes the files that a command left. The standard library opens each directory relative to the
/// one around it and does not follow links. The next sweep handles the files that it cannot remove.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

pub(crate) use elsewhere::layout;
pub use elsewhere::{Cleanup, MountSources};

/// Returns `None`, because this crate does not run programs of this system in containers.
#[must_use]
pub fn static_program() -> Option<&'static [u8]> {
    None
}

/// Refuses, because this system has no network namespaces.
///
/// # Errors
/// Always.
pub fn serve_own_namespace(
    _: &crate::command::Command,
    _: &std::os::unix::net::UnixStream,
) -> Result<Box<dyn crate::host_proxy::ProxySession>, Error> {
    Err(Error::new(
        crate::error::ErrorKind::Unsupported,
        "this system has no network namespaces",
    ))
}

/// The mounts of a command that an engine runs. Names are not searched here.
mod elsewhere {
    use crate::access::Access;
    use crate::error::Error;
    use crate::findings::{Findings, StartNotes};
    use crate::layout::{Layout, LayoutContent, LayoutEntry, Owner};
    use crate::policy::{Policy, check_not_kernel};
    use crate::promise::Promise;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// A cleanup without any work.
    pub struct Cleanup;

    impl Cleanup {
        /// Returns no findings.
        #[must_use]
        pub fn run(self) -> Findings {
            Findings::default()
        }
    }

    /// Sources that are not checked again.
    #[derive(Default)]
    pub struct MountSources;

    impl MountSources {
        /// Does nothing.
        ///
        /// # Errors
        /// None.
        pub fn add(&mut self, _: &Path) -> Result<(), Error> {
            Ok(())
        }

        /// Returns `Ok`.
        ///
        /// # Errors
        /// None.
        pub fn unchanged(&self) -> Result<(), Error> {
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
        let placed = entries(policy, &real);
        let unseen = "names are looked for before a container starts on Linux only".to_owned();
        let mut notes = StartNotes::default();
        if policy.protects_names() {
            notes
                .degraded
                .push((Promise::ProtectedNames, unseen.clone()));
        }
        if policy.hides_names() {
            notes.degraded.push((Promise::HiddenNames, unseen));
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

    /// Returns each mount at its place, and at the places where a mount around it shows it too.
    fn entries(policy: &Policy, real: &[(PathBuf, bool)]) -> Vec<LayoutEntry> {
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
        placed
    }
}
