//! Queries on a sandbox that change nothing: permission checks, and the target of a path.

use std::path::{Path, PathBuf};

use crate::backend::{FileKind, block_on_ready};
use crate::error::{Error, Verb};
use crate::mount::Mount;
use crate::mount::mode::Mode;
use crate::path::SandboxPath;
use crate::resolve::check_size;
use crate::resolve::location::{MountLocation, Resolution};
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::wrong_type;
use crate::sandbox::FileSandbox;

impl FileSandbox {
    /// `true` if the file or directory may be read, or could be if it existed. `false` after any
    /// error.
    #[must_use]
    pub fn can_read(&self, path: &SandboxPath) -> bool {
        self.resolve(path).is_ok()
    }

    /// `true` if the file may be written or created, or entries of the directory.
    #[must_use]
    pub fn can_write(&self, path: &SandboxPath) -> bool {
        match block_on_ready(self.locate_for_change(path, FinalLink::Follow, Verb::Write)) {
            Ok(location) => self.check_writable_object(path, &location).is_ok(),
            Err(_) => false,
        }
    }

    /// Checks that writing the file is allowed, with the refusal that writing would give.
    ///
    /// # Errors
    /// Those of writing that do not depend on the content.
    pub fn check_write(&self, path: &SandboxPath) -> Result<(), Error> {
        let location =
            block_on_ready(self.locate_for_change(path, FinalLink::Follow, Verb::Write))?;
        self.check_suffix(path, &location)?;
        self.check_writable_object(path, &location)
    }

    /// Checks that a file of `bytes` bytes is not too large for a path, with the refusal that
    /// writing would give. Permission to write is not checked.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
    /// let small = Mount::memory(SandboxPath::parse("/small")?, Mode::ReadWrite)
    ///     .with_limits(Limits::new().max_file_bytes(10));
    /// let files = FileSandbox::new(vec![small])?;
    /// let path = files.path("/small/a")?;
    /// assert!(files.check_file_size(&path, 10).is_ok());
    /// assert!(files.check_file_size(&path, 11).is_err());
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// `TOO_LARGE`.
    pub fn check_file_size(&self, path: &SandboxPath, bytes: u64) -> Result<(), Error> {
        let too_small = |mount: &Mount| {
            let limits = mount.limits();
            let all = [limits.file_byte_limit(), limits.write_byte_limit()];
            all.into_iter().flatten().any(|limit| bytes > limit)
        };
        if !self.table.mounts.iter().any(too_small) {
            return Ok(());
        }
        match block_on_ready(self.locate_for_change(path, FinalLink::Follow, Verb::Write)) {
            Ok(location) => check_size(path, location.mount, Verb::Write, bytes),
            Err(_) => Ok(()),
        }
    }

    /// Checks that deleting is allowed, with the refusal that deleting would give. Existence is not
    /// checked.
    ///
    /// # Errors
    /// `READ_ONLY` and those of resolving the path.
    pub fn check_delete(&self, path: &SandboxPath) -> Result<(), Error> {
        block_on_ready(self.locate_for_change(path, FinalLink::Keep, Verb::Delete)).map(drop)
    }

    /// Checks that creating the directory is allowed, with the refusal that creating it would give.
    /// Existence is not checked.
    ///
    /// # Errors
    /// `READ_ONLY` and those of resolving the path.
    pub fn check_create_dir(&self, path: &SandboxPath) -> Result<(), Error> {
        block_on_ready(self.locate_for_change(path, FinalLink::Follow, Verb::Create)).map(drop)
    }

    /// Resolves all links of a path. The object need not exist.
    ///
    /// # Errors
    /// Those of reading, but `NOT_FOUND` for hidden objects only.
    pub fn resolve(&self, path: &SandboxPath) -> Result<ResolvedLocation, Error> {
        let location = match block_on_ready(self.locate(path, FinalLink::Follow, Verb::Access))? {
            Resolution::Virtual(_) => {
                return Ok(ResolvedLocation {
                    path: path.clone(),
                    mode: Mode::ReadOnly,
                    exists: true,
                    host: None,
                });
            }
            Resolution::In(location) => location,
        };
        let exists = match &location.found {
            Lookup::Root => true,
            Lookup::Missing { .. } => false,
            Lookup::Entry { meta, .. } => {
                match meta.kind {
                    FileKind::File => {
                        self.check_suffix(path, &location)?;
                        self.check_links_for_read(path, &location, meta)?;
                    }
                    FileKind::Directory => {}
                    other => return Err(wrong_type(path, Verb::Access, other)),
                }
                true
            }
        };
        if !exists {
            self.check_suffix(path, &location)?;
        }
        Ok(ResolvedLocation {
            host: location.mount.host().map(|host| {
                let mut host = host.to_owned();
                host.extend(&location.real);
                host
            }),
            mode: location.mount.mode(),
            path: location.path(),
            exists,
        })
    }

    /// Returns the path at which a path enters each mount on its way: first the mount that covers
    /// the path itself, last the one where it ends, with its links resolved. Stops at the first
    /// error, and does not check permission to read.
    #[must_use]
    pub fn mounts_on_path(&self, path: &SandboxPath, follow: bool) -> Vec<SandboxPath> {
        let last = match follow {
            true => FinalLink::Follow,
            false => FinalLink::Keep,
        };
        block_on_ready(self.mounts_on_the_way(path, last))
    }

    /// Checks the object that a write to `location` would replace.
    fn check_writable_object(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
    ) -> Result<(), Error> {
        match &location.found {
            Lookup::Root => Ok(()),
            Lookup::Missing { .. } => self.check_file_place(path, location, Verb::Write),
            Lookup::Entry { meta, .. } => match meta.kind {
                FileKind::File => {
                    self.check_file_place(path, location, Verb::Write)?;
                    self.check_links_for_write(path, location, meta)
                }
                FileKind::Directory => Ok(()),
                other => Err(wrong_type(path, Verb::Write, other)),
            },
        }
    }
}

/// The target of a path.
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// # let target = SandboxPath::parse("/data")?;
/// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadOnly, authority)?;
/// let files = FileSandbox::new(vec![mount])?;
/// let resolved = files.resolve(&SandboxPath::parse("data/x/../new.md")?)?;
/// assert_eq!(resolved.path().as_str(), "/data/new.md");
/// assert_eq!(resolved.mode(), Mode::ReadOnly);
/// assert!(!resolved.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResolvedLocation {
    path: SandboxPath,
    mode: Mode,
    exists: bool,
    host: Option<PathBuf>,
}

impl ResolvedLocation {
    sandbox_names::getters! {
        /// Returns the path with all links resolved.
        pub path: &SandboxPath = &path;
        /// Returns the mode of its mount.
        pub mode: Mode = mode;
        /// `true` if the object existed.
        pub exists: bool = exists;
        /// Returns its path on the host, if the mount was opened by path. Only for showing it to a
        /// person: opening it by path bypasses the sandbox.
        pub host: Option<&Path> = host.as_deref();
    }
}
