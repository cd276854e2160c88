//! Metadata of objects, without opening them.

use std::time::SystemTime;

use crate::backend::{BackendDir as _, FileKind, FileMeta, block_on_ready};
use crate::error::{Error, ErrorKind, Verb};
use crate::ops::walk::listing::EntryKind;
use crate::path::SandboxPath;
use crate::resolve::location::Resolution;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::sandbox::FileSandbox;

/// Facts about an object. Of a link they are its target's; of one that leads nowhere, its own.
///
/// ```
/// # use file_sandbox::{EntryKind, FileSandbox, Mode, Mount, SandboxPath};
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// # let target = SandboxPath::parse("/data")?;
/// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?;
/// # let files = FileSandbox::new(vec![mount])?;
/// let path = SandboxPath::parse("/data/a.txt")?;
/// files.write(&path, "hello", Default::default())?;
/// let stat = files.stat(&path)?;
/// assert_eq!((stat.kind, stat.size), (EntryKind::File, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The type.
    pub kind: EntryKind,
    /// The size in bytes.
    pub size: u64,
    /// When the content last changed.
    pub modified: Option<SystemTime>,
    /// The time of the last change of any kind, its name and its own times included: no call can
    /// set this one.
    pub changed: Option<SystemTime>,
    /// Permission bits, such as `0o644`.
    pub unix_mode: Option<u32>,
    /// The number of names of the object.
    pub hard_links: u64,
    /// `true` if the requested name is a link.
    pub is_link: bool,
}

impl FileSandbox {
    /// Facts about a file or directory, also about a special file.
    ///
    /// # Errors
    /// `NOT_FOUND`, `ESCAPE` for a link out, and those of resolving the path.
    pub fn stat(&self, path: &SandboxPath) -> Result<Stat, Error> {
        block_on_ready(self.stat_at(path))
    }

    async fn stat_at(&self, path: &SandboxPath) -> Result<Stat, Error> {
        match self.meta_without_links(path).await {
            Some(meta) => Ok(stat_of(&meta, false)),
            // Boxed, so that the future of the fast path does not contain the state of the slow
            // one.
            None => Box::pin(self.stat_by_walk(path)).await,
        }
    }

    async fn stat_by_walk(&self, path: &SandboxPath) -> Result<Stat, Error> {
        let location = match self.locate(path, FinalLink::Keep, Verb::Access).await? {
            Resolution::Virtual(_) => return Ok(virtual_directory()),
            Resolution::In(location) => location,
        };
        let meta = match &location.found {
            Lookup::Root => {
                let meta = location.mount.dir.own_meta().await;
                meta.map_err(|fault| self.backend_error(path, Verb::Access, fault))?
            }
            Lookup::Missing { .. } => return Err(self.missing_error(path, &location).await),
            Lookup::Entry { meta, .. } => *meta,
        };
        if meta.kind != FileKind::Link {
            return Ok(stat_of(&meta, false));
        }
        match self.locate(path, FinalLink::Follow, Verb::Access).await {
            Ok(Resolution::Virtual(_)) => Ok(virtual_directory()),
            Ok(Resolution::In(location)) => match &location.found {
                Lookup::Root => {
                    let meta = location.mount.dir.own_meta().await;
                    let meta =
                        meta.map_err(|fault| self.backend_error(path, Verb::Access, fault))?;
                    Ok(stat_of(&meta, true))
                }
                Lookup::Entry { meta, .. } => Ok(stat_of(meta, true)),
                Lookup::Missing { .. } => Ok(stat_of(&meta, true)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(stat_of(&meta, true)),
            Err(error) => Err(error),
        }
    }

    /// Returns the creation time of an object; of a link, that of its target. `None` if the file
    /// system does not record it. Separate from [`stat`](Self::stat), which is called more often
    /// and does less.
    ///
    /// # Errors
    /// Those of `stat`.
    pub fn created(&self, path: &SandboxPath) -> Result<Option<SystemTime>, Error> {
        block_on_ready(self.created_at(path))
    }

    async fn created_at(&self, path: &SandboxPath) -> Result<Option<SystemTime>, Error> {
        let location = match self.locate(path, FinalLink::Follow, Verb::Access).await? {
            Resolution::Virtual(_) => return Ok(None),
            Resolution::In(location) => location,
        };
        match (&location.found, location.real.last()) {
            (Lookup::Missing { .. }, _) => Err(self.missing_error(path, &location).await),
            (Lookup::Entry { parent, .. }, Some(name)) => Ok(parent.created(name).await),
            (Lookup::Root, _) | (Lookup::Entry { .. }, None) => Ok(None),
        }
    }

    /// `true` if the path exists. A dangling link does not exist; a directory does.
    ///
    /// # Errors
    /// `OUTSIDE_SANDBOX` and `ESCAPE`, because the sandbox does not reveal objects outside; `IO` if
    /// the system fails.
    pub fn exists(&self, path: &SandboxPath) -> Result<bool, Error> {
        match block_on_ready(self.locate(path, FinalLink::Follow, Verb::Access)) {
            Ok(Resolution::Virtual(_)) => Ok(true),
            Ok(Resolution::In(location)) => match location.found {
                Lookup::Root | Lookup::Entry { .. } => Ok(true),
                Lookup::Missing { .. } => Ok(false),
            },
            Err(error) => match error.kind() {
                // `NOT_A_FILE` is a name below a file here.
                ErrorKind::NotFound | ErrorKind::NotAFile => Ok(false),
                _ => Err(error),
            },
        }
    }
}

fn stat_of(meta: &FileMeta, is_link: bool) -> Stat {
    Stat {
        kind: EntryKind::of(meta.kind),
        size: meta.size,
        modified: meta.modified,
        changed: meta.changed,
        unix_mode: Some(meta.mode),
        hard_links: meta.links,
        is_link,
    }
}

fn virtual_directory() -> Stat {
    Stat {
        kind: EntryKind::Directory,
        size: 0,
        modified: None,
        changed: None,
        unix_mode: None,
        hard_links: 1,
        is_link: false,
    }
}
