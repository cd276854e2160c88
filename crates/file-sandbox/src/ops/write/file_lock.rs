//! Write locks: one writer per file at a time, in this process and among all processes that use
//! this crate.
//!
//! Each change of an existing file takes the file's own lock (`flock(2)`), so changes of other
//! files run meanwhile, a kill leaves no lock, and no lock file appears. A rename gives the name to
//! another object, so the owner of a lock checks that the name still refers to the locked file, and
//! retries if not. A new file is created with `RENAME_NOREPLACE`, so two creators cannot overwrite
//! each other.
//!
//! Other programs may ignore the lock. Against them the file is checked right before the rename;
//! POSIX cannot close the gap between check and rename (`rename(2)` takes no condition). On a file
//! system without `flock` (some network and FUSE file systems), the lock works within this process
//! only.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::backend::{
    AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileId, FileKind, FileMeta,
};
use crate::cancellation::CancellationToken;
use crate::error::{Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::ops::file_hash::hash_of;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// The timeout for a lock. Operations of this crate lock a file for one change.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts; `flock` has no timeout of its own.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// A file that changed within this time may have changed again within one tick of the clock of its
/// times.
const CLOCK_TICK: Duration = Duration::from_secs(1);

/// Files locked by this process: the only lock on file systems without `flock`.
static LOCKED_FILES: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());
static UNLOCKED: Condvar = Condvar::new();

/// A write lock on a file, until it is dropped.
pub(crate) struct FileLock {
    /// The metadata of the file when it was locked.
    pub(crate) meta: FileMeta,
    /// Dropping it ends the lock. Dropped first.
    _file: Option<AnyFile>,
    _here: ProcessLock,
}

struct ProcessLock(FileId);

impl Drop for ProcessLock {
    fn drop(&mut self) {
        locked_files().remove(&self.0);
        UNLOCKED.notify_all();
    }
}

fn locked_files() -> MutexGuard<'static, BTreeSet<FileId>> {
    LOCKED_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why a file is not locked.
enum LockError {
    Busy,
    Cancelled,
    /// The name refers to another object by now.
    Changed,
}

impl FileSandbox {
    /// Repeats `work` while it fails because another process changed the file.
    pub(crate) fn retry_on_change<T>(
        &self,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let until = Instant::now() + LOCK_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            match work() {
                Err(error) if error.is_change() && Instant::now() < until => {
                    if self.cancel.is_cancelled() {
                        return Err(error);
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// Locks a file for a change. The lock has its present metadata.
    ///
    /// # Errors
    /// `BUSY`; `IO` if the name refers to another object by now.
    pub(crate) async fn hold(
        &self,
        path: &SandboxPath,
        verb: Verb,
        at: (&AnyDir, &OsStr),
        meta: &FileMeta,
    ) -> Result<FileLock, Error> {
        hold(at.0, at.1, meta, &self.cancel).await.map_err(|lost| {
            let reason = match lost {
                LockError::Busy => ErrorReason::Busy {
                    verb,
                    waited_s: LOCK_TIMEOUT.as_secs(),
                },
                LockError::Cancelled => ErrorReason::Cancelled { verb },
                LockError::Changed => ErrorReason::Changed { verb },
            };
            path.error(reason)
        })
    }

    /// Fails if the operation was cancelled.
    ///
    /// # Errors
    /// `CANCELLED`.
    pub(crate) fn check_cancelled(&self, path: &SandboxPath, verb: Verb) -> Result<(), Error> {
        match self.cancel.is_cancelled() {
            true => Err(path.error(ErrorReason::Cancelled { verb })),
            false => Ok(()),
        }
    }
}

async fn hold(
    at: &AnyDir,
    name: &OsStr,
    meta: &FileMeta,
    cancel: &CancellationToken,
) -> Result<FileLock, LockError> {
    let until = Instant::now() + LOCK_TIMEOUT;
    let here = wait_here(meta.id, until, cancel)?;
    let file = match at.open_file(name).await {
        Ok(file) => Some(file),
        Err(
            BackendError::Missing
            | BackendError::Link
            | BackendError::NotDirectory
            | BackendError::IsDirectory,
        ) => {
            return Err(LockError::Changed);
        }
        // A file that is writable but not readable is locked too.
        Err(_) => at.open_to_write(name).await.ok(),
    };
    if let Some(file) = &file {
        let mut pause = FIRST_PAUSE;
        // An error: the file system has no locks.
        while let Ok(false) = file.lock().await {
            if cancel.is_cancelled() {
                return Err(LockError::Cancelled);
            }
            if Instant::now() >= until {
                return Err(LockError::Busy);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    let there = at.meta(name).await.map_err(|_| LockError::Changed)?;
    let locked = match &file {
        Some(file) => file.meta().await.map_err(|_| LockError::Changed)?,
        None => there,
    };
    if there.id != meta.id || locked.id != meta.id || there.kind != FileKind::File {
        return Err(LockError::Changed);
    }
    Ok(FileLock {
        meta: there,
        _file: file,
        _here: here,
    })
}

fn wait_here(
    id: FileId,
    until: Instant,
    cancel: &CancellationToken,
) -> Result<ProcessLock, LockError> {
    let mut held = locked_files();
    while held.contains(&id) {
        if cancel.is_cancelled() {
            return Err(LockError::Cancelled);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LockError::Busy);
        }
        let pause = left.min(LONGEST_PAUSE);
        let woken = UNLOCKED.wait_timeout(held, pause);
        (held, _) = woken.unwrap_or_else(PoisonError::into_inner);
    }
    held.insert(id);
    Ok(ProcessLock(id))
}

/// Checks right before a file is replaced or overwritten that it is unchanged, by identity, size
/// and times, and by content if the times are not precise enough.
///
/// # Errors
/// `Link`: it is not.
pub(crate) async fn check_unchanged(
    at: &AnyDir,
    name: &OsStr,
    old: &FileMeta,
    content: Option<ContentHash>,
    cancel: &CancellationToken,
) -> Result<(), BackendError> {
    let now = at.meta(name).await.map_err(|_| BackendError::Link)?;
    let same = now.id == old.id
        && now.kind == old.kind
        && now.size == old.size
        && now.modified == old.modified
        && now.changed == old.changed;
    if !same {
        return Err(BackendError::Link);
    }
    let Some(content) = content else {
        return Ok(());
    };
    let retry_on_change = |time: SystemTime| time.elapsed().is_ok_and(|age| age >= CLOCK_TICK);
    if now.changed.is_some_and(retry_on_change) {
        return Ok(());
    }
    let file = at.open_file(name).await.map_err(|_| BackendError::Link)?;
    match hash_of(&file, now.size, cancel).await? == content {
        true => Ok(()),
        false => Err(BackendError::Link),
    }
}
