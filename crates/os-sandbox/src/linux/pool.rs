//! Resources that the commands of a plan pass on to its next ones, because creating and removing
//! them costs as much as starting a program. They are removed with the last copy of the plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bound on the resources of one kind that a plan keeps.
const MAX_KEPT: usize = 16;

/// Resources of one kind, kept for the next command.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    kept: Mutex<Vec<T>>,
    taken: AtomicU64,
}

impl<T> Pool<T> {
    /// Returns a resource that was given back, if one exists.
    pub(crate) fn take(&self) -> Option<T> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.kept().pop()
    }

    /// Keeps a resource if it is as good as new, and drops it otherwise. A plan's only command
    /// keeps nothing: a program that runs one command often ends without dropping its values.
    pub(crate) fn give_back(&self, one: T, as_new: impl FnOnce(&T) -> bool) {
        if self.taken.load(Ordering::Relaxed) <= 1 || !as_new(&one) {
            return;
        }
        let mut kept = self.kept();
        if kept.len() < MAX_KEPT {
            kept.push(one);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<T>> {
        self.kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool {
            kept: Mutex::default(),
            taken: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_new_and_only_for_a_next_one() {
        let pool = Pool::default();
        assert_eq!(pool.take(), None);
        pool.give_back("of the only command", |_| true);
        assert_eq!(pool.take(), None);
        pool.give_back("used up", |_| false);
        pool.give_back("good", |_| true);
        assert_eq!((pool.take(), pool.take()), (Some("good"), None));
        for _ in 0..MAX_KEPT + 1 {
            pool.give_back("many", |_| true);
        }
        assert_eq!((0..99).filter_map(|_| pool.take()).count(), MAX_KEPT);
    }
}
