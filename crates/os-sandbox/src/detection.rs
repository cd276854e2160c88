//! Detection of the mechanisms that this host can enforce. A mechanism works only if a probe ran
//! under it, never because of a version number: `bwrap` may be installed while namespaces are
//! forbidden, and Landlock may be compiled in and switched off.

use crate::platform;
use crate::sandbox::Directories;
use crate::support::Support;
use std::sync::{Mutex, MutexGuard};

impl Support {
    /// Detects the mechanisms of this host: starts a confined process under each mechanism and
    /// observes its attempts. The result is cached in this process, and no file is read or written.
    #[must_use]
    pub fn detect() -> Support {
        detect_once(platform::detect_fresh)
    }

    /// Detects the mechanisms as [`Support::detect`]. With [`Directories::user`], passed probes are
    /// also cached for other processes of this boot, in `$XDG_CACHE_HOME/os-sandbox` or
    /// `~/.cache/os-sandbox`. Each detection looks for missing mechanisms again.
    /// [`Support::forget`] makes the next call detect again.
    #[must_use]
    pub fn detect_cached(directories: &Directories) -> Support {
        match directories.caches_probes() {
            true => detect_once(platform::detect),
            false => Support::detect(),
        }
    }

    /// Detects the mechanisms of this host without reading or writing any cache. For programs that
    /// need the current state.
    ///
    /// ```
    /// let now = os_sandbox::Support::detect_fresh();
    /// assert_eq!(now.landlock_abi(), os_sandbox::Support::detect().landlock_abi());
    /// ```
    #[must_use]
    pub fn detect_fresh() -> Support {
        let _looking = LOOKING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        platform::detect_fresh()
    }

    /// Clears the caches, so that the next [`Support::detect_cached`] of any process detects again.
    /// Call it right after a mechanism failed.
    pub fn forget(directories: &Directories) {
        *kept() = None;
        if directories.caches_probes() {
            platform::forget();
        }
    }
}

fn detect_once(detect: fn() -> Support) -> Support {
    // One detection at a time. The cache lock is not held meanwhile, because a failing probe clears
    // the cache.
    let _looking = LOOKING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(support) = &*kept() {
        return support.clone();
    }
    let support = detect();
    *kept() = Some(support.clone());
    support
}

static LOOKING: Mutex<()> = Mutex::new(());
static KEPT: Mutex<Option<Support>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Support>> {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
