//! Writing: all of it or nothing.
//!
//! A temporary file in the same directory takes the bytes and is then renamed over the target
//! (`rename(2)` is atomic within a file system). A link is resolved first, or the rename would
//! replace the link and leave its target as it was. Mode and owner are those of the file that was
//! there. Its set-id bits go, as with any write(2) by somebody else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;

use rustix::io::Errno;

use crate::error::{Error, Reason, Verb};
use crate::host::sys::{self, Kind, Meta};
use crate::host::{Found, Handle, Last};
use crate::path::SandboxPath;
use crate::resolve::{check_size, not_found};
use crate::rules::TEMP_PREFIX;
use crate::sandbox::{FileSandbox, wrong_type};

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
        let spot = self.locate_for_change(path, Last::Follow, Verb::Write)?;
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
            Failure::System(errno) => self.system(path, Verb::Write, errno),
            Failure::Ownership => Error::new(path.asked(), Reason::Ownership),
        };
        let (parent, rest) = match spot.found {
            Found::Entry { parent, .. } => (parent, Vec::new()),
            Found::Missing { parent, rest } => (parent, rest),
            Found::Root => return Err(wrong_type(path, Verb::Write, Kind::Directory)),
        };
        let dirs = Created::make(parent, &rest).map_err(failed)?;
        match put(dirs.innermost(), &name, bytes, old, &options) {
            Ok(()) => Ok(written),
            Err(failure) => {
                dirs.undo();
                Err(failed(failure))
            }
        }
    }
}

enum Failure {
    System(Errno),
    Ownership,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Puts a whole file at `name`; afterwards there is the old one or the new one, and nothing else.
fn put(
    at: &Handle<'_>,
    name: &OsStr,
    bytes: &[u8],
    old: Option<Meta>,
    options: &WriteOptions,
) -> Result<(), Failure> {
    if old.is_some()
        && let Some(errno) = sys::refuses_write(at, name)
    {
        return Err(errno.into());
    }
    let (file, temp) = create_temp(at, old.map_or(0o666, |meta| meta.mode & 0o777))?;
    let placed = fill(&file, bytes, old, options).and_then(|()| {
        if options.create_new {
            sys::place_new(at, &temp, name)?;
        } else {
            sys::replace(at, &temp, name)?;
        }
        Ok(())
    });
    if placed.is_err() {
        // The first failure is the one to tell.
        let _ = sys::remove_file(at, &temp);
    }
    placed?;
    if options.durable {
        sys::sync_dir(at)?;
    }
    Ok(())
}

fn fill(
    mut file: &File,
    bytes: &[u8],
    old: Option<Meta>,
    options: &WriteOptions,
) -> Result<(), Failure> {
    file.write_all(bytes)?;
    if let Some(old) = old {
        if sys::meta_of(file)?.owner != old.owner {
            sys::set_owner(file, old.owner).map_err(|_| Failure::Ownership)?;
        }
        sys::set_mode(file, old.mode & 0o777)?;
    }
    if options.durable {
        file.sync_all()?;
    }
    Ok(())
}

/// Names tried before giving up; one is enough unless somebody guesses them.
const TEMP_TRIES: u32 = 16;

fn create_temp(at: &Handle<'_>, mode: u32) -> Result<(File, OsString), Errno> {
    for _ in 0..TEMP_TRIES {
        // Each RandomState has keys of its own.
        let name = OsString::from(format!(
            "{TEMP_PREFIX}{:016x}",
            RandomState::new().hash_one(0)
        ));
        match sys::create_file(at, &name, mode) {
            Ok(file) => return Ok((file, name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
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
    fn make(start: Handle<'s>, rest: &[OsString]) -> Result<Self, Failure> {
        let mut made = Self {
            start,
            dirs: Vec::new(),
        };
        let parents = &rest[..rest.len().saturating_sub(1)];
        if parents.len() > MAX_NEW_DIRS {
            return Err(Failure::System(Errno::NAMETOOLONG));
        }
        for name in parents {
            if let Err(errno) = made.push(name) {
                made.undo();
                return Err(errno.into());
            }
        }
        Ok(made)
    }

    fn push(&mut self, name: &OsStr) -> Result<(), Errno> {
        let at = self.innermost();
        let ours = match sys::create_dir(at, name) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let handle = Handle::Own(sys::open_dir(at, name)?);
        let name = name.to_owned();
        self.dirs.push(NewDir { name, handle, ours });
        Ok(())
    }

    fn innermost(&self) -> &Handle<'s> {
        self.dirs.last().map_or(&self.start, |dir| &dir.handle)
    }

    /// Takes the new directories away again, as far as they are still empty.
    fn undo(mut self) {
        while let Some(dir) = self.dirs.pop() {
            if dir.ours {
                let _ = sys::remove_dir(self.innermost(), &dir.name);
            }
        }
    }
}
