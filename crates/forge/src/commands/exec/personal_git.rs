//! The person's settings of git that commands get: those that say how git works and what it ignores.
//! They are in a file that counts like the system's: a repository's own settings, and those that a
//! command makes, win over it (git-config(1), `GIT_CONFIG_SYSTEM`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_names::git_config::GitConfigEntry;
use sandbox_names::git_preferences;

use super::identity_files::{settings_dir, variable};
use crate::bounded;
use crate::setup::command_dir::CommandDir;

/// Bound on the file of ignored names.
const MAX_BYTES: u64 = 1 << 20;
/// The sections that commands get whole. Of others they get single keys: the rest names programs,
/// files, hosts or secrets of the person.
const SECTIONS: [&str; 6] = ["advice", "alias", "color", "column", "log", "status"];

/// The subcommands of git that make commits.
const COMMITTING: [&str; 7] = [
    "am",
    "cherry-pick",
    "commit",
    "merge",
    "pull",
    "rebase",
    "revert",
];

/// The person's settings that commands get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PersonalSettings {
    /// The lines of a configuration, each with its section.
    lines: Vec<String>,
    /// `core.excludesFile`, as it is written.
    excludes: Option<String>,
    /// The file of names that git ignores everywhere.
    ignore: Option<PathBuf>,
    /// `commit.gpgSign`. Commands do not get it: the key is outside.
    signs: Option<bool>,
}

impl PersonalSettings {
    /// Parses the output of `git config --null --list`.
    pub(super) fn parse(text: &str) -> PersonalSettings {
        let mut settings = PersonalSettings::default();
        for entry in text.split('\0') {
            let Some((name, value)) = entry.split_once('\n') else {
                continue;
            };
            let Some((section, rest)) = name.split_once('.') else {
                continue;
            };
            let (sub, key) = match rest.rsplit_once('.') {
                Some((sub, key)) => (Some(sub.to_owned()), key),
                None => (None, rest),
            };
            settings.add(GitConfigEntry {
                section: section.to_owned(),
                sub,
                key: key.to_owned(),
                value: value.to_owned(),
                line: String::new(),
            });
        }
        settings
    }

    /// Takes the values of a file that git reads later.
    pub(super) fn overwrite(&mut self, later: PersonalSettings) {
        self.lines.extend(later.lines);
        self.excludes = later.excludes.or(self.excludes.take());
        self.signs = later.signs.or(self.signs);
    }

    /// Returns a note for a person who signs commits, about a command that makes some.
    pub(super) fn note_unsigned(&self, command: &[OsString]) -> Option<&'static str> {
        let (program, arguments) = command.split_first()?;
        let is_git = Path::new(program).file_name() == Some("git".as_ref());
        let mut words = arguments.iter().filter_map(|word| word.to_str());
        let subcommand = loop {
            match words.next()? {
                // Each has a value in the next word (git(1)).
                "-C" | "-c" | "--git-dir" | "--work-tree" => drop(words.next()),
                option if option.starts_with('-') => {}
                word => break word,
            }
        };
        let commits = COMMITTING.contains(&subcommand);
        (is_git && commits && self.signs == Some(true)).then_some(
            "note: your key is outside, so commits of this command are not signed; to sign the last \
             one: git commit --amend --no-edit -S",
        )
    }

    /// Takes a value, if commands get it.
    pub(super) fn add(&mut self, entry: GitConfigEntry) {
        let name = entry.name();
        let is_plain = |text: &str| !text.contains(char::is_control);
        // A command line in an alias can hold anything of the person's.
        let is_command_line = entry.section == "alias" && entry.value.starts_with('!');
        if !is_plain(&entry.value) || !is_plain(&name) || is_command_line {
            return;
        }
        if name == "core.excludesfile" {
            self.excludes = Some(entry.value);
        } else if name == "commit.gpgsign" {
            let is_true = |word| entry.value.eq_ignore_ascii_case(word);
            self.signs = Some(["true", "yes", "on", "1"].into_iter().any(is_true));
        } else if SECTIONS.contains(&entry.section.as_str())
            || git_preferences::KEYS.contains(&name.as_str())
        {
            let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            let sub = entry.sub.map(|sub| format!(" \"{}\"", quoted(&sub)));
            self.lines.push(format!(
                "[{}{}]\n\t{} = \"{}\"\n",
                entry.section,
                sub.unwrap_or_default(),
                entry.key,
                quoted(&entry.value)
            ));
        }
    }

    /// Finds the file of ignored names: `core.excludesFile`, or else git's own place for it.
    pub(super) fn find_ignore_file(&mut self, env: &[(String, String)]) {
        let named = self.excludes.as_deref().map(|text| {
            let home = text.strip_prefix("~/").zip(variable(env, "HOME"));
            home.map_or_else(
                || PathBuf::from(text),
                |(rest, home)| Path::new(home).join(rest),
            )
        });
        let usual = || Some(settings_dir(env)?.join("ignore"));
        let file = named.or_else(usual);
        self.ignore = file.filter(|file| file.is_absolute() && file.is_file());
    }
}

/// The files with a person's settings, for one command.
#[derive(Debug)]
pub(super) struct PersonalGit {
    dir: CommandDir,
}

impl PersonalGit {
    const CONFIG: &str = "config";

    /// Writes the files below `state`. `None` without settings.
    pub(super) fn create(
        settings: &PersonalSettings,
        state: &Path,
    ) -> io::Result<Option<PersonalGit>> {
        let ignored = settings.ignore.as_deref();
        let ignored = ignored.map(|file| bounded::read_text(file, MAX_BYTES));
        // git goes on as well without a file that it cannot read.
        let ignored = ignored.and_then(Result::ok);
        if settings.lines.is_empty() && ignored.is_none() {
            return Ok(None);
        }
        let dir = CommandDir::create(state, "git-settings")?;
        let mut config = "[include]\n\tpath = /etc/gitconfig\n".to_owned();
        config.extend(settings.lines.iter().map(String::as_str));
        if let Some(ignored) = ignored {
            let file = dir.path().join("ignore");
            std::fs::write(&file, ignored)?;
            let _ = writeln!(config, "[core]\n\texcludesFile = \"{}\"", file.display());
        }
        std::fs::write(dir.path().join(Self::CONFIG), config)?;
        Ok(Some(PersonalGit { dir }))
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the variable by which git finds the settings.
    pub(super) fn variable(&self) -> (&'static str, String) {
        let file = self.dir().join(Self::CONFIG);
        ("GIT_CONFIG_SYSTEM", file.display().to_string())
    }
}
