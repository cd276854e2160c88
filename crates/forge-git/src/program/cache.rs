//! A bare repository of ours for each foreign repository, with the fetched and the unpushed
//! objects. One process works in it at a time, so half-written files belong to one that is gone.
//!
//! Git never removes fetched objects here, so whole repositories go: one that has grown too large
//! begins anew, and among all of them the longest unused ones make space. Removed ones are fetched
//! again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::address::Repo;
use crate::error::{GitError, GitErrorKind};

/// How deep references lie: `refs/forge/heads/` and the parts of a branch's name.
const MAX_DEPTH: usize = 140;
/// Files of one: small fetches leave a file for each object.
const MAX_FILES: u64 = 50_000;
/// Another process may be between two steps that need one content.
const IN_USE: Duration = Duration::from_secs(600);

pub(super) struct RepoCache {
    place: PathBuf,
    bare: PathBuf,
    /// Held as long as this lives.
    _turn: File,
}

/// Size of a bare repository.
#[derive(Clone, Copy, Default)]
struct RepoSize {
    bytes: u64,
    files: u64,
}

impl RepoCache {
    /// Waits for its turn, makes the repository if it is missing, and clears away incomplete files.
    pub(super) fn open(
        all: &Path,
        repo: &Repo,
        make: impl FnOnce(&Path) -> Result<(), GitError>,
    ) -> Result<RepoCache, GitError> {
        let name = sandbox_names::hex(Sha256::digest(repo.to_string()));
        let place = all.join(name.get(..32).unwrap_or_default());
        let failed = |error: io::Error| {
            GitErrorKind::Failed.error(format!("The cache of {repo} cannot be used: {error}."))
        };
        fs::create_dir_all(&place).map_err(failed)?;
        let turn = turn(&place).map_err(failed)?;
        turn.lock().map_err(failed)?;
        turn.set_modified(SystemTime::now()).map_err(failed)?;
        let (bare, made) = (place.join("bare"), place.join("made"));
        if made.exists() {
            clear(&bare).map_err(failed)?;
        } else {
            remove(&bare).map_err(failed)?;
            fs::create_dir(&bare).map_err(failed)?;
            make(&bare)?;
            File::create(&made).map_err(failed)?;
        }
        Ok(RepoCache {
            place,
            bare,
            _turn: turn,
        })
    }

    /// Returns `true` if it has become so large that it should begin anew.
    pub(super) fn is_full(&self, max_bytes: u64) -> bool {
        let size = size(&self.bare);
        size.bytes > max_bytes || size.files > MAX_FILES
    }

    /// The next that opens it makes it anew.
    pub(super) fn forget(self) -> io::Result<()> {
        fs::remove_file(self.place.join("made"))
    }

    /// Returns `true` if its server gives single contents only with all others.
    pub(super) fn is_whole(&self) -> bool {
        self.place.join("whole").exists()
    }

    /// From now on all contents are fetched with a head.
    pub(super) fn whole_from_now_on(self) -> io::Result<()> {
        File::create(self.place.join("whole"))?;
        self.forget()
    }

    /// Notes its size, and removes others until all of them fit. A repository in use, or just used,
    /// stays.
    pub(super) fn make_room(&self, all: &Path, max_bytes: u64) -> io::Result<()> {
        fs::write(self.place.join("made"), size(&self.bare).bytes.to_string())?;
        let mut others = Vec::new();
        let mut total: u64 = 0;
        for entry in fs::read_dir(all)? {
            let place = entry?.path();
            let Ok(noted) = fs::read_to_string(place.join("made")) else {
                continue;
            };
            let bytes: u64 = noted.trim().parse().unwrap_or(0);
            total = total.saturating_add(bytes);
            let used = fs::metadata(place.join("turn")).and_then(|about| about.modified());
            others.push((used.unwrap_or(SystemTime::UNIX_EPOCH), bytes, place));
        }
        others.sort();
        for (used, bytes, place) in others {
            let is_old = used.elapsed().is_ok_and(|since| since > IN_USE);
            if total <= max_bytes || !is_old {
                break;
            }
            let turn = turn(&place)?;
            if place != self.place && turn.try_lock().is_ok() {
                // In this order: without that file, the remains of the other are not used.
                fs::remove_file(place.join("made"))?;
                remove(&place.join("bare"))?;
                total = total.saturating_sub(bytes);
            }
        }
        Ok(())
    }

    pub(super) fn bare(&self) -> &Path {
        &self.bare
    }
}

fn turn(place: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(place.join("turn"))
}

fn remove(bare: &Path) -> io::Result<()> {
    match fs::remove_dir_all(bare) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Unreadable files count as empty; other programs do not write here.
fn size(dir: &Path) -> RepoSize {
    let mut size = RepoSize::default();
    let mut left = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = left.pop() {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries {
            match entry.metadata() {
                Ok(about) if about.is_dir() && depth < MAX_DEPTH => {
                    left.push((entry.path(), depth + 1));
                }
                Ok(about) => {
                    size.bytes = size.bytes.saturating_add(about.len());
                    size.files += 1;
                }
                Err(_) => {}
            }
        }
    }
    size
}

/// Takes away locks and packs that a process has begun.
fn clear(bare: &Path) -> io::Result<()> {
    let is_lock = |name: &str| name.ends_with(".lock");
    each(bare, 0, &is_lock)?;
    each(&bare.join("refs"), MAX_DEPTH, &is_lock)?;
    let is_begun = |name: &str| name.starts_with("tmp_") || name.starts_with(".tmp-");
    each(&bare.join("objects/pack"), 0, &is_begun)
}

fn each(dir: &Path, depth: usize, is_left: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                each(&entry.path(), depth - 1, is_left)?;
            }
        } else if name.to_str().is_some_and(is_left) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
