//! Deleting one name: a file, a link (never its target) or an empty directory.

use crate::backend::{Directory as _, Fault, Kind, now};
use crate::error::{Error, Reason, Verb};
use crate::path::SandboxPath;
use crate::resolve::not_found;
use crate::sandbox::{FileSandbox, wrong_type};
use crate::walk::{Found, Last};

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
    /// is not empty and for special files, and those of finding the place.
    pub fn delete(&self, path: &SandboxPath) -> Result<(), Error> {
        now(self.delete_at(path))
    }

    async fn delete_at(&self, path: &SandboxPath) -> Result<(), Error> {
        let verb = Verb::Delete;
        let spot = self.locate_for_change(path, Last::Keep, verb).await?;
        let is_root = || Err(Error::new(path.asked(), Reason::IsRoot { verb }));
        let (parent, meta) = match &spot.found {
            Found::Root => return is_root(),
            Found::Missing { .. } => return Err(self.missing(path, &spot).await),
            Found::Entry { parent, meta } => (parent, meta),
        };
        // By identity, because a root may also be reached through another mount, and by name,
        // because deleting a directory above a root takes the place away where it is shown.
        if self.table.ids.contains(&meta.id) || self.table.is_virtual(&spot.path()) {
            return is_root();
        }
        let Some(name) = spot.real.last() else {
            return is_root();
        };
        let removed = match meta.kind {
            Kind::Directory => parent.remove_dir(name).await,
            Kind::File | Kind::Link => {
                if path.asks_for_directory() {
                    return Err(wrong_type(path, verb, meta.kind));
                }
                self.check_suffix(path, &spot)?;
                parent.remove_file(name).await
            }
            other => return Err(wrong_type(path, verb, other)),
        };
        removed.map_err(|fault| match fault {
            Fault::NotEmpty | Fault::Exists => {
                let found = "a directory that is not empty";
                let hint = Some("Delete what is in it first.");
                Error::new(path.asked(), Reason::WrongType { verb, found, hint })
            }
            Fault::Missing => not_found(path, Vec::new()),
            fault => self.system(path, verb, fault),
        })
    }
}
