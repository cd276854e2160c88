//! `--record FILE`: the playbook of a run, written when it is over, however it ended.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_runtime::{Observer, PlaybookRecorder};
use forge_tools::Redactor;

use crate::exit::CliError;
use crate::written_file::open_plain;

/// A recording that is under way, if there is one.
pub(super) struct PlaybookRecording {
    to: Option<(PathBuf, File)>,
    recording: Option<Arc<PlaybookRecorder>>,
}

impl PlaybookRecording {
    /// Opens the file before the run begins: a run that cannot be kept is not paid for.
    pub(super) fn begin(file: Option<&Path>) -> Result<Self, CliError> {
        let to = match file {
            None => None,
            Some(path) => {
                check(path)?;
                let opened = open_plain(path).map_err(|error| failed(path, &error))?;
                Some((path.to_owned(), opened))
            }
        };
        Ok(PlaybookRecording {
            to,
            recording: None,
        })
    }

    /// Returns an observer that records the events before it passes them to `watcher`.
    pub(super) fn watching(
        &mut self,
        watcher: Arc<dyn Observer>,
        redactor: Arc<Redactor>,
    ) -> Arc<dyn Observer> {
        if self.to.is_none() {
            return watcher;
        }
        let recording = Arc::new(PlaybookRecorder::new(watcher, redactor));
        self.recording = Some(Arc::clone(&recording));
        recording
    }

    /// Writes the playbook.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let (Some((path, mut file)), Some(recording)) = (self.to, self.recording) else {
            return Ok(());
        };
        file.write_all(recording.playbook().as_bytes())
            .map_err(|error| failed(&path, &error))
    }
}

/// Nothing but an earlier recording is overwritten: a slip of the fingers is not to cost a file.
fn check(path: &Path) -> Result<(), CliError> {
    let refused = |why: &str| {
        let why = std::io::Error::other(why);
        Err(failed(path, &why).hint("name a file that is not there yet, or an earlier recording"))
    };
    // Other problems appear when it is opened.
    let Ok(facts) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if facts.is_dir() {
        return refused("it is a directory");
    }
    if facts.is_symlink() {
        return refused("it is a link");
    }
    if !facts.is_file() {
        return refused("not a file");
    }
    let mut begins = Vec::new();
    let length = u64::try_from(forge_runtime::RECORDING_HEADER.len()).unwrap_or(0);
    let read = File::open(path).and_then(|file| file.take(length).read_to_end(&mut begins));
    match read {
        Err(error) => Err(failed(path, &error)),
        Ok(0) => Ok(()),
        Ok(_) if begins == forge_runtime::RECORDING_HEADER.as_bytes() => Ok(()),
        Ok(_) => refused("it exists and is not a recording"),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> CliError {
    CliError::negative(
        "record",
        format!("cannot record the run in {}: {error}", path.display()),
    )
}
