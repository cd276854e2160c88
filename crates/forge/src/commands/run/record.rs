//! `--record FILE`: the playbook of a run, written when it is over, however it ended.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_runtime::{Observer, Recording};
use forge_tools::Redactor;

use crate::commands::exec::open_plain;
use crate::exit::{Exit, Failure};

/// A recording that is under way, if there is one.
pub(super) struct Record {
    to: Option<(PathBuf, File)>,
    recording: Option<Arc<Recording>>,
}

impl Record {
    /// Opens the file before the run begins: a run that cannot be kept is not paid for.
    pub(super) fn begin(file: Option<&Path>) -> Result<Self, Failure> {
        let to = match file {
            None => None,
            Some(path) => {
                let opened = open_plain(path).map_err(|error| failed(path, &error))?;
                Some((path.to_owned(), opened))
            }
        };
        Ok(Record {
            to,
            recording: None,
        })
    }

    /// `watcher`, and what is recorded of what it sees.
    pub(super) fn watching(
        &mut self,
        watcher: Arc<dyn Observer>,
        redactor: Arc<Redactor>,
    ) -> Arc<dyn Observer> {
        if self.to.is_none() {
            return watcher;
        }
        let recording = Arc::new(Recording::new(watcher, redactor));
        self.recording = Some(Arc::clone(&recording));
        recording
    }

    /// Writes the playbook.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let (Some((path, mut file)), Some(recording)) = (self.to, self.recording) else {
            return Ok(());
        };
        file.write_all(recording.playbook().as_bytes())
            .map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        Exit::Negative,
        "record",
        format!("cannot record the run in {}: {error}", path.display()),
    )
}
