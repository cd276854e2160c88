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

    sandbox_names::setters! {
        /// Stops after this many entries.
        max_entries(entries: usize) = entries;
        /// Stops after this many examined names, matching or not; and in any case at 65 536 names of
        /// one directory or 32 768 pending directories.
        max_names(names: usize) = names;
        /// Descends through at most this many directories.
        max_depth(directories: usize) = directories;
        /// Leaves out `.git` and names in `.gitignore` files. The start directory is never left out,
        /// because the caller named it.
        #[cfg(feature = "search")]
        gitignore(yes: bool) = yes;
        /// Stops after this time, between two names; `None` for never.
        time_limit(limit: Option<Duration>) = limit;
        /// Stops when the token is cancelled.
        cancel(cancel: &CancellationToken) = Some(cancel.clone());
    }
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self::new()
    }
}
