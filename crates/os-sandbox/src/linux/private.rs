//! The directory of one run under Landlock alone: its HOME, its TMPDIR, and the links that stand
//! for the mounts. Removed at the end. What a killed broker left behind is removed by the next one:
//! a directory whose lock nobody holds.

use crate::error::Error;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PREFIX: &str = "os-sandbox.";
/// Bound on what one start looks at when it sweeps.
const MAX_SWEPT: usize = 10_000;
/// A directory younger than this may be one that is just being made and not locked yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);
/// Bound on the nesting that a target can have left for us to remove.
const MAX_DEPTH: usize = 512;

/// A private directory, `home`, `tmp` and `work` in it.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    path: PathBuf,
    // Held, not read: the lock says that somebody still uses the directory.
    _lock: File,
}

impl PrivateDir {
    pub(crate) fn create() -> Result<PrivateDir, Error> {
        let base = std::env::temp_dir();
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| sweep(&base));
        let failed = |error| Error::io("could not make a private directory", error);
        let base = fs::canonicalize(&base).map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..64 {
            let path = base.join(format!("{PREFIX}{:016x}", random()));
            match private().create(&path) {
                Ok(()) => {
                    let lock = File::open(&path).map_err(failed)?;
                    lock.lock().map_err(failed)?;
                    let made = PrivateDir { path, _lock: lock };
                    for name in ["home", "tmp", "work"] {
                        private().create(made.path.join(name)).map_err(failed)?;
                    }
                    return Ok(made);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(last))
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
    pub(crate) fn link(&self, name: &str, to: &Path) -> Result<(), Error> {
        symlink(to, self.work().join(name))
            .map_err(|error| Error::io("could not link a mount into the working directory", error))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Unpredictable enough that nobody prepares the name; creation is exclusive in any case.
fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Removes a tree that nobody changes any more. A target may have taken away our own permissions.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    open_up(path, 0);
    // What still cannot be removed stays; the next sweep tries again.
    let _ = fs::remove_dir_all(path);
}

fn open_up(path: &Path, depth: usize) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if !is_dir || depth > MAX_DEPTH {
        return;
    }
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path(), depth + 1);
    }
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
