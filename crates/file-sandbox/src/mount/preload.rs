//! Files of a mount in memory, written before it becomes part of a sandbox.

use crate::backend::AnyDir;
use crate::error::{Error, ErrorReason};
use crate::mount::Mount;
use crate::ops::WriteOptions;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

impl Mount {
    /// Adds a file to a mount in memory, at a path below it, even if the mount is read-only: the
    /// tree is built before it is used.
    ///
    /// ```
    /// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let given = Mount::memory(SandboxPath::parse("/given")?, Mode::ReadOnly)
    ///     .with_file(&SandboxPath::parse("a/note.md")?, b"hello")?;
    /// let files = FileSandbox::new(vec![given])?;
    /// let note = files.path("/given/a/note.md")?;
    /// assert_eq!(files.read(&note, Default::default())?.content, "hello");
    /// assert!(files.write(&note, "other", Default::default()).is_err());
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_PATH` for a mount of the host, and where something is in the way.
    pub fn with_file(self, at: &SandboxPath, bytes: &[u8]) -> Result<Self, Error> {
        if let AnyDir::Host(_) = &*self.dir {
            return Err(at.error(ErrorReason::Mount {
                why: "files are planted in memory only",
                source: None,
            }));
        }
        let open = self.without_rules();
        let files = FileSandbox::new(vec![open])?;
        let options = WriteOptions::new().create_new(true);
        files.write_bytes(
            &SandboxPath::parse(&format!("/{}", at.as_str().trim_start_matches('/')))?,
            bytes,
            options,
        )?;
        Ok(self)
    }
}
