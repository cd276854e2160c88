//! The directory of one run for mechanisms that cannot move files: its HOME, its TMPDIR, and links
//! to the mounts. It is removed at the end. A broker removes the directory of a killed broker,
//! recognised by a lock without an owner.

use crate::error::Error;
use crate::platform::remove;
use crate::state_dir::open_state_dir;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstatat, mkdirat};
use nix::unistd::symlinkat;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PREFIX: &str = "os-sandbox.";
/// In a state directory, which has nothing of other programs. Short, because the address of a socket
/// in TMPDIR has 108 bytes (unix(7)).
const STATE_PREFIX: &str = "dir-";
/// Bound on the entries that one start inspects in its sweep.
const MAX_SWEPT: usize = 10_000;
/// A younger directory may be one that another broker has created but not locked yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// A private directory with `home`, `tmp` and `work` in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    links: Vec<(String, PathBuf)>,
    /// The directory's descriptor, used to create its entries: a command that can write around the
    /// directory could put a link in its place. The lock on it shows that the directory is in use.
    top: File,
}

impl Scratch {
    /// Creates a directory in the system's temporary directory.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn create() -> Result<Scratch, Error> {
        Scratch::create_swept(&std::env::temp_dir(), PREFIX)
    }

    /// Creates a directory in the state directory `named`, by default the user's own.
    ///
    /// Files that a more privileged program opens by path, such as the sources of a container's
    /// mounts, belong here. Another command can have the temporary directory as a mount, and could
    /// replace them there; no command has the state directory in a mount.
    ///
    /// # Errors
    /// If the directory cannot be created, or the state directory is not the caller's alone.
    pub fn in_state(named: Option<&Path>) -> Result<Scratch, Error> {
        Scratch::create_in_state(&open_state_dir(named)?)
    }

    /// Creates a directory in a state directory that is prepared.
    pub(crate) fn create_in_state(state: &Path) -> Result<Scratch, Error> {
        Scratch::create_swept(state, STATE_PREFIX)
    }

    /// Creates a directory in `base`, once this process has removed those of killed brokers there.
    fn create_swept(base: &Path, prefix: &str) -> Result<Scratch, Error> {
        static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let first = {
            let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
            swept.insert(base.to_owned())
        };
        if first {
            sweep(base, prefix);
        }
        Scratch::create_named(base, prefix)
    }

    /// Creates a directory in `base`.
    pub(crate) fn create_in(base: &Path) -> Result<Scratch, Error> {
        Scratch::create_named(base, PREFIX)
    }

    fn create_named(base: &Path, prefix: &str) -> Result<Scratch, Error> {
        let failed = |error| Error::io("could not make a private directory", error);
        let base = fs::canonicalize(base).map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..64 {
            let path = base.join(format!("{prefix}{:08x}", random() >> 32));
            match make(&path) {
                Ok(()) => {
                    let top = directory(AT_FDCWD, &path)
                        .and_then(|top| top.lock().map(|()| top))
                        .inspect_err(|_| remove(&path))
                        .map_err(failed)?;
                    let made = Scratch {
                        path,
                        links: Vec::new(),
                        top,
                    };
                    for name in ["home", "tmp", "work"] {
                        make_at(&made.top, Path::new(name)).map_err(failed)?;
                    }
                    return Ok(made);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(last))
    }

    /// Creates links in its `work`, by name and target.
    ///
    /// # Errors
    /// If a link cannot be created.
    pub fn with(mut self, links: &[(String, PathBuf)]) -> Result<Scratch, Error> {
        for (name, to) in links {
            self.link(name, to)?;
        }
        Ok(self)
    }

    /// Returns `true` if the directory was created with exactly these links.
    pub(crate) fn has(&self, links: &[(String, PathBuf)]) -> bool {
        self.links == links
    }

    /// Returns its `home`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// Returns its `tmp`.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Returns its `work`.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Creates a link in the working directory, or in subdirectories created for it.
    fn link(&mut self, name: &str, to: &Path) -> Result<(), Error> {
        let (way, last) = name.rsplit_once('/').unwrap_or(("", name));
        let way = way.split('/').filter(|part| !part.is_empty());
        directory(&self.top, Path::new("work"))
            .and_then(|work| {
                way.map(Path::new).try_fold(work, |at, part| {
                    match make_at(&at, part) {
                        // Shared with another link.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => made?,
                    }
                    directory(&at, part)
                })
            })
            .and_then(|at| Ok(symlinkat(to, &at, last)?))
            .map_err(|error| {
                Error::io("could not link a mount into the working directory", error)
            })?;
        self.links.push((name.to_owned(), to.to_owned()));
        Ok(())
    }

    /// Returns the directories in the working directory that contain links, the outer ones first.
    pub(crate) fn ways(&self) -> impl Iterator<Item = PathBuf> {
        self.links.iter().flat_map(|(name, _)| {
            let slashes = name.match_indices('/');
            slashes.map(|(end, _)| self.work().join(&name[..end]))
        })
    }

    /// Returns `true` if the directory is as it was created. A command cannot change the links, but
    /// can change the rest.
    pub(crate) fn is_fresh(&self) -> bool {
        let me = nix::unistd::geteuid().as_raw();
        let untouched = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|meta| {
                meta.is_dir() && meta.uid() == me && meta.permissions().mode() & 0o7777 == 0o700
            })
        };
        let empty =
            |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let (home, tmp) = (self.home(), self.tmp());
        untouched(&self.path)
            && untouched(&self.work())
            && self.ways().all(|way| untouched(&way))
            && untouched(&home)
            && untouched(&tmp)
            && empty(&home)
            && empty(&tmp)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Creates a directory for the caller alone, whatever its umask is.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    make_at(AT_FDCWD, path)
}

/// Creates a directory for the caller alone, without following a link that may exist by now.
fn make_at(at: impl AsFd, path: &Path) -> io::Result<()> {
    mkdirat(&at, path, Mode::S_IRWXU)?;
    if fstatat(&at, path, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode & 0o7777 != 0o700 {
        let follow = FchmodatFlags::NoFollowSymlink;
        fchmodat(&at, path, Mode::S_IRWXU, follow)?;
    }
    Ok(())
}

fn directory(at: impl AsFd, path: &Path) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?.into())
}

/// Returns a number that another user cannot predict, so that the name cannot be prepared. Creation
/// is exclusive in any case.
#[must_use]
pub fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.finish()
}

fn sweep(base: &Path, prefix: &str) {
    let me = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(base)
        .into_iter()
        .flatten()
        .take(MAX_SWEPT)
        .flatten()
    {
        let name = entry.file_name();
        let path = entry.path();
        let ours = name.to_str().is_some_and(|name| name.starts_with(prefix))
            && fs::symlink_metadata(&path).is_ok_and(|meta| {
                let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
                meta.is_dir()
                    && meta.uid() == me
                    && meta.permissions().mode() & 0o077 == 0
                    && age.is_some_and(|age| age > SWEEP_AGE)
            });
        // Locked during the removal, so that two brokers do not sweep the same directory.
        if ours
            && let Ok(lock) = File::open(&path)
            && lock.try_lock().is_ok()
        {
            remove(&path);
        }
    }
}
