//! Listing a directory, or with a pattern everything below it.
//!
//! A listing reports its omissions: `more` and `cut` at a limit, `skipped` with the reason for each
//! unreadable directory.

use crate::backend::{FileKind, block_on_ready};
use crate::error::{Error, Verb};
use crate::ops::descend::TreeWalker;
use crate::ops::walk::{IgnoredEntries, SkippedEntry, TruncationReason, WalkOptions, parse_glob};
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// Options of a listing.
///
/// ```
/// let options = file_sandbox::ListOptions::new().pattern("**/*.md").max_entries(100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    pattern: Option<String>,
    max_entries: usize,
    max_depth: usize,
    after: Option<String>,
    kinds: Option<ListKinds>,
}

/// Which entries are listed.
///
/// ```
/// use file_sandbox::{ListKinds, ListOptions};
/// let options = ListOptions::new().pattern("**").kinds(ListKinds::Directories);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKinds {
    /// Files, links and special files.
    Files,
    /// Directories.
    Directories,
    /// Both.
    Any,
}

impl ListKinds {
    pub(crate) fn takes(self, kind: FileKind) -> bool {
        match self {
            Self::Files => kind != FileKind::Directory,
            Self::Directories => kind == FileKind::Directory,
            Self::Any => true,
        }
    }
}

impl ListOptions {
    /// The names in the directory, at most 1 000.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pattern: None,
            max_entries: 1_000,
            max_depth: 64,
            after: None,
            kinds: None,
        }
    }

    /// Lists only entries after this name, from [`Listing::next`].
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// Lists only these; with a pattern files otherwise, without one everything.
    #[must_use]
    pub fn kinds(mut self, kinds: ListKinds) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Lists entries at any depth whose path below the directory matches: `*`, `?`, `[a-z]` and
    /// `{a,b}` within a name, `**` for any directories.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Lists at most this many entries: the first ones by name.
    #[must_use]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// With a pattern: descends through at most this many directories.
    #[must_use]
    pub fn max_depth(mut self, directories: usize) -> Self {
        self.max_depth = directories;
        self
    }
}

impl Default for ListOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer to a listing.
///
/// ```
/// # use file_sandbox::{FileSandbox, ListOptions, Mode, Mount, SandboxPath};
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// # let target = SandboxPath::parse("/data")?;
/// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?;
/// # let files = FileSandbox::new(vec![mount])?;
/// files.write(&SandboxPath::parse("/data/b/c.md")?, "", Default::default())?;
/// files.write(&SandboxPath::parse("/data/a.md")?, "", Default::default())?;
///
/// let top = files.list(&SandboxPath::root(), ListOptions::new())?;
/// assert_eq!(top.entries[0].name, "data");
/// let all = files.list(&SandboxPath::parse("/data")?, ListOptions::new().pattern("**/*.md"))?;
/// let names: Vec<_> = all.entries.iter().map(|entry| entry.name.as_str()).collect();
/// assert_eq!(names, ["a.md", "b/c.md"]);
/// assert!(!all.more && all.skipped.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The entries, sorted by name.
    pub entries: Vec<ListEntry>,
    /// `true` if more entries exist.
    pub more: bool,
    /// The reason why it is truncated.
    pub cut: Option<TruncationReason>,
    /// With [`FileSandbox::list`]: the name to continue [`after`](ListOptions::after), if more
    /// entries follow in a known order.
    pub next: Option<String>,
    /// Directories that were not looked into, at most 100 of them.
    pub skipped: Vec<SkippedEntry>,
    /// The entries that ignore rules excluded, if they were requested.
    pub ignored: IgnoredEntries,
}

/// One entry of a [`Listing`].
///
/// ```
/// # use file_sandbox::{ListEntry, EntryKind, Listing};
/// fn directories(listing: &Listing) -> impl Iterator<Item = &ListEntry> {
///     listing.entries.iter().filter(|entry| entry.kind == EntryKind::Directory)
/// }
/// # assert_eq!(directories(&Listing::default()).count(), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListEntry {
    /// Its path below the directory listed, without a leading slash.
    pub name: String,
    /// Its type; a link is not followed.
    pub kind: EntryKind,
}

/// The type of an object.
///
/// ```
/// assert_eq!(file_sandbox::EntryKind::Directory.as_str(), "directory");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device: neither read nor written here.
    Other,
}

impl EntryKind {
    /// `file`, `directory`, `link` or `other`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Other => "other",
        }
    }

    pub(crate) fn of(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Link => Self::Link,
            FileKind::Pipe | FileKind::Socket | FileKind::Device | FileKind::Unknown => Self::Other,
        }
    }
}

impl FileSandbox {
    /// Lists a directory. `/` shows the roots, if they have names.
    ///
    /// # Errors
    /// `NOT_A_FILE` for an object that is not a directory, `INVALID_PATH` for an invalid pattern,
    /// and those of resolving the path. An unreadable directory further down is not an error but in
    /// `skipped`.
    pub fn list(&self, path: &SandboxPath, options: ListOptions) -> Result<Listing, Error> {
        block_on_ready(self.list_at(path, &options))
    }

    async fn list_at(&self, path: &SandboxPath, options: &ListOptions) -> Result<Listing, Error> {
        let walk = WalkOptions::new().max_depth(options.max_depth);
        let glob = options.pattern.as_deref().map(parse_glob).transpose()?;
        let all = if glob.is_some() {
            ListKinds::Files
        } else {
            ListKinds::Any
        };
        let kinds = options.kinds.unwrap_or(all);
        let at = self.directory(path).await?;
        let mut descent = TreeWalker::new(self, at, glob.as_ref(), &walk).await;
        let window = ListWindow::new(options.after.clone(), options.max_entries, kinds);
        descent.window = Some(window.clone());
        let mut entries: Vec<ListEntry> = Vec::new();
        loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.system(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            for child in page.children {
                if !child.hit || !kinds.takes(child.kind) {
                    continue;
                }
                let name = format!("{}{}", page.prefix, child.name);
                if !window.is_before(&name) {
                    let kind = EntryKind::of(child.kind);
                    entries.push(ListEntry { name, kind });
                }
            }
            if entries.len() > window.room() {
                entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                entries.truncate(options.max_entries.saturating_add(1));
                if let (Some(window), Some(last)) = (&mut descent.window, entries.last()) {
                    window.beyond = Some(last.name.clone());
                }
            }
            if glob.is_none() {
                break;
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let ordered = descent.report.cut.is_none();
        let mut next = None;
        if entries.len() > options.max_entries {
            entries.truncate(options.max_entries);
            descent.cut(TruncationReason::Entries);
            next = entries.last().map(|entry| entry.name.clone());
        }
        let listing = Listing::new(entries, descent.report);
        let next = next.filter(|_| ordered);
        Ok(Listing { next, ..listing })
    }
}

/// The listed part of all names: a number of names after a given one. It bounds the names in
/// memory.
#[derive(Clone, Debug)]
pub(crate) struct ListWindow {
    after: Option<String>,
    max: usize,
    pub(crate) kinds: ListKinds,
    /// Names from this one on are dropped, because enough names precede it.
    pub(crate) beyond: Option<String>,
}

impl ListWindow {
    fn new(after: Option<String>, max: usize, kinds: ListKinds) -> Self {
        Self {
            after,
            max,
            kinds,
            beyond: None,
        }
    }

    /// Returns the number of names in memory at which the last ones are dropped; at least one more
    /// than are listed.
    pub(crate) fn room(&self) -> usize {
        self.max.saturating_add(1).saturating_mul(2).max(1024)
    }

    /// Returns the number of names that remain then.
    pub(crate) fn kept(&self) -> usize {
        self.max.saturating_add(1)
    }

    /// `true` if a name was listed before.
    pub(crate) fn is_before(&self, name: &str) -> bool {
        self.after.as_deref().is_some_and(|after| name <= after)
    }

    /// `true` if no name below a directory can be in the window.
    pub(crate) fn leaves_out(&self, prefix: &str) -> bool {
        let after = self.after.as_deref();
        after.is_some_and(|after| prefix < after && !after.starts_with(prefix))
            || self.beyond.as_deref().is_some_and(|end| prefix > end)
    }
}
