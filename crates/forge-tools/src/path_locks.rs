//! Locks on paths: calls that change one path run one after the other, since an edit reads,
//! replaces and writes, and of two at once one would be lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, TryLockError};

use crate::gate::Intent;

/// From this many paths on, unused locks are removed.
const SWEEP_FROM: usize = 256;

/// The paths that are being changed.
#[derive(Debug, Default)]
pub(crate) struct PathLocks {
    turns: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

/// Held by a call until its work has ended, even after its caller stopped waiting.
#[derive(Debug)]
pub(crate) struct PathLockGuard(
    #[expect(dead_code, reason = "held, not used")] Vec<OwnedMutexGuard<()>>,
);

impl PathLocks {
    /// Waits until no other call changes any of the paths that these intents would change; none if
    /// they change nothing.
    pub(crate) async fn lock(&self, intents: &[Intent]) -> Option<Arc<PathLockGuard>> {
        let paths = changed(intents);
        if paths.is_empty() {
            return None;
        }
        let mut held = Vec::with_capacity(paths.len());
        for path in paths {
            let turn = self.lock_of(path);
            held.push(turn.lock_owned().await);
        }
        Some(Arc::new(PathLockGuard(held)))
    }

    /// Locks the paths without waiting.
    ///
    /// # Errors
    ///
    /// Another call changes one of the paths.
    pub(crate) fn try_lock(
        &self,
        intents: &[Intent],
    ) -> Result<Option<Arc<PathLockGuard>>, TryLockError> {
        let paths = changed(intents);
        if paths.is_empty() {
            return Ok(None);
        }
        let held = paths
            .into_iter()
            .map(|path| self.lock_of(path).try_lock_owned());
        Ok(Some(Arc::new(PathLockGuard(
            held.collect::<Result<_, _>>()?,
        ))))
    }

    fn lock_of(&self, path: &str) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(path).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= SWEEP_FROM {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::new(AsyncMutex::new(()));
        turns.insert(path.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

/// The paths that these intents would change, in one order, so that no two calls wait for each
/// other.
fn changed(intents: &[Intent]) -> Vec<&str> {
    let mut paths: Vec<&str> = intents
        .iter()
        .filter(|intent| intent.changes())
        .filter_map(|intent| Some(intent.path()?.as_str()))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}
