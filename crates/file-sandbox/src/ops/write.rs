//! Writing: all of it or nothing.
//!
//! A temporary file in the same directory takes the bytes and is then renamed over the target
//! (`rename(2)` is atomic within a file system). A link is resolved first, or the rename would
//! replace the link and leave its target as it was. Mode and owner are those of the file that was
//! there. Its set-id bits go, as with any write(2) by somebody else.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};

use crate::backend::{
    AnyDir, AnyFile, Contents as _, Directory as _, Fault, Handle, Kind, Meta, now,
};
use crate::error::{Error, Reason, Verb};
use crate::path::SandboxPath;
use crate::resolve::{check_size, not_found};
use crate::rules::TEMP_PREFIX;
use crate::sandbox::{FileSandbox, wrong_type};
use crate::walk::{Found, Last};

/// How to write.
///
/// ```
/// let options = file_sandbox::WriteOptions::new().create_new(true).durable(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    create_new: bool,
    durable: bool,
}

impl WriteOptions {
    /// Creates or replaces, and leaves it to the system when the bytes reach the disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses to replace anything.
    #[must_use]
    pub fn create_new(mut self, yes: bool) -> Self {
        self.create_new = yes;
        self
    }

    /// Waits until the file and its name are on the disk.
    #[must_use]
    pub fn durable(mut self, yes: bool) -> Self {
        self.durable = yes;
        self
    }
}

/// What was written.
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
pub struct Written {
    /// The file, with all links resolved.
    pub path: SandboxPath,
    /// Its length in characters; in bytes, if bytes were written.
    pub chars: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether there was none before.
    pub created: bool,
}

impl FileSandbox {
    /// Writes a text file as UTF-8, creating directories on the way.
    ///
    /// # Errors
    /// `READ_ONLY`, `SUFFIX_NOT_ALLOWED`, `TOO_LARGE`, `EXISTS` with `create_new`, and those of
    /// finding the place. The file is then as it was.
    pub fn write(
        &self,
        path: &SandboxPath,
        text: &str,
        options: WriteOptions,
    ) -> Result<Written, Error> {
        let mut written = self.write_bytes(path, text.as_bytes(), options)?;
        written.chars = text.chars().count() as u64;
        Ok(written)
    }

    /// Writes a file, creating directories on the way.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_bytes(
        &self,
        path: &SandboxPath,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<Written, Error> {
        now(self.write_at(path, bytes, options))
    }

    async fn write_at(
        &self,
        path: &SandboxPath,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<Written, Error> {
        let spot = self
            .locate_for_change(path, Last::Follow, Verb::Write)
            .await?;
        if path.asks_for_directory() {
            return Err(wrong_type(path, Verb::Write, Kind::Directory));
        }
        let old = match &spot.found {
            Found::Root => return Err(wrong_type(path, Verb::Write, Kind::Directory)),
            Found::Missing { .. } => None,
            Found::Entry { meta, .. } if meta.kind != Kind::File => {
                return Err(wrong_type(path, Verb::Write, meta.kind));
            }
            Found::Entry { .. } if options.create_new => {
                return Err(Error::new(path.asked(), Reason::Exists));
            }
            Found::Entry { meta, .. } => Some(*meta),
        };
        self.check_suffix(path, &spot)?;
        check_size(path, spot.mount, Verb::Write, bytes.len() as u64)?;
        if let Some(meta) = &old {
            self.check_links_for_write(path, &spot, meta)?;
        }
        let written = Written {
            path: spot.path(),
            chars: bytes.len() as u64,
            bytes: bytes.len() as u64,
            created: old.is_none(),
        };
        let Some(name) = spot.real.last().cloned() else {
            return Err(not_found(path, Vec::new()));
        };
        let failed = |failure| match failure {
            Failure::System(fault) => self.system(path, Verb::Write, fault),
            Failure::Ownership => Error::new(path.asked(), Reason::Ownership),
        };
        let (parent, rest) = match spot.found {
            Found::Entry { parent, .. } => (parent, Vec::new()),
            Found::Missing { parent, rest } => (parent, rest),
            Found::Root => return Err(wrong_type(path, Verb::Write, Kind::Directory)),
        };
        let dirs = Created::make(parent, &rest).await.map_err(failed)?;
        match put(dirs.innermost(), &name, bytes, old, &options).await {
            Ok(()) => Ok(written),
            Err(failure) => {
                dirs.undo().await;
                Err(failed(failure))
            }
        }
    }
}

enum Failure {
    System(Fault),
    Ownership,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::System(fault)
    }
}

/// Puts a whole file at `name`; afterwards there is the old one or the new one, and nothing else.
async fn put(
    at: &AnyDir,
    name: &OsStr,
    bytes: &[u8],
    old: Option<Meta>,
    options: &WriteOptions,
) -> Result<(), Failure> {
    if old.is_some()
        && let Some(fault) = at.refuses_write(name).await
    {
        return Err(fault.into());
    }
    let (file, temp) = create_temp(at, old.map_or(0o666, |meta| meta.mode & 0o777)).await?;
    let mut placed = fill(&file, bytes, old, options).await;
    if placed.is_ok() {
        let moved = at.rename(&temp, at, name, !options.create_new).await;
        placed = moved.map_err(Failure::from);
    }
    if placed.is_err() {
        // The first failure is the one to tell.
        let _ = at.remove_file(&temp).await;
    }
    placed?;
    if options.durable {
        at.sync().await?;
    }
    Ok(())
}

async fn fill(
    file: &AnyFile,
    bytes: &[u8],
    old: Option<Meta>,
    options: &WriteOptions,
) -> Result<(), Failure> {
    file.write_at(bytes, 0).await?;
    if let Some(old) = old {
        if file.meta().await?.owner != old.owner {
            let given = file.set_owner(old.owner).await;
            given.map_err(|_| Failure::Ownership)?;
        }
        file.set_mode(old.mode & 0o777).await?;
    }
    if options.durable {
        file.sync().await?;
    }
    Ok(())
}

/// Names tried before giving up; one is enough unless somebody guesses them.
const TEMP_TRIES: u32 = 16;

async fn create_temp(at: &AnyDir, mode: u32) -> Result<(AnyFile, OsString), Fault> {
    for _ in 0..TEMP_TRIES {
        // Each RandomState has keys of its own.
        let name = OsString::from(format!(
            "{TEMP_PREFIX}{:016x}",
            RandomState::new().hash_one(0)
        ));
        match at.create_file(&name, mode).await {
            Ok(file) => return Ok((file, name)),
            Err(Fault::Exists) => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(Fault::Exists)
}

/// Directories made on the way to a new file, from the outermost in.
struct Created<'s> {
    start: Handle<'s>,
    dirs: Vec<NewDir<'s>>,
}

struct NewDir<'s> {
    name: OsString,
    /// Of the directory itself, not of its parent.
    handle: Handle<'s>,
    /// Whether we made it, and not somebody who was faster.
    ours: bool,
}

/// A path has fewer than this many names; each new directory holds a descriptor until the end.
const MAX_NEW_DIRS: usize = 256;

impl<'s> Created<'s> {
    /// Makes all of `rest` but its last name, which is the file's.
    async fn make(start: Handle<'s>, rest: &[OsString]) -> Result<Self, Failure> {
        let mut made = Self {
            start,
            dirs: Vec::new(),
        };
        let parents = &rest[..rest.len().saturating_sub(1)];
        if parents.len() > MAX_NEW_DIRS {
            return Err(Failure::System(Fault::NameTooLong));
        }
        for name in parents {
            if let Err(fault) = made.push(name).await {
                made.undo().await;
                return Err(fault.into());
            }
        }
        Ok(made)
    }

    async fn push(&mut self, name: &OsStr) -> Result<(), Fault> {
        let at = self.innermost();
        let ours = match at.create_dir(name).await {
            Ok(()) => true,
            Err(Fault::Exists) => false,
            Err(fault) => return Err(fault),
        };
        let handle = Handle::Own(at.open_dir(name).await?);
        let name = name.to_owned();
        self.dirs.push(NewDir { name, handle, ours });
        Ok(())
    }

    fn innermost(&self) -> &Handle<'s> {
        self.dirs.last().map_or(&self.start, |dir| &dir.handle)
    }

    /// Takes the new directories away again, as far as they are still empty.
    async fn undo(mut self) {
        while let Some(dir) = self.dirs.pop() {
            if dir.ours {
                let _ = self.innermost().remove_dir(&dir.name).await;
            }
        }
    }
}
