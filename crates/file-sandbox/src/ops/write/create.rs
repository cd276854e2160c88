//! Making directories.

use crate::backend::{BackendDir as _, BackendError, FileKind, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::ops::write::atomic_write::{AtomicWriteError, NewParentDirs};
use crate::ops::write::last_name;
use crate::path::SandboxPath;
use crate::resolve::bare_repository::PlacedName;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::sandbox::FileSandbox;

impl FileSandbox {
    /// Creates a directory and its missing parents. `false` if it existed.
    ///
    /// ```
    /// # use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    /// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![data])?;
    /// assert!(files.create_dir(&files.path("/data/a/b")?)?);
    /// assert!(!files.create_dir(&files.path("/data/a")?)?);
    /// let denied = files.create_dir(&files.path("/other")?).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::OutsideSandbox);
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EXISTS` for an existing object that is not a directory, `READ_ONLY`, and those of resolving
    /// the path.
    pub fn create_dir(&self, path: &SandboxPath) -> Result<bool, Error> {
        block_on_ready(self.create_dir_at(path))
    }

    async fn create_dir_at(&self, path: &SandboxPath) -> Result<bool, Error> {
        let verb = Verb::Create;
        let location = self
            .locate_for_change(path, FinalLink::Follow, verb)
            .await?;
        let name = match &location.found {
            Lookup::Root => return Ok(false),
            Lookup::Entry { meta, .. } if meta.kind == FileKind::Directory => return Ok(false),
            Lookup::Entry { .. } => return Err(path.error(ErrorReason::Exists)),
            Lookup::Missing { .. } => last_name(path, &location)?,
        };
        let durable = location.is_durable(false);
        let Lookup::Missing { parent, rest } = location.found else {
            return Ok(false);
        };
        let dirs = NewParentDirs::make(parent, &rest).await;
        let dirs = dirs.map_err(|failure| match failure {
            AtomicWriteError::System(fault) => self.backend_error(path, verb, fault),
            AtomicWriteError::Ownership => path.error(ErrorReason::Ownership),
        })?;
        match dirs.innermost().create_dir(&name).await {
            Ok(()) => {}
            Err(BackendError::Exists) => return Ok(false),
            Err(fault) => {
                dirs.undo().await;
                return Err(self.backend_error(path, verb, fault));
            }
        }
        let at = dirs.innermost();
        let placed = PlacedName {
            mount: location.mount,
            real: &location.real,
            new: rest.len(),
            id: at.meta(&name).await.ok().map(|meta| meta.id),
        };
        if let Err(refusal) = self.check_placed(path, &placed, verb).await {
            // It stays if somebody has put something into it: a command that still runs.
            let _ = at.remove_dir(&name).await;
            dirs.undo().await;
            return Err(refusal);
        }
        if durable {
            let synced = dirs.sync().await;
            synced.map_err(|fault| self.backend_error(path, verb, fault))?;
        }
        Ok(true)
    }
}
