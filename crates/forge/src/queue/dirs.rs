//! The directories of a project's queue, which only this user can read. A process that can create a
//! socket there could pose as forge, and one that can read there could see every request. So a
//! directory is not used if it is a link, has another owner or is open to others.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sandbox_names::hex;
use sha2::{Digest as _, Sha256};

use super::random;
use crate::state::private_dirs::is_private;

/// Characters of the hash of the project's directory: enough to keep projects apart.
const HASH_CHARS: usize = 16;

/// The directories of one project's queue, the preferred one first. None of them needs to exist.
#[derive(Debug, Clone)]
pub(crate) struct QueueDirs {
    own: Vec<PathBuf>,
    found_only: Vec<PathBuf>,
}

/// While this is held, forge processes of this project know that an approver is waiting. It is a
/// kernel lock, so a killed process releases it.
#[derive(Debug)]
pub(crate) struct ApproverLock {
    path: PathBuf,
    _lock: File,
}

impl QueueDirs {
    /// The queue of `project`: below the user's runtime directory if there is a usable one, and
    /// below the state directory.
    pub(crate) fn of(project: &Path, runtime: Option<&Path>, state: Option<&Path>) -> Self {
        let whole = project
            .canonicalize()
            .unwrap_or_else(|_| project.to_owned());
        let mut hash = hex(Sha256::digest(whole.as_os_str().as_bytes()));
        hash.truncate(HASH_CHARS);
        let below = |base: PathBuf| base.join(&hash);
        let uid = rustix::process::geteuid().as_raw();
        // A terminal without the variable still finds the requests of a desktop session.
        let usual = PathBuf::from(format!("/run/user/{uid}"));
        let runtime = runtime.filter(|dir| dir.is_absolute() && is_private(dir).is_ok());
        let own: Vec<PathBuf> = runtime
            .map(|dir| dir.join("forge"))
            .into_iter()
            .chain(state.map(|dir| dir.join("approvals")))
            .map(below)
            .collect();
        let usual = below(usual.join("forge"));
        let found_only = if own.contains(&usual) {
            Vec::new()
        } else {
            vec![usual]
        };
        QueueDirs { own, found_only }
    }

    /// Makes the first directory that can be used.
    pub(crate) fn make(&self) -> Result<&Path> {
        let mut refused = Error::new(ErrorKind::NotFound, "missing home directory");
        for dir in &self.own {
            match make_private(dir) {
                Ok(()) => return Ok(dir),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The directories that are there and can be trusted, and why others cannot.
    pub(crate) fn existing(&self) -> (Vec<&Path>, Vec<String>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for dir in self.own.iter().chain(&self.found_only) {
            let parents = dir.parent().into_iter();
            match parents.chain([dir.as_path()]).try_for_each(is_private) {
                Ok(()) => good.push(dir.as_path()),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => bad.push(error.to_string()),
            }
        }
        (good, bad)
    }

    /// Announces a waiting approver for as long as the result lives.
    pub(crate) fn watch(&self) -> Result<ApproverLock> {
        // The last one is the one that every terminal of the user agrees on.
        let dir = self
            .own
            .last()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "missing home directory"))?;
        make_private(dir)?;
        let name = format!("{:016x}", random());
        let new = dir.join(format!(".new-{name}"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        // Locked before it gets its name: a file without a lock is a leftover.
        file.lock()?;
        let path = dir.join(format!("{name}.watch"));
        std::fs::rename(&new, &path)?;
        Ok(ApproverLock { path, _lock: file })
    }

    /// `true` if an approver is waiting.
    pub(crate) fn is_watched(&self) -> bool {
        let Some(dir) = self.own.last() else {
            return false;
        };
        if is_private(dir).is_err() {
            return false;
        }
        files(dir, "watch").iter().any(|path| {
            let Ok(file) = OpenOptions::new()
                .read(true)
                .custom_flags(no_follow())
                .open(path)
            else {
                return false;
            };
            match file.try_lock_shared() {
                Err(TryLockError::WouldBlock) => true,
                Ok(()) => {
                    let _leftover = std::fs::remove_file(path);
                    false
                }
                Err(TryLockError::Error(_)) => false,
            }
        })
    }
}

impl Drop for ApproverLock {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// The files of a directory with this extension; none if it cannot be read.
pub(super) fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    /// No user starts more processes than this; a directory of junk must not block forge.
    const MAX_FILES: usize = 1024;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .take(MAX_FILES)
        .collect();
    paths.sort();
    paths
}

fn no_follow() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or(0)
}

fn make_private(dir: &Path) -> Result<()> {
    let base = dir.parent().unwrap_or(dir);
    if let Some(above) = base.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(above)?;
    }
    for dir in [base, dir] {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => is_private(dir)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_a_private_directory_of_our_own_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let place = QueueDirs::of(dir.path(), None, Some(&state));
        let made = place.make().unwrap().to_owned();
        let base = made.parent().unwrap().to_owned();
        for path in [&base, &made] {
            let mode = std::fs::symlink_metadata(path).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        assert_eq!(place.existing().0, [made.as_path()]);

        for path in [&base, &made] {
            set_mode(path, 0o755);
            let error = place.make().unwrap_err();
            assert!(error.to_string().ends_with("is open to others"), "{error}");
            assert!(place.existing().0.is_empty());
            assert!(place.watch().is_err() && !place.is_watched());
            set_mode(path, 0o700);
        }

        std::fs::rename(&made, dir.path().join("elsewhere")).unwrap();
        symlink(dir.path().join("elsewhere"), &made).unwrap();
        let error = place.make().unwrap_err();
        assert!(error.to_string().ends_with("is a link"), "{error}");
        assert_eq!(place.existing().1.len(), 1);
        std::fs::remove_file(&made).unwrap();
        std::fs::write(&made, "").unwrap();
        assert!(place.make().is_err());
    }

    #[test]
    fn a_directory_of_somebody_else_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let place = QueueDirs::of(dir.path(), None, Some(dir.path()));
        let made = place.make().unwrap().to_owned();
        if std::os::unix::fs::chown(&made, Some(65_534), None).is_err() {
            crate::output::stderr::print("skipped: only root can give a directory away");
            return;
        }
        let error = place.make().unwrap_err();
        assert!(error.to_string().ends_with("belongs to another user"));
        assert!(place.existing().0.is_empty());
    }

    #[test]
    fn a_runtime_directory_that_others_can_use_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, state) = (dir.path().join("run"), dir.path().join("state"));
        std::fs::create_dir(&runtime).unwrap();
        for (mode, used) in [(0o700, &runtime), (0o755, &state)] {
            set_mode(&runtime, mode);
            let place = QueueDirs::of(dir.path(), Some(&runtime), Some(&state));
            let made = place.make().unwrap();
            assert!(made.starts_with(used), "{mode:o}: {}", made.display());
        }
    }

    #[test]
    fn who_watches_is_seen_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let place = QueueDirs::of(dir.path(), None, Some(dir.path()));
        assert!(!place.is_watched());
        let one = place.watch().unwrap();
        let other = place.watch().unwrap();
        assert!(place.is_watched());
        drop(one);
        assert!(place.is_watched());
        drop(other);
        assert!(!place.is_watched());
        // What a kill leaves behind is no lock.
        std::fs::write(place.make().unwrap().join("0.watch"), "").unwrap();
        assert!(!place.is_watched());
        assert!(files(place.make().unwrap(), "watch").is_empty());
    }

    #[test]
    fn projects_have_queues_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let state = Some(dir.path());
        assert_ne!(
            QueueDirs::of(&a, None, state).own,
            QueueDirs::of(&b, None, state).own
        );
    }
}
