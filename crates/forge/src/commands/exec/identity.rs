//! The committer: `user.name` and `user.email` of git outside the sandbox. Commands have a HOME of
//! their own, so that git would find neither there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

/// The keys, and the variables that say the same.
const KEYS: [(&str, [&str; 2]); 2] = [
    ("user.name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]),
    ("user.email", ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]),
];

/// Bound on git's output for each of them.
const MAX_BYTES: usize = 64 * 1024;

/// The question to git, which runs while the command is prepared: its start takes longer than the
/// preparation.
pub(super) struct CommitterQuestion(Option<JoinHandle<Vec<(&'static str, String)>>>);

impl CommitterQuestion {
    /// Starts git, if `directory` is in a repository.
    pub(super) fn ask(directory: PathBuf) -> CommitterQuestion {
        let mut above = directory.ancestors();
        if !above.any(|above| above.join(".git").exists()) {
            return CommitterQuestion(None);
        }
        let asking = thread::Builder::new().name("committer".to_owned());
        CommitterQuestion(asking.spawn(move || variables(&directory)).ok())
    }

    /// Waits for git's answer and returns variables for git in the sandbox.
    pub(super) fn answer(self) -> Vec<(&'static str, String)> {
        let answered = self.0.and_then(|asked| asked.join().ok());
        answered.unwrap_or_default()
    }
}

/// Returns variables for git in `directory`; none if git does not know the committer. `git config`
/// reads files and runs nothing (git-config(1)).
fn variables(directory: &Path) -> Vec<(&'static str, String)> {
    let asked = Command::new("git")
        .args(["config", "--null", "--get-regexp", r"^user\.(name|email)$"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(said) = asked else {
        return Vec::new();
    };
    if said.stdout.len() > MAX_BYTES {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let mut variables = Vec::new();
    for (key, names) in KEYS {
        // The last one counts.
        let mut values = text.split('\0').rev();
        let value = values.find_map(|entry| entry.strip_prefix(key)?.strip_prefix('\n'));
        let value = value.filter(|value| !value.is_empty());
        variables.extend(
            value
                .iter()
                .flat_map(|value| names.map(|name| (name, (*value).to_owned()))),
        );
    }
    variables
}
