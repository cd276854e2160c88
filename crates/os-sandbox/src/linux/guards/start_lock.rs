//! The commands that run, for a program that writes protected names at a person's word.
//!
//! A command that can open the directory of a new file can open the file: with any descriptor, also
//! one that a lease does not see, it writes to it under each later name. And a rename over a protected
//! name detaches the mount over it in other namespaces. So nothing is written there while a command
//! runs that the name is protected from.
//!
//! Entry point: [`StartLock`]. A start takes the same lock, shared, from before its walk until its
//! record is there; one without a record keeps it until its end.

use super::command_text::{NameFact, RecordedCommand, RecordedTop};
use super::state::{StateDir, candidates};
use crate::error::{Error, ErrorKind};
use crate::state_dir::prepare_state_dir;
use sandbox_names::fold;
use sandbox_names::git::{GitPathClass, classify};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock that no command starts beside, with the commands that run.
///
/// ```
/// # fn main() -> Result<(), os_sandbox::Error> {
/// let starts = os_sandbox::StartLock::new([])?;
/// let writers = starts.writers_of("/work/.envrc".as_ref());
/// for command in writers.filter(|command| command.guards("/work/.envrc".as_ref())) {
///     println!("process {:?} can write there", command.process());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StartLock {
    _locks: Vec<File>,
    commands: Vec<ActiveCommand>,
}

/// A command that runs, by its record.
#[derive(Debug)]
pub struct ActiveCommand {
    record: RecordedCommand,
}

impl StartLock {
    /// Waits for commands that are being started, and keeps others of this user from it.
    /// `further_states` are state directories beside the usual ones.
    ///
    /// # Errors
    /// If a start, or a command without a record, holds the lock for too long.
    pub fn new(further_states: impl IntoIterator<Item = PathBuf>) -> Result<StartLock, Error> {
        let mut locks = Vec::new();
        let mut commands = Vec::new();
        for path in candidates(None).into_iter().chain(further_states) {
            // A command records nothing there either.
            let Ok(path) = prepare_state_dir(&path) else {
                continue;
            };
            let state = StateDir::at(path);
            match state.lock_for_change() {
                Ok(Some(lock)) => locks.push(lock),
                Ok(None) => {
                    return Err(ErrorKind::Unguarded.error(
                        "a command is being started, or runs without a record of what it can write",
                    ));
                }
                // No start records anything there now.
                Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {}
                Err(error) => return Err(Error::io("starts of commands cannot be locked", error)),
            }
            let records = state.command_records();
            let running = records.filter_map(RecordedCommand::read_running);
            commands.extend(running.map(|record| ActiveCommand { record }));
        }
        Ok(StartLock {
            _locks: locks,
            commands,
        })
    }

    /// Returns the commands that run in a directory around this path, and can change it on the host.
    pub fn writers_of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a ActiveCommand> {
        let all = self.commands.iter();
        all.filter(|command| command.is_everywhere() || !command.places(path).is_empty())
    }
}

impl ActiveCommand {
    /// Returns the process that started it; `None` if its record cannot be read.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        Some(self.record.text.process).filter(|_| !self.is_everywhere())
    }

    /// Returns `true` if its record cannot be read.
    fn is_everywhere(&self) -> bool {
        self.record.text.is_unknown()
    }

    /// Returns the words of the program that started it, as far as they can be read.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let process = self
            .process()
            .map(|process| format!("/proc/{process}/cmdline"));
        let words = process
            .and_then(|path| fs::read(path).ok())
            .unwrap_or_default();
        let words = words
            .strip_suffix(b"\0")
            .unwrap_or(&words)
            .split(|byte| *byte == 0);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        // A process that has gone has none.
        words.filter(|word| !word.is_empty()).collect()
    }

    /// Returns `true` if the path is protected or hidden from the command. Patterns about contents do
    /// not count, except for files that were there at its start.
    #[must_use]
    pub fn guards(&self, path: &Path) -> bool {
        let text = &self.record.text;
        let is_there =
            |around: &Path| text.has(around, NameFact::There) || text.has(around, NameFact::Config);
        self.is_everywhere()
            || self.places(path).iter().any(|(top, place)| {
                let below = place.strip_prefix(&top.host).unwrap_or(place);
                let mut patterns = top.patterns();
                patterns.any(|pattern| !pattern.is_by_content() && pattern.covers(below))
                    || place.ancestors().any(is_there)
                    || place.ancestors().skip(1).any(|around| {
                        let is_git_dir = around.file_name().is_some_and(is_git)
                            || text.has(around, NameFact::Bare);
                        is_git_dir && place.strip_prefix(around).is_ok_and(is_obeyed)
                    })
            })
    }

    /// Returns the directories that the command can change around a path, and the path in them by the
    /// names of the record. A directory may have been moved since, or be mounted elsewhere.
    fn places(&self, path: &Path) -> Vec<(&RecordedTop, PathBuf)> {
        let identity = |path: &Path| {
            let meta = path.metadata().ok()?;
            Some((meta.dev(), meta.ino()))
        };
        let around: Vec<_> = path.ancestors().map(|one| (one, identity(one))).collect();
        let within = |top: &RecordedTop| {
            let is_top =
                |(one, identity): &&(&Path, _)| *one == top.host || *identity == Some(top.identity);
            let (found, _) = around.iter().find(is_top)?;
            Some(top.host.join(path.strip_prefix(found).ok()?))
        };
        let tops = self.record.text.tops.iter();
        tops.filter_map(|top| Some((top, within(top)?))).collect()
    }
}

fn is_git(name: &OsStr) -> bool {
    fold(&name.to_string_lossy()) == ".git"
}

/// Returns `true` for a path in a git directory that commands never write.
fn is_obeyed(below: &Path) -> bool {
    let names: Vec<String> = below
        .iter()
        .map(|name| fold(&name.to_string_lossy()))
        .collect();
    match classify(&names) {
        GitPathClass::Data | GitPathClass::GitOnly | GitPathClass::Container => false,
        GitPathClass::State | GitPathClass::Obeyed | GitPathClass::Unknown => true,
    }
}
