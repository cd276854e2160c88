//! Control groups: the kernel's own limits for a whole process tree (cgroups(7);
//! Documentation/admin-guide cgroup-v2.rst and cgroup-v1/). Each running command has one group,
//! below the caller's own, so that the caller's limits apply to the command too.
//!
//! The target enters its group itself, through a file that the broker opened: it writes "0", which
//! moves one thread without the lock that moving another process takes (a grace period of RCU,
//! many milliseconds on an idle machine). The supervisor stays outside: it is neither counted nor
//! chosen when memory runs out, and lives to end the rest.
//!
//! A group is locked as long as its broker lives. The next broker removes the groups of a killed
//! one.

mod find;

use super::pool::Pool;
use crate::error::{Error, ErrorKind};
use crate::support::{ControlGroup, GroupVersion};
pub(crate) use find::find;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const PREFIX: &str = "os-sandbox.";
/// Bound on the groups that one start checks when it sweeps.
const MAX_SWEPT: usize = 10_000;
/// Memory that a command may leave behind in a group that is used again.
const MAX_LEFT_BYTES: u64 = 1 << 20;
/// The kernel has no more, and refuses the number.
const MAX_PROCESSES: u64 = 4 << 20;
/// Bound on the bytes read of a file of the kernel's.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Programs that start at the same time sweep, each of them once.
const MAKING_ATTEMPTS: u32 = 64;
/// A group can be busy for a moment after its last process was reaped; two seconds in all.
const REMOVAL_ATTEMPTS: u32 = 11;

/// Resource that a group limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Processes,
}

/// A limit, and the parent of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupLimit {
    pub(crate) resource: Resource,
    pub(crate) at: ControlGroup,
    pub(crate) limit: u64,
}

/// The groups that a plan keeps for its next commands: making and removing one costs more than
/// entering it, and pages of files that a command read stay with the group that read them.
#[derive(Debug, Default)]
pub(crate) struct Groups(Pool<CommandCgroup>);

/// The group of one command: one directory, or one in each hierarchy.
#[derive(Debug)]
pub(crate) struct CommandCgroup {
    wanted: Vec<CgroupLimit>,
    directories: Vec<Directory>,
    /// Values of the counters when they were last read.
    seen: Hits,
}

/// How often limits were hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) memory: u64,
    pub(crate) processes: u64,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    version: GroupVersion,
    /// `true` if processes in the group survive by request.
    may_stay: bool,
    // The lock is held for other brokers: it says that this group is in use.
    _lock: File,
}

impl Groups {
    /// Returns a group with these limits; they are the same for every command of a plan.
    pub(crate) fn take(&self, wanted: &[CgroupLimit]) -> Result<CommandCgroup, Error> {
        match self.0.take() {
            Some(kept) if kept.wanted == wanted => Ok(kept),
            _ => CommandCgroup::make(wanted).map_err(|error| {
                ErrorKind::Enforcement
                    .error("could not make a control group")
                    .with_source(error)
            }),
        }
    }

    /// Keeps a group without processes.
    pub(crate) fn give_back(&self, group: CommandCgroup) {
        self.0.give_back(group, CommandCgroup::is_empty);
    }
}

impl CommandCgroup {
    fn make(wanted: &[CgroupLimit]) -> io::Result<CommandCgroup> {
        let mut group = CommandCgroup {
            wanted: wanted.to_vec(),
            directories: Vec::new(),
            seen: Hits::default(),
        };
        for one in wanted {
            if group.directory(one).is_none() {
                group.directories.push(Directory::make(&one.at)?);
            }
            if let Some(directory) = group.directory(one) {
                directory.limit(one.resource, one.limit)?;
            }
        }
        Ok(group)
    }

    fn directory(&self, wanted: &CgroupLimit) -> Option<&Directory> {
        self.directories
            .iter()
            .find(|directory| directory.path.parent() == Some(&wanted.at.parent))
    }

    /// Opens the files by which a process of one thread enters.
    pub(crate) fn doors(&self) -> Result<Vec<OwnedFd>, Error> {
        self.directories
            .iter()
            .map(|directory| directory.open(directory.door()).map(OwnedFd::from))
            .collect::<io::Result<_>>()
            .map_err(|error| {
                ErrorKind::Enforcement
                    .error("could not open a control group")
                    .with_source(error)
            })
    }

    /// Returns the limits that were hit since the last call.
    pub(crate) fn hits(&mut self) -> Hits {
        let mut now = self.seen;
        for one in &self.wanted {
            let Some(directory) = self.directory(one) else {
                continue;
            };
            match one.resource {
                Resource::Memory => now.memory = directory.count_memory().unwrap_or(now.memory),
                Resource::Processes => {
                    let count = directory.count("pids.events", "max");
                    now.processes = count.unwrap_or(now.processes);
                }
            }
        }
        let hits = Hits {
            memory: now.memory.saturating_sub(self.seen.memory),
            processes: now.processes.saturating_sub(self.seen.processes),
        };
        self.seen = now;
        hits
    }

    /// Lets the command's background processes survive: dropping the group neither ends them nor
    /// waits for them.
    pub(crate) fn may_stay(&mut self) {
        for directory in &mut self.directories {
            directory.may_stay = true;
        }
    }

    /// Returns `true` if the next command finds the group as the last one did.
    fn is_empty(&self) -> bool {
        self.directories.iter().all(|directory| {
            read(&directory.path.join("cgroup.procs")).is_ok_and(|list| list.trim().is_empty())
                // Files in memory that outlive their writer (on a tmpfs) stay charged and cannot be
                // reclaimed. Without the controller the file has no such entry.
                && directory.count("memory.stat", "shmem").unwrap_or(0) <= MAX_LEFT_BYTES
        })
    }
}

impl Directory {
    fn make(at: &ControlGroup) -> io::Result<Directory> {
        sweep_once(&at.parent);
        for _ in 0..MAKING_ATTEMPTS {
            let name = format!("{PREFIX}{:016x}", crate::scratch::random());
            let path = at.parent.join(name);
            // `mkdir` is exclusive, and this file system has no links.
            fs::create_dir(&path)?;
            if let Some(lock) = locked(&path).inspect_err(|_| remove(&path, at.version))? {
                return Ok(Directory {
                    path,
                    version: at.version,
                    may_stay: false,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other("others remove it as soon as it is made"))
    }

    fn limit(&self, resource: Resource, count: u64) -> io::Result<()> {
        let limit = count.to_string();
        match (resource, self.version) {
            (Resource::Processes, _) if count >= MAX_PROCESSES => self.write("pids.max", "max"),
            (Resource::Processes, _) => self.write("pids.max", &limit),
            (Resource::Memory, GroupVersion::One) => {
                self.write("memory.limit_in_bytes", &limit)?;
                self.write_if_there("memory.memsw.limit_in_bytes", &limit)
            }
            (Resource::Memory, GroupVersion::Two) => {
                self.write("memory.max", &limit)?;
                self.write_if_there("memory.swap.max", "0")
            }
        }
    }

    fn door(&self) -> &'static str {
        match self.version {
            GroupVersion::One => "tasks",
            GroupVersion::Two => "cgroup.procs",
        }
    }

    fn count_memory(&self) -> Option<u64> {
        match self.version {
            GroupVersion::One => self.count("memory.oom_control", "oom_kill"),
            GroupVersion::Two => self.count("memory.events", "oom_kill"),
        }
    }

    /// Returns the number after a word, in a file with one pair a line.
    fn count(&self, file: &str, word: &str) -> Option<u64> {
        let text = read(&self.path.join(file)).ok()?;
        text.lines().find_map(|line| {
            let (name, number) = line.split_once(' ')?;
            (name == word).then(|| number.trim().parse().ok()).flatten()
        })
    }

    fn open(&self, file: &str) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(self.path.join(file))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        self.open(file)?.write_all(text.as_bytes())
    }

    /// Writes a file that exists only if the kernel accounts for swap.
    fn write_if_there(&self, file: &str, text: &str) -> io::Result<()> {
        match self.write(file, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.may_stay {
            // Removed by a later sweep if it is not empty.
            let _ = fs::remove_dir(&self.path);
        } else {
            remove(&self.path, self.version);
        }
    }
}

/// Removes a group. A later sweep removes it if that fails now.
fn remove(path: &Path, version: GroupVersion) {
    for attempt in 0..REMOVAL_ATTEMPTS {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(nix::Error::EBUSY as i32) => {}
            _ => return,
        }
        if version == GroupVersion::Two {
            // An additional measure: the supervisor has ended all processes by now. Since Linux
            // 5.14.
            let _ = OpenOptions::new()
                .write(true)
                .open(path.join("cgroup.kill"))
                .and_then(|mut file| file.write_all(b"1"));
        }
        thread::sleep(Duration::from_millis(1 << attempt));
    }
}

/// Opens and locks a group's directory. `None` if a sweep removed it before the lock.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let lock = match open_directory(path) {
        Err(error) if gone(&error) => return Ok(None),
        other => other?,
    };
    lock.lock()?;
    match fs::symlink_metadata(path) {
        Ok(there) if there.ino() == lock.metadata()?.ino() => Ok(Some(lock)),
        Ok(_) => Ok(None),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a directory if it is in a control group file system and the caller's own.
fn open_directory(path: &Path) -> io::Result<File> {
    use nix::fcntl::OFlag;
    let open = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
        .open(path)?;
    let kind = fstatfs(&open)?.filesystem_type();
    if kind != CGROUP_SUPER_MAGIC && kind != CGROUP2_SUPER_MAGIC {
        return Err(io::Error::other("it is not a control group"));
    }
    if open.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(open)
}

/// Removes groups whose broker is gone; once for each place and program.
fn sweep_once(parent: &Path) {
    static SWEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    {
        let mut swept = SWEPT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if swept.iter().any(|one| one == parent) {
            return;
        }
        swept.push(parent.to_owned());
    }
    for entry in fs::read_dir(parent)
        .into_iter()
        .flatten()
        .take(MAX_SWEPT)
        .flatten()
    {
        let name = entry.file_name();
        // A free lock means that the broker of the group is gone; a group with processes cannot be
        // removed by any process.
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && let Ok(lock) = open_directory(&entry.path())
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    // A mount point with other bytes in it is not one of these.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
