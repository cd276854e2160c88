//! Deletes a file, a link (never its target), an empty directory; or on request a directory with
//! everything in it.

use std::ffi::{OsStr, OsString};

use crate::backend::{AnyDir, BackendDir as _, BackendError, FileKind, FileMeta, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::ops::relocate::SubtreeCheck;
use crate::ops::tree_visitor::{TreeVisitor, visit};
use crate::ops::write::file_lock::FileLock;
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::{holds_root, not_found, wrong_type};
use crate::sandbox::FileSandbox;

/// Options of a deletion.
///
/// ```
/// let options = file_sandbox::DeleteOptions::new().recursive(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    recursive: bool,
    if_match: Option<ContentHash>,
}

impl DeleteOptions {
    /// A file, a link or an empty directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    sandbox_names::setters! {
        /// Also a directory with everything in it.
        recursive(yes: bool) = yes;
        /// Deletes only a file with this content.
        if_match(hash: ContentHash) = Some(hash);
    }
}

impl FileSandbox {
    /// Deletes a file, a link or an empty directory. Links on the way are followed, the last name
    /// is not.
    ///
    /// ```
    /// # use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    /// # let host = tempfile::tempdir()?;
    /// # let authority = cap_std::ambient_authority();
    /// # let target = SandboxPath::parse("/data")?;
    /// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?;
    /// # let files = FileSandbox::new(vec![mount])?;
    /// let path = SandboxPath::parse("/data/a.txt")?;
    /// files.write(&path, "x", Default::default())?;
    /// files.delete(&path)?;
    /// assert_eq!(files.delete(&path).unwrap_err().kind(), ErrorKind::NotFound);
    /// // A root can never be deleted, however it is spelled.
    /// let root = SandboxPath::parse("/data/x/..")?;
    /// assert_eq!(files.delete(&root).unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NOT_FOUND`, `READ_ONLY` (also for a root of the sandbox), `NOT_A_FILE` for a directory that
    /// is not empty and for special files, and those of resolving the path.
    pub fn delete(&self, path: &SandboxPath) -> Result<(), Error> {
        self.delete_with(path, DeleteOptions::new())
    }

    /// Deletes a directory with everything in it, or an object that [`delete`](Self::delete)
    /// deletes. Links in it are deleted, their targets are not. All entries are checked first: if
    /// one must not be deleted, none is. A later failure, of the system or by a race, leaves the
    /// remaining entries.
    ///
    /// ```
    /// # use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    /// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![data.protect(["*.key"])?])?;
    /// files.write(&files.path("/data/old/a/b.md")?, "x", Default::default())?;
    /// files.delete_all(&files.path("/data/old")?)?;
    /// assert!(!files.exists(&files.path("/data/old")?)?);
    /// // The root of a mount is neither deleted nor emptied.
    /// let denied = files.delete_all(&files.path("/data/./")?).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `delete`, `READ_ONLY` if something below is protected or a root, and `TOO_LARGE`
    /// above 200 000 names.
    pub fn delete_all(&self, path: &SandboxPath) -> Result<(), Error> {
        self.delete_with(path, DeleteOptions::new().recursive(true))
    }

    /// Deletes like [`delete`](Self::delete) or [`delete_all`](Self::delete_all), under further
    /// conditions.
    ///
    /// # Errors
    /// Theirs, and `STALE` with `if_match`.
    pub fn delete_with(&self, path: &SandboxPath, options: DeleteOptions) -> Result<(), Error> {
        self.retry_on_change(|| block_on_ready(self.delete_at(path, &options)))
    }

    /// Fails as [`delete_with`](Self::delete_with) would for the present object: a missing one, a
    /// root, or with `recursive` a protected name below. Changes nothing.
    ///
    /// # Errors
    /// Those of deleting.
    pub fn check_removal(&self, path: &SandboxPath, recursive: bool) -> Result<(), Error> {
        block_on_ready(async {
            let location = self
                .locate_for_change(path, FinalLink::Keep, Verb::Delete)
                .await?;
            let (parent, meta) = self.removable(path, &location, Verb::Delete).await?;
            if recursive && meta.kind == FileKind::Directory {
                self.removable_dir(path, &location, parent).await?;
            }
            Ok(())
        })
    }

    async fn delete_at(&self, path: &SandboxPath, options: &DeleteOptions) -> Result<(), Error> {
        let verb = Verb::Delete;
        let location = self.locate_for_change(path, FinalLink::Keep, verb).await?;
        let (parent, meta) = self.removable(path, &location, verb).await?;
        let file = (meta.kind == FileKind::File).then_some(meta);
        let hold = self.lock_entry(path, &location, verb, file).await?;
        let old = hold.as_ref().map(|hold| hold.meta);
        self.check_match((path, &location), verb, old, options.if_match)
            .await?;
        if meta.kind == FileKind::Directory && options.recursive {
            let dir = self.removable_dir(path, &location, parent).await?;
            visit(&dir, &mut DeleteVisitor { files: self, path }).await?;
        }
        self.remove(path, &location, parent, meta).await
    }

    /// Opens a directory of which everything below may go.
    async fn removable_dir(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        parent: &AnyDir,
    ) -> Result<AnyDir, Error> {
        let verb = Verb::Delete;
        if let Some(name) = location.real.last()
            && parent.is_mount_point(name).await
        {
            let what = "a mount point";
            return Err(path.error(ErrorReason::Holds { verb, what }));
        }
        let dir = self.open_found_dir(path, location, verb).await?;
        let mut check = SubtreeCheck::new(self, path, verb, location, &location.real);
        visit(&dir, &mut check).await?;
        Ok(dir)
    }

    /// The lock of a file that loses its name, however many more it has.
    pub(crate) async fn lock_entry(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
        file: Option<FileMeta>,
    ) -> Result<Option<FileLock>, Error> {
        let Lookup::Entry { parent, .. } = &location.found else {
            return Ok(None);
        };
        let (Some(file), Some(name)) = (file, location.real.last()) else {
            return Ok(None);
        };
        let hold = self.hold(path, verb, (&**parent, name.as_os_str()), &file);
        hold.await.map(Some)
    }

    /// Finds an object that may be deleted or moved: not a root, by any spelling.
    pub(crate) async fn removable<'s>(
        &self,
        path: &SandboxPath,
        location: &'s MountLocation<'_>,
        verb: Verb,
    ) -> Result<(&'s AnyDir, FileMeta), Error> {
        let is_root = || Err(path.error(ErrorReason::IsRoot { verb }));
        let (parent, meta) = match &location.found {
            Lookup::Root => return is_root(),
            Lookup::Missing { .. } => return Err(self.missing_error(path, location).await),
            Lookup::Entry { parent, meta } => (parent, *meta),
        };
        // By identity, because a root may also be reached through another mount, and by name,
        // because taking a directory above a root away takes the place where it is shown.
        if self.table.ids.contains(&meta.id) {
            return is_root();
        }
        if self.table.is_virtual(&location.path()) {
            return Err(holds_root(path, verb));
        }
        match meta.kind {
            FileKind::Directory => {}
            FileKind::File | FileKind::Link if path.asks_for_directory() => {
                return Err(wrong_type(path, verb, meta.kind));
            }
            FileKind::File | FileKind::Link => {}
            FileKind::Pipe | FileKind::Socket | FileKind::Device | FileKind::Unknown => {
                return Err(wrong_type(path, verb, meta.kind));
            }
        }
        Ok((parent, meta))
    }

    async fn remove(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        parent: &AnyDir,
        meta: FileMeta,
    ) -> Result<(), Error> {
        let verb = Verb::Delete;
        let Some(name) = location.real.last() else {
            return Err(path.error(ErrorReason::IsRoot { verb }));
        };
        let removed = if meta.kind == FileKind::Directory {
            parent.remove_dir(name).await
        } else {
            self.check_suffix(path, location)?;
            parent.remove_file(name).await
        };
        let removed = match removed {
            Ok(()) if location.is_durable(false) => parent.sync().await,
            removed => removed,
        };
        removed.map_err(|fault| match fault {
            BackendError::NotEmpty | BackendError::Exists => {
                let found = "a directory that is not empty";
                let hint = Some("Delete what is in it first.");
                path.error(ErrorReason::WrongType { verb, found, hint })
            }
            BackendError::Missing => not_found(path, Vec::new()),
            fault => self.backend_error(path, verb, fault),
        })
    }
}

/// Takes away everything that is met.
struct DeleteVisitor<'a> {
    files: &'a FileSandbox,
    path: &'a SandboxPath,
}

impl DeleteVisitor<'_> {
    fn done(&self, removed: Result<(), BackendError>) -> Result<(), Error> {
        match removed {
            // Another process has deleted it.
            Ok(()) | Err(BackendError::Missing) => Ok(()),
            Err(fault) => self.closed_by(fault),
        }
    }

    fn closed_by(&self, fault: BackendError) -> Result<(), Error> {
        Err(self.files.backend_error(self.path, Verb::Delete, fault))
    }
}

impl TreeVisitor for DeleteVisitor<'_> {
    async fn meet(
        &mut self,
        at: &AnyDir,
        _way: &[OsString],
        name: &OsStr,
        meta: &FileMeta,
    ) -> Result<(), Error> {
        self.files.check_cancelled(self.path, Verb::Delete)?;
        // A root may have been mounted or moved here since the look.
        if self.files.table.ids.contains(&meta.id) {
            return Err(holds_root(self.path, Verb::Delete));
        }
        match meta.kind {
            FileKind::Directory => Ok(()),
            _ => self.done(at.remove_file(name).await),
        }
    }

    async fn leave(&mut self, at: &AnyDir, name: &OsStr) -> Result<(), Error> {
        self.done(at.remove_dir(name).await)
    }

    fn closed(&mut self, fault: BackendError) -> Result<(), Error> {
        self.closed_by(fault)
    }
}
