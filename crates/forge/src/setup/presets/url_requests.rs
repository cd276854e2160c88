//! The directory through which a command asks to open URLs: programs that write a line, and the FIFO
//! that they write to.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::setup::command_dir::CommandDir;

/// A line of at most this many bytes is written as a whole (`PIPE_BUF` is 512 at least).
const OPENER: &str = "#!/bin/sh
# Asks forge to open a URL in the person's browser.
[ $# -eq 1 ] || { echo \"usage: ${0##*/} URL\" >&2; exit 2; }
printf '%s\\n' \"$1\" > \"${0%/*}/requests\"
";

/// The names by which programs call the opener of a desktop.
const NAMES: [&str; 3] = ["xdg-open", "sensible-browser", "www-browser"];

/// The requests of one command, and the origins of the URLs that it may open.
#[derive(Debug)]
pub(crate) struct UrlRequests {
    pub(crate) origins: Vec<String>,
    dir: CommandDir,
}

impl UrlRequests {
    /// Makes the directory below `state`.
    pub(super) fn create(state: &Path, origins: Vec<String>) -> io::Result<UrlRequests> {
        let dir = CommandDir::create(state, "open-urls")?;
        for name in NAMES {
            let file = dir.path().join(name);
            std::fs::write(&file, OPENER)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(UrlRequests { origins, dir })
    }

    pub(crate) fn reader(&self) -> io::Result<File> {
        self.dir.reader()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the opener.
    pub(crate) fn opener(&self) -> PathBuf {
        self.dir().join(NAMES[0])
    }
}
