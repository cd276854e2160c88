//! Commands that may have written a file on which a project depends.

use std::path::{Path, PathBuf};

use os_sandbox::{FoundFile, find_possible_writer};
use sandbox_config::{ProjectFileState, WriterCheck, WriterFinding};

use crate::ambient::Ambient;
use crate::output::escape::escape_path;
use crate::setup::engine;

/// The commands that run, by their records.
#[derive(Debug)]
pub(super) struct WriterSearch {
    /// State directories beside the user's own.
    further_states: Vec<PathBuf>,
}

impl WriterSearch {
    pub(super) fn new(ambient: &Ambient) -> WriterSearch {
        WriterSearch {
            further_states: engine::state_dir(ambient).into_iter().collect(),
        }
    }
}

impl WriterCheck for WriterSearch {
    fn find(&self, path: &Path, state: ProjectFileState<'_>) -> Option<WriterFinding> {
        let (found, done) = match state {
            ProjectFileState::Read(facts, content) => {
                (FoundFile::Content(facts, content), "made or changed")
            }
            ProjectFileState::Present => (FoundFile::Name, "made"),
            ProjectFileState::Absent => (FoundFile::Absent, "removed"),
        };
        let writer = find_possible_writer(path, found, &self.further_states)?;
        let mount = escape_path(&writer.mount);
        let process = writer
            .process
            .map_or_else(String::new, |pid| format!(", forge is process {pid}"));
        let reason = format!("may have been {done} by the command that runs in {mount}{process}");
        let help = "wait for its end: what is new is moved to the quarantine then, where `forge quarantine \
                restore` brings it back, and what it changed is put back; to go on now without a project \
                file: --no-config"
        .to_owned();
        Some(WriterFinding { reason, help })
    }
}
