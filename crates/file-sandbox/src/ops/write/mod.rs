//! Writes a file completely or not at all, except for writes in place.
//!
//! A link is resolved first, or the rename would replace the link and leave its target unchanged.
//! The new file has mode and owner of the old one, without its set-id bits, which a write(2) by
//! another user would clear too.

pub(crate) mod append;
pub(crate) mod atomic_write;
mod create;
#[cfg(feature = "edit")]
pub(crate) mod edit;
pub(crate) mod file_lock;
mod quota;

use std::ffi::{OsStr, OsString};

use crate::backend::{
    AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileKind, FileMeta,
    block_on_ready,
};
use crate::cancellation::CancellationToken;
use crate::error::{CurrentContent, Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::ops::file_hash::hash_of;
use crate::ops::write::atomic_write::{
    AtomicWriteError, NewParentDirs, WriteMode, WriteSource, atomic_write,
};
use crate::ops::write::file_lock::{FileLock, check_unchanged};
use crate::path::SandboxPath;
use crate::resolve::bare_repository::PlacedName;
use crate::resolve::check_size;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::{not_found, wrong_type};
use crate::sandbox::FileSandbox;

/// Options of a write.
///
/// ```
/// let options = file_sandbox::WriteOptions::new().create_new(true).durable(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    create_new: bool,
    durable: bool,
    in_place: bool,
    if_match: Option<ContentHash>,
}

impl WriteOptions {
    /// Creates or replaces, and leaves it to the system when the bytes reach the disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    sandbox_names::setters! {
        /// Refuses to replace anything.
        create_new(yes: bool) = yes;
        /// Waits until the file and its name are on the disk.
        durable(yes: bool) = yes;
        /// Writes into the existing file instead of replacing it: owner, attributes and other names are
        /// unchanged, but concurrent readers, and readers after a crash, may see a partial file. A file
        /// with a name that git obeys in a repository is replaced.
        in_place(yes: bool) = yes;
        /// Writes only if the file has this content.
        if_match(hash: impl Into<Option<ContentHash>>) = hash.into();
    }
}

/// The result of a write.
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// # let target = SandboxPath::parse("/data")?;
/// # let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?;
/// # let files = FileSandbox::new(vec![mount])?;
/// let written = files.write(&SandboxPath::parse("/data/new/a.md")?, "né", Default::default())?;
/// assert!(written.created);
/// assert_eq!((written.chars, written.bytes), (2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOutcome {
    /// The file, with all links resolved.
    pub path: SandboxPath,
    /// Its length in characters; in bytes, if bytes were written.
    pub chars: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// `true` if the call created the file.
    pub created: bool,
}

impl FileSandbox {
    /// Writes a text file as UTF-8, and creates missing parent directories.
    ///
    /// # Errors
    /// `READ_ONLY`, `SUFFIX_NOT_ALLOWED`, `TOO_LARGE`, `QUOTA`, `EXISTS` with `create_new`, `STALE`
    /// with `if_match`, and those of resolving the path. The file is then as it was.
    pub fn write(
        &self,
        path: &SandboxPath,
        text: &str,
        options: WriteOptions,
    ) -> Result<WriteOutcome, Error> {
        let mut written = self.write_bytes(path, text.as_bytes(), options)?;
        written.chars = text.chars().count() as u64;
        Ok(written)
    }

    /// Writes a file, and creates missing parent directories.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_bytes(
        &self,
        path: &SandboxPath,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<WriteOutcome, Error> {
        self.retry_on_change(|| block_on_ready(self.write_at(path, bytes, &options)))
    }

    /// Fails as [`write_bytes`](Self::write_bytes) would for the present object: a directory, a
    /// file with `create_new`, other bytes than `if_match`. Changes nothing.
    ///
    /// # Errors
    /// Those of writing, without `TOO_LARGE` and `QUOTA`.
    pub fn check_write_with(
        &self,
        path: &SandboxPath,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        block_on_ready(async {
            let verb = Verb::Write;
            let (location, old) = self.locate_file(path, options.create_new, verb).await?;
            self.check_match((path, &location), verb, old, options.if_match)
                .await
        })
    }

    /// The hash of a file's bytes, for [`WriteOptions::if_match`].
    ///
    /// # Errors
    /// Those of [`read_bytes`](Self::read_bytes).
    pub fn hash(&self, path: &SandboxPath) -> Result<ContentHash, Error> {
        let opened = block_on_ready(self.open_file(path))?;
        let hash = block_on_ready(hash_of(&opened.file, opened.meta.size, &self.cancel));
        hash.map_err(|fault| self.backend_error(path, Verb::Read, fault))
    }

    pub(crate) async fn write_at(
        &self,
        path: &SandboxPath,
        bytes: &[u8],
        options: &WriteOptions,
    ) -> Result<WriteOutcome, Error> {
        let verb = Verb::Write;
        let (location, old) = self.locate_file(path, options.create_new, verb).await?;
        check_size(path, location.mount, verb, bytes.len() as u64)?;
        let hold = self.lock_target(path, &location, verb, old).await?;
        let old = hold.as_ref().map(|hold| hold.meta);
        self.check_match((path, &location), verb, old, options.if_match)
            .await?;
        let size = bytes.len() as u64;
        let _room = self.check_quota((path, &location), verb, old, size).await?;
        let written = WriteOutcome {
            path: location.path(),
            chars: size,
            bytes: size,
            created: old.is_none(),
        };
        let how = WriteMode {
            create_new: options.create_new,
            durable: location.is_durable(options.durable),
            in_place: options.in_place,
            old,
            content: options.if_match,
            is_on_trial: false,
        };
        self.put_bytes((path, location), verb, bytes, how).await?;
        Ok(written)
    }

    /// Finds and checks the place of a file to write. Returns the metadata of the existing file.
    pub(crate) async fn locate_file(
        &self,
        path: &SandboxPath,
        create_new: bool,
        verb: Verb,
    ) -> Result<(MountLocation<'_>, Option<FileMeta>), Error> {
        let location = self
            .locate_for_change(path, FinalLink::Follow, verb)
            .await?;
        let old = self.check_file_target(path, &location, verb)?;
        if old.is_some() && create_new {
            return Err(path.error(ErrorReason::Exists));
        }
        Ok((location, old))
    }

    /// Checks the path of a file to write. Returns the metadata of the existing file.
    pub(crate) fn check_file_target(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<Option<FileMeta>, Error> {
        if path.asks_for_directory() {
            return Err(wrong_type(path, verb, FileKind::Directory));
        }
        let old = match &location.found {
            Lookup::Root => return Err(wrong_type(path, verb, FileKind::Directory)),
            Lookup::Missing { .. } => None,
            Lookup::Entry { meta, .. } if meta.kind != FileKind::File => {
                return Err(wrong_type(path, verb, meta.kind));
            }
            Lookup::Entry { meta, .. } => Some(*meta),
        };
        self.check_file_place(path, location, verb)?;
        if let Some(meta) = &old {
            self.check_links_for_write(path, location, meta)?;
        }
        Ok(old)
    }

    /// Locks the file that will be changed, and returns its present metadata. A preview needs no
    /// lock.
    pub(crate) async fn lock_unless(
        &self,
        preview: bool,
        (path, location): (&SandboxPath, &MountLocation<'_>),
        verb: Verb,
        old: Option<FileMeta>,
    ) -> Result<(Option<FileLock>, Option<FileMeta>), Error> {
        let lock = match preview {
            true => None,
            false => self.lock_target(path, location, verb, old).await?,
        };
        let old = lock.as_ref().map(|lock| lock.meta).or(old);
        Ok((lock, old))
    }

    /// Locks the file that will be changed or replaced, if it exists.
    pub(crate) async fn lock_target(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
        old: Option<FileMeta>,
    ) -> Result<Option<FileLock>, Error> {
        let (Lookup::Entry { parent, .. }, Some(old)) = (&location.found, old) else {
            return Ok(None);
        };
        let name = last_name(path, location)?;
        let hold = self.hold(path, verb, (&**parent, name.as_os_str()), &old);
        let hold = hold.await?;
        self.check_links_for_write(path, location, &hold.meta)?;
        Ok(Some(hold))
    }

    /// Checks that the file has the expected content.
    pub(crate) async fn check_match(
        &self,
        (path, location): (&SandboxPath, &MountLocation<'_>),
        verb: Verb,
        old: Option<FileMeta>,
        expected: Option<ContentHash>,
    ) -> Result<(), Error> {
        let Some(expected) = expected else {
            return Ok(());
        };
        let (Lookup::Entry { parent, .. }, Some(old)) = (&location.found, old) else {
            let now = CurrentContent::Gone;
            return Err(path.error(ErrorReason::Stale { verb, now }));
        };
        let name = last_name(path, location)?;
        let hash = async {
            let file = parent.open_file(&name).await?;
            hash_of(&file, old.size, &self.cancel).await
        };
        let hash = hash
            .await
            .map_err(|fault| self.backend_error(path, verb, fault))?;
        if hash == expected {
            return Ok(());
        }
        let now = match location.mount.closed {
            true => CurrentContent::Untold,
            false => CurrentContent::Has(hash),
        };
        Err(path.error(ErrorReason::Stale { verb, now }))
    }

    /// Writes bytes at a checked path, into the old file or in place of it.
    pub(crate) async fn put_bytes(
        &self,
        (path, location): (&SandboxPath, MountLocation<'_>),
        verb: Verb,
        bytes: &[u8],
        how: WriteMode,
    ) -> Result<(), Error> {
        // A file that git could obey can be taken back only if the old one is still there.
        let in_place = how.in_place && !location.placed(how.old.map(|old| old.id)).is_guarded();
        let (Lookup::Entry { parent, .. }, Some(old), true) = (&location.found, &how.old, in_place)
        else {
            let source = WriteSource::Bytes(bytes);
            return self.put_at((path, location), verb, source, how).await;
        };
        let name = last_name(path, &location)?;
        let overwritten = async {
            let at = (&**parent, &*name);
            let file = open_unchanged(at, old, how.content, &self.cancel).await?;
            // From here on it is done to its end: half of it would be neither the old nor the new
            // file.
            file.write_at(bytes, 0).await?;
            file.set_size(bytes.len() as u64).await?;
            match how.durable {
                true => file.sync().await,
                false => Ok(()),
            }
        };
        let overwritten = overwritten.await;
        overwritten.map_err(|fault| self.backend_error(path, verb, fault))
    }

    /// Writes a whole file at a checked path, and creates missing parent directories.
    pub(crate) async fn put_at(
        &self,
        (path, location): (&SandboxPath, MountLocation<'_>),
        verb: Verb,
        source: WriteSource<'_>,
        mut how: WriteMode,
    ) -> Result<(), Error> {
        let name = last_name(path, &location)?;
        let failed = |failure| match failure {
            AtomicWriteError::System(fault) => self.backend_error(path, verb, fault),
            AtomicWriteError::Ownership => path.error(ErrorReason::Ownership),
        };
        let (parent, rest) = match location.found {
            Lookup::Entry { parent, .. } => (parent, Vec::new()),
            Lookup::Missing { parent, rest } => (parent, rest),
            Lookup::Root => return Err(wrong_type(path, verb, FileKind::Directory)),
        };
        let dirs = NewParentDirs::make(parent, &rest).await.map_err(failed)?;
        let mut placed = PlacedName {
            mount: location.mount,
            real: &location.real,
            new: rest.len(),
            id: None,
        };
        how.is_on_trial = placed.is_guarded();
        let at = dirs.innermost();
        let written = match atomic_write(at, &name, source, how, &self.cancel).await {
            Ok(written) => written,
            Err(failure) => {
                dirs.undo().await;
                return Err(failed(failure));
            }
        };
        placed.id = written.id;
        if let Err(refusal) = self.check_placed(path, &placed, verb).await {
            written.take_back(at, &name).await;
            dirs.undo().await;
            return Err(refusal);
        }
        written.keep(at).await;
        match how.durable {
            true => dirs.sync().await.map_err(|fault| failed(fault.into())),
            false => Ok(()),
        }
    }
}

/// Opens a file to write into it, which must still be the checked one.
pub(crate) async fn open_unchanged(
    (at, name): (&AnyDir, &OsStr),
    old: &FileMeta,
    content: Option<ContentHash>,
    cancel: &CancellationToken,
) -> Result<AnyFile, BackendError> {
    let file = at.open_to_write(name).await?;
    if file.meta().await?.id != old.id {
        return Err(BackendError::Link);
    }
    check_unchanged(at, name, old, content, cancel).await?;
    Ok(file)
}

pub(crate) fn last_name(
    path: &SandboxPath,
    location: &MountLocation<'_>,
) -> Result<OsString, Error> {
    let name = location.real.last().cloned();
    name.ok_or_else(|| not_found(path, Vec::new()))
}
