//! Writes the configuration of repositories and their lists of modules (`.gitmodules`) for git, while a
//! command runs.
//!
//! git replaces such a file by a lock file beside it (`config.lock`), and the kernel refuses that
//! because a protected file is a mount. The command's observer (`launcher/connector/observe.rs`) sees the call
//! and names the file; this service reads the lock file, judges its content
//! ([`git_config::change`], [`git_config::modules`]) and writes it into the file that is mounted. It trusts nothing but the
//! number of a file that it has opened itself.
//!
//! In an overlay the file is not mounted, and the kernel replaces it after the look: what is applied
//! later is judged then.
//!
//! The content is written in place, because a new file would end the mounts over the old one. One
//! call writes all of it, and blank lines up to the old length, so a reader sees the old or the new
//! settings. The lock file is removed last: it keeps other git processes away, and after a kill it
//! still has the new content.

use super::super::below;
use super::super::guards::names::ScanResult;
use super::super::host_mount::HostMount;
use super::super::wire;
use crate::error::Error;
use crate::escape::visible;
use crate::git_config::{self, GitConfigChange};
use crate::key_files::content_of;
use crate::promise::Promise;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, ftruncate, unlinkat};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Bound on a configuration.
const MAX_BYTES: u64 = 1 << 20;
/// Age of a request from which on nothing is done about it. The connector waits twice as long.
const REPLACE_WITHIN_MS: u64 = 5_000;
/// Bound on the changes that a receipt lists.
const MAX_CHANGES: usize = 64;

/// The running service. Dropping it ends the service.
pub(crate) struct ConfigWriter {
    /// The files, as the command sees them.
    pub(super) paths: Vec<PathBuf>,
    channel: OwnedFd,
    /// The end for the command's observer, until the command has started.
    observers: Option<OwnedFd>,
    thread: Option<JoinHandle<Vec<GitConfigChange>>>,
}

struct ConfigFile {
    inside: PathBuf,
    /// In an overlay, the upper directory and the path below it.
    layer: Option<(OwnedFd, PathBuf)>,
    parent: OwnedFd,
    name: OsString,
    /// Device and inode at the start: of what is mounted.
    identity: (u64, u64),
    /// The content before the first change and after the last one of this command.
    written: Option<(Vec<u8>, Vec<u8>)>,
}

/// The reason why a file was not changed.
enum Unchanged {
    /// The kernel changes it.
    ByKernel,
    Harmful(String),
    Failed(Errno),
}

impl From<Errno> for Unchanged {
    fn from(errno: Errno) -> Unchanged {
        Unchanged::Failed(errno)
    }
}

impl ConfigWriter {
    /// Starts the service. `None` without a configuration that git may change.
    pub(super) fn start(
        mounts: &[HostMount],
        names: &[ScanResult],
    ) -> Result<Option<ConfigWriter>, Error> {
        let files: Vec<ConfigFile> = (mounts.iter().zip(names))
            .flat_map(|(mount, names)| {
                let all = names.configs.iter().chain(&names.module_lists);
                all.map(move |one| (mount, one))
            })
            .take(wire::MAX_CONFIGS)
            .filter_map(|(mount, below)| ConfigFile::open(mount, below, mounts))
            .collect();
        if files.is_empty() {
            return Ok(None);
        }
        let paths = files.iter().map(|file| file.inside.clone()).collect();
        let failed = |error| Error::io("could not serve git's configuration", error);
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, observers) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(errno.into()))?;
        let channel = ours.try_clone().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("git-config".to_owned())
            .spawn(move || serve(files, ours.as_fd()))
            .map_err(failed)?;
        Ok(Some(ConfigWriter {
            paths,
            channel,
            observers: Some(observers),
            thread: Some(thread),
        }))
    }

    /// Returns the end for the command's observer.
    pub(super) fn observers(&self) -> Option<BorrowedFd<'_>> {
        self.observers.as_ref().map(AsFd::as_fd)
    }

    /// Leaves the observer the only holder of its end.
    pub(super) fn started(mut self) -> ConfigWriter {
        self.observers = None;
        self
    }

    /// Ends the service and returns what it changed and refused.
    pub(super) fn finish(mut self) -> Vec<GitConfigChange> {
        self.end()
    }

    fn end(&mut self) -> Vec<GitConfigChange> {
        // Fails only if it is closed already.
        let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Both);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for ConfigWriter {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the remark about the configurations beyond the bound.
pub(super) fn beyond_bound(names: &[ScanResult]) -> Option<(Promise, String)> {
    let count = |names: &ScanResult| names.configs.len() + names.module_lists.len();
    let all: usize = names.iter().map(count).sum();
    let most = wire::MAX_CONFIGS;
    let remark = format!("and git can change the configuration of {most} of {all} repositories");
    (all > most).then_some((Promise::ProtectedNames, remark))
}

/// Answers requests until the end of the channel.
fn serve(mut files: Vec<ConfigFile>, channel: BorrowedFd<'_>) -> Vec<GitConfigChange> {
    let mut changes: Vec<GitConfigChange> = Vec::new();
    let mut request = [0u8; wire::REPLACE_BYTES];
    loop {
        match rustix::io::read(channel, &mut request) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(wire::REPLACE_BYTES) => {}
            Ok(_) | Err(_) => return changes,
        }
        let mut words = request.chunks_exact(8);
        let mut word = || words.next().and_then(|word| word.try_into().ok());
        let [call, index, since_ms] =
            [word(), word(), word()].map(|word| u64::from_ne_bytes(word.unwrap_or_default()));
        let Some(file) = usize::try_from(index)
            .ok()
            .and_then(|index| files.get_mut(index))
        else {
            return changes;
        };
        let replaced = match now_ms().saturating_sub(since_ms) > REPLACE_WITHIN_MS {
            true => Err(Unchanged::Failed(Errno::EBUSY)),
            false => file.replace(),
        };
        let (errno, refused) = match replaced {
            Ok(()) => (0, None),
            Err(Unchanged::ByKernel) => (wire::REPLACED_BY_KERNEL, None),
            Err(Unchanged::Harmful(why)) => (Errno::EPERM as i32, Some(visible(&why))),
            Err(Unchanged::Failed(errno)) => (errno as i32, Some(errno.desc().to_owned())),
        };
        let change = GitConfigChange {
            path: visible(&file.inside.to_string_lossy()),
            refused,
        };
        if changes.len() < MAX_CHANGES && !changes.contains(&change) {
            changes.push(change);
        }
        let answer = [call.to_ne_bytes(), i64::from(errno).to_ne_bytes()].concat();
        if rustix::net::send(channel, &answer, SendFlags::NOSIGNAL).is_err() {
            return changes;
        }
    }
}

/// Returns the time of the clock that the connector reads.
fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

impl ConfigFile {
    /// `None` if the file has gone.
    fn open(mount: &HostMount, below: &Path, mounts: &[HostMount]) -> Option<ConfigFile> {
        let name = below.file_name()?.to_owned();
        let parent = below::directory(mount.handle.as_fd(), below.parent()?).ok()?;
        let stat = below::look(parent.as_fd(), &name).ok()?;
        Some(ConfigFile {
            inside: Path::new(&mount.inside).join(below),
            layer: match mount.is_layered() {
                true => Some(layer(&mount.host.join(below), mounts)?),
                false => None,
            },
            parent,
            name,
            identity: (stat.st_dev, stat.st_ino),
            written: None,
        })
    }

    /// Replaces the content by that of the lock file, and removes the lock file.
    fn replace(&mut self) -> Result<(), Unchanged> {
        let mut lock = self.name.clone();
        lock.push(".lock");
        if let Some((upper, below)) = &self.layer {
            let old = content(below::file(self.parent.as_fd(), &self.name)?)?;
            let lock = below.with_file_name(&lock);
            let new = content(below::file_below(upper.as_fd(), &lock)?)?;
            let harm = self.harm(&old, &new).map(Unchanged::Harmful);
            return Err(harm.unwrap_or(Unchanged::ByKernel));
        }
        let new = content(below::file(self.parent.as_fd(), &lock)?)?;
        let file = self.file()?;
        let old = content(&file)?;
        // A command can remove its own additions.
        let known = match &self.written {
            Some((before, after)) if *after == old => before,
            Some(_) | None => &old,
        };
        if let Some(why) = self.harm(known, &new) {
            return Err(Unchanged::Harmful(why));
        }
        let before = known.clone();
        if let Err(error) = write_in_place(&file, old.len(), &new) {
            // The disk is full: the old text, and blank lines up to what was written, have their room.
            let reached = file.metadata().map_or(0, |meta| meta.len() as usize);
            let _ = write_in_place(&file, reached, &old);
            return Err(below::errno(&error).into());
        }
        self.written = Some((before, new));
        unlinkat(&self.parent, &*lock, UnlinkatFlags::NoRemoveDir)?;
        Ok(())
    }

    /// Returns the reason why a new content is harmful.
    fn harm(&self, known: &[u8], new: &[u8]) -> Option<String> {
        match self.name == ".gitmodules" {
            true if known == new => None,
            true => git_config::modules(new),
            false => git_config::change(known, new),
        }
    }

    /// Opens the file that is mounted.
    fn file(&self) -> Result<File, Unchanged> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.parent, OsStr::new(&self.name), flags, Mode::empty())?;
        let stat = fstat(&file)?;
        match (stat.st_dev, stat.st_ino) == self.identity {
            true if stat.st_nlink == 1 => {
                // Another forge may write it for its own command.
                flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::EBUSY)?;
                Ok(file.into())
            }
            // In place, another name would change too.
            true => Err(Errno::EMLINK.into()),
            // Another program has replaced it, and the mount is gone: it is judged after the end.
            false => Err(Unchanged::ByKernel),
        }
    }
}

/// Opens the upper directory of the overlay around a path of the host.
fn layer(path: &Path, mounts: &[HostMount]) -> Option<(OwnedFd, PathBuf)> {
    mounts.iter().find_map(|mount| {
        let below = path.strip_prefix(&mount.host).ok()?;
        let upper = below::absolute(&mount.overlay.as_ref()?.upper.path).ok()?;
        Some((upper, below.to_owned()))
    })
}

fn content(file: impl Read) -> Result<Vec<u8>, Errno> {
    content_of(file, MAX_BYTES).ok_or(Errno::EFBIG)
}

fn write_in_place(file: &File, old_length: usize, new: &[u8]) -> std::io::Result<()> {
    let mut bytes = new.to_vec();
    bytes.resize(new.len().max(old_length), b'\n');
    file.write_all_at(&bytes, 0)?;
    ftruncate(file, new.len() as i64)?;
    file.sync_data()
}
