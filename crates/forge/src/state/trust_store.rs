//! The user's trust decisions: hashes of privileged settings, one a line, in the state directory,
//! outside every project. A writer of this file could agree to anything in the user's name, so a
//! file that others can write is not read.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::bounded::read_text;
use crate::exit::CliError;

/// Room for some ten thousand hashes.
const MAX_BYTES: u64 = 1024 * 1024;

/// SHA-256 in hex.
const HASH_CHARS: usize = 64;

/// The file of hashes.
#[derive(Debug)]
pub(crate) struct TrustStore {
    file: PathBuf,
}

impl TrustStore {
    /// The store in this state directory.
    pub(crate) fn in_state(state: &Path) -> Self {
        TrustStore {
            file: state.join("trusted"),
        }
    }

    /// Returns the store of untrusted settings that the person was warned of, one hash for all of a
    /// project.
    pub(crate) fn of_warnings(state: &Path) -> Self {
        TrustStore {
            file: state.join("warned"),
        }
    }

    /// Returns the stores of the person's answers about presets: yes and no to sharing, one hash for
    /// all that one question named.
    pub(crate) fn of_presets(state: &Path) -> (Self, Self) {
        let store = |name: &str| TrustStore {
            file: state.join(name),
        };
        (store("preset-shared"), store("preset-apart"))
    }

    /// Reads the hashes; empty if the store does not exist yet.
    pub(crate) fn read(&self) -> Result<BTreeSet<String>, CliError> {
        for path in [self.file.parent(), Some(&*self.file)]
            .into_iter()
            .flatten()
        {
            match std::fs::symlink_metadata(path) {
                Ok(meta) => {
                    self.check_own(path, &meta)?;
                    if meta.is_symlink() {
                        match std::fs::metadata(path) {
                            Ok(meta) => self.check_own(path, &meta)?,
                            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                                return Ok(BTreeSet::new());
                            }
                            Err(error) => return Err(self.failed(&error)),
                        }
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(BTreeSet::new());
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let text = read_text(&self.file, MAX_BYTES).map_err(|error| self.failed(&error))?;
        let mut hashes = BTreeSet::new();
        for (index, line) in text.lines().enumerate() {
            let is_hash = line.len() == HASH_CHARS
                && line
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !is_hash {
                let line = index + 1;
                return Err(self.refused(format!("line {line} is not what forge writes there")));
            }
            hashes.insert(line.to_owned());
        }
        Ok(hashes)
    }

    /// Changes the hashes under a lock, so that two concurrent changes both count, and atomically,
    /// so that the file is whole whenever forge is stopped.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut BTreeSet<String>),
    ) -> Result<(), CliError> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        let lock = crate::state::private_dirs::lock(dir, &self.file.with_extension("lock"));
        let lock = lock.map_err(|error| self.failed(&error))?;
        let mut hashes = self.read()?;
        change(&mut hashes);
        let replaced = self.replace(dir, &hashes);
        drop(lock);
        replaced.map_err(|error| self.failed(&error))
    }

    fn replace(&self, dir: &Path, hashes: &BTreeSet<String>) -> std::io::Result<()> {
        // One name, under the lock: the next change overwrites the leftover of a kill.
        let new = self.file.with_extension("new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        let text: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.file)?;
        File::open(dir)?.sync_all()
    }

    /// Checks that directory and file belong to the user, and that no other user can write them.
    fn check_own(&self, path: &Path, meta: &std::fs::Metadata) -> Result<(), CliError> {
        let shown = path.display();
        if meta.file_type().is_symlink() && path == self.file {
            return Err(self.refused(format!("{shown} is a link")));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(self.refused(format!("{shown} belongs to another user")));
        }
        // A link does not have a mode of its own; its target has, and is checked as well.
        if !meta.is_symlink() && meta.mode() & 0o022 != 0 {
            return Err(self.refused(format!("{shown} can be written by others")));
        }
        Ok(())
    }

    fn refused(&self, why: String) -> CliError {
        let shown = self.file.display();
        let message = format!("what was agreed to cannot be read from {shown}: {why}");
        CliError::misuse("trust.store", message).hint(format!(
            "look at it, remove it (`rm {shown}`), and agree again with `forge trust`"
        ))
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        CliError::own_file(self.file.display(), error, "FORGE_STATE_DIR")
    }
}
