//! The directory of one run under Landlock alone: its HOME, its TMPDIR, and the links that stand
//! for the mounts. Removed at the end. What a killed broker left behind is removed by the next one:
//! a directory whose lock nobody holds.

use super::cgroup::Groups;
use super::remove::remove;
use super::ruleset::{Rules, Wanted};
use crate::error::Error;
use crate::seccomp;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::Duration;

const PREFIX: &str = "os-sandbox.";
/// Bound on what one start looks at when it sweeps.
const MAX_SWEPT: usize = 10_000;
/// A directory younger than this may be one that is just being made and not locked yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);
/// Bound on the directories that one plan keeps for its next commands.
const MAX_KEPT: usize = 16;

/// What a plan keeps for its next commands. Directories, that its commands left as they had found
/// them: making and removing a handful
/// of directories costs as much as starting a program. Gone with the last copy of the plan.
#[derive(Debug, Default)]
pub(crate) struct Places {
    kept: Mutex<Vec<Arc<PrivateDir>>>,
    shared: Mutex<Option<Arc<PrivateDir>>>,
    taken: AtomicU64,
    filter: OnceLock<(seccomp::Wanted, Vec<u8>)>,
    pub(crate) groups: Groups,
}

impl Places {
    /// A directory with exactly these links in it.
    pub(crate) fn take(&self, links: &[(String, PathBuf)]) -> Result<Arc<PrivateDir>, Error> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .pop();
        if let Some(kept) = kept
            && kept.links == links
        {
            return Ok(kept);
        }
        PrivateDir::with(links)
    }

    /// One directory for all commands of the plan: nobody knows when those that were left need it
    /// no more.
    pub(crate) fn share(&self, links: &[(String, PathBuf)]) -> Result<Arc<PrivateDir>, Error> {
        let mut shared = self
            .shared
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(shared) = &*shared
            && shared.links == links
        {
            return Ok(Arc::clone(shared));
        }
        let made = PrivateDir::with(links)?;
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The compiled filter, kept as well: building it costs as much as installing it.
    pub(crate) fn filter(&self, wanted: seccomp::Wanted) -> Option<Vec<u8>> {
        let compile = || {
            let program = seccomp::compile(&seccomp::table(wanted))?;
            Some((wanted, seccomp::bytes(&program)))
        };
        match self.filter.get() {
            Some((kept, bytes)) if *kept == wanted => Some(bytes.clone()),
            _ => {
                let made = compile()?;
                // Somebody may have been faster, with the same result.
                let _ = self.filter.set(made.clone());
                Some(made.1)
            }
        }
    }

    /// Keeps it if nothing was left in it, else it is removed. A plan's only command keeps nothing:
    /// a program that runs one often ends without dropping its values.
    pub(crate) fn give_back(&self, place: Arc<PrivateDir>) {
        let mut kept = self
            .kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let again = self.taken.load(Ordering::Relaxed) > 1;
        if again && kept.len() < MAX_KEPT && place.is_fresh() {
            kept.push(place);
        }
    }
}

/// A private directory, `home`, `tmp` and `work` in it.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    path: PathBuf,
    links: Vec<(String, PathBuf)>,
    rules: Mutex<Option<Arc<Rules>>>,
    // Held, not read: the lock says that somebody still uses the directory.
    _lock: File,
}

impl PrivateDir {
    pub(crate) fn create() -> Result<PrivateDir, Error> {
        let base = std::env::temp_dir();
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| sweep(&base));
        PrivateDir::create_in(&base)
    }

    /// The same in a directory of the caller's choice.
    pub(crate) fn create_in(base: &Path) -> Result<PrivateDir, Error> {
        let failed = |error| Error::io("could not make a private directory", error);
        let base = fs::canonicalize(base).map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..64 {
            let path = base.join(format!("{PREFIX}{:016x}", random()));
            match make(&path) {
                Ok(()) => {
                    let lock = File::open(&path)
                        .and_then(|lock| lock.lock().map(|()| lock))
                        .inspect_err(|_| remove(&path))
                        .map_err(failed)?;
                    let made = PrivateDir {
                        path,
                        links: Vec::new(),
                        rules: Mutex::default(),
                        _lock: lock,
                    };
                    for name in ["home", "tmp", "work"] {
                        make(&made.path.join(name)).map_err(failed)?;
                    }
                    return Ok(made);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(last))
    }

    fn with(links: &[(String, PathBuf)]) -> Result<Arc<PrivateDir>, Error> {
        let mut made = PrivateDir::create()?;
        for (name, to) in links {
            made.link(name, to)?;
        }
        Ok(Arc::new(made))
    }

    /// The ruleset of whoever works here: the one of last time, if it still holds.
    pub(crate) fn rules(&self, wanted: &Wanted<'_>) -> Result<Arc<Rules>, Error> {
        let mut kept = self
            .rules
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(kept) = &*kept
            && kept.hold_for(wanted)
        {
            return Ok(Arc::clone(kept));
        }
        let made = Arc::new(Rules::build(wanted)?);
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// A link in the working directory.
    fn link(&mut self, name: &str, to: &Path) -> Result<(), Error> {
        symlink(to, self.work().join(name)).map_err(|error| {
            Error::io("could not link a mount into the working directory", error)
        })?;
        self.links.push((name.to_owned(), to.to_owned()));
        Ok(())
    }

    /// Whether it is as it was made. The links cannot be changed, the rest can.
    fn is_fresh(&self) -> bool {
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
            && untouched(&home)
            && untouched(&tmp)
            && empty(&home)
            && empty(&tmp)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// For the caller alone, whatever its umask leaves of that.
pub(super) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    if fs::symlink_metadata(path)?.permissions().mode() & 0o7777 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Unpredictable enough that nobody prepares the name; creation is exclusive in any case.
pub(super) fn random() -> u64 {
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
