//! One writer a file at a time: here, and among all processes that use this crate.
//!
//! Each change of a file that is there holds the file's own lock (`flock(2)`), so changes of other
//! files go on meanwhile, nothing is left behind by a kill, and nothing of ours appears beside the
//! file. A rename gives the name to another object, so whoever got the lock looks whether the name
//! still means what was locked, and begins again if not. A file that did not exist is created with
//! `RENAME_NOREPLACE`, so two who create it do not meet either.
//!
//! Other programs need not ask for the lock. Against them there is a last look right before the
//! rename; between that look and the rename POSIX offers nothing (`rename(2)` takes no condition).
//! Where a file system has no `flock` (some network and FUSE file systems), the lock holds within
//! this process only.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::backend::{
    AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileId, FileKind, FileMeta,
};
use crate::error::{Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::ops::walk::CancellationToken;
use crate::ops::write::hash_of;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// How long to wait for who holds a file. Ours hold it for one change.
const WAIT: Duration = Duration::from_secs(10);
/// Between two tries; `flock` has no time limit of its own.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// A file that changed so shortly before may have changed again within the same tick of the clock
/// that its times are made of.
const TICK: Duration = Duration::from_secs(1);

/// Of this process: files on file systems without `flock` are kept apart by this alone.
static HELD: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());
static FREED: Condvar = Condvar::new();

/// A file that nobody else changes as long as this lives.
pub(crate) struct FileLock {
    /// Of the file itself, as it was when the lock was there.
    pub(crate) meta: FileMeta,
    /// The lock ends with it. Dropped first.
    _file: Option<AnyFile>,
    _here: ProcessLock,
}

struct ProcessLock(FileId);

impl Drop for ProcessLock {
    fn drop(&mut self) {
        held().remove(&self.0);
        FREED.notify_all();
    }
}

fn held() -> MutexGuard<'static, BTreeSet<FileId>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why there is no lock.
enum LockError {
    Busy,
    Cancelled,
    /// The name means something else by now.
    Changed,
}

impl FileSandbox {
    /// Does `work` again as long as it fails because somebody else was faster.
    pub(crate) fn settled<T>(
        &self,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let until = Instant::now() + WAIT;
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

    /// The lock of a file that is to be changed, and what the file is now.
    ///
    /// # Errors
    /// `BUSY`; `IO` if the name means something else by now.
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
                    waited_s: WAIT.as_secs(),
                },
                LockError::Cancelled => ErrorReason::Cancelled { verb },
                LockError::Changed => ErrorReason::Changed { verb },
            };
            Error::new(path.asked(), reason)
        })
    }

    /// Whether nobody waits any more.
    ///
    /// # Errors
    /// `CANCELLED`.
    pub(crate) fn look(&self, path: &SandboxPath, verb: Verb) -> Result<(), Error> {
        match self.cancel.is_cancelled() {
            true => Err(Error::new(path.asked(), ErrorReason::Cancelled { verb })),
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
    let until = Instant::now() + WAIT;
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
        // What may be written and not read has a lock all the same.
        Err(_) => at.open_to_write(name).await.ok(),
    };
    if let Some(file) = &file {
        let mut pause = FIRST_PAUSE;
        // A fault: there are no locks here.
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
    let mut held = held();
    while held.contains(&id) {
        if cancel.is_cancelled() {
            return Err(LockError::Cancelled);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LockError::Busy);
        }
        let pause = left.min(LONGEST_PAUSE);
        let woken = FREED.wait_timeout(held, pause);
        (held, _) = woken.unwrap_or_else(PoisonError::into_inner);
    }
    held.insert(id);
    Ok(ProcessLock(id))
}

/// The last look before a file is replaced or written over: whether it is still what it was, by
/// identity, size and times, and by content where times may not tell.
///
/// # Errors
/// `Link`: it is not.
pub(crate) async fn unchanged(
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
    let settled = |time: SystemTime| time.elapsed().is_ok_and(|age| age >= TICK);
    if now.changed.is_some_and(settled) {
        return Ok(());
    }
    let file = at.open_file(name).await.map_err(|_| BackendError::Link)?;
    match hash_of(&file, now.size, cancel).await? == content {
        true => Ok(()),
        false => Err(BackendError::Link),
    }
}
