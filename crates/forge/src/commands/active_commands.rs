//! Commands that run while a person puts something under a protected name: they could have the new file
//! open, so it is refused until they have ended.

use std::path::Path;

use os_sandbox::{ActiveCommand, ErrorKind, StartLock};

use crate::commands::prelude::*;
use crate::output::escape::{shell_word, shortened};
use crate::setup::engine;

/// Most characters of a command line in a message.
const MAX_WORDS_CHARS: usize = 100;

/// The operation that is refused.
#[derive(Clone, Copy)]
pub(super) struct ProtectedWrite {
    pub(super) code: &'static str,
    /// Result of a refusal, after a comma.
    pub(super) outcome: &'static str,
    pub(super) hint: &'static str,
}

impl ProtectedWrite {
    /// Keeps commands from starting until the lock is dropped.
    pub(super) fn lock_starts(self, ambient: &Ambient) -> Result<StartLock, CliError> {
        StartLock::new(engine::state_dir(ambient)).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::Unguarded => self.hint,
                _ => "look at the directory `os-sandbox` in your state directory: can you write there?",
            };
            CliError::negative(self.code, format!("{error}, so {}", self.outcome)).hint(hint)
        })
    }

    /// Refuses if one of these commands runs.
    pub(super) fn check<'a>(
        self,
        path: &Path,
        mut writers: impl Iterator<Item = &'a ActiveCommand>,
    ) -> Result<(), CliError> {
        let Some(command) = writers.next() else {
            return Ok(());
        };
        let words: Vec<String> = (command.words().iter())
            .map(|word| shell_word(word))
            .collect();
        let words = match words.is_empty() {
            true => "a command".to_owned(),
            false => shortened(escape(&words.join(" ")), MAX_WORDS_CHARS),
        };
        let process = command.process();
        let process = process.map_or_else(String::new, |id| format!(" (process {id})"));
        let message = format!(
            "{} is protected, and while {words}{process} runs, it could change a new file there: {}",
            escape_path(path),
            self.outcome,
        );
        Err(CliError::negative(self.code, message).hint(self.hint))
    }
}

const WRITE: ProtectedWrite = ProtectedWrite {
    code: "project.running",
    outcome: "nothing was written",
    hint: "wait until it has ended",
};

/// Refuses a file that forge would write for a person while a command runs that is kept from its name:
/// the check after the command takes a new file for one of the command's, and moves it away.
pub(super) fn check_new_file(path: &Path, ambient: &Ambient) -> Result<(), CliError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Without the lock, the file may go to the quarantine, and comes back from there.
    let Ok(starts) = StartLock::new(engine::state_dir(ambient)) else {
        return Ok(());
    };
    let writers = starts.writers_of(&path);
    WRITE.check(&path, writers.filter(|one| one.guards(&path)))
}
