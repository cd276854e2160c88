//! A bare repository of ours for each repository of others: what was fetched, and what is about to
//! be pushed. One process works in it at a time, so whatever lies there half is of one that is gone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::git::error::{GitError, GitErrorKind};
use crate::git::names::Repo;

/// How deep references lie: `refs/forge/heads/` and the parts of a branch's name.
const MAX_DEPTH: usize = 140;

pub(super) struct Cache {
    bare: PathBuf,
    /// Held as long as this lives.
    _turn: File,
}

impl Cache {
    /// Waits for its turn, makes the repository if there is none, and clears away what was begun.
    pub(super) fn open(
        all: &Path,
        repo: &Repo,
        make: impl FnOnce(&Path) -> Result<(), GitError>,
    ) -> Result<Cache, GitError> {
        let name = crate::hex::hex(&Sha256::digest(repo.to_string()));
        let place = all.join(name.get(..32).unwrap_or_default());
        let failed = |error: io::Error| {
            GitError::new(
                GitErrorKind::Failed,
                format!("The cache of {repo} cannot be used: {error}."),
            )
        };
        fs::create_dir_all(&place).map_err(failed)?;
        let turn = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(place.join("turn"))
            .map_err(failed)?;
        turn.lock().map_err(failed)?;
        let (bare, made) = (place.join("bare"), place.join("made"));
        if made.exists() {
            clear(&bare).map_err(failed)?;
        } else {
            match fs::remove_dir_all(&bare) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
            fs::create_dir(&bare).map_err(failed)?;
            make(&bare)?;
            File::create(&made).map_err(failed)?;
        }
        Ok(Cache { bare, _turn: turn })
    }

    pub(super) fn bare(&self) -> &Path {
        &self.bare
    }
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
