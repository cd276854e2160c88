//! The home directory that is kept for the commands of one project. Commands write in it, so every
//! path in it is resolved below the open directory: a link that a command left leads nowhere else.

use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use file_sandbox::cap_std::ambient_authority;
use file_sandbox::cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::bounded::read_bytes;
use crate::state::remove_contents::{RemovalReport, remove_contents};

/// Suffix of a command's own entry while the person's is in its place.
const ASIDE: &str = ".of-sandbox";

/// Bound on the size of a file that is copied, in bytes.
const MAX_COPY: u64 = 16 << 20;

/// An open home directory.
#[derive(Debug)]
pub(crate) struct KeptHome {
    path: PathBuf,
    directory: Dir,
}

impl KeptHome {
    /// Opens the directory at a path without links.
    pub(crate) fn open(path: PathBuf) -> Result<KeptHome> {
        let directory = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(KeptHome { path, directory })
    }

    /// Returns the files in it, with their total size.
    pub(crate) fn measure(&self) -> Result<RemovalReport> {
        let directory = OwnedFd::from(self.directory.try_clone()?.into_std_file());
        Ok(remove_contents(&directory, true)?)
    }

    sandbox_names::getters! {
        pub(crate) path: &Path = &path;
    }

    /// `true` if the link to a file or directory of the person is at `place`.
    pub(crate) fn is_attached(&self, place: &Path, own: &Path) -> Result<bool> {
        match self.directory.symlink_metadata(place) {
            Ok(found) if found.is_symlink() => Ok(self.directory.read_link_contents(place)? == own),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `true` if an entry of the commands, or none, is at `place`.
    pub(crate) fn is_detached(&self, place: &Path) -> bool {
        match self.directory.symlink_metadata(place) {
            Ok(found) => !found.is_symlink(),
            Err(_) => self
                .directory
                .symlink_metadata(with_suffix(place, ASIDE))
                .is_err(),
        }
    }

    /// Puts a link to a file or directory of the person at `place`. An entry of the commands is
    /// moved aside.
    pub(crate) fn attach(&self, place: &Path, own: &Path) -> Result<()> {
        match self.directory.symlink_metadata(place) {
            Ok(found) if found.is_symlink() => {
                if self.directory.read_link_contents(place)? == own {
                    return Ok(());
                }
                self.directory.remove_file(place)?;
            }
            Ok(_) => self.set_aside(place)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_parents(&self.directory, place)?
            }
            Err(error) => return Err(error),
        }
        self.directory.symlink_contents(own, place)
    }

    /// Copies a file of the person to `place`, as a whole, unless a file is there: the copy of an
    /// earlier command, or one of the commands.
    pub(crate) fn copy(&self, place: &Path, own: &Path) -> Result<()> {
        if self.directory.symlink_metadata(place).is_ok() {
            return Ok(());
        }
        let copied = self.write_new(place, &read_bytes(own, MAX_COPY)?);
        copied.map_err(|error| {
            let text = format!("{} in {}: {error}", place.display(), self.path.display());
            Error::new(error.kind(), text)
        })
    }

    fn write_new(&self, place: &Path, content: &[u8]) -> Result<()> {
        make_parents(&self.directory, place)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default().as_nanos();
        let new = with_suffix(place, &format!(".{}-{since}.new", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = self.directory.open_with(&new, &options)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        // A link replaces nothing that a running command has written there.
        let linked = written.and_then(|()| self.directory.hard_link(&new, &self.directory, place));
        match linked {
            // A file system without hard links.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Unsupported | ErrorKind::PermissionDenied
                ) =>
            {
                self.directory.rename(&new, &self.directory, place)
            }
            linked => {
                self.directory.remove_file(&new)?;
                linked.or_else(|error| match error.kind() {
                    ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                })
            }
        }
    }

    fn set_aside(&self, place: &Path) -> Result<()> {
        let aside = with_suffix(place, ASIDE);
        if self.directory.symlink_metadata(&aside).is_ok() {
            let why = format!(
                "{} and {} are both in {}: remove one of them",
                place.display(),
                aside.display(),
                self.path.display()
            );
            return Err(Error::new(ErrorKind::AlreadyExists, why));
        }
        self.directory.rename(place, &self.directory, aside)
    }

    /// Removes the link, and moves the entry of the commands back.
    pub(crate) fn detach(&self, place: &Path) -> Result<()> {
        let found = self.directory.symlink_metadata(place);
        if found.is_ok_and(|found| found.is_symlink()) {
            self.directory.remove_file(place)?;
        }
        let aside = with_suffix(place, ASIDE);
        let is_aside = self.directory.symlink_metadata(&aside).is_ok();
        if is_aside && self.directory.symlink_metadata(place).is_err() {
            self.directory.rename(&aside, &self.directory, place)?;
        }
        Ok(())
    }
}

/// Makes the directories above a place.
fn make_parents(directory: &Dir, place: &Path) -> Result<()> {
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => directory.create_dir_all(parent),
        Some(_) | None => Ok(()),
    }
}

fn with_suffix(place: &Path, suffix: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn home() -> (tempfile::TempDir, KeptHome) {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir_all(state.path().join("homes/p")).unwrap();
        let home = KeptHome::open(state.path().join("homes/p")).unwrap();
        (state, home)
    }

    #[test]
    fn what_commands_had_comes_back() {
        let (state, home) = home();
        let own = state.path().join("own");
        fs::create_dir(&own).unwrap();
        fs::create_dir(home.path().join(".claude")).unwrap();
        fs::write(home.path().join(".claude/a"), "of the sandbox").unwrap();
        for _ in 0..2 {
            home.attach(Path::new(".claude"), &own).unwrap();
            assert_eq!(home.path().join(".claude").read_link().unwrap(), own);
        }
        for _ in 0..2 {
            home.detach(Path::new(".claude")).unwrap();
            let text = fs::read_to_string(home.path().join(".claude/a")).unwrap();
            assert_eq!(text, "of the sandbox");
        }
    }

    #[test]
    fn a_link_that_a_command_left_leads_nowhere() {
        let (state, home) = home();
        let outside = state.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(state.path().join("own"), "x").unwrap();
        symlink(&outside, home.path().join(".config")).unwrap();
        let place = Path::new(".config/goose");
        assert!(home.attach(place, &state.path().join("own")).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn two_entries_of_commands_are_told() {
        let (state, home) = home();
        let place = Path::new(".claude");
        fs::create_dir(home.path().join(".claude")).unwrap();
        home.attach(place, state.path()).unwrap();
        // A command replaced the link.
        fs::remove_file(home.path().join(".claude")).unwrap();
        fs::create_dir(home.path().join(".claude")).unwrap();
        let why = home.attach(place, state.path()).unwrap_err().to_string();
        assert!(
            why.contains(".claude and .claude.of-sandbox are both in"),
            "{why}"
        );
    }
}
