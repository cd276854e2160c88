//! The state directory of a caller, outside everything that a command can write: its usual place, and
//! the checks before it is used.

use crate::error::{Error, ErrorKind};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Returns the user's own state directory. `None` if no variable names an absolute path.
pub(crate) fn user_state_dir() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    match absolute("XDG_STATE_HOME") {
        Some(state) => Some(state.join("os-sandbox")),
        None => absolute("HOME").map(|home| home.join(".local/state/os-sandbox")),
    }
}

/// Prepares the directory that the caller named, or the user's own.
pub(crate) fn open_state_dir(named: Option<&Path>) -> Result<PathBuf, Error> {
    let refused = |message: String| {
        Error::new(ErrorKind::Io, message)
            .with_hint("name a state directory of this user alone (`Directories::with_state`)")
    };
    let path = named.map(Path::to_owned).or_else(user_state_dir);
    let path = path.ok_or_else(|| {
        let missing =
            "missing state directory: neither XDG_STATE_HOME nor HOME is an absolute path";
        refused(missing.to_owned())
    })?;
    prepare_state_dir(&path).map_err(|reason| {
        let path = path.display();
        refused(format!("the state directory {path}: {reason}"))
    })
}

/// Creates a missing directory, for the caller alone; refuses an existing one that others can use.
/// Returns its path without links.
pub(crate) fn prepare_state_dir(path: &Path) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err("not an absolute path".to_owned());
    }
    let failed = |error: io::Error| error.to_string();
    if path.symlink_metadata().is_err() {
        if let Some(parent) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .map_err(failed)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let meta = path.symlink_metadata().map_err(failed)?;
    if !meta.is_dir() {
        return Err("not a directory".to_owned());
    }
    if meta.uid() != geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    if meta.mode() & 0o077 != 0 {
        return Err("open to others; it must have mode 0700".to_owned());
    }
    path.canonicalize().map_err(failed)
}
