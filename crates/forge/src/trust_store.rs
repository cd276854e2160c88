//! What the person has agreed to: hashes of widening keys, one a line, in the state
//! directory, outside every project.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::bounded::read_text;
use crate::exit::{Exit, Failure};

/// Room for some ten thousand hashes.
const MAX_BYTES: u64 = 1024 * 1024;

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

    /// The hashes; none if there is no store yet.
    pub(crate) fn read(&self) -> Result<BTreeSet<String>, Failure> {
        match read_text(&self.file, MAX_BYTES) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces the hashes: the old file or the new one, never half of it.
    pub(crate) fn write(&self, hashes: &BTreeSet<String>) -> Result<(), Failure> {
        let text: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
        let new = self.file.with_extension(format!("{}", std::process::id()));
        let written = (|| {
            if let Some(dir) = self.file.parent() {
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(dir)?;
            }
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.file)
        })();
        written.map_err(|error| {
            let _ = std::fs::remove_file(&new);
            self.failed(&error)
        })
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::new(
            Exit::Negative,
            "state",
            format!("cannot use {}: {error}", self.file.display()),
        )
    }
}
