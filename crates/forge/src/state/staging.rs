//! The directories of commits staged for git repositories: one of each project in the state
//! directory, `git/<project>/staged`, beside `git/cache` with the fetched objects. Only the owner
//! can read them, and no worker can see them: forge's own directories are not mounts. A writer
//! there could have a person push commits that were not staged, so a directory is not used if it is
//! a link, has another owner or is open to others.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use file_sandbox::{Mode, Mount, SandboxPath, cap_std};
use forge_git::{GitProgram, StagedStore};
use os_sandbox::Support;
use rustix::fs::OFlags;
use sandbox_names::hex;
use sha2::{Digest as _, Sha256};

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::state::private_dirs::{check_private, make_private};

/// Enough of a hash to keep projects apart.
const KEY_BYTES: usize = 16;

/// The directories of one project. None of them needs to exist.
#[derive(Debug, Clone)]
pub(crate) struct Staging {
    state: PathBuf,
    /// `git/<project>`, below the state directory.
    project: PathBuf,
}

impl Staging {
    /// Returns the directories of the project in this directory.
    pub(crate) fn of(project: &Path, ambient: &Ambient) -> Result<Self, CliError> {
        let state = ambient.state_dir()?;
        let whole = project
            .canonicalize()
            .unwrap_or_else(|_| project.to_owned());
        let hash = Sha256::digest(whole.as_os_str().as_bytes());
        let key = hex(&hash[..KEY_BYTES]);
        Ok(Staging {
            state: std::path::absolute(state).unwrap_or_else(|_| state.to_owned()),
            project: Path::new("git").join(key),
        })
    }

    /// Opens the store for new commits, and creates it if needed.
    pub(crate) fn open(&self) -> Result<StagedStore, CliError> {
        let dir = self.made(&self.staged())?;
        self.store(&dir)
    }

    /// Opens the store; `None` if it was never created.
    pub(crate) fn existing(&self) -> Result<Option<StagedStore>, CliError> {
        let below = self.staged();
        match check_private(&self.state, &below) {
            Ok(dir) => self.store(&dir).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(&below, &error)),
        }
    }

    /// Returns the git program with its cache, confined by means of `support`.
    pub(crate) fn program(&self, support: Support) -> Result<GitProgram, CliError> {
        let cache = self.made(&Path::new("git").join("cache"))?;
        Ok(GitProgram::new(cache, support))
    }

    /// Waits until no other forge pushes or discards in this project, and keeps others from it as
    /// long as the result lives.
    pub(crate) async fn turn(&self) -> Result<File, CliError> {
        let dir = self.made(&self.project)?;
        let waited = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0))
                .open(dir.join("turn"))?;
            file.lock()?;
            Ok(file)
        });
        let turn = waited
            .await
            .unwrap_or_else(|error| Err(Error::other(error)));
        turn.map_err(|error| self.failed(&self.project, &error))
    }

    fn staged(&self) -> PathBuf {
        self.project.join("staged")
    }

    fn made(&self, below: &Path) -> Result<PathBuf, CliError> {
        make_private(&self.state, below).map_err(|error| self.failed(below, &error))
    }

    fn store(&self, dir: &Path) -> Result<StagedStore, CliError> {
        let opened = Mount::open_ambient(
            SandboxPath::root(),
            dir,
            Mode::ReadWrite,
            cap_std::ambient_authority(),
        );
        let store = opened.map_err(|error| self.failed(&self.staged(), &Error::other(error)))?;
        StagedStore::new(store)
            .map_err(|error| self.failed(&self.staged(), &Error::other(error.to_string())))
    }

    fn failed(&self, below: &Path, error: &Error) -> CliError {
        let shown = self.state.join(below);
        CliError::state(format!(
            "what is staged cannot be kept in {}: {error}",
            shown.display()
        ))
    }
}
