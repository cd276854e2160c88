//! The state directory of a caller, outside everything that a command can write: its usual place, and
//! the checks before it is used.

use crate::error::{Error, ErrorKind};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::geteuid;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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

/// Returns the identifier of this boot of this machine; empty if the kernel does not provide one
/// (random(4)).
pub(crate) fn boot() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    read.unwrap_or_default().trim().to_owned()
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
    prepare_state_dir(&path).map_err(|error| {
        let (path, reason) = (path.display(), error.reason());
        refused(format!("the state directory {path}: {reason}"))
    })
}

/// The reason why a directory does not become a state directory.
#[derive(Debug)]
pub(crate) enum StateDirError {
    /// It is not ours, or does not exist and cannot be created.
    Absent(String),
    /// It exists, and is not used as it is. Why no other place is used instead: under Landlock alone a
    /// command can change the modes of its user's directories, and write in the other place.
    Unsafe(String),
}

impl StateDirError {
    pub(crate) fn reason(self) -> String {
        match self {
            StateDirError::Absent(reason) | StateDirError::Unsafe(reason) => reason,
        }
    }
}

/// Creates a missing directory, for the caller alone, and closes an existing one that others can only
/// read. Returns its path without links.
pub(crate) fn prepare_state_dir(path: &Path) -> Result<PathBuf, StateDirError> {
    if !path.is_absolute() {
        return Err(StateDirError::Unsafe("not an absolute path".to_owned()));
    }
    let absent = |error: io::Error| StateDirError::Absent(error.to_string());
    let failed = |error: io::Error| StateDirError::Unsafe(error.to_string());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(closed(path, &error));
        }
        Err(_) => {
            let mut builder = DirBuilder::new();
            builder.mode(0o700);
            if let Some(parent) = path.parent() {
                builder.recursive(true).create(parent).map_err(absent)?;
            }
            match builder.recursive(false).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(absent(error));
                }
                // The umask may have removed permissions.
                Ok(()) | Err(_) => {}
            }
        }
        Ok(_) => {}
    }
    let meta = path.symlink_metadata().map_err(failed)?;
    if !meta.is_dir() {
        return Err(StateDirError::Unsafe("not a directory".to_owned()));
    }
    if meta.uid() != geteuid().as_raw() {
        return Err(StateDirError::Absent("belongs to another user".to_owned()));
    }
    let writable = "others can write in it: look at what is there, then close it (chmod 700)";
    match meta.mode() & 0o777 {
        0o700 => {}
        mode if mode & 0o022 != 0 => return Err(StateDirError::Unsafe(writable.to_owned())),
        _ => fchmodat(
            AT_FDCWD,
            path,
            Mode::S_IRWXU,
            FchmodatFlags::NoFollowSymlink,
        )
        .map_err(|errno| failed(errno.into()))?,
    }
    path.canonicalize().map_err(failed)
}

/// Returns the reason for a path that cannot be looked up: the nearest directory around it that can
/// be, is closed.
fn closed(path: &Path, error: &io::Error) -> StateDirError {
    let mut around = path.ancestors().skip(1);
    let found = around.find_map(|dir| Some((dir, dir.symlink_metadata().ok()?)));
    match found {
        Some((dir, meta)) if meta.uid() == geteuid().as_raw() => {
            let dir = dir.display();
            StateDirError::Unsafe(format!("{dir} may not be entered: open it (chmod u+x)"))
        }
        _ => StateDirError::Absent(error.to_string()),
    }
}
