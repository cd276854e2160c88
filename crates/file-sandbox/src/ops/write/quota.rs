//! Quotas: limits on the total content of a mount.
//!
//! The content is counted before each write that adds to it, because other processes may write
//! there too, so a cached count would be wrong. Only mounts with a quota pay for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::{AnyDir, BackendDir as _, BackendError, FileId, FileKind, FileMeta};
use crate::error::{Error, ErrorReason, Verb};
use crate::ops::tree_visitor::{TreeVisitor, visit};
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::sandbox::FileSandbox;

/// The content of a mount, including hidden files.
#[derive(Clone, Copy, Debug, Default)]
struct QuotaUsage {
    bytes: u64,
    files: u64,
}

impl FileSandbox {
    /// Reserves quota for a file of `new` bytes in place of `old`.
    pub(crate) async fn check_quota(
        &self,
        (path, location): (&SandboxPath, &MountLocation<'_>),
        verb: Verb,
        old: Option<FileMeta>,
        new: u64,
    ) -> Result<Option<QuotaReservation>, Error> {
        let old = old.map(|old| old.size);
        let limits = location.mount.limits();
        let [max_bytes, max_files] = limits.quotas();
        let adds_bytes = max_bytes.is_some() && new > old.unwrap_or(0);
        let adds_file = max_files.is_some() && old.is_none();
        if !adds_bytes && !adds_file {
            return Ok(None);
        }
        let whole = location.mount.whole.own_meta().await;
        let whole = whole.map_err(|fault| self.backend_error(path, verb, fault))?;
        let room = QuotaReservation::take(
            whole.id,
            QuotaUsage {
                bytes: new.saturating_sub(old.unwrap_or(0)),
                files: u64::from(old.is_none()),
            },
        );
        let mut count = QuotaCounter {
            files: self,
            path,
            verb,
            used: QuotaUsage::default(),
        };
        visit(&location.mount.whole, &mut count).await?;
        // Reservations of other writes count as existing content.
        let used = count.used.and(room.others());
        let refuse = |what, needed, limit, setting| {
            let reason = ErrorReason::Quota {
                verb,
                what,
                needed,
                limit,
                setting,
            };
            Err(path.error(reason))
        };
        if let Some((limit, setting)) = max_bytes.filter(|_| adds_bytes) {
            let needed = used.bytes.saturating_sub(old.unwrap_or(0));
            let needed = needed.saturating_add(new);
            if needed > limit {
                return refuse("bytes", needed, limit, setting);
            }
        }
        if let Some((limit, setting)) = max_files.filter(|_| adds_file) {
            let needed = used.files.saturating_add(1);
            if needed > limit {
                return refuse("files", needed, limit, setting);
            }
        }
        Ok(Some(room))
    }
}

impl QuotaUsage {
    fn and(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            files: self.files.saturating_add(more.files),
        }
    }
}

/// Reservations of running writes, by the identity of their mount's directory.
static RESERVATIONS: Mutex<BTreeMap<FileId, Vec<(u64, QuotaUsage)>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Quota reserved for a write until it is done, so that two writes cannot use one remainder.
pub(crate) struct QuotaReservation {
    mount: FileId,
    number: u64,
}

impl QuotaReservation {
    fn take(mount: FileId, used: QuotaUsage) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        reservations()
            .entry(mount)
            .or_default()
            .push((number, used));
        Self { mount, number }
    }

    fn others(&self) -> QuotaUsage {
        let coming = reservations();
        let here = coming.get(&self.mount).into_iter().flatten();
        here.filter(|(number, _)| *number != self.number)
            .fold(QuotaUsage::default(), |sum, (_, used)| sum.and(*used))
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        let mut coming = reservations();
        if let Some(here) = coming.get_mut(&self.mount) {
            here.retain(|(number, _)| *number != self.number);
            if here.is_empty() {
                coming.remove(&self.mount);
            }
        }
    }
}

fn reservations() -> MutexGuard<'static, BTreeMap<FileId, Vec<(u64, QuotaUsage)>>> {
    RESERVATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct QuotaCounter<'a> {
    files: &'a FileSandbox,
    path: &'a SandboxPath,
    verb: Verb,
    used: QuotaUsage,
}

impl TreeVisitor for QuotaCounter<'_> {
    async fn meet(
        &mut self,
        _at: &AnyDir,
        _way: &[OsString],
        _name: &OsStr,
        meta: &FileMeta,
    ) -> Result<(), Error> {
        self.files.check_cancelled(self.path, self.verb)?;
        if meta.kind != FileKind::Directory {
            self.used = self.used.and(QuotaUsage {
                bytes: meta.size,
                files: 1,
            });
        }
        Ok(())
    }

    async fn leave(&mut self, _at: &AnyDir, _name: &OsStr) -> Result<(), Error> {
        Ok(())
    }

    /// An unreadable directory is not counted: operations of this crate cannot add to it.
    fn closed(&mut self, _fault: BackendError) -> Result<(), Error> {
        Ok(())
    }
}
