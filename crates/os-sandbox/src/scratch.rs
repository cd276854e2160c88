//! The directory of one run where nothing can be moved: its HOME, its TMPDIR, and the links that
//! stand for the mounts. Removed at the end. What a killed broker left behind is removed by the next
//! one: a directory whose lock nobody holds.

use crate::error::Error;
use crate::platform::remove;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstatat, mkdirat};
use nix::unistd::symlinkat;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PREFIX: &str = "os-sandbox.";
/// Bound on what one start looks at when it sweeps.
const MAX_SWEPT: usize = 10_000;
/// A directory younger than this may be one that is just being made and not locked yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// A private directory, `home`, `tmp` and `work` in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    links: Vec<(String, PathBuf)>,
    /// What is made in it is made by this descriptor: where a command can write around it, it can
    /// put a link in its place. The lock on it says that somebody still uses the directory.
    top: File,
}

impl Scratch {
    /// Creates one in the temporary directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create() -> Result<Scratch, Error> {
        let base = std::env::temp_dir();
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| sweep(&base));
        Scratch::create_in(&base)
    }

    /// The same in a directory of the caller's choice.
    pub(crate) fn create_in(base: &Path) -> Result<Scratch, Error> {
        let failed = |error| Error::io("could not make a private directory", error);
        let base = fs::canonicalize(base).map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..64 {
            let path = base.join(format!("{PREFIX}{:016x}", random()));
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

    /// Creates one with these links in its `work`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn with(links: &[(String, PathBuf)]) -> Result<Scratch, Error> {
        let mut made = Scratch::create()?;
        for (name, to) in links {
            made.link(name, to)?;
        }
        Ok(made)
    }

    /// Returns `true` if it was made with exactly these.
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

    /// A link in the working directory, or in directories of ours in it.
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

    /// The directories in the working directory that hold links, the outer ones first.
    pub(crate) fn ways(&self) -> impl Iterator<Item = PathBuf> {
        self.links.iter().flat_map(|(name, _)| {
            let slashes = name.match_indices('/');
            slashes.map(|(end, _)| self.work().join(&name[..end]))
        })
    }

    /// Returns `true` if it is as it was made. The links cannot be changed, the rest can.
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

/// For the caller alone, whatever its umask leaves of that.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    make_at(AT_FDCWD, path)
}

/// Nobody's link is followed, should one be there by now.
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

/// Unpredictable enough that nobody prepares the name; creation is exclusive in any case.
#[must_use]
pub fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.finish()
}

fn sweep(base: &Path) {
    let me = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(base)
        .into_iter()
        .flatten()
        .take(MAX_SWEPT)
        .flatten()
    {
        let name = entry.file_name();
        let path = entry.path();
        let ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && fs::symlink_metadata(&path).is_ok_and(|meta| {
                let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
                meta.is_dir()
                    && meta.uid() == me
                    && meta.permissions().mode() & 0o077 == 0
                    && age.is_some_and(|age| age > SWEEP_AGE)
            });
        // Held while it is removed, so that two brokers do not sweep the same one.
        if ours
            && let Ok(lock) = File::open(&path)
            && lock.try_lock().is_ok()
        {
            remove(&path);
        }
    }
}
