//! Starts the launcher from memory. Its program is passed by descriptor, so users install nothing
//! and the disk has no file that a target could replace; the memory is sealed, so that a target
//! that opens it (`/proc/1/exe`, CVE-2019-5736) cannot change it either.

use super::super::wire;
use super::message::LauncherMessage;
use crate::error::Error;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, send, sendmsg};
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// Time limit for the children of a launcher to end after it.
const REST_ENDS_WITHIN_MS: u16 = 10_000;

/// Remedy if the kernel refuses to create such memory, or to execute it.
const MEMORY_RUNS: &str = "memory that is executed must be allowed: sysctl -w vm.memfd_noexec=1";

/// The program itself; see `launcher/main.rs`.
pub(crate) const LAUNCHER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// Returns the launcher's memory, created once.
pub(crate) fn image() -> Result<BorrowedFd<'static>, Error> {
    static IMAGE: OnceLock<Result<OwnedFd, nix::Error>> = OnceLock::new();
    match IMAGE.get_or_init(|| sealed("os-sandbox", LAUNCHER, true)) {
        Ok(image) => Ok(image.as_fd()),
        Err(errno) => Err(
            Error::io("could not put the launcher into memory", (*errno).into()).with_hint(
                match errno {
                    nix::Error::EACCES => MEMORY_RUNS,
                    _ => "an outer system call filter has to let memfd_create pass",
                },
            ),
        ),
    }
}

/// Creates a small file in memory that no process can change any more.
pub(crate) fn data(name: &str, bytes: &[u8]) -> Result<OwnedFd, Error> {
    use std::io::{Seek, SeekFrom};
    let fd = sealed(name, bytes, false)
        .map_err(|errno| Error::io("could not make a file in memory", errno.into()))?;
    let mut file = File::from(fd);
    file.seek(SeekFrom::Start(0))
        .map_err(|error| Error::io("could not rewind a file in memory", error))?;
    Ok(file.into())
}

/// Thread that starts a launcher.
#[derive(Clone, Copy)]
pub(crate) enum SpawnFrom {
    /// The crate's own thread, which never ends: for programs that end with their parent thread,
    /// and for work in parallel with the caller's.
    DedicatedThread,
    /// The calling thread, which saves two handovers.
    CallingThread,
}

/// A launcher that is being started while the broker still prepares its job.
pub(crate) struct Starting {
    control: Option<UnixStream>,
    process: Option<Receiver<std::io::Result<Child>>>,
    /// The result of the messages up to now.
    sent: std::io::Result<()>,
    connector: bool,
}

/// A started launcher and our end of its control socket.
pub(crate) struct Launched {
    pub(crate) process: Child,
    pub(crate) control: UnixStream,
    /// The process has become a connector; the job is its child's.
    connector: bool,
}

/// The launcher for the first start of this process.
enum Spare {
    /// No start has asked for one.
    Unused,
    Waiting(Starting),
    Used,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare::Unused);

/// Starts a launcher that waits for the first start. It ends with this process. It does nothing if a
/// start came before it.
pub(crate) fn warm_up() {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    // The start reports a failure.
    if matches!(*spare, Spare::Unused)
        && let Ok(starting) = start_launcher(false, false, SpawnFrom::DedicatedThread)
    {
        *spare = Spare::Waiting(starting);
    }
}

/// Starts the launcher, or takes the one that waits. If `errors`, a pipe receives the error output of
/// the launcher, or of the bubblewrap that it becomes. A probe starts with environment variables
/// that it must not see.
pub(crate) fn launch(errors: bool, decoy: bool, by: SpawnFrom) -> Result<Starting, Error> {
    if matches!(by, SpawnFrom::DedicatedThread) && !errors && !decoy {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Spare::Waiting(starting) = std::mem::replace(&mut *spare, Spare::Used) {
            return Ok(starting);
        }
    }
    start_launcher(errors, decoy, by)
}

fn start_launcher(errors: bool, decoy: bool, by: SpawnFrom) -> Result<Starting, Error> {
    let image = image()?.as_raw_fd();
    let (control, theirs) = UnixStream::pair()
        .map_err(|error| Error::io("could not make the control socket", error))?;
    let start = move || {
        let mut command = Command::new(format!("/proc/self/fd/{image}"));
        command
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(if errors {
                Stdio::piped()
            } else {
                Stdio::null()
            });
        if decoy {
            command.env("OS_SANDBOX_DECOY", "leaked");
        }
        command.spawn()
    };
    let process = match by {
        SpawnFrom::DedicatedThread => spawner().spawn(Box::new(start))?,
        SpawnFrom::CallingThread => {
            let (answer, result) = channel();
            // The other end is in the next line.
            let _ = answer.send(start());
            result
        }
    };
    Ok(Starting {
        control: Some(control),
        process: Some(process),
        sent: Ok(()),
        connector: false,
    })
}

impl Starting {
    /// Sends a part of the job. [`Starting::job`] reports a failure.
    pub(super) fn send(&mut self, message: &LauncherMessage<'_>) {
        if let (Some(control), Ok(())) = (&self.control, &self.sent) {
            self.sent = send_message(control, message);
        }
        self.connector |= message.kind == wire::KIND_CONNECT;
    }

    /// Sends the rest of the job.
    pub(crate) fn job(mut self, messages: &[LauncherMessage<'_>]) -> Result<Launched, Error> {
        messages.iter().for_each(|message| self.send(message));
        let (Some(control), Some(process)) = (self.control.take(), self.process.take()) else {
            return Err(gone());
        };
        let process = process.recv().map_err(|_| gone())?.map_err(|error| {
            let how = match error.kind() {
                ErrorKind::PermissionDenied => MEMORY_RUNS,
                _ => "it is started from memory by /proc/self/fd: is /proc mounted?",
            };
            Error::io("could not start the launcher", error).with_hint(how)
        })?;
        let mut launched = Launched {
            process,
            control,
            connector: self.connector,
        };
        match std::mem::replace(&mut self.sent, Ok(())) {
            Ok(()) => Ok(launched),
            // A launcher that refuses a job reports the reason before it exits; that answer is the
            // better error.
            Err(error) if error.raw_os_error() == Some(nix::Error::EPIPE as i32) => Ok(launched),
            Err(error) => {
                launched.end();
                Err(Error::io("could not hand the job to the launcher", error))
            }
        }
    }
}

impl Drop for Starting {
    /// Without a job the launcher reads the end of its socket and exits.
    fn drop(&mut self) {
        self.control = None;
        if let Some(process) = self.process.take()
            && let Ok(Ok(mut process)) = process.recv()
        {
            // Fails only if the process was reaped, which no other code does.
            let _ = process.wait();
        }
    }
}

impl Launched {
    /// Waits for the end of a process after its last record. A target can delay its connector (in
    /// the end of a socket that lingers, say), so the broker does not wait for the connector: when
    /// all other processes have closed the control socket, the tree is gone, and the broker ends
    /// the connector.
    pub(crate) fn reap(&mut self) -> std::io::Result<Option<ExitStatus>> {
        if self.connector {
            self.silence(PollTimeout::NONE)?;
            if matches!(self.process.try_wait(), Ok(None)) {
                self.process.kill()?;
            }
        }
        match self.process.wait() {
            Ok(status) => Ok(Some(status)),
            // A program whose parent made it ignore SIGCHLD: the kernel has reaped the launcher.
            Err(error) if error.raw_os_error() == Some(nix::Error::ECHILD as i32) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the end of the control socket, which may be nonblocking. Two records are at most
    /// `timeout` apart.
    fn silence(&mut self, timeout: PollTimeout) -> std::io::Result<()> {
        let mut rest = [0u8; wire::RECORD_BYTES];
        loop {
            let mut fds = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            match self.control.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // A reset: the other side is gone.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Ends the launcher at once and reaps it.
    pub(crate) fn end(&mut self) {
        // For processes that do not end with it (those that birdcage started): they see the end of
        // the socket.
        let _ = self.control.shutdown(Shutdown::Write);
        // Both fail only if the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Its end causes the end of the other processes, which takes a moment.
        let _ = self.silence(REST_ENDS_WITHIN_MS.into());
    }
}

fn gone() -> Error {
    Error::new(
        crate::error::ErrorKind::Io,
        "the thread that starts processes is gone",
    )
}

/// Sends a launcher one message.
pub(super) fn send_message(
    control: &UnixStream,
    message: &LauncherMessage<'_>,
) -> std::io::Result<()> {
    let mut header = [0u8; wire::HEADER_BYTES];
    let bytes = u32::try_from(message.body.len()).map_err(std::io::Error::other)?;
    for (slot, word) in
        header
            .chunks_exact_mut(4)
            .zip([wire::MAGIC, message.kind, bytes, message.fds.len() as u32])
    {
        slot.copy_from_slice(&word.to_ne_bytes());
    }
    let fds: Vec<i32> = message.fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(
        control.as_raw_fd(),
        &[IoSlice::new(&header)],
        if fds.is_empty() { &[] } else { &rights },
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    let mut rest = &message.body[..];
    while !rest.is_empty() {
        match send(control.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn sealed(name: &str, bytes: &[u8], executable: bool) -> Result<OwnedFd, nix::Error> {
    /// Linux 6.3; without it such memory is executable, unless vm.memfd_noexec says otherwise.
    const MFD_EXEC: u32 = 0x10;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let made = if executable {
        memfd_create(name, flags | MFdFlags::from_bits_retain(MFD_EXEC))
            .or_else(|_| memfd_create(name, flags))
    } else {
        memfd_create(name, flags)
    };
    let mut file = File::from(made?);
    file.write_all(bytes).map_err(|error| {
        error
            .raw_os_error()
            .map_or(nix::Error::EIO, nix::Error::from_raw)
    })?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// The only thread that starts processes, while the caller prepares the job. `PR_SET_PDEATHSIG`,
/// which bubblewrap sets, fires when the *thread* that started it ends, so a thread of a pool must
/// not do it.
struct Spawner {
    jobs: Mutex<Sender<LaunchJob>>,
}

type Start = Box<dyn FnOnce() -> std::io::Result<Child> + Send>;
type LaunchJob = (Start, Sender<std::io::Result<Child>>);

fn spawner() -> &'static Spawner {
    static SPAWNER: OnceLock<Spawner> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (jobs, inbox) = channel::<LaunchJob>();
        // If the thread cannot start, the sender's other end is closed and every spawn reports it.
        let _ = thread::Builder::new()
            .name("os-sandbox".to_owned())
            .spawn(move || {
                while let Ok((start, answer)) = inbox.recv() {
                    let _ = answer.send(start());
                }
            });
        Spawner {
            jobs: Mutex::new(jobs),
        }
    })
}

impl Spawner {
    fn spawn(&self, start: Start) -> Result<Receiver<std::io::Result<Child>>, Error> {
        let (answer, result) = channel();
        self.jobs
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .send((start, answer))
            .map_err(|_| gone())?;
        Ok(result)
    }
}
