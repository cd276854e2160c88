//! The answers of lists, walks and globs.

use crate::backend::FileKind;

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
    /// With [`FileSandbox::list`](crate::FileSandbox::list): the name to continue
    /// [`after`](crate::ListOptions::after), if more entries follow in a known order.
    pub next: Option<String>,
    /// Directories that were not read, at most 100 of them.
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

sandbox_names::word_enum! {
    /// The type of an object.
    ///
    /// ```
    /// assert_eq!(file_sandbox::EntryKind::Directory.as_str(), "directory");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EntryKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Link = "link",
        /// A pipe, a socket, a device: neither read nor written here.
        Other = "other",
    }
    /// `file`, `directory`, `link` or `other`.
    pub fn as_str
}

impl EntryKind {
    pub(crate) fn of(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Link => Self::Link,
            FileKind::Pipe | FileKind::Socket | FileKind::Device | FileKind::Unknown => Self::Other,
        }
    }
}

sandbox_names::word_enum! {
    /// The reason why an answer is truncated.
    ///
    /// ```
    /// assert_eq!(file_sandbox::TruncationReason::Time.as_str(), "time limit");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TruncationReason {
        /// The limit of entries or matches.
        Entries = "entry limit",
        /// The limit of examined names.
        Names = "limit of names looked at",
        /// The limit of bytes read or answered.
        Bytes = "byte limit",
        /// The time limit.
        Time = "time limit",
        /// The operation was cancelled.
        Cancelled = "cancelled",
    }
    /// A word or two for a message.
    pub fn as_str
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
    /// Its path below the listed directory; empty for that directory itself.
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
