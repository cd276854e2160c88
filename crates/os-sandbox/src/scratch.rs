//! The directory of one run for mechanisms that cannot move files: its HOME, its TMPDIR, and links
//! to the mounts. It is removed at the end. A broker removes the directory of a killed broker,
//! recognised by a lock without an owner.

use crate::error::Error;
use crate::platform::remove;
use crate::state_dir::{boot, open_state_dir};
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
/// In a state directory, which has nothing of other programs; the start of the boot's name follows.
/// Short, because the address of a socket in TMPDIR has 108 bytes (unix(7)).
const STATE_PREFIX: &str = "dir-";
/// The hexadecimal digits of a name after its prefix.
const DIGITS: usize = 8;
/// Bound on the entries that one start inspects in its sweep.
const MAX_SWEPT: usize = 10_000;
/// A younger directory may be one that another broker has created but not locked yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);
/// A state directory can be in a home that several machines share, and NFS keeps the lock of a directory
/// on the machine that took it: a directory of another boot may be in use, however it looks here.
const OTHER_BOOT_SWEEP_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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
        Scratch::create_swept(&std::env::temp_dir(), PREFIX, PREFIX)
    }

    /// Creates a directory for a probe, in the first place that allows it: `TMPDIR` can name a
    /// directory of another time, and a probe that did not run looks like a mechanism that fails.
    pub(crate) fn create_for_probe() -> Result<Scratch, Error> {
        let elsewhere = || Scratch::create_swept(Path::new("/tmp"), PREFIX, PREFIX);
        let made = Scratch::create().or_else(|error| elsewhere().map_err(|_| error));
        made.or_else(|error| Scratch::in_state(None).map_err(|_| error))
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
        let boot = boot();
        let own = format!(
            "{STATE_PREFIX}{}",
            boot.get(..DIGITS / 2).unwrap_or_default()
        );
        Scratch::create_swept(state, STATE_PREFIX, &own)
    }

    /// Creates a directory in `base`, once this process has removed those of killed brokers there.
    /// `own`: the prefix of those that this machine has created since its boot.
    fn create_swept(base: &Path, prefix: &str, own: &str) -> Result<Scratch, Error> {
        static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let first = {
            let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
            swept.insert(base.to_owned())
        };
        if first {
            sweep(base, prefix, own);
        }
        Scratch::create_named(base, own, prefix.len() + DIGITS)
    }

    /// Creates a directory in `base`.
    pub(crate) fn create_in(base: &Path) -> Result<Scratch, Error> {
        Scratch::create_named(base, PREFIX, PREFIX.len() + DIGITS)
    }

    fn create_named(base: &Path, prefix: &str, length: usize) -> Result<Scratch, Error> {
        let failed = |error| {
            let base = base.display();
            Error::io(
                format!("could not make a private directory in {base}"),
                error,
            )
        };
        let digits = length - prefix.len();
        let base = fs::canonicalize(base).map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..64 {
            let random = format!("{:016x}", random());
            let path = base.join(format!("{prefix}{}", &random[..digits]));
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

fn sweep(base: &Path, prefix: &str, own: &str) {
    let me = nix::unistd::geteuid().as_raw();
    let entries = fs::read_dir(base).into_iter().flatten();
    for entry in entries.take(MAX_SWEPT).flatten() {
        let name = entry.file_name();
        let path = entry.path();
        let age = match name.to_str() {
            Some(name) if name.starts_with(own) => SWEEP_AGE,
            Some(name) if name.starts_with(prefix) => OTHER_BOOT_SWEEP_AGE,
            _ => continue,
        };
        let ours = fs::symlink_metadata(&path).is_ok_and(|meta| {
            let modified = meta.modified().ok().and_then(|time| time.elapsed().ok());
            meta.is_dir()
                && meta.uid() == me
                && meta.permissions().mode() & 0o077 == 0
                && modified.is_some_and(|since| since > age)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// Directories without a lock, by name and age: those of this machine's killed brokers go, and
    /// those that another machine may use stay.
    #[test]
    fn a_directory_of_another_machine_is_not_swept_while_it_may_be_in_use() {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        let state = tempfile::tempdir().expect("a directory");
        let boot = boot();
        let own = boot.get(..DIGITS / 2).unwrap_or_default();
        let other = if own == "0000" { "1111" } else { "0000" };
        for (name, age, stays) in [
            (format!("dir-{own}0001"), HOUR, false),
            (format!("dir-{own}0002"), Duration::ZERO, true),
            (format!("dir-{other}0003"), HOUR, !own.is_empty()),
            (format!("dir-{other}0004"), HOUR * 24 * 31, false),
            ("else".to_owned(), HOUR * 24 * 31, true),
        ] {
            let path = state.path().join(&name);
            make(&path).expect("a directory");
            let time = SystemTime::now() - age;
            let dir = File::open(&path).expect("the directory");
            dir.set_modified(time).expect("its time");
            drop(dir);
            sweep(state.path(), STATE_PREFIX, &format!("{STATE_PREFIX}{own}"));
            assert_eq!(path.exists(), stays, "{name}");
        }
    }
}
