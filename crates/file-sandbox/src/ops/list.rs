//! Listing a directory, or with a pattern everything below it.
//!
//! A listing says what it left out: `more` when a cap was reached, `skipped` with the reason for
//! each directory that could not be read. Links are listed and never descended into, so a walk
//! ends, and it holds one directory open at a time.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::backend::{Directory as _, Fault, Handle, Kind, Names as _, now};
use crate::error::{Error, Reason, Verb};
use crate::escape;
use crate::glob::{Glob, State};
use crate::path::SandboxPath;
use crate::resolve::{Place, hidden_by, path_in};
use crate::sandbox::{FileSandbox, wrong_type};
use crate::walk::{Budget, Found, Last, Tree, joined, walk};

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
    /// Directories that were not looked into, at most 100 of them.
    pub skipped: Vec<Skipped>,
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

/// A directory that a listing left out.
///
/// ```
/// # use file_sandbox::{Listing, Skipped};
/// fn explain(listing: &Listing) -> Vec<String> {
///     let line = |skipped: &Skipped| format!("{}: {}", skipped.name, skipped.reason);
///     listing.skipped.iter().map(line).collect()
/// }
/// # assert!(explain(&Listing::default()).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its path below the directory listed; empty for that directory itself.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Names looked at in one listing, whether they match or not.
const MAX_SEEN: usize = 200_000;
const MAX_SKIPPED: usize = 100;

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
        let glob = options
            .pattern
            .as_deref()
            .map(|text| Glob::parse(text).map_err(|why| Error::new(text, Reason::Pattern { why })));
        let glob = glob.transpose()?;
        let at = self.directory(path).await?;
        let mut seen = 0;
        let first = self.children(&at, &mut seen).await;
        let first = first.map_err(|fault| self.system(path, Verb::List, fault))?;
        let mut listing = Listing {
            more: first.cut,
            ..Listing::default()
        };
        match glob {
            Some(glob) => {
                self.descend(&glob, first, &mut seen, options, &mut listing)
                    .await;
            }
            None => {
                listing.more |= first.entries.len() > options.max_entries;
                let entries = first.entries.into_iter().take(options.max_entries);
                listing.entries = entries
                    .map(|(name, child)| Entry {
                        name,
                        kind: EntryKind::of(child.kind),
                    })
                    .collect();
            }
        }
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    async fn directory(&self, path: &SandboxPath) -> Result<At, Error> {
        let spot = match self.locate(path, Last::Follow, Verb::List).await? {
            Place::Virtual(path) => return Ok(At::Virtual(path)),
            Place::In(spot) => spot,
        };
        match &spot.found {
            Found::Missing { .. } => return Err(self.missing(path, &spot).await),
            Found::Entry { meta, .. } if meta.kind != Kind::Directory => {
                return Err(wrong_type(path, Verb::List, meta.kind));
            }
            Found::Root | Found::Entry { .. } => {}
        }
        Ok(At::In {
            mount: spot.index,
            names: spot.real,
        })
    }

    /// Goes down from `first`, depth first, with the names still to visit as its only memory.
    async fn descend(
        &self,
        glob: &Glob,
        first: Children,
        seen: &mut usize,
        options: &ListOptions,
        listing: &mut Listing,
    ) {
        let mut pending = Vec::new();
        let top = Pending {
            at: None,
            prefix: String::new(),
            state: glob.start(),
            depth: 0,
        };
        visit(glob, &top, first, options, listing, &mut pending);
        while let Some(dir) = pending.pop() {
            if listing.entries.len() > options.max_entries {
                break;
            }
            if dir.depth > options.max_depth {
                skip(listing, &dir.prefix, "too deep");
                continue;
            }
            let Some(at) = &dir.at else { continue };
            match self.children(at, seen).await {
                Ok(children) => {
                    listing.more |= children.cut;
                    visit(glob, &dir, children, options, listing, &mut pending);
                }
                Err(fault) => skip(listing, &dir.prefix, &words(fault)),
            }
            if *seen >= MAX_SEEN {
                listing.more = true;
                break;
            }
        }
        if listing.entries.len() > options.max_entries {
            listing.more = true;
            listing.entries.truncate(options.max_entries);
        }
    }

    /// What a directory shows: what is in it, less what is hidden, with the roots below it.
    async fn children(&self, at: &At, seen: &mut usize) -> Result<Children, Fault> {
        let mut children = Children::default();
        let here = match at {
            At::Virtual(path) => path.clone(),
            At::In { mount, names } => {
                self.read_dir(*mount, names, seen, &mut children).await?;
                path_in(&self.table.mounts[*mount], names)
            }
        };
        for (mount, below) in self.table.mounts.iter().enumerate() {
            let Some(way) = below.target().below(&here) else {
                continue;
            };
            let mut way = way.splitn(2, '/').filter(|name| !name.is_empty());
            let Some(name) = way.next() else { continue };
            let kind = Kind::Directory;
            match way.next() {
                None => {
                    let names = Vec::new();
                    let at = At::In { mount, names };
                    children.entries.insert(name.to_owned(), Child { kind, at });
                }
                Some(_) => {
                    let at = At::Virtual(here.child(name));
                    let entry = children.entries.entry(name.to_owned());
                    entry.or_insert(Child { kind, at });
                }
            }
        }
        Ok(children)
    }

    async fn read_dir(
        &self,
        mount: usize,
        names: &[OsString],
        seen: &mut usize,
        children: &mut Children,
    ) -> Result<(), Fault> {
        let dir = self.open_dir(mount, names).await?;
        let mut entries = dir.names().await?;
        while let Some((name, kind)) = entries.next().await? {
            *seen += 1;
            if *seen > MAX_SEEN {
                children.cut = true;
                return Ok(());
            }
            let mut way = names.to_vec();
            way.push(name);
            if hidden_by(&self.table.mounts[mount], &way).is_some() {
                continue;
            }
            let name = &way[names.len()];
            // Not every file system tells the type with the name; one look then.
            let kind = match kind {
                Some(kind) => kind,
                None => dir.meta(name).await.map_or(Kind::Unknown, |meta| meta.kind),
            };
            let spelled = escape::spell(name).into_owned();
            let at = At::In { mount, names: way };
            children.entries.insert(spelled, Child { kind, at });
        }
        Ok(())
    }

    /// Opens a directory by the names it was found under. A link there by now is not followed.
    async fn open_dir(&self, mount: usize, names: &[OsString]) -> Result<Handle<'_>, Fault> {
        let root = &self.table.mounts[mount];
        let Some(last) = names.last() else {
            return Ok(Handle::Root(&root.dir));
        };
        if let Some(way) = joined(names.iter())
            && let Some(dir) = root.dir.open_dir_beneath(&way).await
        {
            return Ok(Handle::Own(dir));
        }
        let tree = Tree {
            root: &root.dir,
            nested: &self.table.nested[mount],
        };
        match walk(tree, names.to_vec(), Last::Keep, &mut Budget::new()).await {
            Ok(walked) if walked.real == names => match &walked.found {
                Found::Entry { parent, .. } => parent.open_dir(last).await.map(Handle::Own),
                Found::Root | Found::Missing { .. } => Err(Fault::Missing),
            },
            Ok(_) | Err(_) => Err(Fault::Missing),
        }
    }
}

/// A directory of the sandbox.
#[derive(Debug)]
enum At {
    Virtual(SandboxPath),
    In { mount: usize, names: Vec<OsString> },
}

#[derive(Debug)]
struct Child {
    kind: Kind,
    at: At,
}

/// What one directory shows, by name.
#[derive(Debug, Default)]
struct Children {
    entries: BTreeMap<String, Child>,
    /// Whether there were too many to look at.
    cut: bool,
}

/// A directory still to be looked into.
struct Pending {
    at: Option<At>,
    prefix: String,
    state: State,
    depth: usize,
}

/// Lists what matches in one directory and remembers the directories that may hold more.
fn visit(
    glob: &Glob,
    dir: &Pending,
    children: Children,
    options: &ListOptions,
    listing: &mut Listing,
    pending: &mut Vec<Pending>,
) {
    let first_new = pending.len();
    for (name, child) in children.entries {
        let state = glob.step(&dir.state, &name);
        let slash = if dir.prefix.is_empty() { "" } else { "/" };
        let prefix = format!("{}{slash}{name}", dir.prefix);
        if child.kind == Kind::Directory {
            if glob.may_go_on(&state) {
                pending.push(Pending {
                    at: Some(child.at),
                    prefix,
                    state,
                    depth: dir.depth + 1,
                });
            }
        } else if glob.accepts(&state) && listing.entries.len() <= options.max_entries {
            listing.entries.push(Entry {
                name: prefix,
                kind: EntryKind::of(child.kind),
            });
        }
    }
    // The last one is taken first.
    pending[first_new..].reverse();
}

fn skip(listing: &mut Listing, name: &str, reason: &str) {
    if listing.skipped.len() < MAX_SKIPPED {
        listing.skipped.push(Skipped {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    } else {
        listing.more = true;
    }
}

fn words(fault: Fault) -> String {
    fault.into_io().kind().to_string()
}
