//! Commands that may have written a file on which a project depends.

use std::path::Path;

use os_sandbox::{FoundFile, find_possible_writer};
use sandbox_config::{ProjectFileState, WriterFinding};

use crate::output::escape::{escape_path, shell_word};

/// Returns the command that may have made, changed or removed a file.
pub(super) fn find_writer(path: &Path, state: ProjectFileState<'_>) -> Option<WriterFinding> {
    let (found, done) = match state {
        ProjectFileState::Read(facts, content) => {
            (FoundFile::Content(facts, content), "made or changed")
        }
        ProjectFileState::Present => (FoundFile::Name, "made"),
        ProjectFileState::Absent => (FoundFile::Absent, "removed"),
    };
    let writer = find_possible_writer(path, found)?;
    let mount = escape_path(&writer.mount);
    let process = writer
        .process
        .map_or_else(String::new, |pid| format!(", forge is process {pid}"));
    let (command, help) = match writer.is_running {
        true => (
            format!("the command that runs in {mount}{process}"),
            "wait for its end: what it made is moved away then, and what it changed is put back; to go \
             on now without a project file: --no-config"
                .to_owned(),
        ),
        false => {
            let there = shell_word(&writer.mount.to_string_lossy());
            let help = format!(
                "the next command there looks for what was left: forge --no-config -C {there} exec true"
            );
            (format!("a command in {mount} that was killed"), help)
        }
    };
    let reason = format!("may have been {done} by {command}");
    Some(WriterFinding { reason, help })
}
