//! Making directories.

use crate::backend::{Directory as _, Fault, Kind, now};
use crate::error::{Error, Reason, Verb};
use crate::ops::put::{Created, Failure};
use crate::ops::write::last_name;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;
use crate::walk::{Found, Last};

impl FileSandbox {
    /// Makes a directory and those on the way. `false` if it was there already.
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
    /// `EXISTS` for what is no directory, `READ_ONLY`, and those of finding the place.
    pub fn create_dir(&self, path: &SandboxPath) -> Result<bool, Error> {
        now(self.create_dir_at(path))
    }

    async fn create_dir_at(&self, path: &SandboxPath) -> Result<bool, Error> {
        let verb = Verb::Create;
        let spot = self.locate_for_change(path, Last::Follow, verb).await?;
        let name = match &spot.found {
            Found::Root => return Ok(false),
            Found::Entry { meta, .. } if meta.kind == Kind::Directory => return Ok(false),
            Found::Entry { .. } => return Err(Error::new(path.asked(), Reason::Exists)),
            Found::Missing { .. } => last_name(path, &spot)?,
        };
        let durable = spot.is_durable(false);
        let Found::Missing { parent, rest } = spot.found else {
            return Ok(false);
        };
        let dirs = Created::make(parent, &rest).await;
        let dirs = dirs.map_err(|failure| match failure {
            Failure::System(fault) => self.system(path, verb, fault),
            Failure::Ownership => Error::new(path.asked(), Reason::Ownership),
        })?;
        match dirs.innermost().create_dir(&name).await {
            Ok(()) if durable => match dirs.sync().await {
                Ok(()) => Ok(true),
                Err(fault) => Err(self.system(path, verb, fault)),
            },
            Ok(()) => Ok(true),
            Err(Fault::Exists) => Ok(false),
            Err(fault) => {
                dirs.undo().await;
                Err(self.system(path, verb, fault))
            }
        }
    }
}
