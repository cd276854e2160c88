//! Quotas: how much a mount may hold in all.
//!
//! Counted anew before each write that would add something, because others may write there too;
//! a count kept here would be wrong by the time it matters. Only mounts with a quota pay for it.

use std::ffi::{OsStr, OsString};

use crate::backend::{AnyDir, Fault, Kind, Meta};
use crate::error::{Error, Reason, Verb};
use crate::ops::tree::{Visitor, visit};
use crate::path::SandboxPath;
use crate::resolve::Spot;
use crate::sandbox::FileSandbox;

/// What a mount holds, hidden or not.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes: u64,
    files: u64,
}

impl FileSandbox {
    /// Whether the mount has room for a file of `new` bytes in place of one of `old`.
    pub(crate) async fn check_quota(
        &self,
        path: &SandboxPath,
        spot: &Spot<'_>,
        verb: Verb,
        old: Option<u64>,
        new: u64,
    ) -> Result<(), Error> {
        let limits = spot.mount.limits();
        let (max_bytes, max_files) = (limits.quota_bytes(), limits.quota_files());
        let adds_bytes = max_bytes.is_some() && new > old.unwrap_or(0);
        let adds_file = max_files.is_some() && old.is_none();
        if !adds_bytes && !adds_file {
            return Ok(());
        }
        let mut used = Used::default();
        visit(&spot.mount.whole, &mut used).await?;
        let refuse = |what, needed, limit| {
            let reason = Reason::Quota {
                verb,
                what,
                needed,
                limit,
            };
            Err(Error::new(path.asked(), reason))
        };
        if let Some(limit) = max_bytes.filter(|_| adds_bytes) {
            let needed = used.bytes.saturating_sub(old.unwrap_or(0));
            let needed = needed.saturating_add(new);
            if needed > limit {
                return refuse("bytes", needed, limit);
            }
        }
        if let Some(limit) = max_files.filter(|_| adds_file) {
            let needed = used.files.saturating_add(1);
            if needed > limit {
                return refuse("files", needed, limit);
            }
        }
        Ok(())
    }
}

impl Visitor for Used {
    async fn meet(
        &mut self,
        _at: &AnyDir,
        _way: &[OsString],
        _name: &OsStr,
        meta: &Meta,
    ) -> Result<(), Error> {
        if meta.kind != Kind::Directory {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(meta.size);
        }
        Ok(())
    }

    async fn leave(&mut self, _at: &AnyDir, _name: &OsStr) -> Result<(), Error> {
        Ok(())
    }

    /// What is closed to us does not grow by us.
    fn closed(&mut self, _fault: Fault) -> Result<(), Error> {
        Ok(())
    }
}
