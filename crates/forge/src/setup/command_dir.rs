//! A directory of one command in the state directory, which commands see at its own path.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::unistd::mkfifo;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::state::private_dirs::lock;
use crate::state::remove_contents::remove_contents;

/// A directory, with a FIFO: its reader shows that this forge runs.
#[derive(Debug)]
pub(crate) struct CommandDir {
    dir: TempDir,
    fifo: File,
}

impl CommandDir {
    /// The FIFO in a directory.
    pub(crate) const FIFO: &str = "requests";

    /// Makes a directory below `state`, which has no links. Removes those of forges that were killed.
    pub(crate) fn create(state: &Path, prefix: &str) -> io::Result<CommandDir> {
        let state = state.canonicalize()?;
        // Until the FIFO is open this directory looks like one of a forge that was killed.
        let _lock = lock(&state, &state.join(format!("{prefix}.lock")))?;
        let prefix = format!("{prefix}-");
        remove_abandoned(&state, &prefix)?;
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(state)?;
        let fifo = dir.path().join(Self::FIFO);
        mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
        // Opened before the command can put something else there. With a writer of ours it has no end.
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let fifo = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(&fifo)?;
        Ok(CommandDir { dir, fifo })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn reader(&self) -> io::Result<File> {
        self.fifo.try_clone()
    }
}

/// Removes the directories with a FIFO that no forge reads. What cannot be removed stays.
fn remove_abandoned(state: &Path, prefix: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(state)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if !name.starts_with(prefix.as_bytes()) || !is_abandoned(&path.join(CommandDir::FIFO)) {
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        if opened.and_then(|dir| remove_contents(&dir, false)).is_ok() {
            let _ = std::fs::remove_dir(&path);
        }
    }
    Ok(())
}

/// `true` for a FIFO without a reader (fifo(7): ENXIO).
fn is_abandoned(fifo: &Path) -> bool {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(fifo);
    opened.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_forges_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let create = || CommandDir::create(state.path(), "open-urls").unwrap();
        let running = create();
        let CommandDir { dir, fifo } = create();
        let killed = dir.keep();
        drop(fifo);
        let (other, own) = (
            state.path().join("open-urls-other"),
            state.path().join("kept"),
        );
        for dir in [&other, &own] {
            std::fs::create_dir(dir).unwrap();
        }
        let new = create();
        assert!(!killed.exists());
        for kept in [running.path(), new.path(), &other, &own] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}
