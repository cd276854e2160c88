//! The committer, `user.name` and `user.email` of git outside the sandbox, and the person's settings of
//! git that commands get. They have a HOME of their own, so that git would find neither there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use super::identity_files::{self, Identity};
use super::personal_git::PersonalSettings;
use crate::ambient::Ambient;
use crate::output::stderr;
use crate::setup::host_programs::HostPrograms;

/// The variables that say the same as `user.name`, and as `user.email`.
const NAME: [&str; 2] = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"];
const EMAIL: [&str; 2] = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];

/// One setting for every git in the sandbox, with git's variables for settings: `gc` and `repack` write
/// no list for servers without git (git-update-server-info(1)) into `.git/info`, which is protected.
const SETTING: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "repack.updateServerInfo"),
    ("GIT_CONFIG_VALUE_0", "false"),
];

/// Bound on git's output for each of them.
const MAX_BYTES: usize = 64 * 1024;

/// The question for the committer and the person's settings.
pub(super) enum CommitterQuestion {
    /// The files of git have answered it.
    Answered(Identity),
    /// git answers it while the command is prepared: its start takes longer than the preparation.
    Asked(Option<JoinHandle<Identity>>),
}

impl CommitterQuestion {
    /// Reads the files of git, or starts git: one of `programs`, which are looked for only then.
    pub(super) fn ask(
        directory: PathBuf,
        programs: impl Fn() -> HostPrograms,
        ambient: &Ambient,
    ) -> CommitterQuestion {
        match identity_files::read(&directory, &ambient.env, &programs) {
            Some(identity) => CommitterQuestion::Answered(identity),
            None => {
                let programs = programs();
                let git = match programs.find("git") {
                    Ok(git) => (git, programs.search_path()),
                    Err(error) => {
                        if error.is_left_out() && !ambient.global.quiet {
                            stderr::print(format_args!("note: the committer is unknown: {error}"));
                        }
                        return CommitterQuestion::Answered(Identity::default());
                    }
                };
                let asking = thread::Builder::new().name("committer".to_owned());
                let env = ambient.env.clone();
                CommitterQuestion::Asked(asking.spawn(move || ask_git(&git, &directory, &env)).ok())
            }
        }
    }

    /// Waits for the answer. git's absence is one without values.
    pub(super) fn answer(self) -> Identity {
        match self {
            CommitterQuestion::Answered(identity) => identity,
            CommitterQuestion::Asked(asked) => {
                let answered = asked.and_then(|asked| asked.join().ok());
                answered.unwrap_or_default()
            }
        }
    }
}

impl Identity {
    /// Returns the committer and [`SETTING`] as variables for git in the sandbox; none for a value that
    /// git does not know.
    pub(super) fn variables(self) -> Vec<(&'static str, String)> {
        let values = [(NAME, self.name), (EMAIL, self.email)];
        let known = values
            .into_iter()
            .filter_map(|(names, value)| Some((names, value.filter(|value| !value.is_empty())?)));
        known
            .flat_map(|(names, value)| names.map(|name| (name, value.clone())))
            .chain(SETTING.map(|(name, value)| (name, value.to_owned())))
            .collect()
    }
}

/// Returns git's answer in `directory`. `git config` reads files and runs nothing (git-config(1)).
fn ask_git(
    (program, path): &(PathBuf, String),
    directory: &Path,
    env: &[(String, String)],
) -> Identity {
    let asked = |arguments: &[&str]| {
        let mut git = Command::new(program);
        let git = git
            .env("PATH", path)
            .args(["config", "--null"])
            .args(arguments);
        let git = git.current_dir(directory).stdin(Stdio::null());
        let said = git.stderr(Stdio::null()).output().ok()?;
        let is_short = said.stdout.len() <= MAX_BYTES;
        is_short.then(|| String::from_utf8_lossy(&said.stdout).into_owned())
    };
    let own = asked(&["--get-regexp", r"^user\.(name|email)$"]).unwrap_or_default();
    let all = asked(&["--global", "--includes", "--list"]).unwrap_or_default();
    let mut identity = parse(&own);
    identity.personal = PersonalSettings::parse(&all);
    identity.personal.find_ignore_file(env);
    identity
}

/// Parses git's output.
pub(super) fn parse(text: &str) -> Identity {
    let value = |key: &str| {
        // The last one counts.
        let mut entries = text.split('\0').rev();
        let value = entries.find_map(|entry| entry.strip_prefix(key)?.strip_prefix('\n'));
        value.map(str::to_owned)
    };
    Identity {
        name: value("user.name"),
        email: value("user.email"),
        personal: PersonalSettings::default(),
    }
}
