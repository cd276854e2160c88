//! Atomic writes: after any failure a name has the old file or the new one, never a part.
//!
//! A temporary file in the directory of the target receives the bytes and is then renamed over the
//! target (`rename(2)` is atomic within a file system). It is claimed with a lock (`flock(2)`) that
//! ends with its process, so that the next write recognises a stale one after a kill and removes
//! it.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};

use crate::backend::{
    AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileId, FileMeta, Handle,
};
use crate::cancellation::CancellationToken;
use crate::hash::ContentHash;
use crate::mount::name_rules::TEMP_PREFIX;
use crate::ops::write::file_lock::check_unchanged;

/// The reason why a file could not be written.
#[derive(Debug)]
pub(crate) enum AtomicWriteError {
    System(BackendError),
    Ownership,
}

impl From<BackendError> for AtomicWriteError {
    fn from(fault: BackendError) -> Self {
        Self::System(fault)
    }
}

/// The content of a new file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteSource<'a> {
    Bytes(&'a [u8]),
    /// The bytes of a file, up to its size when it was opened.
    File(&'a AnyFile, FileMeta),
}

/// Options of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteMode {
    pub(crate) create_new: bool,
    pub(crate) durable: bool,
    /// The bytes go into the old file, so that this write is not atomic.
    pub(crate) in_place: bool,
    /// The file that is replaced, if there is one.
    pub(crate) old: Option<FileMeta>,
    /// The content that the replaced file must have until then.
    pub(crate) content: Option<ContentHash>,
    /// The caller looks at the file once it is in place, and keeps it or takes it back.
    pub(crate) is_on_trial: bool,
}

/// A file that is in place.
#[derive(Debug)]
pub(crate) struct PlacedFile {
    /// `None` if it is not on trial.
    pub(crate) id: Option<FileId>,
    /// The name of the file that it has replaced, as long as it is on trial.
    old: Option<OsString>,
}

impl PlacedFile {
    /// Removes the file that it has replaced.
    pub(crate) async fn keep(self, at: &AnyDir) {
        if let Some(old) = self.old {
            let _ = at.remove_file(&old).await;
        }
    }

    /// Puts the file that it has replaced back, or removes it. An object that another program has put
    /// in its place stays.
    pub(crate) async fn take_back(self, at: &AnyDir, name: &OsStr) {
        let is_there = at.meta(name).await.ok().map(|meta| meta.id) == self.id;
        match self.old {
            Some(old) => {
                if is_there {
                    let _ = at.exchange(&old, at, name).await;
                }
                let _ = at.remove_file(&old).await;
            }
            None if is_there => drop(at.remove_file(name).await),
            None => {}
        }
    }
}

/// Writes a whole file at `name`. A failure leaves the old file unchanged and no temporary file.
pub(crate) async fn atomic_write(
    at: &AnyDir,
    name: &OsStr,
    source: WriteSource<'_>,
    how: WriteMode,
    cancel: &CancellationToken,
) -> Result<PlacedFile, AtomicWriteError> {
    if how.old.is_some()
        && let Some(fault) = at.refuses_write(name).await
    {
        return Err(fault.into());
    }
    let mode = match (&how.old, source) {
        (Some(old), _) => old.mode & 0o777,
        (None, WriteSource::File(_, from)) => from.mode & 0o777,
        (None, WriteSource::Bytes(_)) => 0o666,
    };
    let (file, temp) = create_temp(at, mode).await?;
    let written = async {
        fill(&file, source, how, cancel).await?;
        let id = match how.is_on_trial {
            true => Some(file.meta().await?.id),
            false => None,
        };
        let is_exchanged = place(at, &temp, name, how, cancel).await?;
        let old = is_exchanged.then(|| temp.clone());
        Ok(PlacedFile { id, old })
    };
    let written = written.await;
    if written.is_err() {
        // The first failure is reported.
        let _ = at.remove_file(&temp).await;
    }
    written
}

/// Renames the temporary file to its name, if the name still refers to the old file. `true` if the old
/// file has the temporary name then.
async fn place(
    at: &AnyDir,
    temp: &OsStr,
    name: &OsStr,
    how: WriteMode,
    cancel: &CancellationToken,
) -> Result<bool, BackendError> {
    let replaces = match &how.old {
        Some(old) if !how.create_new => {
            check_unchanged(at, name, old, how.content, cancel).await?;
            true
        }
        Some(_) | None => false,
    };
    // A file system without `RENAME_EXCHANGE` replaces.
    if replaces && how.is_on_trial && at.exchange(temp, at, name).await.is_ok() {
        return Ok(true);
    }
    let moved = match at.rename(temp, at, name, replaces).await {
        // Another process has created it: the caller retries with the present file.
        Err(BackendError::Exists) if how.old.is_none() && !how.create_new => {
            Err(BackendError::Link)
        }
        // A file system without `RENAME_NOREPLACE`.
        Err(BackendError::System(_) | BackendError::Kind(_) | BackendError::Invalid)
            if !replaces && !how.create_new && is_missing(at, name).await =>
        {
            at.rename(temp, at, name, true).await
        }
        moved => moved,
    };
    moved.map(|()| false)
}

async fn is_missing(at: &AnyDir, name: &OsStr) -> bool {
    matches!(at.meta(name).await, Err(BackendError::Missing))
}

async fn fill(
    file: &AnyFile,
    source: WriteSource<'_>,
    how: WriteMode,
    cancel: &CancellationToken,
) -> Result<(), AtomicWriteError> {
    match source {
        WriteSource::Bytes(bytes) => write_all(file, bytes, 0, cancel).await?,
        WriteSource::File(from, meta) => copy_bytes(from, meta.size, file, cancel).await?,
    }
    if let Some(old) = how.old {
        if file.meta().await?.owner != old.owner {
            let given = file.set_owner(old.owner).await;
            given.map_err(|_| AtomicWriteError::Ownership)?;
        }
        file.set_mode(old.mode & 0o777).await?;
    }
    if how.durable {
        file.sync().await?;
    }
    Ok(())
}

/// Bytes per read and write.
const CHUNK_BYTES: usize = 256 * 1024;

/// Writes all of `bytes`, unless the operation is cancelled.
pub(crate) async fn write_all(
    file: &AnyFile,
    bytes: &[u8],
    mut offset: u64,
    cancel: &CancellationToken,
) -> Result<(), BackendError> {
    for part in bytes.chunks(CHUNK_BYTES) {
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        file.write_at(part, offset).await?;
        offset += part.len() as u64;
    }
    Ok(())
}

async fn copy_bytes(
    from: &AnyFile,
    size: u64,
    to: &AnyFile,
    cancel: &CancellationToken,
) -> Result<(), BackendError> {
    let mut buffer = vec![
        0;
        usize::try_from(size)
            .unwrap_or(CHUNK_BYTES)
            .min(CHUNK_BYTES)
    ];
    let mut offset = 0;
    while offset < size {
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        let room = buffer
            .len()
            .min(usize::try_from(size - offset).unwrap_or(buffer.len()));
        let got = from.read_at(&mut buffer[..room], offset).await?;
        if got == 0 {
            break;
        }
        to.write_at(&buffer[..got], offset).await?;
        offset += got as u64;
    }
    Ok(())
}

/// Numbered names tried before a random one.
const TEMP_TRIES: u32 = 8;

/// Creates a claimed temporary file. The claim lasts while this process has it open.
async fn create_temp(at: &AnyDir, mode: u32) -> Result<(AnyFile, OsString), BackendError> {
    for number in 0..TEMP_TRIES {
        let name = OsString::from(format!("{TEMP_PREFIX}{number}"));
        let mut made = at.create_file(&name, mode).await;
        if matches!(made, Err(BackendError::Exists)) && remove_stale_temp(at, &name).await {
            made = at.create_file(&name, mode).await;
        }
        match made {
            // Another writer may have removed it between creation and claim.
            Ok(file) if is_ours(at, &name, &file).await => return Ok((file, name)),
            Ok(_) | Err(BackendError::Exists) => {}
            Err(fault) => return Err(fault),
        }
    }
    // Each RandomState has its own keys.
    let random = RandomState::new().hash_one(0);
    let name = OsString::from(format!("{TEMP_PREFIX}{random:016x}"));
    let file = at.create_file(&name, mode).await?;
    Ok((file, name))
}

/// Removes a stale temporary file.
async fn remove_stale_temp(at: &AnyDir, name: &OsStr) -> bool {
    match at.open_file(name).await {
        Ok(left) => is_ours(at, name, &left).await && at.remove_file(name).await.is_ok(),
        Err(_) => false,
    }
}

/// `true` if this handle has the claim and the name still refers to its file: only the owner of the
/// claim removes the name.
async fn is_ours(at: &AnyDir, name: &OsStr, file: &AnyFile) -> bool {
    if !file.claim().await {
        return false;
    }
    match (at.meta(name).await, file.meta().await) {
        (Ok(there), Ok(here)) => there.id == here.id,
        _ => false,
    }
}

/// New parent directories of a new file, from the outermost in.
pub(crate) struct NewParentDirs<'s> {
    start: Handle<'s>,
    dirs: Vec<NewDir<'s>>,
}

struct NewDir<'s> {
    name: OsString,
    /// Of the directory itself, not of its parent.
    handle: Handle<'s>,
    /// `true` if this process created it, `false` if another one was faster.
    ours: bool,
}

/// A path has fewer names than this; each new directory uses a descriptor until the end.
const MAX_NEW_DIRS: usize = 256;

impl<'s> NewParentDirs<'s> {
    /// Creates all of `rest` but its last name, which is that of the new object.
    pub(crate) async fn make(
        start: Handle<'s>,
        rest: &[OsString],
    ) -> Result<Self, AtomicWriteError> {
        let mut made = Self {
            start,
            dirs: Vec::new(),
        };
        let parents = &rest[..rest.len().saturating_sub(1)];
        if parents.len() > MAX_NEW_DIRS {
            return Err(AtomicWriteError::System(BackendError::NameTooLong));
        }
        for name in parents {
            if let Err(fault) = made.push(name).await {
                made.undo().await;
                return Err(fault.into());
            }
        }
        Ok(made)
    }

    async fn push(&mut self, name: &OsStr) -> Result<(), BackendError> {
        let at = self.innermost();
        let ours = match at.create_dir(name).await {
            Ok(()) => true,
            Err(BackendError::Exists) => false,
            Err(fault) => return Err(fault),
        };
        let handle = Handle::Own(at.open_dir(name).await?);
        let name = name.to_owned();
        self.dirs.push(NewDir { name, handle, ours });
        Ok(())
    }

    pub(crate) fn innermost(&self) -> &Handle<'s> {
        self.dirs.last().map_or(&self.start, |dir| &dir.handle)
    }

    /// Syncs the names of the new directories, and the entries of the innermost one, to the disk.
    pub(crate) async fn sync(&self) -> Result<(), BackendError> {
        self.start.sync().await?;
        for dir in &self.dirs {
            dir.handle.sync().await?;
        }
        Ok(())
    }

    /// Removes the new directories, as far as they are still empty.
    pub(crate) async fn undo(mut self) {
        while let Some(dir) = self.dirs.pop() {
            if dir.ours {
                let _ = self.innermost().remove_dir(&dir.name).await;
            }
        }
    }
}
