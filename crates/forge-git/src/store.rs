//! Where staged commits are kept: a directory that no worker sees.
//!
//! A commit is one directory. Its contents come first, by their hash, and the file that describes
//! them comes last, by a rename: after any end of the process, a commit is complete or absent. A
//! removal takes that file first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use file_sandbox::{
    ContentHash, ErrorKind, FileSandbox, ListOptions, Mode, Mount, SandboxPath, WriteOptions,
};

use super::error::{GitError, GitErrorKind, unless};
use super::names::{ObjectId, StagedId};
use super::staged::{DamagedCommit, StagedCommit, StagedList, StoredCommit};

/// Most staged commits at once.
const MAX_COMMITS: usize = 500;
/// Most bytes of all their contents.
const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of a description: its difference, which a person is to be shown whole, and up to 1000
/// paths.
const MAX_KEPT_BYTES: u64 = 16 << 20;
/// An object's name.
const MAX_ATTEMPT_BYTES: u64 = 100;
/// Incomplete commits of this age belong to a process that is gone.
const BEGUN_SECONDS: u64 = 24 * 60 * 60;

/// A store of staged commits, and of the contents of pulled files.
///
/// ```
/// use forge_git::StagedStore;
/// use file_sandbox::{Mode, Mount, SandboxPath};
///
/// let kept_elsewhere = StagedStore::in_memory()?;
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let kept = StagedStore::new(Mount::open_ambient(
///     SandboxPath::root(),
///     path,
///     Mode::ReadWrite,
///     file_sandbox::cap_std::ambient_authority(),
/// )?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StagedStore {
    files: FileSandbox,
    token: Arc<str>,
}

impl StagedStore {
    /// In a directory of its own, given as the mount at `/`. Nothing else may write there.
    ///
    /// # Errors
    /// The mount is not at `/`, or cannot be written.
    pub fn new(mount: Mount) -> Result<Self, GitError> {
        if !mount.target().is_root() || mount.mode() != Mode::ReadWrite {
            return Err(
                GitErrorKind::Invalid.error("What is staged is kept in a writable mount at '/'.")
            );
        }
        let files = FileSandbox::new(vec![mount])?;
        let token = sandbox_names::hex(random()?).into();
        Ok(StagedStore { files, token })
    }

    /// In memory, until the last copy of it goes.
    ///
    /// # Errors
    /// None that are known.
    pub fn in_memory() -> Result<Self, GitError> {
        StagedStore::new(Mount::memory(SandboxPath::root(), Mode::ReadWrite))
    }

    /// A name for a commit of now, after all that this process has made before.
    pub(crate) fn next_id(&self) -> Result<(StagedId, u64), GitError> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
        let last = LAST.fetch_max(now, Ordering::SeqCst);
        let at = match now > last {
            true => now,
            false => LAST.fetch_add(1, Ordering::SeqCst).saturating_add(1),
        };
        Ok((StagedId::new(at, random()?), at))
    }

    /// Keeps a commit with its contents.
    pub(crate) fn put(&self, commit: &StagedCommit, contents: &[Vec<u8>]) -> Result<(), GitError> {
        self.sweep();
        let full = |what: String| {
            GitErrorKind::TooLarge
                .error(what)
                .hint("Push or discard some of them.")
        };
        let kept = self.all()?;
        if kept.commits.len() + kept.damaged.len() >= MAX_COMMITS {
            return Err(full(format!("{MAX_COMMITS} commits are staged already.")));
        }
        let bytes = |commit: &StagedCommit| -> u64 {
            let files = commit.files.iter().map(|file| file.bytes);
            files.fold(0, u64::saturating_add)
        };
        let staged = kept.commits.iter().chain([commit]).map(bytes);
        if staged.fold(0, u64::saturating_add) > MAX_BYTES {
            return Err(full(format!(
                "With it, what is staged would have more than {MAX_BYTES} bytes."
            )));
        }
        let text = commit.to_stored().text();
        if text.len() as u64 > MAX_KEPT_BYTES {
            return Err(GitErrorKind::TooLarge
                .error("What describes the commit is too long.")
                .hint("Stage fewer files at once."));
        }
        let written = self.write(&commit.id, &text, contents);
        if written.is_err() {
            // Or it is swept later.
            let _begun = self.files.delete_all(&self.place(&commit.id)?);
        }
        written
    }

    fn write(&self, id: &StagedId, text: &str, contents: &[Vec<u8>]) -> Result<(), GitError> {
        let options = || WriteOptions::new().durable(true);
        for content in contents {
            let at = self.blob(id, ContentHash::of(content))?;
            self.files.write_bytes(&at, content, options())?;
        }
        self.files.write(&self.description(id)?, text, options())?;
        Ok(())
    }

    /// A commit; none where nothing of that name is staged.
    pub(crate) fn get(&self, id: &StagedId) -> Result<Option<StagedCommit>, GitError> {
        let text = self
            .files
            .read_bytes(&self.description(id)?, MAX_KEPT_BYTES);
        let Some(text) = unless(text, &[ErrorKind::NotFound])? else {
            return Ok(None);
        };
        let mut commit = StoredCommit::read(&text, id)?;
        commit.pushing = self.pushing(id)?;
        Ok(Some(commit))
    }

    /// A commit that is staged.
    pub(super) fn expect(&self, id: &StagedId) -> Result<StagedCommit, GitError> {
        self.get(id)?.ok_or_else(|| nothing_staged(id))
    }

    /// All of them; those that cannot be read with the reason.
    pub(crate) fn all(&self) -> Result<StagedList, GitError> {
        let mut list = StagedList::default();
        for id in self.ids()? {
            match self.get(&id) {
                Ok(Some(commit)) => list.commits.push(commit),
                // One that goes meanwhile is not staged.
                Ok(None) => {}
                Err(why) => list.damaged.push(DamagedCommit { id, why }),
            }
        }
        Ok(list)
    }

    /// The commit of a push that has not returned. Other content in that file is not a commit, so
    /// it is ignored.
    fn pushing(&self, id: &StagedId) -> Result<Option<ObjectId>, GitError> {
        let text = self.files.read_bytes(&self.attempt(id)?, MAX_ATTEMPT_BYTES);
        let text = unless(text, &[ErrorKind::NotFound])?.unwrap_or_default();
        Ok(std::str::from_utf8(&text).ok().and_then(ObjectId::parse))
    }

    /// Remembers the commit of a push before it is sent.
    pub(crate) fn set_pushing(&self, id: &StagedId, commit: &ObjectId) -> Result<(), GitError> {
        let options = WriteOptions::new().durable(true);
        self.files
            .write(&self.attempt(id)?, commit.as_str(), options)?;
        Ok(())
    }

    /// Returns a content of a commit, if it is unchanged.
    pub(crate) fn content(
        &self,
        id: &StagedId,
        hash: ContentHash,
        bytes: u64,
    ) -> Result<Vec<u8>, GitError> {
        // No more is read than there was.
        let content = self.files.read_bytes(&self.blob(id, hash)?, bytes);
        let content = unless(content, &[ErrorKind::TooLarge, ErrorKind::NotFound])?;
        let unchanged = content.filter(|content| ContentHash::of(content) == hash);
        unchanged.ok_or_else(|| {
            GitErrorKind::Damaged
                .error(format!("What was staged in {id} is no longer what it was."))
                .hint("Discard it, and stage the files again.")
        })
    }

    /// Whether it was there.
    pub(crate) fn remove(&self, id: &StagedId) -> Result<bool, GitError> {
        let deleted = self.files.delete(&self.description(id)?);
        if unless(deleted, &[ErrorKind::NotFound])?.is_none() {
            return Ok(false);
        }
        // The commit is gone by now; its remains are swept later.
        let _left = self.files.delete_all(&self.place(id)?);
        Ok(true)
    }

    sandbox_names::getters! {
        /// Of this process, as far as it matters which one wrote something.
        pub(super) token: &str = &token;
        pub(super) files: &FileSandbox = &files;
    }

    fn ids(&self) -> Result<Vec<StagedId>, GitError> {
        let begun = self.begun()?;
        let is_whole = |id: &StagedId| {
            let at = self.description(id);
            at.is_ok_and(|at| self.files.exists(&at).unwrap_or(true))
        };
        Ok(begun.into_iter().filter(is_whole).collect())
    }

    /// Every directory of a commit, whole or not.
    fn begun(&self) -> Result<Vec<StagedId>, GitError> {
        let options = ListOptions::new().max_entries(2 * MAX_COMMITS);
        let listing = self.files.list(&SandboxPath::parse("/staged")?, options);
        let Some(listing) = unless(listing, &[ErrorKind::NotFound])? else {
            return Ok(Vec::new());
        };
        let names = listing
            .entries
            .iter()
            .map(|entry| StagedId::parse(&entry.name));
        let mut ids: Vec<StagedId> = names.filter_map(Result::ok).collect();
        ids.sort();
        Ok(ids)
    }

    /// Removes incomplete commits of processes that are gone.
    fn sweep(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        for id in self.begun().unwrap_or_default() {
            let begun = u64::from_str_radix(&id.as_str()[..16], 16).unwrap_or(u64::MAX);
            let old = now.saturating_sub(begun / 1_000_000_000) > BEGUN_SECONDS;
            let whole = self.description(&id).map(|at| self.files.exists(&at));
            if let (true, Ok(Ok(false)), Ok(place)) = (old, whole, self.place(&id)) {
                let _next_time = self.files.delete_all(&place);
            }
        }
    }

    fn place(&self, id: &StagedId) -> Result<SandboxPath, GitError> {
        Ok(SandboxPath::parse(&format!("/staged/{id}"))?)
    }

    fn description(&self, id: &StagedId) -> Result<SandboxPath, GitError> {
        Ok(SandboxPath::parse(&format!("/staged/{id}/commit.json"))?)
    }

    fn attempt(&self, id: &StagedId) -> Result<SandboxPath, GitError> {
        Ok(SandboxPath::parse(&format!("/staged/{id}/pushing"))?)
    }

    fn blob(&self, id: &StagedId, hash: ContentHash) -> Result<SandboxPath, GitError> {
        Ok(SandboxPath::parse(&format!("/staged/{id}/{hash}"))?)
    }
}

fn random() -> Result<[u8; 8], GitError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
        GitErrorKind::Failed.error(format!("Cannot read random bytes: {error}."))
    })?;
    Ok(random)
}

/// The error for every missing commit.
pub(super) fn nothing_staged(id: &StagedId) -> GitError {
    GitErrorKind::NotFound
        .error(format!("Nothing is staged as {id}."))
        .hint("List what is staged: it may have been pushed or discarded.")
}
