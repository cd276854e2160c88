//! Listing a directory, or with a pattern everything below it.
//!
//! A listing says what it left out: `more` and `cut` when a cap was reached, `skipped` with the
//! reason for each directory that could not be read.

use crate::backend::{Kind, now};
use crate::error::{Error, Verb};
use crate::ops::descend::Descent;
use crate::ops::walk::{Cut, Ignored, Skipped, WalkOptions, parse_glob};
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// What to list.
///
/// ```
/// let options = file_sandbox::ListOptions::new().pattern("**/*.md").max_entries(100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    pattern: Option<String>,
    max_entries: usize,
    max_depth: usize,
}

impl ListOptions {
    /// The names in the directory, at most 1 000.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pattern: None,
            max_entries: 1_000,
            max_depth: 64,
        }
    }

    /// Lists files and links at any depth whose path below the directory matches: `*`, `?`,
    /// `[a-z]` and `{a,b}` within a name, `**` for any directories. Directories themselves are
    /// not listed then.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Stops after this many entries.
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
    /// What was found, sorted by name.
    pub entries: Vec<Entry>,
    /// Whether there is more than this.
    pub more: bool,
    /// Why it ends before its end.
    pub cut: Option<Cut>,
    /// Directories that were not looked into, at most 100 of them.
    pub skipped: Vec<Skipped>,
    /// What ignore rules kept out, where they were asked for.
    pub ignored: Ignored,
}

/// One entry of a [`Listing`].
///
/// ```
/// # use file_sandbox::{Entry, EntryKind, Listing};
/// fn directories(listing: &Listing) -> impl Iterator<Item = &Entry> {
///     listing.entries.iter().filter(|entry| entry.kind == EntryKind::Directory)
/// }
/// # assert_eq!(directories(&Listing::default()).count(), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
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

    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Link => Self::Link,
            Kind::Pipe | Kind::Socket | Kind::Device | Kind::Unknown => Self::Other,
        }
    }
}

impl FileSandbox {
    /// Lists a directory. `/` shows the roots, if they have names.
    ///
    /// # Errors
    /// `NOT_A_FILE` for what is no directory, `INVALID_PATH` for a pattern that cannot be read,
    /// and those of finding the place. A directory further down that cannot be read is no error
    /// but in `skipped`.
    pub fn list(&self, path: &SandboxPath, options: ListOptions) -> Result<Listing, Error> {
        now(self.list_at(path, &options))
    }

    async fn list_at(&self, path: &SandboxPath, options: &ListOptions) -> Result<Listing, Error> {
        let walk = WalkOptions::new()
            .max_entries(options.max_entries)
            .max_depth(options.max_depth);
        if let Some(pattern) = &options.pattern {
            let glob = parse_glob(pattern)?;
            return self.entries_below(path, Some(&glob), &walk).await;
        }
        let at = self.directory(path).await?;
        let mut descent = Descent::new(self, at, None, &walk).await;
        let page = descent.next().await;
        let page = page.map_err(|fault| self.system(path, Verb::List, fault))?;
        let mut children = page.map(|page| page.children).unwrap_or_default();
        if children.len() > options.max_entries {
            children.truncate(options.max_entries);
            descent.cut(Cut::Entries);
        }
        let entries = children.into_iter().map(|child| Entry {
            name: child.name,
            kind: EntryKind::of(child.kind),
        });
        Ok(Listing::new(entries.collect(), descent.report))
    }
}
