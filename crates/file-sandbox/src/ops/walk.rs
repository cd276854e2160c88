//! Lists everything below a directory, or the matches of a pattern.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::backend::{FileKind, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::glob::Glob;
use crate::ops::descend::{TreeWalker, WalkReport};
use crate::ops::list::{EntryKind, ListEntry, Listing};
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// Limits of a walk.
///
/// ```
/// use std::time::Duration;
/// use file_sandbox::WalkOptions;
///
/// let options = WalkOptions::new()
///     .max_entries(500)
///     .max_depth(4)
///     .gitignore(true)
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

    /// Stops after this many names were looked at, whether they match or not; and in any case where
    /// 65 536 names of one directory or 32 768 directories to visit would have to be kept.
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

/// Cancels an operation from another thread. The operation returns its results so far.
///
/// ```
/// use file_sandbox::{CancellationToken, TruncationReason, FileSandbox, SandboxPath, WalkOptions};
///
/// let cancel = CancellationToken::new();
/// cancel.cancel();
/// let files = FileSandbox::new(vec![])?;
/// let listing = files.walk(&SandboxPath::root(), WalkOptions::new().cancel(&cancel))?;
/// assert_eq!(listing.cut, Some(TruncationReason::Cancelled));
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    said: Arc<AtomicBool>,
    #[cfg(test)]
    looks: Arc<tests::Looks>,
}

impl CancellationToken {
    /// Returns a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every operation that was given this value or a clone of it.
    pub fn cancel(&self) {
        self.said.store(true, Ordering::Relaxed);
    }

    /// `true` after [`cancel`](Self::cancel).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        #[cfg(test)]
        if self.looks.are_enough() {
            self.cancel();
        }
        self.said.load(Ordering::Relaxed)
    }
}

/// The reason why an answer is truncated.
///
/// ```
/// assert_eq!(file_sandbox::TruncationReason::Time.as_str(), "time limit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TruncationReason {
    /// The limit of entries or matches.
    Entries,
    /// The limit of examined names.
    Names,
    /// The limit of bytes read or answered.
    Bytes,
    /// The time limit.
    Time,
    /// The operation was cancelled.
    Cancelled,
}

impl TruncationReason {
    /// A word or two for a message.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Entries => "entry limit",
            Self::Names => "limit of names looked at",
            Self::Bytes => "byte limit",
            Self::Time => "time limit",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An omitted entry, and the reason.
///
/// ```
/// # use file_sandbox::{Listing, SkippedEntry};
/// fn explain(listing: &Listing) -> Vec<String> {
///     let line = |skipped: &SkippedEntry| format!("{}: {}", skipped.name, skipped.reason);
///     listing.skipped.iter().map(line).collect()
/// }
/// # assert!(explain(&Listing::default()).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedEntry {
    /// Its path below the directory asked for; empty for that directory itself.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The entries that ignore rules excluded from an answer. They can still be read.
///
/// ```
/// # use file_sandbox::{IgnoredEntries, Listing};
/// fn note(listing: &Listing) -> Option<String> {
///     let IgnoredEntries { count, first, .. } = &listing.ignored;
///     (*count > 0).then(|| format!("{count} ignored, such as {}", first.join(", ")))
/// }
/// # assert_eq!(note(&Listing::default()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredEntries {
    /// The number of files and directories, without the content of ignored directories.
    pub count: u64,
    /// The first of them, a directory with a slash at its end.
    pub first: Vec<String>,
}

impl FileSandbox {
    /// Lists everything below a directory: files, links and directories, sorted by name.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, WalkOptions};
    /// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
    /// files.write(&SandboxPath::parse("/a/b/c.md")?, "", Default::default())?;
    /// let all = files.walk(&SandboxPath::root(), WalkOptions::new())?;
    /// let names: Vec<_> = all.entries.iter().map(|entry| entry.name.as_str()).collect();
    /// assert_eq!(names, ["a", "a/b", "a/b/c.md"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NOT_A_FILE` for an object that is not a directory, and those of resolving the path. An
    /// unreadable directory further down is not an error but in `skipped`.
    pub fn walk(&self, path: &SandboxPath, options: WalkOptions) -> Result<Listing, Error> {
        block_on_ready(self.entries_below(path, None, &options))
    }

    /// Lists the files and links below a directory whose path below it matches: `*`, `?`, `[a-z]`
    /// and `{a,b}` within a name, `**` for any directories.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, WalkOptions};
    /// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
    /// for name in ["/a/x.md", "/a/b/y.md", "/a/b/z.txt"] {
    ///     files.write(&SandboxPath::parse(name)?, "", Default::default())?;
    /// }
    /// let found = files.glob(&SandboxPath::parse("/a")?, "**/*.md", WalkOptions::new())?;
    /// let names: Vec<_> = found.entries.iter().map(|entry| entry.name.as_str()).collect();
    /// assert_eq!(names, ["b/y.md", "x.md"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`walk`](Self::walk), and `INVALID_PATH` for a pattern that cannot be read.
    pub fn glob(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: WalkOptions,
    ) -> Result<Listing, Error> {
        let glob = parse_glob(pattern)?;
        block_on_ready(self.entries_below(path, Some(&glob), &options))
    }

    /// With a pattern, directories themselves are not listed.
    pub(crate) async fn entries_below(
        &self,
        path: &SandboxPath,
        glob: Option<&Glob>,
        options: &WalkOptions,
    ) -> Result<Listing, Error> {
        let at = self.directory(path).await?;
        let mut descent = TreeWalker::new(self, at, glob, options).await;
        let mut entries = Vec::new();
        'pages: loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.system(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            for child in page.children {
                if !child.hit || (glob.is_some() && child.kind == FileKind::Directory) {
                    continue;
                }
                if entries.len() == options.max_entries {
                    descent.cut(TruncationReason::Entries);
                    break 'pages;
                }
                entries.push(ListEntry {
                    name: format!("{}{}", page.prefix, child.name),
                    kind: EntryKind::of(child.kind),
                });
            }
        }
        Ok(Listing::new(entries, descent.report))
    }
}

pub(crate) fn parse_glob(pattern: &str) -> Result<Glob, Error> {
    Glob::parse(pattern).map_err(|why| Error::new(pattern, ErrorReason::Pattern { why }))
}

impl Listing {
    pub(crate) fn new(mut entries: Vec<ListEntry>, report: WalkReport) -> Self {
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self {
            entries,
            more: report.cut.is_some() || report.more_skipped,
            cut: report.cut,
            next: None,
            skipped: report.skipped,
            ignored: report.ignored,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Counts how often somebody looks, and says stop at one of the looks.
    #[derive(Debug)]
    pub(crate) struct Looks {
        count: AtomicU64,
        stop_at: AtomicU64,
    }

    impl Default for Looks {
        fn default() -> Self {
            Self {
                count: AtomicU64::new(0),
                stop_at: AtomicU64::new(u64::MAX),
            }
        }
    }

    impl Looks {
        pub(crate) fn are_enough(&self) -> bool {
            self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_at.load(Ordering::Relaxed)
        }
    }

    impl CancellationToken {
        /// One that says stop at the look of this number, from 1.
        pub(crate) fn at_look(number: u64) -> Self {
            let cancel = Self::new();
            cancel.looks.stop_at.store(number, Ordering::Relaxed);
            cancel
        }

        pub(crate) fn looks(&self) -> u64 {
            self.looks.count.load(Ordering::Relaxed)
        }
    }
}
