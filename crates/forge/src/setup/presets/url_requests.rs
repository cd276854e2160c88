//! The directory through which a command asks to open URLs: programs that write a line, and the FIFO
//! that they write to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::mkfifo;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::state::private_dirs::lock;
use crate::state::remove_contents::remove_contents;

/// A line of at most this many bytes is written as a whole (`PIPE_BUF` is 512 at least).
const OPENER: &str = "#!/bin/sh
# Asks forge to open a URL in the person's browser.
[ $# -eq 1 ] || { echo \"usage: ${0##*/} URL\" >&2; exit 2; }
printf '%s\\n' \"$1\" > \"${0%/*}/requests\"
";

/// The names by which programs call the opener of a desktop.
const NAMES: [&str; 3] = ["xdg-open", "sensible-browser", "www-browser"];

/// Beginning of the names of the directories.
const PREFIX: &str = "open-urls-";
/// The FIFO in a directory, which the opener names too.
const REQUESTS: &str = "requests";

/// The requests of one command, and the origins whose URLs it may open.
#[derive(Debug)]
pub(crate) struct UrlRequests {
    pub(crate) origins: Vec<String>,
    dir: TempDir,
    fifo: File,
}

impl UrlRequests {
    /// Makes the directory below `state`, which has no links. Removes those of forges that were
    /// killed.
    pub(super) fn create(state: &Path, origins: Vec<String>) -> io::Result<UrlRequests> {
        let state = state.canonicalize()?;
        // Until the FIFO is open this directory looks like one of a forge that was killed.
        let _lock = lock(&state, &state.join("open-urls.lock"))?;
        remove_abandoned(&state)?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(state)?;
        for name in NAMES {
            let file = dir.path().join(name);
            std::fs::write(&file, OPENER)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700))?;
        }
        let requests = dir.path().join(REQUESTS);
        mkfifo(&requests, nix::sys::stat::Mode::S_IRWXU)?;
        // Opened before the command can put something else there. With a writer of ours it has no end.
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let fifo = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(&requests)?;
        Ok(UrlRequests { origins, dir, fifo })
    }

    pub(crate) fn reader(&self) -> io::Result<File> {
        self.fifo.try_clone()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the opener.
    pub(crate) fn opener(&self) -> PathBuf {
        self.dir().join(NAMES[0])
    }
}

/// Removes the directories whose FIFO no forge reads. What cannot be removed stays.
fn remove_abandoned(state: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(state)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if !name.starts_with(PREFIX.as_bytes()) || !is_abandoned(&path.join(REQUESTS)) {
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
        let create = || UrlRequests::create(state.path(), Vec::new()).unwrap();
        let running = create();
        let UrlRequests { dir, fifo, .. } = create();
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
        for kept in [running.dir(), new.dir(), &other, &own] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}
