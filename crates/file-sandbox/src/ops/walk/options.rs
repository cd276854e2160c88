//! Options of walks, globs and searches.

use std::time::Duration;

use crate::cancellation::CancellationToken;

/// Limits of a walk.
///
/// ```
/// use std::time::Duration;
/// use file_sandbox::WalkOptions;
///
/// let options = WalkOptions::new()
///     .max_entries(500)
///     .max_depth(4)
///     .time_limit(Some(Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug)]
pub struct WalkOptions {
    pub(crate) max_entries: usize,
    pub(crate) max_names: usize,
    pub(crate) max_depth: usize,
    pub(crate) gitignore: bool,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) cancel: Option<CancellationToken>,
}

impl WalkOptions {
    /// At most 10 000 entries out of 1 000 000 names, 64 directories deep, in 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_entries: 10_000,
            max_names: 1_000_000,
            max_depth: 64,
            gitignore: false,
            time_limit: Some(Duration::from_secs(30)),
            cancel: None,
        }
    }

    /// Stops after this many entries.
    #[must_use]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// Stops after this many examined names, matching or not; and in any case at 65 536 names of
    /// one directory or 32 768 pending directories.
    #[must_use]
    pub fn max_names(mut self, names: usize) -> Self {
        self.max_names = names;
        self
    }

    /// Descends through at most this many directories.
    #[must_use]
    pub fn max_depth(mut self, directories: usize) -> Self {
        self.max_depth = directories;
        self
    }

    /// Leaves out `.git` and names in `.gitignore` files. The start directory is never left out,
    /// because the caller named it.
    #[cfg(feature = "search")]
    #[must_use]
    pub fn gitignore(mut self, yes: bool) -> Self {
        self.gitignore = yes;
        self
    }

    /// Stops after this time, between two names; `None` for never.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    /// Stops when the token is cancelled.
    #[must_use]
    pub fn cancel(mut self, cancel: &CancellationToken) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self::new()
    }
}
