//! The directories with the user's own programs, as proposals for `sandbox.programs`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandbox_config::is_version_manager;

/// Directories as `sandbox.programs` spells them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PathDirs(BTreeSet<String>);

impl PathDirs {
    /// Returns the directories needed for the programs in one directory of a `PATH`. A version
    /// manager needs its whole directory (`~/.nvm`); of other directories only the programs are
    /// shown, since keys, state and caches are beside them (`~/.cargo/bin`, `~/.claude/local`).
    pub(crate) fn of(directory: &Path, home: Option<&Path>) -> Self {
        let plain = || Self([directory.display().to_string()].into());
        let Some(home) = home else {
            return plain();
        };
        let Ok(below) = directory.strip_prefix(home) else {
            return plain();
        };
        let mut names = below.iter();
        let Some(first) = names.next().and_then(|name| name.to_str()) else {
            return plain();
        };
        let whole = format!("~/{}", below.display());
        Self(match first {
            ".cargo" => {
                let toolchains = home.join(".rustup").is_dir();
                let toolchains = toolchains.then(|| "~/.rustup".to_owned());
                [whole].into_iter().chain(toolchains).collect()
            }
            _ if is_version_manager(first) => [format!("~/{first}")].into(),
            _ => [whole].into(),
        })
    }

    /// All that a person's `PATH` has below their home directory.
    pub(crate) fn of_path(path: &str, home: &Path) -> Self {
        let below = std::env::split_paths(path)
            .filter(|directory| directory.starts_with(home) && directory != home)
            .filter(|directory| directory.is_dir());
        Self(below.flat_map(|dir| Self::of(&dir, Some(home)).0).collect())
    }

    /// The directories themselves.
    pub(crate) fn absolute(&self, home: &Path) -> Vec<PathBuf> {
        let each = self.0.iter();
        each.map(|text| match text.strip_prefix("~/") {
            Some(below) => home.join(below),
            None => PathBuf::from(text),
        })
        .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Separated by commas, as in a YAML list.
    pub(crate) fn list(&self) -> String {
        let all: Vec<&str> = self.0.iter().map(String::as_str).collect();
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proposed() {
        let home = tempfile::tempdir().unwrap();
        let list = |directory: &str| {
            let directory = home.path().join(directory);
            PathDirs::of(&directory, Some(home.path())).list()
        };
        assert_eq!(list(".cargo/bin"), "~/.cargo/bin");
        std::fs::create_dir(home.path().join(".rustup")).unwrap();
        for (directory, expected) in [
            (".cargo/bin", "~/.cargo/bin, ~/.rustup"),
            (".nvm/versions/node/v22/bin", "~/.nvm"),
            (".pyenv/shims", "~/.pyenv"),
            (".local/bin", "~/.local/bin"),
            (".claude/local", "~/.claude/local"),
            (".docker/bin", "~/.docker/bin"),
            ("bin", "~/bin"),
            ("/opt/tools/bin", "/opt/tools/bin"),
        ] {
            assert_eq!(list(directory), expected);
        }
        std::fs::create_dir_all(home.path().join("bin")).unwrap();
        let path = format!("/usr/bin:{0}/bin:{0}/gone:{0}", home.path().display());
        let found = PathDirs::of_path(&path, home.path());
        assert_eq!(found.list(), "~/bin");
    }
}
