//! The index of pulled files: their content when they were pulled, to detect and merge local edits.
//!
//! For each repository, branch and directory that files were pulled to, the store has one index,
//! replaced by a rename; the contents are beside it under their hashes. All of it is a memory only:
//! where a part is gone or damaged, a file counts as one that was never pulled, and the file itself
//! is not lost.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use file_sandbox::{ContentHash, ErrorKind, ListOptions, SandboxPath, WriteOptions};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::address::Repo;
use super::error::{GitError, unless};
use super::names::BranchName;
use super::repo_path::RepoPath;
use super::store::StagedStore;

/// Most places that files were pulled to. The one that was used longest ago goes first.
const MAX_PLACES: usize = 64;
/// Most files of one place.
const MAX_FILES: usize = 20_000;
/// Most bytes of all contents together.
const MAX_BYTES: u64 = 512 << 20;
/// Bound on one index.
const MAX_INDEX_BYTES: u64 = 32 << 20;
/// Bound on one content that is merged with.
const MAX_CONTENT_BYTES: u64 = 4 << 20;
/// Unreferenced contents are searched this often, and kept for as long: another process may be
/// about to refer to them.
const SWEEP: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_SWEPT: usize = 200_000;

/// A place that files of a branch were pulled to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PullDestination {
    pub(super) repo: Repo,
    pub(super) branch: BranchName,
    /// Where the top of the repository is, among the worker's files.
    pub(super) into: SandboxPath,
}

/// The known files of one destination.
pub(super) struct PullIndex {
    pub(super) place: PullDestination,
    pub(super) files: BTreeMap<RepoPath, PulledEntry>,
    /// `true` if this process wrote it: otherwise the worker's files may be others by now.
    pub(super) of_now: bool,
}

/// One pulled file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PulledEntry {
    /// Its content when it was pulled.
    pub(super) base: Option<ContentHash>,
    /// The content that a pull was about to write. The write is unconfirmed as yet, or for ever:
    /// the process ended.
    pub(super) next: Option<ContentHash>,
    pub(super) bytes: u64,
}

impl PulledEntry {
    /// Returns the base for a file with that content.
    pub(super) fn base_of(&self, local: &ContentHash) -> Option<ContentHash> {
        match self.next {
            Some(next) if next == *local => Some(next),
            Some(_) | None => self.base,
        }
    }

    /// Returns the content that was pulled last, as far as it is known.
    pub(super) fn last(&self) -> Option<ContentHash> {
        self.base.or(self.next)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredIndex {
    version: u32,
    /// Of the process that wrote it.
    by: String,
    repo: String,
    branch: String,
    into: String,
    files: BTreeMap<String, StoredEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredEntry {
    base: Option<String>,
    next: Option<String>,
    bytes: u64,
}

impl PullDestination {
    fn key(&self) -> String {
        let mut hash = Sha256::new();
        for part in [
            &self.repo.to_string(),
            self.branch.as_str(),
            self.into.as_str(),
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        sandbox_names::hex(hash.finalize())
    }
}

impl StagedStore {
    /// Returns the index of a destination; empty if it cannot be read.
    pub(super) fn index(&self, place: &PullDestination) -> Result<PullIndex, GitError> {
        let known = self.read_index(&index_at(&place.key())?)?;
        Ok(known
            .filter(|index| index.place == *place)
            .unwrap_or_else(|| PullIndex {
                place: place.clone(),
                files: BTreeMap::new(),
                of_now: true,
            }))
    }

    /// All that is known, of these repositories.
    pub(super) fn indexes(&self, of: &[Repo]) -> Result<Vec<PullIndex>, GitError> {
        let mut all = Vec::new();
        for (at, _) in self.places()? {
            all.extend(self.read_index(&at)?);
        }
        all.retain(|index| of.contains(&index.place.repo));
        Ok(all)
    }

    /// Adds to the index of a destination.
    pub(super) fn note(
        &self,
        place: &PullDestination,
        rows: &[(RepoPath, PulledEntry)],
    ) -> Result<(), GitError> {
        // Two pulls at once both keep each other's notes.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = self.index(place)?;
        index.files.extend(rows.iter().cloned());
        self.put_index(&index)
    }

    fn put_index(&self, index: &PullIndex) -> Result<(), GitError> {
        let row = |(path, row): (&RepoPath, &PulledEntry)| {
            let kept = StoredEntry {
                base: row.base.map(|hash| hash.to_string()),
                next: row.next.map(|hash| hash.to_string()),
                bytes: row.bytes,
            };
            (path.to_string(), kept)
        };
        let kept = StoredIndex {
            version: 1,
            by: self.token().to_owned(),
            repo: index.place.repo.to_string(),
            branch: index.place.branch.to_string(),
            into: index.place.into.as_str().to_owned(),
            files: index.files.iter().take(MAX_FILES).map(row).collect(),
        };
        // Strings and numbers only: serialising them cannot fail.
        let text = serde_json::to_string(&kept).unwrap_or_default();
        let at = index_at(&index.place.key())?;
        self.files().write(&at, &text, WriteOptions::new())?;
        Ok(())
    }

    /// A content that was pulled; none where it is gone, another one, or too long to be merged.
    pub(super) fn pulled(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, GitError> {
        let bytes = self
            .files()
            .read_bytes(&content_at(hash)?, MAX_CONTENT_BYTES);
        let bytes = unless(bytes, &[ErrorKind::NotFound, ErrorKind::TooLarge])?;
        Ok(bytes.filter(|bytes| ContentHash::of(bytes) == hash))
    }

    /// Keeps a content to be merged with later.
    pub(super) fn keep_pulled(&self, hash: ContentHash, bytes: &[u8]) -> Result<(), GitError> {
        let at = content_at(hash)?;
        let is_there = |stat: file_sandbox::Stat| stat.size == bytes.len() as u64;
        // A file that is never merged needs no copy.
        if bytes.len() as u64 > MAX_CONTENT_BYTES || self.files().stat(&at).is_ok_and(is_there) {
            return Ok(());
        }
        self.files().write_bytes(&at, bytes, WriteOptions::new())?;
        Ok(())
    }

    /// Removes surplus indexes, except one, and once in a while unreferenced contents.
    pub(super) fn sweep_pulled(&self, but: &PullDestination) -> Result<(), GitError> {
        let own = index_at(&but.key())?;
        let mut places = self.places()?;
        // The newest first.
        places.sort_by_key(|(at, changed)| (*at != own, std::cmp::Reverse(*changed)));
        let (mut bytes, mut referred, mut dropped) = (0_u64, HashSet::new(), false);
        for (count, (at, _)) in places.iter().enumerate() {
            let index = self.read_index(at)?;
            let size: u64 = index
                .iter()
                .flat_map(|index| index.files.values())
                .map(|row| row.bytes)
                .fold(0, u64::saturating_add);
            bytes = bytes.saturating_add(size);
            let too_much = count >= MAX_PLACES || bytes > MAX_BYTES;
            match index {
                Some(index) if !too_much || *at == own => {
                    let rows = index.files.values();
                    referred.extend(rows.flat_map(|row| [row.base, row.next]).flatten());
                }
                Some(_) | None => {
                    dropped = true;
                    let _next_time = self.files().delete(at);
                }
            }
        }
        let mark = SandboxPath::parse("/pulled/swept")?;
        let now = SystemTime::now();
        let is_old = |at: Option<SystemTime>| {
            at.is_none_or(|at| now.duration_since(at).is_ok_and(|age| age > SWEEP))
        };
        let marked = self.files().stat(&mark).ok().and_then(|stat| stat.modified);
        if !dropped && !is_old(marked) {
            return Ok(());
        }
        self.files().write(&mark, "", WriteOptions::new())?;
        let contents = SandboxPath::parse("/pulled/contents")?;
        let options = ListOptions::new().pattern("*/*").max_entries(MAX_SWEPT);
        let listing = self.files().list(&contents, options);
        let Some(listing) = unless(listing, &[ErrorKind::NotFound])? else {
            return Ok(());
        };
        for entry in listing.entries {
            let at = contents.join(&entry.name)?;
            let hash = at.file_name().and_then(|name| name.parse().ok());
            let is_referred = hash.is_some_and(|hash| referred.contains(&hash));
            let written = self.files().stat(&at).ok().and_then(|stat| stat.modified);
            if !is_referred && (dropped || is_old(written)) {
                let _next_time = self.files().delete(&at);
            }
        }
        Ok(())
    }

    /// Every index, and when it was written.
    fn places(&self) -> Result<Vec<(SandboxPath, Option<SystemTime>)>, GitError> {
        let dir = SandboxPath::parse("/pulled/places")?;
        let options = ListOptions::new().max_entries(4 * MAX_PLACES);
        let listing = self.files().list(&dir, options);
        let Some(listing) = unless(listing, &[ErrorKind::NotFound])? else {
            return Ok(Vec::new());
        };
        let mut places = Vec::with_capacity(listing.entries.len());
        for entry in listing.entries {
            let at = dir.join(&entry.name)?;
            let changed = self.files().stat(&at).ok().and_then(|stat| stat.modified);
            places.push((at, changed));
        }
        Ok(places)
    }

    /// Returns `None` if it is missing, or not an index of ours.
    fn read_index(&self, at: &SandboxPath) -> Result<Option<PullIndex>, GitError> {
        let text = self.files().read_bytes(at, MAX_INDEX_BYTES);
        let text = unless(text, &[ErrorKind::NotFound, ErrorKind::TooLarge])?;
        Ok(text.and_then(|text| self.parse_index(&text)))
    }

    fn parse_index(&self, text: &[u8]) -> Option<PullIndex> {
        let kept: StoredIndex = serde_json::from_slice(text).ok()?;
        let hash = |text: Option<String>| match text {
            None => Some(None),
            Some(text) => text.parse().ok().map(Some),
        };
        let mut files = BTreeMap::new();
        for (path, row) in kept.files {
            let row = PulledEntry {
                base: hash(row.base)?,
                next: hash(row.next)?,
                bytes: row.bytes,
            };
            files.insert(RepoPath::parse(&path).ok()?, row);
        }
        let place = PullDestination {
            repo: Repo::parse(&kept.repo).ok()?,
            branch: BranchName::parse(&kept.branch).ok()?,
            into: SandboxPath::parse(&kept.into).ok()?,
        };
        (kept.version == 1).then(|| PullIndex {
            place,
            files,
            of_now: kept.by == self.token(),
        })
    }
}

fn index_at(key: &str) -> Result<SandboxPath, GitError> {
    Ok(SandboxPath::parse(&format!("/pulled/places/{key}"))?)
}

fn content_at(hash: ContentHash) -> Result<SandboxPath, GitError> {
    let name = hash.to_string();
    let above = name.get(..2).unwrap_or_default();
    Ok(SandboxPath::parse(&format!(
        "/pulled/contents/{above}/{name}"
    ))?)
}
