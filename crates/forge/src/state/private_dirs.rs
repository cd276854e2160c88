//! Directories made below one that a person named, or that is ours: a link on the way leads to
//! another's files, which `create_dir_all` would follow.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

/// Creates every directory of `below` in `base`, and refuses existing entries that are not
/// directories.
pub(crate) fn make_below(base: &Path, below: &Path) -> Result<()> {
    let mut dir = base.to_owned();
    for component in below.components() {
        match component {
            Component::CurDir => continue,
            Component::Normal(name) => dir.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::new(ErrorKind::InvalidInput, "it leads out of here"));
            }
        }
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let found = std::fs::symlink_metadata(&dir)?;
        if !found.is_dir() {
            let what = if found.is_symlink() {
                "a link"
            } else {
                "no directory"
            };
            let name = crate::output::escape::escape_path(dir.strip_prefix(base).unwrap_or(&dir));
            let message = format!("`{name}` is {what}");
            return Err(Error::new(ErrorKind::NotADirectory, message));
        }
    }
    Ok(())
}

/// Creates `base`, and in it every directory of `below` for this user alone, and returns the path.
/// A second writer in one of them could put other things there.
pub(crate) fn make_private(base: &Path, below: &Path) -> Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    each(base, below, |dir| {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => is_private(dir),
        }
    })
}

/// Checks the directories in the same way without creating them.
pub(crate) fn check_private(base: &Path, below: &Path) -> Result<PathBuf> {
    each(base, below, is_private)
}

fn each(base: &Path, below: &Path, look: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
    let meta = std::fs::metadata(base)?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        let message = format!("others can write in {}", base.display());
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    let mut dir = base.to_owned();
    for name in below {
        dir.push(name);
        look(&dir)?;
    }
    Ok(dir)
}

/// Refuses a directory of forge's own that is a link, has another owner or is writable by others:
/// its content counts as the user's word. A missing directory is fine.
pub(crate) fn check_own(dir: &Path) -> Result<()> {
    let meta = match std::fs::symlink_metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            // The closed directory is the nearest one above that can be looked up itself.
            let mut above = dir.ancestors().skip(1);
            let closed = above.find(|above| std::fs::symlink_metadata(above).is_ok());
            let closed = closed.unwrap_or(dir).display();
            return Err(Error::new(
                error.kind(),
                format!("cannot look into {closed}: {error}"),
            ));
        }
        Ok(meta) => meta,
    };
    let why = if meta.file_type().is_symlink() {
        "is a link"
    } else if !meta.is_dir() {
        // The code that needs it reports the error.
        return Ok(());
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        "belongs to another user"
    } else if meta.mode() & 0o022 != 0 {
        "can be written by others"
    } else {
        return Ok(());
    };
    let message = format!("{} {why}", dir.display());
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

/// Takes the lock of a file in `dir`, which is made for this user alone if it is absent. It is held
/// until the file is dropped.
pub(crate) fn lock(dir: &Path, lock: &Path) -> Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock)?;
    lock.lock()?;
    Ok(lock)
}

/// Checks that this is a directory, not a link, owned by this user, and closed to others.
pub(crate) fn is_private(dir: &Path) -> Result<()> {
    let meta = std::fs::symlink_metadata(dir)?;
    let why = if meta.file_type().is_symlink() {
        "is a link"
    } else if !meta.is_dir() {
        "is not a directory"
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        "belongs to another user"
    } else if meta.mode() & 0o077 != 0 {
        "is open to others"
    } else {
        return Ok(());
    };
    let message = format!("{} {why}", dir.display());
    Err(Error::new(ErrorKind::PermissionDenied, message))
}
