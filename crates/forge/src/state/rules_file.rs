//! The file of the person's own rules for one project. It is replaced whole, under a lock, by exactly
//! the text that the person was shown.

use std::path::PathBuf;

use sandbox_config::PersonalRules;

use crate::exit::CliError;
use crate::install::{Scope, SettingsFile, SettingsFileError, SettingsPath};
use crate::output::escape::{escape_lines, escape_path};

/// The file of the person's rules for the project.
#[derive(Debug)]
pub(crate) struct RulesFile {
    pub(crate) project: PathBuf,
    dir: PathBuf,
    name: String,
}

impl RulesFile {
    pub(crate) fn new(project: PathBuf, dir: PathBuf) -> Self {
        let name = PersonalRules::file_name(&project);
        RulesFile { project, dir, name }
    }

    /// Returns the present text, and the text with further rules.
    pub(crate) fn addition(&self, wanted: &[String]) -> Result<(String, String), CliError> {
        let rules = self.read()?;
        let new = rules.with(&self.project, wanted)?;
        Ok((rules.text().to_owned(), new))
    }

    /// Writes exactly the text that was shown. Returns `false` if the file has changed since.
    pub(crate) fn replace(&self, old: &str, new: &str) -> Result<bool, CliError> {
        let _held = self.lock()?;
        if self.read()?.text() != old {
            return Ok(false);
        }
        self.write(new)?;
        Ok(true)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    pub(crate) fn shown(&self) -> String {
        escape_path(&self.path())
    }

    pub(crate) fn read(&self) -> Result<PersonalRules, CliError> {
        Ok(PersonalRules::read(
            &self.path(),
            &self.path().to_string_lossy(),
        )?)
    }

    pub(crate) fn lock(&self) -> Result<std::fs::File, CliError> {
        crate::state::private_dirs::lock(&self.dir, &self.dir.join(".lock"))
            .map_err(|error| self.unusable(&error))
    }

    pub(crate) fn write(&self, text: &str) -> Result<(), CliError> {
        let place = SettingsPath {
            base: self.dir.clone(),
            below: PathBuf::from(&self.name),
        };
        let target = SettingsFile::new(place, Scope::User);
        let target = target.ok_or_else(|| self.failed(&"it has no name"))?;
        let written = target
            .read()
            .and_then(|found| target.write(found.as_ref(), text));
        written.map_err(|error| match error {
            SettingsFileError::Link { .. } => self.failed(&"it is a link"),
            SettingsFileError::Changed => self.failed(&"it changed meanwhile"),
            SettingsFileError::Io(error) => self.unusable(&error),
        })
    }

    fn unusable(&self, error: &std::io::Error) -> CliError {
        CliError::own_file(self.shown(), error, "XDG_CONFIG_HOME")
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> CliError {
        let message = format!("cannot use {}: {why}", self.shown());
        CliError::state(message)
    }

    pub(crate) fn diff(&self, old: &str, new: &str) -> String {
        let path = self.path();
        let path = path.to_string_lossy();
        let from = if old.is_empty() { "(new file)" } else { &*path };
        let diff = similar::TextDiff::from_lines(old, new);
        let diff = diff.unified_diff().header(from, &path).to_string();
        escape_lines(&diff)
    }
}
